//! The daemon and its jobs in the view of Slurm's commands, with their labels.
//!
//! Absent here: the job type ([`crate::jobs`]), and the selection of jobs by commands.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use pinfold_client::{Client, Dial, Failure, Greeting, unexpected};
use pinfold_proto::ExitCode;
use pinfold_proto::view::{JobView, StatusView};
use pinfold_proto::wire::{Piece, Reply, Request, Select, Verb};

use crate::dependency::Live;
use crate::home::{Home, Known};
use crate::jobs::Job;
use crate::state::State;
use crate::units;

/// How long `squeue --states=all` shows ended jobs, in seconds, as in `scontrol show config`.
pub(crate) const MIN_JOB_AGE_S: u64 = 300;

/// Retries for an absent daemon, and the pause between: a service is replaced within seconds, and an engine treats a
/// failed submission as the end of its job.
const LOOKS: u32 = 25;
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Most ended jobs queried by number, the newest first.
const ASKED_MAX: usize = 4000;

/// The daemon, with the recorded facts of its jobs.
pub(crate) struct Cluster {
    pub client: Client,
    pub home: Home,
    /// Read on demand: the journal grows with the number of jobs, and a submission does not need it.
    known: OnceCell<Rc<Known>>,
}

impl Cluster {
    pub(crate) fn connect() -> Result<Self, Failure> {
        Self::greeted(Self::greet()?)
    }

    /// Greets the daemon without waiting for the answer. Waits for an absent daemon ([`patiently`]), as Slurm's
    /// commands wait for their controller.
    pub(crate) fn greet() -> Result<Greeting, Failure> {
        let dial = Dial::new(None, false);
        patiently(|| dial.greet())
    }

    /// Waits for the answer of a greeted daemon.
    pub(crate) fn greeted(greeting: Greeting) -> Result<Self, Failure> {
        let client = greeting.answered()?;
        let home = Home::of(&client.welcome.instance);
        Ok(Self { client, home, known: OnceCell::new() })
    }

    /// The recorded facts of jobs in Slurm's words, as of the first call.
    pub(crate) fn known(&self) -> Rc<Known> {
        self.known.get_or_init(|| Rc::new(self.home.read())).clone()
    }

    fn status(&mut self, jobs: Vec<u64>, all: bool) -> Result<StatusView, Failure> {
        match self.client.ask(&Request::Status { jobs, all, at_us: None })? {
            Reply::Status(view) => Ok(view),
            other => Err(unexpected(&other)),
        }
    }

    /// The host, without ended jobs.
    pub(crate) fn host(&mut self) -> Result<StatusView, Failure> {
        self.status(Vec::new(), false)
    }

    fn made(&mut self, views: &[JobView]) -> Result<Vec<Job>, Failure> {
        let known = self.known();
        let mut jobs: Vec<Job> = views.iter().map(|view| Job::new(view, &known)).collect();
        let depends = |job: &Job| job.state == State::Pending && !job.label.dependency.is_empty();
        if jobs.iter().any(depends) {
            let view = self.host()?;
            let live = Live::of(view.jobs.iter().map(|view| Job::new(view, &known)));
            for job in jobs.iter_mut().filter(|job| depends(job)) {
                job.waits = live.keep(job);
            }
        }
        Ok(jobs)
    }

    /// Jobs that have not ended; with `recent` also jobs that ended recently.
    pub(crate) fn jobs(&mut self, recent: bool) -> Result<Vec<Job>, Failure> {
        let view = self.status(Vec::new(), recent)?;
        let mut jobs = self.made(&view.jobs)?;
        if recent {
            // A long-running job may have ended just now, after many later submissions.
            let told: BTreeSet<u64> = jobs.iter().map(|job| job.job).collect();
            let oldest = jobs.iter().filter(|job| job.state.is_over()).map(|job| job.job).min().unwrap_or(0);
            let known = self.known();
            let left = known.labels.keys().rev().copied().filter(|job| *job < oldest);
            let left: Vec<u64> = left.filter(|job| !told.contains(job)).take(ASKED_MAX).collect();
            jobs.extend(self.named(&left)?);
            let since = units::now_s() - f64::from(u32::try_from(MIN_JOB_AGE_S).unwrap_or(u32::MAX));
            jobs.retain(|job| !job.state.is_over() || job.ended_s.is_none_or(|ended| ended >= since));
            jobs.sort_by_key(|job| job.job);
        }
        Ok(jobs)
    }

    /// The jobs with these numbers; unknown jobs are left out.
    pub(crate) fn named(&mut self, jobs: &[u64]) -> Result<Vec<Job>, Failure> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        match self.status(jobs.to_vec(), true) {
            Ok(view) => self.made(&view.jobs),
            Err(failure) if is_unknown(&failure) => {
                if jobs.len() == 1 {
                    return Ok(Vec::new());
                }
                let (left, right) = jobs.split_at(jobs.len() / 2);
                let mut found = self.named(left)?;
                found.extend(self.named(right)?);
                Ok(found)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Controls a job. Remarks in the reply are for users and dropped.
    pub(crate) fn control(&mut self, job: u64, verb: Verb) -> Result<(), Failure> {
        match self.client.ask(&Request::Control { job, verb })? {
            Reply::Done | Reply::Noted { .. } => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// The usage of these jobs; unknown jobs are left out.
    pub(crate) fn reports(&mut self, select: Select) -> Result<Vec<Job>, Failure> {
        if let Select::Jobs(jobs) = &select {
            if jobs.is_empty() {
                return Ok(Vec::new());
            }
            let jobs = jobs.clone();
            return match self.ask_reports(select) {
                Err(failure) if is_unknown(&failure) && jobs.len() > 1 => {
                    let (left, right) = jobs.split_at(jobs.len() / 2);
                    let mut found = self.reports(Select::Jobs(left.to_vec()))?;
                    found.extend(self.reports(Select::Jobs(right.to_vec()))?);
                    Ok(found)
                }
                Err(failure) if is_unknown(&failure) => Ok(Vec::new()),
                told => told,
            };
        }
        self.ask_reports(select)
    }

    fn ask_reports(&mut self, select: Select) -> Result<Vec<Job>, Failure> {
        let request = Request::Report {
            select,
            series: false,
            processes: false,
            threads: false,
            files: false,
            all: false,
            pieces: true,
        };
        let mut views = Vec::new();
        self.client.ask_in_pieces(&request, |piece| {
            if let Piece::Jobs(more) = piece {
                views.extend(more);
            }
            Ok(())
        })?;
        let known = self.known();
        Ok(views.into_iter().map(|view| Job::of_report(view, &known)).collect())
    }
}

/// Runs an action that needs a daemon. If this program starts no daemon, waits for an absent daemon and repeats the
/// action.
pub(crate) fn patiently<T>(act: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
    let looks = if Dial::new(None, false).starts_daemons() { 1 } else { LOOKS };
    looked_for(looks, act, || std::thread::sleep(LOOK_EVERY))
}

/// Repeats the action at most `looks` times, with a pause after each failure to reach a daemon.
fn looked_for<T>(
    looks: u32,
    mut look: impl FnMut() -> Result<T, Failure>,
    mut pause: impl FnMut(),
) -> Result<T, Failure> {
    for _ in 1..looks {
        match look() {
            Err(failure) if failure.code == ExitCode::NoDaemon => pause(),
            told => return told,
        }
    }
    look()
}

/// Whether the failure means that the job is unknown or belongs to another user.
pub(crate) fn is_unknown(failure: &Failure) -> bool {
    ["no job", "no array", "has no member", "belongs to another user"]
        .iter()
        .any(|it| failure.message.contains(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_is_away_is_looked_for() {
        let check =
            |looks: u32, answers: &[Result<u32, ExitCode>], want: Result<u32, ExitCode>, pauses: u32| {
                let (mut left, mut paused) = (answers.iter(), 0);
                let look = || {
                    let answer = *left.next().expect("no more looks than that");
                    answer.map_err(|code| Failure::new(code, "no"))
                };
                let told = looked_for(looks, look, || paused += 1);
                assert_eq!((told.map_err(|failure| failure.code), paused), (want, pauses), "{answers:?}");
            };
        let away = Err(ExitCode::NoDaemon);
        check(3, &[Ok(7)], Ok(7), 0);
        check(3, &[away, away, Ok(7)], Ok(7), 2);
        check(3, &[away, away, away], away, 2);
        check(1, &[away], away, 0);
        check(3, &[away, Err(ExitCode::Permission)], Err(ExitCode::Permission), 1);
    }
}
