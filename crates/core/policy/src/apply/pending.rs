//! What a step has brought about so far: jobs of which something else may be wanted now, jobs to be started, decisions.
//!
//! Absent: the difference between what is wanted and what was applied (`reconcile`).

use std::collections::BTreeSet;

use crate::api::{Action, AgainReason, Decision, JobId, Reason};

/// See the module's page.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Pending {
    /// Jobs of which something else may be wanted than was applied, and why; in the order in which it was decided.
    pub(super) marked: Vec<(JobId, Reason)>,
    /// Jobs to be started, and why.
    pub(super) starts: Vec<(JobId, Reason)>,
    decisions: Vec<Decision>,
    /// The primary whose end is being dealt with.
    ended: Option<JobId>,
}

impl Pending {
    /// Notes that something else may be wanted of a job than was applied; the last reason counts.
    pub(crate) fn request_update(&mut self, id: JobId, reason: Reason) {
        self.withdraw(id);
        self.marked.push((id, reason));
    }

    /// The same for what is due by the time. That something is tried again is no reason where there is another one.
    pub(crate) fn request_due(&mut self, id: JobId, reason: Reason) {
        let tried_again = matches!(reason, Reason::Again(AgainReason::Retry { .. }));
        if !(tried_again && self.is_marked(id)) {
            self.request_update(id, reason);
        }
    }

    /// Nothing is wanted of a job in this step any more.
    pub(crate) fn withdraw(&mut self, id: JobId) {
        self.marked.retain(|&(job, _)| job != id);
    }

    pub(crate) fn is_marked(&self, id: JobId) -> bool {
        self.marked.iter().any(|&(job, _)| job == id)
    }

    /// Whether something is to be looked at of a job for such a reason.
    pub(crate) fn is_marked_for(&self, id: JobId, why: impl Fn(&Reason) -> bool) -> bool {
        self.marked.iter().any(|(job, reason)| *job == id && why(reason))
    }

    pub(crate) fn marked(&self) -> &[(JobId, Reason)] {
        &self.marked
    }

    /// A job is to be started.
    pub(crate) fn start(&mut self, id: JobId, reason: Reason) {
        self.starts.push((id, reason));
    }

    pub(crate) fn starts(&self) -> &[(JobId, Reason)] {
        &self.starts
    }

    pub(crate) fn start_reason_mut(&mut self, id: JobId) -> Option<&mut Reason> {
        self.starts.iter_mut().find(|(job, _)| *job == id).map(|(_, reason)| reason)
    }

    pub(crate) fn decide(&mut self, decision: Decision) {
        self.decisions.push(decision);
    }

    /// The jobs whose start was decided in this step.
    pub(crate) fn told_to_start(&self) -> BTreeSet<JobId> {
        let starts = self.decisions.iter().filter(|one| matches!(one.action, Action::Start { .. }));
        starts.map(|one| one.job).collect()
    }

    #[cfg(test)]
    pub(crate) fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    pub(crate) fn set_ended(&mut self, primary: JobId) {
        self.ended = Some(primary);
    }

    pub(crate) fn ended(&self) -> Option<JobId> {
        self.ended
    }

    /// The step is over: what was decided in it.
    pub(crate) fn finish(&mut self) -> Vec<Decision> {
        self.ended = None;
        std::mem::take(&mut self.decisions)
    }
}
