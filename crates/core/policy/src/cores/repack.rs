//! Running jobs make room for a wider one that would otherwise lie across domains.
//!
//! Only when it starts, only single-domain primaries that wished nothing, a few at a time and each not often; and only
//! if what they hold is less than what the wider job gains. Absent: which job moves where, which is `pinfold_place`'s.

use std::time::Duration;

use pinfold_place::pack::{Mover, Shape};

use crate::api::{Class, CoreReason, Instant, JobId, Reason, Settings};
use crate::cores::assign;
use crate::cores::host::Host;
use crate::jobs::{Job, JobTable, Transition};

/// The least time between two times that a job makes room,
const EVERY: Duration = Duration::from_secs(60);
/// and how often it does in its life.
const TIMES_MAX: u32 = 4;

/// The rate at which memory moves to another node: what one core copies.
const BYTES_PER_S: u64 = 1 << 30;

/// What a job gains by lying in one domain, in thousandths of its time; less is not told from noise.
const GAIN_MILLI: u64 = 30;

/// The length of a job that tells none.
const LENGTH_ASSUMED: Duration = Duration::from_secs(20);

/// Whether a job has no wish, and is to lie close together.
fn is_plain(job: &Job) -> bool {
    job.request.wish.is_none() && job.shape() == Shape::Compact
}

/// How many bytes may change nodes for a job: as many as are moved in the time that it gains.
fn worth_bytes(job: &Job) -> u64 {
    let length = job.request.expected.unwrap_or(LENGTH_ASSUMED);
    let gain_ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX).saturating_mul(GAIN_MILLI) / 1000;
    gain_ms.saturating_mul(BYTES_PER_S / 1000)
}

/// Room that others made for a job that starts.
#[derive(Debug)]
pub(crate) struct Room {
    /// Its homes.
    pub(crate) cores: Vec<usize>,
    /// What is wanted of those that moved.
    pub(crate) moved: Vec<Transition>,
}

/// Has others make room for a job that starts; `None`: it finds homes as good without, or nobody can.
pub(crate) fn make_room(
    host: &mut Host,
    jobs: &mut JobTable,
    settings: &Settings,
    now: Instant,
    id: JobId,
) -> Option<Room> {
    let job = &jobs[&id];
    let count = job.slots();
    let plain = settings.affinity && settings.schedule && is_plain(job);
    if !plain || count < 2 || job.live().is_some() || host.grid.free_homes() < count {
        return None;
    }
    let primaries = host.running.primaries_lowest_first().map(|(_, job)| job);
    let movers: Vec<JobId> = primaries.filter(|&job| may_move(jobs, now, job)).collect();
    if movers.is_empty() {
        return None;
    }
    let mover = |id: &JobId| Mover {
        cores: jobs.live(*id).map(|live| live.cores.clone()).unwrap_or_default(),
        memory_bytes: jobs[id].held.total(),
    };
    let list: Vec<Mover> = movers.iter().map(mover).collect();
    let free: Vec<bool> = host.grid.iter().map(|core| core.home_of.is_none()).collect();
    let repack = host.grid.site.repack(&free, &list, count, worth_bytes(job))?;
    let (level, memory_bytes) = (repack.level, repack.memory_bytes);
    let moves = repack.moves.into_iter().map(|(mover, cores)| {
        let job = movers[mover];
        assign::release(host, jobs, job);
        assign::occupy(host, jobs, settings, job, Class::Primary, cores);
        jobs.made_room(job, now);
        let reason = Reason::Core(CoreReason::MadeRoom { by: id, level, memory_bytes });
        Transition::Update { job, reason }
    });
    let moved = moves.collect();
    Some(Room { cores: repack.cores, moved })
}

/// Whether a primary may make room for another now.
fn may_move(jobs: &JobTable, now: Instant, id: JobId) -> bool {
    let job = &jobs[&id];
    let Some(live) = job.live() else { return false };
    let (times, last) = live.repacked;
    let rested = last.is_none_or(|last| now.since(last) >= EVERY);
    let settled = !live.phase.is_starting()
        && live.signal.is_none()
        && live.phase.grace().is_none()
        && live.failed.is_empty();
    // Who is on fewer or more cores than it asked for is being put right already.
    let whole = live.cores.len() == job.slots();
    settled && rested && times < TIMES_MAX && whole && is_plain(job)
}
