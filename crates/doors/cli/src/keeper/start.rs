//! How a keeper starts the commands of its jobs: children held ready, children forked when the daemon asks, paused
//! starts, and checkpoint commands.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use pinfold_proto::wire::{ErrorCode, Request};
use pinfold_sys::site;
use pinfold_sys::spawn::{self, Held, Program, Reaped};

use super::{Keeper, Kept, Stage, Told};
use crate::tasks::keep_launchers_in;

/// The variables that a daemon may set for a job beside pinfold's own.
const VARIABLES: [&str; 4] = ["TMPDIR", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "ROCR_VISIBLE_DEVICES"];

/// Names and values.
type Variables = Vec<(String, String)>;

/// A job that may start, with its start parameters. Without doors, the daemon asked for a child only.
pub(super) struct Permitted {
    job: u64,
    doors: Vec<OwnedFd>,
    variables: Variables,
}

impl Keeper {
    /// Keeps jobs from being forked until [`Self::allow_starts`]: where their start parameters depend on their number.
    pub(crate) fn pause_starts(&mut self) {
        self.paused.get_or_insert_default();
    }

    /// Lets jobs be forked, and forks the jobs that waited for that.
    pub(crate) fn allow_starts(&mut self) {
        let granted = self.paused.take().unwrap_or_default();
        for permitted in granted {
            if permitted.doors.is_empty() {
                self.granted(permitted.job);
            } else {
                self.start(permitted);
            }
        }
    }

    /// Sets how many children may be held ready before the daemon asks for them; none where starts come with doors.
    pub(crate) fn set_prefork(&mut self, count: usize) {
        self.prefork = if self.doors { 0 } else { count };
    }

    pub(super) fn granted(&mut self, job: u64) {
        if let Some(paused) = &mut self.paused {
            paused.push(Permitted { job, doors: Vec::new(), variables: Vec::new() });
            return;
        }
        let Some(&ticket) = self.by_job.get(&job) else { return };
        let pid = match self.jobs.get(&ticket).map(|kept| &kept.stage) {
            Some(Stage::Waiting(Some(held))) => Some(held.pid()),
            Some(Stage::Waiting(None)) => self.give_child(ticket),
            _ => return,
        };
        match pid {
            Some(pid) => self.send(&Request::Child { job, pid }),
            None => self.no_process(ticket, job),
        }
    }

    /// Forks children for the next jobs in line before the daemon asks, so that a slot that falls free is
    /// filled without a round trip.
    pub(super) fn fork_ahead(&mut self) {
        while self.held < self.prefork {
            let Some(ticket) = self.childless.pop_first() else { return };
            let Some(job) = self.jobs.get(&ticket).and_then(|kept| kept.job) else { continue };
            let Some(pid) = self.give_child(ticket) else { return };
            self.send(&Request::Child { job, pid });
        }
    }

    fn give_child(&mut self, ticket: u64) -> Option<u32> {
        self.childless.remove(&ticket);
        let held = self.fork(ticket)?;
        let pid = held.pid();
        self.jobs.get_mut(&ticket)?.stage = Stage::Waiting(Some(held));
        Some(pid)
    }

    /// Notes the run for which a job starts: a daemon that comes after this daemon's death learns which run ended.
    pub(super) fn is_let_go(&mut self, job: u64, run: Option<u32>) {
        let kept = self.by_job.get(&job).and_then(|ticket| self.jobs.get_mut(ticket));
        if let Some(kept) = kept.filter(|kept| matches!(kept.stage, Stage::Waiting(_))) {
            kept.run = run;
        }
    }

    pub(super) fn go(&mut self, job: u64, doors: u32, variables: Variables, wrap: Vec<String>) {
        // A daemon has no say in anything else that a command goes by,
        let mut variables = variables;
        variables.retain(|(name, _)| name.starts_with("PINFOLD_") || VARIABLES.contains(&name.as_str()));
        keep_launchers_in(&mut variables);
        // but for the programs that it is wrapped in.
        variables.extend(wrap.into_iter().map(spawn::wrapper));
        let ticket = self.by_job.get(&job);
        variables.extend(ticket.zip(self.own_variable.as_ref()).map(|(&ticket, of)| of(ticket)));
        let count = usize::try_from(doors).unwrap_or(0);
        let doors = self.line.doors(count);
        if let Some(paused) = &mut self.paused
            && count > 0
        {
            paused.push(Permitted { job, doors, variables });
            return;
        }
        self.start(Permitted { job, doors, variables });
    }

    /// Lets a job's command go, in a new child where it has none.
    fn start(&mut self, permitted: Permitted) {
        let Permitted { job, doors, variables } = permitted;
        let Some(&ticket) = self.by_job.get(&job) else { return };
        let untrusted = |(name, program): &(String, String)| {
            name.is_empty().then(|| site::trusted(Path::new(program)).err()).flatten()
        };
        if let Some(error) = variables.iter().find_map(untrusted) {
            return self.not_started(ticket, job, error.to_string());
        }
        let Some(Kept { stage: Stage::Waiting(held), .. }) = self.jobs.get_mut(&ticket) else { return };
        // Taken before the process is made or released, as the process may run for long before this process goes on.
        let at = Instant::now();
        let pid = match held.take() {
            Some(held) => {
                self.held -= 1;
                let pid = held.pid();
                // A child that ended meanwhile is reaped like any other.
                let _ = held.release(&variables);
                pid
            }
            None => {
                self.childless.remove(&ticket);
                let Some(pid) = self.start_new(ticket, &doors, &variables) else {
                    return self.no_process(ticket, job);
                };
                self.by_pid.insert(pid, ticket);
                self.send(&Request::Child { job, pid });
                pid
            }
        };
        if let Some(kept) = self.jobs.get_mut(&ticket) {
            kept.stage = Stage::Running(pid);
        }
        self.told.push_back(Told::Started { ticket, at });
    }

    fn program(&mut self, ticket: u64) -> Option<Program> {
        (self.make)(ticket).map_err(|error| self.why = Some(error.to_string())).ok()
    }

    fn start_new(&mut self, ticket: u64, doors: &[OwnedFd], variables: &[(String, String)]) -> Option<u32> {
        let program = self.program(ticket)?;
        spawn::start(&program, doors, variables).ok()
    }

    /// Starts a job's checkpoint command.
    pub(super) fn checkpoint(&mut self, job: u64, variables: &[(String, String)]) {
        let Some(&ticket) = self.by_job.get(&job) else { return };
        let Some(Kept { stage: Stage::Running(_), spec, .. }) = self.jobs.get(&ticket) else { return };
        let limit = Duration::from_micros(spec.checkpoint.as_ref().map_or(0, |one| one.limit_us));
        if let Err(error) = self.hooks.start(ticket, job, limit, variables) {
            self.send(&Request::Checkpointed { job, error: Some(error) });
        }
    }

    /// A job's held child ended before its release. The job gets no other child: the daemon may have taken the first
    /// child in already, and would refuse another.
    pub(super) fn never_started(&mut self, ticket: u64, job: u64, reaped: Reaped) {
        let reason = "its process ended before the command was started".to_owned();
        self.send(&Request::Withdraw { job, reason });
        self.told.push_back(Told::Ended { ticket, reaped, at: Instant::now() });
        self.forget(ticket);
    }

    fn no_process(&mut self, ticket: u64, job: u64) {
        let why = self.why.take().map_or_else(String::new, |why| format!(": {why}"));
        self.not_started(ticket, job, format!("no process could be made for it{why}"));
    }

    fn not_started(&mut self, ticket: u64, job: u64, reason: String) {
        self.send(&Request::Withdraw { job, reason: reason.clone() });
        self.refused(ticket, reason, ErrorCode::Failed);
    }

    pub(super) fn fork(&mut self, ticket: u64) -> Option<Held> {
        let program = self.program(ticket)?;
        let held = Held::fork(&program, &[]).ok()?;
        self.by_pid.insert(held.pid(), ticket);
        self.held += 1;
        Some(held)
    }
}
