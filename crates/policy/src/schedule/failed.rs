//! An action failed: it is tried again, or something else follows.

use crate::api::{Action, JobId, Reason};
use crate::jobs::{Attempt, Failure, RETRY};
use crate::memory::numa::bind;
use crate::memory::{checkpoint, throttle};
use crate::queue::line;
use crate::rooms::Rooms;
use crate::schedule::end;

/// An action failed. If something else was asked for since, that counts and this is forgotten.
pub(crate) fn failed(rooms: &mut Rooms, id: JobId, action: &Action, error: String) {
    let again = rooms.now.after(RETRY);
    let Some(live) = rooms.jobs.live_mut(id) else { return };
    if let Action::Start { .. } = action {
        if live.starting {
            end::start_failed(rooms, id, error);
        }
        return;
    }
    match action {
        Action::Requeue => return checkpoint::cancel_requeue(rooms, id, Reason::Asked),
        Action::Checkpoint => return checkpoint::checkpointed(rooms, id, Some(error)),
        Action::Near { .. } => return bind::binding_failed(rooms, id),
        Action::Slow { allowance } => return throttle::throttle_failed(rooms, id, *allowance),
        _ => {}
    }
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
        _ => return,
    };
    live.failed.insert(kind, Failure { again, error, tried: false });
    line::rearm(rooms, id);
}
