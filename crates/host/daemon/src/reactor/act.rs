//! From decisions to deeds: a decision is noted in the job's row and the journal, and its effect carried out
//! once that is on disk.

use pinfold_policy::{Action, Event as SchedulerEvent, JobId};
use pinfold_proto::JobState;
use pinfold_proto::row::ProcessId;
use pinfold_proto::wire::{ErrorCode, Reply};
use pinfold_sys::container::{Applied, Container, ContainerError};

use crate::core::words::in_words;
use crate::core::{Effect, Event, Next, crash, in_full};
use crate::host::guard::Guard;
use crate::host::machine;
use crate::host::own_nodes::bound;
use crate::jobs::record::{from_policy, share};
use crate::reactor::Daemon;

/// After so many failed starts in a row a job is given up, with the cause.
const START_FAILURES_MAX: u32 = 5;
/// A job that goes on with less than this in swap fetches it by its own page faults.
const FETCH_BYTES: u64 = 4 << 20;

impl Daemon {
    /// Carries one effect out; what comes of it is an event.
    pub(super) fn carry_out(&mut self, effect: Effect) -> Option<Event> {
        let counts = effect.concerns_a_job();
        counts.then(|| crash::point("before an effect"));
        self.service.turn.busy_with(crate::core::turns::work::of_effect(&effect));
        let event = self.carry_out_now(effect);
        counts.then(|| crash::point("after an effect"));
        event
    }

    fn carry_out_now(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Reply(id, reply) => {
                self.clients.server.send(id, &reply);
                None
            }
            Effect::Frame(id, frame) => {
                self.clients.server.send_frame(id, &frame);
                None
            }
            Effect::Tell(id, asked) => {
                self.tell(id, asked);
                None
            }
            Effect::Act(job, action @ Action::Start { .. }) => self.start(job, action),
            Effect::Act(job, Action::Checkpoint) => self.ask_for_checkpoint(job),
            Effect::Act(job, action) => {
                let result = self.act(job, &action)?;
                if matches!(action, Action::Bind { .. }) {
                    self.host.isolated.isolate(&self.ctx, &self.jobs.table, job);
                }
                Some(match result {
                    Ok(()) => Event::Carried(job, action),
                    Err(error) => Event::NotCarried(job, action, in_full(&error)),
                })
            }
            Effect::Remove(job) => {
                self.surroundings.tear_down(&self.ctx, &mut self.outbox, &mut self.jobs, job);
                None
            }
            Effect::Gather(job) => {
                machine::gather_job(&self.jobs.table, job);
                None
            }
            Effect::KeepStart(job, uid, start) => {
                self.jobs.starts.keep_start_now(
                    &self.ctx,
                    &mut self.outbox,
                    &mut self.jobs.table,
                    (job, uid),
                    &start,
                );
                None
            }
            Effect::Kill(job) => {
                let live = self.jobs.table.get(&job)?;
                if let Some(container) = &live.container
                    && let Err(error) = container.kill()
                {
                    tracing::error!(job = job.0, %error, "a job cannot be killed");
                }
                None
            }
            Effect::LetHear(job) => {
                let frozen = self.jobs.table.get(&job).is_some_and(|live| live.row.frozen_since_us.is_some());
                // The terminal sent its signal already; thawed, the job hears it. To the scheduler it is a
                // cancel by a signal that does nothing to a job that runs.
                if frozen {
                    let signal = pinfold_sys::signals::SIGCONT;
                    self.outbox
                        .step(SchedulerEvent::Command(job, pinfold_policy::Command::Cancel { signal }));
                    self.outbox.then(Next::Follow(job));
                }
                None
            }
        }
    }

    /// Does to a job what was decided; `None`: there is nothing to be done it to.
    pub(super) fn act(&mut self, job: JobId, action: &Action) -> Option<Result<(), ContainerError>> {
        if matches!(action, Action::Freeze) {
            self.note_members(job);
        }
        let live = self.jobs.table.get_mut(&job)?;
        let on_processes = matches!(action, Action::Freeze | Action::Thaw | Action::Signal { .. });
        if on_processes && live.container.is_some() && live.row.main.is_none() && live.keeper.is_some() {
            // Its keeper waits in the kernel until the command is executed: frozen before, it would hold its keeper, and a
            // signal would find nobody.
            live.deferred.push(action.clone());
            // How long it takes to begin tells nothing of how soon one that holds memory is frozen.
            live.freezes_since = None;
            return Some(Ok(()));
        }
        let main = live.row.main;
        if let Action::Near { nodes } = action {
            let (host, table) = (&mut self.host, &mut self.jobs.table);
            let (guard, own_nodes) = (&mut host.guard, &mut host.own_nodes);
            return bound::bind_memory(&self.ctx, &mut self.outbox, table, guard, own_nodes, job, nodes);
        }
        let confined = |cpus| crate::jobs::record::confined(&live.row.spec, cpus);
        let container = live.container.as_mut()?;
        Some(match action {
            Action::Start { .. } | Action::Drop { .. } | Action::Near { .. } | Action::Checkpoint => {
                return None;
            }
            Action::PageOut { bytes } => {
                self.meters.memory.page_out(job, live.row.uid, *bytes);
                Ok(())
            }
            Action::Bind { cpus } => container.bind(&confined(cpus)).map(drop),
            Action::Weigh { class, priority, even } => {
                container.share(share(from_policy(*class), *priority, *even)).map(|applied| {
                    if let Applied::Kept(why) = applied {
                        live.row.reason = Some(format!("its share of the processor stays as it was: {why}"));
                    }
                })
            }
            Action::Freeze => {
                self.host.guard.will_freeze(job.0, main);
                let since = live.freezes_since.take();
                let frozen = container.freeze();
                if let (Ok(()), Some(since)) = (&frozen, since)
                    && let Some(watch) = container.watch_freeze()
                {
                    self.meters.memory.witness.watch(job.0, since, watch);
                }
                frozen
            }
            Action::Thaw => {
                let thawed = container.thaw();
                if thawed.is_ok() {
                    self.host.guard.thawed(job.0);
                    self.fetch(job);
                }
                thawed
            }
            Action::Slow { allowance } => {
                let runs = live.row.state == JobState::Running;
                let slowed = slow(&mut self.host.guard, job, main, container, *allowance);
                // What the kernel moved out while it was throttled it would have to find page by page.
                if matches!(slowed, Ok(Applied::Done)) && allowance.is_none() && runs {
                    self.fetch(job);
                }
                slowed.map(drop)
            }
            Action::Protect { bytes } => container.protect(*bytes).map(drop),
            Action::Requeue => container.kill(),
            Action::Signal { signal } => {
                // A handler runs only in a thawed job; the scheduler thaws before it asks for a signal.
                container.signal(*signal).map(drop)
            }
        })
    }

    /// What a job that goes on has in swap is read back, unless it is so little that it finds it by itself.
    fn fetch(&self, job: JobId) {
        if self.ctx.policy.job(job).is_some_and(|info| info.swapped_bytes - info.cold_bytes >= FETCH_BYTES) {
            let user = self.jobs.table.get(&job).map(|live| live.row.uid);
            user.into_iter().for_each(|user| self.meters.memory.fetch(job, user));
        }
    }

    /// An effect was carried out.
    pub(super) fn on_carried(&mut self, job: JobId, action: &Action) {
        if matches!(action, Action::Start { .. })
            && let Some(live) = self.jobs.table.get_mut(&job)
        {
            live.start_failures = 0;
            self.outbox.step(SchedulerEvent::Started(job));
        }
    }

    /// An effect failed: the scheduler learns of it and tries again. A job that cannot be started at all is
    /// given up, with the cause.
    pub(super) fn on_not_carried(&mut self, job: JobId, action: Action, error: String) {
        if matches!(action, Action::Start { .. })
            && let Some(live) = self.jobs.table.get_mut(&job)
        {
            live.start_failures += 1;
            if live.start_failures >= START_FAILURES_MAX {
                tracing::warn!(job = job.0, action = %in_words(&action), %error, "not carried out");
                return self.give_up(job, &error);
            }
        }
        self.on_put_off(job, action, error);
    }

    /// The same, however often it happens: the job waits until it can be done.
    pub(super) fn on_put_off(&mut self, job: JobId, action: Action, error: String) {
        tracing::warn!(job = job.0, action = %in_words(&action), %error, "not carried out");
        let now_us = self.ctx.clock.now_us();
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        match &action {
            Action::Start { .. } => {
                live.granted = false;
                live.does_not_begin();
                live.row.cpus = None;
            }
            Action::Freeze => live.set_state(JobState::Running, now_us),
            Action::Requeue => live.row.requeuing = false,
            _ => {}
        }
        live.row.reason = Some(format!("{} failed: {error}", in_words(&action)));
        self.outbox.journal.touch(job);
        self.outbox.step(SchedulerEvent::Failed { job, action, error });
    }

    fn give_up(&mut self, job: JobId, error: &str) {
        let reason = format!("it could not be started: {error}");
        if let Some(id) = self.jobs.table.get(&job).and_then(|live| live.keeper) {
            let words = format!("job {job}: {reason}; `pinfold doctor` shows what this host allows");
            let code = ErrorCode::Failed;
            self.outbox.push(Effect::Reply(id, Box::new(Reply::Struck { job: job.0, reason: words, code })));
        }
        self.close_unstarted(job, &reason);
        self.outbox.step(SchedulerEvent::Exited(job));
    }
}

/// Bounds how a job grows, or lets it grow as it likes.
fn slow(
    guard: &mut Guard,
    job: JobId,
    main: Option<ProcessId>,
    container: &mut Container,
    allowance: Option<u64>,
) -> Result<Applied, ContainerError> {
    if allowance.is_some() {
        // Before it is throttled: if this daemon dies, somebody has to let it grow.
        guard.will_throttle(job.0, main);
    }
    let slowed = container.slow(allowance)?;
    match &slowed {
        Applied::Kept(why) => tracing::debug!(job = job.0, why, "a job is not throttled"),
        Applied::Done if allowance.is_none() => guard.unthrottled(job.0),
        Applied::Done => {}
    }
    Ok(slowed)
}
