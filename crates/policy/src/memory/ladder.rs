//! What is done against a shortage, and what ends it: the steps of the ladder and the order in which they are taken
//! (`relieve`); which job holds the token (`token`), and which ones resume (`resume`).

mod checkpoint;
mod freeze;
mod overcommit;
mod page_out;
mod probe;
mod relieve;
mod requeue;
mod resume;
mod step;
mod throttle;
mod token;

pub(crate) use checkpoint::{cancel_requeue, checkpointed};
pub(crate) use freeze::freeze;
pub(crate) use overcommit::{note_overcommit, watch_overcommit};
pub(crate) use relieve::relieve;
pub(crate) use requeue::requeue_on_request;
pub(crate) use resume::{resume, resume_frozen};
pub(crate) use throttle::{throttle_failed, update_throttles};
pub(crate) use token::{choose_token, wait_for_memory};
