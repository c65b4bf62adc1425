//! Process numbers that are used again between a request and the start that it leads to.
