//! From what is wanted of a job to the actions that bring it about.

pub mod drift;
pub(crate) mod pending;
pub(crate) mod reconcile;
