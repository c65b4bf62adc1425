//! The memory of one job: what it holds, how fast it grows, and the size classes that jobs queue in.
//!
//! All sizes are bytes, and page cache is in none of them: the kernel takes it back when it is needed.

use std::collections::VecDeque;
use std::time::Duration;

use crate::api::{Instant, JobMemory};
use crate::jobs::cold::Cold;
use crate::jobs::job::Job;

impl Job {
    /// What of a cool job can be moved out at the most.
    pub(crate) fn can_give(&self) -> u64 {
        self.held.resident.saturating_sub(WORTH_BYTES)
    }
}

/// Nobody below this is frozen for memory or paged out: it would not help.
pub(crate) const WORTH_BYTES: u64 = 4 << 20;

impl Footprint {
    /// Whether most of it is in swap.
    pub(crate) fn is_parked(&self) -> bool {
        self.swapped > self.resident
    }
}

/// Growth is looked at over this long,
const SHORT: Duration = Duration::from_secs(1);
/// and over this long; the larger counts, so that neither a burst nor a slow leak is missed.
const LONG: Duration = Duration::from_secs(5);

/// Readings closer together than this are not both kept.
const SPACING: Duration = Duration::from_millis(200);

/// What is known of one job's memory.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Footprint {
    pub(crate) resident: u64,
    pub(crate) swapped: u64,
    pub(crate) cache: u64,
    /// The most it held, swap included,
    pub(crate) peak: u64,
    /// and the most of that which was not cold.
    pub(crate) need_peak: u64,
    /// Its cold memory.
    pub(crate) cold: Cold,
    /// By how much it grows in a second; 0 when it does not.
    pub(crate) growth: u64,
    /// By how much it grew in a second at the last readings alone.
    pub(crate) growth_now: u64,
    /// By how much it grew when it was frozen.
    pub(crate) growth_before: u64,
    /// When it last returned.
    pub(crate) resumed: Instant,
    /// Not to be frozen for memory before this, so that a return is worth its cost.
    pub(crate) runs_until: Instant,
    /// Not to return before this, unless nothing else runs; grows with each freeze.
    pub(crate) rests_until: Instant,
    /// How often it was frozen for memory.
    pub(crate) freezes: u32,
    /// It is suspended because a project wants memory that its pool borrowed.
    pub(crate) taken_back: bool,
    /// It was to be suspended, and grew from the last reading but one to the last.
    pub(crate) settling: bool,
    /// It started before what all were expected to need fitted.
    pub(crate) early: bool,
    /// Not to be slowed again before this.
    pub(crate) slowed_until: Option<Instant>,
    recent: VecDeque<(Instant, u64)>,
}

impl Footprint {
    /// All it holds.
    pub(crate) fn total(&self) -> u64 {
        self.resident.saturating_add(self.swapped)
    }

    /// What of it must be in RAM, as far as is known.
    pub(crate) fn needs(&self) -> u64 {
        self.total().saturating_sub(self.cold.bytes())
    }

    /// What of it must come back from swap before it gets on.
    pub(crate) fn missing(&self) -> u64 {
        self.swapped.saturating_sub(self.cold.bytes())
    }

    /// Takes a reading in; `runs`: it is neither suspended nor comes back from swap.
    pub(crate) fn read(&mut self, now: Instant, memory: &JobMemory, runs: bool) {
        (self.resident, self.swapped) = (memory.resident_bytes, memory.swapped_bytes);
        self.cache = memory.cache_bytes;
        if runs {
            self.cold.read(now, self.swapped, memory.waited_milli);
        } else {
            self.cold.rests(self.swapped);
        }
        let total = self.total();
        self.peak = self.peak.max(total);
        self.need_peak = self.need_peak.max(self.needs());
        let over = |span: Duration| {
            // The youngest reading that is at least so old; a younger job is looked at since its first one.
            let old = self.recent.iter().rev().find(|(at, _)| now.since(*at) >= span).or(self.recent.front());
            old.map_or(0, |&(at, was)| per_second(total.saturating_sub(was), now.since(at).max(SPACING)))
        };
        (self.growth, self.growth_now) = (over(SHORT).max(over(LONG)), over(SPACING));
        if self.recent.back().is_none_or(|(at, _)| now.since(*at) >= SPACING) {
            self.recent.push_back((now, total));
        }
        while self.recent.get(1).is_some_and(|(at, _)| now.since(*at) >= LONG) {
            self.recent.pop_front();
        }
    }

    /// It holds nothing any more, and will come to hold as much as it did.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self { peak: self.peak, need_peak: self.need_peak, ..Self::default() };
    }

    /// Whether it grew before it was suspended, and two readings have not said yet whether it does again.
    pub(crate) fn grows_unseen(&self) -> bool {
        self.growth_before > 0 && self.recent.len() < 2
    }

    /// It is suspended or comes back: what it grew by before says nothing.
    pub(crate) fn forget_growth(&mut self) {
        self.growth_before = self.growth_before.max(self.growth);
        (self.growth, self.growth_now) = (0, 0);
        self.recent.clear();
    }
}

fn per_second(bytes: u64, time: Duration) -> u64 {
    let micros = u128::from(bytes) * 1_000_000 / time.as_micros().max(1);
    u64::try_from(micros).unwrap_or(u64::MAX)
}

/// The bytes that a growth makes in `time`.
pub(crate) fn grown(per_second: u64, time: Duration) -> u64 {
    u64::try_from(u128::from(per_second) * time.as_micros() / 1_000_000).unwrap_or(u64::MAX)
}

/// The size class of a claim, eight to each power of two, for finding a job that fits without looking at all; 0 is
/// no claim. The largest size of a class is [`bucket_ceiling`].
pub(crate) fn bucket(bytes: u64) -> u16 {
    if bytes == 0 {
        return 0;
    }
    // In MiB, less one: up to 8 MiB each has its class.
    let above = (bytes - 1) >> 20;
    let class = if above < 8 {
        1 + above
    } else {
        let octave = u64::from(above.ilog2());
        9 + (octave - 3) * 8 + ((above >> (octave - 3)) & 7)
    };
    u16::try_from(class).expect("44 octaves of 8")
}

/// The largest size of a class.
pub(crate) fn bucket_ceiling(bucket: u16) -> u64 {
    match u64::from(bucket) {
        0 => 0,
        class @ 1..9 => class << 20,
        class => {
            let (octave, eighth) = ((class - 9) / 8, (class - 9) % 8);
            u64::try_from(u128::from(8 + eighth + 1) << (octave + 20)).unwrap_or(u64::MAX)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::JobId;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1000)
    }

    fn read(held: &mut Footprint, ms: u64, mib: u64) {
        held.read(
            at(ms),
            &JobMemory {
                job: JobId(1),
                resident_bytes: mib << 20,
                swapped_bytes: 0,
                cache_bytes: 0,
                waited_milli: None,
            },
            true,
        );
    }

    #[test]
    fn growth_is_the_larger_of_the_last_second_and_the_last_five() {
        let mut held = Footprint::default();
        for step in 0..60 {
            read(&mut held, step * 100, 100 + step * 10);
        }
        assert_eq!(held.growth >> 20, 100);
        // It stops: the last second forgets it first, the last five only then.
        for step in 60..75 {
            read(&mut held, step * 100, 690);
        }
        assert!((60..80).contains(&(held.growth >> 20)), "{}", held.growth >> 20);
        for step in 75..140 {
            read(&mut held, step * 100, 690);
        }
        assert_eq!(held.growth, 0);
        assert_eq!(held.peak >> 20, 690);
    }

    #[test]
    fn what_goes_to_swap_has_not_grown() {
        let mut held = Footprint::default();
        for step in 0..20 {
            let moved = step * 5;
            held.read(
                at(step * 100),
                &JobMemory {
                    job: JobId(1),
                    resident_bytes: (500 - moved) << 20,
                    swapped_bytes: moved << 20,
                    cache_bytes: 0,
                    waited_milli: None,
                },
                true,
            );
        }
        assert_eq!((held.growth, held.total() >> 20), (0, 500));
    }

    #[test]
    fn size_classes_hold_what_they_say() {
        let mut last = 0;
        for mib in [0u64, 1, 2, 3, 4, 5, 7, 8, 9, 100, 512, 700, 1024, 1025, 1 << 20, 1 << 43] {
            for bytes in [mib << 20, (mib << 20) + 1] {
                let class = bucket(bytes);
                assert!(class >= last, "{bytes} goes down");
                last = class;
                assert!(bucket_ceiling(class) >= bytes, "{bytes} in {class}: {}", bucket_ceiling(class));
                if bytes > 8 << 20 {
                    assert!(bucket_ceiling(class) <= bytes + bytes / 7, "{bytes} in {class} is too wide");
                }
            }
        }
        assert_eq!(bucket_ceiling(bucket(512 << 20)), 512 << 20);
    }
}
