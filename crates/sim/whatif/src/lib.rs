//! Simulated clusters of hosts that run pinfold: a workload manager's dispatch over hosts, each of which decides by the
//! daemon's own [`pinfold_policy::Policy`].
//!
//! A host goes from event to event, not from tick to tick: in between each job computes at a constant speed and memory
//! grows linearly. That is coarser than the world of `pinfold-sim`, which serves to find mistakes of the policy, and some
//! thousand times faster.
//!
//! Reading order: [`list`] and [`wfinstance`] (inputs beside logs), [`settings`] (from the daemon's configuration to a
//! host's), `memory` (a host's memory), [`contention`] (slowdown of jobs on the same host beside that), `host` (a host and
//! its policy), [`play`] (the events of a cluster).
//!
//! Absent here: files, clocks, threads, random numbers, hash order.

pub mod contention;
mod host;
pub mod list;
mod memory;
pub mod play;
pub mod settings;
pub mod wfinstance;
