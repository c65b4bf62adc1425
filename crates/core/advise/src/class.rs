//! A class: its last runs, the fits to them, and the misses of its advice.
//!
//! A fit is made for a question and stays as long as few runs have come since: 2 % of all, so that a long history costs
//! no more than a short history.

use crate::caution::{self, Caution};
use crate::history::{Ask, Over, Run, largest_peak};
use crate::peaks::RUNS_KEPT;
use crate::retry::whole;
use crate::risk::wilson;
use crate::select::{Candidate, Mixed, Scores, fit, over_number, say};
use crate::types::{Advice, Drift, Features, GB, Order, Settings};

/// From so many runs on, only some of the later runs are scored.
const SCORED_ALL: u64 = 2_000;
/// Of the later runs, 1 in so many, by chance.
const SCORED_PART: u64 = 8;
/// Most runs between two fits.
const STALE_MAX: u64 = 250;

/// The state of a class.
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
}

impl Class {
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// How its last runs did with their advice.
    pub(crate) fn drift(&self) -> Drift {
        self.caution.drift()
    }

    /// The largest peak that counts, in GB.
    pub(crate) fn largest(&self) -> f64 {
        largest_peak(&self.runs)
    }

    pub(crate) fn observe(&mut self, run: Run, settings: &Settings) {
        if self.runs.len() >= 2 && self.is_scored(settings.seed) {
            self.refresh(settings);
            let said = say(&self.candidates, &self.runs, &run.ask);
            if let Some(mixed) = self.scores.mix(&self.candidates, &said) {
                let advised = self.widen(&mixed, &run.ask, settings);
                self.caution.note(run.peak > advised);
            }
            self.scores.add(&said, &run, largest_peak(&self.runs), settings);
        }
        // Many at once: each removal moves all that stay.
        if self.runs.len() >= RUNS_KEPT + RUNS_KEPT / 10 {
            self.runs.drain(..=RUNS_KEPT / 10);
        }
        self.runs.push(run);
        self.seen += 1;
        self.stale += 1;
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
        let grows = settings.order == Order::Time && caution::grows(allocation, &self.runs);
        let growth =
            if grows { "; its input is larger than all before, and needs grow with inputs" } else { "" };
        let why = format!(
            "mostly by {}, over {} runs; {missed} of {all} earlier jobs needed more than advised{growth}",
            mixed.kind.name(mixed.over),
            self.runs.len(),
        );
        Advice {
            bytes: whole(allocation * GB),
            risk: mixed.risk.min(0.5),
            interval: wilson(missed, all),
            runs: self.runs.len(),
            largest_bytes: whole((self.largest() * GB).round()),
            grows,
            why,
        }
    }

    /// The advice by the mix of all candidates, in GB.
    fn widen(&self, mixed: &Mixed, ask: &Ask, settings: &Settings) -> f64 {
        let number = over_number(&self.candidates);
        caution::widen(mixed.allocation, ask, (&self.runs, number), settings.order)
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
