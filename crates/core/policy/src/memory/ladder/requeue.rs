//! The last rung of the ladder: when memory can be had in no other way, the youngest job that allows it is ended and
//! requeued, to begin once there is room for what it held.
//!
//! Whatever that job had done is lost, so it counts as a failure of the host in every report, and is never done to a
//! job that did not say that it may be (`--requeue`), nor to one job for ever. On its user's word a job is ended in the
//! same way, at any time.

use crate::jobs::{Job, REQUEUES_MAX, WORTH_BYTES};
use crate::memory::ladder::checkpoint;
use crate::memory::ladder::step::Step;
use crate::memory::{oracle, rank};
use crate::rooms::Rooms;

/// The youngest job that allows it is ended, if those that run would soon need more than there is, no job that runs can
/// be frozen for them, and swap does not take what suspended jobs hold.
pub(crate) fn due(rooms: &Rooms, usable: u64) -> Vec<Step> {
    let lives = || rooms.jobs.lives();
    let one_ends = lives().any(Job::is_ending);
    // Whoever was frozen just now may have been enough.
    let froze = rooms.memory.acted == Some(rooms.now);
    if one_ends || froze || rooms.memory.swap_free >= WORTH_BYTES || rank::victim(rooms).is_some() {
        return Vec::new();
    }
    let lacking = oracle::lacking_at_once(rooms, usable);
    if lacking == 0 {
        return Vec::new();
    }
    let may = |job: &&Job| {
        let ready = job.live().is_some_and(|live| !live.phase.is_starting() && live.signal.is_none());
        let helps = job.held.resident >= WORTH_BYTES && Some(job.id()) != rooms.memory.token;
        ready && helps && job.request.requeue && job.requeues < REQUEUES_MAX
    };
    match lives().filter(may).max_by_key(|job| job.rank_key()).map(Job::id) {
        Some(job) => vec![Step::Requeue { job, lacking }],
        None => checkpoint::due_to_be_given_up(rooms, usable),
    }
}
