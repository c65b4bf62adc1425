//! The judgement: which job runs now, on which cores, in which class.
//!
//! One function, [`Policy::step`], takes an event and the time and answers with decisions, each an action
//! and its reason. Reading order: [`settings`], [`event`] (what can happen), [`action`] (what can be done,
//! and why), [`job`] (what is known of each job), [`policy`] (the state and its events), then the private
//! modules: `queue` (who is next), `holders` (who has a slot), `cores` (who is where), `choice` (which cores a job
//! gets), `asides` (cores that are set aside, and the jobs on them), [`isolation`] (whose cores are its alone), `borders`
//! (jobs that may not go beyond certain PUs), `machine` (when it changes), `arrays` (how many members of an array may have
//! started), `ageing` (who waited too long), `rules` (what follows from it), `chunks` (on which NUMA nodes their memory may
//! lie), `moves` (where backfillers go), `protect` (how many there may be), `interference` (who of them stands in a
//! primary's way), `repack` (who makes room for a wider job), `shapes` and `trials` (who lies close together and who
//! apart), `memory`, `governor`, `ahead`, `safety`, `cold`, `early`, `slow`, `checkpoint`, `requeue`, `returns` and `claims`
//! (who waits, starts early, gets on without, is slowed, stands still, returns and begins anew for want of memory),
//! `projects` (who has a right to cores and memory, and who gives them back), `carry` (from what is wanted to what must be
//! asked for), `lengths` (how long jobs like one took), `adopt` (after a restart), `explain` (in words). [`drift`] stands by
//! itself: what to do when another program changes what was asked of the kernel.
//!
//! Absent here: files, clocks, threads, random numbers, hash order. The daemon and the simulator call the
//! same code, and the same events give the same decisions byte for byte.

pub mod action;
mod adopt;
mod ageing;
mod ahead;
mod arrays;
mod asides;
#[cfg(test)]
mod audit;
mod best_effort;
mod borders;
mod carry;
mod checkpoint;
mod choice;
mod chunks;
pub mod claims;
pub mod code;
mod cold;
mod cores;
pub mod drift;
mod early;
pub mod even;
mod event;
mod explain;
mod governor;
mod holders;
mod interference;
pub mod isolation;
pub mod job;
pub mod lengths;
mod machine;
pub mod memory;
mod moves;
pub mod policy;
mod projects;
mod protect;
mod queue;
mod remembered;
mod repack;
mod requeue;
mod returns;
mod rules;
mod safety;
pub mod settings;
mod shapes;
mod slow;
pub mod time;
pub mod trials;

pub use action::{Action, Decision, Explanation, Reason};
pub use chunks::ChunkInfo;
pub use event::{
    Adopted, ArrayLimit, Aside, Command, Event, Machine, NodeMemory, Place, Request, Running, Sample, Wish,
};
pub use governor::{FULL_FOR, PATIENCE};
pub use job::{FrozenBy, JobInfo, Lay, State};
pub use memory::{Claim, JobMemory, Kind, MemorySample, MemorySettings};
pub use pinfold_place::pack::{Level, Shape};
pub use policy::Policy;
pub use projects::Holding;
pub use requeue::REQUEUES_MAX;
pub use settings::{Preemption, Project, Settings};
pub use slow::SLOW_FOR;
pub use time::Instant;
pub use trials::{Gain, Known, Ran};

/// A job's number: 1, 2, 3 ... never used again on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

impl std::fmt::Display for JobId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The class a job runs in, which decides how the kernel shares a core between it and others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// The normal class, on home cores that no other primary has.
    Primary,
    /// The idle class: runs in the cycles that primaries leave on the cores around the one where it was put.
    Backfill,
    /// The normal class, with every slot of the host to itself.
    Exclusive,
}
