//! The runs of one class, in the units in which they are computed with: GB and hours.
//!
//! A fit of all estimators takes every run many times. Medians and the order of the inputs are the same for all
//! estimators: they are found once, in a [`Lot`].

use std::ops::Range;

use crate::types::{Features, GB, NUMBERS, Row};

/// A run that ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// Known before the start.
    pub(crate) ask: Ask,
    /// The peak, in GB; above 0.
    pub(crate) peak: f64,
    /// How long it ran, in hours.
    pub(crate) hours: f64,
}

/// The features that estimators use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    /// The size of the inputs, in bytes.
    pub(crate) input: Option<f64>,
    /// The logarithm of the input size; sizes below a byte count as 1. Kept, because every fit asks for it.
    pub(crate) ln_input: Option<f64>,
    /// Its numbers; NaN where a number is not known.
    numbers: [f64; NUMBERS],
}

impl Ask {
    pub(crate) fn of(features: &Features) -> Self {
        let input = features.input_bytes.filter(|input| input.is_finite() && *input >= 0.0);
        let number = |number: Option<f64>| number.filter(|number| number.is_finite()).unwrap_or(f64::NAN);
        Self { numbers: features.numbers.map(number), ..Self::new(input) }
    }

    /// `input` in bytes.
    pub(crate) fn new(input: Option<f64>) -> Self {
        Self { input, ln_input: input.map(|input| input.max(1.0).ln()), numbers: [f64::NAN; NUMBERS] }
    }

    /// The number at this place; `None`: it is not known.
    pub(crate) fn number(&self, place: usize) -> Option<f64> {
        self.numbers.get(place).copied().filter(|number| number.is_finite())
    }

    /// The same job, with the number at this place as the size of its input. Numbers may be fractions, 0 or below: in
    /// place of the logarithm stands that of 1 + the number, with its sign.
    pub(crate) fn over_number(&self, place: usize) -> Self {
        let number = self.number(place);
        let ln = |number: f64| number.abs().ln_1p().copysign(number);
        Self { input: number, ln_input: number.map(ln), ..*self }
    }
}

impl Run {
    pub(crate) fn of(row: &Row) -> Self {
        Self { ask: Ask::of(&row.features), peak: row.peak_bytes as f64 / GB, hours: row.wall_s / 3600.0 }
    }
}

/// The feature that the estimators of a class use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    /// The size of the inputs.
    Input,
    /// The number at this place.
    Number(usize),
}

impl Over {
    /// The job with this feature as its input.
    pub(crate) fn ask(self, ask: &Ask) -> Ask {
        match self {
            Self::Input => *ask,
            Self::Number(place) => ask.over_number(place),
        }
    }

    /// The largest among the runs; 0 of none.
    pub(crate) fn largest(self, runs: &[Run]) -> f64 {
        match self {
            Self::Input => runs.iter().filter_map(|run| run.ask.input).fold(0.0, f64::max),
            Self::Number(place) => runs.iter().filter_map(|run| run.ask.number(place)).fold(0.0, f64::max),
        }
    }
}

/// The median of the peaks; 0 without runs.
pub(crate) fn median_peak(runs: &[Run]) -> f64 {
    let mut peaks: Vec<f64> = runs.iter().map(|run| run.peak).collect();
    let middle = peaks.len() / 2;
    if peaks.is_empty() { 0.0 } else { *peaks.select_nth_unstable_by(middle, f64::total_cmp).1 }
}

/// The largest peak; 0 without runs.
pub(crate) fn largest_peak(runs: &[Run]) -> f64 {
    runs.iter().map(|run| run.peak).fold(0.0, f64::max)
}

/// The runs of a fit, with figures that many fits need.
#[derive(Debug)]
pub(crate) struct Lot<'a> {
    pub(crate) runs: &'a [Run],
    /// The median of the peaks, in GB.
    pub(crate) usual: f64,
    /// The largest peak, in GB.
    pub(crate) largest: f64,
    /// The logarithms of the inputs in ascending order, each with its place among the runs; `None`: an input is not known.
    inputs: Option<Vec<(f64, usize)>>,
}

impl<'a> Lot<'a> {
    pub(crate) fn new(runs: &'a [Run]) -> Self {
        let point = |(at, run): (usize, &Run)| Some((run.ask.ln_input?, at));
        let mut inputs = runs.iter().enumerate().map(point).collect::<Option<Vec<_>>>();
        if let Some(inputs) = &mut inputs {
            inputs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        }
        Self { runs, usual: median_peak(runs), largest: largest_peak(runs), inputs }
    }

    /// `value` of each run over the logarithm of its input. `None` if an input is not known.
    pub(crate) fn by_input(&self, value: impl Fn(usize, &Run) -> f64) -> Option<Sorted> {
        let point = |&(input, at): &(f64, usize)| (input, value(at, &self.runs[at]), at);
        Some(Sorted(self.inputs.as_ref()?.iter().map(point).collect()))
    }

    /// For each run, in their order, the mean of the `count` values of `sorted` nearest to its input, its own not among
    /// them; `None` if there are none. `sorted` is of this lot.
    pub(crate) fn nearest_means(&self, sorted: &Sorted, count: usize) -> Option<Vec<f64>> {
        let points = sorted.points();
        let mut means = vec![0.0; points.len()];
        for (place, (range, point)) in nearest(points, count).into_iter().zip(points).enumerate() {
            let own = usize::from(range.contains(&place));
            let sum: f64 = points[range.clone()].iter().map(|point| point.1).sum();
            let others = range.len().checked_sub(own).filter(|&others| others > 0)?;
            means[point.2] = (sum - own as f64 * point.1) / others as f64;
        }
        Some(means)
    }
}

/// For each point the places of the `count` nearest, and its own where it lies among them.
fn nearest(points: &[(f64, f64, usize)], count: usize) -> Vec<Range<usize>> {
    // For equal inputs the search begins at the first.
    let mut first = 0;
    let range = |place: usize| {
        let x = points[place].0;
        if points[first].0 < x {
            first = place;
        }
        let (mut low, mut high, mut found) = (first, first, 0);
        while found < count {
            let under = low.checked_sub(1).map_or(f64::INFINITY, |at| x - points[at].0);
            let over = points.get(high).map_or(f64::INFINITY, |point| point.0 - x);
            let at = if under <= over && low > 0 {
                low -= 1;
                low
            } else if high < points.len() {
                high += 1;
                high - 1
            } else {
                break;
            };
            found += usize::from(at != place);
        }
        low..high
    };
    (0..points.len()).map(range).collect()
}

/// Points in ascending order of their first number, each with its place among the runs.
#[derive(Debug, Clone)]
pub(crate) struct Sorted(Vec<(f64, f64, usize)>);

impl Sorted {
    pub(crate) fn points(&self) -> &[(f64, f64, usize)] {
        &self.0
    }

    /// How many points lie below `x`.
    pub(crate) fn below(&self, x: f64) -> usize {
        self.0.partition_point(|point| point.0 < x)
    }

    /// The mean of the `count` nearest to `x`; `None` if there are none.
    pub(crate) fn nearest_mean(&self, x: f64, count: usize) -> Option<f64> {
        let mut high = self.below(x);
        let mut low = high;
        let (mut found, mut sum) = (0usize, 0.0);
        while found < count {
            let under = low.checked_sub(1).map(|at| (x - self.0[at].0, at));
            let over = self.0.get(high).map(|point| (point.0 - x, high));
            let at = match (under, over) {
                (Some((left, at)), Some((right, _))) if left <= right => at,
                (_, Some((_, at))) | (Some((_, at)), None) => at,
                (None, None) => break,
            };
            if at < low {
                low = at
            } else {
                high = at + 1
            }
            sum += self.0[at].1;
            found += 1;
        }
        (found > 0).then(|| sum / found as f64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The mean of the `count` values of other runs whose inputs are nearest; of equally near ones it may be any.
    fn by_hand(runs: &[Run], at: usize, count: usize) -> f64 {
        let distance = |run: &Run| (run.ask.ln_input.unwrap() - runs[at].ask.ln_input.unwrap()).abs();
        let mut others: Vec<&Run> =
            (0..runs.len()).filter(|&other| other != at).map(|at| &runs[at]).collect();
        others.sort_by(|a, b| distance(a).total_cmp(&distance(b)));
        let near = &others[..count.min(others.len())];
        near.iter().map(|run| run.peak).sum::<f64>() / near.len() as f64
    }

    proptest! {
        /// What is found once for all runs is what would be found for each.
        #[test]
        fn means_of_the_nearest(peaks in prop::collection::vec(1u32..1_000, 2..60), count in 1usize..9) {
            // Inputs whose distances are all different.
            let run = |(at, &peak): (usize, &u32)| {
                let place = (at * 37 % 61) as f64;
                let input = (10.0 + place + (place * place).sin() / 9.0).exp();
                Run { ask: Ask::new(Some(input)), peak: f64::from(peak), hours: 1.0 }
            };
            let runs: Vec<Run> = peaks.iter().enumerate().map(run).collect();
            let lot = Lot::new(&runs);
            let sorted = lot.by_input(|_, run| run.peak).unwrap();
            let means = lot.nearest_means(&sorted, count).unwrap();
            for (at, mean) in means.iter().enumerate() {
                let want = by_hand(&runs, at, count);
                prop_assert!((mean - want).abs() < 1e-9 * want, "{at}: {mean}, not {want}");
            }
        }
    }

    #[test]
    fn equal_inputs_are_near_and_no_run_counts_for_itself() {
        let run = |peak| Run { ask: Ask::new(Some(5.0)), peak, hours: 1.0 };
        let runs = [run(1.0), run(10.0), run(100.0), run(1000.0)];
        let lot = Lot::new(&runs);
        let sorted = lot.by_input(|_, run| run.peak).unwrap();
        assert_eq!(lot.nearest_means(&sorted, 1).unwrap(), [10.0, 1.0, 1.0, 1.0]);
        assert!((lot.nearest_means(&sorted, 9).unwrap()[0] - 370.0).abs() < 1e-9);
        assert_eq!((lot.usual, lot.largest), (100.0, 1000.0));
        let unknown = [Run { ask: Ask::new(None), peak: 1.0, hours: 1.0 }];
        assert!(Lot::new(&unknown).by_input(|_, run| run.peak).is_none());
        assert!(Lot::new(&[]).usual.abs() < 1e-9);
    }
}
