//! What each project has and what is its own, for people and for other programs.

use crate::Class;
use crate::job::{Job, Stage};
use crate::policy::Policy;
use crate::projects::Count;

/// What a project has, and what is its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// Its name; `None`: the jobs of no project, whose is what no project is guaranteed.
    pub project: Option<String>,
    /// Home cores that are its own when it wants them; `None`: it shares those of no project.
    pub cores_guaranteed: Option<usize>,
    /// Home cores its jobs have.
    pub cores_used: usize,
    /// Home cores that it wants, that are its own, and that it does not have.
    pub cores_owed: usize,
    /// Memory in bytes that is its own when it wants it; `None`: it shares that of no project.
    pub memory_guaranteed_bytes: Option<u64>,
    /// Memory its jobs hold, in bytes, swap included.
    pub memory_used_bytes: u64,
    /// Memory that its next job waits for, that is its own, and that it does not have, in bytes.
    pub memory_owed_bytes: u64,
    /// Its jobs that have started.
    pub started: usize,
    /// Its jobs that have not.
    pub waiting: usize,
}

impl Policy {
    /// What each project has and what is its own, by name; last the jobs of no project. Empty without projects.
    #[must_use]
    pub fn projects(&self) -> Vec<Holding> {
        let mut names: Vec<Option<&str>> = self.pools.of.keys().map(String::as_str).map(Some).collect();
        if names.is_empty() {
            return Vec::new();
        }
        names.push(None);
        names.into_iter().map(|name| self.holding(name)).collect()
    }

    /// What the project of a job has; `None` where there are no projects.
    pub(crate) fn holding_of(&self, job: &Job) -> Option<Holding> {
        let name = job.request.project.as_deref();
        (!self.pools.of.is_empty()).then(|| self.holding(self.known_project(name)))
    }

    fn known_project<'a>(&self, name: Option<&'a str>) -> Option<&'a str> {
        name.filter(|name| self.pools.of.contains_key(*name))
    }

    fn holding(&self, name: Option<&str>) -> Holding {
        let ids = self.pools.of(name);
        let own = |pool: u16| name.is_none() || pool != 0;
        let mut holding = Holding {
            project: name.map(str::to_owned),
            cores_guaranteed: own(ids.cores).then(|| self.pools.share(ids.cores)),
            cores_used: 0,
            cores_owed: 0,
            memory_guaranteed_bytes: (own(ids.memory) && self.memory.usable.is_some())
                .then(|| self.memory_shares()[usize::from(ids.memory)]),
            memory_used_bytes: 0,
            memory_owed_bytes: 0,
            started: 0,
            waiting: 0,
        };
        let mut wanted = 0;
        for job in self.jobs.values().filter(|job| job.request.aside.is_none()) {
            if self.known_project(job.request.project.as_deref()) != name {
                continue;
            }
            let homes = match job.live() {
                Some(live) if live.class == Class::Exclusive && live.key.is_some() => self.cores.len(),
                _ => self.amount(Count::Homes, job.id()),
            };
            let asks = matches!(job.request.class, None | Some(Class::Primary));
            let runs = job.live().is_some_and(|live| live.key.is_some());
            if homes == 0 && asks && (runs || job.queued.is_some()) {
                wanted += job.slots();
            }
            holding.cores_used += homes;
            holding.memory_used_bytes = holding.memory_used_bytes.saturating_add(job.held.total());
            match job.stage {
                Stage::Waiting(_) => holding.waiting += 1,
                Stage::Live(_) => holding.started += 1,
            }
        }
        if let Some(cores) = holding.cores_guaranteed {
            holding.cores_owed = wanted.min(cores.saturating_sub(holding.cores_used));
        }
        if name.is_some() && ids.memory != 0 && self.governs() {
            holding.memory_owed_bytes = match self.lacks_its_memory(ids.memory) {
                Some((_, wanted, lacking)) if lacking > 0 => wanted,
                _ => 0,
            };
        }
        holding
    }
}

impl Holding {
    /// Home cores beyond those that are its own, lent by others.
    #[must_use]
    pub fn cores_borrowed(&self) -> Option<usize> {
        self.cores_guaranteed.map(|own| self.cores_used.saturating_sub(own))
    }

    /// Memory in bytes beyond what is its own.
    #[must_use]
    pub fn memory_borrowed_bytes(&self) -> Option<u64> {
        self.memory_guaranteed_bytes.map(|own| self.memory_used_bytes.saturating_sub(own))
    }
}
