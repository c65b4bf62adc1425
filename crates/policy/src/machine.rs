//! The machine changed: PUs came or went, cores were set aside. Who runs stays where that is possible.
//!
//! Absent: what follows for those who lost their homes; that is in `rules`.

use crate::asides::Aside;
use crate::cores::Cores;
use crate::job::Job;
use crate::policy::Policy;
use crate::{Class, JobId, Machine, Reason};

impl Policy {
    /// The machine changed. A job stays on the cores that still have a PU it was bound to; a primary whose
    /// home is gone becomes a backfiller until a home is free.
    pub(crate) fn set_machine(&mut self, machine: Machine) {
        let mut in_sets = self.renew_asides(&machine.asides);
        let old = std::mem::replace(&mut self.cores, Cores::new(&machine));
        self.machine = machine;
        self.chunks.renew(self.machine.topology.as_deref());
        let count = self.cores.len();
        for job in self.holders_highest_first() {
            let slots = self.jobs[&job].slots();
            let Some(live) = self.live_mut(job) else { continue };
            let (class, cores) = (live.class, std::mem::take(&mut live.cores));
            let had = old.cpus(&cores);
            if self.aside_of(&self.jobs[&job]).is_some() {
                self.release(job); // its set is there again
                in_sets.push((job, had));
                continue;
            }
            let mut kept = self.survivors(&old, &cores, class == Class::Primary);
            let (class_now, kept) = match class {
                Class::Exclusive => (class, (0..count).collect()),
                _ if !self.settings.schedule => (class, Vec::new()),
                Class::Primary if kept.len() == slots => (class, kept),
                Class::Primary => (Class::Backfill, Vec::new()),
                Class::Backfill => {
                    if kept.len() < slots.min(count) {
                        kept.clear();
                    }
                    (class, kept)
                }
            };
            let stays = class_now == class && !kept.is_empty();
            self.release(job);
            self.occupy(job, class_now, kept);
            let Some(live) = self.live(job) else { continue };
            let taken = |set: &&Aside| set.cores.iter().any(|core| !core.cpus.is_disjoint(&had));
            let cpus = self.cpus_of(&self.jobs[&job]);
            if !stays {
                let set =
                    self.asides.iter().find(taken).map(|set| Reason::SetAside { set: set.name.clone() });
                self.mark(job, set.unwrap_or(Reason::CpusGone));
            } else if live.told.cpus.as_ref() != Some(&cpus) {
                self.mark(job, Reason::CpusChanged);
            }
        }
        self.place_in_asides(in_sets);
        self.look_at_borders();
        self.protect();
        self.clip();
    }

    /// The slots became more or fewer. A job that had started and is now wider than the host takes all there
    /// is, so that it can go on; a new one waits until the host is large enough.
    pub(crate) fn clip(&mut self) {
        self.renew_shares();
        let all: Vec<JobId> =
            self.jobs.values().filter(|job| job.live().is_some()).map(|job| job.id()).collect();
        for id in all {
            let slots = self.clipped(&self.jobs[&id]);
            if let Some(live) = self.live_mut(id).filter(|live| live.key.is_some() && live.aside.is_none()) {
                let held = std::mem::replace(&mut live.slots, slots);
                self.used = self.used + slots - held;
            }
            if self.jobs[&id].queued.is_some() {
                self.dequeue(id);
                self.enqueue(id);
            }
        }
    }

    /// The slots that a job which has started takes on the host as it is.
    pub(crate) fn clipped(&self, job: &Job) -> usize {
        if let Some(at) = self.aside_of(job) {
            return self.wanted_in(job, at);
        }
        job.slots().min(self.total()).min(self.cores.len()).max(1)
    }

    /// Where `cores` of the old machine are in the new one; `homes`: only where nobody is at home.
    fn survivors(&self, old: &Cores, cores: &[usize], homes: bool) -> Vec<usize> {
        let mut kept = Vec::new();
        for &core in cores {
            let found = self
                .cores
                .touched_by(&old.get(core).cpus)
                .into_iter()
                .find(|now| !(kept.contains(now) || homes && self.cores.get(*now).home_of.is_some()));
            kept.extend(found);
        }
        kept.sort_unstable();
        kept
    }
}
