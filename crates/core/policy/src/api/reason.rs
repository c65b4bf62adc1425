//! Why the scheduler asks for something, with the figures behind it. What each room says has its words, its code and its
//! figures in a file of its own.
//!
//! By room: `slots`, `cores`, `queue`, `memory`, `share`, `user`, `again` (after a restart or failure); `causes`
//! names causes.

mod again;
mod causes;
mod cores;
mod memory;
mod queue;
mod share;
mod slots;
mod user;

use std::fmt;

pub use again::AgainReason;
pub use causes::{MemoryBinding, Unthrottled};
pub use cores::CoreReason;
pub use memory::MemoryReason;
pub(crate) use memory::mib;
pub use queue::QueueReason;
pub use share::ShareReason;
pub use slots::SlotReason;
pub use user::UserReason;

use crate::api::code::Figure;

/// Why something was decided, with the numbers behind it. `Display` gives the sentence people read.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Reason {
    /// Slots.
    Slot(SlotReason),
    /// Which cores a job has.
    Core(CoreReason),
    /// The queue.
    Queue(QueueReason),
    /// Users and operators.
    User(UserReason),
    /// What was before: a restart, an earlier run, a try that failed.
    Again(AgainReason),
    /// What is whose.
    Share(ShareReason),
    /// Memory.
    Memory(MemoryReason),
}

impl Reason {
    /// A user or operator asked for it.
    pub const ASKED: Self = Self::User(UserReason::Asked);

    /// The reason's code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.parts().0
    }

    /// Its figures.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        self.parts().1
    }

    fn parts(&self) -> (&'static str, Vec<Figure>) {
        match self {
            Self::Slot(reason) => reason.parts(),
            Self::Core(reason) => reason.parts(),
            Self::Queue(reason) => reason.parts(),
            Self::User(reason) => reason.parts(),
            Self::Again(reason) => reason.parts(),
            Self::Share(reason) => reason.parts(),
            Self::Memory(reason) => reason.parts(),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slot(reason) => reason.fmt(f),
            Self::Core(reason) => reason.fmt(f),
            Self::Queue(reason) => reason.fmt(f),
            Self::User(reason) => reason.fmt(f),
            Self::Again(reason) => reason.fmt(f),
            Self::Share(reason) => reason.fmt(f),
            Self::Memory(reason) => reason.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
