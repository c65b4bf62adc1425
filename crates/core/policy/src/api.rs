//! What the scheduler is told and what it answers: plain data, with codes and figures for programs and words for people.
//!
//! In: `event`, `settings`, `time`, `ids`, `resource`, `memory`. Out: `action`, `reason` (words), `code` (codes
//! and figures), `info` (answers to questions).

mod action;
pub mod code;
mod event;
mod ids;
mod info;
mod memory;
mod reason;
mod resource;
mod settings;
mod time;

pub use action::{Action, Decision};
pub use event::{
    Adopted, ArrayLimit, Aside, Command, Event, Machine, NodeMemory, Place, Ran, Request, Running, Sample,
    Wish,
};
pub use ids::{Class, JobId};
pub use info::{ChunkInfo, Explanation, FrozenBy, Holding, JobInfo, Lay, Number, State};
pub(crate) use memory::Key;
pub use memory::{Claim, EVIDENCE_RUNS, JobMemory, Kind, MemorySample, MemorySettings};
pub(crate) use reason::mib;
pub use reason::{
    AgainReason, CoreReason, MemoryBinding, MemoryReason, QueueReason, Reason, ShareReason, SlotReason,
    Unthrottled, UserReason,
};
pub use resource::Amount;
pub use settings::{Preemption, Project, Settings};
pub use time::Instant;
