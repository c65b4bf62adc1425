//! The scheduler: which job runs now, on which cores, in which class.
//!
//! One function, [`Policy::step`], takes an event and the time and answers with decisions, each an action and its reason.
//! Reading order: `api` (what can happen, what can be done, and why), `jobs` (what is known of each job), `step` (who is asked
//! about an event), `schedule` (the pass that follows each), then the room that matters: `queue`, `cores`, `memory`, `shares`.
//! `apply` asks for the difference between what is wanted and what was applied, `explain` says why a job is as it is.
//!
//! Uses go down, but for a list that only shrinks (`tools/xtask/ceilings.toml`): step, explain (which reads all), schedule,
//! memory, shares, queue, cores, apply, jobs, api.
//!
//! Absent here: files, clocks, threads, random numbers, hash order. The daemon and the simulator call the
//! same code, and the same events give the same decisions byte for byte.

mod api;
mod apply;
#[cfg(test)]
mod audit_tests;
mod cores;
mod explain;
mod jobs;
mod memory;
mod queue;
mod rooms;
mod schedule;
mod shares;
mod step;

pub use api::code;
pub use api::{
    Action, Adopted, AgainReason, Amount, ArrayLimit, Aside, ChunkInfo, Claim, Class, Command, CoreReason,
    Decision, EVIDENCE_RUNS, Event, Explanation, FrozenBy, Holding, Instant, JobId, JobInfo, JobMemory, Kind,
    Lay, Machine, MemoryBinding, MemoryReason, MemorySample, MemorySettings, NodeMemory, Number, Place,
    Preemption, Project, QueueReason, Ran, Reason, Request, Running, Sample, Settings, ShareReason,
    SlotReason, State, Unthrottled, UserReason, Wish,
};
pub use apply::drift;
pub use cores::isolation;
pub use cores::trials::{Gain, Known};
pub use explain::Unforeseen;
pub use jobs::REQUEUES_MAX;
pub use memory::claims;
pub use memory::room::{FULL_FOR, PATIENCE};
pub use memory::throttled::SLOW_FOR;
pub use pinfold_place::pack::{Level, Shape};
pub use queue::lengths;
pub use step::Policy;
