//! The simulated host: cores, RAM, swap, and the kernel when RAM is full.
//!
//! Time goes in steps of [`TICK_US`]. In each, every job that is not frozen wants to compute, touches its memory and grows.
//! Touched pages in swap are read back, at the device's rate and bounded by its latency for a single reader; when RAM is
//! full, pages of any jobs are written out first, and the demanding job waits for that. When swap is full too, the kernel
//! kills the largest job. Sizes are KiB, and all numbers are whole.
//!
//! Absent: the policy, the daemon, any decision.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pinfold_policy::JobId;

use crate::pressure::body::{Body, CLUSTER};
use crate::pressure::footprint::Plan;

/// The length of a step.
pub const TICK_US: u64 = 10_000;
/// The number of steps at a bound after which a job feels it.
const FELT_TICKS: u64 = 1_000_000 / TICK_US;
/// Swap with less than this is full.
const FULL: u64 = 1 << 10;

/// The host as it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hardware {
    /// Cores.
    pub cores: u64,
    /// RAM that jobs and others share; for jobs with a bound of their own: that bound.
    pub ram: u64,
    /// Swap.
    pub swap: u64,
    /// The swap device's write rate, per second.
    pub out_rate: u64,
    /// Its read rate, per second.
    pub in_rate: u64,
    /// Its latency for a page, in microseconds.
    pub latency_us: u64,
    /// Whether the kernel reclaims long unused pages first, or pages of all jobs alike.
    pub strict_lru: bool,
    /// Other load's memory,
    pub others: u64,
    /// by how much that swings,
    pub swing: u64,
    /// and the duration of a swing, in microseconds.
    pub swing_us: u64,
}

/// An order to the pager, which executes orders in turn.
#[derive(Debug, Clone, Copy)]
struct Order {
    job: JobId,
    out: bool,
    left: u64,
    done: u64,
    began_us: u64,
}

/// The host.
#[derive(Debug)]
pub struct World {
    /// The original hardware.
    pub hardware: Hardware,
    /// Jobs that run or are suspended.
    pub bodies: BTreeMap<JobId, Body>,
    /// Ended jobs with their peaks, not yet reported.
    pub ended: BTreeMap<JobId, u64>,
    /// Jobs that the kernel killed.
    pub lost: BTreeSet<JobId>,
    /// The time in which every job that is not suspended waited for memory, in microseconds.
    pub stalled_us: u64,
    /// The number of times that a throttled job was held at its bound for a second.
    pub felt: u64,
    /// The daemon's measurement of the swap device, in KiB per second; 0: none yet.
    pub measured_rate: u64,
    now_us: u64,
    cache: u64,
    orders: VecDeque<Order>,
}

impl World {
    /// A host.
    #[must_use]
    pub fn new(hardware: Hardware) -> Self {
        Self {
            hardware,
            bodies: BTreeMap::new(),
            ended: BTreeMap::new(),
            lost: BTreeSet::new(),
            stalled_us: 0,
            felt: 0,
            measured_rate: 0,
            now_us: 0,
            cache: 0,
            orders: VecDeque::new(),
        }
    }

    /// The time.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Memory of all jobs in RAM.
    #[must_use]
    pub fn resident(&self) -> u64 {
        self.bodies.values().map(|body| body.resident).sum()
    }

    /// Free swap.
    #[must_use]
    pub fn swap_free(&self) -> u64 {
        self.hardware.swap.saturating_sub(self.bodies.values().map(|body| body.swapped).sum())
    }

    /// Unused RAM, page cache included.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.hardware.ram.saturating_sub(self.others()).saturating_sub(self.resident())
    }

    /// Page cache.
    #[must_use]
    pub fn cache(&self) -> u64 {
        self.cache.min(self.free())
    }

    fn others(&self) -> u64 {
        let hardware = &self.hardware;
        let half = (hardware.swing_us / 2).max(1);
        let place = self.now_us % (half * 2);
        let up = if place < half { place } else { half * 2 - place };
        hardware.others + hardware.swing * up / half
    }

    /// Lets a job run.
    pub fn spawn(&mut self, job: JobId, plan: Plan, backfills: bool) {
        self.bodies.insert(job, Body::new(plan, backfills));
    }

    /// Orders the pager to move `size` of a job to swap.
    pub fn page_out(&mut self, job: JobId, size: u64) {
        self.orders.push_back(Order { job, out: true, left: size, done: 0, began_us: 0 });
    }

    /// The pager is to read a job back.
    pub fn fetch(&mut self, job: JobId) {
        self.orders.push_back(Order { job, out: false, left: u64::MAX, done: 0, began_us: 0 });
    }

    /// Remaining page-out orders of a job.
    #[must_use]
    pub fn ordered_out(&self, job: JobId) -> u64 {
        self.orders.iter().filter(|order| order.out && order.job == job).map(|order| order.left).sum()
    }

    /// The pager is gone with its orders.
    pub fn forget_orders(&mut self) {
        self.orders.clear();
        self.measured_rate = 0;
    }

    /// Lets [`TICK_US`] go by.
    pub fn tick(&mut self) {
        self.now_us += TICK_US;
        let now = self.now_us;
        for body in self.bodies.values_mut() {
            if body.freezes_at.is_some_and(|at| at <= now) {
                (body.frozen, body.freezes_at) = (true, None);
            }
        }
        self.share_cores();
        let (mut faults, mut growth) = (0, 0);
        for body in self.bodies.values_mut() {
            body.want(self.hardware.latency_us);
        }
        let own = self.hold_down();
        for body in self.bodies.values() {
            faults += body.fault;
            growth += body.grow;
        }
        let (needs, free) = (faults + growth, self.free());
        let wanted = needs.saturating_sub(free);
        // Pages that are read back free their place in swap.
        let reclaim = wanted.min(self.swap_free() + faults);
        let orders = self.order_time();
        let busy = self.hardware.time_in(faults) + self.hardware.time_out(reclaim + own) + orders;
        let scale = if busy > TICK_US { TICK_US * 1000 / busy } else { 1000 };
        let reclaimed = self.write_out(reclaim * scale / 1000);
        let granted = ((free + reclaimed) * 1000).checked_div(needs).unwrap_or(1000).min(1000);
        if growth > 0 && granted < 100 && self.swap_free() < FULL {
            self.kill_largest();
        }
        for (&job, body) in &mut self.bodies {
            if body.go_on(scale, granted) {
                self.ended.insert(job, body.peak);
            }
        }
        for job in self.ended.keys() {
            self.bodies.remove(job);
        }
        self.obey(scale);
        self.note();
    }

    /// Throttled jobs move their own pages out for their demand, as far as the device takes them; returns the amount.
    fn hold_down(&mut self) -> u64 {
        let mut left = self.swap_free().min(self.hardware.out_rate * TICK_US / 1_000_000);
        let before = left;
        for body in self.bodies.values_mut() {
            let had_to = body.beyond_high();
            body.bound_ticks += u64::from(had_to > 0);
            self.felt += u64::from(had_to > 0 && body.bound_ticks == FELT_TICKS);
            let moved = had_to.min(left).min(body.resident);
            left -= moved;
            body.held_down(had_to, moved);
        }
        before - left
    }

    /// Primaries have their cores; the others share the rest.
    fn share_cores(&mut self) {
        let mut left = self.hardware.cores * TICK_US;
        let mut asked = 0;
        for body in self.bodies.values_mut() {
            body.want_us = if body.frozen { 0 } else { TICK_US };
            let width = u64::from(body.plan.width);
            if body.frozen {
                body.got_us = 0;
            } else if body.backfills {
                asked += width * TICK_US;
            } else {
                left = left.saturating_sub(width * body.got_us);
            }
        }
        for body in self.bodies.values_mut().filter(|body| body.backfills && !body.frozen) {
            body.want_us = (TICK_US * left / asked).clamp(TICK_US * 3 / 1000, TICK_US);
        }
    }

    /// Moves up to `size` of any jobs' pages to swap; returns the moved amount.
    fn write_out(&mut self, size: u64) -> u64 {
        let mut left = size;
        // Protected jobs come last in any case.
        let others = |body: &Body| body.resident - body.resident.min(body.protected);
        let frozen = |body: &Body| if body.frozen { others(body) } else { 0 };
        let cold = |body: &Body| body.cold().min(others(body));
        let all = |body: &Body| body.resident;
        let passes: &[&dyn Fn(&Body) -> u64] =
            if self.hardware.strict_lru { &[&frozen, &cold, &others, &all] } else { &[&others, &all] };
        for pass in passes {
            let all: u64 = self.bodies.values().map(pass).sum();
            let share = left.min(all);
            if share == 0 {
                continue;
            }
            for body in self.bodies.values_mut() {
                let part = (u128::from(pass(body)) * u128::from(share)).div_ceil(u128::from(all));
                let part = u64::try_from(part).unwrap_or(u64::MAX).min(left).min(body.resident);
                body.resident -= part;
                body.swapped += part;
                left -= part;
            }
        }
        size - left
    }

    fn kill_largest(&mut self) {
        let largest = self.bodies.iter().max_by_key(|(job, body)| (body.total(), **job)).map(|(&job, _)| job);
        if let Some((job, body)) = largest.and_then(|job| self.bodies.remove_entry(&job)) {
            self.lost.insert(job);
            self.ended.insert(job, body.peak);
        }
    }

    /// The pager's demand for device time in a step.
    fn order_time(&self) -> u64 {
        match self.orders.front() {
            Some(order) if order.out => self.hardware.time_out(order.left).min(TICK_US),
            Some(order) => {
                let swapped = self.bodies.get(&order.job).map_or(0, |body| body.swapped);
                self.hardware.time_in(swapped).min(TICK_US)
            }
            None => 0,
        }
    }

    /// Executes the pager's orders.
    fn obey(&mut self, scale: u64) {
        let (free, swap_free) = (self.free(), self.swap_free());
        let now = self.now_us;
        let Some(order) = self.orders.front_mut() else { return };
        if order.began_us == 0 {
            order.began_us = now - TICK_US;
        }
        let rate = if order.out { self.hardware.out_rate } else { self.hardware.in_rate };
        let most = rate * TICK_US / 1_000_000 * scale / 1000;
        let mut moved = 0;
        if let Some(body) = self.bodies.get_mut(&order.job) {
            if order.out {
                moved = most.min(order.left).min(body.resident).min(swap_free);
                body.resident -= moved;
                body.swapped += moved;
                body.paged_out += moved;
            } else {
                moved = most.min(body.swapped).min(free);
                body.resident += moved;
                body.swapped -= moved;
            }
        }
        order.left -= moved;
        order.done += moved;
        if order.left == 0 || moved < most.max(1) {
            let Order { out, done, began_us, .. } = *order;
            self.orders.pop_front();
            if out && done >= 1 << 10 {
                let rate = done * 1_000_000 / (now - began_us).max(1);
                let before = self.measured_rate;
                let smoothed = if before == 0 { rate } else { before / 4 * 3 + rate / 4 };
                self.measured_rate = smoothed.max(1);
            }
        }
    }

    fn note(&mut self) {
        let running = self.bodies.values().filter(|body| !body.frozen);
        let least = running.map(|body| body.stalled_milli).min().unwrap_or(0);
        for body in self.bodies.values_mut().filter(|body| !body.frozen) {
            body.waited_us += TICK_US * body.stalled_milli / 1000;
        }
        self.stalled_us += TICK_US * least / 1000;
        let read: u64 = self.bodies.values().filter(|body| !body.frozen).map(|body| body.plan.read).sum();
        self.cache = (self.cache + read * TICK_US / 1_000_000).min(self.free());
    }
}

impl Hardware {
    fn time_out(&self, size: u64) -> u64 {
        size.saturating_mul(1_000_000) / self.out_rate.max(1)
    }

    fn time_in(&self, size: u64) -> u64 {
        size.saturating_mul(1_000_000) / self.in_rate.max(1)
    }

    /// The rate at which a single job reads its pages back, in KiB per second, with the device to itself.
    #[must_use]
    pub fn fault_rate(&self) -> u64 {
        let alone = (CLUSTER * 1_000_000).checked_div(self.latency_us).unwrap_or(u64::MAX);
        alone.min(self.in_rate).max(1)
    }
}
