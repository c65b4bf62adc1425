//! The runs that advice is learned from: jobs of the daemon's store, with their requests and their use.
//!
//! The daemon shows other users' jobs to operators only. Absent: any figure (see [`super::classes`]), samples
//! ([`super::sampled`]), and words of commands besides their numbers.

use std::collections::BTreeMap;

use pinfold_proto::JobState;
use pinfold_proto::view::ReportView;
use pinfold_proto::wire::Select;

use super::numbers::{self, Number};
use super::{OfClasses, sampled};
use crate::print;
use crate::show;
use pinfold_client::{Client, Failure};

/// How a run ended, as far as advice goes by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Exit code 0: the run's need is its use.
    Done,
    /// Failed at its memory limit: the run needed more than it used.
    Short,
    /// Failed otherwise: the run's need is not known.
    Failed,
}

/// A job that ran and is over.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Run {
    pub(super) job: u64,
    pub(super) user: String,
    /// Its class: the job's name, by default that of its program.
    pub(super) class: String,
    /// The requested cores.
    pub(super) cores: u32,
    pub(super) submitted_s: f64,
    pub(super) started_s: f64,
    pub(super) ended_s: f64,
    /// The requested memory: the job's claim, or its limit if it made no claim.
    pub(super) request_bytes: Option<u64>,
    /// The size of the files that its command named.
    pub(super) input_bytes: Option<u64>,
    /// The numbers that its command named.
    pub(super) numbers: Vec<Number>,
    pub(super) peak_bytes: u64,
    /// From start to end, without frozen time.
    pub(super) wall_s: f64,
    /// The mean number of busy cores.
    pub(super) cores_mean: f64,
    /// The highest number of busy cores between two samples; `None`: not sampled.
    pub(super) cores_peak: Option<f64>,
    pub(super) outcome: Outcome,
}

/// At this part of its limit a job that failed is taken to have failed for want of memory.
const AT_LIMIT: f64 = 0.95;

impl Run {
    /// The run of a report; `None`: the job did not run, or is not over.
    fn of(report: &ReportView) -> Option<Self> {
        let (wall_s, started_s, ended_s) = (report.wall_s?, report.started_s?, report.ended_s?);
        if report.state != JobState::Exited {
            return None;
        }
        let wall_s = (wall_s - report.suspended_s).max(0.0);
        let cpu_s = report.cpu_user_s + report.cpu_system_s;
        let held_all = |limit: u64| report.memory_peak_bytes as f64 >= limit as f64 * AT_LIMIT;
        let outcome = match report.limit_bytes {
            _ if report.ended_well() => Outcome::Done,
            Some(limit) if held_all(limit) => Outcome::Short,
            _ => Outcome::Failed,
        };
        Some(Self {
            job: report.job,
            user: report.user.clone(),
            class: report.name.clone(),
            cores: report.cores.max(1),
            submitted_s: report.submitted_s,
            started_s,
            ended_s,
            request_bytes: report.claim_bytes.or(report.limit_bytes).filter(|&bytes| bytes > 0),
            input_bytes: report.input_bytes,
            numbers: numbers::of(&report.command),
            peak_bytes: report.memory_peak_bytes,
            wall_s,
            cores_mean: if wall_s > 0.0 { cpu_s / wall_s } else { 0.0 },
            cores_peak: None,
            outcome,
        })
    }

    /// The key of a class: user, name, and requested cores.
    pub(super) fn key(&self) -> (&str, &str, u32) {
        (&self.user, &self.class, self.cores)
    }
}

/// The runs that `args` asks for, by job number.
pub(super) fn runs(client: &mut Client, args: &OfClasses) -> Result<Vec<Run>, Failure> {
    // Other users' jobs have to be asked for, and are shown to operators only.
    let request = crate::show::figures_of(
        Select::Since(print::moment("--since", &args.since)?),
        false,
        args.all || args.user.as_ref().is_some_and(|user| !is_own(user)),
    );
    let mut runs = Vec::new();
    show::each(client, &request, |report| {
        runs.extend(runs_of(std::slice::from_ref(&report), args));
        Ok(())
    })?;
    if args.by.is_none() {
        look(client, &mut runs)?;
    }
    Ok(runs)
}

/// Adds the samples' figures to the last runs of each class.
fn look(client: &mut Client, runs: &mut [Run]) -> Result<(), Failure> {
    let done = runs.iter().filter(|run| run.outcome == Outcome::Done);
    let wanted = sampled::wanted(done.map(|run| (run.key(), run.job)));
    let at: BTreeMap<u64, usize> = runs.iter().enumerate().map(|(at, run)| (run.job, at)).collect();
    sampled::look(client, &wanted, |job, points| {
        if let Some(run) = at.get(&job).and_then(|&at| runs.get_mut(at)) {
            run.cores_peak = sampled::cores_peak(points);
        }
    })
}

/// The runs among `reports` that `args` asks for, without their samples.
pub(super) fn runs_of(reports: &[ReportView], args: &OfClasses) -> Vec<Run> {
    let is = |asked: &Option<String>, own: Option<&str>| asked.is_none() || asked.as_deref() == own;
    let wanted = |report: &&ReportView| {
        is(&args.name, Some(&report.name))
            && is(&args.user, Some(&report.user))
            && is(&args.project, report.project.as_deref())
    };
    reports.iter().filter(wanted).filter_map(Run::of).collect()
}

/// Whether this is the name of the calling user.
fn is_own(user: &str) -> bool {
    let own = pinfold_sys::peer::own_uid();
    pinfold_sys::peer::user(own).is_some_and(|found| found.name == user)
}
