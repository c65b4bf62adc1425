//! From what is wanted of a job to the actions that bring it about, and what to do when one fails.
//!
//! Nothing here decides what is wanted. An action is asked for once; it counts as done unless its failure is
//! reported, and then it is asked for again after [`RETRY`], as long as it is still wanted.

use std::time::Duration;

use pinfold_topo::CpuSet;

use crate::job::{Failure, Job, Kind, Live, Told};
use crate::policy::Policy;
use crate::{Action, Class, Decision, JobId, Reason};

/// How long a failed action rests before it is tried again.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

impl Policy {
    /// The PUs a job is wanted on; empty: anywhere.
    pub(crate) fn cpus_of(&self, job: &Job) -> CpuSet {
        let Some(live) = job.live() else { return CpuSet::new() };
        if let Some(at) = live.aside {
            return self.cpus_in(at, live);
        }
        let pinned = self.settings.affinity && self.settings.schedule;
        if pinned && self.moves_freely(job) {
            self.cores.around(&live.cores)
        } else if pinned {
            self.cores.cpus(&live.cores)
        } else if self.asides.is_empty() {
            CpuSet::new()
        } else {
            // Anywhere but on cores that are set aside.
            self.cores.iter().flat_map(|core| core.cpus.iter()).collect()
        }
    }

    /// Whether a job may go to any core around the one where it was put. One of several cores is bound to as many: what
    /// it starts there counts them.
    pub(crate) fn moves_freely(&self, job: &Job) -> bool {
        let backfill = job.live().is_some_and(|live| live.class == Class::Backfill);
        backfill && job.request.cores == 1 && job.request.wish.is_none()
    }

    /// Notes that something else may be wanted of a job than it was told; the last reason counts.
    pub(crate) fn mark(&mut self, id: JobId, reason: Reason) {
        self.unmark(id);
        self.marked.push((id, reason));
    }

    /// The same for what is due by the time. That something is tried again is no reason where there is another one.
    pub(crate) fn mark_due(&mut self, id: JobId, reason: Reason) {
        let tried_again = matches!(reason, Reason::Retry { .. });
        if !(tried_again && self.marked.iter().any(|&(job, _)| job == id)) {
            self.mark(id, reason);
        }
    }

    pub(crate) fn unmark(&mut self, id: JobId) {
        self.marked.retain(|&(job, _)| job != id);
    }

    /// Asks for all that is wanted now. Only at the end of a step, so that what was changed there and back
    /// within the step is not asked for at all. First of all those who give way, the starts last.
    pub(crate) fn carry_out(&mut self) {
        let mut marked = std::mem::take(&mut self.marked);
        marked.sort_by_key(|&(job, _)| match self.live(job) {
            Some(live) if live.out.is_some() => 0,
            Some(live) if live.told.frozen != Some(false) => 3,
            Some(live) if live.class == Class::Backfill => 1,
            _ => 2,
        });
        let mut starts = std::mem::take(&mut self.starts);
        // A job that is starting or being ended is asked for nothing before it has answered.
        let (later, now): (Vec<_>, Vec<_>) = marked
            .into_iter()
            .partition(|&(job, _)| self.live(job).is_some_and(|live| live.starting || live.requeuing));
        self.marked = later;
        now.iter().for_each(|(job, reason)| self.carry(*job, reason));
        for (job, reason) in starts.drain(..) {
            self.start(job, reason);
        }
        self.starts = starts;
    }

    fn start(&mut self, id: JobId, reason: Reason) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(live) = job.live() else { return };
        let (class, cpus, priority) = (live.class, self.cpus_of(job), job.request.priority);
        if let Some(live) = self.live_mut(id) {
            live.told = Told {
                weight: Some((class, priority, false)),
                cpus: Some(cpus.clone()),
                frozen: Some(false),
            };
        }
        self.decisions.push(Decision { job: id, action: Action::Start { class, cpus, priority }, reason });
    }

    /// Asks for the difference between what is wanted of a job and what it was told.
    fn carry(&mut self, id: JobId, reason: &Reason) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(live) = job.live() else { return };
        let (wanted_cpus, wanted_frozen) = (self.cpus_of(job), live.out.is_some());
        let wanted_weight = (live.class, job.request.priority, self.shares_evenly(job));
        // A frozen job is weighed and bound when it is thawed; one that only thawed to die, not at all.
        let settled = live.key.is_none();
        let Some(live) = self.jobs.get_mut(&id).and_then(|job| job.live_mut()) else { return };
        let mut actions = Vec::new();
        if !settled {
            if live.told.weight != Some(wanted_weight) && live.may_try(Kind::Weigh) {
                live.told.weight = Some(wanted_weight);
                let (class, priority, even) = wanted_weight;
                actions.push(Action::Weigh { class, priority, even });
            }
            if live.told.cpus.as_ref() != Some(&wanted_cpus) && live.may_try(Kind::Bind) {
                live.told.cpus = Some(wanted_cpus.clone());
                actions.push(Action::Bind { cpus: wanted_cpus });
            }
        }
        let (kind, opposite) =
            if wanted_frozen { (Kind::Freeze, Kind::Thaw) } else { (Kind::Thaw, Kind::Freeze) };
        if live.told.frozen != Some(wanted_frozen) && live.may_try(kind) {
            // That the opposite failed says nothing about the next time.
            live.failed.remove(&opposite);
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
        match action {
            Action::Requeue => return self.goes_on(id, Reason::Asked),
            Action::Checkpoint => return self.checkpointed(id, Some(error)),
            Action::Near { .. } => return self.not_near(id),
            Action::Slow { allowance } => return self.not_steered(id, *allowance),
            _ => {}
        }
        // Asked for again before the first answer came, and failed again: it rests from the later one.
        let rests = |kind| live.failed.get(&kind).is_some_and(|failed| !failed.tried);
        let told = &mut live.told;
        let kind = match action {
            Action::Bind { .. } if told.cpus.is_none() && rests(Kind::Bind) => Kind::Bind,
            Action::Weigh { .. } if told.weight.is_none() && rests(Kind::Weigh) => Kind::Weigh,
            Action::Freeze if told.frozen.is_none() && rests(Kind::Freeze) => Kind::Freeze,
            Action::Thaw if told.frozen.is_none() && rests(Kind::Thaw) => Kind::Thaw,
            Action::Bind { cpus } if told.cpus.as_ref() == Some(cpus) => {
                told.cpus = None;
                Kind::Bind
            }
            Action::Weigh { class, priority, even } if told.weight == Some((*class, *priority, *even)) => {
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
