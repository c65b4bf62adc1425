//! The keeper: starts the commands of jobs, waits for them, and tells the daemon how they ended. It is the
//! parent of every command, so an exit status is never lost with the daemon: without a daemon it keeps the status
//! until there is a daemon again.
//!
//! One keeper serves `run` (a job in the foreground), `submit` (a detached job) and `batch` (many jobs). It owns
//! the connection, the held children and the signals of its process, which must have one thread.
//! Absent here: terminals, output, and the commands.
//!
//! `line` and `link` (to the daemon), `waits` (jobs that wait), `start` and `process` (commands), `unheard` (ends
//! that no daemon took).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use pinfold_proto::start::Start;
use pinfold_proto::view::WhyView;
use pinfold_proto::wire::{ErrorCode, Phase, Reply, Request, Verb};
use pinfold_proto::{End, Ending, JobSpec};
use pinfold_sys::own;
use pinfold_sys::ready::{self, Wanted};
use pinfold_sys::signals::{Arrived, SIGCHLD, Signals};
use pinfold_sys::spawn::{self, Held, Reaped};

use crate::checkpoint::Hooks;
use pinfold_client::{Dial, Failure, Welcome, dial as client};

mod line;
mod link;
pub(crate) mod process;
mod start;
mod unheard;
mod waits;

pub(crate) use process::{MakeProgram, ended_by_signal, send_signal, send_signal_to_group};

use line::{Gone, Line, Looked};
use link::Link;
use process::{OwnVariable, ending_of};
use start::Permitted;

/// A keeper's news of its jobs, by the tickets of their submission.
#[derive(Debug)]
pub(crate) enum Told {
    /// Accepted: it waits.
    Queued { ticket: u64, job: u64 },
    /// Its command runs. `at`: when it was let go.
    Started { ticket: u64, at: Instant },
    /// Its command ended.
    Ended { ticket: u64, reaped: Reaped, at: Instant },
    /// Its end is on disk; the job is done with.
    Recorded { ticket: u64, suspended_us: u64, memory_peak_bytes: u64, end: Option<End> },
    /// Its command was ended for other jobs' sake, and the job waits again.
    Again { ticket: u64, reason: String },
    /// The job was refused or struck off before it ran, and is done with. `known`: a daemon knows the job and tells
    /// why.
    Refused { ticket: u64, reason: String, code: ErrorCode, known: bool },
    /// A signal for this process, other than a child's end.
    Signal(Arrived),
    /// The daemon is gone; the keeper looks for it.
    Lost,
    /// The daemon has been away for some time, and only the user or service that started it can bring it back.
    Away,
    /// A daemon is there again. `another`: a different daemon, which does not know the jobs.
    Found { another: bool },
    /// Why a job waits, as [`Keeper::ask_why`] asked.
    Why(Box<WhyView>),
}

/// See the module's page.
pub(crate) struct Keeper {
    line: Line,
    signals: Signals,
    make: MakeProgram,
    /// How many children may be held ready before the daemon asks for them.
    prefork: usize,
    /// Whether starts come with doors.
    doors: bool,
    /// A variable of the job with this ticket, known when it starts.
    pub(crate) own_variable: Option<OwnVariable>,
    jobs: BTreeMap<u64, Kept>,
    by_job: BTreeMap<u64, u64>,
    by_pid: BTreeMap<u32, u64>,
    held: usize,
    /// Jobs that may start and wait for [`Keeper::allow_starts`]; `None`: starts are allowed.
    paused: Option<Vec<Permitted>>,
    /// The reason why the last program could not be made, until it is reported.
    why: Option<String>,
    /// Accepted jobs that wait without a child, in the order in which they get a child.
    childless: BTreeSet<u64>,
    told: VecDeque<Told>,
    /// Whether the daemon keeps the start of the jobs, for another keeper in place of this keeper.
    successor: bool,
    /// The start of the jobs, to be sent to the daemon.
    left: Option<Request>,
    /// Jobs that no daemon knew as they ended, until they are asked for, and how they ended.
    unknown: Vec<(u64, Ending)>,
    /// The checkpoint commands of jobs.
    pub(crate) hooks: Hooks,
}

struct Kept {
    spec: JobSpec,
    job: Option<u64>,
    stage: Stage,
    /// The last run for which the job was released, as the daemon numbered it.
    run: Option<u32>,
    /// The held child ended before the job had a number, which a withdrawal needs.
    lost: Option<Reaped>,
    /// Another keeper, now gone, asked for the job; the daemon has not confirmed yet that it knows the job.
    taken_over: bool,
}

impl Kept {
    fn new(spec: JobSpec, job: Option<u64>, stage: Stage) -> Self {
        Self { spec, taken_over: job.is_some(), job, stage, run: None, lost: None }
    }
}

enum Stage {
    /// Waits for the daemon's word, with a held child or without.
    Waiting(Option<Held>),
    /// Runs as this process.
    Running(u32),
    /// Ended; the daemon does not know yet.
    Ended(Ending),
}

impl Keeper {
    /// A keeper on a fresh connection, which reads these signals beside the end of children. With `first`, it submits
    /// that job along with its first words, without waiting for the daemon's.
    pub(crate) fn new(
        dial: Dial,
        signals: &[i32],
        prefork: usize,
        make: MakeProgram,
        first: Option<(u64, JobSpec)>,
    ) -> Result<(Self, Welcome), Failure> {
        let stream = dial.stream()?;
        let submit = first.as_ref().map(|(ticket, spec)| Request::Submit {
            ticket: *ticket,
            spec: Box::new(spec.clone()),
            pid: None,
        });
        // Each child takes files.
        own::raise_file_limit();
        let mut link = Link::greet(stream, submit.as_ref()).map_err(|error| client::gone(&error))?;
        // All that can be done before the daemon answers is done while it works.
        let blocked: Vec<i32> = signals.iter().copied().chain([SIGCHLD]).collect();
        let signals =
            Signals::block(&blocked).map_err(|error| Failure::doing("failed to read signals", &error))?;
        let welcome = link.welcome()?;
        let line =
            Line::new(dial, link, &welcome).map_err(|error| Failure::doing("the daemon's socket", &error))?;
        let mut jobs = BTreeMap::new();
        if let Some((ticket, spec)) = first {
            jobs.insert(ticket, Kept::new(spec, None, Stage::Waiting(None)));
        }
        let mut keeper = Self {
            line,
            signals,
            make,
            prefork: if welcome.doors { 0 } else { prefork },
            doors: welcome.doors,
            own_variable: None,
            jobs,
            by_job: BTreeMap::new(),
            by_pid: BTreeMap::new(),
            held: 0,
            paused: None,
            why: None,
            childless: BTreeSet::new(),
            told: VecDeque::new(),
            successor: false,
            left: None,
            unknown: Vec::new(),
            hooks: Hooks::default(),
        };
        // More than the welcome may have come already.
        keeper.hear_all();
        Ok((keeper, welcome))
    }

    /// Asks the daemon to run a job; news of the job have this `ticket`.
    pub(crate) fn submit(&mut self, ticket: u64, spec: JobSpec) {
        let held = if self.held < self.prefork { self.fork(ticket) } else { None };
        self.jobs.insert(ticket, Kept::new(spec, None, Stage::Waiting(held)));
        self.present(ticket);
    }

    /// Keeps a job that the daemon has already, in the place of a keeper that is gone.
    pub(crate) fn take_over(&mut self, ticket: u64, spec: JobSpec, job: u64) {
        self.jobs.insert(ticket, Kept::new(spec, Some(job), Stage::Waiting(None)));
        self.by_job.insert(job, ticket);
        self.successor = true;
        self.present(ticket);
    }

    /// Leaves the start of the jobs with the daemon, for another keeper: at once, because this keeper may be killed as
    /// soon as the job's number is told.
    pub(crate) fn leave_start(&mut self, job: u64, start: Start) {
        self.successor = true;
        let left = Request::Keep { job, start: Box::new(start) };
        self.send(&left);
        self.left = Some(left);
        self.flush();
    }

    /// Whether a waiting job outlives this keeper and waits for another keeper.
    pub(crate) fn has_successor(&self) -> bool {
        self.successor
    }

    /// How many jobs are not done with.
    pub(crate) fn pending(&self) -> usize {
        self.jobs.len()
    }

    /// The process of a running job.
    pub(crate) fn running_pid(&self, ticket: u64) -> Option<u32> {
        match self.jobs.get(&ticket)?.stage {
            Stage::Running(pid) => Some(pid),
            Stage::Waiting(_) | Stage::Ended(_) => None,
        }
    }

    /// The processes of all running jobs.
    pub(crate) fn running(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.jobs.keys().filter_map(|&ticket| Some((ticket, self.running_pid(ticket)?)))
    }

    /// How long no daemon has been there; `None`: a daemon is there.
    pub(crate) fn alone_for(&self) -> Option<Duration> {
        self.line.alone_for()
    }

    /// Whether the only work left is to tell an absent daemon how jobs ended.
    pub(crate) fn only_news_for_nobody(&self) -> bool {
        self.line.is_lost() && self.jobs.values().all(|kept| matches!(kept.stage, Stage::Ended(_)))
    }

    /// How many jobs run.
    pub(crate) fn running_count(&self) -> usize {
        self.jobs.values().filter(|kept| matches!(kept.stage, Stage::Running(_))).count()
    }

    /// Takes a job back that does not run yet; says whether that succeeded.
    pub(crate) fn withdraw(&mut self, ticket: u64, reason: &str) -> bool {
        let Some(kept) = self.jobs.get(&ticket) else { return false };
        if !matches!(kept.stage, Stage::Waiting(_)) {
            return false;
        }
        if let Some(job) = kept.job {
            self.send(&Request::Withdraw { job, reason: reason.to_owned() });
        }
        self.forget(ticket);
        true
    }

    /// Tells the daemon that the terminal sent a job a signal: a frozen job is thawed to receive the signal.
    pub(crate) fn interrupted(&mut self, ticket: u64) {
        if let Some(job) = self.jobs.get(&ticket).and_then(|kept| kept.job) {
            self.send(&Request::Interrupted { job });
        }
    }

    /// Has the daemon end all processes of a job by this signal; 0: by TERM, and KILL 10 s later.
    pub(crate) fn cancel(&mut self, job: u64, signal: i32) {
        self.send(&Request::Control { job, verb: Verb::Cancel { signal } });
    }

    /// Waits for news, for a file of `others` that is ready, or for the end of `timeout`.
    pub(crate) fn wait(&mut self, others: Vec<Wanted<'_>>, timeout: Option<Duration>) -> Vec<Told> {
        self.flush();
        if self.told.is_empty() {
            self.sleep(others, timeout);
        }
        while let Some(arrived) = self.signals.next() {
            if arrived.signal != SIGCHLD {
                self.told.push_back(Told::Signal(arrived));
            }
        }
        while let Some(reaped) = spawn::reap() {
            match self.hooks.ended(&reaped) {
                Some((job, error)) => self.send(&Request::Checkpointed { job, error }),
                None => self.ended(reaped),
            }
        }
        self.hooks.end_late_ones();
        self.receive();
        self.look_for_daemon();
        self.fork_ahead();
        self.flush();
        self.told.drain(..).collect()
    }

    fn sleep<'a>(&'a self, mut wanted: Vec<Wanted<'a>>, timeout: Option<Duration>) {
        let late = self.hooks.due().map(|at| at.saturating_duration_since(Instant::now()));
        let limit = [timeout, self.line.retry_in(), late].into_iter().flatten().min();
        wanted.push(Wanted::input(&self.signals));
        wanted.extend(self.line.wanted());
        // An interrupted or failed wait counts as a short wait; ready files are looked at next.
        let _ = ready::wait(wanted, limit);
    }

    fn ended(&mut self, reaped: Reaped) {
        // A child that was given up (refused, withdrawn) has no ticket any more.
        let Some(ticket) = self.by_pid.remove(&reaped.pid) else { return };
        let Some(kept) = self.jobs.get_mut(&ticket) else { return };
        let job = kept.job;
        if let Stage::Waiting(held) = &mut kept.stage {
            // The held child ended before it was released: the terminal's Ctrl-C reached it.
            *held = None;
            self.held -= 1;
            match job {
                Some(job) => self.never_started(ticket, job, reaped),
                None => kept.lost = Some(reaped),
            }
            return;
        }
        job.into_iter().for_each(|job| self.hooks.stop(job));
        let ending = ending_of(&reaped);
        kept.stage = Stage::Ended(ending);
        self.told.push_back(Told::Ended { ticket, reaped, at: Instant::now() });
        match job {
            Some(job) => self.send(&Request::Ended { job, ending }),
            // No daemon knows it, so none will say that its end is on disk.
            None => self.unrecorded(ticket, ending),
        }
    }

    fn send(&mut self, request: &Request) {
        self.line.send(request);
    }

    fn flush(&mut self) {
        if self.line.flush().is_err() {
            // The last words of the daemon are still to be heard, and then its end.
            self.receive();
            self.lose();
        }
    }

    fn receive(&mut self) {
        loop {
            match self.line.read() {
                Ok(true) => self.hear_all(),
                Ok(false) => return,
                Err(Gone) => return self.lose(),
            }
        }
    }

    /// Hears the messages that have arrived in full.
    fn hear_all(&mut self) {
        loop {
            match self.line.next() {
                Ok(Some(reply)) => self.hear(reply),
                Ok(None) => return,
                Err(Gone) => return self.lose(),
            }
        }
    }

    fn lose(&mut self) {
        if self.line.lose() {
            self.told.push_back(Told::Lost);
        }
    }

    fn look_for_daemon(&mut self) {
        let (welcome, another) = match self.line.look() {
            Looked::NotYet => return,
            Looked::Away => return self.told.push_back(Told::Away),
            Looked::Found { welcome, another } => (welcome, another),
        };
        self.doors = welcome.doors;
        self.told.push_back(Told::Found { another });
        let tickets: Vec<u64> = self.jobs.keys().copied().collect();
        tickets.into_iter().for_each(|ticket| self.present(ticket));
        // The daemon may have died before that was on its disk.
        if let Some(left) = self.left.take() {
            self.send(&left);
            self.left = Some(left);
        }
        self.send(&Request::Presented);
    }

    /// The words for a daemon that stays away.
    pub(crate) fn away(&self) -> String {
        self.line.away()
    }

    fn hear(&mut self, reply: Reply) {
        match reply {
            Reply::Queued { ticket, job } => self.queued(ticket, job),
            Reply::Grant { job } => self.granted(job),
            Reply::Go { job, doors, variables, wrap, run } => {
                self.is_let_go(job, run);
                self.go(job, doors, variables, wrap);
            }
            Reply::Refused { ticket, reason, code, .. } => self.refused(ticket, reason, code),
            Reply::Struck { job, reason, code } => {
                if let Some(&ticket) = self.by_job.get(&job) {
                    self.refused(ticket, reason, code);
                }
            }
            Reply::Recorded { job, suspended_us, memory_peak_bytes, end, cancelled } => {
                let end = end.or(cancelled.then_some(End::Cancelled));
                if let Some(&ticket) = self.by_job.get(&job) {
                    self.told.push_back(Told::Recorded { ticket, suspended_us, memory_peak_bytes, end });
                    self.forget(ticket);
                }
            }
            Reply::Again { job, reason } => self.again(job, reason),
            Reply::Unknown { job } => self.not_known(job),
            Reply::Checkpoint { job, mut variables } => {
                variables.retain(|(name, _)| name.starts_with("PINFOLD_"));
                self.checkpoint(job, &variables);
            }
            Reply::Attached { job } => {
                let kept = self.by_job.get(&job).and_then(|ticket| self.jobs.get_mut(ticket));
                kept.into_iter().for_each(|kept| kept.taken_over = false);
            }
            Reply::Why(view) => self.told.push_back(Told::Why(Box::new(view))),
            // The rest answers questions that a keeper does not ask.
            _ => {}
        }
    }

    fn queued(&mut self, ticket: u64, job: u64) {
        let asked = self.jobs.get_mut(&ticket).filter(|kept| kept.job.is_none_or(|known| known == job));
        let Some(kept) = asked else {
            // The job was withdrawn before it had a number. No process would start it at its turn.
            let reason = "it was taken back before it was accepted".to_owned();
            return self.send(&Request::Withdraw { job, reason });
        };
        kept.job = Some(job);
        let lost = kept.lost.take();
        if matches!(kept.stage, Stage::Waiting(None)) {
            self.childless.insert(ticket);
        }
        self.by_job.insert(job, ticket);
        self.told.push_back(Told::Queued { ticket, job });
        if let Some(reaped) = lost {
            self.never_started(ticket, job, reaped);
        }
    }

    /// A job that ended waits again, for the daemon ended it: its command is started once more when it may be.
    fn again(&mut self, job: u64, reason: String) {
        let Some(&ticket) = self.by_job.get(&job) else { return };
        let Some(kept) = self.jobs.get_mut(&ticket) else { return };
        if matches!(kept.stage, Stage::Ended(_)) {
            kept.stage = Stage::Waiting(None);
            self.childless.insert(ticket);
            self.told.push_back(Told::Again { ticket, reason });
        }
    }

    fn refused(&mut self, ticket: u64, reason: String, code: ErrorCode) {
        let known = self.jobs.get(&ticket).is_none_or(|kept| kept.job.is_some() || kept.taken_over);
        self.told.push_back(Told::Refused { ticket, reason, code, known });
        self.forget(ticket);
    }

    /// Presents a job to the daemon: a new job is submitted, a known job attached again.
    fn present(&mut self, ticket: u64) {
        let Some(kept) = self.jobs.get_mut(&ticket) else { return };
        // The end of a lost child is not reported, so the job gets another child.
        kept.lost = None;
        let pid = |held: &Option<Held>| held.as_ref().map(Held::pid);
        let request = match (kept.job, &kept.stage) {
            (None, Stage::Waiting(held)) => {
                Request::Submit { ticket, spec: Box::new(kept.spec.clone()), pid: pid(held) }
            }
            // A running job that no daemon knows (its store was lost) stays unmanaged.
            (None, _) => return,
            (Some(job), Stage::Waiting(held)) => {
                Request::Attach { job, phase: Phase::Waiting { pid: pid(held) } }
            }
            (Some(job), &Stage::Running(pid)) => Request::Attach { job, phase: Phase::Running { pid } },
            (Some(job), &Stage::Ended(ending)) => {
                Request::Attach { job, phase: Phase::Ended { ending, run: kept.run } }
            }
        };
        self.send(&request);
    }

    fn forget(&mut self, ticket: u64) {
        let Some(kept) = self.jobs.remove(&ticket) else { return };
        self.childless.remove(&ticket);
        if let Some(job) = kept.job {
            self.by_job.remove(&job);
        }
        if let Stage::Waiting(Some(held)) = kept.stage {
            self.by_pid.remove(&held.pid());
            self.held -= 1;
        }
    }
}
