//! What is due against a shortage, and what ends it: the steps of the ladder (`relieve` says when a job is frozen),
//! which are taken by `schedule::relieve`.

pub(crate) mod checkpoint;
pub(crate) mod freeze;
pub(crate) mod overcommit;
pub(crate) mod page_out;
pub(crate) mod probe;
pub(crate) mod relieve;
pub(crate) mod requeue;
pub(crate) mod resume;
pub(crate) mod step;
pub(crate) mod throttle;
