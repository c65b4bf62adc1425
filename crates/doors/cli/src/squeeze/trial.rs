//! A single run of the command as a job under a bound. Absent: the meaning of the figures (see [`super::search`]).

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use pinfold_proto::ExitCode;
use pinfold_proto::wire::{Request, Verb};
use pinfold_sys::signals::{SIGHUP, SIGINT, SIGKILL, SIGTERM};
use pinfold_sys::spawn::Program;

use super::search::Tried;
use crate::job::{self, JobOptions};
use crate::keeper::{Keeper, Told, send_signal};
use crate::show::figures;
use pinfold_client::{Client, Dial, Failure};

/// Runs the command again and again.
pub(super) struct Runner {
    keeper: Keeper,
    /// Asks for the figures of a run; the keeper's own connection serves its jobs alone.
    client: Client,
    command: Vec<OsString>,
    name: Option<String>,
    /// Runs so far.
    runs: u64,
}

impl Runner {
    pub(super) fn new(dial: &Dial, command: &[OsString]) -> Result<Self, Failure> {
        let path = job::resolve(&command[0])?;
        let make = maker(path, command.to_vec());
        make(0).map_err(|error| Failure::new(ExitCode::NotExecutable, error))?;
        let client = dial.connect()?;
        let (keeper, welcome) = Keeper::new(dial.clone(), &[SIGINT, SIGTERM, SIGHUP], 1, make, None)?;
        welcome.warnings.iter().for_each(|warning| crate::print::say(&format!("warning: {warning}")));
        Ok(Self { keeper, client, command: command.to_vec(), name: None, runs: 0 })
    }

    /// Runs it within `bound` bytes; a run beyond the `deadline` is ended.
    pub(super) fn run(&mut self, bound: Option<u64>, deadline: Option<Duration>) -> Result<Tried, Failure> {
        self.runs += 1;
        let options = JobOptions { name: self.name.clone(), mem_limit: bound, ..JobOptions::default() };
        self.keeper.submit(self.runs, job::spec(&options, &self.command));
        let (job, was_stopped) = self.until_recorded(deadline)?;
        let report = figures(&mut self.client, job)?;
        let Some(report) = report else {
            return Err(Failure::new(ExitCode::Failed, format!("the daemon knows nothing of job {job}")));
        };
        Ok(Tried {
            limit_bytes: bound,
            wall_s: (report.wall_s.unwrap_or(0.0) - report.suspended_s).max(0.0),
            waited_s: report.cpu_stalled_s,
            stalled_s: report.memory_stalled_s,
            // A command that is told to end may exit with 0 and have done nothing.
            exit_code: report.exit_code.filter(|_| report.end.is_none()),
            signal: report.signal,
            peak_bytes: report.memory_peak_bytes,
            swap_peak_bytes: report.swap_peak_bytes,
            was_stopped,
            is_good: false,
        })
    }

    /// Waits until the run is over and its figures are kept; gives its number, and whether it was ended for being late.
    fn until_recorded(&mut self, deadline: Option<Duration>) -> Result<(u64, bool), Failure> {
        let (mut job, mut ends, mut was_stopped) = (None, None, false);
        loop {
            let left = ends.map(|ends: Instant| ends.saturating_duration_since(Instant::now()));
            for told in self.keeper.wait(vec![], left) {
                match told {
                    Told::Queued { job: number, .. } => job = Some(number),
                    Told::Started { .. } => ends = deadline.map(|deadline| Instant::now() + deadline),
                    Told::Refused { reason, code, .. } => return Err(Failure::refused(code, reason)),
                    Told::Recorded { .. } => {
                        let unknown = || Failure::new(ExitCode::Failed, "the job that ended has no number");
                        return Ok((job.ok_or_else(unknown)?, was_stopped));
                    }
                    Told::Signal(arrived) => return Err(self.interrupted(arrived.signal)),
                    Told::Lost | Told::Away | Told::Found { another: true } => {
                        self.interrupted(SIGTERM);
                        let text =
                            "the daemon went away; its next one knows nothing of the bounds tried so far";
                        return Err(Failure::new(ExitCode::NoDaemon, text));
                    }
                    Told::Ended { .. } => ends = None,
                    Told::Again { .. } | Told::Found { another: false } | Told::Why(_) => {}
                }
            }
            if let (Some(number), Some(at)) = (job, ends)
                && at <= Instant::now()
            {
                was_stopped = true;
                ends = None;
                let verb = Verb::Cancel { signal: SIGKILL };
                // The job may have ended just now, which is as good.
                let _ = self.client.ask(&Request::Control { job: number, verb });
            }
        }
    }

    /// Ends the run for good.
    fn interrupted(&mut self, signal: i32) -> Failure {
        if let Some(pid) = self.keeper.running_pid(self.runs) {
            send_signal(pid, signal);
            self.keeper.interrupted(self.runs);
        } else {
            self.keeper.withdraw(self.runs, "its client was ended before the job started");
        }
        self.keeper.wait(vec![], Some(Duration::ZERO));
        Failure::new(ExitCode::Failed, "interrupted: no knee was found")
    }
}

/// Makes the command without input and with discarded output; its standard error is shown.
fn maker(path: PathBuf, command: Vec<OsString>) -> crate::keeper::MakeProgram {
    let environment = job::environment();
    Box::new(move |_| {
        let mut program = Program::new(&path, command.iter().cloned(), &environment)?;
        let null =
            |write: bool| File::options().read(!write).write(write).open("/dev/null").ok().map(OwnedFd::from);
        program.streams = [null(false), null(true), None];
        Ok(program)
    })
}
