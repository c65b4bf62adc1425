//! Which estimators are trusted: by what each would have cost so far.
//!
//! Every run is first predicted and then learnt from (prequential; A. P. Dawid, Statistical theory: the prequential
//! approach, JRSS A 147, 1984). Allocations are averaged with weights (least cost / cost)^7: the best few share the
//! say, the noise of choosing one is gone, and an estimator that fails loses it (prediction with expert advice; Cesa-Bianchi and
//! Lugosi, Prediction, Learning, and Games, 2006).

use crate::estimate::Kind;
use crate::history::{Ask, Run, largest_input, largest_peak};
use crate::margin::{Fitted, Spread};
use crate::types::{Order, Settings};

/// The estimators and their margins; the first is always there and is the yardstick of the others.
const CANDIDATES: [(Kind, &[Spread]); 12] = [
    (Kind::Flat, &[Spread::Even, Spread::Normal]),
    (Kind::Recent(5), &[Spread::Proportional]),
    (Kind::Recent(20), &[Spread::Proportional]),
    (Kind::Request, &[Spread::Proportional]),
    (Kind::Line, &[Spread::Even, Spread::Proportional, Spread::Nearby, Spread::Normal]),
    (Kind::Power, &[Spread::Proportional, Spread::Nearby]),
    (Kind::LineOfLog, &[Spread::Even, Spread::Proportional]),
    (Kind::Near(3), &[Spread::Even, Spread::Proportional, Spread::Nearby]),
    (Kind::Near(7), &[Spread::Even, Spread::Proportional, Spread::Normal]),
    (Kind::Local, &[Spread::Even, Spread::Proportional, Spread::Nearby]),
    (Kind::Envelope, &[Spread::Proportional]),
    // A class without inputs needs one more voice: peaks that grow or fall together.
    (Kind::Flat, &[Spread::Proportional]),
];

/// How much more the better are trusted.
const POWER: f64 = 7.0;
/// No estimate is believed beyond so many times the largest peak, unless the input is larger by more.
const BEYOND_LARGEST: f64 = 3.0;

/// A candidate fitted to the runs of its class, and its kind.
#[derive(Debug)]
pub(crate) struct Candidate {
    kind: Kind,
    fitted: Option<Fitted>,
}

/// What the candidates say together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Mixed {
    /// In GB.
    pub(crate) allocation: f64,
    pub(crate) risk: f64,
    /// The one that weighs most.
    pub(crate) kind: Kind,
}

/// Fits all candidates.
pub(crate) fn fit(runs: &[Run], settings: &Settings) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (kind, spreads) in CANDIDATES {
        // A fit costs more than its margins: all of a kind share it.
        let fit = kind.fit(runs);
        for &spread in spreads {
            let fitted = fit.as_ref().and_then(|fit| Fitted::new(fit, spread, runs, settings));
            candidates.push(Candidate { kind, fitted });
        }
    }
    candidates
}

/// The allocation of each candidate for a job, in GB, and its risk.
pub(crate) fn say(candidates: &[Candidate], runs: &[Run], ask: &Ask) -> Vec<Option<(f64, f64)>> {
    let largest_input = largest_input(runs);
    let farther =
        ask.input.filter(|_| largest_input > 0.0).map_or(1.0, |input| (input / largest_input).max(1.0));
    let most = largest_peak(runs) * BEYOND_LARGEST * farther;
    let one = |candidate: &Candidate| {
        let fitted = candidate.fitted.as_ref()?;
        Some((fitted.at(ask)?.min(most), fitted.risk))
    };
    candidates.iter().map(one).collect()
}

/// What was paid for each candidate so far, in GB x hours.
#[derive(Debug, Default)]
pub(crate) struct Scores(Vec<f64>);

impl Scores {
    /// Adds what each would have cost for a run. One that said nothing pays what the first does.
    pub(crate) fn add(&mut self, said: &[Option<(f64, f64)>], run: &Run, largest: f64, settings: &Settings) {
        self.0.resize(said.len(), 0.0);
        let price =
            |said: &Option<(f64, f64)>| said.map(|(allocation, _)| cost(allocation, run, largest, settings));
        let usual = said.first().and_then(price).unwrap_or(0.0);
        for (score, said) in self.0.iter_mut().zip(said) {
            *score += price(said).unwrap_or(usual);
        }
    }

    /// All candidates' allocations, averaged. `None`: nobody says anything.
    pub(crate) fn mix(&self, candidates: &[Candidate], said: &[Option<(f64, f64)>]) -> Option<Mixed> {
        let score = |at: usize| self.0.get(at).copied().unwrap_or(0.0);
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
        })
    }
}

/// What an allocation for a run costs, in GB x hours, failures included.
fn cost(allocation: f64, run: &Run, largest: f64, settings: &Settings) -> f64 {
    let request = run.ask.request.filter(|_| settings.order == Order::Time);
    let first = request.map_or(allocation, |request| allocation.min(request));
    if first >= run.peak {
        return (first - run.peak) * run.hours;
    }
    let mut paid = first * run.hours + settings.failure_gbh;
    let mut next = match request {
        Some(request) => request.max(first * 2.0),
        None => (first * 2.0).min((largest * 1.2).max(first * 1.25)),
    };
    if request.is_none() {
        for _ in 0..64 {
            if next >= run.peak {
                break;
            }
            paid += next * run.hours + settings.failure_gbh;
            next *= 2.0;
        }
    }
    paid += (next - run.peak).max(0.0) * run.hours;
    paid
}
