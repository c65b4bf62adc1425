//! A simulated host around the judgement that the daemon runs: the same [`pinfold_policy::Policy`], a world
//! that computes instead of waiting, and faults.
//!
//! Reading order: [`dice`] (all chance comes from one seed), [`swarm`] (the options of an episode, each drawn
//! from the seed), [`world`] (jobs that compute, the kernel's containers), [`daemon`] (carries actions out,
//! writes its disk, fails and crashes), [`ledger`] (what was asked for, kept apart from the judgement),
//! [`checks`] (what must hold after every step), [`episode`] (one seed, one history), [`mutant`] (mistakes
//! made on purpose, to see that the checks find them), [`shrink`] (a failing episode is cut down to what it needs),
//! [`tally`] (what was decided, counted). `isolated` and `meddling` are parts of [`daemon`]: jobs that have cores to
//! themselves, and other programs that change what was asked of the kernel.
//!
//! [`pressure`] is a second host, with memory and swap in place of users and cores that come and go, and [`nodes`] a third,
//! whose memory lies on NUMA nodes.
//!
//! Absent: real time, threads, files, the real kernel.

pub mod checks;
pub mod daemon;
pub mod dice;
pub mod episode;
mod isolated;
pub mod ledger;
mod meddling;
pub mod mutant;
pub mod nodes;
pub mod pressure;
pub mod shrink;
pub mod swarm;
pub mod tally;
pub mod world;

pub use checks::Violation;
pub use episode::{Failure, Outcome, run, run_only, shrink};
pub use mutant::Mutant;
pub use shrink::Only;
pub use swarm::Options;
