//! Where backfillers go when another core is idler than theirs.
//!
//! A sample says how idle a core was, not which job kept it busy. So a backfiller leaves a core only if another job is
//! there, only for a core with fewer backfillers, and each move makes it wait longer for the next: two equally busy cores
//! would otherwise take turns at looking idle because it is on the other.

use std::time::Duration;

use pinfold_backoff::Backoff;

use crate::api::{Class, CoreReason, Instant, JobId, Reason, Sample};
use crate::cores::grid::Core;
use crate::cores::{assign, headroom, interference};
use crate::jobs::Rebalance;
use crate::rooms::Rooms;

/// How much idler the other core must be, in thousandths.
const GAP_MILLI: u16 = 250;

/// For how long each sample must have shown it.
const GAP_FOR: Duration = Duration::from_secs(1);

/// The least time between two moves of a job; doubles with each move.
const MOVE_EVERY: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(2 << 5));

/// A move that would even things out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Move {
    from: usize,
    to: usize,
    gap_milli: u16,
}

pub(crate) fn sample(rooms: &mut Rooms, sample: &Sample) {
    rooms.cores.grid.sample(&sample.idle_milli);
    headroom::measure_idleness(rooms, sample);
    interference::watch_interference(rooms, sample);
    if !rooms.settings.schedule || !rooms.settings.affinity || rooms.cores.exclusive.is_some() {
        return;
    }
    let backfillers: Vec<JobId> = rooms.cores.running.backfillers_newest_first().collect();
    for &job in backfillers.iter().rev() {
        rebalance(rooms, job);
    }
}

fn rebalance(rooms: &mut Rooms, id: JobId) {
    let now = rooms.now;
    let best = best_move(rooms, id);
    let Some(best) = best else { return rooms.jobs.no_idler_core(id) };
    let since = rooms.jobs.idler_core(id, now);
    let Some(live) = rooms.jobs.live(id) else { return };
    let pause = MOVE_EVERY.after(live.rebalance.moves.saturating_sub(1));
    let rested = live.rebalance.moved.is_none_or(|moved: Instant| now.since(moved) >= pause);
    if now.since(since) < GAP_FOR || !rested {
        return;
    }
    let rebalance = Rebalance { gap_since: None, moved: Some(now), moves: live.rebalance.moves + 1 };
    let mut cores = live.cores.clone();
    cores.retain(|&core| core != best.from);
    cores.push(best.to);
    cores.sort_unstable();
    assign::release(rooms, id);
    assign::occupy(rooms, id, Class::Backfill, cores);
    rooms.jobs.moved(id, rebalance);
    // Until the next sample tells better, the one core is as idle as the other was.
    rooms.cores.grid.swap_idle(best.from, best.to);
    rooms.pending.request_update(id, Reason::Core(CoreReason::IdlerCore { gap_milli: best.gap_milli }));
}

/// The best move for a backfiller, if any evens things out.
fn best_move(rooms: &Rooms, id: JobId) -> Option<Move> {
    let live = rooms.jobs.live(id).filter(|live| !live.phase.is_starting())?;
    let contended = |&&core: &&usize| {
        let core = rooms.cores.grid.get(core);
        core.home_of.is_some() || core.backfillers > 1
    };
    let from =
        *live.cores.iter().filter(contended).min_by_key(|&&core| rooms.cores.grid.get(core).idle_milli)?;
    let here = rooms.cores.grid.get(from);
    // Who moves freely has all that is around it already.
    let around = if rooms.jobs[&id].moves_freely() { rooms.cores.grid.neighbours(from) } else { vec![from] };
    let idle_milli = around.iter().map(|&core| rooms.cores.grid.get(core).idle_milli).max()?;
    let wish = rooms.jobs.get(&id).and_then(|job| job.request.wish.as_deref());
    let others = rooms.cores.grid.iter().enumerate().filter(|&(index, other)| {
        let allowed = wish.is_none_or(|wish| wish.allows(other));
        let elsewhere = !live.cores.contains(&index) && !around.contains(&index);
        allowed && other.backfillers < here.backfillers && elsewhere
    });
    // The most idle; among equals the one with the fewest backfillers, then the lowest.
    let key =
        |&(index, other): &(usize, &Core)| (std::cmp::Reverse(other.idle_milli), other.backfillers, index);
    let (to, there) = others.min_by_key(key)?;
    let gap_milli = there.idle_milli.saturating_sub(idle_milli);
    (gap_milli > GAP_MILLI).then_some(Move { from, to, gap_milli })
}
