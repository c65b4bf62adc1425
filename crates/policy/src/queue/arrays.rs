//! Arrays of jobs of which no more than a number may have started at once.
//!
//! A member beyond that number stands in the queue like any other, so that a wide or held one before it costs it
//! nothing, but it is passed over there until another member is over. What it waits for then is its own array: that time
//! gives it no right to go before others, which counts from when it is one of the next that its array lets start. Owns
//! which members wait and how many have started. Absent: arrays without such a number, whose members are jobs like any
//! other; names of arrays and members.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::{Instant, JobId, Request};

/// The arrays that have such a number, by theirs.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Arrays(BTreeMap<u64, Members>);

/// The members of one that are not over.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
struct Members {
    /// How many may have started at once; at least 1.
    at_most: usize,
    waiting: BTreeSet<JobId>,
    started: usize,
    /// Since when one more may start, if one may.
    room_since: Instant,
}

impl Arrays {
    /// A member waits.
    pub(crate) fn join(&mut self, request: &Request, now: Instant) {
        let Some(array) = request.array else { return };
        let at_most = (array.at_most as usize).max(1);
        let new = || Members { at_most, waiting: BTreeSet::new(), started: 0, room_since: now };
        self.0.entry(array.array).or_insert_with(new).waiting.insert(request.job);
    }

    /// A member is found again, and one more may have been able to start since then.
    pub(crate) fn found(&mut self, request: &Request, room_since: Instant) {
        self.join(request, room_since);
        if let Some(members) = request.array.and_then(|array| self.0.get_mut(&array.array)) {
            members.room_since = members.room_since.max(room_since);
        }
    }

    /// A member was told to start.
    pub(crate) fn began(&mut self, request: &Request) {
        if let Some(members) = request.array.and_then(|array| self.0.get_mut(&array.array)) {
            members.waiting.remove(&request.job);
            members.started += 1;
        }
    }

    /// A member that had been told to start waits again.
    pub(crate) fn returned(&mut self, request: &Request, now: Instant) {
        if let Some(members) = request.array.and_then(|array| self.0.get_mut(&array.array)) {
            if members.started >= members.at_most {
                members.room_since = now;
            }
            members.started = members.started.saturating_sub(1);
            members.waiting.insert(request.job);
        }
    }

    /// A member is over, which had started or not.
    pub(crate) fn leave(&mut self, request: &Request, started: bool, now: Instant) {
        if started {
            self.returned(request, now);
        }
        let Some(array) = request.array else { return };
        let Some(members) = self.0.get_mut(&array.array) else { return };
        members.waiting.remove(&request.job);
        if members.waiting.is_empty() && members.started == 0 {
            self.0.remove(&array.array);
        }
    }

    /// Whether one more member of this array may start; of none, always.
    pub(crate) fn has_room(&self, array: Option<u64>) -> bool {
        let members = array.and_then(|array| self.0.get(&array));
        members.is_none_or(|members| members.started < members.at_most)
    }

    /// Since when a member waits for others than those of its array; `None`: it waits for those.
    pub(crate) fn room_since(&self, request: &Request) -> Option<Instant> {
        match request.array.and_then(|array| self.0.get(&array.array)) {
            Some(members) if members.started >= members.at_most => None,
            Some(members) => Some(members.room_since),
            None => Some(Instant::default()),
        }
    }

    /// How many members of an array have started, and how many may have at once.
    pub(crate) fn started(&self, array: u64) -> Option<(usize, usize)> {
        self.0.get(&array).map(|members| (members.started, members.at_most))
    }

    /// The members that wait, in order, and how many more may start.
    pub(super) fn next(&self, array: u64) -> (impl Iterator<Item = JobId> + '_, usize) {
        let members = self.0.get(&array);
        let room = members.map_or(0, |members| members.at_most.saturating_sub(members.started));
        (members.into_iter().flat_map(|members| members.waiting.iter().copied()), room)
    }

    /// How many members of each array wait and have started; to be counted anew.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> BTreeMap<u64, (usize, usize)> {
        self.0.iter().map(|(&array, members)| (array, (members.waiting.len(), members.started))).collect()
    }
}
