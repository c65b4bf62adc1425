//! The terms of a job: its start time, predecessors, run-time limits, and the user's comment.

use std::fmt;
use std::str::FromStr;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::array::{ArrayError, JobName};
use crate::resource::Resource;

/// Start time, run-time limits, resources, requeueing and comment of a job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Terms {
    /// Longest run time in microseconds, without frozen time; then the job is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_us: Option<u64>,
    /// Most CPU time in microseconds over all its processes; then the job is ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_limit_us: Option<u64>,
    /// The signal sent before its timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_signal: Option<TimeoutSignal>,
    /// Earliest start, in microseconds since the Unix epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begin_us: Option<u64>,
    /// The countable resources that the job holds from start to end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Resource>,
    /// Whether the job's keeper can run the job again after a requeue by its user.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub runs_again: bool,
    /// Free text of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The enclosing job, which lends its slots while idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
}

/// The parent of a nested job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The instance of its daemon, from the environment.
    pub instance: String,
    /// Its number.
    pub job: u64,
}

impl Terms {
    /// Whether no term is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A signal sent to a job before its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeoutSignal {
    /// The signal's number.
    pub signal: i32,
    /// How long before the timeout, in microseconds.
    pub before_us: u64,
}

/// The required ending of a predecessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum AfterEnd {
    /// Any ending.
    #[default]
    Any,
    /// Exit code 0; for an array, of all members.
    Ok,
    /// Another exit code, a signal, a timeout, or no run at all; for an array, of any member.
    Failed,
}

impl AfterEnd {
    /// Its word on command lines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Ok => "ok",
            Self::Failed => "failed",
        }
    }

    /// The value with this word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::Any, Self::Ok, Self::Failed].into_iter().find(|end| end.as_str() == word)
    }
}

/// A predecessor: a job, an array or members of an array: `12`, `ok:12`, `failed:12_[0-3]`; or several jobs that
/// count together like an array: `failed:12+14`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct After {
    /// The required ending.
    pub end: AfterEnd,
    /// The job.
    pub job: JobName,
    /// Further jobs that count together with it.
    pub with: Vec<JobName>,
}

impl After {
    /// All named jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &JobName> {
        std::iter::once(&self.job).chain(&self.with)
    }

    /// The named jobs in words: `12`, `12 and 14`, `12 and 40 more`.
    #[must_use]
    pub fn named(&self) -> String {
        match self.with.as_slice() {
            [] => self.job.to_string(),
            [second] => format!("{} and {second}", self.job),
            more => format!("{} and {} more", self.job, more.len()),
        }
    }
}

impl From<JobName> for After {
    fn from(job: JobName) -> Self {
        Self { end: AfterEnd::Any, job, with: Vec::new() }
    }
}

impl From<u64> for After {
    fn from(job: u64) -> Self {
        JobName::from(job).into()
    }
}

impl fmt::Display for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            AfterEnd::Any => write!(f, "{}", self.job)?,
            end => write!(f, "{}:{}", end.as_str(), self.job)?,
        }
        self.with.iter().try_for_each(|job| write!(f, "+{job}"))
    }
}

impl FromStr for After {
    type Err = ArrayError;

    fn from_str(text: &str) -> Result<Self, ArrayError> {
        // A list of indexes may have a colon as well: 12_[0-8:2].
        let worded = text.split_once(':').and_then(|(word, job)| Some((AfterEnd::of(word)?, job)));
        let (end, jobs) = worded.unwrap_or((AfterEnd::Any, text));
        let mut jobs = jobs.split('+').map(str::parse);
        let job = jobs.next().unwrap_or_else(|| text.parse())?;
        Ok(Self { end, job, with: jobs.collect::<Result<_, _>>()? })
    }
}

/// Without a required ending, written as the bare name, for compatibility.
impl Serialize for After {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.end {
            AfterEnd::Any if self.with.is_empty() => self.job.serialize(serializer),
            _ => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for After {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

struct Written;

impl Visitor<'_> for Written {
    type Value = After;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a job's number, or a text such as ok:12 or any:12_[0-3,7]")
    }

    fn visit_u64<E: serde::de::Error>(self, job: u64) -> Result<After, E> {
        Ok(job.into())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<After, E> {
        text.parse().map_err(E::custom)
    }
}

/// Prefix of the reason when the kernel's OOM killer killed a process of the job.
pub const OUT_OF_MEMORY: &str = "the kernel killed part of it for memory";

/// The cause of a job's end, where the exit status does not show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The job exceeded its timeout.
    Timeout,
    /// The job exceeded its CPU time limit.
    CpuLimit,
    /// A predecessor ended otherwise than required, so the job never ran.
    Dependency,
    /// A user or operator cancelled the running job: a failure whatever the exit code.
    Cancelled,
}

impl End {
    /// Whether a time limit ended the job.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(self, Self::Timeout | Self::CpuLimit)
    }

    /// Its word in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::CpuLimit => "cpu_limit",
            Self::Dependency => "dependency",
            Self::Cancelled => "cancelled",
        }
    }

    /// The end in words, for users.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Timeout => "ended at its timeout",
            Self::CpuLimit => "ended at its limit of CPU time",
            Self::Dependency => "not run",
            Self::Cancelled => "cancelled",
        }
    }

    /// The end with this word.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        let all = [Self::Timeout, Self::CpuLimit, Self::Dependency, Self::Cancelled];
        all.into_iter().find(|end| end.as_str() == word)
    }
}

/// Whether a command succeeded: exit code 0, and neither ended at a time limit nor cancelled. A program may exit with
/// 0 on a signal and leave its work undone.
#[must_use]
pub fn ended_well(exit_code: Option<i32>, end: Option<End>) -> bool {
    exit_code == Some(0) && end.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, end: AfterEnd, job: &str, json: &str) {
        let after: After = text.parse().expect(text);
        let named: Vec<String> = after.jobs().map(ToString::to_string).collect();
        assert_eq!((after.end, named.join(" and ").as_str()), (end, job), "{text}");
        let written = serde_json::to_string(&after).expect("a name always has a JSON form");
        assert_eq!(written, json, "{text}");
        assert_eq!(serde_json::from_str::<After>(&written).expect(json), after);
    }

    #[test]
    fn exit_code_0_is_not_all() {
        assert!(ended_well(Some(0), None));
        assert!(!ended_well(Some(1), None) && !ended_well(None, None));
        for end in [End::Timeout, End::CpuLimit, End::Dependency, End::Cancelled] {
            assert!(!ended_well(Some(0), Some(end)), "{end:?}");
        }
    }

    #[test]
    fn predecessors_in_words_and_on_the_wire() {
        check("12", AfterEnd::Any, "12", "12");
        check("any:12", AfterEnd::Any, "12", "12");
        check("any:12_3", AfterEnd::Any, "12_3", "\"12_3\"");
        check("ok:12", AfterEnd::Ok, "12", "\"ok:12\"");
        check("12_[0-8:2]", AfterEnd::Any, "12_[0-8:2]", "\"12_[0-8:2]\"");
        check("ok:12_[0-8:2]", AfterEnd::Ok, "12_[0-8:2]", "\"ok:12_[0-8:2]\"");
        check("failed:12+14_3+15", AfterEnd::Failed, "12 and 14_3 and 15", "\"failed:12+14_3+15\"");
        check("any:12+14", AfterEnd::Any, "12 and 14", "\"12+14\"");
        check("failed:12_[0-3,7]", AfterEnd::Failed, "12_[0-3,7]", "\"failed:12_[0-3,7]\"");
        for bad in ["", ":", "ok:", "ok", "okay:12", "12:ok", "ok:any:12", "ok:-1", " ok:12"] {
            assert!(bad.parse::<After>().is_err(), "{bad}");
        }
        for bad in ["-1", "null", "[]", "1.5", "\"x\"", "{}"] {
            assert!(serde_json::from_str::<After>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ends_have_one_word() {
        for end in [End::Timeout, End::CpuLimit, End::Dependency, End::Cancelled] {
            assert_eq!(End::of(end.as_str()), Some(end));
            assert_eq!(serde_json::to_string(&end).expect("a word"), format!("\"{}\"", end.as_str()));
        }
    }

    #[test]
    fn terms_that_say_nothing_are_empty() {
        let terms: Terms = serde_json::from_str("{}").expect("all may be missing");
        assert!(terms.is_empty());
        assert_eq!(serde_json::to_string(&terms).expect("texts and numbers"), "{}");
    }
}
