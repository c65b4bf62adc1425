//! When a waiting job goes before all others, and when it expires. Absent: what either leads to (`schedule/due`).

use std::time::Duration;

use crate::api::{Instant, Settings};
use crate::jobs::{Job, Stage, Waiting};
use crate::queue::arrays::Arrays;

/// A job that waited longer than this takes the next free slot, whatever its priority.
const AGED_AFTER: Duration = Duration::from_secs(600);
/// ... or longer than this many times its expected length,
const AGED_LENGTHS: u32 = 10;
/// but never before this: else whoever tells a tiny length would pass everyone.
const AGED_FLOOR: Duration = Duration::from_secs(10);

/// When a job that stands in the queue will have waited too long; `None` if it does not, or has, or waits for other
/// members of its array.
pub(crate) fn ages_at(arrays: &Arrays, job: &Job) -> Option<Instant> {
    if job.aged || job.queued.is_none() {
        return None;
    }
    let by_length = job.request.expected.map(|length| length.saturating_mul(AGED_LENGTHS).max(AGED_FLOOR));
    let after = by_length.map_or(AGED_AFTER, |after| after.min(AGED_AFTER));
    let room_since = match job.live() {
        None => arrays.room_since(&job.request)?,
        Some(_) => Instant::default(),
    };
    Some(job.since.max(room_since).after(after))
}

/// When a waiting job expires, and how long it might wait.
pub(crate) fn expires_at(settings: &Settings, job: &Job) -> Option<(Instant, Duration)> {
    let Stage::Waiting(Waiting { held: false, gated: false, .. }) = job.stage else { return None };
    if job.requeues > 0 || job.checkpoints > 0 {
        return None; // it had its turn, and lost it to others
    }
    job.request.ttl.or(settings.queue_ttl).map(|ttl| (job.since.after(ttl), ttl))
}
