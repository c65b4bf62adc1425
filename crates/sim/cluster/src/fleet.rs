//! The hosts of a cluster, all alike, and the parts of them that a job has.

use crate::job::Job;

/// Hosts, all alike. A pool of processors is a single host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fleet {
    /// The number of hosts, at least 1.
    pub hosts: u32,
    /// Cores of each, at least 1.
    pub cores: u32,
    /// Cores that the dispatcher may hand out on each host: at least `cores`, more where a host takes more jobs than it has
    /// cores for.
    pub slots: u32,
    /// Memory that the dispatcher may hand out on each host, in bytes; `None`: memory does not count.
    pub memory: Option<u64>,
    /// The largest memory of a job, in bytes: less than `memory` where a host moves waiting jobs to swap.
    pub job_memory: u64,
}

impl Fleet {
    /// A single host that gets each job at its submission, in any number: jobs wait on the host only. No job needs more
    /// than `job_memory`.
    #[must_use]
    pub fn own_host(cores: u32, job_memory: u64) -> Self {
        Self { hosts: 1, cores, slots: u32::MAX, memory: Some(u64::MAX), job_memory }
    }

    /// Whether each job is handed to its host as it is submitted.
    #[must_use]
    pub fn hands_over_all(&self) -> bool {
        self.slots == u32::MAX
    }

    /// A pool of processors, without regard to memory.
    #[must_use]
    pub fn pool(processors: u32) -> Self {
        Self { hosts: 1, cores: processors, slots: processors, memory: None, job_memory: u64::MAX }
    }

    /// All cores.
    #[must_use]
    pub fn all_cores(&self) -> u64 {
        u64::from(self.hosts) * u64::from(self.cores)
    }

    /// Whether a job has to lie on a single host: if it is not wider than a host, and does not need more memory. Other jobs
    /// take free cores on any hosts.
    #[must_use]
    pub fn on_one_host(&self, job: &Job) -> bool {
        job.processors <= self.cores
            && self.memory.is_none_or(|memory| job.memory_of(job.processors) <= memory.min(self.job_memory))
    }

    /// The cores that a job could have if all hosts were empty, at most `u32::MAX`.
    #[must_use]
    pub fn room(&self, job: &Job) -> u32 {
        let each = u64::from(self.cores).min(self.fitting(job, self.memory));
        u32::try_from(u64::from(self.hosts) * each).unwrap_or(u32::MAX)
    }

    /// The processors of a job for which this much memory suffices.
    pub(crate) fn fitting(&self, job: &Job, memory: Option<u64>) -> u64 {
        let most = memory.map(|memory| memory.min(self.job_memory));
        most.and_then(|memory| memory.checked_div(job.memory)).unwrap_or(u64::MAX)
    }
}

/// The processors of a job on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Part {
    /// The host, from 0 on.
    pub host: u32,
    /// The number of processors.
    pub processors: u32,
}

/// The parts of a job, mostly a single part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parts {
    /// On a single host.
    One([Part; 1]),
    /// On several, or none.
    Many(Vec<Part>),
}

impl Default for Parts {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl From<Part> for Parts {
    fn from(part: Part) -> Self {
        Self::One([part])
    }
}

impl std::ops::Deref for Parts {
    type Target = [Part];

    fn deref(&self) -> &[Part] {
        match self {
            Self::One(part) => part,
            Self::Many(parts) => parts,
        }
    }
}
