//! The tables of row `interfere`, from its runs.
//!
//! Pure: figures in, text out. A difference is that of a pair in the same round; its median has an interval.

use super::{Run, Way, Work};
use crate::record::Record;
use crate::stats::{Median, median, percentile};
use crate::table;

/// The target fraction of the core-seconds left by a primary that the processes beside it use while they have work.
const USED: f64 = 0.95;

/// Writes a table for each primary.
pub(super) fn tell(ways: &[Way], primaries: &[(Work, u64)], runs: &[Run], record: &mut Record) {
    for &(primary, units) in primaries {
        let of = |way: Way| {
            let mine = runs.iter().filter(move |run| {
                run.primary == primary && run.way == way.name() && run.beside == way.beside()
            });
            mine.collect::<Vec<&Run>>()
        };
        let alone = of(Way::Alone);
        record.say(&format!(
            "\n### A primary that does `{}`\n\n{units} units, {} interleaved rounds.\n",
            primary.name(),
            alone.len()
        ));
        if primary == Work::Wake {
            let rows: Vec<Vec<String>> = ways.iter().filter_map(|&way| late(way, &of(way))).collect();
            let head =
                ["way", "beside", "late us: p50", "p99", "p99.9", "worst", "p99 of a round", "idle used %"];
            record.say(&table::markdown(&head, &rows));
            continue;
        }
        let rows = ways.iter().filter_map(|&way| slowed(way, primary, &of(way), &alone));
        let head =
            ["way", "beside", "seconds", "slowed by %", "promise", "idle used %", "promise", "others' cores"];
        record.say(&table::markdown(&head, &rows.collect::<Vec<_>>()));
    }
    if let Some(confidence) = runs
        .iter()
        .map(|run| run.round)
        .max()
        .and_then(|last| median(&vec![0.0; last + 1]))
        .map(|median| median.confidence)
    {
        record.say(&format!(
            "Medians with order-statistic intervals of {:.1} %. *slowed by* and *idle used* are of one round each.\n",
            100.0 * confidence
        ));
    }
}

/// A row of a primary that is slowed.
fn slowed(way: Way, primary: Work, own: &[&Run], alone: &[&Run]) -> Option<Vec<String>> {
    let seconds = median(&own.iter().map(|run| run.seconds).collect::<Vec<_>>())?;
    let pair = |run: &&Run| {
        let alone = alone.iter().find(|alone| alone.round == run.round)?;
        Some(100.0 * (run.seconds / alone.seconds - 1.0))
    };
    let beyond = median(&own.iter().filter_map(pair).collect::<Vec<_>>())?;
    let (beyond_cell, promise) = match way {
        Way::Alone => ("reference".to_owned(), "-"),
        // A promise is made for jobs beside jobs.
        Way::Backfill(_) => (table::with_interval(&beyond, 2), at_most(&beyond, primary.target())),
        _ => (table::with_interval(&beyond, 2), "-"),
    };
    let used = used(own);
    let kept = match (way, &used) {
        (Way::Backfill(_), Some(used)) => at_least(used, USED),
        _ => "-",
    };
    let foreign = median(&own.iter().map(|run| run.foreign_cores).collect::<Vec<_>>())?;
    Some(vec![
        way.name().to_owned(),
        way.beside().map_or("-", super::Beside::name).to_owned(),
        table::with_interval(&seconds, 3),
        beyond_cell,
        promise.to_owned(),
        used.map_or_else(|| "-".to_owned(), |used| table::with_interval(&used, 1)),
        kept.to_owned(),
        format!("{:.2}", foreign.value),
    ])
}

/// A row of the primary that wakes.
fn late(way: Way, own: &[&Run]) -> Option<Vec<String>> {
    let us = |late: &[u64]| late.iter().map(|&us| us as f64).collect::<Vec<f64>>();
    let all: Vec<f64> = own.iter().flat_map(|run| us(&run.late_us)).collect();
    let at = |share: f64| percentile(&all, share).map(|us| format!("{us:.0}"));
    let rounds: Vec<f64> = own.iter().filter_map(|run| percentile(&us(&run.late_us), 0.99)).collect();
    Some(vec![
        way.name().to_owned(),
        way.beside().map_or("-", super::Beside::name).to_owned(),
        at(0.5)?,
        at(0.99)?,
        at(0.999)?,
        at(1.0)?,
        table::with_interval(&median(&rounds)?, 0),
        used(own).map_or_else(|| "-".to_owned(), |used| table::with_interval(&used, 1)),
    ])
}

/// The used fraction of the time available to the processes beside it, percent.
fn used(own: &[&Run]) -> Option<Median> {
    let shares =
        own.iter().filter(|run| run.beside.is_some()).map(|run| share_used(run.beside_s, run.idle_s));
    median(&shares.map(|share| 100.0 * share).collect::<Vec<_>>())
}

/// The used fraction of the remaining time, used or idle.
fn share_used(used_s: f64, idle_s: f64) -> f64 {
    used_s / (used_s + idle_s.max(0.0)).max(f64::MIN_POSITIVE)
}

/// Whether a median in percent lies at or below a fraction, by its interval; an interval of less than 95 % shows nothing.
fn at_most(found: &Median, target: Option<f64>) -> &'static str {
    match target.map(|target| 100.0 * target) {
        None => "-",
        Some(_) if found.confidence < 0.95 => "not shown",
        Some(target) if found.high <= target => "kept",
        Some(target) if found.low > target => "broken",
        Some(_) => "not shown",
    }
}

/// Whether it lies at or above.
fn at_least(found: &Median, target: f64) -> &'static str {
    match 100.0 * target {
        _ if found.confidence < 0.95 => "not shown",
        target if found.low >= target => "kept",
        target if found.high < target => "broken",
        _ => "not shown",
    }
}

#[cfg(test)]
mod tests {
    use super::super::Beside;
    use super::*;

    fn run(round: usize, way: Way, seconds: f64, beside_s: f64, idle_s: f64) -> Run {
        Run {
            round,
            primary: Work::Compute,
            way: way.name(),
            beside: way.beside(),
            seconds,
            cpu_s: seconds,
            window_s: seconds,
            beside_s,
            idle_s,
            foreign_cores: 0.0,
            late_us: vec![5, 7, 900],
        }
    }

    /// Each is held against its own round, not against the mean of all.
    #[test]
    fn pairs_are_of_one_round() {
        let beside = Way::Backfill(Beside::Compute);
        let alone: Vec<Run> =
            (0..6).map(|round| run(round, Way::Alone, 1.0 + round as f64, 0.0, 9.0)).collect();
        let own: Vec<Run> =
            (0..6).rev().map(|round| run(round, beside, 1.005 * (1.0 + round as f64), 1.9, 0.1)).collect();
        let (alone, own): (Vec<&Run>, Vec<&Run>) = (alone.iter().collect(), own.iter().collect());
        let row = slowed(beside, Work::Compute, &own, &alone).unwrap();
        assert_eq!(row[3], "0.50 [0.50, 0.50]");
        assert_eq!(
            (row[4].as_str(), row[5].as_str(), row[6].as_str()),
            ("kept", "95.0 [95.0, 95.0]", "kept")
        );
        assert_eq!(slowed(Way::Alone, Work::Compute, &alone, &alone).unwrap()[3], "reference");
        assert_eq!(late(beside, &own).unwrap()[2..6], ["7", "900", "900", "900"]);
        assert_eq!(slowed(beside, Work::Compute, &[], &alone), None);
    }

    /// An interval that holds the promised figure shows nothing.
    #[test]
    fn a_promise_is_kept_or_broken_by_the_interval() {
        let around = |low, high| Median { value: (low + high) / 2.0, low, high, confidence: 0.95, count: 10 };
        assert_eq!(at_most(&around(-1.0, 0.9), Some(0.01)), "kept");
        assert_eq!(at_most(&around(0.9, 1.1), Some(0.01)), "not shown");
        assert_eq!(at_most(&around(1.1, 1.2), Some(0.01)), "broken");
        assert_eq!(at_most(&around(1.1, 1.2), None), "-");
        let few = Median { confidence: 0.9375, ..around(0.0, 0.5) };
        assert_eq!((at_most(&few, Some(0.01)), at_least(&few, 0.95)), ("not shown", "not shown"));
        assert_eq!(at_least(&around(95.0, 99.0), 0.95), "kept");
        assert_eq!(at_least(&around(94.0, 99.0), 0.95), "not shown");
        assert_eq!(at_least(&around(90.0, 94.0), 0.95), "broken");
    }
}
