//! Arrays of jobs of which no more than a number may have started at once.
//!
//! A member beyond that number stands in the queue like any other, so that a wide or held one before it costs it
//! nothing, but it is passed over there until another member is over. What it waits for then is its own array: that time
//! gives it no right to go before others, which counts from when it is one of the next that its array lets start. Owns
//! which members wait and how many have started. Absent: arrays without such a number, whose members are jobs like any
//! other; names of arrays and members.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::api::{Instant, JobId, Request};

/// See the module's page. The arrays that have such a number, by theirs.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct Arrays {
    by_number: BTreeMap<u64, Members>,
    /// How many members were looked at to find those that are next.
    #[cfg(test)]
    #[serde(skip)]
    pub(crate) looked_at: std::cell::Cell<usize>,
}

/// The members of one that are not over, and what it takes to look at none of them twice.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
struct Members {
    /// How many may have started at once; at least 1.
    at_most: usize,
    waiting: BTreeSet<JobId>,
    /// Those of them that stand in a queue.
    #[serde(default)]
    standing: BTreeSet<JobId>,
    /// The first of those: each had its timer set after `room_since` was, or after it came into the queue. Kept, as to set
    /// the timers of all that may start at each member's end would cost the square of their number.
    #[serde(default)]
    timed: BTreeSet<JobId>,
    started: usize,
    /// Since when one more may start, if one may.
    room_since: Instant,
}

impl Arrays {
    /// A member waits.
    pub(crate) fn join(&mut self, request: &Request, now: Instant) {
        let Some(array) = request.array else { return };
        let at_most = (array.at_most as usize).max(1);
        self.by_number
            .entry(array.array)
            .or_insert_with(|| Members::new(at_most, now))
            .waiting
            .insert(request.job);
    }

    /// A member is found again, and one more may have been able to start since then.
    pub(crate) fn found(&mut self, request: &Request, room_since: Instant) {
        self.join(request, room_since);
        if let Some(members) = request.array.and_then(|array| self.by_number.get_mut(&array.array)) {
            members.has_room_since(members.room_since.max(room_since));
        }
    }

    /// A member was told to start.
    pub(crate) fn began(&mut self, request: &Request) {
        if let Some(members) = request.array.and_then(|array| self.by_number.get_mut(&array.array)) {
            members.waiting.remove(&request.job);
            members.started += 1;
        }
    }

    /// A member that had been told to start waits again.
    pub(crate) fn returned(&mut self, request: &Request, now: Instant) {
        if let Some(members) = request.array.and_then(|array| self.by_number.get_mut(&array.array)) {
            if members.started >= members.at_most {
                members.has_room_since(now);
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
        let Some(members) = self.by_number.get_mut(&array.array) else { return };
        members.waiting.remove(&request.job);
        if members.waiting.is_empty() && members.started == 0 {
            self.by_number.remove(&array.array);
        }
    }

    /// Whether one more member of this array may start; of none, always.
    pub(crate) fn has_room(&self, array: Option<u64>) -> bool {
        let members = array.and_then(|array| self.by_number.get(&array));
        members.is_none_or(|members| members.started < members.at_most)
    }

    /// Since when a member waits for others than those of its array; `None`: it waits for those.
    pub(crate) fn room_since(&self, request: &Request) -> Option<Instant> {
        match request.array.and_then(|array| self.by_number.get(&array.array)) {
            Some(members) if members.started >= members.at_most => None,
            Some(members) => Some(members.room_since),
            None => Some(Instant::default()),
        }
    }

    /// How many members of an array have started, and how many may have at once.
    pub(crate) fn started(&self, array: u64) -> Option<(usize, usize)> {
        self.by_number.get(&array).map(|members| (members.started, members.at_most))
    }

    /// A member stands in a queue from now on; the caller sets its timer.
    pub(super) fn enqueued(&mut self, array: u64, job: JobId) {
        let Some(members) = self.by_number.get_mut(&array) else { return };
        members.standing.insert(job);
        if members.timed.last().is_some_and(|&last| job < last) {
            members.timed.insert(job);
        }
    }

    /// A member stands in no queue any more.
    pub(super) fn dequeued(&mut self, array: u64, job: JobId) {
        let Some(members) = self.by_number.get_mut(&array) else { return };
        members.standing.remove(&job);
        members.timed.remove(&job);
    }

    /// As many of the members that stand in a queue, from the first on, as may start: those of them whose timers are not
    /// set. The caller sets them.
    pub(super) fn next_untimed(&mut self, array: u64) -> Vec<JobId> {
        let Some(members) = self.by_number.get_mut(&array) else { return Vec::new() };
        let room = members.at_most.saturating_sub(members.started);
        let behind = members.timed.last().map_or(Bound::Unbounded, |&last| Bound::Excluded(last));
        let standing = members.standing.range((behind, Bound::Unbounded));
        let next: Vec<JobId> = standing.take(room.saturating_sub(members.timed.len())).copied().collect();
        members.timed.extend(&next);
        #[cfg(test)]
        self.looked_at.set(self.looked_at.get() + next.len());
        next
    }

    /// Each array's members that stand in a queue, and those of them whose timers are set; to be counted anew.
    #[cfg(test)]
    pub(crate) fn timers(&self) -> impl Iterator<Item = (u64, &BTreeSet<JobId>, &BTreeSet<JobId>)> {
        self.by_number.iter().map(|(&array, members)| (array, &members.standing, &members.timed))
    }

    /// How many members of each array wait and have started; to be counted anew.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> BTreeMap<u64, (usize, usize)> {
        self.by_number
            .iter()
            .map(|(&array, members)| (array, (members.waiting.len(), members.started)))
            .collect()
    }
}

impl Members {
    fn new(at_most: usize, room_since: Instant) -> Self {
        Self {
            at_most,
            waiting: BTreeSet::new(),
            standing: BTreeSet::new(),
            timed: BTreeSet::new(),
            started: 0,
            room_since,
        }
    }

    /// One more may start since then: timers that were set before say another time.
    fn has_room_since(&mut self, at: Instant) {
        self.room_since = at;
        self.timed.clear();
    }
}

#[cfg(test)]
mod tests;
