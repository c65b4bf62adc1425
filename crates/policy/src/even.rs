//! The last jobs of a list share the cores evenly.
//!
//! Whoever hands over a list waits for all of it. Once none of it waits any more, a backfiller that stands back behind a
//! primary only ends later, beside idle time that nobody fills: with jobs that wait for a part of their time, cores are
//! busier to the end when all that are left get on alike. So backfillers get a primary's share then, wherever nobody else
//! would pay for it: all primaries are of the same list and priority, and none was promised its cores by name.
//!
//! Owner of state: which list that is. Absent: who is a primary; a backfiller stays one, and is promoted as ever.

use crate::job::Job;
use crate::policy::Policy;
use crate::{Class, JobId, Reason};

/// A list, and the priority of its jobs.
type ListAt = (u64, u8);

/// Whose jobs share cores evenly.
#[derive(Debug, Default)]
pub(crate) struct Evenness {
    now: Option<ListAt>,
    /// The list of all primaries, as far as there is one; `None`: who has a slot changed since it was looked at.
    primaries: Option<Option<ListAt>>,
}

impl Evenness {
    /// Who has a slot, or what it is to whom, changed.
    pub(crate) fn touch(&mut self) {
        self.primaries = None;
    }
}

impl Policy {
    /// Who has a slot, or where, changed: what follows from that is to be looked at again.
    pub(crate) fn holders_changed(&mut self) {
        self.chunks.touch();
        self.evenness.touch();
    }

    /// Whether a backfiller shares cores with primaries as one of them does.
    pub(crate) fn shares_evenly(&self, job: &Job) -> bool {
        let backfills = job.live().is_some_and(|live| live.class == Class::Backfill && live.aside.is_none());
        backfills && list_of(job).is_some_and(|list| self.evenness.now == Some(list))
    }

    /// Looks whether all that run are the last of one list.
    pub(crate) fn look_at_evenness(&mut self) {
        let alone = self.settings.schedule && self.settings.protect_milli == 0 && self.exclusive.is_none();
        let touched = self.evenness.primaries.is_none();
        let now = if alone && self.queue.is_empty() { self.list_of_primaries() } else { None };
        if std::mem::replace(&mut self.evenness.now, now) == now && !(touched && now.is_some()) {
            return;
        }
        let backfillers: Vec<JobId> = self.holders.backfillers_newest_first().collect();
        for id in backfillers {
            let job = &self.jobs[&id];
            let even = self.shares_evenly(job);
            let told = job.live().and_then(|live| live.told.weight).is_some_and(|(.., told)| told);
            // What it is marked for already says more.
            if even != told && !self.marked.iter().any(|&(marked, _)| marked == id) {
                self.mark(id, if even { Reason::LastOfList } else { Reason::NotLastOfList });
            }
        }
    }

    /// The list of which all primaries are.
    fn list_of_primaries(&mut self) -> Option<ListAt> {
        if let Some(known) = self.evenness.primaries {
            return known;
        }
        let mut lists = self.holders.primaries_lowest_first().map(|(_, id)| list_of(&self.jobs[&id]));
        let first = lists.next().flatten();
        let found = first.filter(|_| lists.all(|list| list == first));
        self.evenness.primaries = Some(found);
        found
    }
}

/// The list of a job that leaves its class to the judgement.
fn list_of(job: &Job) -> Option<ListAt> {
    let list = job.request.list.filter(|_| job.request.class.is_none())?;
    Some((list, job.request.priority))
}
