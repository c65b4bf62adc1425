//! What the cells say: how far predictions are off, and how often the better of two settings is named.

use serde_json::{Value, json};

use super::Cell;
use crate::record::Record;
use crate::stats::{median, percentile};
use crate::table::markdown;

/// Two settings differ where one takes this part longer than the other, and more.
const DIFFERS: f64 = 0.05;
/// A run that other programs took this part of all cores from says little of the simulator.
const DISTURBED: f64 = 0.05;

pub(super) fn tell(
    calibration: &Value,
    cells: &[Cell],
    cores: usize,
    record: &mut Record,
) -> anyhow::Result<()> {
    record.say(&format!("Calibration: `{calibration}`\n"));
    let row = |cell: &Cell| {
        vec![
            cell.mix.clone(),
            cell.jobs.to_string(),
            cell.factor.to_string(),
            format!("{:.2}", cell.took_s()),
            format!("{:.2}", cell.predicted_s),
            format!("{:+.1}", 100.0 * cell.error()),
            format!("{:.2}", cell.foreign_cores),
        ]
    };
    let head = ["mix", "jobs", "slots.factor", "measured s", "predicted s", "error %", "others, cores"];
    record.say(&markdown(&head, &cells.iter().map(row).collect::<Vec<_>>()));
    let quiet = |cell: &&Cell| cell.foreign_cores <= DISTURBED * cores as f64;
    let all: Vec<&Cell> = cells.iter().collect();
    let calm: Vec<&Cell> = cells.iter().filter(quiet).collect();
    let mut table = Vec::new();
    for (name, cells) in [("all", &all), ("those that others took less than 5 % from", &calm)] {
        let summary = Summary::of(cells);
        record.add("summary", &json!({ "of": name, "cells": cells.len(), "summary": summary.raw() }))?;
        table.push(summary.row(name, cells.len()));
    }
    let head = ["cells", "count", "error, median %", "error, 90 % within %", "better one named"];
    record.say(&markdown(&head, &table));
    Ok(())
}

/// What cells come to together.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Summary {
    median: Option<f64>,
    p90: Option<f64>,
    /// Pairs of settings of one mix that differ, and in how many of them the better one was named.
    pairs: usize,
    named: usize,
}

impl Summary {
    fn of(cells: &[&Cell]) -> Self {
        let errors: Vec<f64> = cells.iter().map(|cell| cell.error().abs()).collect();
        let (mut pairs, mut named) = (0, 0);
        for (at, one) in cells.iter().enumerate() {
            for other in cells[at + 1..].iter().filter(|other| other.mix == one.mix) {
                let (first, second) = (one.took_s(), other.took_s());
                if first.max(second) < first.min(second) * (1.0 + DIFFERS) {
                    continue;
                }
                pairs += 1;
                // Of two that are predicted to take as long as each other none is named.
                let right = (first < second && one.predicted_s < other.predicted_s)
                    || (first > second && one.predicted_s > other.predicted_s);
                named += usize::from(right);
            }
        }
        let median = median(&errors).map(|median| median.value);
        Self { median, p90: percentile(&errors, 0.9), pairs, named }
    }

    fn raw(&self) -> Value {
        json!({ "median": self.median, "p90": self.p90, "pairs": self.pairs, "named": self.named })
    }

    fn row(&self, name: &str, count: usize) -> Vec<String> {
        let percent =
            |part: Option<f64>| part.map_or_else(|| "-".to_owned(), |part| format!("{:.1}", 100.0 * part));
        let named = format!("{} of {}", self.named, self.pairs);
        vec![name.to_owned(), count.to_string(), percent(self.median), percent(self.p90), named]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(mix: &str, measured_s: f64, predicted_s: f64) -> Cell {
        Cell {
            mix: mix.to_owned(),
            factor: 1.0,
            jobs: 1,
            measured_s: vec![measured_s],
            predicted_s,
            foreign_cores: 0.0,
            freezes: 0,
            swapped_out_bytes: 0,
            swapped_in_bytes: 0,
            ran: Vec::new(),
        }
    }

    #[test]
    fn errors_and_pairs() {
        let cells = [
            cell("a", 10.0, 11.0),
            cell("a", 20.0, 19.0),
            // Not 5 % beside the first, and the wrong way beside the second.
            cell("a", 10.4, 20.0),
            // Of another mix.
            cell("b", 1.0, 1.0),
        ];
        let all: Vec<&Cell> = cells.iter().collect();
        let summary = Summary::of(&all);
        assert_eq!((summary.pairs, summary.named), (2, 1));
        assert!(summary.median.is_some_and(|median| (median - 0.075).abs() < 1e-9), "{summary:?}");
        assert!(summary.p90.is_some_and(|p90| p90 > 0.9), "{summary:?}");
        let none = Summary::of(&[]);
        assert_eq!((none.median, none.p90, none.pairs), (None, None, 0));
        assert_eq!(none.row("none", 0), ["none", "0", "-", "-", "0 of 0"]);
    }
}
