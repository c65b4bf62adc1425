//! A cluster as a workload manager sees it: a list of jobs, hosts, a rule that dispatches, and the resulting figures.
//!
//! Reading order: [`swf`] (a log's lines), [`job`] (a job, and the filter of a log's jobs), [`graph`] (jobs that wait for
//! others), [`fleet`] (the hosts), [`runtimes`] (the dispatcher's estimates of run times), [`dispatch`] (the rules),
//! `hosts`, `wanted`, `line`, `lane` and `plan` (the state that the rules read), [`play`] (the events), [`metrics`].
//!
//! Absent here: files, clocks, threads, random numbers, hash order. The same jobs under the same rule give the same starts
//! on every run. Absent as well: the behaviour of a host with its jobs.

pub mod dispatch;
pub mod fleet;
pub mod graph;
mod hosts;
pub mod job;
mod lane;
mod line;
pub mod metrics;
mod plan;
pub mod play;
pub mod runtimes;
pub mod swf;
mod wanted;

/// Simulated time and durations, in microseconds. Times count from the list's own beginning.
pub type Micros = u64;

/// A second.
pub const SECOND: Micros = 1_000_000;
