//! Primaries that wait for a core while backfillers run beside them (`cpu.guard`): the youngest of those is
//! suspended for a while, in which no other backfiller takes its place. `waits` says how much is too much.
//!
//! Absent: what a shared cache or memory bus costs a primary that has its core, which shows in no such reading.

use std::time::Duration;

use pinfold_backoff::Backoff;

use crate::api::{Class, JobId, Reason, Sample, SlotReason};
use crate::cores::waits::{Interference, Watched};
use crate::cores::{assign, binding, resize};
use crate::jobs::SuspendReason;
use crate::queue::line;
use crate::rooms::Rooms;

/// The longest time that a backfiller stands still,
const REST_MAX: Duration = Duration::from_secs(600);
/// and all of them; it doubles with each time that comes sooner than the longest after the last.
const REST: Backoff = Backoff::new(Duration::from_secs(60), REST_MAX);

/// Whether any of these cores is among those.
fn beside(cores: &[usize], around: &[usize]) -> bool {
    cores.iter().any(|core| around.contains(core))
}

/// New settings: where nobody is held back, nothing of that is left.
pub(crate) fn reset(rooms: &mut Rooms) {
    if rooms.settings.hold_back {
        return;
    }
    rooms.cores.interference = Interference::default();
    let rests = |id: &JobId| rooms.jobs.live(*id).is_some_and(|live| live.phase.rests().is_some());
    let resting: Vec<JobId> = rooms.jobs.live_ids().iter().copied().filter(rests).collect();
    for id in resting {
        rooms.jobs.end_rest(id);
        line::enqueue(rooms, id);
    }
}

/// Takes in how much each primary waited.
pub(crate) fn watch_interference(rooms: &mut Rooms, sample: &Sample) {
    if !rooms.settings.hold_back {
        return;
    }
    let now = rooms.now;
    if rooms.cores.interference.until.is_some_and(|until| until <= now)
        && rooms.cores.interference.cap.take().is_some()
    {
        resize::clip(rooms);
    }
    let backfillers: Vec<JobId> = rooms.cores.running.backfillers_newest_first().collect();
    let mut watched = std::mem::take(&mut rooms.cores.interference.watched);
    watched.retain(|job, _| sample.stalled_milli.iter().any(|(heard, _)| heard == job));
    let mut too_much = None;
    for &(job, milli) in &sample.stalled_milli {
        let Some(around) = around_primary(rooms, job) else {
            watched.remove(&job);
            continue;
        };
        let is_beside = |id: &JobId| rooms.jobs.live(*id).is_some_and(|live| beside(&live.cores, &around));
        let shares_with = |id: &JobId| {
            let on = |id: JobId| rooms.jobs.live(id).map_or(&[][..], |live| &live.cores);
            beside(on(*id), on(job)) && binding::shares_evenly(rooms, &rooms.jobs[id])
        };
        if backfillers.iter().any(shares_with) {
            // It waits for the like of it, as it is to.
            watched.remove(&job);
            continue;
        }
        let one = watched.entry(job).or_insert_with(|| Watched::new(now));
        let found = one.read(now, u64::from(milli), backfillers.iter().any(is_beside));
        if let (Some(waited), None) = (found, &too_much) {
            let victim =
                backfillers.iter().copied().find(|id| is_beside(id) && may_suspend_interferer(rooms, *id));
            too_much = victim.map(|victim| (job, victim, waited, one.usual.mean()));
        }
    }
    rooms.cores.interference.watched = watched;
    if let Some((with, victim, waited, usual)) = too_much {
        suspend_interferer(rooms, with, victim, waited, usual);
    }
}

/// The cores behind the same caches as a primary's, if it is one and runs.
fn around_primary(rooms: &Rooms, job: JobId) -> Option<Vec<usize>> {
    let live = rooms.jobs.live(job).filter(|live| live.key.is_some() && live.aside.is_none())?;
    let is_one = live.class == Class::Primary && !live.phase.is_starting() && !live.cores.is_empty();
    is_one.then(|| live.cores.iter().flat_map(|&core| rooms.cores.grid.neighbours(core)).collect())
}

fn may_suspend_interferer(rooms: &Rooms, job: JobId) -> bool {
    rooms.jobs.may_freeze(job) && !rooms.jobs[&job].aged && rooms.cores.running.foremost() != Some(job)
}

/// Freezes a backfiller for a while, in which its slots are nobody's.
fn suspend_interferer(rooms: &mut Rooms, with: JobId, victim: JobId, waited: u64, usual: u64) {
    let now = rooms.now;
    let held = &mut rooms.cores.interference;
    let again = held.until.is_some_and(|until| now.since(until) < REST_MAX);
    held.again = if again { held.again.saturating_add(1) } else { 0 };
    let until = now.after(REST.after(held.again));
    held.until = Some(until);
    // It is seen first what that brings.
    held.watched.values_mut().for_each(|one| one.hits.clear());
    let milli = |milli: u64| u16::try_from(milli).unwrap_or(u16::MAX);
    let reason =
        Reason::Slot(SlotReason::Interferes { with, waited_milli: milli(waited), usual_milli: milli(usual) });
    assign::suspend_and_release(
        rooms,
        victim,
        SuspendReason::Interferes { with, until: Some(until) },
        reason,
    );
    rooms.cores.interference.cap = Some(rooms.cores.used);
    resize::clip(rooms);
}

/// A primary for whose sake others stand still is none any more: they wait for a slot like anybody. Says whether there
/// were any.
pub(crate) fn end_suspensions(rooms: &mut Rooms) -> bool {
    if rooms.cores.interference.cap.is_none() {
        return false;
    }
    // In a set nobody is beside it.
    let is_primary = |id: JobId| {
        rooms
            .jobs
            .live(id)
            .is_some_and(|live| live.key.is_some() && live.class == Class::Primary && live.aside.is_none())
    };
    let (mut over, mut resting) = (Vec::new(), 0);
    for job in rooms.jobs.lives() {
        let Some((with, _)) = job.live().and_then(|live| live.phase.rests()) else { continue };
        resting += 1;
        if !is_primary(with) {
            over.push(job.id());
        }
    }
    if resting == over.len() {
        rooms.cores.interference.cap = None;
        resize::clip(rooms);
    }
    for &id in &over {
        rooms.jobs.end_rest(id);
        line::enqueue(rooms, id);
    }
    !over.is_empty()
}
