use proptest::prelude::*;

use super::*;

const GIB: u64 = 1 << 30;

/// A run of an hour, the `n`-th of its class, that asked for 16 GiB.
fn run(n: u32, peak_bytes: u64) -> Run {
    Run {
        job: u64::from(n),
        user: "ann".to_owned(),
        class: "align".to_owned(),
        cores: 1,
        submitted_s: f64::from(n) * 10_000.0,
        started_s: f64::from(n) * 10_000.0,
        ended_s: f64::from(n) * 10_000.0 + 3_600.0,
        request_bytes: Some(16 * GIB),
        input_bytes: None,
        numbers: Vec::new(),
        peak_bytes,
        wall_s: 3_600.0,
        cores_mean: 0.9,
        cores_peak: None,
        outcome: Outcome::Done,
    }
}

fn one(runs: &[Run]) -> ClassView {
    let mut views = classes(runs, None, Next::default()).unwrap();
    assert_eq!(views.len(), 1, "{views:?}");
    views.remove(0)
}

#[test]
fn a_request_that_is_far_too_large() {
    let runs: Vec<Run> = (0..40).map(|n| run(n, 3 * GIB + u64::from(n) * 1_000_000)).collect();
    let view = one(&runs);
    assert_eq!((view.verdict, view.jobs, view.requested_bytes), (Verdict::TooMuch, 40, Some(16 * GIB)));
    let advised = view.advised_bytes.unwrap();
    assert!((3 * GIB..4 * GIB).contains(&advised), "{view:?}");
    assert_eq!(view.peak_p50_bytes, Some(3 * GIB + 19_000_000));
    assert_eq!(view.peak_p99_bytes, Some(3 * GIB + 39_000_000));
    // 37 of 40 runs had three before them; each saves about 13 GiB for an hour.
    assert!((400.0..37.0 * 13.0 * 1.08).contains(&view.saved_gbh), "{view:?}");
    assert!((view.saved_share.unwrap() - view.saved_gbh / view.requested_gbh).abs() < 1e-12);
    let (low, high) = view.risk_interval.unwrap();
    assert!(low == 0.0 && high < 0.15 && view.risk.unwrap() < 0.1, "{view:?}");
    assert_eq!(view.wall_p50_s, Some(3_600.0));
    assert!((view.wall_advised_s.unwrap() - 3_690.0).abs() < 1e-6, "{view:?}");
    assert!(
        view.why.starts_with("it asks for 16.0 GiB, and 99 of 100 runs held 3.04 GiB or less: 3"),
        "{}",
        view.why
    );
}

#[test]
fn what_is_needed_follows_the_inputs() {
    let grows = |n: u32| Run { input_bytes: Some(u64::from(n + 1) << 27), ..run(n, u64::from(n + 1) << 28) };
    let runs: Vec<Run> = (0..40).map(grows).collect();
    let advised = |input: Option<u64>| {
        classes(&runs, None, Next { input_bytes: input, ..Next::default() }).unwrap()[0]
            .advised_bytes
            .unwrap()
    };
    let (small, large, unsaid) = (advised(Some(GIB)), advised(Some(4 * GIB)), advised(None));
    assert!((2 * GIB..3 * GIB).contains(&small), "{small}");
    assert!((8 * GIB..9 * GIB).contains(&large), "{large}");
    assert!(unsaid > 2 * small, "{unsaid}");
    assert_eq!(one(&runs).input_p50_bytes, Some(20 << 27));
    let mut partly = runs.clone();
    partly[7].input_bytes = None;
    assert_eq!(one(&partly).input_p50_bytes, None);
}

#[test]
fn what_is_needed_follows_a_number_of_the_command() {
    let command = |size: u64, seed: u64| {
        let words = format!("sim --seed {seed} --size {size} --threads 4");
        super::super::numbers::of(&words.split(' ').map(str::to_owned).collect::<Vec<_>>())
    };
    let size = |n: u32| u64::from(n * 7 % 40 + 1);
    let grows =
        |n: u32| Run { numbers: command(size(n), u64::from(n * 7_919 % 101)), ..run(n, size(n) << 28) };
    let runs: Vec<Run> = (0..40).map(grows).collect();
    let of =
        |numbers: &[Number]| classes(&runs, None, Next { input_bytes: None, numbers }).unwrap()[0].clone();
    let (small, large, unsaid) = (of(&command(8, 1)), of(&command(32, 2)), of(&[]));
    assert!((2 * GIB..3 * GIB).contains(&small.advised_bytes.unwrap()), "{small:?}");
    assert!((8 * GIB..9 * GIB).contains(&large.advised_bytes.unwrap()), "{large:?}");
    assert!(unsaid.advised_bytes > large.advised_bytes, "{unsaid:?}");
    assert!(large.why.contains("number"), "{}", large.why);
    let blind: Vec<Run> = runs.iter().map(|run| Run { numbers: Vec::new(), ..run.clone() }).collect();
    assert!(
        one(&runs).saved_gbh > one(&blind).saved_gbh * 1.1,
        "{} {}",
        one(&runs).saved_gbh,
        one(&blind).saved_gbh
    );
}

#[test]
fn what_history_cannot_say_is_said() {
    let view = one(&[run(1, 3 * GIB), run(2, 3 * GIB)]);
    assert_eq!(
        (view.verdict, view.advised_bytes, view.risk, view.wall_advised_s),
        (Verdict::Unknown, None, None, None)
    );
    assert_eq!(view.why, "only 2 runs of it ended well, and advice takes 3: keep what you ask for");
    let failed = Run { outcome: Outcome::Failed, ..run(1, 3 * GIB) };
    let view = one(&[failed]);
    assert_eq!((view.jobs, view.failed, view.peak_p50_bytes, view.wall_p50_s), (0, 1, None, None));
    assert!(view.why.starts_with("no run of it has ended well"), "{}", view.why);
    let unmeasured: Vec<Run> = (0..9).map(|n| run(n, 0)).collect();
    assert_eq!(one(&unmeasured).advised_bytes, None);
    assert!(classes(&[], None, Next::default()).unwrap().is_empty());
}

#[test]
fn requests_that_are_too_small_missing_or_right() {
    let asking = |request: Option<u64>| -> Vec<Run> {
        (0..20).map(|n| Run { request_bytes: request, ..run(n, 4 * GIB) }).collect()
    };
    let small = one(&asking(Some(GIB)));
    assert_eq!(small.verdict, Verdict::TooLittle);
    assert!(small.advised_bytes.unwrap() > 4 * GIB, "{small:?}");
    let missing = one(&asking(None));
    assert_eq!((missing.verdict, missing.saved_gbh, missing.saved_share), (Verdict::Unasked, 0.0, None));
    // No -0.
    assert!(missing.saved_gbh.is_sign_positive() && missing.requested_gbh.is_sign_positive(), "{missing:?}");
    assert!(missing.advised_bytes.unwrap() > 4 * GIB, "{missing:?}");
    let right = one(&asking(Some(4 * GIB + GIB / 2)));
    assert_eq!(right.verdict, Verdict::Fits);
}

#[test]
fn no_less_is_advised_than_a_run_held_that_failed_at_its_limit() {
    let of = |limit: u64| {
        let mut runs: Vec<Run> =
            (0..20).map(|n| Run { request_bytes: Some(limit), ..run(n, 4 * GIB) }).collect();
        runs.push(Run { outcome: Outcome::Short, request_bytes: Some(limit), ..run(20, limit) });
        one(&runs)
    };
    let view = of(6 * GIB);
    assert_eq!((view.failed, view.failed_at_limit, view.verdict), (1, 1, Verdict::Unknown));
    assert_eq!(view.advised_bytes, None);
    assert!(
        view.why.contains("ask for more than that limit; 1 run failed at its memory limit"),
        "{}",
        view.why
    );
    assert_eq!(of(4 * GIB).verdict, Verdict::TooLittle);
}

/// Forty equal runs, the largest of 156 MiB, whatever they asked for.
#[test]
fn the_answer_does_not_depend_on_what_was_asked() {
    let of = |request: Option<u64>| {
        let held = |n: u32| (151 + u64::from(n) % 6) << 20;
        let asking = |n| Run { request_bytes: request, ..run(n, held(n)) };
        one(&(0..40).map(asking).collect::<Vec<_>>())
    };
    let free = of(None);
    for (mib, verdict) in [(105, Verdict::TooLittle), (300, Verdict::TooMuch), (16 << 10, Verdict::TooMuch)] {
        let view = of(Some(mib << 20));
        assert_eq!((view.advised_bytes, view.risk), (free.advised_bytes, free.risk));
        assert_eq!(view.verdict, verdict, "{mib}");
    }
    assert!(free.advised_bytes.is_some_and(|bytes| (156 << 20..195 << 20).contains(&bytes)), "{free:?}");
}

#[test]
fn cores_that_were_never_busy() {
    let of = |peak: Option<f64>, mean: f64| -> ClassView {
        let runs = (0..4).map(|n| Run { cores: 4, cores_peak: peak, cores_mean: mean, ..run(n, GIB) });
        one(&runs.collect::<Vec<_>>())
    };
    let idle = of(Some(1.96), 1.2);
    assert_eq!((idle.cores, idle.cores_advised, idle.saved_core_h), (4, 2, 8.0));
    assert!(idle.why.contains("of its 4 cores never more than 2 were busy"), "{}", idle.why);
    assert_eq!(of(Some(3.4), 1.2).cores_advised, 4);
    assert_eq!(of(Some(1.0), 2.5).cores_advised, 3, "what a mean shows was busy");
    assert_eq!(of(None, 1.2).cores_advised, 4, "no samples: it cannot be said");
    assert_eq!(of(Some(f64::NAN), 0.0).cores_advised, 1);
}

#[test]
fn classes_are_a_users_and_of_one_number_of_cores() {
    let mut runs: Vec<Run> = (0..8).map(|n| run(n, GIB)).collect();
    runs.extend((8..16).map(|n| Run { user: "ben".to_owned(), ..run(n, 9 * GIB) }));
    runs.extend((16..24).map(|n| Run { cores: 8, ..run(n, 2 * GIB) }));
    let views = classes(&runs, None, Next::default()).unwrap();
    let seen: Vec<_> = views.iter().map(|view| (view.user.as_str(), view.cores)).collect();
    assert_eq!(seen, [("ann", 1), ("ann", 8), ("ben", 1)], "most saved first");
    assert!(views[0].advised_bytes < Some(3 * GIB), "what another user needs says nothing: {views:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever a store may hold, there is an answer with figures that are numbers.
    #[test]
    fn odd_histories_are_answered(
        runs in prop::collection::vec((any::<u64>(), any::<Option<u64>>(), any::<f64>(), any::<f64>(), 0u32..4), 0..40)
    ) {
        let outcomes = [Outcome::Done, Outcome::Short, Outcome::Failed, Outcome::Done];
        let mut at_s = 0.0;
        let runs: Vec<Run> = runs.into_iter().zip(0..).map(|((peak, request, wall, mean, outcome), n)| {
            let wall_s = if wall.is_finite() { wall.abs().min(1e9) } else { 0.0 };
            at_s += 1.0;
            Run {
                request_bytes: request.filter(|&bytes| bytes > 0),
                wall_s,
                submitted_s: at_s,
                started_s: at_s,
                ended_s: at_s + wall_s,
                cores_mean: mean,
                outcome: outcomes[outcome as usize],
                ..run(n, peak)
            }
        }).collect();
        for view in classes(&runs, None, Next::default()).unwrap() {
            prop_assert!(view.saved_gbh.is_finite() && view.saved_core_h.is_finite());
            prop_assert!(view.risk.is_none_or(|risk| (0.0..=0.5).contains(&risk)));
            prop_assert!(view.cores_advised >= 1 && view.cores_advised <= view.cores);
            prop_assert!(!view.why.is_empty());
        }
    }

    /// Requests change no figure of the answer; and it says that a class asks for too little only with more to ask for.
    #[test]
    fn requests_change_no_answer(
        runs in prop::collection::vec((1u64..1 << 40, 1u64..1 << 40), 3..40)
    ) {
        let of = |asks: bool| {
            let asking = |(&(peak, request), n): (&(u64, u64), u32)| {
                Run { request_bytes: asks.then_some(request), ..run(n, peak) }
            };
            one(&runs.iter().zip(0..).map(asking).collect::<Vec<_>>())
        };
        let (with, without) = (of(true), of(false));
        prop_assert_eq!((with.advised_bytes, with.risk), (without.advised_bytes, without.risk));
        prop_assert!(with.verdict != Verdict::TooLittle || with.advised_bytes > with.requested_bytes);
    }
}
