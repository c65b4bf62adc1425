//! Cores that are set aside: only jobs that name the set run there, and nowhere else.
//!
//! A set is a small host of its own: its cores, its queue, its jobs. Its jobs take none of the host's slots, and the
//! host's rules (backfill, preemption, exclusive jobs) stop at its border: each job in it has cores of its own, and
//! the next starts when enough are free. Memory is one for all: the governor treats jobs in sets like any other.
//! Absent: who may make sets and use them, and which cores they are made of; that is the daemon's.

use pinfold_topo::CpuSet;

use crate::cores::Cores;
use crate::event;
use crate::job::{Job, Live};
use crate::policy::Policy;
use crate::queue::{Queue, Shape};
use crate::rules::PASSED_MAX;
use crate::{Class, JobId, Reason};

/// A set with the jobs in it.
#[derive(Debug)]
pub(crate) struct Aside {
    pub(crate) name: String,
    pub(crate) cores: Cores,
    pub(crate) memory_bytes: u64,
    pub(crate) queue: Queue,
    /// Jobs that have a place in it.
    pub(crate) holders: Vec<JobId>,
}

impl Aside {
    fn new(set: &event::Aside) -> Self {
        Self {
            name: set.name.clone(),
            cores: Cores::with(&set.cores, set.topology.clone()),
            memory_bytes: set.memory_bytes,
            queue: Queue::default(),
            holders: Vec::new(),
        }
    }

    fn all(&self) -> CpuSet {
        self.cores.iter().flat_map(|core| core.cpus.iter()).collect()
    }
}

impl Policy {
    /// The set that a job runs in, or would; `None`: it asks for none, or there is none of that name any more.
    pub(crate) fn aside_of(&self, job: &Job) -> Option<usize> {
        let name = job.request.aside.as_ref()?;
        self.asides.iter().position(|aside| aside.name == *name)
    }

    /// The cores that a job takes in a set.
    pub(crate) fn wanted_in(&self, job: &Job, at: usize) -> usize {
        let all = self.asides[at].cores.len();
        if job.request.class == Some(Class::Exclusive) { all } else { job.slots().min(all) }
    }

    /// The queue that a job stands in.
    pub(crate) fn queue_of(&self, job: &Job) -> &Queue {
        self.aside_of(job).map_or(&self.queue, |at| &self.asides[at].queue)
    }

    /// The PUs of a job that has its place in a set.
    pub(crate) fn cpus_in(&self, at: usize, live: &Live) -> CpuSet {
        let aside = &self.asides[at];
        let own = self.settings.affinity && self.settings.schedule && !live.cores.is_empty();
        if own { aside.cores.cpus(&live.cores) } else { aside.all() }
    }

    /// Whether no job has a slot or a place in a set.
    pub(crate) fn nobody_runs(&self) -> bool {
        self.holders.len() == 0 && self.asides.iter().all(|aside| aside.holders.is_empty())
    }

    /// The jobs in sets, the oldest first.
    pub(crate) fn in_asides(&self) -> Vec<JobId> {
        let mut all: Vec<JobId> =
            self.asides.iter().flat_map(|aside| aside.holders.iter().copied()).collect();
        all.sort_by_key(|&job| (self.live(job).map(|live| live.started), job));
        all
    }

    /// The sets are now these. Whoever was in one has no place until [`Self::place_in_asides`]; gives them with the
    /// PUs they had.
    pub(crate) fn renew_asides(&mut self, sets: &[event::Aside]) -> Vec<(JobId, CpuSet)> {
        let asking: Vec<JobId> =
            self.jobs.values().filter(|job| job.request.aside.is_some()).map(|job| job.id()).collect();
        asking.iter().for_each(|&job| self.dequeue(job));
        let had = |job: JobId| (job, self.jobs.get(&job).map(|job| self.cpus_of(job)).unwrap_or_default());
        let moved: Vec<(JobId, CpuSet)> = self.in_asides().into_iter().map(had).collect();
        for &(job, _) in &moved {
            self.release(job);
        }
        let mut sets: Vec<&event::Aside> = sets.iter().collect();
        sets.sort_by(|a, b| a.name.cmp(&b.name));
        self.asides = sets.into_iter().map(Aside::new).collect();
        moved
    }

    /// Gives those who were in sets their places again: where they were, if that is there and free; whose set is gone
    /// goes on beside all others.
    pub(crate) fn place_in_asides(&mut self, moved: Vec<(JobId, CpuSet)>) {
        for (id, had) in moved {
            let job = &self.jobs[&id];
            let Some(at) = self.aside_of(job) else {
                self.occupy(id, Class::Backfill, Vec::new());
                self.mark(id, Reason::CpusGone);
                continue;
            };
            let cores = self.room_in(at, job, &had).unwrap_or_default();
            self.occupy(id, Class::Primary, cores);
            let wanted = self.cpus_of(&self.jobs[&id]);
            // Its set may be there again, and it had been a backfiller beside it.
            let changed = |live: &Live| {
                let other = live.told.weight.is_some_and(|(class, ..)| class != live.class);
                other || live.told.cpus.as_ref() != Some(&wanted)
            };
            if self.live(id).is_some_and(changed) {
                self.mark(id, Reason::CpusChanged);
            }
        }
        let asking: Vec<JobId> =
            self.jobs.values().filter(|job| job.request.aside.is_some()).map(|job| job.id()).collect();
        asking.into_iter().for_each(|job| self.enqueue(job));
    }

    /// Free cores of a set for a job; those it had, if they are that.
    pub(crate) fn room_in(&self, at: usize, job: &Job, had: &CpuSet) -> Option<Vec<usize>> {
        let aside = &self.asides[at];
        let own = aside.cores.touched_by(had);
        aside.cores.choose_homes(self.wanted_in(job, at), &own, job.request.wish.as_deref(), job.shape())
    }

    /// Starts those who are next in each set, as far as its cores go.
    pub(crate) fn fill_asides(&mut self) {
        for at in 0..self.asides.len() {
            self.settle_in(at);
            while let Some(job) = self.next_in(at) {
                self.admit_in(at, job);
            }
        }
    }

    /// Who found no cores of its own when the set changed gets them now.
    fn settle_in(&mut self, at: usize) {
        if !self.settings.schedule || self.asides[at].cores.free_homes() == 0 {
            return;
        }
        let homeless = |id: &JobId| self.live(*id).is_some_and(|live| live.cores.is_empty());
        let found: Vec<JobId> = self.asides[at].holders.iter().copied().filter(homeless).collect();
        for id in found {
            if let Some(cores) = self.room_in(at, &self.jobs[&id], &CpuSet::new()) {
                self.release(id);
                self.occupy(id, Class::Primary, cores);
                self.mark(id, Reason::CpusChanged);
            }
        }
    }

    /// The next that can start in a set now. One that stands first and does not fit is passed by so many later ones.
    fn next_in(&mut self, at: usize) -> Option<JobId> {
        loop {
            let has_room = |shape: Shape| self.arrays.has_room(shape.array);
            let possible =
                |shape: Shape| shape.cores as usize <= self.asides[at].cores.len() && has_room(shape);
            let (_, head) = self.asides[at].queue.first(possible)?;
            if self.lacks_memory(head).is_some() {
                self.live(head)?;
                self.rest_for_memory(head);
                continue;
            }
            if self.fits_in(at, head) {
                return Some(head);
            }
            if self.jobs[&head].passed >= PASSED_MAX {
                return None;
            }
            let free = self.asides[at].cores.free_homes();
            let (_, next) = self.asides[at]
                .queue
                .first(|shape: Shape| shape.cores as usize <= free && self.arrays.has_room(shape.array))?;
            if next == head || self.lacks_memory(next).is_some() || !self.fits_in(at, next) {
                return None;
            }
            if let Some(job) = self.jobs.get_mut(&head) {
                job.passed += 1;
            }
            return Some(next);
        }
    }

    fn fits_in(&self, at: usize, id: JobId) -> bool {
        let job = &self.jobs[&id];
        let tmp =
            job.live().is_some() || job.request.tmp_bytes == 0 || job.request.tmp_bytes <= self.tmp_left();
        tmp && (!self.settings.schedule || self.room_in(at, job, &CpuSet::new()).is_some())
    }

    fn admit_in(&mut self, at: usize, id: JobId) {
        self.decide_shape(id);
        let early = self.note_early(id);
        let job = &self.jobs[&id];
        // A frozen one returns to where it was, if it can.
        let had = job.live().and_then(|live| live.told.cpus.clone()).unwrap_or_default();
        let scheduled = self.settings.schedule;
        let cores = if scheduled { self.room_in(at, job, &had).unwrap_or_default() } else { Vec::new() };
        self.dequeue(id);
        self.begin(id, Class::Primary, cores, &[], early);
    }

    /// Memory that jobs in other sets than this one's were promised and do not use yet, in bytes.
    pub(crate) fn promised_beside(&self, of: Option<usize>) -> u64 {
        let promised = |(at, aside): (usize, &Aside)| {
            if Some(at) == of || aside.memory_bytes == 0 {
                return 0;
            }
            let held = |id: &JobId| self.jobs.get(id).map_or(0, |job| self.counts_for(job));
            let used = aside.holders.iter().map(held).fold(0, u64::saturating_add);
            aside.memory_bytes.saturating_sub(used)
        };
        self.asides.iter().enumerate().map(promised).fold(0, u64::saturating_add)
    }

    /// Cores of the host on which no job has this priority or a higher one, in logical order; none while an exclusive
    /// job has them all.
    #[must_use]
    pub fn cores_below(&self, priority: u8) -> Vec<CpuSet> {
        if self.exclusive.is_some() {
            return Vec::new();
        }
        let mut lower = vec![true; self.cores.len()];
        let stays = |&(theirs, job): &(u8, JobId)| theirs >= priority && !self.is_best_effort(job);
        let as_high = self.holders.lowest_first().filter(stays);
        for live in as_high.filter_map(|(_, job)| self.live(job)) {
            live.cores.iter().for_each(|&core| lower[core] = false);
        }
        let cores = self.cores.iter().zip(lower);
        cores.filter(|&(_, lower)| lower).map(|(core, _)| core.cpus.clone()).collect()
    }

    /// Cores of the host that no job is on, in logical order; none while an exclusive job has them all.
    #[must_use]
    pub fn idle_cores(&self) -> Vec<CpuSet> {
        if self.exclusive.is_some() {
            return Vec::new();
        }
        let idle = |core: &&crate::cores::Core| core.home_of.is_none() && core.backfillers == 0;
        self.cores.iter().filter(idle).map(|core| core.cpus.clone()).collect()
    }
}
