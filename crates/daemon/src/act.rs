//! From decisions to deeds: a decision is noted in the job's row and the journal, and its effect carried out
//! once that is on disk.

use pinfold_policy::{Action, Decision, Event as Judged, JobId, MemoryReason, Reason, State};
use pinfold_profile::meter::Meter;
use pinfold_proto::JobState;
use pinfold_proto::row::DecisionRow;
use pinfold_proto::wire::{ErrorCode, Reply};
use pinfold_sys::container::{Applied, Container, ContainerError, Shape};
use pinfold_sys::peer;

use crate::crash;
use crate::daemon::Daemon;
use crate::durable::Begin;
use crate::event::{ConnectionId, Effect, Event};
use crate::live::{from_policy, share};
use crate::poller::Ready;

/// After so many failed starts in a row a job is given up, with the cause.
const START_FAILURES_MAX: u32 = 5;
/// A job that goes on with less than this in swap fetches it by its own page faults.
const FETCH_BYTES: u64 = 4 << 20;

impl Daemon {
    /// Notes a decision; its effect follows after the write, or just before it.
    pub(crate) fn decided(&mut self, decision: Decision) {
        let Decision { job, action, reason } = decision;
        let now_us = self.clock.now_us();
        let Some(live) = self.jobs.get_mut(&job) else { return };
        let words = reason.to_string();
        if let Action::PageOut { .. } = action {
            // Asked for again and again while the job rests, or gets on without; the first time tells all.
            let first = live.row.state == JobState::Frozen
                || matches!(reason, Reason::Memory(MemoryReason::Probed { .. }));
            if !first {
                self.effects.push(Effect::Act(job, action));
                return;
            }
        }
        self.journal.decided(DecisionRow {
            job: job.0,
            time_us: now_us,
            action: in_words(&action),
            reason: words.clone(),
        });
        tracing::debug!(job = job.0, action = %in_words(&action), reason = %words, "decided");
        match &action {
            Action::Start { class, cpus, priority } => {
                live.row.class = from_policy(*class);
                live.row.cpus = (!cpus.is_empty()).then(|| cpus.to_string());
                live.row.priority = *priority;
                live.granted = true;
            }
            Action::Bind { cpus } => live.row.cpus = (!cpus.is_empty()).then(|| cpus.to_string()),
            Action::Weigh { class, priority, even } => {
                live.row.class = from_policy(*class);
                live.row.priority = *priority;
                live.even = *even;
            }
            Action::Freeze => {
                live.freezes_since = self
                    .governor
                    .told()
                    .filter(|_| matches!(reason, Reason::Memory(MemoryReason::Short { .. })));
                live.set_state(JobState::Frozen, now_us);
            }
            Action::Thaw => live.set_state(JobState::Running, now_us),
            Action::Signal { .. } => {}
            Action::PageOut { .. } if live.row.frozen_since_us.is_some() => {
                live.set_state(JobState::Parked, now_us);
            }
            // It runs on without what goes out.
            Action::PageOut { .. } => {}
            // It runs on as it did, and why it does has not changed.
            Action::Protect { .. } => return self.effects.push(Effect::Act(job, action)),
            Action::Near { nodes } => {
                live.near.clone_from(nodes);
                return self.effects.push(Effect::Act(job, action));
            }
            Action::Slow { .. } => {}
            Action::Checkpoint => live.set_state(JobState::Running, now_us),
            Action::Requeue if reason == Reason::Memory(MemoryReason::Checkpointed) => {
                live.row.requeuing = true;
                live.row.checkpoints = live.row.checkpoints.saturating_add(1);
            }
            Action::Requeue => {
                live.row.requeuing = true;
                live.row.requeues = live.row.requeues.saturating_add(1);
            }
            Action::Drop { refused } => return self.dropped(job, *refused, &words, &reason),
        }
        if !live.killed {
            live.row.reason = Some(words);
        }
        self.journal.touch(job);
        if action == Action::Requeue && self.jobs.get(&job).is_some_and(|live| self.starts.has(&live.row)) {
            // How often it began counts after a power cut too; nothing waits for that, for memory may be short.
            self.durable.soon();
        }
        self.effects.push(Effect::Act(job, action));
    }

    /// A waiting job is struck off.
    fn dropped(&mut self, job: JobId, refused: bool, words: &str, reason: &pinfold_policy::Reason) {
        let Some(live) = self.jobs.get_mut(&job) else { return };
        let code = match reason {
            pinfold_policy::Reason::QueueFull { .. } => ErrorCode::QueueFull,
            _ if refused => ErrorCode::Refused,
            _ => ErrorCode::Failed,
        };
        if let Some(id) = live.keeper {
            let (job, reason) = (job.0, format!("job {job}: {words}"));
            let reply = match live.ticket {
                Some(ticket) => Reply::Refused { ticket, job: Some(job), reason, code },
                None => Reply::Struck { job, reason, code },
            };
            self.effects.push(Effect::Reply(id, reply));
        }
        self.close_unstarted(job, words);
    }

    /// The row's state as the judgement has it, where a command changed it without an action.
    pub(crate) fn follow_policy(&mut self, job: JobId) {
        let Some(info) = self.policy.job(job) else { return };
        let now_us = self.clock.now_us();
        let Some(live) = self.jobs.get_mut(&job) else { return };
        let state = match info.state {
            State::Waiting { held: true } => JobState::Held,
            State::Waiting { held: false } | State::Starting => JobState::Queued,
            State::Running => JobState::Running,
            State::Frozen { .. } if info.parked => JobState::Parked,
            State::Frozen { .. } => JobState::Frozen,
        };
        if live.row.state != state {
            live.set_state(state, now_us);
            self.journal.touch(job);
        }
    }

    /// The start that a job was granted, to be tried again now that its child or keeper is there.
    pub(crate) fn start_action(&self, job: JobId) -> Action {
        let live = self.jobs.get(&job).expect("asked for a known job");
        Action::Start {
            class: crate::live::to_policy(live.row.class),
            cpus: live.row.cpus.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default(),
            priority: live.row.priority,
        }
    }

    /// Carries one effect out; what comes of it is an event.
    pub(crate) fn carry_out(&mut self, effect: Effect) -> Option<Event> {
        let counts = effect.concerns_a_job();
        counts.then(|| crash::point("before an effect"));
        self.turn.busy_with(crate::turns::work::of_effect(&effect));
        let event = self.carry_out_now(effect);
        counts.then(|| crash::point("after an effect"));
        event
    }

    fn carry_out_now(&mut self, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Reply(id, reply) => {
                self.server.send(id, &reply);
                self.to_flush.insert(id);
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
                    self.isolate(job);
                }
                Some(match result {
                    Ok(()) => Event::Carried(job, action),
                    Err(error) => Event::NotCarried(job, action, in_full(&error)),
                })
            }
            Effect::Remove(job) => {
                self.take_down(job);
                None
            }
            Effect::Gather(job) => {
                self.gather_job(job);
                None
            }
            Effect::KeepStart(job, start) => {
                self.keep_start_now(job, &start);
                None
            }
            Effect::Kill(job) => {
                let live = self.jobs.get(&job)?;
                if let Some(container) = &live.container
                    && let Err(error) = container.kill()
                {
                    tracing::error!(job = job.0, %error, "a job cannot be killed");
                }
                None
            }
            Effect::LetHear(job) => {
                let frozen = self.jobs.get(&job).is_some_and(|live| live.row.frozen_since_us.is_some());
                // The terminal sent its signal already; thawed, the job hears it. To the judgement it is a
                // cancel by a signal that does nothing to a job that runs.
                if frozen {
                    let signal = pinfold_sys::signals::SIGCONT;
                    self.judge(Judged::Command(job, pinfold_policy::Command::Cancel { signal }));
                }
                None
            }
        }
    }

    /// Makes a job's container and lets its command go: through doors where the host has them, else by taking the
    /// keeper's child in.
    fn start(&mut self, job: JobId, action: Action) -> Option<Event> {
        let live = self.jobs.get_mut(&job)?;
        if live.container.is_some() || !live.granted {
            return None;
        }
        if live.row.spec.adopted.is_some() {
            return self.take_in(job, action);
        }
        let (id, uid, has_child) = (live.keeper?, live.row.uid, live.child.is_some());
        if self.waits_for_its_keeper(job) || self.waits_for_its_nodes(job) {
            return None;
        }
        if let Err(error) = self.set_up(job)? {
            return Some(Event::NotCarried(job, action, error));
        }
        if !has_child && self.has_doors_for(uid) {
            if !self.is_sure_to_be_known(job) {
                return None;
            }
            return Some(self.start_through_doors(job, id, action));
        }
        let live = self.jobs.get_mut(&job)?;
        if live.child.is_none() {
            if !live.asked_child {
                live.asked_child = true;
                self.server.send(id, &Reply::Grant { job: job.0 });
                self.to_flush.insert(id);
                self.awaits_answer(job);
            }
            return None;
        }
        if !self.is_sure_to_be_known(job) {
            return None;
        }
        let shape = self.shape_of(job)?;
        let (container, main) = match self.take_child_in(job, id, &shape) {
            Ok(Some(taken)) => taken,
            Ok(None) => return Some(Event::ChildGone(job)),
            Err(error) => return Some(Event::NotCarried(job, action, in_full(&error))),
        };
        self.jobs.get_mut(&job)?.row.main = Some(main);
        self.processes.bind(job, main.pid, self.clock.now_us());
        crash::point("between a child in its group and its start");
        self.started(job, container);
        let variables = self.variables(job);
        self.server.send(id, &Reply::Go { job: job.0, doors: 0, variables, wrap: self.wrap() });
        self.to_flush.insert(id);
        Some(Event::Carried(job, action))
    }

    /// Whether this user's jobs come in through doors. The kernel checks the rights of whoever opened them: through
    /// a door of this daemon another user could put any process of the host into a job of theirs, and freeze it.
    pub(crate) fn has_doors_for(&self, uid: u32) -> bool {
        self.doors && uid == peer::own_uid()
    }

    fn start_through_doors(&mut self, job: JobId, id: ConnectionId, action: Action) -> Event {
        let shape = self.shape_of(job).unwrap_or_default();
        let made = self.containers.create(job.0, &shape);
        let opened = made.and_then(|container| Ok((container.doors()?, container)));
        let (doors, container) = match opened {
            Ok(opened) => opened,
            Err(error) => return Event::NotCarried(job, action, in_full(&error)),
        };
        crash::point("between a group and its start");
        self.started(job, container);
        let variables = self.variables(job);
        let count = u32::try_from(doors.len()).expect("one for each hierarchy");
        let go = Reply::Go { job: job.0, doors: count, variables, wrap: self.wrap() };
        self.server.send_with(id, &go, doors);
        self.to_flush.insert(id);
        self.awaits_answer(job);
        Event::Carried(job, action)
    }

    /// The job runs from now on, in this container.
    pub(crate) fn started(&mut self, job: JobId, container: Container) {
        let now_us = self.clock.now_us();
        let Some(live) = self.jobs.get_mut(&job) else { return };
        live.container = Some(Box::new(container));
        live.row.started_us = Some(now_us);
        live.begin = Begin::No;
        live.set_state(JobState::Running, now_us);
        let mut meter = Meter::new(job.0);
        meter.processes_from(self.processes.from());
        live.meter = Some(Box::new(meter));
        let comes_back = self.starts.has(&live.row);
        self.running.insert(job);
        self.isolate(job);
        self.keep_away(job);
        if comes_back {
            // If the host went down now, it must not be taken for one that has not begun, and started a second time.
            self.journal.touch(job);
        } else {
            // The decision to start it is on disk; the moment is written along with whatever is written next.
            self.journal.touch_later(job);
        }
    }

    /// Takes those who came through the doors of their containers into the unified hierarchy. It may take an RCU
    /// grace period, so it is done once a job has lived for longer than a short one does.
    pub(crate) fn close_doors(&mut self) {
        let now_us = self.clock.now_us();
        while let Some(&(at, job)) = self.doors_due.front()
            && at <= now_us
        {
            self.doors_due.pop_front();
            let Some(live) = self.jobs.get(&job) else { continue };
            let Some(container) = &live.container else { continue };
            let main = live.row.main.and_then(|main| self.process_again(main));
            // A door may have stayed shut (the last PU of the set went offline); taken in, the job is in.
            let closed = container.close_doors().and_then(|()| match (main, container.pids()?) {
                (Some(main), inside) if !inside.contains(&main.pid()) => {
                    container.enter_process(&main).map(drop)
                }
                _ => Ok(()),
            });
            if let Err(error) = closed {
                tracing::warn!(job = job.0, %error, "a job is not wholly in its container");
            }
            // Only now will the kernel say when it empties.
            if live.lingers || live.orphaned {
                self.watch_container(job);
                self.finish_if_empty(job);
            }
        }
    }

    /// Makes a job's container, or takes the one in which a daemon that died during the start had put the child
    /// already.
    pub(crate) fn make_container(
        &self,
        job: JobId,
        shape: &Shape,
        child: u32,
    ) -> Result<Container, ContainerError> {
        let occupied = match self.containers.create(job.0, shape) {
            Err(error @ ContainerError::Occupied { .. }) => error,
            made => return made,
        };
        let Some(mut left) = self.containers.adopt(job.0, None)? else { return Err(occupied) };
        if left.pids()? != [child] {
            return Err(occupied);
        }
        left.bind(&shape.cpus)?;
        left.share(shape.share)?;
        left.limit(shape.limit_bytes)?;
        left.restrict(&shape.limits)?;
        Ok(left)
    }

    /// What a job finds in its environment.
    pub(crate) fn variables(&self, job: JobId) -> Vec<(String, String)> {
        let cpus = self.jobs.get(&job).and_then(|live| live.row.cpus.clone());
        let spec = self.jobs.get(&job).map(|live| &live.row.spec);
        let given = cpus.and_then(|text| text.parse().ok()).unwrap_or_else(|| self.topology.usable());
        let cpus = spec.map_or(given.clone(), |spec| crate::allocation::confined(spec, &given)).to_string();
        let scratch = spec.and_then(|spec| self.scratches.variable(job, spec));
        let always = [
            ("PINFOLD_JOB_ID", job.0.to_string()),
            ("PINFOLD_INSTANCE", self.instance.clone()),
            ("PINFOLD_MODE", self.containers.plan().mode.as_str().to_owned()),
            ("PINFOLD_CPUS", cpus),
            ("PINFOLD_TASK_ID", "0".to_owned()),
            ("PINFOLD_NTASKS", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value));
        let row = self.jobs.get(&job).map(|live| &live.row);
        let (ended, written) = row.map_or((0, 0), |row| (row.requeues, row.checkpoints));
        let counts = [("PINFOLD_RESTARTS", ended.saturating_add(written)), ("PINFOLD_CHECKPOINTS", written)];
        let counts = counts.into_iter().filter(|&(_, count)| count > 0);
        let counts = counts.map(|(name, count)| (name.to_owned(), count.to_string()));
        let site = self.around.variables(job);
        let place = spec.and_then(|spec| spec.array);
        let array = place.into_iter().flat_map(|place| {
            let id = place.array.unwrap_or(job.0).to_string();
            [("PINFOLD_ARRAY_ID", id), ("PINFOLD_ARRAY_INDEX", place.index.to_string())]
        });
        let array = array.map(|(name, value)| (name.to_owned(), value));
        always
            .into_iter()
            .chain(counts)
            .chain(array)
            .chain(scratch.map(|path| ("TMPDIR".to_owned(), path)))
            .chain(self.disks.variable(job).map(|path| ("PINFOLD_DISK_DIR".to_owned(), path)))
            .chain(site)
            .collect()
    }

    /// Does to a job's processes what was to be done before there were any.
    pub(crate) fn catch_up(&mut self, job: JobId) {
        let early = self.jobs.get_mut(&job).map(|live| std::mem::take(&mut live.early));
        for action in early.unwrap_or_default() {
            if let Some(Err(error)) = self.act(job, &action) {
                self.not_carried(job, action, in_full(&error));
            }
        }
    }

    fn act(&mut self, job: JobId, action: &Action) -> Option<Result<(), ContainerError>> {
        let live = self.jobs.get_mut(&job)?;
        let on_processes = matches!(action, Action::Freeze | Action::Thaw | Action::Signal { .. });
        if on_processes && live.container.is_some() && live.row.main.is_none() && live.keeper.is_some() {
            // Its keeper stands still until the command is executed: frozen before, it would hold its keeper, and a
            // signal would find nobody.
            live.early.push(action.clone());
            // How long it takes to begin tells nothing of how soon one that holds memory stands still.
            live.freezes_since = None;
            return Some(Ok(()));
        }
        let main = live.row.main.map(|main| main.pid);
        if let Action::Near { nodes } = action {
            return self.bring_near(job, nodes);
        }
        let confined = |cpus| crate::allocation::confined(&live.row.spec, cpus);
        let container = live.container.as_mut()?;
        Some(match action {
            Action::Start { .. } | Action::Drop { .. } | Action::Near { .. } | Action::Checkpoint => {
                return None;
            }
            Action::PageOut { bytes } => {
                self.governor.page_out(job, *bytes);
                Ok(())
            }
            Action::Bind { cpus } => container.bind(&confined(cpus)).map(drop),
            Action::Weigh { class, priority, even } => {
                container.share(share(from_policy(*class), *priority, *even)).map(drop)
            }
            Action::Freeze => {
                self.guard.will_freeze(job.0, main);
                let since = live.freezes_since.take();
                let frozen = container.freeze();
                if let (Ok(()), Some(since)) = (&frozen, since)
                    && let Some(watch) = container.watch_freeze()
                {
                    self.governor.witness.watch(job.0, since, watch);
                }
                frozen
            }
            Action::Thaw => {
                let thawed = container.thaw();
                if thawed.is_ok() {
                    self.guard.thawed(job.0);
                    self.fetch(job);
                }
                thawed
            }
            Action::Slow { allowance } => {
                let runs = live.row.state == JobState::Running;
                if allowance.is_some() {
                    self.guard.will_slow(job.0, main);
                }
                match container.slow(*allowance) {
                    Ok(Applied::Kept(why)) => {
                        tracing::debug!(job = job.0, why, "a job's growth is not slowed");
                        Ok(())
                    }
                    Ok(Applied::Done) => {
                        if allowance.is_none() {
                            self.guard.not_slowed(job.0);
                            // What the kernel moved out while it was slowed it would have to find page by page.
                            runs.then(|| self.fetch(job));
                        }
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
            Action::Protect { bytes } => container.protect(*bytes).map(drop),
            Action::Requeue => container.kill(),
            Action::Signal { signal } => {
                // A handler runs only in a thawed job; the judgement thaws before it asks for a signal.
                container.signal(*signal).map(drop)
            }
        })
    }

    /// What a job that goes on has in swap is read back, unless it is so little that it finds it by itself.
    fn fetch(&self, job: JobId) {
        if self.policy.job(job).is_some_and(|info| info.swapped_bytes - info.cold_bytes >= FETCH_BYTES) {
            self.governor.fetch(job);
        }
    }

    /// An effect was carried out.
    pub(crate) fn carried(&mut self, job: JobId, action: &Action) {
        if matches!(action, Action::Start { .. })
            && let Some(live) = self.jobs.get_mut(&job)
        {
            live.start_failures = 0;
            self.judge(Judged::Started(job));
        }
    }

    /// An effect failed: the judgement learns of it and tries again. A job that cannot be started at all is
    /// given up, with the cause.
    pub(crate) fn not_carried(&mut self, job: JobId, action: Action, error: String) {
        tracing::warn!(job = job.0, action = %in_words(&action), %error, "not carried out");
        let now_us = self.clock.now_us();
        let Some(live) = self.jobs.get_mut(&job) else { return };
        match &action {
            Action::Start { .. } => {
                live.granted = false;
                live.does_not_begin();
                live.start_failures += 1;
                if live.start_failures >= START_FAILURES_MAX {
                    return self.give_up(job, &error);
                }
                live.row.cpus = None;
            }
            Action::Freeze => live.set_state(JobState::Running, now_us),
            Action::Requeue => live.row.requeuing = false,
            _ => {}
        }
        live.row.reason = Some(format!("{} failed: {error}", in_words(&action)));
        self.journal.touch(job);
        self.judge(Judged::Failed { job, action, error });
    }

    fn give_up(&mut self, job: JobId, error: &str) {
        let reason = format!("it could not be started: {error}");
        if let Some(id) = self.jobs.get(&job).and_then(|live| live.keeper) {
            let words = format!("job {job}: {reason}; `pinfold doctor` shows what this host allows");
            let code = ErrorCode::Failed;
            self.effects.push(Effect::Reply(id, Reply::Struck { job: job.0, reason: words, code }));
        }
        self.close_unstarted(job, &reason);
        self.judge(Judged::Exited(job));
    }

    /// Removes the container of a job that is over.
    pub(crate) fn remove(&mut self, job: JobId) {
        let Some(container) = self.sampler.take_finished(job) else { return };
        match container.remove() {
            Ok(pinfold_sys::container::Removed::Yes) => {}
            // Its last process has ended and is still on its way out.
            Ok(pinfold_sys::container::Removed::Busy(container)) => {
                self.sampler.keep_finished(job, container);
                self.lingering.watch(job, self.clock.now_us());
            }
            Err(error) => tracing::warn!(job = job.0, %error, "a container is left over"),
        }
    }

    /// Watches a job's container for its end.
    pub(crate) fn watch_container(&mut self, job: JobId) {
        let Some(container) = self.jobs.get(&job).and_then(|live| live.container.as_ref()) else { return };
        match container.events_fd() {
            // Watched twice is an error that means it is watched already.
            Some(descriptor) => drop(self.poller.watch(Ready::Container(job), descriptor)),
            // Its doors are open still; it is watched once they are closed.
            None if self.doors => self.doors_due.push_front((self.clock.now_us(), job)),
            None => {}
        }
    }
}

/// An action as it is recorded: `start as backfill on 1`.
pub(crate) fn in_words(action: &Action) -> String {
    let on = |cpus: &pinfold_topo::CpuSet| {
        if cpus.is_empty() { String::from("anywhere") } else { format!("on {cpus}") }
    };
    let class = |class: &pinfold_policy::Class| match class {
        pinfold_policy::Class::Primary => "primary",
        pinfold_policy::Class::Backfill => "backfill",
        pinfold_policy::Class::Exclusive => "exclusive",
    };
    match action {
        Action::Start { class: kind, cpus, .. } => format!("start as {} {}", class(kind), on(cpus)),
        Action::Bind { cpus } => format!("bind {}", on(cpus)),
        Action::Weigh { class: kind, priority, even } => {
            let share = if *even { ", with a primary's share of its core" } else { "" };
            format!("make it {} of priority {priority}{share}", class(kind))
        }
        Action::Freeze => "freeze".to_owned(),
        Action::Thaw => "thaw".to_owned(),
        Action::PageOut { bytes } => format!("page out {} MiB", bytes >> 20),
        Action::Signal { signal } => {
            format!("send {}", pinfold_sys::signals::name(*signal).map_or(signal.to_string(), str::to_owned))
        }
        Action::Slow { allowance: Some(bytes) } => format!("slow its growth after {} MiB more", bytes >> 20),
        Action::Slow { allowance: None } => "let it grow again".to_owned(),
        Action::Protect { bytes: 0 } => "take its memory as that of others".to_owned(),
        Action::Protect { bytes } => format!("take {} MiB of its memory last", bytes >> 20),
        Action::Near { nodes } if nodes.is_empty() => "let its memory lie on all NUMA nodes".to_owned(),
        Action::Near { nodes } => {
            let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            format!("bind its memory to NUMA nodes {}", nodes.join(","))
        }
        Action::Checkpoint => "write a checkpoint".to_owned(),
        Action::Requeue => "end it to begin anew".to_owned(),
        Action::Drop { refused: true } => "refuse".to_owned(),
        Action::Drop { refused: false } => "strike off".to_owned(),
    }
}

/// An error with its causes, in one line.
pub(crate) fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
