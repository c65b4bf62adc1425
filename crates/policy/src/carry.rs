//! From what is wanted of a job to the actions that bring it about, and what to do when one fails.
//!
//! Nothing here decides what is wanted. An action is asked for once; it counts as done unless its failure is
//! reported, and then it is asked for again after [`RETRY`], as long as it is still wanted.

use std::time::Duration;

use pinfold_topo::CpuSet;

use crate::job::{Failure, Kind, Live};
use crate::policy::Policy;
use crate::{Action, Decision, JobId, Reason};

/// How long a failed action rests before it is tried again.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

impl Policy {
    /// The PUs a job is wanted on; empty: anywhere.
    pub(crate) fn cpus_of(&self, live: &Live) -> CpuSet {
        let pinned = self.settings.affinity && self.settings.schedule;
        if pinned { self.cores.cpus(&live.cores) } else { CpuSet::new() }
    }

    /// Asks for the difference between what is wanted of a job and what it was told. A job that is starting
    /// is asked for nothing before it has answered.
    pub(crate) fn carry(&mut self, id: JobId, reason: &Reason) {
        let Some(live) = self.live(id) else { return };
        if live.starting {
            self.dirty.insert(id, reason.clone());
            return;
        }
        let (wanted_cpus, wanted_frozen) = (self.cpus_of(live), live.out.is_some());
        let wanted_weight = (live.class, self.jobs[&id].request.priority);
        // A frozen job is weighed and bound when it is thawed; one that only thawed to die, not at all.
        let settled = live.key.is_none();
        let Some(live) = self.jobs.get_mut(&id).and_then(crate::job::Job::live_mut) else { return };
        let mut actions = Vec::new();
        if !settled {
            if live.told.weight != Some(wanted_weight) && live.may_try(Kind::Weigh) {
                live.told.weight = Some(wanted_weight);
                actions.push(Action::Weigh { class: wanted_weight.0, priority: wanted_weight.1 });
            }
            if live.told.cpus.as_ref() != Some(&wanted_cpus) && live.may_try(Kind::Bind) {
                live.told.cpus = Some(wanted_cpus.clone());
                actions.push(Action::Bind { cpus: wanted_cpus });
            }
        }
        let kind = if wanted_frozen { Kind::Freeze } else { Kind::Thaw };
        if live.told.frozen != Some(wanted_frozen) && live.may_try(kind) {
            live.told.frozen = Some(wanted_frozen);
            actions.push(if wanted_frozen { Action::Freeze } else { Action::Thaw });
        }
        if live.signal.is_some() && !wanted_frozen && live.may_try(Kind::Signal) {
            actions.extend(live.signal.take().map(|signal| Action::Signal { signal }));
        }
        let decide = |action| Decision { job: id, action, reason: reason.clone() };
        self.decisions.extend(actions.into_iter().map(decide));
    }

    /// An action failed. If something else was asked for since, that counts and this is forgotten.
    pub(crate) fn failed(&mut self, id: JobId, action: &Action, error: String) {
        let again = self.now.after(RETRY);
        let Some(live) = self.live_mut(id) else { return };
        if let Action::Start { .. } = action {
            if live.starting {
                self.start_failed(id, error);
            }
            return;
        }
        let told = &mut live.told;
        let kind = match action {
            Action::Bind { cpus } if told.cpus.as_ref() == Some(cpus) => {
                told.cpus = None;
                Kind::Bind
            }
            Action::Weigh { class, priority } if told.weight == Some((*class, *priority)) => {
                told.weight = None;
                Kind::Weigh
            }
            Action::Freeze if told.frozen == Some(true) => {
                told.frozen = None;
                Kind::Freeze
            }
            Action::Thaw if told.frozen == Some(false) => {
                told.frozen = None;
                Kind::Thaw
            }
            Action::Signal { signal } => {
                live.signal.get_or_insert(*signal);
                Kind::Signal
            }
            _ => return,
        };
        live.failed.insert(kind, Failure { again, error, tried: false });
        self.rearm(id);
    }
}

impl Live {
    /// Whether an action may be asked for: not while it rests after a failure.
    fn may_try(&mut self, kind: Kind) -> bool {
        let rests = self.failed.get(&kind).is_some_and(|failed| !failed.tried);
        if !rests {
            self.failed.remove(&kind);
        }
        !rests
    }
}
