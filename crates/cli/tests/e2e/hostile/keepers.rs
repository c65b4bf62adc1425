//! Keepers that are stopped, that are of another version, or that leave much behind for the next daemon.
