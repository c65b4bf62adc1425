//! Reaching a daemon, for programs that talk to one: `pinfold` and the commands in Slurm's words.
//!
//! Reading order: [`dial`] (the socket, the first words, a private daemon where none runs), [`failure`] (how a command
//! fails), `occupied` (a daemon that has the state and listens elsewhere), [`accepted`] (the number of an accepted job is
//! told), [`outputs`] (files that jobs write to). Absent here: what is asked.

pub mod accepted;
pub mod dial;
pub mod failure;
mod occupied;
pub mod outputs;

pub use dial::{Client, Dial, Greeting, NO_AUTOSTART, Welcome, unexpected};
pub use failure::Failure;
