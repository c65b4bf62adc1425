//! Changes of a job that has started: its start and its slots, what a user asks of it, and what was asked of the kernel.

use std::time::Duration;

use pinfold_place::pack::Shape;
use pinfold_topo::CpuSet;

use crate::api::{Action, Class, Instant, JobId, Lay};
use crate::jobs::footprint::Footprint;
use crate::jobs::job::{Applied, Attempt, Failure, Rebalance};
use crate::jobs::phase::SuspendReason;
use crate::jobs::places::Key;
use crate::jobs::table::JobTable;

/// The slots and cores of a job.
#[derive(Debug)]
pub(crate) struct Slots {
    pub(crate) key: Key,
    pub(crate) cores: Vec<usize>,
    pub(crate) count: usize,
    /// The set of cores that they are of.
    pub(crate) aside: Option<usize>,
}

/// SIGKILL, signal(7): a job cannot go on after it.
const SIGKILL: i32 = 9;

/// The time that a job has after a signal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grace {
    /// How long it lasts.
    pub(crate) lasts: Duration,
    /// How long after the signal there is no other.
    pub(crate) calm: Duration,
}

/// What is wanted of a job that has started.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// As in [`Applied`].
    pub(crate) weight: (Class, u8, bool),
    pub(crate) cpus: CpuSet,
    pub(crate) frozen: bool,
}

impl JobTable {
    /// It answered that it has started; says whether a user suspended it meanwhile. `None`: that was not awaited.
    pub(crate) fn started(&mut self, id: JobId) -> Option<bool> {
        self.live_mut(id)?.phase.start()
    }

    /// It holds nothing: its start failed.
    pub(crate) fn forget_memory(&mut self, id: JobId) {
        if let Some(job) = self.get_mut(&id) {
            job.held = Footprint::default();
        }
    }

    /// It was ended for others, and waits from now on. What it came to hold is what it is expected to need.
    pub(crate) fn begin_anew(&mut self, id: JobId, now: Instant) {
        let Some(job) = self.get_mut(&id) else { return };
        job.held.begin_anew();
        job.request.memory = job.request.memory.max(Some(job.held.peak));
        (job.since, job.passed, job.aged) = (now, 0, false);
        self.wait_changed(id);
    }

    /// Its client is gone: that counts only while its run can still come to nothing.
    pub(crate) fn client_gone(&mut self, id: JobId) {
        if let Some(live) = self.live_mut(id) {
            live.withdrawn = !live.phase.is_open();
        }
    }

    /// A user suspends it; `None`: that was so before, else whether it is to be frozen now.
    pub(crate) fn suspend(&mut self, id: JobId) -> Option<bool> {
        self.live_mut(id)?.phase.suspend()
    }

    /// A user resumes it; says whether it waits for a slot from now on.
    pub(crate) fn resume(&mut self, id: JobId, now: Instant) -> bool {
        let waits = self.live_mut(id).is_some_and(|live| live.phase.resume());
        if waits {
            self.wait_from(id, now);
        }
        waits
    }

    /// It is to get a signal, and time to use it, for which a frozen one is thawed. Within `calm` of the last time there is
    /// none, but for SIGKILL: it gets the signal as it is, a frozen one once it runs. `None`: it gets it once it has
    /// started, is struck off once it waits again, or is none that has started; else whether it was frozen and is thawed.
    pub(crate) fn cancel(&mut self, id: JobId, signal: i32, now: Instant, grace: Grace) -> Option<bool> {
        let live = self.live_mut(id)?;
        live.signal = Some(signal);
        let has_had = live.calm_until.is_some_and(|until| now < until);
        if has_had && signal != SIGKILL && live.phase.is_open() {
            return Some(false);
        }
        let thawed = live.phase.cancel(now.after(grace.lasts))?;
        live.calm_until = Some(now.after(grace.calm));
        Some(thawed)
    }

    /// It has these slots.
    pub(crate) fn occupy(&mut self, id: JobId, slots: Slots) {
        let Some(live) = self.live_mut(id) else { return };
        live.phase.occupy();
        (live.class, live.key) = (slots.key.class, Some(slots.key));
        (live.cores, live.slots, live.aside) = (slots.cores, slots.count, slots.aside);
    }

    /// It has no slots any more; gives those that it had.
    pub(crate) fn release(&mut self, id: JobId) -> Option<Slots> {
        let live = self.live_mut(id)?;
        let key = live.key.take()?;
        live.rebalance = Rebalance::default();
        live.lay = None;
        let (cores, count) = (std::mem::take(&mut live.cores), std::mem::take(&mut live.slots));
        Some(Slots { key, cores, count, aside: live.aside.take() })
    }

    /// The cores that it had are no more.
    pub(crate) fn take_cores(&mut self, id: JobId) -> Vec<usize> {
        self.live_mut(id).map(|live| std::mem::take(&mut live.cores)).unwrap_or_default()
    }

    /// It holds so many of the host's slots now; gives how many it held. `None`: it has none of the host's.
    pub(crate) fn set_slots(&mut self, id: JobId, slots: usize) -> Option<usize> {
        let live = self.live_mut(id).filter(|live| live.key.is_some() && live.aside.is_none())?;
        Some(std::mem::replace(&mut live.slots, slots))
    }

    /// It is to be frozen, and waits for its return from now on.
    pub(crate) fn freeze(&mut self, id: JobId, why: SuspendReason, now: Instant) {
        let Some(job) = self.get_mut(&id) else { return };
        if job.live_mut().is_some_and(|live| live.phase.freeze(why)) {
            (job.since, job.passed) = (now, 0);
            job.aged &= why != SuspendReason::Suspended;
        }
    }

    /// It stays frozen, for another reason.
    pub(crate) fn set_suspend_reason(&mut self, id: JobId, why: SuspendReason) {
        if let Some(live) = self.live_mut(id) {
            live.phase.set_reason(why);
        }
    }

    /// It is not held back any more for a primary's sake.
    pub(crate) fn end_rest(&mut self, id: JobId) {
        if let Some(live) = self.live_mut(id) {
            live.phase.end_rest();
        }
    }

    /// It made room for a wider job.
    pub(crate) fn made_room(&mut self, id: JobId, now: Instant) {
        if let Some(live) = self.live_mut(id) {
            live.repacked = (live.repacked.0 + 1, Some(now));
        }
    }

    /// How its cores are to lie.
    pub(crate) fn set_shape(&mut self, id: JobId, shape: Shape) {
        if let Some(job) = self.get_mut(&id) {
            job.lies = Some(shape);
        }
    }

    /// How its cores lie since its start.
    pub(crate) fn set_lay(&mut self, id: JobId, lay: Lay) {
        if let Some(live) = self.live_mut(id) {
            live.lay = Some(lay);
        }
    }

    /// No core is idle enough to move it there.
    pub(crate) fn no_idler_core(&mut self, id: JobId) {
        if let Some(live) = self.live_mut(id) {
            live.rebalance.gap_since = None;
        }
    }

    /// Another core is idle enough to move it there; gives since when.
    pub(crate) fn idler_core(&mut self, id: JobId, now: Instant) -> Instant {
        self.live_mut(id).map_or(now, |live| *live.rebalance.gap_since.get_or_insert(now))
    }

    /// It was moved to an idler core.
    pub(crate) fn moved(&mut self, id: JobId, rebalance: Rebalance) {
        if let Some(live) = self.live_mut(id) {
            live.rebalance = rebalance;
        }
    }

    /// What it was asked for when it was told to start.
    pub(crate) fn set_applied(&mut self, id: JobId, applied: Applied) {
        if let Some(live) = self.live_mut(id) {
            live.applied = applied;
        }
    }

    /// Notes as applied what is wanted and may be asked for now; gives the actions that bring it about.
    pub(crate) fn apply(&mut self, id: JobId, wanted: Wanted) -> Vec<Action> {
        let mut actions = Vec::new();
        let Some(live) = self.live_mut(id) else { return actions };
        // A frozen job is weighed and bound when it is thawed; one that only thawed to die, not at all.
        if live.key.is_some() {
            if live.applied.weight != Some(wanted.weight) && live.may_try(Attempt::Weigh) {
                live.applied.weight = Some(wanted.weight);
                let (class, priority, even) = wanted.weight;
                actions.push(Action::Weigh { class, priority, even });
            }
            if live.applied.cpus.as_ref() != Some(&wanted.cpus) && live.may_try(Attempt::Bind) {
                live.applied.cpus = Some(wanted.cpus.clone());
                actions.push(Action::Bind { cpus: wanted.cpus });
            }
        }
        let (kind, opposite) =
            if wanted.frozen { (Attempt::Freeze, Attempt::Thaw) } else { (Attempt::Thaw, Attempt::Freeze) };
        if live.applied.frozen != Some(wanted.frozen) && live.may_try(kind) {
            // That the opposite failed says nothing about the next time.
            live.failed.remove(&opposite);
            live.applied.frozen = Some(wanted.frozen);
            actions.push(if wanted.frozen { Action::Freeze } else { Action::Thaw });
        }
        if live.signal.is_some() && !wanted.frozen && live.may_try(Attempt::Signal) {
            actions.extend(live.signal.take().map(|signal| Action::Signal { signal }));
        }
        actions
    }

    /// An action failed, and is tried again at that time; says whether it was still wanted.
    pub(crate) fn attempt_failed(
        &mut self,
        id: JobId,
        action: &Action,
        again: Instant,
        error: String,
    ) -> bool {
        let Some(live) = self.live_mut(id) else { return false };
        // Asked for again before the first answer came, and failed again: it rests from the later one.
        let rests = |kind| live.failed.get(&kind).is_some_and(|failed| !failed.tried);
        let told = &mut live.applied;
        let kind = match action {
            Action::Bind { .. } if told.cpus.is_none() && rests(Attempt::Bind) => Attempt::Bind,
            Action::Weigh { .. } if told.weight.is_none() && rests(Attempt::Weigh) => Attempt::Weigh,
            Action::Freeze if told.frozen.is_none() && rests(Attempt::Freeze) => Attempt::Freeze,
            Action::Thaw if told.frozen.is_none() && rests(Attempt::Thaw) => Attempt::Thaw,
            Action::Bind { cpus } if told.cpus.as_ref() == Some(cpus) => {
                told.cpus = None;
                Attempt::Bind
            }
            Action::Weigh { class, priority, even } if told.weight == Some((*class, *priority, *even)) => {
                told.weight = None;
                Attempt::Weigh
            }
            Action::Freeze if told.frozen == Some(true) => {
                told.frozen = None;
                Attempt::Freeze
            }
            Action::Thaw if told.frozen == Some(false) => {
                told.frozen = None;
                Attempt::Thaw
            }
            Action::Signal { signal } => {
                live.signal.get_or_insert(*signal);
                Attempt::Signal
            }
            _ => return false,
        };
        live.failed.insert(kind, Failure { again, error, tried: false });
        true
    }
}
