//! When a run held how much: the readings of its memory, as far as an allocation that is only raised has to follow
//! them.
//!
//! An allocation that never falls covers a run if it is at each moment as large as the most that the run has held so
//! far. So a curve keeps the moments at which a run held more than ever before, and the sum of all that it held.
//! Absent: how readings are taken, and what was allocated.

use crate::types::GB;

/// A reading this close to the peak is the moment of the peak.
const PEAK_SEEN: f64 = 0.9;
/// Rises below this share of the peak count as one where curves are kept.
const FINE: f64 = 1.0 / 32.0;

/// A run held more than ever before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rise {
    /// The reading before: it may have held it since then, in seconds from its start.
    pub(super) since_s: f64,
    /// The reading that showed it.
    pub(super) seen_s: f64,
    pub(super) bytes: f64,
}

/// How the memory of one run grew over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// In ascending order of time and of bytes; at least one.
    rises: Vec<Rise>,
    wall_s: f64,
    used_byte_s: f64,
}

impl Curve {
    /// From readings, as seconds since the start and bytes, in their order. A reading holds until the next one, the
    /// first one from the start on, the last one until the end at `wall_s`. Readings whose time is no number, or
    /// before the one before, are left out. `None`: none is left, or the length is no number of seconds.
    #[must_use]
    pub fn of(readings: impl IntoIterator<Item = (f64, u64)>, wall_s: f64) -> Option<Self> {
        if !wall_s.is_finite() || wall_s < 0.0 {
            return None;
        }
        let mut curve = Self { rises: Vec::new(), wall_s, used_byte_s: 0.0 };
        let (mut last_s, mut held) = (0.0, 0.0);
        for (at_s, bytes) in readings {
            if !at_s.is_finite() || at_s < last_s {
                continue;
            }
            let bytes = bytes as f64;
            let is_first = curve.rises.is_empty();
            curve.used_byte_s += if is_first { bytes } else { held } * (at_s - last_s);
            if is_first || curve.rises.last().is_some_and(|rise| bytes > rise.bytes) {
                let seen_s = if is_first { 0.0 } else { at_s };
                curve.rises.push(Rise { since_s: last_s, seen_s, bytes });
            }
            (last_s, held) = (at_s, bytes);
        }
        curve.wall_s = wall_s.max(last_s);
        curve.used_byte_s += held * (curve.wall_s - last_s);
        (!curve.rises.is_empty()).then_some(curve)
    }

    /// The same with a peak that the kernel counted: readings may have missed it. If one came near it, it was then;
    /// if none did, it may have been at any time, and so it was from the start.
    #[must_use]
    pub fn reaching(mut self, peak_bytes: u64) -> Self {
        let peak = peak_bytes as f64;
        let seen = self.peak();
        if peak <= seen {
            return self;
        }
        if seen < peak * PEAK_SEEN {
            self.rises = vec![Rise { since_s: 0.0, seen_s: 0.0, bytes: peak }];
        } else if let Some(last) = self.rises.last_mut() {
            last.bytes = peak;
        }
        self
    }

    /// The most that the run held, in bytes.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        crate::retry::whole(self.peak())
    }

    /// How long it ran, in seconds.
    #[must_use]
    pub fn wall_s(&self) -> f64 {
        self.wall_s
    }

    /// All that it held, in GB x hours.
    #[must_use]
    pub fn used_gbh(&self) -> f64 {
        self.used_byte_s / GB / 3600.0
    }

    pub(super) fn rises(&self) -> &[Rise] {
        &self.rises
    }

    /// With few rises: neighbours are one from the first of them on, with the bytes of the last. Never less than it
    /// was.
    pub(super) fn coarse(&self) -> Vec<Rise> {
        let least = self.peak() * FINE;
        let mut coarse: Vec<Rise> = Vec::new();
        let mut from = f64::NEG_INFINITY;
        for rise in &self.rises {
            match coarse.last_mut() {
                Some(last) if rise.bytes <= from + least => last.bytes = rise.bytes,
                _ => {
                    from = rise.bytes;
                    coarse.push(*rise);
                }
            }
        }
        coarse
    }

    fn peak(&self) -> f64 {
        self.rises.last().map_or(0.0, |rise| rise.bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rises(curve: &Curve) -> Vec<(f64, f64, f64)> {
        curve.rises().iter().map(|rise| (rise.since_s, rise.seen_s, rise.bytes)).collect()
    }

    #[test]
    fn it_keeps_what_was_more_than_ever_before() {
        let curve = Curve::of([(2.0, 5), (4.0, 3), (6.0, 9), (8.0, 1)], 20.0).unwrap();
        assert_eq!(rises(&curve), [(0.0, 0.0, 5.0), (4.0, 6.0, 9.0)]);
        assert_eq!((curve.peak_bytes(), curve.wall_s()), (9, 20.0));
        // The first held from the start, the last until the end.
        let held = 5.0 * 4.0 + 3.0 * 2.0 + 9.0 * 2.0 + 1.0 * 12.0;
        assert!((curve.used_gbh() - held / 3.6e12).abs() < 1e-18);
    }

    #[test]
    fn odd_readings_are_left_out() {
        assert!(Curve::of([], 5.0).is_none() && Curve::of([(f64::NAN, 5)], 5.0).is_none());
        assert!(Curve::of([(0.0, 5)], f64::NAN).is_none() && Curve::of([(0.0, 5)], -1.0).is_none());
        let curve = Curve::of([(3.0, 5), (1.0, 90), (f64::INFINITY, 90), (4.0, 6)], 2.0).unwrap();
        assert_eq!(rises(&curve), [(0.0, 0.0, 5.0), (3.0, 4.0, 6.0)]);
        assert_eq!(Some(curve.wall_s()), Some(4.0), "it ran at least until its last reading");
    }

    #[test]
    fn a_peak_between_readings_is_put_where_it_was_or_everywhere() {
        let curve = Curve::of([(0.0, 10), (5.0, 95)], 10.0).unwrap();
        assert_eq!(rises(&curve.clone().reaching(100)), [(0.0, 0.0, 10.0), (0.0, 5.0, 100.0)]);
        assert_eq!(rises(&curve.clone().reaching(50)), rises(&curve));
        assert_eq!(rises(&curve.reaching(200)), [(0.0, 0.0, 200.0)]);
    }

    proptest! {
        /// A coarse curve is short, and at no time less than the whole.
        #[test]
        fn coarse_is_never_less(steps in prop::collection::vec(0u64..1_000, 1..200)) {
            let mut bytes = 0;
            let readings = steps.iter().zip(0u32..).map(|(step, at)| {
                bytes += step;
                (f64::from(at), bytes)
            });
            let curve = Curve::of(readings.collect::<Vec<_>>(), 200.0).unwrap();
            let coarse = curve.coarse();
            prop_assert!(coarse.len() <= 33 && coarse.last().map(|last| last.bytes) == Some(curve.peak()));
            for rise in curve.rises() {
                let held = coarse.iter().rfind(|coarse| coarse.since_s <= rise.since_s).unwrap();
                prop_assert!(held.bytes >= rise.bytes, "{rise:?} in {coarse:?}");
            }
        }
    }
}
