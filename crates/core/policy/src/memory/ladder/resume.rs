//! Frozen jobs resume: the highest rank first, as `fit` allows, and for long enough that it was worth its cost.

use std::time::Duration;

use crate::api::{Instant, JobId};
use crate::jobs::JobTable;
use crate::memory::ladder::page_out;
use crate::memory::oracle;
use crate::memory::room::Memory;

/// The least time a job runs after it returned; longer when it comes from swap.
const RUN: Duration = Duration::from_secs(1);

/// A job that came from swap runs at least this many times as long as that took.
const RUN_PER_SWAP_IN: u32 = 10;

/// A job goes on after it was frozen, now that it has its slot.
pub(crate) fn resume(memory: &mut Memory, jobs: &mut JobTable, now: Instant, id: JobId) {
    let rate = oracle::swap_rate(memory);
    let Some(job) = jobs.get(&id) else { return };
    let swap_in = Duration::from_micros(job.held.missing().saturating_mul(1_000_000) / rate);
    jobs.resume_in_memory(id, now, now.after(RUN.max(swap_in * RUN_PER_SWAP_IN)));
    page_out::swaps_in(memory, jobs, now, id);
}
