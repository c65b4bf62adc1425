//! Workload managers: which of them are on a host, what pinfold's hooks are there, which lines of configuration make them
//! take these, and whose job an environment belongs to.
//!
//! Reading order: [`manager`] (the managers), [`environment`] (a job's name, cores and memory by its environment), [`hooks`]
//! (the files that are installed, as texts), [`settings`] (the lines of configuration), [`block`] (how these get into a file
//! and out of it again), [`detect`] (what is here and what is missing), [`sync`] (what a
//! manager is kept told). Absent here: any file, program or process: the
//! caller reads, runs and writes.

pub mod block;
pub mod detect;
pub mod environment;
pub mod hooks;
pub mod manager;
pub mod settings;
pub mod sync;

pub use environment::{Dispatched, identify};
pub use hooks::{Hook, Place, hooks};
pub use manager::Manager;
