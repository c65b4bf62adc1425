//! A simulated host around the policy that the daemon runs: the same [`pinfold_policy::Policy`], a world
//! that computes instead of waiting, and faults.
//!
//! Reading order: [`dice`] (all chance comes from one seed), [`swarm`] (the options of an episode, each drawn
//! from the seed), [`world`] (jobs that compute, the kernel's containers), [`host`] (carries actions out,
//! writes its disk, fails and crashes), [`ledger`] (what was asked for, kept apart from the policy),
//! [`checks`] (what must hold after every step), [`episode`] (one seed, one history), [`mutant`] (mistakes
//! made on purpose, to see that the checks find them), [`shrink`] (a failing episode is cut down to what it needs),
//! `tally` (what was decided, as a hash). Parts of [`host`] are jobs that have cores to themselves and other
//! programs that change what was asked of the kernel. Leaves that the others share: `violation` (a broken promise), `only`
//! (a part of an episode), `alone` (cores of single jobs), `setting` (settings of jobs' groups).
//!
//! [`pressure`] is a second host, with memory and swap in place of users and cores that come and go, and [`nodes`] a third,
//! whose memory lies on NUMA nodes.
//!
//! Absent: real time, threads, files, the real kernel.

mod alone;
pub mod checks;
pub mod dice;
pub mod episode;
pub mod host;
pub mod ledger;
pub mod mutant;
pub mod nodes;
mod only;
pub mod pressure;
mod setting;
pub mod shrink;
pub mod swarm;
mod tally;
mod violation;
pub mod world;

pub use episode::{Failure, Outcome, run, run_only, shrink};
pub use mutant::Mutant;
pub use only::Only;
pub use swarm::Options;
pub use violation::Violation;
