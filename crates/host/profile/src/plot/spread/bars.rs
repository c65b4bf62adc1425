//! Bars of a histogram: their width, their start, and the jobs in each.

use super::super::{Unit, scale};
use super::Histogram;
use crate::report::units::{precise, rounded};

/// Most bars; further bars add no information.
pub(super) const BARS_MAX: usize = 30;

/// The largest value over the median from which the axis is logarithmic.
const LONG_TAIL: f64 = 30.0;

/// Values that differ by less than this part of the largest are nearly equal.
const NEAR: f64 = 0.02;

/// Empty bars on each side of nearly equal values.
const MARGIN: u64 = 3;

/// A histogram with its bars. The *place* of a value on the axis is the value in the unit, or its logarithm.
pub(super) struct Bars {
    pub(super) unit: String,
    /// Converts values to the unit.
    divisor: f64,
    /// The least value of a logarithmic axis, in the unit; smaller values, including 0, count as the least. `None`:
    /// linear.
    pub(super) least: Option<f64>,
    /// The place of the first bar, and the width of the bars.
    pub(super) from: f64,
    pub(super) step: f64,
    pub(super) counts: Vec<u64>,
}

impl Bars {
    pub(super) fn new(histogram: &Histogram) -> Self {
        let most = histogram.values.last().copied().unwrap_or(0.0);
        let (divisor, unit) = match &histogram.unit {
            Unit::Bytes => scale::binary(most, ""),
            Unit::BytesPerSecond => scale::binary(most, "/s"),
            Unit::Plain(name) if name == "s" && most >= 2.0 * 3600.0 => (3600.0, "h".to_owned()),
            Unit::Plain(name) if name == "s" && most >= 120.0 => (60.0, "min".to_owned()),
            Unit::Plain(name) => (1.0, name.clone()),
        };
        let wanted = (precise(histogram.values.len() as u64).sqrt() * 2.0).clamp(6.0, 24.0);
        let least = long_tail(histogram).map(|least| least / divisor);
        let mut bars = Self { unit, divisor, least, from: 0.0, step: 1.0, counts: Vec::new() };
        let ends = [histogram.values.first(), histogram.values.last()];
        let [first, last] = ends.map(|value| bars.place(value.copied().unwrap_or(0.0) / divisor));
        // Values close together and far from 0 are shown from the lowest value on.
        let floor = if least.is_some() || first > 0.5 * last { first } else { 0.0 };
        // Nearly equal values make a narrow bar in the middle of the axis, instead of a bar that fills the picture.
        let are_near = last > 0.0 && last - first < NEAR * last && least.is_none();
        let margin = if are_near { MARGIN } else { 0 };
        bars.step =
            scale::nice(((last - floor) / wanted).max(last.abs() * if are_near { NEAR / 2.0 } else { 1e-3 }));
        let from = ((floor / bars.step).floor() - precise(margin)) * bars.step;
        // Values are never below 0, but logarithms of values below 1 are.
        bars.from = if least.is_some() { from } else { from.max(0.0) };
        let bar = |value: f64| {
            let at = ((bars.place(value / divisor) - bars.from) / bars.step).floor();
            usize::try_from(rounded(at)).unwrap_or(0)
        };
        let room = usize::try_from(margin).unwrap_or(0);
        let mut counts = vec![0; (bar(most) + 1 + room).min(BARS_MAX * 4)];
        for value in &histogram.values {
            let at = bar(*value).min(counts.len() - 1);
            counts[at] += 1;
        }
        bars.counts = counts;
        bars
    }

    /// Where a value, in the unit, lies on the axis.
    pub(super) fn place(&self, value: f64) -> f64 {
        self.least.map_or(value, |least| value.max(least).log10())
    }

    /// The place at which the last bar ends.
    pub(super) fn to(&self) -> f64 {
        self.from + precise(self.counts.len() as u64) * self.step
    }

    pub(super) fn highest(&self) -> u64 {
        self.counts.iter().copied().max().unwrap_or(0)
    }

    pub(super) fn titled(&self, histogram: &Histogram) -> String {
        let logarithmic = if self.least.is_some() { ", logarithmic" } else { "" };
        match self.unit.as_str() {
            "" => format!("{}{logarithmic}", histogram.title),
            unit => format!("{} ({unit}{logarithmic})", histogram.title),
        }
    }

    /// At most `count` values for the axis, in the unit, and their text.
    pub(super) fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        if self.least.is_none() {
            return scale::between(self.from, self.to(), count);
        }
        let (from, to) = (self.from.ceil(), self.to().floor());
        let every = ((to - from + 1.0) / precise(count.max(1) as u64)).ceil().max(1.0);
        let powers = (0..64u32).map(|at| from + f64::from(at) * every).take_while(|&power| power <= to);
        powers.map(|power| 10f64.powf(power)).map(|value| (value, scale::written(value, value))).collect()
    }

    /// The start of each bar, in the unit, as text.
    pub(super) fn begins(&self) -> Vec<String> {
        let places = (0..self.counts.len() as u64).map(|at| self.from + precise(at) * self.step);
        match self.least {
            None => places.map(|place| scale::written(place, self.step)).collect(),
            Some(_) => places.map(|place| three_digits(10f64.powf(place))).collect(),
        }
    }

    /// Median, p90 and the largest, in the unit of the axis.
    pub(super) fn marks(&self, histogram: &Histogram) -> Vec<(f64, &'static str)> {
        let marks = [(50, "median"), (90, "p90"), (100, "max")];
        let at = |(percent, name)| histogram.at(percent).map(|value| (value / self.divisor, name));
        marks.into_iter().filter_map(at).collect()
    }

    /// The marks in words.
    pub(super) fn told(&self, histogram: &Histogram) -> String {
        let one = |(value, name): (f64, &str)| format!("{name} {}", three_digits(value));
        self.marks(histogram).into_iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// The least value above 0 of a histogram with its largest value far above the median.
fn long_tail(histogram: &Histogram) -> Option<f64> {
    let (median, most) = (histogram.at(50)?, histogram.at(100)?);
    let least = histogram.values.iter().copied().find(|&value| value > 0.0)?;
    // A median of 0 has no logarithm to be compared with.
    (median > 0.0 && most > LONG_TAIL * median).then_some(least.max(most * 1e-9))
}

/// Three significant digits; two for figures below a hundredth, where 0.00 would be useless.
pub(super) fn three_digits(value: f64) -> String {
    if value > 0.0 && value < 0.00995 {
        let two = |decimals: &u8| value * 10f64.powi(i32::from(*decimals)) >= 9.95;
        return format!("{value:.*}", usize::from((2..9).find(two).unwrap_or(9)));
    }
    match value {
        0.0..9.995 => format!("{value:.2}"),
        9.995..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
