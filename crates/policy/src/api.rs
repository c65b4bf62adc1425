//! What the scheduler is told and what it answers: plain data, with codes and figures for programs and words for people.

mod action;
mod causes;
pub mod code;
mod event;
mod ids;
mod info;
mod memory;
mod reason;
mod settings;
mod time;

pub use action::{Action, Decision};
pub use causes::{MemoryBinding, Unthrottled};
pub use event::{
    Adopted, ArrayLimit, Aside, Command, Event, Machine, NodeMemory, Place, Ran, Request, Running, Sample,
    Wish,
};
pub use ids::{Class, JobId};
pub use info::{ChunkInfo, Explanation, FrozenBy, Holding, JobInfo, Lay, State};
pub(crate) use memory::Key;
pub use memory::{Claim, JobMemory, Kind, MemorySample, MemorySettings};
pub use reason::Reason;
pub(crate) use reason::mib;
pub use settings::{Preemption, Project, Settings};
pub use time::Instant;
