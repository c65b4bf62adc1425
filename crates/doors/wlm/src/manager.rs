//! The workload managers that pinfold has hooks for.

use std::fmt;
use std::str::FromStr;

/// A workload manager; [`Manager::Generic`] covers managers known only by their environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manager {
    /// Slurm: a SPANK plugin.
    Slurm,
    /// Grid Engine: a starter method, methods to suspend and resume, a load sensor.
    GridEngine,
    /// HTCondor: a job wrapper and a startd cron job.
    Htcondor,
    /// OpenPBS and PBS Professional: hooks in Python.
    Pbs,
    /// Any other manager: a job starter.
    Generic,
}

/// An unknown word for a manager.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no workload manager that pinfold knows: slurm, gridengine, htcondor, pbs, generic")]
pub struct UnknownManager(pub String);

impl Manager {
    /// All managers.
    pub const ALL: [Self; 5] = [Self::Slurm, Self::GridEngine, Self::Htcondor, Self::Pbs, Self::Generic];

    /// Its word on command lines.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::GridEngine => "gridengine",
            Self::Htcondor => "htcondor",
            Self::Pbs => "pbs",
            Self::Generic => "generic",
        }
    }

    /// Its name in a sentence.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slurm => "Slurm",
            Self::GridEngine => "Grid Engine",
            Self::Htcondor => "HTCondor",
            Self::Pbs => "PBS",
            Self::Generic => "any other manager",
        }
    }
}

impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Manager {
    type Err = UnknownManager;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|manager| manager.word() == text);
        found.ok_or_else(|| UnknownManager(text.to_owned()))
    }
}
