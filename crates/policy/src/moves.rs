//! Where backfillers go when another core is idler than theirs.
//!
//! A sample says how idle a core was, not who kept it busy. So a backfiller leaves a core only if someone else
//! is there, only for a core with fewer backfillers, and each move makes it wait longer for the next: two
//! equally busy cores would otherwise take turns at looking idle because it is on the other.

use std::time::Duration;

use crate::policy::Policy;
use crate::{Class, Instant, JobId, Reason, Sample};

/// How much idler the other core must be, in thousandths.
const GAP_MILLI: u16 = 250;
/// For how long each sample must have shown it.
const GAP_FOR: Duration = Duration::from_secs(1);
/// The least time between two moves of a job; doubles with each move,
const MOVE_EVERY: Duration = Duration::from_secs(2);
/// up to 2^5 = 32 times.
const MOVE_DOUBLINGS_MAX: u32 = 5;

/// A move that would even things out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Move {
    from: usize,
    to: usize,
    gap_milli: u16,
}

impl Policy {
    pub(crate) fn sample(&mut self, sample: &Sample) {
        self.cores.sample(&sample.idle_milli);
        self.measure_idleness(sample);
        self.watch_interference(sample);
        if !self.settings.schedule || !self.settings.affinity || self.exclusive.is_some() {
            return;
        }
        let backfillers: Vec<JobId> = self.holders.backfillers_newest_first().collect();
        for &job in backfillers.iter().rev() {
            self.drift(job);
        }
    }

    fn drift(&mut self, id: JobId) {
        let now = self.now;
        let best = self.best_move(id);
        let Some(live) = self.live_mut(id) else { return };
        let Some(best) = best else {
            live.drift.gap_since = None;
            return;
        };
        let since = *live.drift.gap_since.get_or_insert(now);
        let pause = MOVE_EVERY * (1 << live.drift.moves.saturating_sub(1).min(MOVE_DOUBLINGS_MAX));
        let rested = live.drift.moved.is_none_or(|moved: Instant| now.since(moved) >= pause);
        if now.since(since) < GAP_FOR || !rested {
            return;
        }
        let drift = crate::job::Drift { gap_since: None, moved: Some(now), moves: live.drift.moves + 1 };
        let mut cores = live.cores.clone();
        cores.retain(|&core| core != best.from);
        cores.push(best.to);
        cores.sort_unstable();
        self.release(id);
        self.occupy(id, Class::Backfill, cores);
        if let Some(live) = self.live_mut(id) {
            live.drift = drift;
        }
        // Until the next sample tells better, the one core is as idle as the other was.
        self.cores.swap_idle(best.from, best.to);
        self.mark(id, Reason::IdlerCore { gap_milli: best.gap_milli });
    }

    /// The best move for a backfiller, if any evens things out.
    fn best_move(&self, id: JobId) -> Option<Move> {
        let live = self.live(id).filter(|live| !live.starting)?;
        let contended = |&&core: &&usize| {
            let core = self.cores.get(core);
            core.home_of.is_some() || core.backfillers > 1
        };
        let from =
            *live.cores.iter().filter(contended).min_by_key(|&&core| self.cores.get(core).idle_milli)?;
        let here = self.cores.get(from);
        // Who moves freely has all that is around it already.
        let around =
            if self.moves_freely(&self.jobs[&id]) { self.cores.neighbours(from) } else { vec![from] };
        let idle_milli = around.iter().map(|&core| self.cores.get(core).idle_milli).max()?;
        let wish = self.jobs.get(&id).and_then(|job| job.request.wish.as_deref());
        let others = self.cores.iter().enumerate().filter(|&(index, other)| {
            let allowed = wish.is_none_or(|wish| wish.allows(other));
            let elsewhere = !live.cores.contains(&index) && !around.contains(&index);
            allowed && other.backfillers < here.backfillers && elsewhere
        });
        // The most idle; among equals the one with the fewest backfillers, then the lowest.
        let key = |&(index, other): &(usize, &crate::cores::Core)| {
            (std::cmp::Reverse(other.idle_milli), other.backfillers, index)
        };
        let (to, there) = others.min_by_key(key)?;
        let gap_milli = there.idle_milli.saturating_sub(idle_milli);
        (gap_milli > GAP_MILLI).then_some(Move { from, to, gap_milli })
    }
}
