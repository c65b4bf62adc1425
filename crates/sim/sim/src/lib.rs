//! A simulated host around the policy that the daemon runs: the same [`pinfold_policy::Policy`], a world
//! that computes instead of waiting, and faults.
//!
//! Reading order: [`dice`] (all random numbers come from a single seed), [`swarm`] (the options of an episode, each drawn
//! from the seed), [`world`] (jobs that compute, the kernel's containers), [`host`] (executes actions, writes its disk,
//! fails and crashes), [`ledger`] (requests, kept apart from the policy), [`checks`] (invariants after every step),
//! [`episode`] (a seed's history), [`mutant`] (deliberate mistakes that the checks must find), [`shrink`] (reduces a
//! failing episode), `tally` (a hash of the decisions). [`host`] includes isolated jobs and other programs that change the
//! kernel's settings. Leaves that the others share: `violation` (a broken promise), `only` (a part of an episode), `alone`
//! (isolated cores), `setting` (settings of jobs' groups).
//!
//! [`pressure`] is a second host, with memory and swap instead of users and changing cores, and [`nodes`] a third, with
//! NUMA nodes.
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
