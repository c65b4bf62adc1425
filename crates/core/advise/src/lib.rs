//! What a class of jobs needs of memory, with a stated risk, learned from the runs that ended.
//!
//! A [`Learner`] is told each run ([`Learner::observe`]) and asked before the next ([`Learner::advise`]). Per class it
//! keeps the last runs ([`mod@history`]), fits several estimators to them ([`estimate`]), over the size of the inputs
//! and over the number that peaks follow best ([`numbers`]), gives each a margin by the errors it made on runs that it
//! was not fitted to ([`margin`]), and mixes them by what each of them would have cost so far ([`select`]). What is
//! uncertain beyond that (few runs, requests and errors unlike the earlier ones) is in [`caution`]; what to allocate
//! after a failure in [`retry`]; intervals of observed rates in [`risk`]; a bound for values that nothing more is known
//! of in [`mod@bound`]. What a job needs when is in [`segments`], for runs that come with a [`Curve`]. The scheduler's
//! estimates, from peaks alone, are [`Peaks`]; of a class that ran elsewhere alone, [`Prior`]; what a whole history
//! would have asked for, [`applied`].
//!
//! Cost is memory x time: what an allocation holds beyond the peak, and all that a failed attempt held. Deterministic:
//! the same rows in the same order give the same advice, bit for bit; the seed only chooses which runs of a long
//! history are scored. Absent: files, clocks, threads, hash order, and any decision about a job.

pub mod applied;
mod bound;
mod caution;
mod class;
mod estimate;
mod history;
mod margin;
mod numbers;
mod peaks;
mod prior;
mod retry;
mod risk;
mod segments;
mod select;
mod types;
mod users;

use std::collections::BTreeMap;

use class::Class;
use segments::Curves;
use users::Users;

pub use bound::{bound, middle};
pub use peaks::{Expected, Peak, Peaks};
pub use prior::Prior;
pub use retry::Retry;
pub use risk::wilson;
pub use segments::{Curve, Plan, Segment, Segmented, Shortage};
pub use types::{Advice, Drift, Features, NUMBERS, Order, Row, Settings};

/// Classes that are remembered. When there are more, the one that ran longest ago is forgotten.
const CLASSES_KEPT: usize = 4_096;
/// What jobs of many classes need.
#[derive(Debug)]
pub struct Learner {
    settings: Settings,
    classes: BTreeMap<String, Class>,
    /// Of those classes whose runs come with curves.
    curves: BTreeMap<String, Curves>,
    users: Users,
    turn: u64,
}

impl Learner {
    /// One that knows nothing. A risk outside (0, 1) is brought into it.
    #[must_use]
    pub fn new(mut settings: Settings) -> Self {
        let risk = if settings.risk.is_finite() { settings.risk } else { Settings::RISK };
        settings.risk = risk.clamp(1e-6, 0.999_999);
        Self { settings, classes: BTreeMap::new(), curves: BTreeMap::new(), users: Users::default(), turn: 0 }
    }

    /// Learns from a run. One without a peak, or of no finite length, says nothing and is left out.
    pub fn observe(&mut self, class: &str, row: &Row) {
        if !says_something(row) {
            return;
        }
        self.turn += 1;
        self.users.observe(row);
        if !self.classes.contains_key(class) {
            if self.classes.len() >= CLASSES_KEPT {
                let oldest =
                    self.classes.iter().min_by_key(|(_, class)| class.last()).map(|(name, _)| name.clone());
                if let Some(oldest) = oldest {
                    self.classes.remove(&oldest);
                    self.curves.remove(&oldest);
                }
            }
            self.classes.insert(class.to_owned(), Class::default());
        }
        if let Some(known) = self.classes.get_mut(class) {
            known.observe(history::Run::of(row), &self.settings, self.turn);
        }
    }

    /// Learns from a run of which it is also known when it held how much.
    pub fn observe_curve(&mut self, class: &str, row: &Row, curve: &Curve) {
        if !says_something(row) {
            return;
        }
        let advised_bytes = self.advise(class, &row.features).map(|advice| advice.bytes);
        self.observe(class, row);
        let curves = self.curves.entry(class.to_owned()).or_default();
        curves.observe(&row.features, curve, advised_bytes, &self.settings);
    }

    /// What a job of this class for which this peak is advised should get over time. `None`: the peak from its start,
    /// because no curves of the class are known, or nothing less has proved enough.
    #[must_use]
    pub fn over_time(&mut self, class: &str, features: &Features, peak_bytes: u64) -> Option<Segmented> {
        self.curves.get_mut(class)?.advise(features, peak_bytes, &self.settings)
    }

    /// What a job of this class should get. `None`: no run of the class is known, nor enough of its user's.
    #[must_use]
    pub fn advise(&mut self, class: &str, features: &Features) -> Option<Advice> {
        let known = self.classes.get_mut(class);
        let advice = known.and_then(|known| known.advise(features, &self.settings));
        advice.or_else(|| self.users.advise(features, self.settings.risk))
    }

    /// How many runs of the class count, at most the last 500.
    #[must_use]
    pub fn runs(&self, class: &str) -> usize {
        self.classes.get(class).map_or(0, Class::len)
    }

    /// Whether the needs of the class changed lately. Of an unknown class nothing is known.
    #[must_use]
    pub fn drift(&self, class: &str) -> Drift {
        self.classes.get(class).map_or_else(Drift::default, Class::drift)
    }

    /// How to go on with a job of the class after a failure.
    #[must_use]
    pub fn retry(&self, class: &str, features: &Features) -> Retry {
        let largest = self.classes.get(class).map_or(0.0, Class::largest);
        Retry::new(largest, features.request_bytes, self.settings.order)
    }
}

/// Whether a run has a peak and a length.
fn says_something(row: &Row) -> bool {
    row.peak_bytes > 0 && row.wall_s.is_finite() && row.wall_s >= 0.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row(input: f64, peak_bytes: u64) -> Row {
        let features = Features {
            input_bytes: Some(input),
            request_bytes: Some(64_000_000_000),
            user: Some(7),
            ..Features::default()
        };
        Row { features, peak_bytes, wall_s: 60.0 }
    }

    /// Random numbers in [0, 1), by a counter.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    #[test]
    fn needs_that_follow_the_input_are_told_closely() {
        let mut learner = Learner::new(Settings::of(Order::Exchangeable));
        let mut dice = Dice(1);
        for _ in 0..60 {
            let input = 1e9 + 9e9 * dice.roll();
            learner.observe("sort", &row(input, retry::whole(input * 2.0 + 1e8 * dice.roll())));
        }
        let advice = learner.advise("sort", &row(5e9, 0).features).unwrap();
        assert!((10_050_000_000..10_600_000_000).contains(&advice.bytes), "{advice:?}");
        assert!(advice.risk < 0.1 && advice.runs == 60);
        assert!(learner.advise("merge", &Features::default()).is_none());
    }

    #[test]
    fn a_new_class_goes_by_what_its_user_used_of_other_requests() {
        let mut learner = Learner::new(Settings::of(Order::Time));
        for n in 0..40 {
            learner.observe(&format!("class {n}"), &row(1.0, 16_000_000_000 + n));
        }
        let new = Features { request_bytes: Some(8_000_000_000), user: Some(7), ..Features::default() };
        let advice = learner.advise("new", &new).unwrap();
        assert!((2_000_000_000..2_000_000_100).contains(&advice.bytes), "{advice:?}");
        let another = Features { user: Some(8), ..new };
        assert!(learner.advise("new", &another).is_none());
    }

    #[test]
    fn a_class_that_needs_more_than_before_drifts() {
        let mut learner = Learner::new(Settings::of(Order::Time));
        let mut dice = Dice(3);
        let mut run = |learner: &mut Learner, least: f64| {
            learner.observe(
                "a",
                &Row {
                    features: Features::default(),
                    ..row(1.0, retry::whole(least * (1.0 + 0.01 * dice.roll())))
                },
            );
        };
        (0..60).for_each(|_| run(&mut learner, 2e9));
        let steady = learner.drift("a");
        assert!(!steady.drifts && steady.of == 20, "{steady:?}");
        let larger = [4e9, 8e9, 16e9, 32e9];
        larger.iter().for_each(|least| run(&mut learner, *least));
        let changed = learner.drift("a");
        assert!(changed.drifts && changed.missed >= 2, "{changed:?}");
        assert_eq!(learner.drift("b"), Drift::default());
    }

    #[test]
    fn classes_are_forgotten_oldest_first() {
        let mut learner = Learner::new(Settings::of(Order::Time));
        let curve = Curve::of([(0.0, 1_000)], 60.0).unwrap();
        for n in 0..=CLASSES_KEPT {
            learner.observe_curve(&n.to_string(), &row(1.0, 1_000), &curve);
        }
        assert_eq!((learner.runs("0"), learner.runs("1")), (0, 1));
        assert_eq!((learner.curves.len(), learner.classes.len()), (CLASSES_KEPT, CLASSES_KEPT));
    }

    #[test]
    fn curves_change_nothing_about_the_peak() {
        let learner = || Learner::new(Settings::of(Order::Time));
        let (mut with, mut without) = (learner(), learner());
        for n in 0..40u32 {
            let peak = 32_000_000_000 + u64::from(n * 7 % 40) * 10_000_000;
            let late = Row { wall_s: 36_000.0, ..row(1e9, peak) };
            // Its samples are ten minutes apart.
            let held = |at: u32| if at < 50 { 2_000_000_000 } else { peak };
            let readings = (0..60).map(|at| (f64::from(at) * 600.0, held(at)));
            let curve = Curve::of(readings, late.wall_s).unwrap();
            with.observe_curve("a", &late, &curve);
            without.observe("a", &late);
        }
        let features = row(1e9, 1).features;
        let advice = with.advise("a", &features).unwrap();
        assert_eq!(Some(&advice), without.advise("a", &features).as_ref());
        assert_eq!(without.over_time("a", &features, advice.bytes), None);
        let said = with.over_time("a", &features, advice.bytes).unwrap();
        assert_eq!(said.plan.last_bytes(), advice.bytes);
        assert!(said.plan.segments()[0].bytes < advice.bytes / 4, "{said:?}");
    }

    #[test]
    fn odd_rows_and_settings_do_no_harm() {
        for risk in [f64::NAN, 0.0, -1.0, 2.0, 1e-9] {
            let mut learner = Learner::new(Settings { risk, ..Settings::of(Order::Time) });
            for input in [0.0, f64::NAN, f64::INFINITY, 1e300, -5.0, 1.0, 2.0, 3.0, 4.0, 5.0] {
                learner.observe("odd", &Row { wall_s: f64::NAN, ..row(input, 5) });
                learner.observe("odd", &row(input, 0));
                learner.observe("odd", &row(input, u64::MAX));
                learner.observe("odd", &row(input, 1));
                let advice = learner.advise("odd", &row(input, 0).features).unwrap();
                assert!(advice.bytes <= 64_000_000_000 && (0.0..=0.5).contains(&advice.risk), "{advice:?}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

        /// Of many like jobs no more than the stated share needs more than advised.
        #[test]
        fn the_risk_is_kept(seed in any::<u64>(), risk in 0.02f64..0.2) {
            let mut dice = Dice(seed);
            // Failures cost nothing here, so that the risk alone bounds them.
            let settings = Settings { risk, failure_gbh: 0.0, ..Settings::of(Order::Exchangeable) };
            let mut learner = Learner::new(settings);
            let mut missed = 0u32;
            for n in 0..600 {
                let peak = retry::whole(1e9 * (1.0 + dice.roll() + dice.roll()));
                let features = Features::default();
                if n >= 100 {
                    missed += u32::from(learner.advise("a", &features).unwrap().bytes < peak);
                }
                learner.observe("a", &Row { features, peak_bytes: peak, wall_s: 60.0 });
            }
            let most = 500.0 * risk + 4.0 * (500.0 * risk * (1.0 - risk)).sqrt() + 1.0;
            prop_assert!(f64::from(missed) <= most, "{missed} of 500 at a risk of {risk}");
        }

        /// The same rows in the same order give the same advice.
        #[test]
        fn it_is_deterministic(seed in any::<u64>()) {
            let advice = || {
                let mut dice = Dice(seed);
                let mut learner = Learner::new(Settings { seed, ..Settings::of(Order::Time) });
                for _ in 0..80 {
                    learner.observe("a", &row(1e9 * dice.roll(), retry::whole(1e9 * dice.roll() + 1.0)));
                }
                learner.advise("a", &row(5e8, 0).features)
            };
            prop_assert_eq!(advice(), advice());
        }
    }
}
