//! What the scheduler is told and what it answers: plain data, with codes and figures for programs and words for people.

mod action;
mod causes;
pub mod code;
mod event;
mod ids;
mod info;
mod memory;
mod memory_reason;
mod reason;
mod resource;
mod settings;
mod share_reason;
mod time;

pub use action::{Action, Decision};
pub use causes::{MemoryBinding, Unthrottled};
pub use event::{
    Adopted, ArrayLimit, Aside, Command, Event, Machine, NodeMemory, Place, Ran, Request, Running, Sample,
    Wish,
};
pub use ids::{Class, JobId};
pub use info::{ChunkInfo, Explanation, FrozenBy, Holding, JobInfo, Lay, Number, State};
pub(crate) use memory::Key;
pub use memory::{Claim, EVIDENCE_RUNS, JobMemory, Kind, MemorySample, MemorySettings};
pub use memory_reason::MemoryReason;
pub(crate) use memory_reason::mib;
pub use reason::Reason;
pub use resource::Amount;
pub use settings::{Preemption, Project, Settings};
pub use share_reason::ShareReason;
pub use time::Instant;
