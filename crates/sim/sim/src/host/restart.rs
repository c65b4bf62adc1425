//! Crash and restart of the daemon: from the disk (wanted state) and the host (actual state).

use pinfold_policy::{Adopted, Event, Instant, JobId, Policy, Running};

use super::{Happening, Host};
use crate::checks::{Left, Stalled};
use crate::ledger::Phase;
use crate::violation::Violation;

impl Host {
    /// Kills the daemon with its knowledge; a new daemon follows.
    pub(crate) fn crash(&mut self) {
        self.tell(|| "the daemon is killed".to_owned());
        self.crashes += 1;
        self.policy = None;
        self.generation += 1;
        self.unreported.clear();
        self.owed_us.clear();
        self.left = Left::default();
        self.stalled = Stalled::default();
        self.meddling.restart();
        // A start that was under way happens or does not.
        let starting: Vec<JobId> = self.starting.keys().copied().collect();
        for job in starting {
            if self.dice.chance(500) {
                self.spawn(job);
            } else {
                self.starting.remove(&job);
            }
        }
        let in_us = self.dice.between(0, 2_000_000);
        self.plan(in_us, Happening::Up);
    }

    /// Starts a daemon: it reads its disk and the host, and informs a new policy.
    pub(crate) fn start_up(&mut self) -> Result<(), Violation> {
        // The new clock is independent of the last daemon's.
        self.clock = Instant(self.raw_clock());
        self.policy = Some(Policy::default());
        self.adopting = true;
        let found = self.take_stock();
        let settings = self.settings.clone();
        let heard = self.mutant.map_or_else(|| settings.clone(), |mutant| mutant.hear(settings.clone()));
        let unswallowed = self.mutant.take();
        self.deliver(Event::Configure(heard))?;
        self.deliver(Event::Machine(self.machine()))?;
        self.mutant = unswallowed;
        for adopted in found {
            self.deliver(Event::Adopt(adopted))?;
        }
        let running: Vec<JobId> = self.world.containers.keys().copied().collect();
        running.into_iter().for_each(|job| self.remember(job));
        self.adopting = false;
        self.restore_isolation()?;
        self.deliver(Event::Tick)
    }

    /// Whether the daemon has a job on its disk.
    pub(crate) fn has(&self, job: JobId) -> bool {
        self.disk.contains_key(&job)
    }

    /// Reads the disk's and the host's state of each job, and corrects the ledger accordingly.
    fn take_stock(&mut self) -> Vec<Adopted> {
        let now = self.clock;
        let world = &self.world;
        self.disk.retain(|job, record| !record.spawned || world.containers.contains_key(job));
        self.world.ended.clear();
        let mut found = Vec::new();
        let ended: Vec<JobId> =
            self.ledger.jobs.keys().filter(|job| !self.disk.contains_key(job)).copied().collect();
        ended.into_iter().for_each(|job| self.ledger.over(job));
        for (&job, record) in &mut self.disk {
            if self.ledger.over.remove(&job) {
                // The job was struck off, and the daemon died before the removal was on the disk.
                self.ledger.submitted(record.request.clone(), record.submitted);
            }
            let Some(entry) = self.ledger.jobs.get_mut(&job) else { continue };
            let container = self.world.containers.get(&job);
            entry.request = record.request.clone();
            entry.failed.clear();
            (entry.grace, entry.calm, entry.slotless, entry.aged) = (None, None, false, false);
            entry.held_back = None;
            let running = container.map(|container| {
                // A freeze under way counts as done: it will be.
                let frozen = container.frozen || container.freezing.is_some();
                (entry.phase, entry.class, entry.cpus) =
                    (Phase::Running, container.class, container.cpus.clone());
                entry.even = container.even;
                (entry.frozen, entry.suspended, entry.since) = (frozen, record.suspended, now);
                entry.started = record.started.unwrap_or_default();
                Running {
                    started: entry.started,
                    class: container.class,
                    cpus: container.cpus.clone(),
                    frozen,
                    suspended: record.suspended,
                }
            });
            if running.is_none() {
                // Its start was lost; a job that was to be suspended then is held now.
                record.request.held |= std::mem::take(&mut record.suspended);
                record.started = None;
                (entry.phase, entry.held, entry.since) =
                    (Phase::Waiting, record.request.held, record.submitted);
                (entry.suspended, entry.frozen) = (false, false);
            }
            let request = record.request.clone();
            found.push(Adopted {
                request,
                submitted: record.submitted,
                waits_since: None,
                array_room_since: None,
                running,
            });
        }
        found
    }
}
