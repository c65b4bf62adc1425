//! A job found again after a restart: what it has is kept where it fits, and put right where it does not.
//!
//! Nothing is asked for here: two jobs that claim the same core may still both be followed by a third. The
//! first event of another kind settles it. One that is known already is put right: it may be found once by its group,
//! and told of later by its keeper.

use crate::job::{Drift, Live, Out, Told};
use crate::policy::Policy;
use crate::{Adopted, Class, JobId, Reason, Running};

impl Policy {
    pub(crate) fn adopt(&mut self, adopted: Adopted) {
        let Adopted { mut request, submitted, running } = adopted;
        request.cores = request.cores.max(1);
        request.priority = request.priority.clamp(1, 16);
        let id = request.job;
        // Whoever keeps it knows better than the disk and the kernel whether it runs.
        if self.jobs.contains_key(&id) {
            self.unlearn(id);
        }
        let slots = request.cores as usize;
        let Some(running) = running else {
            self.add_waiting(request, submitted);
            return;
        };
        request.held = true; // keeps it out of the queue until it lives
        self.add_waiting(request, submitted);
        let out = match (running.suspended, running.frozen) {
            (true, _) => Some(Out::Suspended),
            (false, true) => Some(Out::Found),
            (false, false) => None,
        };
        self.make_live(
            id,
            Live {
                starting: false,
                started: running.started,
                class: running.class,
                cores: Vec::new(),
                suspended: running.suspended,
                out,
                grace: None,
                signal: None,
                requeuing: false,
                checkpoints: Default::default(),
                withdrawn: false,
                failures: 0,
                // Its weight cannot be read back for sure: the priority may have changed just before the end.
                told: Told { weight: None, cpus: Some(running.cpus.clone()), frozen: Some(running.frozen) },
                failed: Default::default(),
                aside: None,
                slots: 0,
                key: None,
                drift: Drift::default(),
                rests: None,
                repacked: (0, None),
                lay: None,
            },
        );
        self.chunks.unsure_of(id);
        self.keep_shape(id);
        let mut reason = Reason::Restored;
        if out.is_some() {
            let now = self.now;
            if let Some(job) = self.jobs.get_mut(&id) {
                job.since = now;
            }
            self.enqueue(id);
        } else {
            let (class, cores, fits) = match self.aside_of(&self.jobs[&id]) {
                Some(at) => self.claim_in(at, id, &running),
                None => self.claim(id, &running, slots),
            };
            self.occupy(id, class, cores);
            if fits {
                reason = Reason::Adopted;
            }
        }
        self.mark(id, reason);
    }

    /// The cores that a running job keeps in its set, and whether these are what it had.
    fn claim_in(&self, at: usize, id: JobId, running: &Running) -> (Class, Vec<usize>, bool) {
        let room = self.room_in(at, &self.jobs[&id], &running.cpus).filter(|_| self.settings.schedule);
        let fits = room.as_ref().is_some_and(|room| self.asides[at].cores.cpus(room) == running.cpus);
        (Class::Primary, room.unwrap_or_default(), fits)
    }

    /// The class and the cores that a running job keeps, and whether that is what it had.
    fn claim(&self, id: JobId, running: &Running, slots: usize) -> (Class, Vec<usize>, bool) {
        if !self.settings.schedule {
            return (Class::Primary, Vec::new(), running.class == Class::Primary);
        }
        let had = self.cores.touched_by(&running.cpus);
        match running.class {
            Class::Exclusive if self.exclusive.is_none() => {
                (Class::Exclusive, (0..self.cores.len()).collect(), true)
            }
            Class::Primary
                if had.len() == slots && had.iter().all(|&core| self.cores.get(core).home_of.is_none()) =>
            {
                (Class::Primary, had, true)
            }
            Class::Backfill if had.len() == slots => (Class::Backfill, had, true),
            Class::Backfill if had.len() > 1 && self.jobs[&id].request.wish.is_none() && slots == 1 => {
                // It was free to move among them.
                let load = |core: usize| (self.cores.get(core).backfillers, self.cores.crowd_milli(core));
                let cores: Vec<usize> = had.into_iter().min_by_key(|&core| load(core)).into_iter().collect();
                let fits = self.cores.around(&cores) == running.cpus;
                (Class::Backfill, cores, fits)
            }
            // Placed once all are known; a home, if one is free then.
            Class::Primary | Class::Backfill | Class::Exclusive => (Class::Backfill, Vec::new(), false),
        }
    }
}
