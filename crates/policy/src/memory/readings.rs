//! Readings of memory come in: what each job holds, what the host can give; then the ladder acts on them.

use crate::api::{Claim, Instant, JobId, JobMemory, Kind, MemorySample};
use crate::jobs::{Job, WORTH_BYTES, bucket};
use crate::memory::room::rest_kind;
use crate::memory::{ladder, oracle};
use crate::rooms::Rooms;
use crate::schedule::enqueue;

/// Takes in with what part of what it holds one of a kind gets on; nothing is known of that any more once one of it
/// does not, and all its like are left alone for a while, if it did not for long.
fn note_cool(rooms: &mut Rooms, id: JobId, times_before: u32) {
    if !rooms.jobs.get(&id).is_some_and(Job::has_slot) {
        return;
    }
    let part = rooms.jobs.note_part(id);
    let Some(job) = rooms.jobs.get(&id) else { return };
    let missed = job.held.cold.times != times_before;
    let worthwhile = job.held.cold.worthwhile;
    let Some(kind) = job.request.kind else { return };
    if let Some(part) = part {
        let known = rooms.memory.cool.of(kind.key(), || part);
        *known = (*known).min(part);
        rooms.memory.warm.remove(kind.key());
    } else if missed {
        rooms.memory.cool.remove(kind.key());
        if worthwhile {
            return;
        }
        rest_kind(&mut rooms.memory.warm, kind, rooms.now);
    }
}

/// Takes readings in and deals with a shortage, if there is one.
pub(crate) fn measured(rooms: &mut Rooms, sample: &MemorySample) {
    let now = rooms.now;
    for memory in &sample.jobs {
        measured_one(rooms, now, memory);
    }
    let resident = rooms.jobs.resident();
    let memory = &mut rooms.memory;
    memory.resident = resident;
    memory.read = Some(now);
    let host = resident.saturating_add(sample.available_bytes);
    memory.usable = Some(host.min(rooms.settings.memory.budget_bytes));
    memory.swap_free = sample.swap_free_bytes;
    memory.swap_rate = sample.swap_bytes_per_s;
    memory.stalled_milli = sample.stalled_milli;
    memory.tells_stalls |= sample.stalled_milli > 0;
    let full = sample.available_bytes < WORTH_BYTES;
    memory.full_since = if full { memory.full_since.or(Some(now)) } else { None };
    // One that waits for its slot has not begun; unless somebody stopped it meanwhile.
    let waits = |id: &JobId| rooms.jobs.get(id).is_some_and(|job| job.queued.is_some());
    memory.returning.retain(|id, until| until.map_or_else(|| waits(id), |until| until > now));
    if oracle::is_governed(rooms) {
        ladder::watch_overcommit(rooms, rooms.memory.usable.unwrap_or(u64::MAX));
        ladder::choose_token(rooms);
        ladder::relieve(rooms);
    }
}

fn measured_one(rooms: &mut Rooms, now: Instant, memory: &JobMemory) {
    let comes_back = rooms.memory.returning.contains_key(&memory.job);
    let Some(times_before) = rooms.jobs.read_memory(now, memory, comes_back) else { return };
    let Some(job) = rooms.jobs.get(&memory.job) else { return };
    if let Some(kind) = job.request.kind {
        let peak = rooms.memory.peaks.of(kind.key(), || 0);
        *peak = (*peak).max(job.held.peak);
    }
    note_cool(rooms, memory.job, times_before);
}

/// What is known of a kind of jobs changed: those that wait are looked at anew.
pub(crate) fn learned(rooms: &mut Rooms, kind: Kind, claim: Claim) {
    let old = rooms.memory.learned.insert(kind.key(), claim);
    let same = old.is_some_and(|old| bucket(old.usual_bytes) == bucket(claim.usual_bytes));
    // Then it counts in place of what was asked for.
    let counts = old.is_none_or(|old| old.is_evidence() != claim.is_evidence());
    let changes = |job: &&Job| !same || (counts && job.request.memory.is_some());
    let waits = |job: &&Job| job.request.kind == Some(kind) && job.live().is_none() && job.queued.is_some();
    let all = rooms.jobs.values();
    let waiting: Vec<JobId> = all.filter(waits).filter(changes).map(Job::id).collect();
    for id in waiting {
        enqueue::reenqueue(rooms, id);
    }
}
