//! Jobs' memory over their own progress, and their accesses to it.
//!
//! Absent: the host, the kernel, time: a suspended job keeps its memory.

use crate::dice::Dice;
use crate::pressure::body::ALLOC_TICK;

/// The memory of a job over its progress. Sizes in KiB, parts of the progress in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Footprint {
    /// All of it from the beginning.
    Flat,
    /// More and more, from `base` on: also a leak.
    Linear {
        /// The initial size.
        base: u64,
    },
    /// `base`, and all of it from a point on.
    Step {
        /// The initial size.
        base: u64,
        /// The progress at which the rest is allocated.
        at_milli: u64,
    },
    /// Up and down again.
    SawTooth {
        /// The size at the end of each tooth.
        low: u64,
        /// The number of teeth.
        teeth: u64,
    },
    /// Grows for a part of its progress and then varies within its size.
    Walk {
        /// For how long it grows.
        grow_milli: u64,
    },
    /// `base`, and once, for a moment, all of it.
    Spike {
        /// The size beside that moment.
        base: u64,
        /// When.
        at_milli: u64,
        /// The length of the moment.
        for_us: u64,
    },
}

/// A job: its computing and its memory meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Its length when nothing disturbs it, in microseconds; allocating comes on top.
    pub work_us: u64,
    /// The most it holds, in KiB.
    pub peak: u64,
    /// Its memory over its progress.
    pub footprint: Footprint,
    /// The part of its memory that it touches repeatedly, in thousandths.
    pub hot_milli: u64,
    /// The touched memory in a millisecond, in KiB.
    pub touch: u64,
    /// Reads of files in a second, in KiB; the kernel keeps them cached while it has room.
    pub read: u64,
    /// The cores it uses.
    pub width: u32,
}

impl Plan {
    /// The memory after `done_us` of its work, in KiB.
    #[must_use]
    pub fn at(&self, done_us: u64) -> u64 {
        let (peak, work) = (self.peak, self.work_us.max(1));
        let done = done_us.min(work);
        let rise = |from: u64, part: u64, whole: u64| {
            from + peak.saturating_sub(from) * part.min(whole) / whole.max(1)
        };
        let after = |milli: u64| work * milli / 1000;
        match self.footprint {
            Footprint::Flat => peak,
            Footprint::Linear { base } => rise(base, done, work),
            Footprint::Step { base, at_milli } => {
                if done < after(at_milli) {
                    base
                } else {
                    peak
                }
            }
            Footprint::SawTooth { low, teeth } => {
                let tooth = (work / teeth.max(1)).max(1);
                rise(low, done % tooth, tooth)
            }
            Footprint::Walk { grow_milli } => rise(0, done, after(grow_milli)),
            Footprint::Spike { base, at_milli, for_us } => {
                let begin = after(at_milli);
                if (begin..begin + for_us).contains(&done) { peak } else { base }
            }
        }
    }

    /// An upper bound on its time alone on a host, in steps of `tick_us`: computing, and the kernel's allocation of memory.
    #[must_use]
    pub fn alone_us(&self, tick_us: u64) -> u64 {
        let rises = if let Footprint::SawTooth { teeth, .. } = self.footprint { teeth } else { 1 };
        self.work_us + rises * (self.peak / ALLOC_TICK + 2) * tick_us
    }

    /// A job of about this length and at most this size.
    pub fn draw(dice: &mut Dice, work_us: u64, peak: u64, shapes: &[u8]) -> Self {
        let base = peak / dice.between(2, 20);
        let footprint = match dice.pick(shapes) {
            0 => Footprint::Flat,
            1 => Footprint::Linear { base },
            2 => Footprint::Step { base, at_milli: dice.between(50, 950) },
            3 => Footprint::SawTooth { low: base, teeth: dice.between(2, 8) },
            4 => Footprint::Walk { grow_milli: dice.between(50, 600) },
            _ => Footprint::Spike { base, at_milli: dice.between(50, 900), for_us: 50_000 },
        };
        let walks = matches!(footprint, Footprint::Walk { .. });
        Self {
            work_us,
            peak,
            footprint,
            hot_milli: if walks { 1000 } else { dice.pick(&[50, 200, 500, 1000]) },
            touch: dice.pick(&[4, 40, 400, 4000]),
            read: if dice.chance(150) { dice.between(10 << 10, 400 << 10) } else { 0 },
            width: 1,
        }
    }

    /// The same program again, a little longer or shorter.
    #[must_use]
    pub fn again(&self, dice: &mut Dice, peak: u64) -> Self {
        let work_us = (self.work_us * dice.between(950, 1050) / 1000).max(1);
        let scale = |base: u64| base.min(peak);
        let footprint = match self.footprint {
            Footprint::Linear { base } => Footprint::Linear { base: scale(base) },
            Footprint::Step { base, at_milli } => Footprint::Step { base: scale(base), at_milli },
            Footprint::SawTooth { low, teeth } => Footprint::SawTooth { low: scale(low), teeth },
            Footprint::Spike { base, at_milli, for_us } => {
                Footprint::Spike { base: scale(base), at_milli, for_us }
            }
            other => other,
        };
        Self { work_us, peak, footprint, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(footprint: Footprint, want: [u64; 5]) {
        let plan = Plan { work_us: 1000, peak: 800, footprint, hot_milli: 1000, touch: 1, read: 0, width: 1 };
        assert_eq!([0, 250, 500, 900, 1000].map(|done| plan.at(done)), want, "{footprint:?}");
    }

    #[test]
    fn footprints_follow_the_progress() {
        check(Footprint::Flat, [800; 5]);
        check(Footprint::Linear { base: 0 }, [0, 200, 400, 720, 800]);
        check(Footprint::Step { base: 10, at_milli: 500 }, [10, 10, 800, 800, 800]);
        check(Footprint::SawTooth { low: 400, teeth: 2 }, [400, 600, 400, 720, 400]);
        check(Footprint::Walk { grow_milli: 500 }, [0, 400, 800, 800, 800]);
        check(Footprint::Spike { base: 10, at_milli: 240, for_us: 50 }, [10, 800, 10, 10, 10]);
    }
}
