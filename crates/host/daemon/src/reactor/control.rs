//! What is done to jobs on request: suspend, resume, hold, release, cancel, and what they ask for.

use pinfold_policy::{Command, Event as SchedulerEvent, JobId, State};
use pinfold_proto::row::{Codes, DecisionRow};
use pinfold_proto::wire::{ErrorCode, Verb};
use pinfold_proto::{End, JobClass};
use pinfold_sys::peer::Peer;
use pinfold_sys::signals::{SIGKILL, SIGTERM};

use crate::clients::audit::Concern;
use crate::clients::rights;
use crate::core::{Effect, Next, Refusal, denied};
use crate::jobs::{JobRecord, bounds, called, endings, record, unheard, verbs};
use crate::meters::memory;
use crate::reactor::Daemon;
use crate::store::starts;

/// How long a job may take to end after it was asked to, before it is killed.
pub(super) const KILL_AFTER_US: u64 = 10_000_000;

/// So many jobs of a user may be suspended for each PU of the host,
const SUSPENDED_OF_A_PU: usize = 8;
/// and so many on a small one.
const SUSPENDED_LEAST: usize = 64;

/// That a job which runs was cancelled is recorded so; a daemon that comes after goes on with it.
pub(super) const END_AS_ASKED: &str = "end it as asked";

impl Daemon {
    /// Does what is said to a job; gives what there is to tell of it.
    pub(super) fn control(&mut self, user: Peer, job: JobId, verb: Verb) -> Result<Option<String>, Refusal> {
        let Some(live) = self.jobs.table.get(&job) else { return Err(self.no_such_job(user, job)) };
        if !rights::may_touch(&self.ctx.configured.config, user, &live.row) {
            return Err(denied(&format!("job {job} belongs to another user")));
        }
        let note = self.note_on(user, live, &verb)?;
        let owner = live.row.uid;
        let concern = if owner == user.uid { Concern::Own } else { Concern::Others };
        let owner =
            if owner == user.uid { String::new() } else { format!(" of {}", self.clients.names.name(owner)) };
        self.note(user, concern, verb_name(&verb), &format!("job {job}{owner}{}", verb_detail(&verb)));
        let command = match verb {
            Verb::Suspend => Command::Suspend,
            Verb::Resume => Command::Resume,
            Verb::Hold => Command::Hold,
            Verb::Release => Command::Release,
            Verb::Cancel { signal } => return self.cancel(job, signal).map(|()| None),
            Verb::Begin(begin_us) => return self.set_begin(job, begin_us).map(|()| None),
            Verb::Timeout(_) | Verb::TimeoutSignal(_) | Verb::CpuLimit(_) | Verb::Comment(_) => {
                return self.set_terms(job, verb).map(|()| None);
            }
            Verb::Requeue => {
                self.admit_requeue(job)?;
                Command::Requeue
            }
            Verb::Priority(wanted) => {
                let priority = rights::priority(&self.ctx.configured.config, user, wanted)?;
                let live = self.jobs.table.get_mut(&job).expect("looked up above");
                live.row.priority = priority;
                self.outbox.journal.touch(job);
                Command::SetPriority(priority)
            }
            Verb::Class(class) => {
                let live = self.jobs.table.get_mut(&job).expect("looked up above");
                verbs::may_have_class(&live.row, class)?;
                live.row.spec.class = class;
                if !live.has_started() {
                    live.row.class = class.unwrap_or(JobClass::Primary);
                }
                self.outbox.journal.touch(job);
                Command::SetClass(class.map(record::to_policy))
            }
            Verb::Memory(bytes) => {
                let live = self.jobs.table.get_mut(&job).expect("looked up above");
                live.row.spec.claim_bytes = Some(bytes);
                self.outbox.journal.touch(job);
                Command::SetMemory(bytes)
            }
        };
        let counts_later = starts::holds_awaited(&mut self.jobs.table, job, command)
            || unheard::holds_silent(&mut self.jobs.table, job, command);
        if !counts_later {
            self.outbox.step(SchedulerEvent::Command(job, command));
        }
        self.outbox.then(Next::Follow(job));
        // One that was held, or rose, may have its cores now.
        self.outbox.then(Next::Isolate);
        Ok(note)
    }

    /// What there is to tell of a word to a job before it is said.
    fn note_on(&self, user: Peer, live: &JobRecord, verb: &Verb) -> Result<Option<String>, Refusal> {
        if let Verb::Memory(bytes) = verb {
            let note = memory::admit_claim(&self.ctx, *bytes)?;
            return self.has_room_for_claim(user, live, *bytes).map(|()| note);
        }
        if *verb == Verb::Suspend {
            self.has_room_for_suspended(user, live)?;
        }
        // What is said to one without a keeper that answers counts once it has one.
        let info = self.ctx.policy.job(live.id());
        let info = info.filter(|_| live.silent.is_none() && live.awaits_keeper.is_none());
        let note = info.map_or(Ok(None), |info| verbs::note(&info, verb));
        note.map(|text| text.map(|text| self.jobs.table.by_name(&text)))
    }

    /// Whether what a job that has started asks for beyond what it was let in with is free. Others would be frozen for it,
    /// though it holds nothing yet: that is for operators to say.
    fn has_room_for_claim(&self, user: Peer, live: &JobRecord, bytes: u64) -> Result<(), Refusal> {
        if rights::is_operator(&self.ctx.configured.config, user) {
            return Ok(());
        }
        let more = live.row.spec.claim_bytes.is_none_or(|before| bytes > before);
        match self.ctx.policy.may_claim(live.id()).filter(|&most| more && bytes > most) {
            None => Ok(()),
            Some(most) => {
                let (job, most) = (live.id(), pinfold_profile::report::size(most));
                let text = format!(
                    "job {job} has started, and no more than {most} are there for it now; beyond that it counts as it \
                     grows, without being asked for (an operator may ask for more)"
                );
                Err((ErrorCode::Refused, text))
            }
        }
    }

    /// Whether a user may have one more job suspended. It frees its slot for the next, and each is looked at every second.
    fn has_room_for_suspended(&self, user: Peer, live: &JobRecord) -> Result<(), Refusal> {
        // One that waits is held in place of that; one that is being started is suspended as it starts.
        let info = self.ctx.policy.job(live.id());
        let waits = info.is_none_or(|info| matches!(info.state, State::Waiting { .. }));
        if waits || rights::is_operator(&self.ctx.configured.config, user) {
            return Ok(());
        }
        let is_own =
            |job: &JobId| self.jobs.table.get(job).is_some_and(|other| other.row.uid == live.row.uid);
        let is_suspended = |job: &JobId| self.ctx.policy.job(*job).is_some_and(|info| info.suspended);
        let own = self.jobs.running.iter().filter(|job| **job != live.id() && is_own(job));
        let most = SUSPENDED_OF_A_PU.saturating_mul(self.ctx.topology.usable().len()).max(SUSPENDED_LEAST);
        if own.filter(|job| is_suspended(job)).count() < most {
            return Ok(());
        }
        let text = format!(
            "{most} jobs of this user are suspended, which is the most on this host: resume or cancel some, or hold jobs \
             before they start"
        );
        Err((ErrorCode::Refused, text))
    }

    /// Whether a job can be requeued on its user's word.
    fn admit_requeue(&self, job: JobId) -> Result<(), Refusal> {
        let refused = |text: &str| Err((ErrorCode::Refused, format!("job {job} {text}")));
        let Some(live) = self.jobs.table.get(&job) else { return Ok(()) };
        let spec = &live.row.spec;
        if !spec.terms.runs_again && !spec.requeue {
            return refused(
                "was not submitted to run again; `pinfold submit`, `sbatch` and --requeue do that",
            );
        }
        if self.jobs.kills.iter().any(|(_, ends)| *ends == job) {
            return refused("is being cancelled");
        }
        if live.keeper.is_none() || live.container.is_none() {
            return refused("does not run yet, or its keeper does not answer; try again");
        }
        Ok(())
    }

    /// Signal 0 stands for the gentle way: TERM now, KILL after a while.
    fn cancel(&mut self, job: JobId, signal: i32) -> Result<(), Refusal> {
        let gentle = signal == 0;
        let number = if gentle { SIGTERM } else { signal };
        if pinfold_sys::signals::name(number).is_none() {
            return Err((ErrorCode::Usage, format!("there is no signal {number}")));
        }
        if self.surroundings.cancel_prepared(&mut self.outbox, &mut self.host.own_nodes, job) {
            return Ok(());
        }
        if gentle || number == SIGKILL {
            self.ends_cancelled(job);
        }
        if gentle {
            self.is_being_ended(job);
            let at = self.ctx.clock.now_us() + KILL_AFTER_US;
            self.jobs.kills.insert((at, job));
        }
        self.outbox.step(SchedulerEvent::Command(job, Command::Cancel { signal: number }));
        // It ends a suspension.
        self.outbox.then(Next::Follow(job));
        Ok(())
    }

    /// However the command of a job that runs ends from now on, the job was cancelled.
    fn ends_cancelled(&mut self, job: JobId) {
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        if live.has_started() && live.row.ending.is_none() && live.row.end.is_none() {
            live.row.end = Some(End::Cancelled);
            self.outbox.journal.touch(job);
        }
    }

    /// A job that runs is cancelled: should this daemon go before the job does, the next one is to end it.
    fn is_being_ended(&mut self, job: JobId) {
        let runs = self.jobs.table.get(&job).is_some_and(|live| live.has_started());
        if runs && !self.jobs.kills.iter().any(|(_, ends)| *ends == job) {
            let (time_us, action) = (self.ctx.clock.now_us(), END_AS_ASKED.to_owned());
            let codes = Some(Codes::plain("end", "asked"));
            let reason = "a user or operator asked for it".to_owned();
            self.outbox.journal.decided(DecisionRow { job: job.0, time_us, action, reason, codes });
        }
    }

    /// Cancelled jobs had their time: kills what is left of them.
    pub(super) fn on_kills_due(&mut self) {
        let now_us = self.ctx.clock.now_us();
        while let Some(job) = self.jobs.next_to_kill(now_us) {
            if let Some(live) = self.jobs.table.get_mut(&job) {
                live.killed = true;
                live.row.reason = Some(endings::KILLED.to_owned());
                self.outbox.journal.touch(job);
                self.outbox.push(Effect::Kill(job));
            }
        }
    }

    /// The words for a job that is not there, over, or not this user's.
    pub(super) fn no_such_job(&mut self, user: Peer, job: JobId) -> Refusal {
        match self.row_for(user, job) {
            Ok(row) => {
                let name = called::member(&row).unwrap_or_else(|| job.to_string());
                (ErrorCode::Failed, format!("job {name} is over already"))
            }
            Err(refusal) => refusal,
        }
    }
}

/// What a verb is called in the audit.
fn verb_name(verb: &Verb) -> &'static str {
    match verb {
        Verb::Suspend => "suspend",
        Verb::Resume => "resume",
        Verb::Hold => "hold",
        Verb::Release => "release",
        Verb::Cancel { .. } => "cancel",
        Verb::Requeue => "requeue",
        Verb::Priority(_)
        | Verb::Memory(_)
        | Verb::Class(_)
        | Verb::Timeout(_)
        | Verb::TimeoutSignal(_)
        | Verb::CpuLimit(_)
        | Verb::Begin(_)
        | Verb::Comment(_) => "set",
    }
}

fn verb_detail(verb: &Verb) -> String {
    match verb {
        Verb::Cancel { signal } if *signal != 0 => format!(", signal {signal}"),
        Verb::Priority(priority) => format!(", priority {priority}"),
        Verb::Class(None) => ", either class".to_owned(),
        Verb::Class(Some(class)) => format!(", class {}", class.word()),
        Verb::Memory(bytes) => format!(", memory {}", pinfold_proto::quantity::show_size(*bytes)),
        Verb::Timeout(None) => ", no timeout".to_owned(),
        Verb::Timeout(Some(us)) => format!(", timeout {}", bounds::seconds(*us)),
        Verb::CpuLimit(None) => ", no limit of CPU time".to_owned(),
        Verb::CpuLimit(Some(us)) => format!(", CPU time {}", bounds::seconds(*us)),
        Verb::TimeoutSignal(None) => ", no signal before its timeout".to_owned(),
        Verb::TimeoutSignal(Some(one)) => {
            format!(", signal {} {} before its timeout", one.signal, bounds::seconds(one.before_us))
        }
        Verb::Begin(None) => ", begins as soon as it can".to_owned(),
        Verb::Begin(Some(us)) => {
            format!(", begins at {}", pinfold_profile::report::date_utc(pinfold_proto::view::seconds(*us)))
        }
        Verb::Comment(_) => ", comment".to_owned(),
        _ => String::new(),
    }
}
