//! What one attempt of a job is given over time, what it holds, and when it is too little.
//!
//! The first segment begins with the run, each later one is larger. When a run comes to need more than its segment
//! gives, the attempt has failed at that moment. The next attempt begins anew: with the last segment from its start
//! if an earlier one was too small, and else by the rule for peaks ([`crate::Retry`]). So too small a segment costs
//! one attempt at most. Absent: where segments come from.

use super::curve::Curve;
use crate::types::GB;

/// From this part of it on, a segment is about as large as the last.
const ABOUT: f64 = 0.95;

/// Memory from a moment on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Seconds since the start of the run.
    pub from_s: f64,
    /// From then on it has so many bytes, until the next segment begins.
    pub bytes: u64,
}

/// The memory of one attempt over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan(Vec<Segment>);

/// An attempt came to need more than it had.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shortage {
    /// When, in seconds since its start.
    pub at_s: f64,
    /// Whether more than that was to come: a later segment may be enough.
    pub early: bool,
}

impl Plan {
    /// As much from the start to the end.
    #[must_use]
    pub fn flat(bytes: u64) -> Self {
        Self(vec![Segment { from_s: 0.0, bytes }])
    }

    /// Segments with these starts and sizes, ending with `last`: the first is moved to the start of the run, one that is not
    /// larger than the one before is left out, and the first that is about as large as the last, or larger, is the last.
    pub(super) fn rising(segments: impl IntoIterator<Item = (f64, u64)>, last: (f64, u64)) -> Self {
        let mut plan: Vec<Segment> = Vec::new();
        for (from_s, bytes) in segments.into_iter().chain([last]) {
            let bytes = if bytes as f64 >= last.1 as f64 * ABOUT { last.1 } else { bytes };
            if plan.last().is_none_or(|before| bytes > before.bytes) {
                let from_s = if plan.is_empty() { 0.0 } else { from_s.max(0.0) };
                plan.push(Segment { from_s, bytes });
            }
        }
        Self(plan)
    }

    /// Its segments, in the order of time; at least one.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// What the last segment has, in bytes.
    #[must_use]
    pub fn last_bytes(&self) -> u64 {
        self.0.last().map_or(0, |segment| segment.bytes)
    }

    /// What an attempt holds from its start until then, in GB x hours.
    #[must_use]
    pub fn held_gbh(&self, until_s: f64) -> f64 {
        let ends = self.0.iter().skip(1).map(|segment| segment.from_s).chain([f64::INFINITY]);
        let held = |(segment, end): (&Segment, f64)| {
            (end.min(until_s) - segment.from_s).max(0.0) * segment.bytes as f64
        };
        self.0.iter().zip(ends).map(held).sum::<f64>() / GB / 3600.0
    }

    /// When a run with this curve comes to need more than it has. `None`: never.
    #[must_use]
    pub fn shortage(&self, curve: &Curve) -> Option<Shortage> {
        let mut later = self.0.iter().peekable();
        let mut bytes = 0;
        for rise in curve.rises() {
            while let Some(segment) = later.next_if(|segment| segment.from_s <= rise.seen_s) {
                bytes = segment.bytes;
            }
            if rise.bytes > bytes as f64 {
                return Some(Shortage { at_s: rise.seen_s, early: later.peek().is_some() });
            }
        }
        None
    }

    /// What a run with this curve would have held less than with the last segment from its start, in GB x hours,
    /// where an attempt that fails early costs `failure_gbh` besides what it held. Below 0: it would have held more.
    pub(super) fn gain_gbh(&self, curve: &Curve, failure_gbh: f64) -> f64 {
        let flat = Self::flat(self.last_bytes());
        match self.shortage(curve) {
            Some(shortage) if shortage.early => -(self.held_gbh(shortage.at_s) + failure_gbh),
            // Both fail then.
            Some(shortage) => flat.held_gbh(shortage.at_s) - self.held_gbh(shortage.at_s),
            None => flat.held_gbh(curve.wall_s()) - self.held_gbh(curve.wall_s()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: u64 = 3_600_000_000_000;

    fn plan() -> Plan {
        Plan::rising([(7.0, BYTES), (10.0, BYTES), (20.0, 2 * BYTES)], (30.0, 4 * BYTES))
    }

    #[test]
    fn segments_only_rise_and_begin_with_the_run() {
        let seen: Vec<(f64, u64)> =
            plan().segments().iter().map(|segment| (segment.from_s, segment.bytes / BYTES)).collect();
        assert_eq!(seen, [(0.0, 1), (20.0, 2), (30.0, 4)]);
        assert_eq!(Plan::rising([(5.0, 9), (6.0, 4)], (7.0, 4)), Plan::flat(4));
        // A larger one than the last: the last begins with it.
        let moved = Plan::rising([(0.0, 100), (5.0, 900), (6.0, 950)], (7.0, 400));
        assert_eq!(moved, Plan::rising([(0.0, 100)], (5.0, 400)));
        let about = Plan::rising([(0.0, 100), (5.0, 390)], (7.0, 400));
        assert_eq!(about, Plan::rising([(0.0, 100)], (5.0, 400)));
        assert_eq!(Plan::flat(7).last_bytes(), 7);
    }

    #[test]
    fn what_it_holds_grows_with_time() {
        for (until_s, held) in [(-1.0, 0.0), (0.0, 0.0), (10.0, 10.0), (25.0, 30.0), (40.0, 80.0)] {
            assert!((plan().held_gbh(until_s) - held).abs() < 1e-9, "{until_s}");
        }
    }

    #[track_caller]
    fn check(readings: &[(f64, u64)], shortage: Option<(f64, bool)>, gain: f64) {
        let readings = readings.iter().map(|&(at_s, level)| (at_s, level * BYTES));
        let curve = Curve::of(readings, 40.0).unwrap();
        let got = plan().shortage(&curve).map(|shortage| (shortage.at_s, shortage.early));
        assert_eq!(got, shortage);
        assert!((plan().gain_gbh(&curve, 5.0) - gain).abs() < 1e-9, "{}", plan().gain_gbh(&curve, 5.0));
    }

    #[test]
    fn it_is_short_once_more_is_needed_than_it_has() {
        check(&[(0.0, 1), (20.0, 2), (30.0, 4)], None, 80.0);
        check(&[(0.0, 1), (19.0, 2)], Some((19.0, true)), -(19.0 + 5.0));
        check(&[(0.0, 2)], Some((0.0, true)), -5.0);
        check(&[(0.0, 1), (29.0, 3), (35.0, 9)], Some((29.0, true)), -(38.0 + 5.0));
        // More than the last segment: as large a peak from the start would have been too small as well.
        check(&[(0.0, 1), (30.0, 5)], Some((30.0, false)), 120.0 - 40.0);
    }
}
