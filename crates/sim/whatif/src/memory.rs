//! The memory of a host: jobs' memory over their progress, swap, and the cost of shortage.
//!
//! A job grows linearly to its peak over a first part of its work and stays there. A frozen job's memory moves to swap at
//! the policy's request, at the device's rate, and is read back as a whole before the job continues. When running jobs
//! exceed RAM, the kernel takes pages of frozen jobs first; beyond that all running jobs miss the same part of their
//! accesses and wait for the device. When swap is full as well, the largest job is killed.
//!
//! Absent: single pages, page cache, latency, shares of cores.

use std::collections::{BTreeMap, VecDeque};

use pinfold_cluster::job::Job;
use pinfold_cluster::{Micros, SECOND};

/// The memory that a running job touches in a second, in bytes.
const TOUCHED: u64 = 1 << 30;

/// The least page-out, in bytes, from which the daemon can measure the device's rate.
const MEASURED_MIN: u64 = 1 << 20;

/// Memory and swap of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hardware {
    /// RAM that jobs may hold, in bytes.
    pub ram: u64,
    /// Swap, in bytes.
    pub swap: u64,
    /// The swap device's write rate, in bytes a second, at least 1,
    pub out_rate: u64,
    /// and reads.
    pub in_rate: u64,
}

/// The memory of a job.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Body {
    /// Its peak.
    pub peak: u64,
    /// Its memory now, swap included.
    pub held: u64,
    /// The part of `held` in swap, and out of use.
    pub swapped: u64,
    /// Whether it is suspended.
    pub frozen: bool,
    /// Its present growth in a second.
    pub growth: u64,
}

impl Body {
    fn resident(&self) -> u64 {
        self.held - self.swapped
    }
}

/// The part of its work over which a job grows, in microseconds.
pub(crate) fn ramp_us(job: &Job) -> u128 {
    u128::from(job.run_us) * u128::from(job.ramp_milli) / 1000
}

/// The memory of a job with this peak after `done_us` of its work.
pub(crate) fn held_at(peak: u64, done_us: u128, job: &Job) -> u64 {
    let ramp = ramp_us(job);
    if done_us >= ramp { peak } else { u64::try_from(u128::from(peak) * done_us / ramp).unwrap_or(peak) }
}

/// An order to the pager, which executes orders in turn.
#[derive(Debug, Clone, Copy)]
struct Order {
    index: usize,
    out: bool,
    left: u64,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Memory {
    pub hardware: Hardware,
    pub bodies: BTreeMap<usize, Body>,
    orders: VecDeque<Order>,
    /// Memory of running jobs beyond RAM.
    short: u64,
    /// Bytes moved to swap in all.
    pub paged: u64,
    /// The daemon's measurement of the device's write rate, in bytes a second; 0: no page-out yet.
    pub measured_rate: u64,
    pub settled_us: Micros,
}

impl Memory {
    pub(crate) fn new(hardware: Hardware) -> Self {
        Self {
            hardware,
            bodies: BTreeMap::new(),
            orders: VecDeque::new(),
            short: 0,
            paged: 0,
            measured_rate: 0,
            settled_us: 0,
        }
    }

    /// The memory of all jobs in RAM, if RAM sufficed.
    fn resident(&self) -> u64 {
        total(self.bodies.values().map(Body::resident))
    }

    /// RAM that no job holds.
    pub(crate) fn free(&self) -> u64 {
        self.hardware.ram.saturating_sub(self.resident())
    }

    /// Jobs' memory in swap and out of use.
    fn used(&self) -> u64 {
        total(self.bodies.values().map(|body| body.swapped))
    }

    pub(crate) fn swap_free(&self) -> u64 {
        self.hardware.swap.saturating_sub(self.used()).saturating_sub(self.short)
    }

    /// A job's memory in swap, with its share of the shortage.
    pub(crate) fn swapped(&self, body: &Body) -> u64 {
        let part = u128::from(self.short) * u128::from(body.resident()) / u128::from(self.resident().max(1));
        body.swapped + u64::try_from(part).unwrap_or(0)
    }

    /// In RAM and in swap, of all jobs.
    pub(crate) fn held(&self) -> (u64, u64) {
        (self.resident().min(self.hardware.ram), self.used().saturating_add(self.short))
    }

    /// Whether the pager works, or jobs lack memory.
    pub(crate) fn is_busy(&self) -> bool {
        !self.orders.is_empty() || self.short > 0
    }

    pub(crate) fn freeze(&mut self, index: usize) {
        self.orders.retain(|order| order.index != index || order.out);
        if let Some(body) = self.bodies.get_mut(&index) {
            body.frozen = true;
        }
    }

    /// A job continues as soon as its memory is read back from swap.
    pub(crate) fn thaw(&mut self, index: usize) {
        self.orders.retain(|order| order.index != index);
        if let Some(body) = self.bodies.get_mut(&index) {
            body.frozen = false;
            if body.swapped > 0 {
                self.orders.push_back(Order { index, out: false, left: body.swapped });
            }
        }
    }

    /// Orders a job's memory moved to swap. No effect on a running job, which touches all its memory.
    pub(crate) fn page_out(&mut self, index: usize, bytes: u64) {
        if self.bodies.get(&index).is_some_and(|body| body.frozen) {
            self.orders.push_back(Order { index, out: true, left: bytes });
        }
    }

    /// Removes a job; the shortage of others shrinks.
    pub(crate) fn remove(&mut self, index: usize) {
        self.orders.retain(|order| order.index != index);
        self.bodies.remove(&index);
        self.relieve();
    }

    /// Runs the pager until now. Jobs' memory was updated before.
    pub(crate) fn settle(&mut self, now_us: Micros) {
        let mut left_us = now_us - std::mem::replace(&mut self.settled_us, now_us);
        while left_us > 0
            && let Some(order) = self.orders.front().copied()
        {
            let rate = self.rate(order.out);
            let most = u64::try_from(u128::from(rate) * u128::from(left_us) / u128::from(SECOND));
            let room = if order.out { self.swap_free() } else { u64::MAX };
            let Some(body) = self.bodies.get_mut(&order.index) else {
                self.orders.pop_front();
                continue;
            };
            let there = if order.out { body.resident().min(room) } else { body.swapped };
            let moved = most.unwrap_or(u64::MAX).min(order.left).min(there);
            if order.out {
                body.swapped += moved;
                self.paged = self.paged.saturating_add(moved);
                self.measured_rate = if moved < MEASURED_MIN { self.measured_rate } else { rate };
            } else {
                body.swapped -= moved;
            }
            left_us -= took_us(moved, rate).min(left_us);
            if moved == order.left || moved == there {
                self.orders.pop_front();
            } else {
                self.orders[0].left -= moved;
                break;
            }
        }
        self.relieve();
    }

    /// Moves pages of frozen jobs out for running jobs; running jobs lack the rest.
    fn relieve(&mut self) {
        let mut lacking = self.resident().saturating_sub(self.hardware.ram);
        let mut room = self.hardware.swap.saturating_sub(self.used());
        for body in self.bodies.values_mut().filter(|body| body.frozen) {
            let moved = lacking.min(body.resident()).min(room);
            body.swapped += moved;
            self.paged = self.paged.saturating_add(moved);
            (lacking, room) = (lacking - moved, room - moved);
        }
        self.paged = self.paged.saturating_add(lacking.saturating_sub(self.short));
        self.short = lacking;
    }

    /// The job that the kernel kills, if neither RAM nor swap has room.
    pub(crate) fn killed(&self) -> Option<usize> {
        let over = self.short > 0 && self.short > self.hardware.swap.saturating_sub(self.used());
        let largest = || self.bodies.iter().max_by_key(|(index, body)| (body.held, **index));
        over.then(largest).flatten().map(|(&index, _)| index)
    }

    /// The part of its speed that a job has for want of memory, in thousandths.
    pub(crate) fn speed_milli(&self, index: usize) -> u64 {
        let Some(body) = self.bodies.get(&index) else { return 1000 };
        if body.frozen || body.swapped > 0 {
            return 0;
        }
        if self.short == 0 {
            return 1000;
        }
        let running = self.bodies.values().filter(|body| !body.frozen && body.swapped == 0);
        let (count, held) =
            running.fold((0, 0_u64), |(count, held), body| (count + 1, held.saturating_add(body.held)));
        let missed = u128::from(TOUCHED) * count * u128::from(self.short) / u128::from(held.max(1));
        u64::try_from(u128::from(self.hardware.in_rate) * 1000 / missed.max(1)).unwrap_or(1000).clamp(1, 1000)
    }

    /// The part of the time in which all that run wait for memory, in thousandths.
    pub(crate) fn stalled_milli(&self) -> u16 {
        let mut running = self.bodies.iter().filter(|(_, body)| !body.frozen && body.swapped == 0);
        // All running jobs lack the same part of their accesses.
        let speed =
            running.next().filter(|_| self.short > 0).map_or(1000, |(&index, _)| self.speed_milli(index));
        u16::try_from(1000 - speed.min(1000)).unwrap_or(1000)
    }

    /// The growth of all jobs in a second.
    pub(crate) fn growth(&self) -> u64 {
        total(self.bodies.values().map(|body| body.growth))
    }

    /// The time until the next change: the pager completes an order, or RAM is full.
    pub(crate) fn next_us(&self) -> Option<Micros> {
        let order = self.orders.front().map(|order| {
            let body = self.bodies.get(&order.index).copied().unwrap_or_default();
            let there = if order.out { body.resident().min(self.swap_free()) } else { body.swapped };
            took_us(order.left.min(there), self.rate(order.out)).max(1)
        });
        let growth = self.growth();
        let full = (growth > 0).then(|| match self.free() {
            // From there on it is looked at each second.
            0 => SECOND,
            free => took_us(free, growth).max(1),
        });
        order.into_iter().chain(full).min()
    }

    fn rate(&self, out: bool) -> u64 {
        if out { self.hardware.out_rate } else { self.hardware.in_rate }
    }
}

/// The sum, saturating: a list may give several jobs absurd sizes.
fn total(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

/// The time for these bytes, rounded up.
fn took_us(bytes: u64, rate: u64) -> Micros {
    u64::try_from((u128::from(bytes) * u128::from(SECOND)).div_ceil(u128::from(rate.max(1))))
        .unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Running jobs of this size on 10 bytes of RAM.
    fn memory(swap: u64, held: &[u64]) -> Memory {
        let mut memory = Memory::new(Hardware { ram: 10, swap, out_rate: 1, in_rate: 1 });
        let body = |&held: &u64| Body { peak: held, held, ..Body::default() };
        memory.bodies = held.iter().map(body).enumerate().collect();
        memory.settle(0);
        memory
    }

    #[test]
    fn the_kernel_kills_no_more_jobs_than_it_has_to() {
        let mut memory = memory(1, &[6, 7]);
        assert_eq!(memory.killed(), Some(1));
        memory.remove(1);
        assert_eq!((memory.killed(), memory.free(), memory.swap_free()), (None, 4, 1));
    }

    #[test]
    fn no_more_is_in_swap_than_it_holds() {
        let mut memory = memory(4, &[6, 9, 6]);
        memory.freeze(0);
        assert_eq!(memory.killed(), Some(1));
        memory.remove(1);
        // Two are lacking, for which a frozen job makes room.
        assert_eq!((memory.killed(), memory.held()), (None, (10, 2)));
        assert_eq!(memory.speed_milli(2), 1000);
    }

    #[test]
    fn sizes_beyond_measure_are_no_panic() {
        let mut memory = memory(100, &[u64::MAX, u64::MAX]);
        memory.bodies.values_mut().for_each(|body| body.growth = u64::MAX);
        memory.freeze(0);
        memory.settle(SECOND);
        assert_eq!(memory.growth(), u64::MAX);
        assert!(memory.next_us().is_some() && memory.killed().is_some(), "{memory:?}");
        assert_eq!((memory.free(), memory.speed_milli(1)), (0, 1));
    }
}
