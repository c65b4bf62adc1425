//! After a restart: the disk says what should be, the kernel says what is. Jobs are known again, those that their users
//! suspended are suspended again, nothing else stays frozen, and what nobody knows any more is said so.

use std::collections::{BTreeSet, VecDeque};

use pinfold_policy::{Adopted, Command, Event as SchedulerEvent, Instant, JobId, Running, Settings};
use pinfold_profile::meter::Meter;
use pinfold_proto::JobState;
use pinfold_proto::row::{JobRow, ProcessId};
use pinfold_sys::container::{Container, Entered};
use pinfold_sys::identity::Process;
use pinfold_sys::mode::Mode;

use crate::core::{Next, clock, is_alive, may_live};
use crate::host::allocation;
use crate::jobs::record;
use crate::jobs::{JobRecord, endings};
use crate::meters::memory;
use crate::reactor::Daemon;
use crate::store::{starts, state_dir};
use crate::surroundings::scratch;

/// What the daemon before this one left, beside its store.
#[derive(Debug, Default)]
struct Left {
    /// The jobs that have containers.
    contained: BTreeSet<u64>,
    /// By how much this daemon's clock is ahead of that by which the times in the store are, in microseconds.
    step_us: i64,
    /// When its guard thawed what it had frozen, by this daemon's clock.
    thawed_us: Option<u64>,
}

/// Lets a job grow as it likes, and the kernel take its memory as that of any other.
pub(crate) fn free_memory_of(job: u64, container: &mut Container) {
    if let Err(error) = container.slow(None).and_then(|_| container.protect(0)) {
        tracing::error!(job, %error, "a job may stay throttled; `pinfold admin rescue` releases it");
    }
}

impl Daemon {
    /// Tells the scheduler of settings, machine and the jobs of an earlier life, in this order.
    pub(crate) fn restore(&mut self) -> anyhow::Result<()> {
        self.clients.names.look_up_configured(&self.ctx);
        self.host.resources.look(self.ctx.clock.now_us());
        self.clients.names.look_up_reserved(self.host.sets.users());
        self.clients.names.await_configured();
        self.host.sets.bound_sets(&self.ctx);
        self.meters.memory.bound_memory(&self.ctx);
        self.serve_metrics();
        self.outbox.step(SchedulerEvent::Configure(self.settings()));
        self.surroundings.disks.claim(&self.ctx);
        self.surroundings.disks.give_disk_room(&mut self.outbox, &self.jobs.table);
        self.outbox.step(SchedulerEvent::Machine(self.host.sets.machine(&self.ctx)));
        self.settle();
        // The groups of jobs may have less than this process.
        self.look_at_machine();
        self.settle();
        let rows = self.outbox.journal.unfinished()?;
        self.believe_keepers(&rows);
        let left = self.left_behind();
        self.count_on_from(&left);
        let found = rows.len();
        self.meters.learned.learn_lengths_for(&rows, &mut self.outbox);
        let mut later = VecDeque::new();
        for row in rows {
            self.restore_job(row, &left);
            self.settle_adoption(&mut later);
        }
        // The first that the scheduler hears once it knows all jobs: what it lets start then is checked against it.
        self.meters.on_memory_due(&self.ctx, &mut self.outbox, &mut self.jobs);
        self.outbox.behind(later);
        self.restore_gates();
        self.jobs.starts.retain(self.jobs.table.values().map(|live| &live.row));
        self.remove_leftovers();
        self.host.isolated.restore_isolation(
            &self.ctx,
            &mut self.outbox,
            &self.jobs.table,
            &mut self.host.sets,
        );
        self.look_at_own_nodes();
        self.surroundings.clear_leftovers(&mut self.outbox.journal, &self.jobs.table);
        self.surroundings.tear_down_leftovers(&mut self.outbox, &self.jobs.table);
        self.settle();
        if found > 0 && self.ctx.rebooted {
            let again = self.jobs.table.values().filter(|live| live.awaits_keeper.is_some()).count();
            tracing::warn!(
                jobs = found,
                again,
                "the host was restarted; what ran is over, but for those that are requeued"
            );
        } else if found > 0 {
            tracing::info!(jobs = found, "found jobs of an earlier life again");
        }
        // From here on jobs start: what ran in an earlier boot is on record, and must not be taken for that again.
        self.outbox.journal.write(&mut self.jobs.table);
        state_dir::note_boot(&self.ctx.state);
        state_dir::note_clock(&self.ctx.state, self.ctx.clock.start());
        state_dir::forget_thaw(&self.ctx.state);
        // What the daemon before this one wrote last, it may not have brought to disk.
        self.outbox.durable.soon();
        if self.host.resources.has_odd(&self.ctx.configured.config) {
            self.outbox.then(Next::Configure);
        }
        self.turns(vec![crate::core::event::Event::PolicyDue]);
        Ok(())
    }

    /// The host was not restarted, whatever is noted of its boot, if a keeper lives that asked for its job since it booted.
    fn believe_keepers(&mut self, rows: &[JobRow]) {
        let booted_us = self.ctx.clock.booted_us();
        let lives = |keeper| is_alive(&self.ctx.proc, keeper);
        let outlived = |row: &&JobRow| row.submitted_us > booted_us && row.keeper.is_some_and(lives);
        if let Some(row) = rows.iter().find(outlived).filter(|_| self.ctx.rebooted) {
            let path = self.ctx.state.join(pinfold_sys::boot::NOTE);
            tracing::warn!(
                path = %path.display(),
                job = row.job,
                "the note of the host's boot is not true: the host was not restarted, as a keeper lives"
            );
            self.ctx.rebooted = false;
        }
    }

    /// No number is given again of which there is a trace beside the store. Without groups anybody can leave one of any.
    fn count_on_from(&mut self, left: &Left) {
        let has_groups = self.ctx.containers.plan().mode != Mode::Rootless;
        let contained = left.contained.last().copied().filter(|_| has_groups);
        let last = contained.max(self.jobs.starts.last());
        last.into_iter().for_each(|job| self.outbox.journal.was_given(job));
    }

    /// What the daemon before this one left.
    fn left_behind(&self) -> Left {
        let contained = self.ctx.containers.list().unwrap_or_default().into_iter().collect();
        if self.ctx.rebooted {
            return Left { contained, ..Left::default() };
        }
        let before = state_dir::noted_clock(&self.ctx.state);
        let step_us = before.map_or(0, |before| clock::step_us(before, self.ctx.clock.start()));
        let thawed_us = state_dir::noted_thaw(&self.ctx.state).map(|at| at.saturating_add_signed(step_us));
        Left { contained, step_us, thawed_us }
    }

    /// The scheduler takes in a job that was found again, and nothing else yet: before it knows all of them, it would give
    /// to those that wait what others have. The rest is kept in its order.
    fn settle_adoption(&mut self, later: &mut VecDeque<Next>) {
        while let Some((next, behind)) = self.outbox.next() {
            match next {
                Next::Step(event) if matches!(*event, SchedulerEvent::Adopt(_)) => self.step(*event),
                Next::Adopt(job, runs) => self.adopt(job, runs),
                other => later.push_back(other),
            }
            self.outbox.behind(behind);
        }
    }

    fn restore_job(&mut self, row: JobRow, left: &Left) {
        let job = JobId(row.job);
        let mut live = Box::new(JobRecord::new(row, self.outbox.journal.has_row_of(job)));
        let adopted = live.row.spec.adopted.is_some();
        // Nobody keeps such a job; as long as it waits, its processes do.
        let runs_outside = self.restore_adopted(&live.row);
        let (proc, is_same_boot) = (&self.ctx.proc, !self.ctx.rebooted);
        let keeper_alive = is_same_boot && live.row.keeper.is_some_and(|keeper| may_live(proc, keeper));
        let main = live.row.main.filter(|&main| is_same_boot && is_alive(proc, main));
        let granted_us = if live.has_started() { None } else { self.was_to_start(job) };
        live.found_granted = granted_us.is_some();
        // Anybody can mark a process of its own as one of a job of its own: without groups that is no start.
        let counts =
            live.has_started() || live.found_granted || self.ctx.containers.plan().mode != Mode::Rootless;
        let populated = self.contain_again(&mut live, &left.contained, main) && counts;
        if populated {
            // One of which that was not written started as soon as it was decided; its timeout counts from then.
            live.row.started_us = live.row.started_us.or(granted_us);
            live.clock_stepped(left.step_us);
            live.row.started_us.get_or_insert(self.ctx.clock.now_us());
        } else if !live.has_started() {
            live.clock_stepped(left.step_us);
            // Made for a start that never came; the next one makes it again.
            live.container = None;
        }
        if live.has_started() {
            let last_us = self.ctx.clock.now_us();
            let started_us = live.row.started_us.unwrap_or(last_us);
            live.meter = Some(Box::new(Meter::resume(job.0, live.row.usage, started_us, last_us)));
            if live.container.is_some() {
                self.thaw_found(&mut live, left.thawed_us);
            } else if keeper_alive && live.row.ending.is_none() {
                // It ended while no daemon ran, and its container went with a reboot or a rescue: the keeper
                // knows how it ended and will say so.
                let until_us = live.frozen_until(false, left.thawed_us, last_us);
                live.set_state(JobState::Running, until_us);
            }
        } else {
            live.row.cpus = None;
        }
        live.orphaned = !keeper_alive && (live.has_started() || !adopted);
        if self.ctx.rebooted && live.has_started() && !populated {
            live.row.reason = Some(endings::RESTARTED.to_owned());
        }
        let is_requeued = self.jobs.starts.is_requeued_by_reboot(&self.ctx, &live) && !populated;
        if is_requeued {
            starts::requeue_after_reboot(&self.ctx, &mut live);
            (live.container, live.meter) = (None, None);
        }
        let runs = live.has_started() && populated;
        if live.container.is_some() {
            self.jobs.running.insert(job);
        }
        self.jobs.table.insert(job, live);
        self.outbox.journal.touch(job);
        self.goes_on(job, runs, keeper_alive, runs_outside);
    }

    /// A job is in the table again: the scheduler hears of it, and what it waits for is watched. `runs`: it has started
    /// and some of its processes are there; `runs_outside`: it was adopted, and waits while its processes run.
    fn goes_on(&mut self, job: JobId, runs: bool, keeper_alive: bool, runs_outside: bool) {
        let live = &self.jobs.table[&job];
        let (waits, adopted) = (!live.has_started(), live.row.spec.adopted.is_some());
        // Also of one that waits for another keeper: that one is to find it waiting.
        self.close_gate_again(job);
        if waits && !keeper_alive && !runs_outside {
            return self.is_kept_by_none(job, adopted);
        }
        if waits || runs {
            self.adopt(job, runs);
        }
        if keeper_alive {
            self.watch_keeper(job);
        } else if runs {
            allocation::ends_with_its_keeper(&mut self.outbox, &mut self.jobs.table, job);
        }
        if runs {
            let (journal, table) = (&mut self.outbox.journal, &mut self.jobs.table);
            self.meters.processes.follow_again(&self.ctx, journal, table, job);
            self.time_again(job);
        }
        if adopted && (waits || runs) {
            self.watch_adopted(job);
        }
        if runs && self.jobs.table.get(&job).is_some_and(|live| live.row.requeuing) {
            // The daemon before this one was about to end it, and may have ended some of it.
            if self.was_asked_to_requeue(job) {
                self.outbox.step(SchedulerEvent::Command(job, Command::Requeue));
            } else {
                self.outbox.push(crate::core::event::Effect::Act(job, pinfold_policy::Action::Requeue));
            }
        }
        self.watch_container(job);
        self.finish_if_empty(job);
        if !waits && !runs && self.jobs.table.contains_key(&job) {
            // Its keeper has yet to tell how it ended, or that it runs. Until then those that follow it wait; but a keeper
            // that does not come keeps a slot for no longer than one that does not tell.
            self.adopt(job, true);
            self.jobs.unheard.awaits_word(job);
        }
    }

    /// When the start of a job was decided that is not known to have started, if that is on disk.
    fn was_to_start(&mut self, job: JobId) -> Option<u64> {
        if let Some(granted_us) = self.outbox.journal.granted_unstored(job) {
            return granted_us;
        }
        let decisions = self.outbox.journal.store().decisions(job.0).unwrap_or_default();
        crate::core::words::leads_to_a_start(decisions.iter().map(|row| (row.action.as_str(), row.time_us)))
    }

    /// Whether a user or operator asked that a job be ended to be requeued, which it is.
    fn was_asked_to_requeue(&mut self, job: JobId) -> bool {
        let decisions = self.outbox.journal.store().decisions(job.0).unwrap_or_default();
        crate::core::words::is_requeued_as_asked(&decisions)
    }

    /// No keeper is left for which a job waits.
    fn is_kept_by_none(&mut self, job: JobId, adopted: bool) {
        if self.awaits_new_keeper(job) {
            return;
        }
        let why = match (self.ctx.rebooted, adopted) {
            (true, _) => endings::RESTARTED_BEFORE,
            (false, true) => endings::ENDED_BEFORE,
            (false, false) => "its client was gone when the daemon came back",
        };
        self.close_unstarted(job, why);
    }

    /// Finds a job's container again, if it has one; says whether anything runs in it.
    fn contain_again(
        &self,
        live: &mut JobRecord,
        contained: &BTreeSet<u64>,
        main: Option<ProcessId>,
    ) -> bool {
        let job = live.id();
        // A start whose moment was not written yet shows by its container.
        let contained = if live.has_started() || contained.contains(&job.0) {
            self.ctx.containers.adopt(job.0, main.map(|main| (main.pid, main.start_ticks)))
        } else {
            Ok(None)
        };
        match contained {
            Ok(container) => {
                live.container = container.map(Box::new).inspect(|found| found.belongs_to(live.row.uid))
            }
            Err(error) => tracing::warn!(job = job.0, %error, "a container cannot be found again"),
        }
        let shape = live.shape();
        if let Some(container) = &mut live.container {
            container.remember(&shape);
        }
        live.container.as_ref().is_some_and(|container| container.is_populated().unwrap_or(false))
    }

    /// A keeper says that a job runs as this process. If the daemon died between letting it go and writing that down, the
    /// job is taken for running from now on.
    pub(super) fn found_running(&mut self, job: JobId, process: &Process) {
        let main = Some(crate::jobs::child::id(process));
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        live.row.main = live.row.main.or(main);
        if live.container.is_some() || live.row.ending.is_some() {
            return self.thaw_again(job);
        }
        let shape = live.shape();
        let identity = Some((process.pid(), process.start_ticks()));
        let found = self.ctx.containers.adopt(job.0, identity).ok().flatten();
        let mut container = match found.map_or_else(|| self.ctx.containers.create(job.0, &shape), Ok) {
            Ok(container) => container,
            Err(error) => {
                tracing::warn!(job = job.0, %error, "a job runs outside any container");
                return;
            }
        };
        match container.enter_process(process) {
            Ok(Entered::Yes) => {}
            Ok(Entered::Gone) => tracing::debug!(job = job.0, "a job's process has ended by now"),
            Err(error) => tracing::warn!(job = job.0, %error, "a job runs outside its container"),
        }
        free_memory_of(job.0, &mut container);
        self.started(job, container);
        self.meters.processes.follow_again(&self.ctx, &mut self.outbox.journal, &mut self.jobs.table, job);
        self.thaw_again(job);
        self.adopt(job, true);
    }

    /// Thaws a job that nobody wants frozen: its keeper presents it after a restart, and the daemon before this one
    /// may have frozen it.
    pub(super) fn thaw_again(&mut self, job: JobId) {
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        if live.row.frozen_since_us.is_none()
            && let Some(Err(error)) = live.container.as_deref_mut().map(Container::thaw)
        {
            tracing::error!(job = job.0, %error, "a job may stay frozen; `pinfold admin rescue` thaws it");
        }
    }

    /// Nothing that the daemon before this one froze of its own accord stays frozen: why it did may hold no longer. What a
    /// user suspended stays where it is, or is frozen again if the guard or that daemon thawed it: the scheduler, which
    /// hears of it in [`Self::adopt`], asks for that. What the guard thawed has run since `thawed_us`.
    fn thaw_found(&mut self, live: &mut JobRecord, thawed_us: Option<u64>) {
        if let Some(container) = live.container.as_mut() {
            free_memory_of(live.row.job, container);
        }
        let is_frozen = (live.row.suspended || live.row.frozen_since_us.is_some())
            && live.container.as_deref().is_some_and(|container| container.is_frozen().unwrap_or(false));
        let until_us = live.frozen_until(is_frozen, thawed_us, self.ctx.clock.now_us());
        if live.row.suspended {
            if !is_frozen {
                live.set_state(JobState::Running, until_us);
            }
            return;
        }
        if let Some(container) = live.container.as_mut()
            && let Err(error) = container.thaw()
        {
            tracing::error!(job = live.row.job, %error, "a job stays frozen; `pinfold admin rescue` thaws it");
        }
        if live.row.frozen_since_us.is_some() {
            live.row.reason = Some("thawed when the daemon came back".to_owned());
        }
        live.set_state(JobState::Running, until_us);
    }

    /// Tells the scheduler of a job of an earlier life.
    pub(super) fn adopt(&mut self, job: JobId, runs: bool) {
        if runs && let Some(live) = self.jobs.table.get_mut(&job) {
            self.host.resources.keep(job, &mut live.row.spec.terms.resources);
        }
        // It may be over since that was asked for.
        let Some(live) = self.jobs.table.get(&job) else { return };
        let learned = &self.meters.learned;
        let mut request = self.host.sets.request(&self.ctx, &self.jobs.table, learned, &live.row);
        request.held = live.row.state == JobState::Held || live.awaits_keeper.is_some();
        (request.requeues, request.checkpoints) = (live.row.requeues, live.row.checkpoints);
        request.gated = !runs && self.jobs.gates.is_closed(job);
        // Those that are over it has waited for: the moment in which they are missed does not count.
        request.after.retain(|before| self.jobs.table.contains_key(before));
        let running = runs.then(|| Running {
            started: Instant(live.row.started_us.unwrap_or(live.row.submitted_us)),
            class: record::to_policy(live.row.class),
            cpus: live.row.cpus.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default(),
            frozen: false,
            suspended: live.row.suspended,
        });
        let submitted = Instant(live.row.submitted_us);
        let waits_since =
            (!runs).then(|| Instant(record::waits_since_us(&live.row, self.ctx.clock.now_us())));
        let array_room_since = self.array_room_since(job);
        let adopted = Adopted { request, submitted, waits_since, array_room_since, running };
        self.outbox.step(SchedulerEvent::Adopt(adopted));
    }

    /// When a member of the array that a job is part of last made room for another one, if the array bounds how many may
    /// have started; the first of its members that is found tells it for all others.
    fn array_room_since(&mut self, job: JobId) -> Option<Instant> {
        let row = &self.jobs.table[&job].row;
        let place = row.spec.array.filter(|place| place.at_most.is_some())?;
        let (array, now_us) = (place.array?, self.ctx.clock.now_us());
        if row.requeues > 0 || row.checkpoints > 0 {
            // It made room itself, and when that was is on no disk, but not later than its start.
            return Some(Instant(row.started_us.unwrap_or(now_us)));
        }
        let is_known = |member| member != job && self.ctx.policy.job(member).is_some();
        let is_first = !self.jobs.table.members(array).any(|(member, _)| is_known(member));
        let last_us = || self.outbox.journal.store().last_end_in(array).ok();
        is_first.then(last_us).flatten().map(|at| Instant(at.unwrap_or(0).min(now_us)))
    }

    /// Groups in the kernel that no job on disk accounts for: empty ones are removed, others are left running
    /// and named, and what stands around them stays until they are empty.
    fn remove_leftovers(&mut self) {
        let Ok(left) = self.ctx.containers.list() else { return };
        for job in left.into_iter().filter(|&job| !self.jobs.table.contains_key(&JobId(job))) {
            let Ok(Some(mut container)) = self.ctx.containers.adopt(job, None) else { continue };
            let _ = container.thaw();
            if let Ok(pinfold_sys::container::Removed::Busy(container)) = container.remove() {
                tracing::warn!(job, "processes of a job that the store does not know go on, unmanaged");
                self.jobs.finished.keep(JobId(job), container);
                self.surroundings.unknown.insert(JobId(job));
            }
        }
    }

    /// Makes a changed configuration effective.
    pub(super) fn apply_configuration(&mut self) {
        self.events.configure(self.ctx.configured.config.record_events);
        self.meters.memory.bound_memory(&self.ctx);
        self.outbox.then(Next::Configure);
        self.outbox.then(Next::Machine);
        // What jobs may hold follows from the budget with the next reading: `why` and `status` say the same from now on.
        self.meters.memory.on_memory_due(&self.ctx, &mut self.outbox, &mut self.jobs);
        self.surroundings.disks.claim(&self.ctx);
        self.host.isolated.clear_isolated_cores(&self.ctx, &self.jobs.table);
        self.meters.sampler.set_interval(self.ctx.configured.config.profile_interval);
        self.meters.processes.enable(self.ctx.configured.config.profile_processes);
        self.serve_metrics();
        if !self.ctx.configured.config.profile_files {
            let files = self.meters.files.stop();
            files.into_iter().for_each(|row| self.outbox.journal.file(row));
        }
    }

    /// Serves figures; a host that cannot runs its jobs all the same, and says so.
    fn serve_metrics(&mut self) {
        if let Err(error) = self.open_metrics() {
            tracing::error!(%error, "no figures are served");
            self.clients.warnings.push(error);
        }
    }

    /// The scheduler's settings, of the configuration and this host.
    pub(super) fn settings(&self) -> Settings {
        let config = &self.ctx.configured.config;
        let settings = pinfold_settings::of(config);
        Settings {
            drain: self.ctx.draining,
            tmp_total_bytes: scratch::tmp_total_bytes(&self.ctx),
            tmp_left_bytes: self.surroundings.tmp_left_bytes(),
            resources: self.host.resources.for_scheduler(&self.ctx.policy, config),
            memory: memory::memory_settings(&self.ctx, settings.memory),
            ..settings
        }
    }
}
