//! Readings of memory come in: what each job holds, what the host can give, what is known of classes of jobs. Absent:
//! what follows (`schedule::readings`).

use crate::api::{Claim, Instant, JobId, JobMemory, Kind, MemorySample, Settings};
use crate::jobs::{Job, JobTable, Transition, WORTH_BYTES, bucket};
use crate::memory::room::{Memory, rest_kind};

/// Takes readings in.
pub(crate) fn take_in(
    memory: &mut Memory,
    jobs: &mut JobTable,
    settings: &Settings,
    now: Instant,
    sample: &MemorySample,
) {
    for read in &sample.jobs {
        take_in_one(memory, jobs, now, read);
    }
    let resident = jobs.resident();
    memory.resident = resident;
    memory.read = Some(now);
    let host = resident.saturating_add(sample.available_bytes);
    memory.usable = Some(host.min(settings.memory.budget_bytes));
    memory.swap_free = sample.swap_free_bytes;
    memory.swap_rate = sample.swap_bytes_per_s;
    memory.stalled_milli = sample.stalled_milli;
    memory.tells_stalls |= sample.stalled_milli > 0;
    let full = sample.available_bytes < WORTH_BYTES;
    memory.full_since = if full { memory.full_since.or(Some(now)) } else { None };
    // One that waits for its slot has not begun; unless a user stopped it meanwhile.
    let waits = |id: &JobId| jobs.get(id).is_some_and(|job| job.queued.is_some());
    memory.returning.retain(|id, until| until.map_or_else(|| waits(id), |until| until > now));
}

fn take_in_one(memory: &mut Memory, jobs: &mut JobTable, now: Instant, read: &JobMemory) {
    let comes_back = memory.returning.contains_key(&read.job);
    let Some(times_before) = jobs.read_memory(now, read, comes_back) else { return };
    let Some(job) = jobs.get(&read.job) else { return };
    if let Some(kind) = job.request.kind {
        let peak = memory.peaks.of(kind.key(), || 0);
        *peak = (*peak).max(job.held.peak);
    }
    note_cool(memory, jobs, now, read.job, times_before);
}

/// Takes in what part of what it holds a job of a class needs. Nothing is known of that any more once one of the class
/// refaults, and no job of the class is probed for a while, if it was not worthwhile for long.
fn note_cool(memory: &mut Memory, jobs: &mut JobTable, now: Instant, id: JobId, times_before: u32) {
    if !jobs.get(&id).is_some_and(Job::has_slot) {
        return;
    }
    let part = jobs.note_part(id);
    let Some(job) = jobs.get(&id) else { return };
    let missed = job.held.cold.times != times_before;
    let worthwhile = job.held.cold.worthwhile;
    let Some(kind) = job.request.kind else { return };
    if let Some(part) = part {
        let known = memory.cool.of(kind.key(), || part);
        *known = (*known).min(part);
        memory.warm.remove(kind.key());
    } else if missed {
        memory.cool.remove(kind.key());
        if worthwhile {
            return;
        }
        rest_kind(&mut memory.warm, kind, now);
    }
}

/// What is known of a class of jobs changed: those that wait are looked at anew.
pub(crate) fn learned(memory: &mut Memory, jobs: &JobTable, kind: Kind, claim: Claim) -> Vec<Transition> {
    let old = memory.learned.insert(kind.key(), claim);
    let same = old.is_some_and(|old| bucket(old.usual_bytes) == bucket(claim.usual_bytes));
    // Then it counts in place of what was asked for.
    let counts = old.is_none_or(|old| old.is_evidence() != claim.is_evidence());
    let changes = |job: &&Job| !same || (counts && job.request.memory.is_some());
    let waits = |job: &&Job| job.request.kind == Some(kind) && job.live().is_none() && job.queued.is_some();
    let waiting = jobs.values().filter(waits).filter(changes);
    waiting.map(|job| Transition::Reenqueue { job: job.id() }).collect()
}
