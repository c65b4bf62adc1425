//! An allocation over time, and what it comes to on a run whose samples are known: scored here, apart from what is
//! scored.
//!
//! A sample holds until the next one. An attempt fails at the first sample that needs more than it has, and has held
//! what it had until then. Waste is what all attempts held beyond what the run used.

use super::baselines::Score;

/// Times from which on it has so much: seconds and GB, the first at 0.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape(pub(super) Vec<(f64, f64)>);

/// A run's memory over time.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Trace {
    /// Seconds since the first sample, and GB.
    pub(super) samples: Vec<(f64, f64)>,
    pub(super) wall_s: f64,
}

impl Trace {
    /// All that it used, in GB x hours.
    pub(super) fn used(&self) -> f64 {
        let ends = self.samples.iter().skip(1).map(|sample| sample.0).chain([self.wall_s]);
        self.samples.iter().zip(ends).map(|((from, gb), end)| (end - from).max(0.0) * gb).sum::<f64>()
            / 3600.0
    }

    /// The samples that were more than all before.
    pub(super) fn rises(&self) -> Vec<(f64, f64)> {
        let mut rises: Vec<(f64, f64)> = Vec::new();
        for &sample in &self.samples {
            if rises.last().is_none_or(|last| sample.1 > last.1) {
                rises.push(sample);
            }
        }
        rises
    }
}

impl Shape {
    pub(super) fn flat(gb: f64) -> Self {
        Self(vec![(0.0, gb)])
    }

    /// When a run needs more than it has. Half a byte is no more.
    pub(super) fn fails_at(&self, trace: &Trace) -> Option<f64> {
        let at = |time: f64| self.0.iter().rfind(|step| step.0 <= time).map_or(0.0, |step| step.1);
        trace.samples.iter().find(|(time, gb)| *gb > at(*time) + 5e-10).map(|sample| sample.0)
    }

    /// What it holds until then, in GB x hours.
    pub(super) fn held(&self, until_s: f64) -> f64 {
        let ends = self.0.iter().skip(1).map(|step| step.0).chain([f64::INFINITY]);
        let held = |((from, gb), end): (&(f64, f64), f64)| (end.min(until_s) - from).max(0.0) * gb;
        self.0.iter().zip(ends).map(held).sum::<f64>() / 3600.0
    }
}

/// Adds a run with these attempts, the last of which is enough.
pub(super) fn add(score: &mut Score, trace: &Trace, attempts: &[Shape]) {
    let failed = attempts.len().saturating_sub(1);
    score.jobs += 1;
    score.failures += failed;
    score.failed_jobs += usize::from(failed > 0);
    let held = |shape: &Shape| shape.held(shape.fails_at(trace).unwrap_or(trace.wall_s));
    score.waste_gbh += attempts.iter().map(held).sum::<f64>() - trace.used();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waste_is_what_is_held_and_not_used() {
        let trace = Trace { samples: vec![(0.0, 1.0), (3600.0, 4.0), (7200.0, 2.0)], wall_s: 10_800.0 };
        assert!((trace.used() - 7.0).abs() < 1e-9);
        assert_eq!(trace.rises(), [(0.0, 1.0), (3600.0, 4.0)]);
        let enough = Shape(vec![(0.0, 1.0), (3600.0, 5.0)]);
        assert_eq!((enough.fails_at(&trace), Shape::flat(3.0).fails_at(&trace)), (None, Some(3600.0)));
        assert!((enough.held(7200.0) - 6.0).abs() < 1e-9);
        let mut score = Score::default();
        add(&mut score, &trace, &[Shape::flat(3.0), enough]);
        // Three for an hour, then 1 + 5 + 5, of which seven are used.
        assert!((score.waste_gbh - (3.0 + 11.0 - 7.0)).abs() < 1e-9, "{score:?}");
        assert_eq!((score.jobs, score.failures, score.failed_jobs), (1, 1, 1));
    }
}
