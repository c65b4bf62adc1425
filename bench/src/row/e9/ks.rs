//! Two published methods that predict memory over time, recomputed from their descriptions and published parameters.
//!
//! *k-Segments* (J. Bader and others, Predicting dynamic memory requirements for scientific workflow tasks, IEEE Big Data
//! 2023): four segments of equal length. A line over the input size for the length, lowered by its largest
//! overestimate, and one for the peak of each segment, raised by its largest underestimate. After a failure the
//! segment that failed is doubled (*selective*). *KS+* (IEEE e-Science 2024): each run is divided where its memory
//! rises, and the segments that lose least are merged until four are left. Lines for their ends, times 0.85, and for
//! their peaks, times 1.1. After a failure before the last segment the ends from there on shrink in proportion, so
//! that the next begins where it failed; in the last, it grows by a fifth. Both give 100 MB at least, and never less
//! than before. Runs with fewer than four samples are not learned from.

use super::shape::{Shape, Trace};

/// Segments, as published.
pub(super) const SEGMENTS: usize = 4;
/// The least allocation, in GB.
const LEAST: f64 = 0.1;
/// An attempt more is no rule.
const ATTEMPTS_MAX: usize = 64;

/// What is learned of a run: its input, its length and its segments.
#[derive(Debug, Clone)]
pub(super) struct Learned {
    input: f64,
    wall_s: f64,
    /// The peak of each of four equal parts.
    equal: [f64; SEGMENTS],
    /// Ends in seconds, and peaks.
    divided: [(f64, f64); SEGMENTS],
}

impl Learned {
    /// `None`: it has too few samples.
    pub(super) fn of(input: Option<f64>, trace: &Trace) -> Option<Self> {
        if trace.samples.len() < SEGMENTS {
            return None;
        }
        let mut equal = [0.0f64; SEGMENTS];
        for (place, sample) in trace.samples.iter().enumerate() {
            let part = (place / (trace.samples.len() / SEGMENTS)).min(SEGMENTS - 1);
            equal[part] = equal[part].max(sample.1);
        }
        let divided = divided(trace, SEGMENTS);
        let last = *divided.last()?;
        let divided = std::array::from_fn(|at| divided.get(at).copied().unwrap_or(last));
        Some(Self { input: input.unwrap_or(0.0), wall_s: trace.wall_s, equal, divided })
    }
}

/// The ends and peaks of at most so many segments of a run, merged where that adds least.
pub(super) fn divided(trace: &Trace, most: usize) -> Vec<(f64, f64)> {
    let rises = trace.rises();
    let ends = rises.iter().skip(1).map(|rise| rise.0).chain([trace.wall_s]);
    // The length and the peak of each.
    let mut parts: Vec<(f64, f64)> =
        rises.iter().zip(ends).map(|(rise, end)| (end - rise.0, rise.1)).collect();
    while parts.len() > most {
        let added = |at: &usize| (parts[at + 1].1 - parts[*at].1) * parts[*at].0;
        let least = (0..parts.len() - 1).min_by(|a, b| added(a).total_cmp(&added(b)));
        let Some(at) = least else { break };
        let before = parts.remove(at);
        parts[at].0 += before.0;
    }
    let mut end = 0.0;
    let until = |(length, peak): (f64, f64)| {
        end += length;
        (end, peak)
    };
    parts.into_iter().map(until).collect()
}

/// The segments of a prediction: ends in seconds, and GB.
#[derive(Debug, Clone, PartialEq)]
struct Segments {
    ends: Vec<f64>,
    peaks: Vec<f64>,
}

impl Segments {
    /// In order: no segment ends after a later one, none has less than an earlier one, and none more than `most` at
    /// first.
    fn new(mut ends: Vec<f64>, mut peaks: Vec<f64>, most: f64) -> Self {
        let mut later = f64::INFINITY;
        for end in ends.iter_mut().rev() {
            later = later.min(*end);
            *end = later.max(0.0);
        }
        let mut before = LEAST;
        for peak in &mut peaks {
            before = before.max(*peak);
            *peak = before.min(most);
        }
        Self { ends, peaks }
    }

    fn shape(&self) -> Shape {
        let starts = std::iter::once(0.0).chain(self.ends.iter().copied());
        Shape(starts.zip(self.peaks.iter().copied()).collect())
    }

    /// The segment at that time.
    fn at(&self, time: f64) -> usize {
        self.ends.partition_point(|&end| end <= time).min(self.ends.len() - 1)
    }
}

/// Attempts until one is enough, `again` giving the next by where the last one failed.
fn attempts(first: Segments, trace: &Trace, again: impl Fn(&mut Segments, f64)) -> Vec<Shape> {
    let (mut next, mut attempts) = (first, Vec::new());
    loop {
        let shape = next.shape();
        let failed = shape.fails_at(trace);
        attempts.push(shape);
        let Some(at_s) = failed.filter(|_| attempts.len() < ATTEMPTS_MAX) else { return attempts };
        again(&mut next, at_s);
        next = Segments::new(next.ends, next.peaks, f64::INFINITY);
    }
}

/// The attempts of k-Segments; the first is never above `request`.
pub(super) fn k_segments(runs: &[&Learned], input: Option<f64>, request: f64, trace: &Trace) -> Vec<Shape> {
    let input = input.unwrap_or(0.0);
    let length = Line::of(runs, |run| run.wall_s);
    let over = runs.iter().map(|run| run.wall_s - length.at(run.input)).fold(0.0, f64::min);
    let part_s = (length.at(input) + over).max(0.0) / SEGMENTS as f64;
    let peak = |at: usize| {
        let line = Line::of(runs, |run| run.equal[at]);
        line.at(input) + runs.iter().map(|run| run.equal[at] - line.at(run.input)).fold(0.0, f64::max)
    };
    let ends = (1..=SEGMENTS).map(|part| part as f64 * part_s).collect();
    let first = Segments::new(ends, (0..SEGMENTS).map(peak).collect(), request);
    attempts(first, trace, |segments, at_s| {
        let at = segments.at(at_s);
        segments.peaks[at] *= 2.0;
    })
}

/// The attempts of KS+; the first is never above `request`.
pub(super) fn ks_plus(runs: &[&Learned], input: Option<f64>, request: f64, trace: &Trace) -> Vec<Shape> {
    let input = input.unwrap_or(0.0);
    let end = |at: usize| Line::of(runs, |run| run.divided[at].0).at(input) * 0.85;
    let peak = |at: usize| Line::of(runs, |run| run.divided[at].1).at(input) * 1.1;
    let first = Segments::new((0..SEGMENTS).map(end).collect(), (0..SEGMENTS).map(peak).collect(), request);
    attempts(first, trace, |segments, at_s| {
        let at = segments.at(at_s);
        if at == SEGMENTS - 1 {
            segments.peaks[at] *= 1.2;
            return;
        }
        let shrunk = at_s / segments.ends[at];
        segments.ends[at..].iter_mut().for_each(|end| *end *= shrunk);
        // Rounding must not end it after the failure.
        segments.ends[at] = segments.ends[at].min(at_s);
    })
}

/// A line over the input, by least squares.
struct Line {
    middle: (f64, f64),
    slope: f64,
}

impl Line {
    fn of(runs: &[&Learned], y: impl Fn(&Learned) -> f64) -> Self {
        let n = runs.len().max(1) as f64;
        let middle_x = runs.iter().map(|run| run.input).sum::<f64>() / n;
        let middle_y = runs.iter().map(|run| y(run)).sum::<f64>() / n;
        let spread = runs.iter().map(|run| (run.input - middle_x).powi(2)).sum::<f64>();
        let both = runs.iter().map(|run| (run.input - middle_x) * (y(run) - middle_y)).sum::<f64>();
        Self { middle: (middle_x, middle_y), slope: if spread > 0.0 { both / spread } else { 0.0 } }
    }

    fn at(&self, x: f64) -> f64 {
        self.middle.1 + self.slope * (x - self.middle.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of `scale` x 80 s that holds `scale` x 1, 1, 2, 2, 3, 3, 8, 8 GB.
    fn trace(scale: f64) -> Trace {
        let held = [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 8.0, 8.0];
        let samples = held.iter().zip(0u32..).map(|(gb, at)| (f64::from(at) * 10.0 * scale, gb * scale));
        Trace { samples: samples.collect(), wall_s: 80.0 * scale }
    }

    fn learned() -> Vec<Learned> {
        (1..=4).map(|scale| Learned::of(Some(f64::from(scale)), &trace(f64::from(scale))).unwrap()).collect()
    }

    #[test]
    fn runs_are_divided_where_they_rise() {
        assert_eq!(divided(&trace(1.0), 4), [(20.0, 1.0), (40.0, 2.0), (60.0, 3.0), (80.0, 8.0)]);
        // To merge one and two, or two and three, adds 20; the first of these is taken.
        assert_eq!(divided(&trace(1.0), 3), [(40.0, 2.0), (60.0, 3.0), (80.0, 8.0)]);
        assert_eq!(divided(&trace(1.0), 1), [(80.0, 8.0)]);
        let short = Trace { samples: vec![(0.0, 1.0); 3], wall_s: 6.0 };
        assert!(Learned::of(None, &short).is_none());
    }

    #[test]
    fn lines_through_runs_in_proportion_predict_the_next() {
        let learned = learned();
        let runs: Vec<&Learned> = learned.iter().collect();
        let shapes = k_segments(&runs, Some(2.0), 100.0, &trace(2.0));
        assert_eq!(shapes.len(), 1);
        let want = [(0.0, 2.0), (40.0, 4.0), (80.0, 6.0), (120.0, 16.0)];
        for (got, want) in shapes[0].0.iter().zip(want) {
            assert!((got.0 - want.0).abs() < 1e-6 && (got.1 - want.1).abs() < 1e-6, "{shapes:?}");
        }
        let shapes = ks_plus(&runs, Some(2.0), 100.0, &trace(2.0));
        assert_eq!(shapes.len(), 1);
        assert!(
            (shapes[0].0[1].0 - 34.0).abs() < 1e-6 && (shapes[0].0[3].1 - 17.6).abs() < 1e-6,
            "{shapes:?}"
        );
    }

    #[test]
    fn what_failed_is_raised_or_moved() {
        let learned = learned();
        let runs: Vec<&Learned> = learned.iter().collect();
        // Twice the last segment is enough for half as much again.
        let mut more = trace(2.0);
        more.samples.iter_mut().skip(6).for_each(|sample| sample.1 *= 1.5);
        let shapes = k_segments(&runs, Some(2.0), 100.0, &more);
        assert_eq!(shapes.len(), 2);
        assert!(
            (shapes[1].0[3].1 - 32.0).abs() < 1e-6 && (shapes[1].0[2].1 - 6.0).abs() < 1e-6,
            "{shapes:?}"
        );
        assert_eq!(ks_plus(&runs, Some(2.0), 100.0, &more).len(), 3, "17.6 x 1.2^2 is enough");
        // A run of half the time: the ends move to where it failed.
        let mut fast = trace(2.0);
        fast.samples.iter_mut().for_each(|sample| sample.0 /= 2.0);
        let shapes = ks_plus(&runs, Some(2.0), 100.0, &fast);
        assert!(shapes.len() > 1 && shapes[1].0[1].0 <= 20.0, "{shapes:?}");
        assert_eq!(shapes.last().unwrap().fails_at(&fast), None);
        // Never above the request at first.
        let capped = ks_plus(&runs, Some(2.0), 10.0, &trace(2.0));
        assert!(capped.len() > 1 && capped[0].0.iter().all(|step| step.1 <= 10.0), "{capped:?}");
    }
}
