//! Records the scheduler's events and decisions in files, and replays recordings.
//!
//! The scheduler is a function of its events, so a file with its state and its later events holds every decision. A
//! replay yields the same decisions, or the first difference: a fault report in a single file.
//!
//! Reading order: [`frame`] (format of a file), [`write`] and [`read`] (a single file), [`ring`] (the bounded files
//! of a host), [`keep`] (the daemon's side: a thread writes, the event loop never waits), [`play`] (replay), [`tell`]
//! (the replay's results), [`mask`] (removes names). Absent here: the daemon's socket, and messages for users.

pub mod frame;
pub mod keep;
pub mod mask;
pub mod play;
pub mod read;
pub mod ring;
pub mod tell;
pub mod write;

pub use frame::{Frame, Head};
pub use read::RecordError;
