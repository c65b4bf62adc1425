//! Maps words in columns to classes, states and sources; the types define their words.

use pinfold_proto::row::ProcessesFrom;
use pinfold_proto::{JobClass, JobState};

pub(super) fn class_of(word: &str) -> Option<JobClass> {
    JobClass::ALL.into_iter().find(|class| class.word() == word)
}

pub(super) fn from_of(word: &str) -> ProcessesFrom {
    ProcessesFrom::ALL.into_iter().find(|from| from.word() == Some(word)).unwrap_or_default()
}

pub(super) fn state_of(word: &str) -> Option<JobState> {
    JobState::ALL.into_iter().find(|state| state.word() == word)
}
