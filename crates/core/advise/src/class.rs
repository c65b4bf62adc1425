//! One class: its last runs, what was fitted to them, and how good its advice was.
//!
//! A fit is made when it is asked for and stays as long as few runs have come since: one in fifty, so that a long
//! history costs no more than a short one.

use crate::caution::Caution;
use crate::history::{Ask, Over, Run, largest_peak};
use crate::peaks::RUNS_KEPT;
use crate::retry::whole;
use crate::risk::wilson;
use crate::select::{Candidate, Mixed, Scores, fit, over_number, say};
use crate::types::{Advice, Drift, Features, GB, Settings};

/// From so many runs on, only some of those to come are scored.
const SCORED_ALL: u64 = 2_000;
/// Of those, one in so many, by chance.
const SCORED_PART: u64 = 8;
/// Most runs between two fits.
const STALE_MAX: u64 = 250;

/// What is known of a class.
#[derive(Debug, Default)]
pub(crate) struct Class {
    runs: Vec<Run>,
    candidates: Vec<Candidate>,
    /// Runs that have come since the fit.
    stale: u64,
    /// All runs, the forgotten too.
    seen: u64,
    scores: Scores,
    caution: Caution,
    last: u64,
}

impl Class {
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// How its last runs did with their advice.
    pub(crate) fn drift(&self) -> Drift {
        self.caution.drift()
    }

    /// The turn of its latest run.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The largest peak that counts, in GB.
    pub(crate) fn largest(&self) -> f64 {
        largest_peak(&self.runs)
    }

    pub(crate) fn observe(&mut self, run: Run, settings: &Settings, turn: u64) {
        if self.runs.len() >= 2 && self.is_scored(settings.seed) {
            self.refresh(settings);
            let said = say(&self.candidates, &self.runs, &run.ask);
            if let Some(mixed) = self.scores.mix(&self.candidates, &said) {
                let advised = self.widen(&mixed, &run.ask, settings);
                self.caution.note(run.peak > advised);
            }
            self.scores.add(&said, &run, largest_peak(&self.runs), settings);
        }
        // In one move for many, so that forgetting costs nothing to speak of.
        if self.runs.len() >= RUNS_KEPT + RUNS_KEPT / 10 {
            self.runs.drain(..=RUNS_KEPT / 10);
        }
        self.runs.push(run);
        self.seen += 1;
        self.stale += 1;
        self.last = turn;
    }

    pub(crate) fn advise(&mut self, features: &Features, settings: &Settings) -> Option<Advice> {
        let ask = Ask::of(features);
        let only = self.runs.first()?;
        if self.runs.len() < 2 {
            let kind = crate::estimate::Kind::Flat;
            let twice = Mixed { allocation: only.peak * 2.0, risk: 0.5, kind, over: Over::Input };
            return Some(self.advice(&twice, &ask, settings));
        }
        self.refresh(settings);
        let said = say(&self.candidates, &self.runs, &ask);
        let mixed = self.scores.mix(&self.candidates, &said)?;
        Some(self.advice(&mixed, &ask, settings))
    }

    fn advice(&self, mixed: &Mixed, ask: &Ask, settings: &Settings) -> Advice {
        let allocation = self.widen(mixed, ask, settings);
        let (missed, all) = self.caution.record();
        let drift = if self.caution.drifts() { "; it drifts, so there is more room" } else { "" };
        let why = format!(
            "mostly by {}, over {} runs; {missed} of {all} earlier jobs needed more than advised{drift}",
            mixed.kind.name(mixed.over),
            self.runs.len(),
        );
        Advice {
            bytes: whole(allocation * GB),
            risk: mixed.risk.min(0.5),
            interval: wilson(missed, all),
            runs: self.runs.len(),
            why,
        }
    }

    /// What is advised of what the candidates say together, in GB.
    fn widen(&self, mixed: &Mixed, ask: &Ask, settings: &Settings) -> f64 {
        let number = over_number(&self.candidates);
        self.caution.widen(mixed.allocation, ask, (&self.runs, number), settings)
    }

    fn refresh(&mut self, settings: &Settings) {
        let may_be_stale = (self.seen / 50).min(STALE_MAX);
        if self.candidates.is_empty() || self.stale > may_be_stale {
            self.candidates = fit(&self.runs, settings);
            self.stale = 0;
        }
    }

    /// Whether the next run is scored; in a long history a part is enough (splitmix64 of seed and count).
    fn is_scored(&self, seed: u64) -> bool {
        if self.seen < SCORED_ALL {
            return true;
        }
        let mut mixed = seed.wrapping_add(self.seen.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)).is_multiple_of(SCORED_PART)
    }
}
