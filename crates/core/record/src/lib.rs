//! What the scheduler was told and what it decided, kept in files and played again.
//!
//! The scheduler is a function of its events, so a file that begins with its state and goes on with its events holds every
//! decision: whoever plays it sees the same ones, or the first that differs, which is then a fault report in one file.
//!
//! Reading order: [`frame`] (what a file consists of), [`write`] and [`read`] (one file), [`ring`] (the files of a host,
//! bounded), [`keep`] (the daemon's end: a thread writes, the loop never waits), [`play`] (plays a file), [`tell`] (what that says), [`mask`] (takes
//! names out). Absent here: the daemon's socket, and words for people.

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
