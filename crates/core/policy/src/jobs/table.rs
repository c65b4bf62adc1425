//! The table of all jobs that wait or live: the only place that adds and removes them.
//!
//! Owns the jobs, which of them have started, their timers, who waits for whose end, and whose wait a step changed. Absent:
//! what follows for slots, cores, queue and memory; [`crate::schedule`] sees to that.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Index;

use crate::api::{Amount, Class, Instant, JobId};
use crate::jobs::job::{Job, Live, Stage, Waiting};

/// See the module's page.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct JobTable {
    /// Boxed, for jobs come and go all the time and a tree moves its neighbours at each.
    jobs: BTreeMap<JobId, Box<Job>>,
    /// Jobs that were told to start and are not over.
    lives: BTreeSet<JobId>,
    /// Jobs that wait until this one is over.
    followers: BTreeMap<JobId, BTreeSet<JobId>>,
    /// One timer for each job that has something due.
    timers: BTreeSet<(Instant, JobId)>,
    /// Jobs that have not started.
    waiting: usize,
    /// The countable resources that those have which started.
    #[serde(default)]
    taken: Vec<Amount>,
    /// Jobs were adopted and no pass was made since.
    adopting: bool,
    /// Jobs whose wait for their turn began or broke off in this step. Whoever wants to know asks before the next.
    #[serde(skip)]
    waits_changed: BTreeSet<JobId>,
}

impl Index<&JobId> for JobTable {
    type Output = Job;

    fn index(&self, id: &JobId) -> &Job {
        &self.jobs[id]
    }
}

impl JobTable {
    pub(crate) fn get(&self, id: &JobId) -> Option<&Job> {
        self.jobs.get(id).map(|job| &**job)
    }

    pub(super) fn get_mut(&mut self, id: &JobId) -> Option<&mut Job> {
        self.jobs.get_mut(id).map(|job| &mut **job)
    }

    pub(crate) fn contains_key(&self, id: &JobId) -> bool {
        self.jobs.contains_key(id)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values().map(|job| &**job)
    }

    pub(crate) fn ids(&self) -> Vec<JobId> {
        self.jobs.keys().copied().collect()
    }

    pub(crate) fn live(&self, id: JobId) -> Option<&Live> {
        self.get(&id).and_then(Job::live)
    }

    pub(super) fn live_mut(&mut self, id: JobId) -> Option<&mut Live> {
        self.get_mut(&id).and_then(Job::live_mut)
    }

    /// Jobs that have started, by number.
    pub(crate) fn lives(&self) -> impl Iterator<Item = &Job> {
        self.lives.iter().filter_map(|id| self.get(id))
    }

    /// The parent of a job, the parent of the parent, and so on, as far as these jobs are not over.
    pub(crate) fn parents(&self, id: JobId) -> impl Iterator<Item = &Job> {
        // The number of a parent is lower, so that no request leads to an endless walk.
        let above = |job: &Job| job.request.parent.filter(|parent| *parent < job.id());
        let parent = move |job: &&Job| above(job).and_then(|parent| self.get(&parent));
        std::iter::successors(self.get(&id), parent).skip(1)
    }

    pub(crate) fn live_ids(&self) -> &BTreeSet<JobId> {
        &self.lives
    }

    /// Jobs that have a slot.
    pub(crate) fn running(&self) -> impl Iterator<Item = &Job> {
        self.lives().filter(|job| job.has_slot())
    }

    /// Jobs that have started and have no slot, for whatever cause.
    pub(crate) fn suspended(&self) -> impl Iterator<Item = &Job> {
        self.lives().filter(|job| !job.has_slot())
    }

    /// Something of all that have a slot, in bytes.
    pub(crate) fn sum_of_running(&self, of: impl Fn(&Job) -> u64) -> u64 {
        self.running().map(of).fold(0, u64::saturating_add)
    }

    /// What those hold in RAM that have started and have no slot.
    pub(crate) fn suspended_resident(&self) -> u64 {
        self.suspended().map(|job| job.held.resident).fold(0, u64::saturating_add)
    }

    /// The jobs that have a directory in memory.
    pub(crate) fn with_tmp(&self) -> impl Iterator<Item = &Job> {
        self.lives().filter(|job| job.request.tmp_bytes > 0)
    }

    /// How much of a countable resource jobs have.
    pub(crate) fn taken(&self, resource: &str) -> u64 {
        self.taken.iter().find(|one| one.name == resource).map_or(0, |one| one.count)
    }

    /// The jobs that have some of a countable resource, by number.
    pub(crate) fn with_resource(&self, resource: &str) -> impl Iterator<Item = &Job> {
        self.lives().filter(move |job| job.request.resources.iter().any(|one| one.name == resource))
    }

    fn take(&mut self, resources: &[Amount]) {
        for one in resources {
            match self.taken.iter_mut().find(|taken| taken.name == one.name) {
                Some(taken) => taken.count = taken.count.saturating_add(one.count),
                None => self.taken.push(one.clone()),
            }
        }
    }

    fn give_back(&mut self, resources: &[Amount]) {
        for one in resources {
            if let Some(taken) = self.taken.iter_mut().find(|taken| taken.name == one.name) {
                taken.count = taken.count.saturating_sub(one.count);
            }
        }
        self.taken.retain(|taken| taken.count > 0);
    }

    /// Jobs that are writing a checkpoint.
    pub(crate) fn writers(&self) -> Vec<JobId> {
        self.lives().filter(|job| job.is_writing()).map(Job::id).collect()
    }

    /// What all that have started hold in RAM.
    pub(crate) fn resident(&self) -> u64 {
        self.lives().map(|job| job.held.resident).fold(0, u64::saturating_add)
    }

    /// Whether the scheduler may freeze a job at all.
    pub(crate) fn may_freeze(&self, id: JobId) -> bool {
        let Some(job) = self.get(&id).filter(|job| !job.request.no_suspend) else { return false };
        job.live().is_some_and(|live| live.phase.may_freeze())
    }

    /// Whether a job asked for the cycles that others leave, and nothing more.
    pub(crate) fn asks_for_idle_cycles(&self, id: JobId) -> bool {
        self.get(&id).is_some_and(|job| job.request.class == Some(Class::Backfill))
    }

    /// Whether a job with a slot is a best-effort job.
    pub(crate) fn is_best_effort(&self, id: JobId) -> bool {
        self.asks_for_idle_cycles(id) && self.live(id).is_some_and(|live| live.class == Class::Backfill)
    }

    /// How many have not started.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Takes in a job that waits.
    pub(crate) fn insert(&mut self, job: Job) {
        let id = job.id();
        if let Stage::Waiting(waiting) = &job.stage {
            for &before in &waiting.after {
                self.followers.entry(before).or_default().insert(id);
            }
        }
        self.jobs.insert(id, Box::new(job));
        self.waiting += 1;
        self.wait_changed(id);
    }

    /// A step begins.
    pub(crate) fn begin_step(&mut self) {
        self.waits_changed.clear();
    }

    /// The wait of a job for its turn began or broke off.
    pub(super) fn wait_changed(&mut self, id: JobId) {
        self.waits_changed.insert(id);
    }

    /// Those that have not started, of the jobs of which that is so in this step: since when each waits for its turn; `None`:
    /// it is held, or it is not its turn yet.
    pub(crate) fn waits_changed(&self) -> impl Iterator<Item = (JobId, Option<Instant>)> + '_ {
        let changed = self.waits_changed.iter().filter_map(|id| self.get(id));
        changed.filter_map(|job| match &job.stage {
            Stage::Waiting(waiting) if waiting.held || waiting.is_early() => Some((job.id(), None)),
            // A start that fails does not begin its wait anew.
            Stage::Live(live) if !live.phase.is_starting() => None,
            Stage::Waiting(_) | Stage::Live(_) => Some((job.id(), Some(job.since))),
        })
    }

    /// Takes a job out, with its timer; who follows it still does.
    pub(crate) fn remove(&mut self, id: JobId) -> Option<Box<Job>> {
        self.lives.remove(&id);
        let job = self.jobs.remove(&id)?;
        match &job.stage {
            Stage::Waiting(waiting) => {
                self.waiting -= 1;
                self.follows_no_more(id, &waiting.after);
            }
            Stage::Live(_) => self.give_back(&job.request.resources),
        }
        if let Some(at) = job.armed {
            self.timers.remove(&(at, id));
        }
        Some(job)
    }

    /// A job does not wait any more until these are over: it would be remembered for as long as they last.
    fn follows_no_more(&mut self, id: JobId, after: &BTreeSet<JobId>) {
        for before in after {
            if let Some(followers) = self.followers.get_mut(before) {
                followers.remove(&id);
                if followers.is_empty() {
                    self.followers.remove(before);
                }
            }
        }
    }

    /// Makes a job one that has started; says whether it waited before.
    pub(crate) fn start(&mut self, id: JobId, live: Live) -> bool {
        let Some(job) = self.jobs.get_mut(&id) else { return false };
        let before = std::mem::replace(&mut job.stage, Stage::Live(Box::new(live)));
        let waited = matches!(before, Stage::Waiting(_));
        self.waiting -= usize::from(waited);
        self.lives.insert(id);
        if waited && !job.request.resources.is_empty() {
            let resources = job.request.resources.clone();
            self.take(&resources);
        }
        if let Stage::Waiting(waiting) = before {
            self.follows_no_more(id, &waiting.after);
        }
        waited
    }

    /// Makes a job that had started one that waits.
    pub(crate) fn wait_again(&mut self, id: JobId, waiting: Waiting) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let had = if job.live().is_some() { job.request.resources.clone() } else { Vec::new() };
        job.stage = Stage::Waiting(waiting);
        self.waiting += 1;
        self.lives.remove(&id);
        self.give_back(&had);
    }

    /// Sets the timer of a job, or takes it away.
    pub(crate) fn arm(&mut self, id: JobId, due: Option<Instant>) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| job.armed != due) else { return };
        let armed = std::mem::replace(&mut job.armed, due);
        armed.map(|at| self.timers.remove(&(at, id)));
        due.map(|at| self.timers.insert((at, id)));
    }

    /// When the first timer is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// A job that has something due by now; its timer is gone.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<JobId> {
        self.timers.first().filter(|(at, _)| *at <= now)?;
        let (_, id) = self.timers.pop_first()?;
        if let Some(job) = self.get_mut(&id) {
            job.armed = None;
        }
        Some(id)
    }

    /// A job is over: who followed it does no more.
    pub(crate) fn take_followers(&mut self, of: JobId) -> BTreeSet<JobId> {
        self.followers.remove(&of).unwrap_or_default()
    }

    /// Jobs that others follow and that are not known.
    pub(crate) fn unknown_predecessors(&self) -> Vec<JobId> {
        self.followers.keys().copied().filter(|id| !self.contains_key(id)).collect()
    }

    /// Whether any job is thawed without a slot, to receive a signal.
    pub(crate) fn any_dying(&self) -> bool {
        self.lives().filter_map(Job::live).any(|live| live.phase.is_dying())
    }

    /// Whether jobs are being adopted: not all are known yet.
    pub(crate) fn is_adopting(&self) -> bool {
        self.adopting
    }

    pub(crate) fn set_adopting(&mut self, adopting: bool) {
        self.adopting = adopting;
    }
}

#[cfg(test)]
mod tests;
