//! The test of the memory governor: the same policy on a host with too little memory.
//!
//! Reading order: [`footprint`] (jobs' memory over their progress), [`body`] (their demands on the host), [`world`] (RAM,
//! swap, and the kernel when both are full), [`options`] (drawn from the seed), `host` and `readings` (the daemon's part:
//! readings, learning, execution, crashes), [`books`] (invariants of each decision), `shares` (projects' own memory),
//! [`episode`] (the course, and the conditions at its end), [`mutant`] (deliberate mistakes), [`toy`] (a model of its own
//! as the governor's yardstick).
//!
//! Absent: classes, users' commands but suspension, cores that come and go, failed starts: the other episodes have these.

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
