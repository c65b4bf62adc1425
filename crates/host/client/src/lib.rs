//! Connects to a daemon, for `pinfold` and for the commands in Slurm's words.
//!
//! Reading order: [`dial`] (the socket, the greeting, a private daemon if no daemon runs), [`failure`] (the failure
//! of a command), `occupied` (a daemon with the same state on another socket), [`accepted`] (report of an accepted
//! job), [`outputs`] (output files of jobs). Absent here: the requests.

pub mod accepted;
pub mod dial;
pub mod failure;
mod occupied;
pub mod outputs;

pub use dial::{Client, Dial, Greeting, NO_AUTOSTART, Welcome, unexpected};
pub use failure::Failure;
