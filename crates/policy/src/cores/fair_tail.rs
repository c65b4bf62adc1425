//! The last jobs of a list share the cores evenly.
//!
//! A user who submits a list waits for all of it. Once none of it waits any more, a backfiller that yields to a primary
//! only ends later, beside idle time that nothing fills: with jobs that wait for a part of their time, cores are busier to
//! the end when all that are left run alike. So backfillers get a primary's share then, wherever no other job would pay for
//! it: all primaries are of the same list and priority, and none was promised its cores by name. A backfiller stays one,
//! and is promoted as ever.

use crate::api::{CoreReason, JobId, Reason};
use crate::cores::binding;
use crate::cores::evenness::{ListAt, list_of};
use crate::rooms::Rooms;

/// Looks whether all that run are the last of one list.
pub(crate) fn update(rooms: &mut Rooms) {
    let alone =
        rooms.settings.schedule && rooms.settings.protect_milli == 0 && rooms.cores.exclusive.is_none();
    let touched = rooms.cores.evenness.primaries.is_none();
    let now = if alone && rooms.queue.host().is_empty() { list_of_primaries(rooms) } else { None };
    if std::mem::replace(&mut rooms.cores.evenness.now, now) == now && !(touched && now.is_some()) {
        return;
    }
    let backfillers: Vec<JobId> = rooms.cores.running.backfillers_newest_first().collect();
    for id in backfillers {
        let job = &rooms.jobs[&id];
        let even = binding::shares_evenly(rooms, job);
        let told = job.live().and_then(|live| live.applied.weight).is_some_and(|(.., told)| told);
        // What it is marked for already says more.
        if even != told && !rooms.pending.is_marked(id) {
            rooms.pending.request_update(
                id,
                if even {
                    Reason::Core(CoreReason::LastOfList)
                } else {
                    Reason::Core(CoreReason::NotLastOfList)
                },
            );
        }
    }
}

/// The list of which all primaries are.
fn list_of_primaries(rooms: &mut Rooms) -> Option<ListAt> {
    if let Some(known) = rooms.cores.evenness.primaries {
        return known;
    }
    let mut lists = rooms.cores.running.primaries_lowest_first().map(|(_, id)| list_of(&rooms.jobs[&id]));
    let first = lists.next().flatten();
    let found = first.filter(|_| lists.all(|list| list == first));
    rooms.cores.evenness.primaries = Some(found);
    found
}
