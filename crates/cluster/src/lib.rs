//! A cluster as a workload manager sees it: a log of jobs, a pool of processors, a rule that dispatches, and figures of
//! what came of it.
//!
//! Reading order: [`swf`] (a log's lines), [`job`] (a job, and which jobs of a log are played), [`runtimes`] (how long
//! the dispatcher believes that a job takes), [`dispatch`] (the rules), [`play`] (the events), [`metrics`].
//!
//! Absent here: files, clocks, threads, random numbers, hash order. The same log under the same rule gives the same
//! starts on every run. Absent as well: single hosts, memory, and what a host does with a job that it got.

pub mod dispatch;
mod free;
pub mod job;
mod line;
pub mod metrics;
pub mod play;
pub mod runtimes;
pub mod swf;

/// Simulated time and durations, in whole seconds: the unit of job logs. Times count from the log's own beginning.
pub type Seconds = u64;
