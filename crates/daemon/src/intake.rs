//! What clients ask for.

use pinfold_policy::{Command, Event as Judged, JobId};
use pinfold_proto::array::JobName;
use pinfold_proto::config::Config;
use pinfold_proto::row::{JobRow, ProcessId};
use pinfold_proto::wire::{ErrorCode, Phase, Reply, Request, Verb, WIRE_VERSION, WIRE_VERSION_OLDEST};
use pinfold_proto::{Ending, JobSpec, JobState};
use pinfold_sys::container::Container;
use pinfold_sys::peer::{self, Peer};

use crate::answer::Wanted;
use crate::arrays;
use crate::audit::Concern;
use crate::child::Child;
use crate::daemon::Daemon;
use crate::event::{ConnectionId, Effect};
use crate::live::Live;
use crate::names::{self, Number};
use crate::pieces::Asked;
use crate::poller::Ready;
use crate::rights::{self, Refusal, denied};

/// How long a job that came through the doors of its container lives before those are closed. Most short jobs are
/// over by then, and are spared the wait.
const DOORS_CLOSE_AFTER_US: u64 = 30_000;

/// How long the name of a job or a project may be, in bytes.
const NAME_MAX_BYTES: usize = 512;

/// How much is kept of what a keeper says when it takes a job back, in characters.
const REASON_MAX_CHARS: usize = 1024;

/// How long a job may take to end after it was asked to, before it is killed.
const KILL_AFTER_US: u64 = 10_000_000;

impl Daemon {
    /// Handles one request.
    pub(crate) fn requested(&mut self, id: ConnectionId, request: Request) {
        let Some(user) = self.server.peer(id) else { return };
        if !self.server.is_greeted(id) && !matches!(request, Request::Hello { .. }) {
            self.refuse(id, ErrorCode::Usage, "the first message of a connection is its hello");
            self.server.close_after_sending(id);
            return;
        }
        if let Some(version) = self.server.older(id)
            && !request.is_of_an_older_keeper()
        {
            return self.refuse_version(id, version);
        }
        if let Some(text) = crate::cost::refusal(&request) {
            return self.refuse(id, ErrorCode::Usage, &text);
        }
        if !crate::cost::is_kept_up(&request)
            && let Some(text) = self.server.leaves_unread(user.uid)
        {
            return self.refuse(id, ErrorCode::Refused, &text);
        }
        match request {
            Request::Hello { version } => self.hello(id, version),
            Request::Submit { ticket, spec, pid } => self.submitted(id, user, ticket, *spec, pid),
            Request::Child { job, pid } => self.child(id, user, JobId(job), pid),
            Request::Attach { job, phase } => self.attached(id, user, JobId(job), phase),
            Request::Presented => self.presented(id, user),
            Request::Keep { job, start } => self.keep_start(id, JobId(job), start),
            Request::Ended { job, ending } => {
                if self.keeps(id, JobId(job)) {
                    self.told_end(id, JobId(job), ending);
                } else if !self.jobs.contains_key(&JobId(job)) && self.amend(user, JobId(job), ending) {
                    // It counts as over already; its keeper must not wait for more.
                    self.reply_lasting(id, recorded(JobId(job), None), self.durable.is_behind());
                }
            }
            Request::Checkpointed { job, error } => self.checkpointed(id, JobId(job), error),
            Request::Withdraw { job, reason } => {
                if self.keeps(id, JobId(job)) {
                    self.withdrawn(JobId(job), reason.chars().take(REASON_MAX_CHARS).collect());
                }
            }
            Request::Interrupted { job } => {
                if self.keeps(id, JobId(job)) {
                    self.effects.push(Effect::LetHear(JobId(job)));
                }
            }
            Request::Control { job, verb } => {
                let reply = self.control(user, JobId(job), verb);
                self.reply(id, reply.map_or_else(error_reply, |()| Reply::Done));
            }
            request @ (Request::SetAside(_) | Request::ConfigSet { .. }) => {
                let names = self.names_in(&request);
                if !self.waits_for_names(id, &names, &request) {
                    self.requested_with_names(id, request);
                }
            }
            Request::Wait { jobs } => self.wait_for(id, user, jobs),
            Request::Report { select, series, processes, threads, files, all, pieces: true } => {
                let wanted = Wanted { series, processes, threads, files };
                self.asked_in_pieces(id, user, Asked { select, all, wanted });
            }
            other => {
                let reply = self.done_or_answered(user, other);
                self.reply(id, reply.unwrap_or_else(error_reply));
            }
        }
    }

    /// Does what takes that users are known who are named in it.
    pub(crate) fn requested_with_names(&mut self, id: ConnectionId, request: Request) {
        let Some(user) = self.server.peer(id) else { return };
        let reply = match request {
            Request::SetAside(asked) => self.set_aside(user, asked),
            Request::ConfigSet { changes } => {
                self.configure(user, &changes).map(|()| Reply::Config(self.config_values()))
            }
            _ => return,
        };
        self.reply(id, reply.unwrap_or_else(error_reply));
    }

    /// The users that are named in a request.
    fn names_in(&self, request: &Request) -> Vec<String> {
        match request {
            Request::SetAside(asked) => asked.users.clone(),
            Request::ConfigSet { changes } => {
                let changed = self.configured.config.with_changes(changes.iter().map(String::as_str));
                let Ok((config, set)) = changed else { return Vec::new() };
                let named = rights::users_named(&config).into_iter().filter(|(key, _)| set.contains(key));
                named.map(|(_, name)| name.to_owned()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Does what is asked for, or answers what is a question.
    fn done_or_answered(&mut self, user: Peer, request: Request) -> Result<Reply, Refusal> {
        match request {
            Request::Adopt { which, spec } => self.adopt_for(user, &which, *spec),
            Request::ConfigSave { write, text } => self.save_config(user, write, text),
            Request::Audit { verify } => self.audited(user, verify),
            Request::SetRemove { name } => self.remove_set(user, &name),
            Request::Drain { on } => self.drain(user, on),
            question => self.answer(user, question),
        }
    }

    fn refuse_version(&mut self, id: ConnectionId, version: u32) {
        let older = if version < WIRE_VERSION { "the command" } else { "the daemon" };
        let text = format!(
            "the command speaks version {version}, the daemon version {WIRE_VERSION}: {older} is older; \
             install the same version of both and restart the daemon"
        );
        self.refuse(id, ErrorCode::Failed, &text);
        self.server.close_after_sending(id);
    }

    fn hello(&mut self, id: ConnectionId, version: u32) {
        if !(WIRE_VERSION_OLDEST..=WIRE_VERSION).contains(&version) {
            return self.refuse_version(id, version);
        }
        self.server.greet(id, version);
        let mut warnings = self.warnings.clone();
        warnings.extend(self.journal.warnings());
        warnings.extend(self.audit.warning());
        warnings.extend(self.durable.warning());
        warnings.extend(self.projects_warning());
        let (_, slots) = self.policy.slots();
        let doors = self.server.peer(id).is_some_and(|user| self.has_doors_for(user.uid));
        let mode = self.containers.plan().mode.as_str().to_owned();
        let instance = self.instance.clone();
        let (cpus, state) = (self.cpus_for_jobs().to_string(), self.state.display().to_string());
        let (version, slots) = (WIRE_VERSION, slots as u64);
        self.reply(id, Reply::Welcome { version, mode, slots, doors, instance, state, warnings, cpus });
    }

    fn submitted(&mut self, id: ConnectionId, user: Peer, ticket: u64, mut spec: JobSpec, pid: Option<u32>) {
        spec.adopted = None;
        let bounded = within_bounds(&spec)
            .and_then(|()| self.has_room_in_array(id, &spec))
            .and_then(|()| self.stay_within(id, user, &mut spec));
        let admitted = bounded.and_then(|()| self.admit(user, &spec));
        let priority = match admitted {
            Ok(priority) => priority,
            Err((code, reason)) => {
                return self.reply(id, Reply::Refused { ticket, job: None, reason, code });
            }
        };
        let job = match self.journal.next_number() {
            Ok(job) => job,
            Err(reason) => {
                let code = ErrorCode::Failed;
                return self.reply(id, Reply::Refused { ticket, job: None, reason, code });
            }
        };
        self.place_in_array(id, job, &mut spec);
        let keeper = self.keeper_process(id, user);
        let row = self.new_row(job, user, keeper, priority, spec);
        let request = self.request(&row);
        let mut live = Box::new(Live::new(row, false));
        live.keeper = Some(id);
        live.ticket = Some(ticket);
        live.child = self.waiting_child(pid, user);
        live.size_bytes = crate::quota::job_bytes(&live.row.spec, request.after.len());
        self.jobs.insert(JobId(job), live);
        self.journal.touch(JobId(job));
        let before = self.effects.len();
        self.judge(Judged::Submit(request));
        // A job that is refused at once has had its answer. Any other's number goes first, so that the client knows
        // under which the next words come.
        if let Some(live) = self.jobs.get_mut(&JobId(job)) {
            live.ticket = None;
            self.effects.insert(before, Effect::Reply(id, Reply::Queued { ticket, job }));
            self.wants_isolation(JobId(job));
        }
    }

    /// Checks what is asked for against what this host has and this user may have; gives the priority it gets.
    pub(crate) fn admit(&mut self, user: Peer, spec: &JobSpec) -> Result<u8, Refusal> {
        arrays::within_bounds(spec)?;
        let priority = rights::admit(&self.configured.config, user, spec)?;
        self.admit_tmp(user, spec)?;
        self.admit_disk(user, spec)?;
        self.admit_set(user, spec)?;
        self.admit_project(user, spec)?;
        self.admit_isolated(user, spec)?;
        self.admit_size(user, spec)?;
        self.admit_to_queue(user)?;
        self.look_at_machine();
        self.read_nodes();
        match self.unheard_of(&spec.after)? {
            Some(unknown) => Err((ErrorCode::Usage, format!("--after {unknown}: there is no such job"))),
            None => Ok(priority),
        }
    }

    /// Checks whether the jobs of a user may take as much more as this one does.
    fn admit_size(&self, user: Peer, spec: &JobSpec) -> Result<(), Refusal> {
        let most = self.configured.config.access_max_jobs_size;
        let predecessors = if spec.after.is_empty() { 0 } else { self.predecessors(&spec.after).len() };
        let (sizes, bytes) = (self.jobs.sizes(), crate::quota::job_bytes(spec, predecessors));
        if sizes.has_room(user.uid, bytes, most) || rights::is_operator(&self.configured.config, user) {
            return Ok(());
        }
        Err((ErrorCode::QueueFull, crate::quota::jobs_too_large(sizes.own(user.uid), most)))
    }

    /// The peer's process, looked up once for each connection.
    fn keeper_process(&mut self, id: ConnectionId, user: Peer) -> Option<ProcessId> {
        match self.keepers.get(&id) {
            Some(known) => Some(*known),
            None => {
                let process = self.process(user.pid)?;
                self.keepers.insert(id, process);
                self.processes.keeper(user.pid, self.clock.now_us());
                Some(process)
            }
        }
    }

    fn new_row(
        &mut self,
        job: u64,
        user: Peer,
        keeper: Option<ProcessId>,
        priority: u8,
        spec: JobSpec,
    ) -> JobRow {
        let (uid, submitted_us) = (user.uid, self.clock.now_us());
        let row = JobRow::asked_for(job, uid, self.user_name(uid), spec, submitted_us);
        JobRow { priority, keeper, ..row }
    }

    fn child(&mut self, id: ConnectionId, user: Peer, job: JobId, pid: u32) {
        let child = if self.keeps(id, job) { self.waiting_child(Some(pid), user) } else { None };
        let Some(child) = child else { return };
        let now_us = self.clock.now_us();
        let Some(live) = self.jobs.get_mut(&job) else { return };
        if live.container.is_some() {
            if live.row.main.is_none() {
                live.row.main = Some(child.id());
                self.processes.bind(job, pid, now_us);
                self.doors_due.push_back((now_us + DOORS_CLOSE_AFTER_US, job));
                self.journal.touch_later(job);
                self.catch_up(job);
                self.keeper_spoke(job);
            }
            return;
        }
        live.child = Some(child);
        if live.granted {
            self.effects.push(Effect::Act(job, self.start_action(job)));
        }
        self.keeper_spoke(job);
    }

    /// A keeper tells how its job ended.
    fn told_end(&mut self, id: ConnectionId, job: JobId, ending: Ending) {
        // One that ended just as its keeper presented it was found by no look, and ran all the same.
        if self.jobs.get(&job).is_some_and(|live| live.has_started() || live.found_granted) {
            return self.ended(job, ending);
        }
        let message =
            format!("job {job} has not started: there is no end of it to tell, but it can be withdrawn");
        self.refuse(id, ErrorCode::Refused, &message);
    }

    /// Whether a job can stand as its keeper says. That it runs, or ended, follows only from a start: one that this daemon
    /// carried out, or one that is on disk of a daemon that died before it could write down more. And what has processes
    /// does not wait.
    fn can_be(&self, job: JobId, phase: &Phase, user: Peer) -> bool {
        let Some(live) = self.jobs.get(&job) else { return false };
        let may_have_started = live.has_started() || live.found_granted;
        match phase {
            Phase::Waiting { pid } => {
                let held = pid.and_then(|pid| self.child_of(pid, user)).map(|held| crate::child::id(&held));
                let runs = live.row.main.filter(|main| crate::restore::is_alive(&self.proc, *main));
                !live.has_started() || runs.is_none_or(|main| held == Some(main))
            }
            Phase::Running { .. } => may_have_started,
            Phase::Ended { ending } => may_have_started || self.may_be_put_back(job, ending),
        }
    }

    /// A keeper presents a job after a restart of the daemon.
    fn attached(&mut self, id: ConnectionId, user: Peer, job: JobId, phase: Phase) {
        let kept = |live: &Live| live.row.uid == user.uid && live.row.spec.adopted.is_none();
        let known = self.jobs.get(&job).is_some_and(|live| kept(live));
        if !known {
            // It may have been taken for lost and closed; then its true end still counts.
            if let Phase::Ended { ending } = phase
                && self.amend(user, job, ending)
            {
                return self.reply_lasting(id, recorded(job, None), self.durable.is_behind());
            }
            return self.reply(id, Reply::Unknown { job: job.0 });
        }
        let keeper = self.keeper_process(id, user);
        if self.is_kept_by_another(job, id, keeper) {
            return self.reply(id, Reply::Unknown { job: job.0 });
        }
        if !self.can_be(job, &phase, user) {
            if self.keeps(id, job) {
                let message = format!("job {job} is not as it is said to be: nothing about it is changed");
                return self.refuse(id, ErrorCode::Refused, &message);
            }
            // Whoever kept it before may have lost it with a disk that refused; it goes on as if nobody knew it.
            return self.reply(id, Reply::Unknown { job: job.0 });
        }
        let (waiting, ending) = match phase {
            Phase::Waiting { pid } => (self.waiting_child(pid, user), None),
            Phase::Running { .. } => (None, None),
            Phase::Ended { ending } => (None, Some(ending)),
        };
        if let Phase::Running { pid } = phase
            && let Some(process) = self.child_of(pid, user)
        {
            self.found_running(job, &process);
        }
        let live = self.jobs.get_mut(&job).expect("looked up above");
        live.keeper = Some(id);
        self.jobs.comes_over(id, job);
        let live = self.jobs.get_mut(&job).expect("looked up above");
        live.orphaned = false;
        live.keeper_watch = None;
        live.row.keeper = keeper.or(live.row.keeper);
        if let Some(array) = live.row.spec.array.and_then(|place| place.array) {
            self.goes_on_with_array(id, array);
        }
        let live = self.jobs.get_mut(&job).expect("looked up above");
        if matches!(phase, Phase::Waiting { .. }) {
            live.child = waiting;
            live.asked_child = false;
            // Its keeper knows best: the start on disk was not carried out.
            live.found_granted = false;
            let granted = live.granted;
            if live.has_started() {
                self.start_anew(job);
            } else {
                self.prepare_anew(job);
                if granted {
                    self.effects.push(Effect::Act(job, self.start_action(job)));
                }
            }
        }
        self.journal.touch(job);
        self.keeper_came(job);
        self.keeper_spoke(job);
        self.reply(id, Reply::Attached { job: job.0 });
        if let Some(ending) = ending
            && !self.was_put_back(job, &ending)
        {
            self.ended(job, ending);
        }
    }

    /// Whether a job that waits has a keeper that is another process than this one.
    fn is_kept_by_another(&self, job: JobId, id: ConnectionId, keeper: Option<ProcessId>) -> bool {
        let waits = self.jobs.get(&job).filter(|live| !live.has_started());
        waits.is_some_and(|live| live.keeper.is_some_and(|other| other != id) && live.row.keeper != keeper)
    }

    /// A keeper has presented all its jobs: one that waits in its name and is not among them was asked for by a request
    /// that it repeated since. It would hold a slot for nobody.
    fn presented(&mut self, id: ConnectionId, user: Peer) {
        let Some(keeper) = self.keeper_process(id, user) else { return };
        let forgotten = |live: &Live| {
            let lost = live.orphaned || live.awaits_keeper.is_some();
            live.row.uid == user.uid
                && live.row.keeper == Some(keeper)
                && live.keeper.is_none()
                && !live.has_started()
                && !lost
        };
        let forgotten: Vec<JobId> =
            self.jobs.values().filter(|live| forgotten(live)).map(|live| live.id()).collect();
        for job in forgotten {
            self.withdrawn(
                job,
                "the daemon died before its client heard of it; it was asked for anew".to_owned(),
            );
        }
    }

    /// A job's start is on disk, but its keeper has not heard of it: the daemon before this one died in between.
    fn start_anew(&mut self, job: JobId) {
        let Some(live) = self.jobs.get_mut(&job) else { return };
        let holds = |container: &Container| {
            let child = live.child.as_ref().map(Child::id);
            child.is_some_and(|child| container.pids().is_ok_and(|pids| pids.contains(&child.pid)))
        };
        if live.container.as_deref().is_some_and(holds) {
            let keeper = live.keeper;
            let (variables, wrap) = (self.variables(job), self.wrap());
            let go = Reply::Go { job: job.0, doors: 0, variables, wrap };
            return self.effects.extend(keeper.map(|id| Effect::Reply(id, go)));
        }
        // Nothing holds a process that has not become the job yet, so it waits again, and is prepared again; an empty
        // group that was made for it is made anew.
        (live.container, live.meter, live.granted) = (None, None, false);
        live.members = Default::default();
        self.running.remove(&job);
        live.row.started_us = None;
        live.row.main = None;
        live.row.cpus = None;
        live.set_state(JobState::Queued, self.clock.now_us());
        self.adopt(job, false);
        self.prepare_anew(job);
    }

    /// A connection is at its end: its waiting jobs are withdrawn, its running ones go on.
    pub(crate) fn closed(&mut self, id: ConnectionId) {
        self.server.close(id);
        self.backlog.remove(&id);
        self.names.forget(id);
        self.arriving.remove(&id);
        self.askers.forget(id);
        if let Some(keeper) = self.keepers.remove(&id) {
            self.processes.keeper_gone(keeper.pid);
        }
        self.waiters.retain(|(waiter, ..)| *waiter != id);
        self.pieces.forget(id);
        for job in self.jobs.kept_by_gone(id) {
            let live = self.jobs.get_mut(&job).expect("just found");
            live.keeper = None;
            live.child = None;
            if self.awaits_another(job) {
                continue;
            }
            let Some(live) = self.jobs.get(&job) else { continue };
            if live.container.is_none() || live.row.main.is_none() {
                self.withdrawn(job, "its client is gone".to_owned());
            } else {
                self.watch_keeper(job);
            }
        }
    }

    /// Watches a keeper that has no connection, to learn of its end.
    pub(crate) fn watch_keeper(&mut self, job: JobId) {
        let Some(live) = self.jobs.get(&job) else { return };
        let keeper = live.row.keeper;
        let watch = keeper.and_then(|keeper| self.process_again(keeper)?.into_handle());
        let Some(live) = self.jobs.get_mut(&job) else { return };
        match watch {
            Some(watch) if self.poller.watch(Ready::Keeper(job), &watch).is_ok() => {
                live.keeper_watch = Some(watch)
            }
            _ => self.keeper_gone(job),
        }
    }

    fn control(&mut self, user: Peer, job: JobId, verb: Verb) -> Result<(), Refusal> {
        let Some(live) = self.jobs.get(&job) else { return Err(self.no_such_job(user, job)) };
        if !rights::may_touch(&self.configured.config, user, &live.row) {
            return Err(denied(&format!("job {job} belongs to another user")));
        }
        let owner = live.row.uid;
        let concern = if owner == user.uid { Concern::Own } else { Concern::Others };
        let owner = if owner == user.uid { String::new() } else { format!(" of {}", self.user_name(owner)) };
        self.note(user, concern, verb_name(verb), &format!("job {job}{owner}{}", verb_detail(verb)));
        let command = match verb {
            Verb::Suspend => Command::Suspend,
            Verb::Resume => Command::Resume,
            Verb::Hold => Command::Hold,
            Verb::Release => Command::Release,
            Verb::Cancel { signal } => return self.cancel(job, signal),
            Verb::Priority(wanted) => {
                let priority = rights::priority(&self.configured.config, user, wanted)?;
                let live = self.jobs.get_mut(&job).expect("looked up above");
                live.row.priority = priority;
                self.journal.touch(job);
                Command::SetPriority(priority)
            }
            Verb::Memory(bytes) => {
                let live = self.jobs.get_mut(&job).expect("looked up above");
                live.row.spec.claim_bytes = Some(bytes);
                self.journal.touch(job);
                Command::SetMemory(bytes)
            }
        };
        if self.holds_awaited(job, command) || self.holds_silent(job, command) {
            return Ok(());
        }
        self.judge(Judged::Command(job, command));
        self.follow_policy(job);
        // One that was held, or rose, may have its cores now.
        self.isolate_waiting();
        Ok(())
    }

    /// Signal 0 stands for the gentle way: TERM now, KILL after a while.
    fn cancel(&mut self, job: JobId, signal: i32) -> Result<(), Refusal> {
        let gentle = signal == 0;
        let number = if gentle { pinfold_sys::signals::SIGTERM } else { signal };
        if pinfold_sys::signals::name(number).is_none() {
            return Err((ErrorCode::Usage, format!("there is no signal {number}")));
        }
        if self.cancel_prepared(job) {
            return Ok(());
        }
        if gentle {
            let at = self.clock.now_us() + KILL_AFTER_US;
            self.kills.insert((at, job));
        }
        self.judge(Judged::Command(job, Command::Cancel { signal: number }));
        Ok(())
    }

    /// A cancelled job had its time: kills what is left of it.
    pub(crate) fn kill_due(&mut self, job: JobId) {
        if let Some(live) = self.jobs.get_mut(&job) {
            live.killed = true;
            live.row.reason = Some(crate::finish::KILLED.to_owned());
            self.journal.touch(job);
            self.effects.push(Effect::Kill(job));
        }
    }

    fn configure(&mut self, user: Peer, changes: &[String]) -> Result<(), Refusal> {
        if !rights::is_operator(&self.configured.config, user) {
            return Err(denied("the configuration is for operators (`access.operators`)"));
        }
        // Whoever names a program that this daemon starts, can do what it can.
        let starts = |change: &String| change.trim_start().starts_with("modules.");
        if changes.iter().any(starts) && user.uid != 0 && user.uid != peer::own_uid() {
            return Err(denied("`modules` is for the daemon's own user to set"));
        }
        let changed = self.configured.config.with_changes(changes.iter().map(String::as_str));
        let (config, set) = changed.map_err(|error| (ErrorCode::Usage, error.to_string()))?;
        // Files may name PUs that are off line for now; who sets it now means some that are there.
        let usable = self.topology.usable();
        if let Some(cpus) = config.host_cpus.as_ref().filter(|cpus| cpus.is_disjoint(&usable))
            && set.iter().any(|key| key == "host.cpus")
        {
            let text =
                format!("`host.cpus` is {cpus}, and of those there is none here; pinfold may have {usable}");
            return Err((ErrorCode::Usage, text));
        }
        // A file may name users before there are any; who sets it now means some that there are.
        if let Some((key, name)) = rights::users_named(&config)
            .into_iter()
            .find(|(key, name)| set.contains(key) && names::number_of(name) == Number::Nobody)
        {
            let text =
                format!("`{key}` names {name}, and this host knows no such user (`getent passwd {name}`)");
            return Err((ErrorCode::Usage, text));
        }
        if let Some(wrong) = self.overcommitted(&config) {
            return Err((ErrorCode::Usage, wrong));
        }
        let old = std::mem::replace(&mut self.configured.config, config);
        if let Err(error) = self.open_metrics() {
            self.configured.config = old;
            // What was served is served again.
            let _ = self.open_metrics();
            return Err((ErrorCode::Usage, error));
        }
        let new = &self.configured.config;
        let changed: Vec<String> = set.into_iter().filter(|key| old.value(key) != new.value(key)).collect();
        for key in &changed {
            let value = |config: &Config| {
                config.value(key).filter(|value| !value.is_empty()).unwrap_or_else(|| "unset".to_owned())
            };
            let detail = format!("{key}: {} -> {}", value(&old), value(&self.configured.config));
            self.note(user, Concern::Others, "config", &detail);
        }
        self.configured.origins.extend(changed.into_iter().map(|key| (key, "set")));
        tracing::info!(uid = user.uid, ?changes, "configuration changed");
        self.look_up_configured();
        self.apply_configuration();
        Ok(())
    }

    /// Whether this connection keeps that job.
    pub(crate) fn keeps(&self, id: ConnectionId, job: JobId) -> bool {
        self.jobs.get(&job).is_some_and(|live| live.keeper == Some(id))
    }

    /// A process with its start, which together name it for good.
    pub(crate) fn process(&self, pid: u32) -> Option<ProcessId> {
        let stat = self.proc.stat(pid).ok().flatten()?;
        Some(ProcessId { pid, start_ticks: stat.start_ticks })
    }

    /// A user's name, or the number as long as the name is not known.
    pub(crate) fn user_name(&mut self, uid: u32) -> String {
        self.names.name(uid)
    }

    /// Answers, once the state is on disk.
    pub(crate) fn reply(&mut self, id: ConnectionId, reply: Reply) {
        self.effects.push(Effect::Reply(id, reply));
    }

    /// Puts an answer off in these words.
    pub(crate) fn refused(&mut self, id: ConnectionId, (code, message): Refusal) {
        self.reply(id, Reply::Error { code, message });
    }

    fn refuse(&mut self, id: ConnectionId, code: ErrorCode, message: &str) {
        self.reply(id, Reply::Error { code, message: message.to_owned() });
    }

    /// The words for a job that is not there, over, or not this user's.
    pub(crate) fn no_such_job(&mut self, user: Peer, job: JobId) -> Refusal {
        match self.stored_row(job) {
            Some(row) if rights::may_touch(&self.configured.config, user, &row) => {
                (ErrorCode::Failed, format!("job {job} is over already"))
            }
            Some(_) => denied(&format!("job {job} belongs to another user")),
            None => (ErrorCode::Failed, format!("there is no job {job}")),
        }
    }
}

/// Refuses what `pinfold` never asks for: it cuts what is only for the record, and each job that waits is held in
/// memory as a whole.
pub(crate) fn within_bounds(spec: &JobSpec) -> Result<(), Refusal> {
    let layout: usize = spec
        .layout
        .iter()
        .flat_map(|layout| &layout.options)
        .map(|(name, value)| name.len() + value.len())
        .sum();
    // What the names stand for, which is listed only after this.
    let after = spec.after.iter().map(JobName::count).sum();
    let bounds = [
        ("name", spec.name.len(), NAME_MAX_BYTES),
        ("project", spec.project.as_ref().map_or(0, String::len), NAME_MAX_BYTES),
        ("directory", spec.directory.len(), 5 * 1024),
        ("command", spec.command.iter().map(|word| word.len() + 8).sum(), 40 * 1024),
        ("layout", layout, 128 * 1024),
        ("checkpoint command", spec.checkpoint.as_ref().map_or(0, |one| one.command.len()), 5 * 1024),
        ("list of jobs that must be over before", after, arrays::NAMES_MAX),
    ];
    if spec.checkpoint.as_ref().is_some_and(|one| one.command.trim().is_empty()) {
        let message = "the job's checkpoint command is empty, and would have it ended for nothing written: name one \
                       (--checkpoint), or ask for none";
        return Err((ErrorCode::Usage, message.to_owned()));
    }
    match bounds.into_iter().find(|&(_, has, most)| has > most) {
        None => Ok(()),
        Some((what, has, most)) => {
            Err((ErrorCode::Usage, format!("the job's {what} is {has} long, and {most} is the most")))
        }
    }
}

/// What a verb is called in the audit.
fn verb_name(verb: Verb) -> &'static str {
    match verb {
        Verb::Suspend => "suspend",
        Verb::Resume => "resume",
        Verb::Hold => "hold",
        Verb::Release => "release",
        Verb::Cancel { .. } => "cancel",
        Verb::Priority(_) | Verb::Memory(_) => "set",
    }
}

fn verb_detail(verb: Verb) -> String {
    match verb {
        Verb::Cancel { signal } if signal != 0 => format!(", signal {signal}"),
        Verb::Priority(priority) => format!(", priority {priority}"),
        Verb::Memory(bytes) => format!(", memory {}", pinfold_proto::quantity::show_size(bytes)),
        _ => String::new(),
    }
}

/// The reply for a refusal.
pub(crate) fn error_reply((code, message): Refusal) -> Reply {
    Reply::Error { code, message }
}

/// The reply that says a job's end is on disk.
pub(crate) fn recorded(job: JobId, row: Option<&JobRow>) -> Reply {
    Reply::Recorded {
        job: job.0,
        suspended_us: row.map_or(0, |row| row.suspended_us),
        memory_peak_bytes: row.map_or(0, |row| row.usage.memory_peak_bytes),
    }
}

impl Daemon {
    /// A job that was closed as lost did end, and its keeper says how: the stored row is put right.
    fn amend(&mut self, user: Peer, job: JobId, ending: Ending) -> bool {
        let Some(mut row) = self.stored_row(job) else { return false };
        // Of one that never started there is no end but its closing.
        if row.uid != user.uid || row.ending.is_some() || row.started_us.is_none() {
            return row.uid == user.uid;
        }
        row.ending = Some(ending);
        row.ended_us = Some(crate::finish::plausible_end(&row, ending.ended_us, self.clock.now_us()));
        row.reason = row.reason.filter(|reason| reason == crate::finish::KILLED);
        row.reason = Some(crate::finish::how_it_ended(&row));
        self.journal.amend(row);
        true
    }
}
