//! A job on the simulated host: its demand in a step, and the effect of its supply. Sizes in KiB.
//!
//! Absent: the distribution, which the host decides.

use crate::pressure::footprint::Plan;
use crate::pressure::world::TICK_US;

/// The most memory that a job can allocate in a step: the kernel clears about 2 GiB a second.
pub const ALLOC_TICK: u64 = 20 << 10;
/// The kernel's read-ahead for a page fault from swap.
pub(super) const CLUSTER: u64 = 32;
/// The tolerance within which a demand counts as met.
const NEAR: u64 = 64;

/// A job on the host.
#[derive(Debug, Clone)]
pub struct Body {
    /// Its plan.
    pub plan: Plan,
    /// Its completed work, in microseconds.
    pub done_us: u64,
    /// Memory in RAM.
    pub resident: u64,
    /// Memory in swap.
    pub swapped: u64,
    /// Whether it computes in the idle class.
    pub backfills: bool,
    /// Whether it is suspended.
    pub frozen: bool,
    /// The time at which a freeze under way takes effect.
    pub freezes_at: Option<u64>,
    /// Memory that the pager moved to swap, in all.
    pub paged_out: u64,
    /// Memory in RAM above which its own pages are reclaimed first (`memory.high`),
    pub high: Option<u64>,
    /// since when that is so,
    pub slowed_us: Option<u64>,
    /// and for how many steps it was held there since.
    pub bound_ticks: u64,
    /// Memory that is reclaimed last (`memory.low`).
    pub protected: u64,
    /// The most it held.
    pub peak: u64,
    /// For how long it waited for memory in all, in microseconds,
    pub waited_us: u64,
    /// and the reported part of it.
    pub waited_told_us: u64,
    /// Demand and supply of computing in this step;
    pub(super) want_us: u64,
    pub(super) got_us: u64,
    /// the demand for pages from swap, and for new pages,
    pub(super) fault: u64,
    pub(super) grow: u64,
    /// and the part of the step spent waiting for them, in thousandths.
    pub(super) stalled_milli: u64,
}

impl Body {
    /// A job that begins.
    pub(super) fn new(plan: Plan, backfills: bool) -> Self {
        Self {
            plan,
            done_us: 0,
            resident: 0,
            swapped: 0,
            backfills,
            frozen: false,
            freezes_at: None,
            paged_out: 0,
            high: None,
            slowed_us: None,
            bound_ticks: 0,
            protected: 0,
            peak: 0,
            waited_us: 0,
            waited_told_us: 0,
            want_us: 0,
            got_us: 0,
            fault: 0,
            grow: 0,
            stalled_milli: 0,
        }
    }

    /// All it holds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.resident + self.swapped
    }

    fn hot(&self) -> u64 {
        self.total() * self.plan.hot_milli / 1000
    }

    /// Memory in RAM that it does not touch.
    pub(super) fn cold(&self) -> u64 {
        let cold = self.total() - self.hot();
        if self.frozen { self.resident } else { cold.saturating_sub(self.swapped).min(self.resident) }
    }

    /// Sets its demand in this step: pages from swap, and new pages.
    pub(super) fn want(&mut self, latency_us: u64) {
        (self.fault, self.grow, self.stalled_milli) = (0, 0, 0);
        if self.want_us == 0 {
            return;
        }
        let hot = self.hot();
        // Untouched pages went out first.
        let missed = self.swapped.saturating_sub(self.total() - hot);
        if missed > 0 {
            let touched = (self.plan.touch * self.want_us / 1000).max(1);
            let fault = u128::from(touched) * u128::from(missed) / u128::from(hot.max(1));
            self.fault = u64::try_from(fault).unwrap_or(u64::MAX).clamp(1, missed);
            let most = (TICK_US / latency_us.max(1)).max(1) * CLUSTER;
            if latency_us > 0 && self.fault > most {
                self.want_us = (self.want_us * most / self.fault).max(1);
                self.stalled_milli = 1000 - most * 1000 / self.fault;
                self.fault = most;
            }
        }
        let target = self.plan.at(self.done_us + self.want_us);
        self.grow = target.saturating_sub(self.total()).min(ALLOC_TICK);
    }

    /// The pages of its own that a throttled job has to move out for its demand in this step.
    pub(super) fn beyond_high(&self) -> u64 {
        let wanted = self.resident + self.fault + self.grow;
        self.high.map_or(0, |high| wanted.saturating_sub(high)).min(self.fault + self.grow)
    }

    /// `moved` of the `had_to` pages went out: its demand shrinks in proportion, and so does its progress.
    pub(super) fn held_down(&mut self, had_to: u64, moved: u64) {
        if had_to == 0 {
            return;
        }
        self.resident -= moved;
        self.swapped += moved;
        let wanted = self.fault + self.grow;
        let left = wanted - (had_to - moved);
        self.want_us = (self.want_us * left / wanted).max(1);
        self.fault = self.fault * left / wanted;
        self.grow = self.grow * left / wanted;
        self.stalled_milli = self.stalled_milli.max(1000 - left * 1000 / wanted);
    }

    /// Computes by the supplied part of its demand, in thousandths; returns whether it ended.
    pub(super) fn go_on(&mut self, device: u64, granted: u64) -> bool {
        self.got_us = 0;
        if self.want_us == 0 {
            return false;
        }
        let of_faults = if self.fault > 0 { device.min(granted) } else { 1000 };
        let of_all = if self.grow > 0 { of_faults.min(granted) } else { of_faults };
        let back = (self.fault * of_faults).div_ceil(1000).min(self.swapped);
        self.swapped -= back;
        self.resident += back + self.grow * granted / 1000;
        self.peak = self.peak.max(self.total());
        let step = self.want_us * of_all / 1000;
        let target = self.plan.at(self.done_us + step);
        if self.total() + NEAR >= target {
            self.got_us = step;
            self.done_us += step;
        }
        self.stalled_milli = self.stalled_milli.max(1000 - of_all);
        let surplus = self.total().saturating_sub(target.max(NEAR));
        // Freed memory comes from both in proportion.
        let of_swap = surplus * self.swapped / self.total().max(1);
        self.swapped -= of_swap;
        self.resident -= (surplus - of_swap).min(self.resident);
        self.done_us >= self.plan.work_us
    }
}
