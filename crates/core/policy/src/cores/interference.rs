//! Primaries that wait for a core while backfillers run beside them (`cpu.guard`): the youngest of those is
//! suspended for a while, in which no other backfiller takes its place. `waits` says how much is too much.
//!
//! Absent: what a shared cache or memory bus costs a primary that has its core, which shows in no such reading.

use std::collections::BTreeMap;
use std::time::Duration;

use pinfold_topo::backoff::Backoff;

use crate::api::{Class, Instant, JobId, Reason, Sample, Settings, SlotReason};
use crate::cores::binding;
use crate::cores::host::Host;
use crate::cores::waits::{Interference, Watched};
use crate::jobs::{Job, JobTable, SuspendReason, Transition};

/// The longest time that a backfiller is suspended,
const REST_MAX: Duration = Duration::from_secs(600);
/// and all of them; it doubles with each time that comes sooner than the longest after the last.
const REST: Backoff = Backoff::new(Duration::from_secs(60), REST_MAX);

/// Whether any of these cores is among those.
fn beside(cores: &[usize], around: &[usize]) -> bool {
    cores.iter().any(|core| around.contains(core))
}

/// New settings: where no job is held back, nothing of that is left.
pub(crate) fn reset(host: &mut Host, jobs: &JobTable, settings: &Settings) -> Vec<Transition> {
    if settings.hold_back {
        return Vec::new();
    }
    host.interference = Interference::default();
    let rests = |job: &&Job| job.live().is_some_and(|live| live.phase.rests().is_some());
    jobs.lives().filter(rests).map(|job| Transition::EndRest { job: job.id() }).collect()
}

/// Whether the slots of suspended backfillers are there again, as enough time has passed.
pub(crate) fn uncap(host: &mut Host, settings: &Settings, now: Instant) -> bool {
    let is_over = settings.hold_back && host.interference.until.is_some_and(|until| until <= now);
    is_over && host.interference.cap.take().is_some()
}

/// A primary that waits too much, and the backfiller beside it that is suspended for that.
struct Found {
    with: JobId,
    victim: JobId,
    waited_milli: u64,
    usual_milli: u64,
}

/// Takes in how much each primary waited; gives the suspension of a backfiller if that is too much. Once it is
/// suspended, [`cap`] is due.
pub(crate) fn watch(
    host: &mut Host,
    jobs: &JobTable,
    settings: &Settings,
    now: Instant,
    sample: &Sample,
) -> Option<Transition> {
    if !settings.hold_back {
        return None;
    }
    let mut watched = std::mem::take(&mut host.interference.watched);
    let found = read_waits(host, jobs, now, sample, &mut watched);
    host.interference.watched = watched;
    found.map(|found| suspend_interferer(host, now, found))
}

fn read_waits(
    host: &Host,
    jobs: &JobTable,
    now: Instant,
    sample: &Sample,
    watched: &mut BTreeMap<JobId, Watched>,
) -> Option<Found> {
    let backfillers: Vec<JobId> = host.running.backfillers_newest_first().collect();
    watched.retain(|job, _| sample.stalled_milli.iter().any(|(heard, _)| heard == job));
    let mut too_much = None;
    for &(job, milli) in &sample.stalled_milli {
        let Some(around) = around_primary(host, jobs, job) else {
            watched.remove(&job);
            continue;
        };
        let is_beside = |id: &JobId| jobs.live(*id).is_some_and(|live| beside(&live.cores, &around));
        let shares_with = |id: &JobId| {
            let on = |id: JobId| jobs.live(id).map_or(&[][..], |live| &live.cores);
            beside(on(*id), on(job)) && binding::shares_evenly(host, &jobs[id])
        };
        if backfillers.iter().any(shares_with) {
            // It waits for another job of its list, as it is to.
            watched.remove(&job);
            continue;
        }
        let one = watched.entry(job).or_insert_with(|| Watched::new(now));
        let found = one.read(now, u64::from(milli), backfillers.iter().any(is_beside));
        if let (Some(waited_milli), None) = (found, &too_much) {
            let may = |id: &JobId| is_beside(id) && may_suspend_interferer(host, jobs, *id);
            let (with, usual_milli) = (job, one.usual.mean());
            let victim = backfillers.iter().copied().find(may);
            too_much = victim.map(|victim| Found { with, victim, waited_milli, usual_milli });
        }
    }
    too_much
}

/// The cores behind the same caches as a primary's, if it is one and runs.
fn around_primary(host: &Host, jobs: &JobTable, job: JobId) -> Option<Vec<usize>> {
    let live = jobs.live(job).filter(|live| live.key.is_some() && live.aside.is_none())?;
    let is_one = live.class == Class::Primary && !live.phase.is_starting() && !live.cores.is_empty();
    is_one.then(|| live.cores.iter().flat_map(|&core| host.grid.neighbours(core)).collect())
}

fn may_suspend_interferer(host: &Host, jobs: &JobTable, job: JobId) -> bool {
    jobs.may_freeze(job) && !jobs[&job].aged && host.running.foremost() != Some(job)
}

/// A backfiller is suspended for a while.
fn suspend_interferer(host: &mut Host, now: Instant, found: Found) -> Transition {
    let Found { with, victim: job, waited_milli, usual_milli } = found;
    let held = &mut host.interference;
    let again = held.until.is_some_and(|until| now.since(until) < REST_MAX);
    held.again = if again { held.again.saturating_add(1) } else { 0 };
    let until = now.after(REST.after(held.again));
    held.until = Some(until);
    // It is seen first what that brings.
    held.watched.values_mut().for_each(|one| one.hits.clear());
    let milli = |milli: u64| u16::try_from(milli).unwrap_or(u16::MAX);
    let (waited_milli, usual_milli) = (milli(waited_milli), milli(usual_milli));
    Transition::Suspend {
        job,
        why: SuspendReason::Interferes { with, until: Some(until) },
        reason: Reason::Slot(SlotReason::Interferes { with, waited_milli, usual_milli }),
    }
}

/// The slots of the suspended backfiller are nobody's for now.
pub(crate) fn cap(host: &mut Host) {
    host.interference.cap = Some(host.used);
}

/// What follows from the ends of primaries for whose sake others rest.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// The slots of all that rested are there again.
    pub(crate) uncapped: bool,
    /// Those that need not rest any more.
    pub(crate) over: Vec<Transition>,
}

/// A primary for whose sake others are suspended is none any more: they wait for a slot like any other.
pub(crate) fn end_suspensions(host: &mut Host, jobs: &JobTable) -> Ended {
    if host.interference.cap.is_none() {
        return Ended::default();
    }
    // In a set no job is beside it.
    let is_primary = |id: JobId| {
        let has_slot = jobs.live(id).filter(|live| live.key.is_some() && live.aside.is_none());
        has_slot.is_some_and(|live| live.class == Class::Primary)
    };
    let (mut over, mut resting) = (Vec::new(), 0);
    for job in jobs.lives() {
        let Some((with, _)) = job.live().and_then(|live| live.phase.rests()) else { continue };
        resting += 1;
        if !is_primary(with) {
            over.push(Transition::EndRest { job: job.id() });
        }
    }
    let uncapped = resting == over.len();
    if uncapped {
        host.interference.cap = None;
    }
    Ended { uncapped, over }
}
