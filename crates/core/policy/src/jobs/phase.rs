//! A job's life once it has started, as one enum: each phase has what only it needs. The changes here are the only ways from
//! one phase to another; one that a phase does not allow leaves it as it is, and says so.
//!
//! A job that has not started is [`crate::jobs::Stage::Waiting`]. Absent: what all phases have in common, which is
//! [`crate::jobs::Live`]'s, and when a phase changes.

use crate::api::{FrozenBy, Instant, JobId, State};

/// Where a job that has started is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Phase {
    /// It was told to start and has not answered.
    Starting {
        /// A user suspended it: it is frozen once it has started.
        suspend: bool,
    },
    /// It has a slot and runs.
    Running {
        /// It got a signal, and is not frozen before this.
        grace: Option<Instant>,
    },
    /// It was thawed without a slot, to receive a signal.
    Dying {
        /// If it goes on for so long, it is frozen again.
        until: Instant,
    },
    /// It is frozen.
    Suspended {
        /// What for.
        why: SuspendReason,
        /// A user suspended it: it does not return before it is resumed.
        by_user: bool,
    },
    /// It is on its way back into the queue, and nothing else is asked of it before it is there.
    Leaving {
        /// How far it is.
        how: Leave,
        /// Where it stays if it does not leave after all.
        from: Footing,
        /// A user suspended it: it is held once it waits, or frozen if it stays.
        hold: bool,
    },
}

/// How a job leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Leave {
    /// It writes a checkpoint, which is given up at this time.
    Writing { until: Instant },
    /// It is being ended.
    Ending {
        /// Its user asked for that, not the host: it need not rest.
        asked: bool,
    },
}

/// Where a job was when it began to leave, as in [`Phase`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Footing {
    Running { grace: Option<Instant> },
    Dying { until: Instant },
    Suspended { why: SuspendReason },
}

/// Why a job was frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum SuspendReason {
    /// A user suspended it. Once resumed, it waits for a slot.
    Suspended,
    /// A job of higher priority took its slot.
    Preempted { by: JobId },
    /// An exclusive job took every slot.
    Exclusive { by: JobId },
    /// Its slot was lent, and a job of those it belongs to took it back.
    Lent { by: JobId },
    /// There were fewer slots than jobs.
    SlotsShrank,
    /// A primary beside it waited for a core; until then it does not return, if that time is not over.
    Interferes { with: JobId, until: Option<Instant> },
    /// Memory ran short; the token holder goes on.
    Memory { token: JobId },
    /// It was cancelled while it was frozen, and went on regardless without a slot.
    Survived,
    /// It was found frozen after a restart.
    Found,
}

impl SuspendReason {
    /// Whether it was frozen for want of memory.
    pub(crate) fn is_memory(self) -> bool {
        matches!(self, Self::Memory { .. })
    }
}

/// What was due in a phase by the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Due {
    /// It may return from now on.
    pub(super) rested: bool,
    /// It was to die, and went on.
    pub(super) survived: bool,
}

/// What a phase is.
impl Phase {
    pub(crate) fn is_starting(self) -> bool {
        matches!(self, Self::Starting { .. })
    }

    /// Whether it is on its way back into the queue: it writes a checkpoint, or is being ended.
    pub(crate) fn is_leaving(self) -> bool {
        matches!(self, Self::Leaving { .. })
    }

    /// Whether it may be asked for anything: it is neither on its way in nor out.
    pub(crate) fn is_open(self) -> bool {
        !self.is_starting() && !self.is_leaving()
    }

    /// Whether it is being ended, and not only asked for a checkpoint.
    pub(crate) fn is_ending(self) -> bool {
        matches!(self, Self::Leaving { how: Leave::Ending { .. }, .. })
    }

    /// Whether it is being ended because its user asked for that.
    pub(crate) fn ends_as_asked(self) -> bool {
        matches!(self, Self::Leaving { how: Leave::Ending { asked: true }, .. })
    }

    /// Until when it writes a checkpoint, if it does.
    pub(crate) fn writes_until(self) -> Option<Instant> {
        match self {
            Self::Leaving { how: Leave::Writing { until }, .. } => Some(until),
            _ => None,
        }
    }

    /// Whether a user suspended it, also where it is not frozen yet.
    pub(crate) fn is_suspended_by_user(self) -> bool {
        match self {
            Self::Starting { suspend } => suspend,
            Self::Running { .. } | Self::Dying { .. } => false,
            Self::Suspended { by_user, .. } => by_user,
            Self::Leaving { hold, .. } => hold,
        }
    }

    /// Why it is frozen, or is again if it does not leave; `None`: it is wanted running.
    pub(crate) fn suspend_reason(self) -> Option<SuspendReason> {
        match self {
            Self::Suspended { why, .. } | Self::Leaving { from: Footing::Suspended { why }, .. } => Some(why),
            Self::Starting { .. } | Self::Running { .. } | Self::Dying { .. } | Self::Leaving { .. } => None,
        }
    }

    /// Whether it is thawed without a slot, to receive a signal.
    pub(crate) fn is_dying(self) -> bool {
        matches!(self, Self::Dying { .. } | Self::Leaving { from: Footing::Dying { .. }, .. })
    }

    /// Until when it may use a signal undisturbed.
    pub(crate) fn grace(self) -> Option<Instant> {
        match self {
            Self::Running { grace } | Self::Leaving { from: Footing::Running { grace }, .. } => grace,
            Self::Dying { until } | Self::Leaving { from: Footing::Dying { until }, .. } => Some(until),
            Self::Starting { .. } | Self::Suspended { .. } | Self::Leaving { .. } => None,
        }
    }

    /// Until when it stays frozen for a primary's sake, and for which one.
    pub(crate) fn rests(self) -> Option<(JobId, Instant)> {
        match self.suspend_reason() {
            Some(SuspendReason::Interferes { with, until }) => until.map(|until| (with, until)),
            _ => None,
        }
    }

    /// Whether the scheduler may freeze it.
    pub(crate) fn may_freeze(self) -> bool {
        self == Self::Running { grace: None }
    }

    /// What the views show of it.
    pub(crate) fn state(self) -> State {
        match self {
            Self::Starting { .. } => State::Starting,
            Self::Leaving { how: Leave::Writing { .. }, .. } => State::Running,
            Self::Suspended { by_user: true, .. } | Self::Leaving { hold: true, .. } => {
                State::Frozen { by: FrozenBy::User }
            }
            Self::Suspended { .. } | Self::Leaving { from: Footing::Suspended { .. }, .. } => {
                State::Frozen { by: FrozenBy::Policy }
            }
            Self::Running { .. } | Self::Dying { .. } | Self::Leaving { .. } => State::Running,
        }
    }
}

/// The ways from one phase to another.
impl Phase {
    /// It answered; says whether a user suspended it meanwhile. `None`: that was not awaited.
    pub(super) fn start(&mut self) -> Option<bool> {
        let Self::Starting { suspend } = *self else { return None };
        *self = Self::Running { grace: None };
        Some(suspend)
    }

    /// It has slots from now on.
    pub(super) fn occupy(&mut self) {
        match self {
            Self::Starting { .. } | Self::Running { .. } => {}
            Self::Dying { until } => *self = Self::Running { grace: Some(*until) },
            Self::Suspended { .. } => *self = Self::Running { grace: None },
            Self::Leaving { from, .. } => match *from {
                Footing::Running { .. } => {}
                Footing::Dying { until } => *from = Footing::Running { grace: Some(until) },
                Footing::Suspended { .. } => *from = Footing::Running { grace: None },
            },
        }
    }

    /// It is frozen; says whether it may be: one that starts or leaves is not.
    pub(super) fn freeze(&mut self, why: SuspendReason) -> bool {
        let may = self.is_open();
        if may {
            *self = Self::Suspended { why, by_user: why == SuspendReason::Suspended };
        }
        may
    }

    /// It stays frozen, for another reason; says whether it is.
    pub(super) fn set_reason(&mut self, other: SuspendReason) -> bool {
        match self {
            Self::Suspended { why, .. } | Self::Leaving { from: Footing::Suspended { why }, .. } => {
                *why = other;
                true
            }
            Self::Starting { .. } | Self::Running { .. } | Self::Dying { .. } | Self::Leaving { .. } => false,
        }
    }

    /// A user suspends it. `None`: that was so before; else whether it is to be frozen now.
    pub(super) fn suspend(&mut self) -> Option<bool> {
        let (flag, now) = match self {
            Self::Starting { suspend } => (suspend, false),
            Self::Leaving { hold, .. } => (hold, false),
            Self::Running { .. } | Self::Dying { .. } => return Some(true),
            Self::Suspended { by_user, .. } => return (!*by_user).then_some(true),
        };
        (!std::mem::replace(flag, true)).then_some(now)
    }

    /// A user resumes it; says whether it waits for a slot from now on.
    pub(super) fn resume(&mut self) -> bool {
        match self {
            Self::Starting { suspend } => *suspend = false,
            Self::Leaving { hold, .. } => *hold = false,
            Self::Suspended { by_user, .. } => return std::mem::take(by_user),
            Self::Running { .. } | Self::Dying { .. } => {}
        }
        false
    }

    /// It gets a signal, and has until then to use it. What it would write down is of no use any more. `None`: it gets
    /// it later; else whether it was frozen.
    pub(super) fn cancel(&mut self, until: Instant) -> Option<bool> {
        if self.writes_until().is_some() {
            self.stay();
        }
        let thawed = match self {
            Self::Starting { suspend: flag } | Self::Leaving { hold: flag, .. } => {
                *flag = false;
                return None;
            }
            // A user that signals again and again does not keep a job running without a slot.
            Self::Dying { .. } => return Some(false),
            Self::Running { .. } => false,
            Self::Suspended { .. } => true,
        };
        // A frozen job cannot die of a signal, so it is thawed even without a slot.
        *self = if thawed { Self::Dying { until } } else { Self::Running { grace: Some(until) } };
        Some(thawed)
    }

    /// It writes a checkpoint, to be ended then; says whether it does: one that starts or leaves does not.
    pub(super) fn write(&mut self, until: Instant) -> bool {
        self.leave(Leave::Writing { until })
    }

    /// Its checkpoint is written, and it is being ended; says whether that was awaited.
    pub(super) fn written(&mut self) -> bool {
        self.writes_until().is_some() && self.end(false)
    }

    /// It is being ended; says whether it is: one that starts or is being ended is not.
    pub(super) fn end(&mut self, asked: bool) -> bool {
        if let Self::Leaving { how: how @ Leave::Writing { .. }, .. } = self {
            *how = Leave::Ending { asked };
            return true;
        }
        self.leave(Leave::Ending { asked })
    }

    fn leave(&mut self, how: Leave) -> bool {
        let (from, hold) = match *self {
            Self::Running { grace } => (Footing::Running { grace }, false),
            Self::Dying { until } => (Footing::Dying { until }, false),
            Self::Suspended { why, by_user } => (Footing::Suspended { why }, by_user),
            Self::Starting { .. } | Self::Leaving { .. } => return false,
        };
        *self = Self::Leaving { how, from, hold };
        true
    }

    /// It does not leave after all. `None`: it did not; else whether a user suspended it meanwhile, while it is not frozen.
    pub(super) fn stay(&mut self) -> Option<bool> {
        let Self::Leaving { from, hold, .. } = *self else { return None };
        *self = match from {
            Footing::Running { grace } => Self::Running { grace },
            Footing::Dying { until } => Self::Dying { until },
            Footing::Suspended { why } => Self::Suspended { why, by_user: hold },
        };
        Some(hold && self.suspend_reason().is_none())
    }

    /// It need not rest any more for a primary's sake; says whether it did.
    pub(super) fn end_rest(&mut self) -> bool {
        match self {
            Self::Suspended { why: SuspendReason::Interferes { until, .. }, .. }
            | Self::Leaving {
                from: Footing::Suspended { why: SuspendReason::Interferes { until, .. } },
                ..
            } => until.take().is_some(),
            _ => false,
        }
    }

    /// Takes in the time.
    pub(super) fn fire(&mut self, now: Instant) -> Due {
        let rested = self.rests().is_some_and(|(_, until)| until <= now) && self.end_rest();
        let survived = self.is_dying() && self.grace().is_some_and(|until| until <= now);
        match self {
            Self::Running { grace } | Self::Leaving { from: Footing::Running { grace }, .. } => {
                grace.take_if(|until| *until <= now);
            }
            Self::Dying { .. } if survived => {
                *self = Self::Suspended { why: SuspendReason::Survived, by_user: false };
            }
            Self::Leaving { from, .. } if survived => {
                *from = Footing::Suspended { why: SuspendReason::Survived };
            }
            Self::Starting { .. } | Self::Dying { .. } | Self::Suspended { .. } | Self::Leaving { .. } => {}
        }
        Due { rested, survived }
    }
}

#[cfg(test)]
mod tests;
