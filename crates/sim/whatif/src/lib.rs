//! What would have become of jobs on hosts that run pinfold: a workload manager's dispatch over hosts, each of which
//! decides with the very [`pinfold_policy::Policy`] that the daemon runs.
//!
//! A host goes from event to event, not from tick to tick: between two of them each job computes at a constant speed
//! and memory grows along straight lines. That is coarser than the world of `pinfold-sim`, which is there to find
//! mistakes of the policy, and some thousand times faster.
//!
//! Reading order: [`list`] and [`wfinstance`] (what is played, beside logs), [`settings`] (from the daemon's
//! configuration to a host's), `memory` (what a host's memory does), [`contention`]
//! (what jobs of a host cost each other beside that), `host` (a host and its policy), [`play`] (the events
//! of a cluster of them).
//!
//! Absent here: files, clocks, threads, random numbers, hash order.

pub mod contention;
mod host;
pub mod list;
mod memory;
pub mod play;
pub mod settings;
pub mod wfinstance;
