//! Arrays of jobs of which no more than a number may have started at once.
//!
//! A member beyond that number stands in the queue like any other, so that a wide or held one before it costs it
//! nothing, but it is passed over there until another member is over. What it waits for then is its own array: that time
//! gives it no right to go before others, which counts from when it is one of the next that its array lets start. Owns
//! who waits and how many have started. Absent here: arrays without such a number, whose members
//! are jobs like any other; names of arrays and members.

use std::collections::{BTreeMap, BTreeSet};

use crate::job::Job;
use crate::policy::Policy;
use crate::{ArrayLimit, Instant, JobId, Request};

/// The arrays that have such a number, by theirs.
#[derive(Debug, Default)]
pub(crate) struct Arrays(BTreeMap<u64, Members>);

/// The members of one that are not over.
#[derive(Debug)]
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

    /// The members that wait, in order, and how many more may start.
    fn next(&self, array: u64) -> (impl Iterator<Item = JobId> + '_, usize) {
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

impl Policy {
    /// Whether a job may start as far as its array goes; one that has started may go on in any case.
    #[must_use]
    pub fn has_room_in_array(&self, job: JobId) -> bool {
        let Some(job) = self.jobs.get(&job).filter(|job| job.live().is_none()) else { return true };
        self.arrays.has_room(job.request.array.map(|array| array.array))
    }

    /// A member of an array is over, waits again or is held: how long those wait that are next counts from now.
    pub(crate) fn next_members_wait(&mut self, array: Option<ArrayLimit>) {
        let Some(array) = array else { return };
        let (waiting, room) = self.arrays.next(array.array);
        let stands = |id: &JobId| self.jobs.get(id).is_some_and(|job| job.queued.is_some());
        let next: Vec<JobId> = waiting.filter(stands).take(room).collect();
        next.into_iter().for_each(|job| self.rearm(job));
    }

    /// For a waiting job whose array has no room: cause, and what would change it.
    pub(crate) fn explain_array(
        &self,
        job: &Job,
        numbers: &mut Vec<(&'static str, String)>,
    ) -> Option<(String, String)> {
        let array = job.request.array.filter(|_| job.live().is_none())?;
        let members = self.arrays.0.get(&array.array)?;
        numbers.push(("members of its array that have started", members.started.to_string()));
        numbers.push(("of at most", members.at_most.to_string()));
        if members.started < members.at_most {
            return None;
        }
        let is_one = |id: &&JobId| {
            let other = self.jobs.get(id).and_then(|other| other.request.array);
            other.is_some_and(|other| other.array == array.array)
        };
        let first = self.lives.iter().find(is_one)?;
        let (are, rest) = match members.started {
            1 => ("1 has".to_owned(), String::new()),
            2 => ("2 have".to_owned(), ", or the other one".to_owned()),
            count => (format!("{count} have"), format!(", or one of {} others", count - 1)),
        };
        Some((
            format!(
                "of its array {} at most {} may have started at once, and {are}",
                array.array, members.at_most
            ),
            format!("job {first} must end{rest}"),
        ))
    }
}
