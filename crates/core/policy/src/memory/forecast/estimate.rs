//! What a job is expected to need: what its class needed, what was asked for, what its peers hold. Read only.

use crate::api::{Claim, Kind};
use crate::jobs::{Job, bucket};
use crate::rooms::Rooms;

fn in_part(part: Option<u16>, bytes: u64) -> u64 {
    part.map_or(bytes, |part| bytes / 1000 * u64::from(part))
}

/// With what part of what they hold, in thousandths, the next of a kind are expected to get on in RAM: the least with
/// which one did, since one missed something; `None`: nobody knows.
pub(crate) fn part_of(rooms: &Rooms, kind: Kind) -> Option<u16> {
    rooms.memory.cool.get(kind.key()).copied()
}

/// What of so many bytes must be in RAM, as far as others of the kind got on with a part.
fn part_needed(rooms: &Rooms, kind: Option<Kind>, bytes: u64) -> u64 {
    in_part(kind.and_then(|kind| part_of(rooms, kind)), bytes)
}

/// The most of what a job held that had to be in RAM: with what part it got on says so, or others of its kind did.
pub(crate) fn need_of(rooms: &Rooms, job: &Job) -> u64 {
    let own = job.held.cold.part.map(|part| in_part(Some(part), job.held.peak));
    let need = own.unwrap_or_else(|| part_needed(rooms, job.request.kind, job.held.peak));
    job.held.need_peak.min(need)
}

/// What a job is expected to need: what its kind is known to need, but no less than was asked for before that is evidence;
/// what was asked for; at least what others of its kind hold right now. `None`: nobody knows.
pub(crate) fn claim_of(rooms: &Rooms, job: &Job) -> Option<Claim> {
    let mut claim = claim_on_all(rooms, job)?;
    // What was cold in jobs of its class lately says more than what earlier ones held, and than what was asked for.
    claim.usual_bytes = claim.usual_bytes.min(part_needed(rooms, job.request.kind, claim.most_bytes));
    // Who holds more than was expected is expected to hold that.
    let usual_bytes = claim.usual_bytes.max(job.held.need_peak.min(claim.most_bytes));
    Some(Claim { usual_bytes, most_bytes: claim.most_bytes.max(job.held.peak), ..claim })
}

/// The same, with what may be cold.
fn claim_on_all(rooms: &Rooms, job: &Job) -> Option<Claim> {
    let kind = job.request.kind;
    let learned = learned_of(rooms, job);
    let asked = || job.request.memory.map(Claim::of);
    let learned = learned.map(|claim| claim.at_least(floor_of(rooms, job).unwrap_or(0)));
    let peers = || kind.and_then(|kind| rooms.memory.peaks.get(kind.key())).copied().filter(|&peak| peak > 0);
    learned.or_else(asked).or_else(|| peers().map(Claim::of))
}

/// What is known of a job's kind, by runs that ended.
pub(crate) fn learned_of(rooms: &Rooms, job: &Job) -> Option<Claim> {
    rooms.memory.learned.get(job.request.kind?.key()).copied()
}

/// What a job asked for, in bytes, where that counts at least: too few of its kind ended to say that it needs less.
pub(crate) fn floor_of(rooms: &Rooms, job: &Job) -> Option<u64> {
    let asked = job.request.memory?;
    learned_of(rooms, job).is_none_or(|claim| !claim.is_evidence()).then_some(asked)
}

/// What a job is expected to come to hold, RAM and swap together: what counts for it, and what may be cold.
pub(crate) fn comes_to_hold(rooms: &Rooms, job: &Job) -> u64 {
    let claim = if rooms.settings.memory.prediction { claim_on_all(rooms, job) } else { None };
    counts_for(rooms, job).max(claim.map_or(0, |claim| claim.held_bytes))
}

/// Whether anybody told what a job needs, its user or jobs of its kind that ended, and it may be used.
pub(crate) fn is_known(rooms: &Rooms, job: &Job) -> bool {
    let learned = || job.request.kind.is_some_and(|kind| rooms.memory.learned.get(kind.key()).is_some());
    rooms.settings.memory.prediction && (job.request.memory.is_some() || learned())
}

/// What a running job counts for: what it needs, or what it usually comes to need; the most it may need if it
/// may not be frozen once it runs.
pub(crate) fn counts_for(rooms: &Rooms, job: &Job) -> u64 {
    if job.held.cold.is_cool() && !job.request.no_suspend {
        return job.held.needs();
    }
    let claim = if rooms.settings.memory.prediction { claim_of(rooms, job) } else { None };
    let claim = claim.unwrap_or_default();
    // Who was ended for others does not begin anew where it would be again.
    let ended = job.requeues > 0 || job.checkpoints > 0;
    let before = if ended && job.live().is_none() { job.held.peak } else { 0 };
    job.held.needs().max(before).max(if job.request.no_suspend {
        claim.most_bytes
    } else {
        claim.usual_bytes
    })
}

/// The size class in which a waiting job stands in the queue.
pub(crate) fn memory_bucket(rooms: &Rooms, job: &Job) -> u16 {
    if job.live().is_some() || !rooms.settings.memory.prediction {
        return 0;
    }
    claim_of(rooms, job)
        .map_or(0, |claim| bucket(if job.request.no_suspend { claim.most_bytes } else { claim.usual_bytes }))
}
