//! Cores that are set aside by users without rights.
