//! Which list of jobs shares the cores evenly (`fair_tail` says when).

use crate::jobs::Job;

/// A list, and the priority of its jobs.
pub(super) type ListAt = (u64, u8);

/// Whose jobs share cores evenly.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct FairTail {
    pub(super) now: Option<ListAt>,
    /// The list of all primaries, as far as there is one; `None`: who has a slot changed since it was looked at.
    pub(super) primaries: Option<Option<ListAt>>,
}

impl FairTail {
    /// Who has a slot, or what it is to whom, changed.
    pub(crate) fn touch(&mut self) {
        self.primaries = None;
    }
}

/// The list of a job that leaves its class to the scheduler.
pub(super) fn list_of(job: &Job) -> Option<ListAt> {
    let list = job.request.list.filter(|_| job.request.class.is_none())?;
    Some((list, job.request.priority))
}
