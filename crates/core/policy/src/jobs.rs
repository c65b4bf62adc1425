//! What is known of each job, and the table of all of them.
//!
//! `table` (all jobs), `job` (one), `phase` (its life as one enum), `changes` (each change by name), `transition`
//! (changes that concern other rooms), `footprint` and `cold` (memory), `places` (standing in lists), `remembered`
//! (classes).

mod changes;
mod cold;
mod footprint;
mod job;
mod phase;
mod places;
mod remembered;
mod table;
mod transition;

pub(crate) use changes::{Fired, Grace, Slots, Wanted};
pub(crate) use cold::REST as COLD_REST;
pub(crate) use footprint::{WORTH_BYTES, bucket, bucket_ceiling, grown};
pub use job::REQUEUES_MAX;
pub(crate) use job::{Applied, Attempt, Failure, Job, Live, RETRY, Rebalance, Stage, Waiting};
pub(crate) use phase::{Phase, SuspendReason};
pub(crate) use places::{ByArrival, ByLength, Demand, Entry, Key, Lowest, PoolIds, Promotable};
pub(crate) use remembered::Remembered;
pub(crate) use table::JobTable;
pub(crate) use transition::Transition;
