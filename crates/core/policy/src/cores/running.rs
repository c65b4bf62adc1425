//! The running set: jobs that have a slot, in the orders in which the rules ask for them.
//!
//! Absent: suspended and waiting jobs; the state of the jobs themselves.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::api::{Class, Instant, JobId};
use crate::jobs::{Key, Lowest, Promotable};

/// The jobs with a slot.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct RunningSet {
    all: BTreeSet<Lowest>,
    primaries: BTreeSet<Lowest>,
    backfillers: BTreeSet<(Instant, JobId)>,
    /// By the home cores they need, so that those that need more than there are need not be walked over.
    promotable: BTreeMap<usize, BTreeSet<(Instant, JobId)>>,
    /// Those that do not take any home.
    wishing: BTreeSet<(Instant, JobId)>,
}

impl RunningSet {
    pub(crate) fn insert(&mut self, key: &Key) {
        self.all.insert(key.lowest());
        if key.class == Class::Primary {
            self.primaries.insert(key.lowest());
        }
        if key.class == Class::Backfill {
            self.backfillers.insert((key.started, key.job));
            match key.promotable {
                Some(Promotable::To(cores)) => {
                    self.promotable.entry(cores).or_default().insert((key.started, key.job));
                }
                Some(Promotable::ToWished) => {
                    self.wishing.insert((key.started, key.job));
                }
                None => {}
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        self.all.remove(&key.lowest());
        self.primaries.remove(&key.lowest());
        self.backfillers.remove(&(key.started, key.job));
        self.wishing.remove(&(key.started, key.job));
        if let Some(Promotable::To(cores)) = key.promotable
            && let Some(same) = self.promotable.get_mut(&cores)
        {
            same.remove(&(key.started, key.job));
            if same.is_empty() {
                self.promotable.remove(&cores);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// All, the lowest priority first, among equals the newest.
    pub(crate) fn lowest_first(&self) -> impl Iterator<Item = (u8, JobId)> {
        self.all.iter().map(|&(priority, Reverse((_, job)))| (priority, job))
    }

    /// Primaries, the lowest priority first, among equals the newest.
    pub(crate) fn primaries_lowest_first(&self) -> impl Iterator<Item = (u8, JobId)> {
        self.primaries.iter().map(|&(priority, Reverse((_, job)))| (priority, job))
    }

    /// Backfillers, the newest first.
    pub(crate) fn backfillers_newest_first(&self) -> impl Iterator<Item = JobId> {
        self.backfillers.iter().rev().map(|&(_, job)| job)
    }

    /// The backfillers that may become primaries on homes such as they wish, the oldest first.
    pub(crate) fn wishing(&self) -> impl Iterator<Item = JobId> {
        self.wishing.iter().map(|&(_, job)| job)
    }

    /// The oldest backfiller that may become a primary on so many home cores, whichever they are.
    pub(crate) fn oldest_promotable(&self, homes: usize) -> Option<JobId> {
        let fitting = self.promotable.range(..=homes).filter_map(|(_, same)| same.first());
        fitting.min().map(|&(_, job)| job)
    }

    /// How many backfillers that may become primaries are older than this one.
    pub(crate) fn promotable_before(&self, started: Instant, job: JobId) -> usize {
        self.promotable.values().map(|same| same.range(..(started, job)).count()).sum()
    }

    /// The one that is never frozen by the scheduler: the oldest of the highest priority.
    pub(crate) fn foremost(&self) -> Option<JobId> {
        self.all.last().map(|&(_, Reverse((_, job)))| job)
    }
}
