//! The proof of the memory governor: the same policy on a host whose memory does not suffice.
//!
//! Reading order: [`footprint`] (what jobs hold over their progress), [`body`] (what they want of the host), [`world`] (RAM, swap, and what the kernel does
//! when both are full), [`options`] (drawn from the seed), `host` and `readings` (the daemon's part: what it
//! reads, learns and carries out, and how it dies), [`books`] (what each decision must keep), `shares` (memory that is a project's own), [`episode`] (the course, and what must hold at its
//! end), [`mutant`] (mistakes made on purpose), [`toy`] (what the governor is measured by: a model of its own).
//!
//! Absent: classes, users' commands but suspension, cores that come and go, failed starts: the other episodes have
//! these.

pub mod body;
pub mod books;
pub mod episode;
pub mod footprint;
mod host;
pub mod mutant;
pub mod options;
mod readings;
mod shares;
pub mod toy;
pub mod world;

pub use episode::{Failure, Outcome, run, run_only, run_with, shrink};
pub use mutant::Mutant;
pub use options::{Options, Regime};
