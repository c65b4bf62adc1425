use proptest::prelude::*;

use super::super::classes::{Next, classes};
use super::*;

const GIB: u64 = 1 << 30;
/// 2026-11-01 00:00:00 UTC.
const NOVEMBER_S: f64 = 1_793_491_200.0;
const DAY_S: f64 = 86_400.0;

/// A run of the class `align` that asked for 16 GiB and held 2 GiB.
fn run(job: u64, started_s: f64, ended_s: f64) -> Run {
    Run {
        job,
        user: "ann".to_owned(),
        class: "align".to_owned(),
        cores: 1,
        submitted_s: started_s,
        started_s,
        ended_s,
        request_bytes: Some(16 * GIB),
        input_bytes: None,
        numbers: Vec::new(),
        peak_bytes: 2 * GIB,
        wall_s: ended_s - started_s,
        cores_mean: 1.0,
        cores_peak: None,
        outcome: Outcome::Done,
    }
}

#[track_caller]
fn check(started_s: f64, ended_s: f64, want: &[(&str, f64)]) {
    let got: Vec<_> =
        shares(started_s, ended_s).into_iter().map(|(month, share)| (month.name(), share)).collect();
    assert_eq!(got.len(), want.len(), "{got:?}");
    for ((month, share), (want_month, want_share)) in got.iter().zip(want) {
        assert_eq!(month, want_month, "{got:?}");
        assert!((share - want_share).abs() < 1e-9, "{got:?}");
    }
}

#[test]
fn a_run_belongs_to_the_months_in_which_it_ran() {
    check(NOVEMBER_S, NOVEMBER_S + DAY_S, &[("2026-11", 1.0)]);
    check(NOVEMBER_S - DAY_S, NOVEMBER_S + 3.0 * DAY_S, &[("2026-10", 0.25), ("2026-11", 0.75)]);
    // It ended with the month.
    check(NOVEMBER_S - DAY_S, NOVEMBER_S, &[("2026-10", 1.0)]);
    // Over the end of a year: December and January have 31 days.
    let middle = NOVEMBER_S + 15.0 * DAY_S;
    check(
        middle,
        middle + 100.0 * DAY_S,
        &[("2026-11", 0.15), ("2026-12", 0.31), ("2027-01", 0.31), ("2027-02", 0.23)],
    );
}

#[test]
fn wrong_clocks_are_answered() {
    check(NOVEMBER_S, NOVEMBER_S, &[("2026-11", 1.0)]);
    check(NOVEMBER_S + 9.0, NOVEMBER_S, &[("2026-11", 1.0)]);
    check(0.0, NOVEMBER_S, &[("2026-11", 1.0)]);
    check(f64::NAN, NOVEMBER_S, &[("2026-11", 1.0)]);
    check(0.0, 1e300, &[("9999-12", 1.0)]);
    check(1e300, 1e300, &[("9999-12", 1.0)]);
    check(-1e300, -1e300, &[("9999-12", 1.0)]);
    check(-DAY_S, DAY_S, &[("1969-12", 0.5), ("1970-01", 0.5)]);
    check(253_402_300_799.0 - DAY_S, 253_402_300_799.0, &[("9999-12", 1.0)]);
}

#[test]
fn months_say_what_was_requested_used_and_could_have_been_saved() {
    // Three runs of an hour in October, which advice is learned from; then one over the end of the month, half in each.
    let mut runs: Vec<Run> = (0..3)
        .map(|n| {
            let at_s = NOVEMBER_S - DAY_S + n as f64 * 7_200.0;
            run(n, at_s, at_s + 3_600.0)
        })
        .collect();
    runs.push(run(3, NOVEMBER_S - 1_800.0, NOVEMBER_S + 1_800.0));
    runs.push(Run {
        outcome: Outcome::Short,
        peak_bytes: 16 * GIB,
        ..run(4, NOVEMBER_S - 60.0, NOVEMBER_S + 60.0)
    });
    runs.push(Run { outcome: Outcome::Failed, ..run(5, NOVEMBER_S - 90.0, NOVEMBER_S - 60.0) });
    let sheet = sheet(&runs, None).unwrap();
    let [october, november] = &sheet.months[..] else { panic!("{sheet:?}") };
    let gib_h = GIB as f64 / 1e9;
    let near = |got: f64, want: f64| assert!((got - want).abs() < 1e-9, "{got}, not {want}");
    assert_eq!((october.month.as_str(), october.class.as_str(), october.cores), ("2026-10", "align", 1));
    assert_eq!((october.jobs, october.failed, october.failed_at_limit), (3, 1, 0));
    near(october.requested_gbh, 3.5 * 16.0 * gib_h);
    near(october.used_gbh, 3.5 * 2.0 * gib_h);
    assert_eq!(november.month, "2026-11");
    assert_eq!((november.jobs, november.failed, november.failed_at_limit), (1, 1, 1));
    near(november.requested_gbh, 0.5 * 16.0 * gib_h);
    near(november.used_gbh, 0.5 * 2.0 * gib_h);
    // Only the last run was advised on: each month has half of what it would have saved.
    near(october.saved_gbh, november.saved_gbh);
    assert!(november.saved_gbh > 0.0 && november.saved_gbh < 0.5 * 14.0 * gib_h, "{november:?}");
}

#[test]
fn runs_without_a_request_are_counted_and_save_nothing() {
    let unasked = Run { request_bytes: None, ..run(0, NOVEMBER_S, NOVEMBER_S + 60.0) };
    let other = Run { user: "ben".to_owned(), ..unasked.clone() };
    let sheet = sheet(&[other, unasked], None).unwrap();
    let seen: Vec<_> = sheet.months.iter().map(|row| (row.user.as_str(), row.jobs)).collect();
    assert_eq!(seen, [("ann", 1), ("ben", 1)]);
    assert_eq!((sheet.requested_gbh, sheet.used_gbh, sheet.saved_gbh), (0.0, 0.0, 0.0));
    let sheet = super::sheet(&[], None).unwrap();
    assert!(sheet.months.is_empty());
    // No -0.
    let sums = [sheet.requested_gbh, sheet.used_gbh, sheet.saved_gbh];
    assert!(sums.into_iter().all(f64::is_sign_positive), "{sums:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// The months of a class add up to what the class itself is told to have asked for and saved.
    #[test]
    fn months_add_up_to_the_class(
        runs in prop::collection::vec((0u32..400, 0u32..200, 1u64..40, any::<bool>()), 1..40)
    ) {
        let mut runs: Vec<Run> = runs.into_iter().zip(0..).map(|((day, days, gib, asks), n)| {
            let at_s = NOVEMBER_S + f64::from(day) * DAY_S;
            let asked = run(n, at_s, at_s + f64::from(days) * DAY_S);
            Run { peak_bytes: gib * GIB, request_bytes: asks.then_some(16 * GIB), ..asked }
        }).collect();
        runs.sort_by(|a, b| a.submitted_s.total_cmp(&b.submitted_s));
        let class = classes(&runs, None, Next::default()).unwrap().remove(0);
        let sheet = sheet(&runs, None).unwrap();
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-6 * a.abs().max(1.0);
        prop_assert!(close(sheet.requested_gbh, class.requested_gbh), "{sheet:?} {class:?}");
        prop_assert!(close(sheet.saved_gbh, class.saved_gbh), "{sheet:?} {class:?}");
        prop_assert_eq!(sheet.months.iter().map(|row| row.jobs).sum::<usize>(), class.jobs);
        let order: Vec<&str> = sheet.months.iter().map(|row| row.month.as_str()).collect();
        prop_assert!(order.is_sorted(), "{:?}", order);
    }
}
