//! What a running job has in swap and does not refault, job by job.
//!
//! A program may hold far more than it uses: what it read at its start, what it leaks. Which pages it will touch cannot
//! be seen from outside; but the kernel moves those first that were not used for longest, and tells for what part of
//! the time the job waited for memory. So when memory will be short within some seconds, a little is moved out of
//! running jobs (the *reclaim probe*). A job that runs as before is *cold-tolerant*: what it has in swap is *cold* and
//! does not count as needed. A job that begins to wait is *refaulting*: all it holds counts again, and it and its class
//! are left alone for a while, twice as long after each time (the feedback of Weiner et al., TMO: Transparent Memory
//! Offloading in Datacenters, ASPLOS 2022, on the host's own shortage instead of all the time).

use std::time::Duration;

use pinfold_topo::backoff::Backoff;

use crate::api::Instant;
use crate::jobs::footprint::WORTH_BYTES;

/// Over this long the part of the time is told in which a job waited.
const WINDOW: Duration = Duration::from_secs(1);

/// Who waited for less of it, in thousandths, gets on,
const CALM_MILLI: u32 = 50;
/// for so long,
const CALM_FOR: Duration = Duration::from_secs(1);
/// and who waits for more does not.
const WARM_MILLI: u32 = 100;

/// A job that was warm is left alone for so long, twice as long after each further time.
pub(crate) const REST: Backoff = Backoff::new(Duration::from_secs(30), Duration::from_secs(30 << 6));

/// Who got on for so long before he missed what went out was worth it: his like are not left alone for that.
const WORTHWHILE: Duration = Duration::from_secs(5);

/// However little one got on with, the next of its kind is expected to need this part, in thousandths.
const PART_MIN_MILLI: u16 = 125;

/// What is known of one job.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Cold {
    /// Its cold memory: what it has in swap and does not refault, in bytes.
    pub(crate) bytes: u64,
    /// For what part of the window it waited for memory, in thousandths.
    pub(crate) waited_milli: u32,
    /// When that was told; `None`: it was not.
    pub(crate) read: Option<Instant>,
    /// Since when it has pages in swap and hardly waits.
    pub(crate) calm: Option<Instant>,
    /// When it was probed.
    pub(crate) probed: Option<Instant>,
    /// Not to be probed before this.
    pub(crate) rests_until: Option<Instant>,
    /// How often it was warm,
    pub(crate) times: u32,
    /// and whether it got on for long before, the last time.
    pub(crate) worthwhile: bool,
    /// The least part of what it held that was needed, in thousandths, since it was last warm.
    pub(crate) part: Option<u16>,
}

impl Cold {
    /// Its cold memory: what it has in swap and does not refault, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How often it missed what had gone out.
    pub(crate) fn times(&self) -> u32 {
        self.times
    }

    /// Whether it is cold-tolerant.
    pub(crate) fn is_cool(&self) -> bool {
        self.bytes >= WORTH_BYTES
    }

    /// A job that runs has so much in swap, and waited for memory for so much of the time since the last reading.
    pub(crate) fn read(&mut self, now: Instant, swapped: u64, waited_milli: Option<u16>) {
        let Some(waited) = waited_milli else { return self.forget() };
        let window = WINDOW.as_micros();
        let since = self.read.map_or(window, |at| now.since(at).as_micros().min(window));
        let mean = u128::from(self.waited_milli) * (window - since) + u128::from(waited) * since;
        self.waited_milli = u32::try_from(mean / window).unwrap_or(u32::MAX);
        self.read = Some(now);
        // It touched all that a probe moved, however quickly that was there again.
        let came_back = swapped < WORTH_BYTES
            && self.probed.is_some_and(|at| now.since(at) >= CALM_FOR)
            && self.bytes == 0;
        let asked = swapped >= WORTH_BYTES || self.probed.is_some();
        if came_back || (asked && self.waited_milli > WARM_MILLI) {
            self.turns_warm(now);
        } else if swapped < WORTH_BYTES {
            (self.calm, self.bytes) = (None, 0);
        } else if self.waited_milli <= CALM_MILLI {
            let calm = *self.calm.get_or_insert(now);
            self.bytes = if now.since(calm) >= CALM_FOR { swapped } else { self.bytes.min(swapped) };
        } else {
            self.bytes = self.bytes.min(swapped);
        }
    }

    /// It waits for what went out: all it holds counts again, and it is left alone for a while.
    fn turns_warm(&mut self, now: Instant) {
        if self.is_cool() || self.probed.is_some() {
            self.rests_until = Some(now.after(REST.after(self.times)));
            self.times += 1;
            self.worthwhile = self.calm.is_some_and(|since| now.since(since) >= WORTHWHILE);
        }
        (self.bytes, self.calm, self.probed, self.part) = (0, None, None, None);
    }

    /// It runs and holds so much: takes in what part of that it needs, if some is cold.
    pub(crate) fn note_part(&mut self, total: u64) -> Option<u16> {
        if !self.is_cool() {
            return None;
        }
        let part = u128::from(total.saturating_sub(self.bytes)) * 1000 / u128::from(total.max(1));
        let part = u16::try_from(part).unwrap_or(1000).max(PART_MIN_MILLI);
        self.part = Some(self.part.map_or(part, |least| least.min(part)));
        self.part
    }

    /// It is suspended or comes back from swap, and has so much there: what was cold before stays cold.
    pub(crate) fn rests(&mut self, swapped: u64) {
        let bytes = self.bytes.min(swapped);
        self.forget();
        self.bytes = bytes;
    }

    /// Nobody tells how long it waits.
    fn forget(&mut self) {
        (self.bytes, self.waited_milli, self.read, self.calm, self.probed) = (0, 0, None, None, None);
    }

    pub(crate) fn may_be_probed(&self, now: Instant) -> bool {
        let rested = self.rests_until.is_none_or(|until| now >= until);
        let asked = self.probed.is_some_and(|at| now.since(at) < CALM_FOR * 2);
        self.read.is_some() && rested && !asked && self.waited_milli <= CALM_MILLI && !self.is_cool()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn read_for(cold: &mut Cold, from_ms: u64, to_ms: u64, swapped: u64, waited: u16) {
        for ms in (from_ms..to_ms).step_by(100) {
            cold.read(Instant(ms * 1000), swapped * MIB, Some(waited));
        }
    }

    #[test]
    fn who_gets_on_for_a_second_is_cool() {
        let mut cold = Cold { probed: Some(Instant(0)), ..Cold::default() };
        read_for(&mut cold, 0, 1000, 40, 10);
        assert!(!cold.is_cool());
        read_for(&mut cold, 1000, 1200, 40, 10);
        assert_eq!(cold.bytes(), 40 * MIB);
        // What goes out from then on is cold at once, what comes back is not.
        read_for(&mut cold, 1200, 1300, 90, 10);
        assert_eq!(cold.bytes(), 90 * MIB);
        read_for(&mut cold, 1300, 1400, 70, 80);
        assert_eq!(cold.bytes(), 70 * MIB);
    }

    #[test]
    fn who_waits_is_warm_and_left_alone_for_twice_as_long_each_time() {
        let mut cold = Cold { probed: Some(Instant(0)), ..Cold::default() };
        read_for(&mut cold, 0, 1500, 40, 10);
        read_for(&mut cold, 1500, 2500, 40, 400);
        assert!(!cold.is_cool());
        let until = cold.rests_until.unwrap();
        assert!(
            Instant(1_500_000).after(REST.after(0)) < until
                && until < Instant(2_500_000).after(REST.after(0))
        );
        cold.probed = Some(until);
        let again = until.0 / 1000;
        read_for(&mut cold, again, again + 1000, 40, 400);
        assert!(cold.rests_until.unwrap() >= until.after(REST.after(1)));
    }

    #[test]
    fn who_missed_something_at_last_got_on_for_long() {
        for (calm_ms, worthwhile) in [(3000, false), (6000, true)] {
            let mut cold = Cold { probed: Some(Instant(0)), ..Cold::default() };
            read_for(&mut cold, 0, calm_ms, 40, 10);
            read_for(&mut cold, calm_ms, calm_ms + 1000, 40, 400);
            assert_eq!((cold.is_cool(), cold.times, cold.worthwhile), (false, 1, worthwhile));
        }
    }

    #[test]
    fn nobody_is_cool_of_whom_the_kernel_does_not_tell() {
        let mut cold = Cold::default();
        read_for(&mut cold, 0, 1500, 40, 0);
        assert!(cold.is_cool());
        cold.read(Instant(1_600_000), 40 * MIB, None);
        assert!(!cold.is_cool() && !cold.may_be_probed(Instant(1_600_000)));
    }
}
