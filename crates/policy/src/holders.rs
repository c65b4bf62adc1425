//! Who has a slot: running and starting jobs in the orders in which the rules ask for them.
//!
//! Absent: frozen and waiting jobs; the state of the jobs themselves.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::{Class, Instant, JobId};

/// The lowest priority first, among equals the newest.
pub(crate) type Lowest = (u8, Reverse<(Instant, JobId)>);

/// What the orders are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) priority: u8,
    pub(crate) started: Instant,
    pub(crate) job: JobId,
    pub(crate) class: Class,
    /// Whether it may become a primary.
    pub(crate) promotable: bool,
}

impl Key {
    fn lowest(&self) -> Lowest {
        (self.priority, Reverse((self.started, self.job)))
    }
}

/// The jobs with a slot.
#[derive(Debug, Default)]
pub(crate) struct Holders {
    all: BTreeSet<Lowest>,
    primaries: BTreeSet<Lowest>,
    backfillers: BTreeSet<(Instant, JobId)>,
    promotable: BTreeSet<(Instant, JobId)>,
}

impl Holders {
    pub(crate) fn insert(&mut self, key: &Key) {
        self.all.insert(key.lowest());
        if key.class == Class::Primary {
            self.primaries.insert(key.lowest());
        }
        if key.class == Class::Backfill {
            self.backfillers.insert((key.started, key.job));
            if key.promotable {
                self.promotable.insert((key.started, key.job));
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        self.all.remove(&key.lowest());
        self.primaries.remove(&key.lowest());
        self.backfillers.remove(&(key.started, key.job));
        self.promotable.remove(&(key.started, key.job));
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

    /// Backfillers that may become primaries, the oldest first.
    pub(crate) fn promotable_oldest_first(&self) -> impl Iterator<Item = JobId> {
        self.promotable.iter().map(|&(_, job)| job)
    }

    /// The one that is never frozen by the judgement: the oldest of the highest priority.
    pub(crate) fn foremost(&self) -> Option<JobId> {
        self.all.last().map(|&(_, Reverse((_, job)))| job)
    }
}
