//! How many slots there are, how many are in use, and how many a job takes.

use crate::api::{Class, Reason, Settings, SlotReason};
use crate::cores::host::Host;
use crate::cores::{others, sets};
use crate::jobs::{Demand, Job};

/// Slots, of which those beyond the cores may be nobody's for a while.
fn within_interference_cap(host: &Host, slots: usize) -> usize {
    host.interference.cap.map_or(slots, |cap| slots.min(cap.max(host.grid.len())))
}

/// The slots that a started job takes on the host as it is; none while the job lends its slots.
pub(crate) fn clipped(host: &Host, settings: &Settings, job: &Job) -> usize {
    if host.lent.contains(&job.id()) {
        return 0;
    }
    if let Some(at) = sets::reservation_of(host, job) {
        return sets::wanted_in(host, job, at);
    }
    job.slots().min(total(host, settings)).min(host.grid.len()).max(1)
}

/// The slots in use and all slots. An exclusive job uses all. More may be in use than there are: when
/// slots became fewer and the jobs on them may not be frozen, and while scheduling is off.
pub(crate) fn in_use(host: &Host, settings: &Settings) -> (usize, usize) {
    let total = self::total(host, settings);
    (if host.exclusive.is_some() { total.max(host.used) } else { host.used }, total)
}

/// All slots: without backfill only those that are cores.
pub(crate) fn total(host: &Host, settings: &Settings) -> usize {
    let slots = settings.slots(host.grid.len());
    if settings.backfill {
        within_interference_cap(host, within_headroom(host, settings, slots))
    } else {
        slots.min(host.grid.len())
    }
}

/// The backfillers that what is left has room for, of those that the slots allow.
pub(crate) fn backfillers_room(host: &Host, settings: &Settings) -> usize {
    let cores = host.grid.len();
    let kept = u64::from(settings.protect_milli) * cores as u64;
    let left = host.idleness.left_milli().unwrap_or(0).saturating_sub(kept);
    let most = settings.slots(cores).saturating_sub(cores);
    usize::try_from(left.saturating_add(500) / 1000).unwrap_or(usize::MAX).min(most)
}

/// Slots where primaries are protected.
fn within_headroom(host: &Host, settings: &Settings, slots: usize) -> usize {
    if settings.protect_milli == 0 {
        return slots;
    }
    slots.min(host.grid.len() + host.idleness.allowed)
}

/// Why there are not more slots than these.
pub(crate) fn why_fewer(host: &Host, settings: &Settings, slots: usize) -> Reason {
    match headroom(host, settings) {
        Some(_) => Reason::Slot(SlotReason::Protected { allowed: host.idleness.allowed }),
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
pub(crate) fn headroom(host: &Host, settings: &Settings) -> Option<Headroom> {
    let most = settings.slots(host.grid.len()).saturating_sub(host.grid.len());
    if settings.protect_milli == 0 || !settings.backfill || host.idleness.allowed >= most {
        return None;
    }
    Some(Headroom {
        allowed: host.idleness.allowed,
        most,
        left_milli: host.idleness.left_milli(),
        kept_milli: u64::from(settings.protect_milli) * host.grid.len() as u64,
    })
}

/// Whether such a job could ever start on this machine with these settings.
pub(crate) fn is_possible(host: &Host, settings: &Settings, shape: Demand) -> bool {
    let (cores, total) = (shape.cores as usize, self::total(host, settings));
    cores <= host.grid.len() && total > 0 && (shape.class == Some(Class::Exclusive) || cores <= total)
}

pub(crate) fn free_slots(host: &Host, settings: &Settings) -> usize {
    let total = self::total(host, settings);
    total.saturating_sub(host.used).saturating_sub(others::withheld(host, settings, total))
}
