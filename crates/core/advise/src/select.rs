//! Which estimators are trusted: by the cost that each would have had so far, and by the expected cost of its fit.
//!
//! Every run is first predicted and then learnt from (prequential; A. P. Dawid, Statistical theory: the prequential
//! approach, JRSS A 147, 1984). The cost of these predictions is true of the past, but of few runs it tells little:
//! each was predicted from fewer still, and a single failure decides. So the cost that a fit expects by its left-out
//! errors counts too (cross-validation; M. Stone, JRSS B 36, 1974), the less the more runs were scored: it is of all
//! runs, and says nothing of drift. Allocations are averaged with weights (least cost / cost)^7: the best few share the
//! say, the noise of choosing one is gone, and an estimator that fails loses it (prediction with expert advice;
//! Cesa-Bianchi and Lugosi, Prediction, Learning, and Games, 2006).

use crate::caution::{MOST_BEYOND, farther};
use crate::estimate::Kind;
use crate::history::{Ask, Lot, Over, Run, largest_peak};
use crate::margin::{Fitted, Spread};
use crate::numbers;
use crate::types::Settings;

/// The estimators and their margins; the first is always there and is the yardstick of the others.
const CANDIDATES: [(Kind, &[Spread]); 5] = [
    (Kind::Flat, &[Spread::Even, Spread::Proportional]),
    (Kind::Line, &[Spread::Even, Spread::Proportional, Spread::Normal]),
    (Kind::Near(3), &[Spread::Even, Spread::Proportional, Spread::Normal]),
    (Kind::Near(7), &[Spread::Even, Spread::Proportional, Spread::Normal]),
    (Kind::Local, &[Spread::Even, Spread::Proportional, Spread::Normal]),
];

/// The estimators over the number that peaks follow ([`numbers`]), in place of the input.
const OVER_NUMBER: [(Kind, &[Spread]); 3] = [
    (Kind::Line, &[Spread::Even, Spread::Proportional]),
    (Kind::Near(3), &[Spread::Proportional]),
    (Kind::Local, &[Spread::Proportional]),
];

/// How much more the better are trusted.
const POWER: f64 = 7.0;
/// How much of the say the costs by left-out errors have to begin with,
const LEFT_OUT: f64 = 0.8;
/// and the number of scored runs from which on it is half as much.
const LEFT_OUT_RUNS: f64 = 30.0;

/// A candidate fitted to the runs of its class, and its kind.
#[derive(Debug)]
pub(crate) struct Candidate {
    kind: Kind,
    over: Over,
    fitted: Option<Fitted>,
}

/// The mix of all candidates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mixed {
    /// In GB.
    pub(crate) allocation: f64,
    pub(crate) risk: f64,
    /// The candidate of the largest weight, and its feature.
    pub(crate) kind: Kind,
    pub(crate) over: Over,
}

/// Fits all candidates.
pub(crate) fn fit(runs: &[Run], settings: &Settings) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    let mut add = |kinds: &[(Kind, &[Spread])], over: Over, lot: Option<&Lot<'_>>| {
        for &(kind, spreads) in kinds {
            // A fit costs more than its margins: all of a kind share it.
            let fit = lot.and_then(|lot| kind.fit(lot));
            for &spread in spreads {
                let fitted =
                    lot.zip(fit.as_ref()).and_then(|(lot, fit)| Fitted::new(fit, spread, lot, settings));
                candidates.push(Candidate { kind, over, fitted });
            }
        }
    };
    add(&CANDIDATES, Over::Input, Some(&Lot::new(runs)));
    let Some(over) = numbers::followed(runs).map(Over::Number) else {
        // They keep their places: costs are counted by place.
        add(&OVER_NUMBER, Over::Input, None);
        return candidates;
    };
    let runs: Vec<Run> = runs.iter().map(|run| Run { ask: over.ask(&run.ask), ..*run }).collect();
    add(&OVER_NUMBER, over, Some(&Lot::new(&runs)));
    candidates
}

/// The number that peaks follow; without a number, the size of the inputs.
pub(crate) fn over_number(candidates: &[Candidate]) -> Over {
    candidates.last().map_or(Over::Input, |candidate| candidate.over)
}

/// The allocation of each candidate for a job, in GB, and its risk.
pub(crate) fn say(candidates: &[Candidate], runs: &[Run], ask: &Ask) -> Vec<Option<(f64, f64)>> {
    let largest_peak = largest_peak(runs);
    let asked = |over: Over| (over.ask(ask), largest_peak * MOST_BEYOND * farther(ask, runs, over));
    let (by_input, by_number) = (asked(Over::Input), asked(over_number(candidates)));
    let one = |candidate: &Candidate| {
        let (ask, most) = if candidate.over == Over::Input { &by_input } else { &by_number };
        let fitted = candidate.fitted.as_ref()?;
        Some((fitted.at(ask)?.min(*most), fitted.risk))
    };
    candidates.iter().map(one).collect()
}

/// The cost of each candidate so far, in GB x hours, and for how many runs.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    paid: Vec<f64>,
    runs: f64,
}

impl Scores {
    /// Adds the cost of each for a run. A candidate without an allocation pays as the first.
    pub(crate) fn add(&mut self, said: &[Option<(f64, f64)>], run: &Run, largest: f64, settings: &Settings) {
        self.paid.resize(said.len(), 0.0);
        self.runs += 1.0;
        let price =
            |said: &Option<(f64, f64)>| said.map(|(allocation, _)| cost(allocation, run, largest, settings));
        let usual = said.first().and_then(price).unwrap_or(0.0);
        for (score, said) in self.paid.iter_mut().zip(said) {
            *score += price(said).unwrap_or(usual);
        }
    }

    /// All candidates' allocations, averaged. `None`: no candidate has an allocation.
    pub(crate) fn mix(&self, candidates: &[Candidate], said: &[Option<(f64, f64)>]) -> Option<Mixed> {
        let part = LEFT_OUT * LEFT_OUT_RUNS / (LEFT_OUT_RUNS + self.runs);
        // A run, in the mean.
        let score = |at: usize| {
            let paid = self.paid.get(at).copied().unwrap_or(0.0) / self.runs.max(1.0);
            let expected = candidates[at].fitted.as_ref().map_or(0.0, |fitted| fitted.cost);
            (1.0 - part) * paid + part * expected
        };
        let present = || (0..said.len()).filter_map(|at| said[at].map(|said| (at, said)));
        let best = present().map(|(at, _)| at).min_by(|&a, &b| score(a).total_cmp(&score(b)))?;
        let least = score(best).max(1e-12);
        let weight = |at: usize| (least / score(at).max(least)).powf(POWER);
        let all: f64 = present().map(|(at, _)| weight(at)).sum();
        let mean =
            |of: fn((f64, f64)) -> f64| present().map(|(at, said)| weight(at) * of(said)).sum::<f64>() / all;
        Some(Mixed {
            allocation: mean(|said| said.0),
            risk: mean(|said| said.1),
            kind: candidates.get(best)?.kind,
            over: candidates.get(best)?.over,
        })
    }
}

/// The cost of an allocation for a run, in GB x hours, failures included.
fn cost(allocation: f64, run: &Run, largest: f64, settings: &Settings) -> f64 {
    if allocation >= run.peak {
        return (allocation - run.peak) * run.hours;
    }
    let mut paid = allocation * run.hours + settings.failure_gbh;
    // More than the usual second attempt: an estimator that fails is not to look cheap.
    let mut next = (allocation * 2.0).min((largest * 1.2).max(allocation * 1.25));
    for _ in 0..64 {
        if next >= run.peak {
            break;
        }
        paid += next * run.hours + settings.failure_gbh;
        next *= 2.0;
    }
    paid += (next - run.peak).max(0.0) * run.hours;
    paid
}
