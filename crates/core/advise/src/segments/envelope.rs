//! How much the next run of a class will hold by when, with a risk that is known: from the curves of those before it.
//!
//! At each time the largest that runs held so far is an envelope of all of them; without some of the largest at each
//! time it is one of most. An envelope is widened by a margin: it begins so many cells earlier, and is a little
//! larger. How much of a margin a run would have needed is found with that run left out of its envelope (jackknife;
//! R. F. Barber and others, Annals of Statistics 49, 2021). Of the margins that n runs needed the j-th is exceeded
//! by the next with probability (n + 1 - j) / (n + 1) if runs are exchangeable (split conformal prediction; Vovk,
//! Gammerman and Shafer, 2005), and beyond the largest the tail falls off exponentially, as in [`crate::margin`], but
//! not below a tenth of a run: no history shows that fewer need more. Of the envelopes and margins whose risk is small
//! enough the one is taken that is expected to save the most of what the peak would hold from the start, failures
//! paid for. Absent: the segments that are made of it ([`super::cover`]).

use super::frame::{CELLS, Table};
use crate::types::Settings;

/// The widest margin, in cells.
const MARGIN_MAX: usize = 12;
/// How much larger a margin of one cell makes an envelope.
const LARGER: f64 = 0.03;
/// With few runs no margin could hold a small risk: from a risk of 1 / this on, the largest is enough.
const FEW: f64 = 25.0;
/// How wide the tail is taken to be before anything was seen, in cells, by n.
const TAIL_PRIOR: f64 = 20.0;
/// The least share of a run that is taken to need more: no run shows that fewer do.
const LEAST: f64 = 0.1;
/// Of so many runs one is left out at each time, where that saves more than it risks.
const PART: usize = 25;

/// How much is enough until the end of each cell, in the units of its table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Envelope {
    /// In ascending order; the last is as much as there is.
    pub(super) levels: [f64; CELLS],
    /// The expected probability that the next run holds more, before it holds the most.
    pub(super) risk: f64,
}

/// The envelope that is expected to save the most. `None`: none saves anything.
pub(super) fn best(table: &Table, settings: &Settings) -> Option<Envelope> {
    let n = table.levels.len();
    let mut ranks = vec![1, 2, 1 + n / PART];
    ranks.sort_unstable();
    ranks.dedup();
    ranks.retain(|&rank| rank < n);
    let sorted = Ranked::new(table, *ranks.last()?);
    let allowed = (settings.risk * (n as f64 + 1.0)).max((settings.risk * FEW).min(1.0));
    let flat = table.weights.iter().sum::<f64>() * table.usual / n as f64;
    let mut best: Option<(f64, Envelope)> = None;
    for &rank in &ranks {
        let base = sorted.envelope(rank);
        let over = Over::new(table.levels.iter().map(|line| sorted.needed(rank, line)).collect());
        for margin in 0..=MARGIN_MAX {
            let over = over.at(margin);
            if over > allowed {
                continue;
            }
            let levels = widened(&base, margin);
            let gain = table.gain(&levels) - over * (flat + settings.failure_gbh);
            if gain > best.as_ref().map_or(0.0, |best| best.0) {
                best = Some((gain, Envelope { levels, risk: over / (n as f64 + 1.0) }));
            }
        }
    }
    best.map(|best| best.1)
}

impl Table {
    /// What all runs would have held less than with the usual peak, in GB x hours.
    pub(super) fn gain(&self, levels: &[f64; CELLS]) -> f64 {
        let gain = |(level, weight): (&f64, &f64)| (self.usual - level).max(0.0) * weight;
        levels.iter().zip(&self.weights).map(gain).sum()
    }
}

/// An envelope with a margin of so many cells.
fn widened(base: &[f64; CELLS], margin: usize) -> [f64; CELLS] {
    let mut levels = [base[CELLS - 1]; CELLS];
    let larger = 1.0 + LARGER * margin as f64;
    for (level, base) in levels.iter_mut().zip(&base[margin.min(CELLS)..]) {
        *level = (base * larger).min(*level);
    }
    levels
}

/// The largest levels of each cell, in descending order.
struct Ranked(Vec<[f64; CELLS]>);

impl Ranked {
    /// Up to the one after `rank`; there are more runs than that.
    fn new(table: &Table, rank: usize) -> Self {
        let mut ranked = vec![[0.0; CELLS]; rank + 1];
        let mut column = Vec::with_capacity(table.levels.len());
        let descending = |a: &f64, b: &f64| b.total_cmp(a);
        for cell in 0..CELLS {
            column.clear();
            column.extend(table.levels.iter().map(|line| line[cell]));
            column.select_nth_unstable_by(rank, descending);
            column[..=rank].sort_unstable_by(descending);
            ranked.iter_mut().zip(&column).for_each(|(line, level)| line[cell] = *level);
        }
        Self(ranked)
    }

    /// The `rank`-th largest of each cell, from 1.
    fn envelope(&self, rank: usize) -> [f64; CELLS] {
        self.0[rank - 1]
    }

    /// The margin with which the envelope of all others is enough for the run with this `line`; more than
    /// [`MARGIN_MAX`] is one more.
    fn needed(&self, rank: usize, line: &[f64; CELLS]) -> usize {
        let others = |cell: usize| {
            let with = self.0[rank - 1][cell];
            if line[cell] >= with { self.0[rank][cell] } else { with }
        };
        let most = others(CELLS - 1);
        let mut margin = 0;
        for (cell, &level) in line.iter().enumerate() {
            while margin <= MARGIN_MAX {
                let earlier = if cell + margin < CELLS { others(cell + margin) } else { most };
                // With the most that there is it has its peak: whether that is enough is not asked here.
                if earlier >= most || level <= earlier * (1.0 + LARGER * margin as f64) {
                    break;
                }
                margin += 1;
            }
        }
        margin
    }
}

/// How many of n + 1 runs need more than a margin.
struct Over {
    /// What each run needed, in ascending order.
    needed: Vec<usize>,
    tail: f64,
}

impl Over {
    fn new(mut needed: Vec<usize>) -> Self {
        needed.sort_unstable();
        let n = needed.len();
        let count = (n.isqrt() + usize::from(n.isqrt().pow(2) < n)).clamp(1, n.max(1));
        let foot = needed.get((n - count).saturating_sub(1)).copied().unwrap_or(0);
        let beyond: usize = needed.iter().rev().take(count).map(|needed| needed - foot).sum();
        let tail = (beyond as f64 + TAIL_PRIOR / n as f64) / (count as f64 + 1.0);
        Self { needed, tail }
    }

    fn at(&self, margin: usize) -> f64 {
        let more = self.needed.len() - self.needed.partition_point(|&needed| needed <= margin);
        let largest = self.needed.last().copied().unwrap_or(0);
        let beyond = margin.saturating_sub(largest) as f64;
        more as f64 + (-beyond / self.tail).exp().max(LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests::run;
    use super::super::frame::{Frame, Run};
    use super::*;
    use crate::types::Order;

    fn table(runs: &[Run]) -> Table {
        Table::new(&Frame::all(runs)[1].unwrap(), runs).unwrap()
    }

    fn settings() -> Settings {
        Settings { failure_gbh: 0.1, ..Settings::of(Order::Time) }
    }

    /// The level at so many hours.
    fn at(table: &Table, envelope: &Envelope, hours: f64) -> f64 {
        envelope.levels[table.starts.iter().rposition(|&start| start <= hours).unwrap()]
    }

    #[test]
    fn what_all_runs_do_is_expected_of_the_next() {
        let runs: Vec<Run> = (0..30).map(|_| run(None, 10.0, &[(0.0, 1.0), (8.0, 20.0)])).collect();
        let table = table(&runs);
        let best = best(&table, &settings()).unwrap();
        assert!((1.0..1.2).contains(&at(&table, &best, 4.0)), "{best:?}");
        assert!((20.0..20.1).contains(&at(&table, &best, 8.0)) && best.risk < 0.04, "{best:?}");
        assert!(best.levels.is_sorted());
    }

    #[test]
    fn runs_that_differ_get_a_margin() {
        // The moment of the raise is anywhere from six to eight hours.
        let moment = |n: u32| 6.0 + 2.0 * f64::from(n * 7 % 30) / 30.0;
        let runs: Vec<Run> = (0..30).map(|n| run(None, 10.0, &[(0.0, 1.0), (moment(n), 20.0)])).collect();
        let table = table(&runs);
        let best = best(&table, &settings()).unwrap();
        assert!(at(&table, &best, 6.0) >= 20.0 && at(&table, &best, 3.0) < 2.0, "{best:?}");
    }

    #[test]
    fn one_odd_run_of_many_does_not_end_it() {
        let mut runs: Vec<Run> = (0..60).map(|_| run(None, 10.0, &[(0.0, 1.0), (8.0, 20.0)])).collect();
        runs[17] = run(None, 10.0, &[(0.0, 20.0)]);
        let table = table(&runs);
        let best = best(&table, &settings()).unwrap();
        assert!(at(&table, &best, 4.0) < 2.0 && (0.01..0.1).contains(&best.risk), "{best:?}");
        // Where a failure costs more than all runs can save, it does.
        let dear = Settings { failure_gbh: 1e6, ..settings() };
        assert_eq!(super::best(&table, &dear), None);
    }

    #[test]
    fn runs_with_all_of_it_from_the_start_save_nothing() {
        let runs: Vec<Run> = (0..30).map(|_| run(None, 10.0, &[(0.0, 20.0)])).collect();
        assert_eq!(best(&table(&runs), &settings()), None);
        assert_eq!(best(&table(&runs[..1]), &settings()), None, "one run is no class");
    }

    #[test]
    fn a_margin_is_exceeded_as_often_as_it_was() {
        let over = Over::new((0..100).map(|n| n % 10).collect());
        assert!((over.at(4) - 51.0).abs() < 1e-9 && (over.at(9) - 1.0).abs() < 1e-9);
        assert!(over.at(10) < 1.0 && over.at(10) > over.at(12));
        let alike = Over::new(vec![0; 100]);
        assert!((alike.at(1) - LEAST).abs() < 1e-9, "{}", alike.at(1));
    }
}
