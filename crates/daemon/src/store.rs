//! What is on disk: the journal of the job store, the numbers of jobs, kept starts, and the state directory.

pub(crate) mod journal;
pub(crate) mod numbers;
pub(crate) mod starts;
pub(crate) mod state_dir;
