//! Readings of memory as the simulated daemon takes them: now and then, a little late, a little wrong, some not at all.

use pinfold_policy::{Event, JobMemory, MemorySample};

use crate::pressure::host::{Happening, Host};
use crate::violation::Violation;

/// Readings are taken this often,
pub(super) const RELAXED_US: u64 = 1_000_000;
/// and this often when the policy finds memory tight.
const TIGHT_US: u64 = 100_000;

impl Host {
    /// Takes readings if they are due, and reports them with their age.
    pub(crate) fn read_if_due(&mut self) -> Result<(), Violation> {
        let now = self.world.now_us();
        if self.due_us.is_none_or(|due| due > now) || self.policy.is_none() {
            return Ok(());
        }
        self.due_us = None;
        let elapsed = (now - self.read_us).max(1);
        self.read_us = now;
        let sample = self.reading(elapsed);
        self.readings += 1;
        if self.dice.chance(self.options.missing_permille) {
            return Ok(());
        }
        let lag = self.dice.between(0, self.options.lag_us);
        if lag == 0 {
            return self.deliver(Event::Memory(sample));
        }
        let generation = self.generation;
        self.plan(lag, Happening::Report(generation, Box::new(Event::Memory(sample))));
        Ok(())
    }

    pub(super) fn reading(&mut self, elapsed_us: u64) -> MemorySample {
        let mut jobs = Vec::with_capacity(self.world.bodies.len());
        for (&job, body) in &mut self.world.bodies {
            if self.options.missing_permille > 0 && self.dice.chance(self.options.missing_permille) {
                continue;
            }
            let lie = self.options.lie_permille;
            let milli = if lie == 0 { 1000 } else { self.dice.between(1000 - lie, 1000 + lie) };
            let resident_bytes = (body.resident << 10) / 1000 * milli;
            let swapped_bytes = body.swapped << 10;
            let waited_us = body.waited_us - std::mem::replace(&mut body.waited_told_us, body.waited_us);
            let waited_milli = u16::try_from((waited_us * 1000 / elapsed_us).min(1000)).unwrap_or(1000);
            let waited_milli = Some(waited_milli).filter(|_| self.options.stall_readings);
            jobs.push(JobMemory { job, resident_bytes, swapped_bytes, cache_bytes: 0, waited_milli });
        }
        let uncounted = self.world.cache() * self.options.cache_permille / 1000;
        let free = self.world.free() + self.options.outside - uncounted;
        let stalled = self.world.stalled_us - std::mem::replace(&mut self.stalled_us, self.world.stalled_us);
        let stalled_milli =
            if self.options.stall_readings { (stalled * 1000 / elapsed_us).min(1000) } else { 0 };
        MemorySample {
            available_bytes: free.saturating_sub(self.options.reserve) << 10,
            swap_free_bytes: self.world.swap_free() << 10,
            swap_bytes_per_s: self.world.measured_rate << 10,
            stalled_milli: u16::try_from(stalled_milli).unwrap_or(1000),
            jobs,
        }
    }

    /// Sets the timer of the readings, as the daemon does after each turn.
    pub(crate) fn schedule(&mut self) {
        let Some(policy) = &self.policy else { return };
        if self.world.bodies.is_empty() {
            (self.due_us, self.stalled_us) = (None, self.world.stalled_us);
            return;
        }
        let pace = if policy.memory_is_tight() { TIGHT_US } else { RELAXED_US };
        let due = self.read_us.max(self.world.now_us().saturating_sub(RELAXED_US)) + pace;
        self.due_us = Some(self.due_us.map_or(due, |earlier| earlier.min(due)));
    }
}
