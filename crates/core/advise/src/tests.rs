use proptest::prelude::*;

use super::*;

fn row(input: f64, peak_bytes: u64) -> Row {
    let features = Features { input_bytes: Some(input), ..Features::default() };
    Row { features, peak_bytes, wall_s: 60.0 }
}

/// A run without an input.
fn plain(peak_bytes: u64) -> Row {
    Row { features: Features::default(), ..row(1.0, peak_bytes) }
}

/// Jobs that ended well, one after the other.
fn ended(rows: impl IntoIterator<Item = Row>) -> Vec<Ended> {
    rows.into_iter().zip(0u32..).map(|(row, at)| Ended { well: true, at_s: f64::from(at), row }).collect()
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
        learner.observe(&row(input, retry::whole(input * 2.0 + 1e8 * dice.roll())));
    }
    let advice = learner.advise(&row(5e9, 0).features).unwrap();
    assert!((10_050_000_000..10_600_000_000).contains(&advice.bytes), "{advice:?}");
    assert!(advice.risk < 0.1 && advice.runs == 60);
    assert!(Learner::new(Settings::of(Order::Time)).advise(&Features::default()).is_none());
}

#[test]
fn a_class_that_needs_more_than_before_drifts() {
    let mut learner = Learner::new(Settings::of(Order::Time));
    let mut dice = Dice(3);
    let mut run = |learner: &mut Learner, least: f64| {
        learner.observe(&plain(retry::whole(least * (1.0 + 0.01 * dice.roll()))));
    };
    (0..60).for_each(|_| run(&mut learner, 2e9));
    let steady = learner.drift();
    assert!(!steady.drifts && steady.of == 20, "{steady:?}");
    let larger = [4e9, 8e9, 16e9, 32e9];
    larger.iter().for_each(|least| run(&mut learner, *least));
    let changed = learner.drift();
    assert!(changed.drifts && changed.missed >= 2, "{changed:?}");
}

#[test]
fn equal_runs_need_hardly_more_than_they_held() {
    const MIB: u64 = 1 << 20;
    let runs = ended((0..40).map(|n| plain((151 + n % 6) * MIB)));
    let advice = answer(&runs, &Features::default(), None).unwrap();
    assert!((156 * MIB..170 * MIB).contains(&advice.bytes) && !advice.grows, "{advice:?}");
}

#[test]
fn an_input_larger_than_all_before_may_need_more_and_that_is_said() {
    let runs = ended((1..=30u32).map(|n| row(f64::from(n) * 1e9, u64::from(n) * 1_000_000_000)));
    let advice = answer(&runs, &row(60e9, 0).features, None).unwrap();
    assert!(advice.grows && advice.bytes > 55_000_000_000, "{advice:?}");
    assert!(advice.why.contains("its input is larger than all before"), "{}", advice.why);
}

#[test]
fn too_few_runs_have_no_answer() {
    let mut runs = ended([plain(5), plain(5), plain(0), plain(6)]);
    assert!(answer(&runs[..3], &Features::default(), None).is_none());
    assert!(answer(&runs, &Features::default(), None).is_some());
    runs[0].well = false;
    assert!(answer(&runs, &Features::default(), None).is_none());
}

#[test]
fn odd_rows_and_settings_do_no_harm() {
    for risk in [f64::NAN, 0.0, -1.0, 2.0, 1e-9] {
        let mut learner = Learner::new(Settings { risk, ..Settings::of(Order::Time) });
        for input in [0.0, f64::NAN, f64::INFINITY, 1e300, -5.0, 1.0, 2.0, 3.0, 4.0, 5.0] {
            learner.observe(&Row { wall_s: f64::NAN, ..row(input, 5) });
            learner.observe(&row(input, 0));
            learner.observe(&row(input, u64::MAX));
            learner.observe(&row(input, 1));
            let advice = learner.advise(&row(input, 0).features).unwrap();
            assert!(advice.bytes > 0 && (0.0..=0.5).contains(&advice.risk), "{advice:?}");
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
            if n >= 100 {
                missed += u32::from(learner.advise(&Features::default()).unwrap().bytes < peak);
            }
            learner.observe(&plain(peak));
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
                learner.observe(&row(1e9 * dice.roll(), retry::whole(1e9 * dice.roll() + 1.0)));
            }
            learner.advise(&row(5e8, 0).features)
        };
        prop_assert_eq!(advice(), advice());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Advice is at most 1.25 times the largest peak, unless the input is larger than all before; then it says so.
    #[test]
    fn no_more_than_a_quarter_beyond_the_largest_peak(
        peaks in prop::collection::vec((1u64..1 << 40, 0u32..9, 0.0f64..1e6), 3..60),
        input in prop::option::of(0u32..20),
    ) {
        let of = |input: u32| Features { input_bytes: Some(f64::from(input) * 1e8), ..Features::default() };
        let runs = ended(peaks.iter().map(|&(peak_bytes, input, wall_s)| {
            Row { features: of(input), peak_bytes, wall_s }
        }));
        let next = input.map_or_else(Features::default, of);
        let advice = answer(&runs, &next, None).unwrap();
        let largest = peaks.iter().map(|peak| peak.0).max().unwrap_or(0);
        let most = largest + largest.div_ceil(4);
        prop_assert!(advice.bytes <= most || advice.grows, "{advice:?} beyond {largest}");
        prop_assert_eq!(advice.grows, advice.why.contains("its input is larger than all before"));
        let known = peaks.iter().map(|peak| peak.1).max().unwrap_or(0);
        prop_assert!(!advice.grows || input.is_some_and(|input| input > known));
    }

    /// Jobs that did not end well change nothing, whatever they held, and neither does the order of the list.
    #[test]
    fn only_runs_that_ended_well_count(
        jobs in prop::collection::vec((any::<bool>(), 1u64..1 << 40), 0..40)
    ) {
        let mut all = ended(jobs.iter().map(|job| plain(job.1)));
        all.iter_mut().zip(&jobs).for_each(|(ended, job)| ended.well = job.0);
        let well: Vec<Ended> = all.iter().copied().filter(|ended| ended.well).collect();
        let want = answer(&well, &Features::default(), None);
        prop_assert_eq!(want.is_some(), well.len() >= RUNS_MIN);
        all.reverse();
        prop_assert_eq!(answer(&all, &Features::default(), None), want);
    }
}
