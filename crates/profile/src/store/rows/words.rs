//! The words that stand for classes, states and sources in the columns.

use pinfold_proto::row::ProcessesFrom;
use pinfold_proto::{JobClass, JobState};

pub(super) const fn class_word(class: JobClass) -> &'static str {
    match class {
        JobClass::Primary => "primary",
        JobClass::Backfill => "backfill",
        JobClass::Exclusive => "exclusive",
    }
}

pub(super) fn class_of(word: &str) -> Option<JobClass> {
    match word {
        "primary" => Some(JobClass::Primary),
        "backfill" => Some(JobClass::Backfill),
        "exclusive" => Some(JobClass::Exclusive),
        _ => None,
    }
}

pub(super) const fn from_word(from: ProcessesFrom) -> Option<&'static str> {
    match from {
        ProcessesFrom::Unknown => None,
        ProcessesFrom::Records => Some("records"),
        ProcessesFrom::Events => Some("events"),
        ProcessesFrom::Samples => Some("samples"),
        ProcessesFrom::Gaps => Some("gaps"),
    }
}

pub(super) fn from_of(word: &str) -> ProcessesFrom {
    match word {
        "records" => ProcessesFrom::Records,
        "events" => ProcessesFrom::Events,
        "samples" => ProcessesFrom::Samples,
        "gaps" => ProcessesFrom::Gaps,
        _ => ProcessesFrom::Unknown,
    }
}

pub(super) const fn state_word(state: JobState) -> &'static str {
    match state {
        JobState::Queued => "queued",
        JobState::Held => "held",
        JobState::Running => "running",
        JobState::Frozen => "frozen",
        JobState::Parked => "parked",
        JobState::Exited => "exited",
    }
}

pub(super) fn state_of(word: &str) -> Option<JobState> {
    match word {
        "queued" => Some(JobState::Queued),
        "held" => Some(JobState::Held),
        "running" => Some(JobState::Running),
        "frozen" => Some(JobState::Frozen),
        "parked" => Some(JobState::Parked),
        "exited" => Some(JobState::Exited),
        _ => None,
    }
}
