//! The daemon's execution of actions: each takes time, fails now and then, and its result is reported.

use pinfold_policy::{Action, Decision, Event, JobId};

use super::{Happening, Host, Start};
use crate::violation::Violation;

impl Host {
    pub(super) fn carry_out(&mut self, decision: Decision) {
        let Decision { job, action, .. } = decision;
        let kind = match action {
            Action::Start { .. } => 0,
            Action::Bind { .. } => 1,
            Action::Weigh { .. } => 2,
            Action::Freeze => 3,
            Action::Thaw => 4,
            Action::Signal { .. } => 5,
            // This host has no memory; `pressure` has.
            Action::PageOut { .. }
            | Action::Checkpoint
            | Action::Requeue
            | Action::Slow { .. }
            | Action::Protect { .. }
            | Action::Near { .. } => return,
            Action::Drop { .. } => {
                self.disk.remove(&job);
                return;
            }
        };
        let fails = self.chaos && self.dice.chance(self.options.fail_permille[kind]);
        // A failure is sometimes reported although the kernel did it.
        self.is_meant(job, &action, !fails);
        if !fails || (kind != 0 && self.dice.chance(300)) {
            self.apply(job, &action, fails);
        } else if let Action::Start { .. } = action {
            self.fail_start(job);
        }
        if fails {
            let error = "simulated failure".to_owned();
            let started = matches!(action, Action::Start { .. });
            let gives_up = started && self.dice.chance(200);
            let in_us = self.dice.between(0, 1000);
            self.report(in_us, Event::Failed { job, action, error });
            if gives_up {
                self.report(in_us, Event::Exited(job));
            }
        }
    }

    /// A report for a daemon of an earlier generation is dropped.
    pub(crate) fn deliver_report(&mut self, generation: u64, event: Event) -> Result<(), Violation> {
        if generation != self.generation {
            return Ok(());
        }
        if let Event::Failed { job, .. } = &event
            && let Some(count) = self.unreported.get_mut(job)
        {
            *count -= 1;
        }
        self.deliver(event)
    }

    fn report(&mut self, in_us: u64, event: Event) {
        if let Event::Failed { job, .. } = &event {
            *self.unreported.entry(*job).or_default() += 1;
        }
        self.plan(in_us, Happening::Report(self.generation, Box::new(event)));
    }

    fn fail_start(&mut self, job: JobId) {
        if let Some(record) = self.disk.get_mut(&job) {
            record.started = None;
        }
    }

    fn apply(&mut self, job: JobId, action: &Action, reported_failed: bool) {
        self.sequence += 1;
        let token = self.sequence;
        match action {
            Action::Start { class, cpus, priority } => {
                let clock = self.clock;
                if let Some(record) = self.disk.get_mut(&job) {
                    record.started = Some(clock);
                }
                let start = Start { token, class: *class, cpus: cpus.clone(), priority: *priority };
                self.starting.insert(job, start);
                let in_us = self.dice.between(0, self.options.start_us);
                self.plan(in_us, Happening::StartDone(job, token));
            }
            Action::Bind { cpus } => self.world.change(job, |container| container.cpus = cpus.clone()),
            Action::Weigh { class, priority, even } => self.world.change(job, |container| {
                (container.class, container.priority, container.even) = (*class, *priority, *even);
            }),
            Action::Freeze => {
                let in_us = self.dice.between(0, self.options.freeze_us);
                self.world.change(job, |container| container.freezing = Some(token));
                self.plan(in_us, Happening::Frozen(job, token));
            }
            Action::Thaw => self.world.change(job, |container| {
                (container.frozen, container.freezing) = (false, None);
            }),
            Action::Signal { .. } => {
                let container = self.world.containers.get(&job);
                let dies = container.is_some_and(|c| !c.frozen && !c.work.stubborn) && !reported_failed;
                if dies {
                    let in_us = self.dice.between(0, 200_000);
                    self.plan(in_us, Happening::Die(job));
                }
            }
            Action::Drop { .. }
            | Action::PageOut { .. }
            | Action::Checkpoint
            | Action::Requeue
            | Action::Slow { .. }
            | Action::Protect { .. }
            | Action::Near { .. } => {}
        }
    }

    /// A start's answer is due.
    pub(crate) fn start_done(&mut self, job: JobId, token: u64) -> Result<(), Violation> {
        if self.starting.get(&job).is_some_and(|start| start.token == token) {
            self.spawn(job);
            self.deliver(Event::Started(job))?;
        }
        Ok(())
    }

    pub(super) fn spawn(&mut self, job: JobId) {
        let (Some(start), Some((_, work))) = (self.starting.remove(&job), self.works.get(&job)) else {
            return;
        };
        self.world.spawn(job, work.clone(), start.class, start.priority, start.cpus);
        self.remember(job);
        if let Some(record) = self.disk.get_mut(&job) {
            record.spawned = true;
        }
    }

    /// The keeper of a job dies, or the job itself.
    pub(crate) fn lose_keeper(&mut self, job: JobId) -> Result<(), Violation> {
        let running = self.world.containers.contains_key(&job);
        if running {
            self.world.end(job);
            return Ok(());
        }
        if !self.is_up() {
            // The next daemon finds no client of the job.
            if self.disk.remove(&job).is_some() {
                self.ledger.over(job);
            }
            return Ok(());
        }
        if self.dice.chance(500) {
            return self.deliver(Event::Withdrawn(job));
        }
        self.deliver(Event::Exited(job))
    }
}
