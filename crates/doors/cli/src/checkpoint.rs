//! Checkpoint commands (`--checkpoint`): a keeper runs them, as its user, when the daemon asks for a job's checkpoint.
//!
//! A command has a time limit, and is killed with all its processes afterwards. Owns the commands that run. Absent
//! here: when a command is run, and the consequences of its end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use pinfold_client::Failure;
use pinfold_sys::signals::{self, SIGKILL};
use pinfold_sys::spawn::{self, Program, Reaped};

use crate::job::{self, JobOptions};
use crate::keeper::process::{MakeProgram, send_signal_to_group};
use crate::shell::{self, run_text};

/// The checkpoint commands of a keeper's jobs.
#[derive(Default)]
pub(crate) struct Hooks {
    make: Option<MakeProgram>,
    running: BTreeMap<u32, Hook>,
}

struct Hook {
    job: u64,
    until: Instant,
    limit: Duration,
    late: bool,
}

impl Hooks {
    /// How a job's command is made, by its ticket.
    pub(crate) fn made_by(&mut self, make: Option<MakeProgram>) {
        self.make = make;
    }

    /// Starts a job's command. An earlier command that still runs was given up by the daemon, and is ended.
    pub(crate) fn start(
        &mut self,
        ticket: u64,
        job: u64,
        limit: Duration,
        variables: &[(String, String)],
    ) -> Result<(), String> {
        self.stop(job);
        let Some(make) = &self.make else {
            return Err("its keeper knows of no checkpoint command".to_owned());
        };
        let program = make(ticket).map_err(|error| error.to_string())?;
        let pid = spawn::start(&program, &[], variables).map_err(|error| format!("/bin/sh: {error}"))?;
        self.running.insert(pid, Hook { job, until: Instant::now() + limit, limit, late: false });
        Ok(())
    }

    /// When the first has had its time.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.running.values().filter(|hook| !hook.late).map(|hook| hook.until).min()
    }

    /// Kills the commands beyond their time.
    pub(crate) fn end_late_ones(&mut self) {
        let now = Instant::now();
        for (&pid, hook) in self.running.iter_mut().filter(|(_, hook)| !hook.late && hook.until <= now) {
            hook.late = true;
            send_signal_to_group(pid, SIGKILL);
        }
    }

    /// Ends a job's command: the job is over, or asked anew.
    pub(crate) fn stop(&mut self, job: u64) {
        let of_job: Vec<u32> =
            self.running.iter().filter(|(_, hook)| hook.job == job).map(|(&pid, _)| pid).collect();
        for pid in of_job {
            self.running.remove(&pid);
            send_signal_to_group(pid, SIGKILL);
        }
    }

    /// If this child was a checkpoint command: its job, and why the checkpoint is unreliable.
    pub(crate) fn ended(&mut self, reaped: &Reaped) -> Option<(u64, Option<String>)> {
        let hook = self.running.remove(&reaped.pid)?;
        let error = match (hook.late, reaped.exit_code, reaped.signal) {
            (true, ..) => Some(format!("its command took longer than {} s", hook.limit.as_secs_f64())),
            (_, Some(0), _) => None,
            (_, Some(code), _) => Some(format!("its command ended with exit code {code}")),
            (_, _, signal) => {
                let number = signal.unwrap_or_default();
                let name = signals::name(number).map_or_else(|| number.to_string(), str::to_owned);
                Some(format!("its command was ended by signal {name}"))
            }
        };
        Some((hook.job, error))
    }
}

/// How the checkpoint command of these options is made, with its output going where the job's goes.
pub(crate) fn maker(
    options: &JobOptions,
    output: impl Fn() -> [Option<OwnedFd>; 2] + 'static,
) -> Result<Option<MakeProgram>, Failure> {
    let Some(command) = options.checkpoint.clone().map(OsString::from) else { return Ok(None) };
    let shell = shell::of(None)?;
    let environment = job::environment();
    Ok(Some(Box::new(move |_| {
        let mut program = Program::new(&shell, run_text(&shell, &command), &environment)?;
        program.own_session = true;
        let [out, err] = output();
        program.streams = [File::open("/dev/null").ok().map(OwnedFd::from), out, err];
        Ok(program)
    })))
}
