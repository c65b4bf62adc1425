//! What is due against a shortage, and what ends it: the steps of the ladder (`relieve` says when a job is frozen),
//! which are taken by `schedule::relieve`.
//!
//! Rungs, the first first: `throttle`, `probe`, `page_out`, `freeze` (chosen by `relieve`), `checkpoint`,
//! `requeue`; `resume` goes back; `overcommit` follows early starts; `step` is a step as data.

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
