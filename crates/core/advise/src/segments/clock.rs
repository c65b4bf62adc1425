//! What counts as equally long: runs of a class whose lengths follow their inputs are compared in proportion to what
//! their inputs make expect.
//!
//! Two curves are tried: a power of the input, and a line over it, for where a part of each input is the same for
//! all, as a reference is. The one around which the logarithms of lengths differ least is taken. Inputs count up to
//! the largest that was seen: a length that is expected too short is no risk, and one that is expected too long is.
//! Absent: bytes.

use crate::history::Ask;

/// Least runs to tell how lengths follow inputs.
const RUNS_MIN: usize = 6;
/// They do if around the curve the logarithms of lengths have at most this part of the variance that they have
/// without it.
const LEFT: f64 = 0.7;
/// The largest power that is believed.
const POWER_MAX: f64 = 3.0;
/// Where a line leaves the lengths that were seen, it ends at this part of the shortest.
const SHORTEST: f64 = 0.5;

/// The unit of times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Clock {
    /// Hours.
    Hours,
    /// In proportion to a power of the input.
    Power { power: f64, ln_middle: f64, largest: f64 },
    /// In proportion to a line over the input.
    Line { offset: f64, slope: f64, least: f64, largest: f64 },
}

impl Clock {
    /// By how long runs took; each with its hours. `None`: that does not follow inputs, or one is not known.
    pub(super) fn by_input<'a>(runs: impl Iterator<Item = (&'a Ask, f64)>) -> Option<Self> {
        let point = |(ask, hours): (&'a Ask, f64)| {
            (hours > 0.0).then_some(Point { ask, input: ask.input?, ln_input: ask.ln_input?, hours })
        };
        let points = runs.map(point).collect::<Option<Vec<_>>>()?;
        if points.len() < RUNS_MIN {
            return None;
        }
        let without = Self::Hours.variance(&points)?;
        let largest = points.iter().map(|point| point.input).fold(0.0, f64::max);
        let curves = [power(&points, largest), line(&points, largest)];
        let told = curves.into_iter().flatten().filter_map(|clock| Some((clock.variance(&points)?, clock)));
        let best = told.min_by(|a, b| a.0.total_cmp(&b.0))?;
        (best.0 <= without * LEFT).then_some(best.1)
    }

    /// The unit for a job, in hours. `None`: its input is not known.
    pub(super) fn unit(&self, ask: &Ask) -> Option<f64> {
        let unit = match self {
            Self::Hours => 1.0,
            Self::Power { power, ln_middle, largest } => {
                (power * (ask.input?.min(*largest).max(1.0).ln() - ln_middle)).exp()
            }
            Self::Line { offset, slope, least, largest } => {
                (offset + slope * ask.input?.min(*largest)).max(*least)
            }
        };
        (unit > 0.0 && unit.is_finite()).then_some(unit)
    }

    /// The variance of the logarithms of lengths in this unit. `None`: it is no number, or next to nothing.
    fn variance(&self, points: &[Point<'_>]) -> Option<f64> {
        let logarithm = |point: &Point<'_>| Some((point.hours / self.unit(point.ask)?).ln());
        let logarithms = points.iter().map(logarithm).collect::<Option<Vec<_>>>()?;
        let n = logarithms.len() as f64;
        let mean = logarithms.iter().sum::<f64>() / n;
        let variance = logarithms.iter().map(|logarithm| (logarithm - mean).powi(2)).sum::<f64>() / n;
        variance.is_finite().then_some(variance)
    }
}

/// A run with its input.
#[derive(Debug, Clone, Copy)]
struct Point<'a> {
    ask: &'a Ask,
    input: f64,
    ln_input: f64,
    hours: f64,
}

/// By least squares over the logarithms.
fn power(points: &[Point<'_>], largest: f64) -> Option<Clock> {
    let of = points.iter().map(|point| (point.ln_input, point.hours.ln(), 1.0));
    let (ln_middle, _, power) = fit(of)?;
    (power > 0.0).then_some(Clock::Power { power: power.min(POWER_MAX), ln_middle, largest })
}

/// By least squares over relative errors: a short run counts as much as a long one.
fn line(points: &[Point<'_>], largest: f64) -> Option<Clock> {
    let of = points.iter().map(|point| (point.input, point.hours, point.hours.powi(-2)));
    let (middle_x, middle_y, slope) = fit(of)?;
    let least = points.iter().map(|point| point.hours).fold(f64::INFINITY, f64::min) * SHORTEST;
    (slope > 0.0).then_some(Clock::Line { offset: middle_y - slope * middle_x, slope, least, largest })
}

/// The means of x and y and the slope, of points with x, y and weight. `None`: all x are the same.
fn fit(points: impl Iterator<Item = (f64, f64, f64)> + Clone) -> Option<(f64, f64, f64)> {
    let all: f64 = points.clone().map(|point| point.2).sum();
    let mean_x = points.clone().map(|point| point.0 * point.2).sum::<f64>() / all;
    let mean_y = points.clone().map(|point| point.1 * point.2).sum::<f64>() / all;
    let spread: f64 = points.clone().map(|point| (point.0 - mean_x).powi(2) * point.2).sum();
    let both: f64 = points.map(|point| (point.0 - mean_x) * (point.1 - mean_y) * point.2).sum();
    let slope = both / spread;
    (spread > 0.0 && slope.is_finite()).then_some((mean_x, mean_y, slope))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(runs: &[(f64, f64)]) -> Option<Clock> {
        let asks: Vec<Ask> = runs.iter().map(|run| Ask::new(Some(run.0), None)).collect();
        Clock::by_input(asks.iter().zip(runs).map(|(ask, run)| (ask, run.1)))
    }

    /// How much longer a job with the one input is expected to take than one with the other.
    #[track_caller]
    fn check(clock: Option<Clock>, (long, short): (f64, f64), want: f64) {
        let unit = |input: f64| clock.unwrap().unit(&Ask::new(Some(input), None)).unwrap();
        let got = unit(long) / unit(short);
        assert!((got - want).abs() < 1e-6 * want, "{got}, not {want}: {clock:?}");
    }

    #[test]
    fn lengths_that_follow_inputs_are_told() {
        let power: Vec<(f64, f64)> = (1..=9).map(|n| (f64::from(n) * 1e9, f64::from(n).powf(1.5))).collect();
        check(of(&power), (8e9, 2e9), 8.0);
        check(of(&power), (90e9, 9e9), 1.0);
        // All have the same nine of ten GB.
        let line: Vec<(f64, f64)> = (1..=9).map(|n| (9e9 + f64::from(n) * 1e8, f64::from(n) * 2.0)).collect();
        check(of(&line), (9.8e9, 9.2e9), 4.0);
        check(of(&line), (9.1e9, 1e9), 2.0);
        assert_eq!(of(&line).unwrap().unit(&Ask::new(None, None)), None);
    }

    #[test]
    fn lengths_that_do_not_are_hours() {
        let none = |runs: &[(f64, f64)]| assert_eq!(of(runs), None, "{runs:?}");
        none(&[(1e9, 1.0); 9]);
        none(&[(1e9, 1.0), (2e9, 2.0), (3e9, 3.0), (4e9, 4.0), (5e9, 5.0)]);
        let chance: Vec<(f64, f64)> =
            (1..=30).map(|n| (f64::from(n * 7 % 30) * 1e9, f64::from(n * 11 % 30 + 1))).collect();
        none(&chance);
        let falling: Vec<(f64, f64)> = (1..=9).map(|n| (f64::from(n) * 1e9, 1.0 / f64::from(n))).collect();
        none(&falling);
        none(&[(f64::MAX, 1e300), (1.0, 1e-300), (2.0, 0.0), (3.0, 1.0), (4.0, 1.0), (5.0, 1.0)]);
    }
}
