//! The judgement: which job runs now, on which cores, in which class.
//!
//! One function, [`Policy::step`], takes an event and the time and answers with decisions, each an action
//! and its reason. Reading order: [`settings`], [`event`] (what can happen), [`action`] (what can be done,
//! and why), [`job`] (what is known of each job), [`policy`] (the rules).
//!
//! Absent here: files, clocks, threads, random numbers, hash order. The daemon and the simulator call the
//! same code, and the same events give the same decisions byte for byte.

pub mod action;
pub mod event;
pub mod policy;
pub mod settings;
pub mod time;

pub use action::{Action, Decision, Explanation, Reason};
pub use event::{Adopted, Command, Event, Machine, Request, Sample};
pub use policy::Policy;
pub use settings::{Preemption, Settings};
pub use time::Instant;

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
    /// The idle class, pinned: runs in the cycles that primaries leave.
    Backfill,
    /// The normal class, with every slot of the host to itself.
    Exclusive,
}
