//! An action failed: it is tried again, or something else follows.

use crate::api::{Action, JobId, Reason};
use crate::jobs::RETRY;
use crate::memory::ladder::{checkpoint, throttle};
use crate::queue::line;
use crate::rooms::Rooms;
use crate::schedule::{end, relieve};

/// An action failed. If something else was asked for since, that counts and this is forgotten.
pub(crate) fn failed(rooms: &mut Rooms, id: JobId, action: &Action, error: String) {
    let again = rooms.now.after(RETRY);
    let Some(live) = rooms.jobs.live(id) else { return };
    if let Action::Start { .. } = action {
        if live.phase.is_starting() {
            end::start_failed(rooms, id, error);
        }
        return;
    }
    match action {
        Action::Requeue => {
            if let Some(suspend) = rooms.jobs.cancel_requeue(id) {
                relieve::stays(rooms, id, suspend, Reason::ASKED);
            }
            return;
        }
        Action::Checkpoint => {
            return relieve::take(rooms, checkpoint::answered(&rooms.jobs, id, Some(error)));
        }
        Action::Near { .. } => return rooms.nodes.binding_failed(id, rooms.now),
        Action::Slow { allowance } => {
            return throttle::failed(&mut rooms.memory, &mut rooms.jobs, rooms.now, id, *allowance);
        }
        _ => {}
    }
    if rooms.jobs.attempt_failed(id, action, again, error) {
        line::rearm(&mut rooms.jobs, &rooms.queue, &rooms.settings, id);
    }
}
