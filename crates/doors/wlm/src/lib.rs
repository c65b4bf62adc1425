//! Workload managers: detection on a host, pinfold's hooks, the configuration lines that enable the hooks, and
//! identification of jobs by their environment.
//!
//! Reading order: [`manager`] (the managers), [`environment`] (a job's name, cores and memory by its environment),
//! [`hooks`] (the hook files, as texts), [`settings`] (the lines of configuration), [`block`] (adding lines to a file
//! and removing them), [`detect`] (present and missing parts), [`references`]
//! (configuration that names the hooks), [`sync`] (messages to a manager). Absent here: files,
//! programs and processes: the caller reads, runs and writes.

pub mod block;
pub mod detect;
pub mod environment;
pub mod hooks;
pub mod manager;
pub mod references;
pub mod settings;
pub mod sync;

pub use environment::{Dispatched, identify};
pub use hooks::{Hook, Place, hooks};
pub use manager::Manager;
