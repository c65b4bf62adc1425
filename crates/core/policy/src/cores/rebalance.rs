//! Where backfillers go when another core is idler than theirs.
//!
//! A sample says how idle a core was, not which job kept it busy. So a backfiller leaves a core only if another job is
//! there, only for a core with fewer backfillers, and each move makes it wait longer for the next: two equally busy
//! cores would otherwise take turns at looking idle because it is on the other.

use std::time::Duration;

use pinfold_topo::backoff::Backoff;

use crate::api::{Class, CoreReason, Instant, JobId, Reason, Settings};
use crate::cores::assign;
use crate::cores::grid::Core;
use crate::cores::host::Host;
use crate::jobs::{JobTable, Rebalance, Transition};

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

/// Moves backfillers to idler cores, by the sample that was just taken in.
pub(crate) fn rebalance(
    host: &mut Host,
    jobs: &mut JobTable,
    settings: &Settings,
    now: Instant,
) -> Vec<Transition> {
    if !settings.schedule || !settings.affinity || host.exclusive.is_some() {
        return Vec::new();
    }
    let backfillers: Vec<JobId> = host.running.backfillers_newest_first().collect();
    backfillers.into_iter().rev().filter_map(|job| rebalance_one(host, jobs, settings, now, job)).collect()
}

fn rebalance_one(
    host: &mut Host,
    jobs: &mut JobTable,
    settings: &Settings,
    now: Instant,
    id: JobId,
) -> Option<Transition> {
    let Some(best) = best_move(host, jobs, id) else {
        jobs.no_idler_core(id);
        return None;
    };
    let since = jobs.idler_core(id, now);
    let live = jobs.live(id)?;
    let pause = MOVE_EVERY.after(live.rebalance.moves.saturating_sub(1));
    let rested = live.rebalance.moved.is_none_or(|moved: Instant| now.since(moved) >= pause);
    if now.since(since) < GAP_FOR || !rested {
        return None;
    }
    let rebalance = Rebalance { gap_since: None, moved: Some(now), moves: live.rebalance.moves + 1 };
    let mut cores = live.cores.clone();
    cores.retain(|&core| core != best.from);
    cores.push(best.to);
    cores.sort_unstable();
    assign::release(host, jobs, id);
    assign::occupy(host, jobs, settings, id, Class::Backfill, cores);
    jobs.moved(id, rebalance);
    // Until the next sample tells better, the one core is as idle as the other was.
    host.grid.swap_idle(best.from, best.to);
    let reason = Reason::Core(CoreReason::IdlerCore { gap_milli: best.gap_milli });
    Some(Transition::Update { job: id, reason })
}

/// The best move for a backfiller, if any evens things out.
fn best_move(host: &Host, jobs: &JobTable, id: JobId) -> Option<Move> {
    let live = jobs.live(id).filter(|live| !live.phase.is_starting())?;
    let contended = |&&core: &&usize| {
        let core = host.grid.get(core);
        core.home_of.is_some() || core.backfillers > 1
    };
    let from = *live.cores.iter().filter(contended).min_by_key(|&&core| host.grid.get(core).idle_milli)?;
    let here = host.grid.get(from);
    // Who moves freely has all that is around it already.
    let around = if jobs[&id].moves_freely() { host.grid.neighbours(from) } else { vec![from] };
    let idle_milli = around.iter().map(|&core| host.grid.get(core).idle_milli).max()?;
    let wish = jobs.get(&id).and_then(|job| job.request.wish.as_deref());
    let others = host.grid.iter().enumerate().filter(|&(index, other)| {
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
