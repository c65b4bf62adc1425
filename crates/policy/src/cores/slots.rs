//! How many slots there are, how many are in use, and how many a job takes.

use crate::api::{Class, Reason, SlotReason};
use crate::cores::{others, sets};
use crate::jobs::{Demand, Job};
use crate::rooms::Rooms;

/// Slots, of which those beyond the cores may be nobody's for a while.
fn within_interference_cap(rooms: &Rooms, slots: usize) -> usize {
    rooms.cores.interference.cap.map_or(slots, |cap| slots.min(cap.max(rooms.cores.grid.len())))
}

/// The slots that a job which has started takes on the host as it is.
pub(crate) fn clipped(rooms: &Rooms, job: &Job) -> usize {
    if let Some(at) = sets::reservation_of(rooms, job) {
        return sets::wanted_in(rooms, job, at);
    }
    job.slots().min(total(rooms)).min(rooms.cores.grid.len()).max(1)
}

/// The slots in use and all slots. An exclusive job uses all. More may be in use than there are: when
/// slots became fewer and the jobs on them may not be frozen, and while scheduling is off.
pub(crate) fn in_use(rooms: &Rooms) -> (usize, usize) {
    let total = self::total(rooms);
    (if rooms.cores.exclusive.is_some() { total.max(rooms.cores.used) } else { rooms.cores.used }, total)
}

/// All slots: without backfill only those that are cores.
pub(crate) fn total(rooms: &Rooms) -> usize {
    let slots = rooms.settings.slots(rooms.cores.grid.len());
    if rooms.settings.backfill {
        within_interference_cap(rooms, within_headroom(rooms, slots))
    } else {
        slots.min(rooms.cores.grid.len())
    }
}

/// The backfillers that what is left has room for, of those that the slots allow.
pub(crate) fn backfillers_room(rooms: &Rooms) -> usize {
    let cores = rooms.cores.grid.len();
    let kept = u64::from(rooms.settings.protect_milli) * cores as u64;
    let left = rooms.cores.idleness.left_milli().unwrap_or(0).saturating_sub(kept);
    let most = rooms.settings.slots(cores).saturating_sub(cores);
    usize::try_from(left.saturating_add(500) / 1000).unwrap_or(usize::MAX).min(most)
}

/// Slots where primaries are protected.
fn within_headroom(rooms: &Rooms, slots: usize) -> usize {
    if rooms.settings.protect_milli == 0 {
        return slots;
    }
    slots.min(rooms.cores.grid.len() + rooms.cores.idleness.allowed)
}

/// Why there are not more slots than these.
pub(crate) fn why_fewer(rooms: &Rooms, slots: usize) -> Reason {
    match headroom(rooms) {
        Some(_) => Reason::Slot(SlotReason::Protected { allowed: rooms.cores.idleness.allowed }),
        None => Reason::Slot(SlotReason::SlotsShrank { slots }),
    }
}

/// How many backfill jobs there may be beside primaries, and the figures behind it.
pub(crate) struct Headroom {
    pub(crate) allowed: usize,
    /// With all cores idle.
    pub(crate) most: usize,
    /// The idle cores, in thousandths; `None`: not known yet.
    pub(crate) left_milli: Option<u64>,
    /// Those of them that are kept free, in thousandths.
    pub(crate) kept_milli: u64,
}

/// What keeps backfill jobs from running; `None`: nothing does.
pub(crate) fn headroom(rooms: &Rooms) -> Option<Headroom> {
    let most = rooms.settings.slots(rooms.cores.grid.len()).saturating_sub(rooms.cores.grid.len());
    if rooms.settings.protect_milli == 0 || !rooms.settings.backfill || rooms.cores.idleness.allowed >= most {
        return None;
    }
    Some(Headroom {
        allowed: rooms.cores.idleness.allowed,
        most,
        left_milli: rooms.cores.idleness.left_milli(),
        kept_milli: u64::from(rooms.settings.protect_milli) * rooms.cores.grid.len() as u64,
    })
}

/// Whether such a job could ever start on this machine with these settings.
pub(crate) fn is_possible(rooms: &Rooms, shape: Demand) -> bool {
    let (cores, total) = (shape.cores as usize, self::total(rooms));
    cores <= rooms.cores.grid.len() && total > 0 && (shape.class == Some(Class::Exclusive) || cores <= total)
}

pub(crate) fn free_slots(rooms: &Rooms) -> usize {
    let total = self::total(rooms);
    total.saturating_sub(rooms.cores.used).saturating_sub(others::withheld(rooms, total))
}
