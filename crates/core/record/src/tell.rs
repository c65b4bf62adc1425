//! The results of a replay, for programs and users.

use std::io::Read;

use pinfold_policy::{Decision, Instant, JobId, Policy, State};
use serde::Serialize;

use crate::play::{Played, Player};
use crate::read::RecordError;

/// How far a recording is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// To its end.
    End,
    /// Up to this time, in microseconds since the Unix epoch.
    Time(u64),
    /// Up to the first step with a decision about this job.
    Job(u64),
}

/// The result of a replay.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Came {
    /// Replayed steps.
    pub steps: u64,
    /// Decisions of these steps.
    pub decisions: u64,
    /// When the first step was, in microseconds since the Unix epoch.
    pub from_us: Option<u64>,
    /// Time of the last step, in microseconds since the Unix epoch.
    pub until_us: Option<u64>,
    /// The first step with different decisions; the replay stops there.
    pub differs: Option<Differs>,
    /// Decisions of the last step about the named job.
    pub about: Vec<Said>,
    /// Whether a decision about the named job was found.
    pub was_found: bool,
}

/// A step with decisions that differ from the recording.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Differs {
    /// Its number in the recording, from 1.
    pub step: u64,
    /// Its time, in microseconds since the Unix epoch.
    pub time_us: u64,
    /// The recorded event.
    pub event: pinfold_policy::Event,
    /// The recorded decisions.
    pub recorded: Vec<Said>,
    /// The replay's decisions.
    pub made: Vec<Said>,
}

/// A decision in words and codes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Said {
    /// The job.
    pub job: u64,
    /// The code of the action.
    pub action: &'static str,
    /// The code of the reason.
    pub code: &'static str,
    /// Why.
    pub text: String,
}

impl Said {
    fn of(decision: &Decision) -> Self {
        let Decision { job, action, reason } = decision;
        Self { job: job.0, action: action.code(), code: reason.code(), text: reason.to_string() }
    }
}

impl Differs {
    fn of(played: Played) -> Self {
        let said = |decisions: &[Decision]| decisions.iter().map(Said::of).collect();
        Self {
            step: played.step,
            time_us: played.now.0,
            recorded: said(&played.recorded),
            made: said(&played.made),
            event: played.event,
        }
    }
}

/// Replays a recording up to a point, or to the first different step.
///
/// # Errors
/// When the rest of the recording cannot be read.
pub fn play<R: Read>(player: &mut Player<R>, until: Until) -> Result<Came, RecordError> {
    let mut came = Came::default();
    while let Some(at) = player.next_at()? {
        if matches!(until, Until::Time(time) if at.0 > time) {
            break;
        }
        let Some(played) = player.step()? else { break };
        came.steps += 1;
        came.decisions += played.made.len() as u64;
        came.from_us.get_or_insert(at.0);
        came.until_us = Some(at.0);
        if !played.agrees() {
            came.differs = Some(Differs::of(played));
            break;
        }
        if let Until::Job(job) = until {
            let about = played.made.iter().filter(|decision| decision.job.0 == job);
            came.about = about.map(Said::of).collect();
            if !came.about.is_empty() {
                came.was_found = true;
                break;
            }
        }
    }
    Ok(came)
}

/// A job's state and its cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobAt {
    /// Its number.
    pub job: u64,
    /// Its state, as in `status --json`.
    pub state: &'static str,
    /// Its class, running or requested.
    pub class: Option<&'static str>,
    /// 1 to 16.
    pub priority: u8,
    /// The PUs that the job is bound to; `None` if unbound or not running.
    pub cpus: Option<String>,
    /// Why the job is in that state.
    pub cause: String,
    /// The event that would change the state.
    pub change: String,
}

/// The waiting and running jobs, by number, or only the job `only`.
#[must_use]
pub fn jobs(policy: &Policy, at_us: u64, only: Option<u64>) -> Vec<JobAt> {
    let wanted = |job: JobId| only.is_none_or(|only| only == job.0);
    let told = policy.jobs().filter(|info| wanted(info.job)).map(|info| {
        let why = policy.explain(Instant(at_us), info.job);
        let (cause, change) = why.map(|why| (why.cause, why.change)).unwrap_or_default();
        JobAt {
            job: info.job.0,
            state: match info.state {
                State::Waiting { held: true } => "held",
                State::Waiting { .. } | State::Starting => "queued",
                State::Running => "running",
                State::Frozen { .. } if info.parked => "parked",
                State::Frozen { .. } => "frozen",
            },
            class: info.class.map(pinfold_policy::Class::code),
            priority: info.priority,
            cpus: (!info.cpus.is_empty()).then(|| info.cpus.to_string()),
            cause,
            change,
        }
    });
    told.collect()
}
