//! Episodes under memory pressure: a smaller number at each test, the seeds that once found a mistake, and mistakes
//! made on purpose.

use std::collections::BTreeMap;

use pinfold_policy::{
    Action, Decision, Instant, JobId, JobMemory, MemoryReason, MemorySample, Reason, Request, Settings,
};
use pinfold_sim::pressure::books::Books;
use pinfold_sim::pressure::{Mutant, Outcome, run, run_only, shrink, toy};

/// Plays an episode; the output of a failure suffices to play it again.
#[track_caller]
fn play(seed: u64) -> Outcome {
    match run(seed, None, false) {
        Ok(outcome) => outcome,
        Err(failure) => {
            panic!("{failure}\nagain: cargo xtask sim --pressure --seed {seed} --episodes 1 --trace")
        }
    }
}

#[test]
fn promises_hold_and_everything_happens() {
    let mut tally: BTreeMap<&'static str, u64> = BTreeMap::new();
    let (mut crashes, mut stalled_us, mut felt) = (0, 0, 0);
    // So many that the part of slowed jobs that reach their bounds (a fifth) is no matter of chance.
    for seed in 100_000..100_400 {
        let outcome = play(seed);
        crashes += outcome.crashes;
        stalled_us += outcome.stalled_us;
        felt += outcome.felt;
        for (action, count) in outcome.tally {
            *tally.entry(action).or_default() += count;
        }
    }
    assert!(tally.get("requeue").is_some_and(|&count| count > 0), "{tally:?}");
    // A throttle that no job feels would keep them, too.
    let slowed = tally.get("slow").copied().unwrap_or_default();
    assert!(slowed > 60 && felt * 6 > slowed, "{slowed} slowed, {felt} held at their bounds");
    // Episodes in which nothing happens would keep every promise.
    assert!(crashes > 40 && stalled_us > 20_000_000, "{crashes} crashes, {stalled_us} us of stalls");
    for action in ["start", "freeze", "thaw", "page out"] {
        assert!(tally.get(action).is_some_and(|&count| count > 200), "{action}: {tally:?}");
    }
}

#[test]
fn seeds_that_found_mistakes() {
    let corpus = include_str!("../corpus-pressure.txt");
    let lines = corpus.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let mut count = 0;
    for line in lines {
        let (seed, _) = line.split_once(' ').expect("a seed and what it found");
        play(seed.parse().expect("a seed is a number"));
        count += 1;
    }
    assert!(count > 0, "the corpus is empty");
}

#[test]
fn every_mutant_is_caught() {
    for mutant in Mutant::ALL {
        let caught = (0..400).find_map(|seed| run(seed, Some(mutant), false).err());
        let Some(failure) = caught else { panic!("{mutant:?} broke no promise in 400 episodes") };
        println!("{mutant:?}: episode {}: {}", failure.seed, failure.violation.rule);
    }
}

/// The books' verdict on a throttled job that is frozen for memory after these readings of it and of the job before it,
/// MiB.
fn freeze_of_a_slowed_job(readings: &[(u64, u64)]) -> Result<(), String> {
    let mut books = Books::new(Settings::default());
    let at = |tenths: u64| Instant(1_000_000 + tenths * 100_000);
    let decide = |books: &mut Books, job, action, reason, now| {
        books.decided(&Decision { job: JobId(job), action, reason }, now).map_err(|found| found.to_string())
    };
    let read = |books: &mut Books, one: u64, two: u64, now| {
        let held = |job, mib: u64| JobMemory {
            job: JobId(job),
            resident_bytes: mib << 20,
            swapped_bytes: 0,
            cache_bytes: 0,
            waited_milli: None,
        };
        let sample = MemorySample {
            available_bytes: (1000 - one - two) << 20,
            swap_free_bytes: 1 << 30,
            jobs: vec![held(1, one), held(2, two)],
            ..MemorySample::default()
        };
        books.measured(&sample, now);
    };
    for job in [1, 2] {
        books.submitted(Request::plain(JobId(job)), Some(at(0)), at(0));
    }
    books.token = Some(JobId(1));
    read(&mut books, 300, 500, at(0));
    let token = JobId(1);
    let slow = Action::Slow { allowance: Some(100 << 20) };
    decide(
        &mut books,
        2,
        slow,
        Reason::Memory(MemoryReason::GrowsTooFast { free: 200 << 20, growth: 100 << 20, token }),
        at(200),
    )?;
    for (tenths, &(one, two)) in (201..).zip(readings) {
        read(&mut books, one, two, at(tenths));
    }
    decide(
        &mut books,
        2,
        Action::Freeze,
        Reason::Memory(MemoryReason::Short { free: 0, growth: 0, token }),
        at(220),
    )
}

#[test]
fn no_throttled_job_within_its_bound_is_frozen() {
    // On the way to its bound, and at it: nothing has become worse.
    for readings in [&[(300, 500), (300, 590)][..], &[(300, 550), (300, 600), (300, 600)]] {
        let found = freeze_of_a_slowed_job(readings).expect_err("it is found");
        assert!(found.contains("no job is suspended that a bound holds"), "{found}");
    }
    // Another grows; the bound does not hold it.
    for readings in [&[(300, 590), (310, 600)][..], &[(300, 600), (300, 620)]] {
        assert_eq!(freeze_of_a_slowed_job(readings), Ok(()), "{readings:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_history() {
    for seed in 0..30 {
        let (first, second) = (run(seed, None, false), run(seed, None, true));
        assert_eq!(first.map_err(|f| f.violation), second.map_err(|f| f.violation), "seed {seed}");
    }
}

#[test]
fn the_toy_model_ranks_the_strategies() {
    let rows = toy::compare(10);
    let median = |name: &str| rows.iter().find(|row| row.strategy == name).expect("a row").median_milli;
    let order = [
        "exact peaks, largest area first",
        "peaks over-predicted 1.3 times",
        "peaks over-predicted twice",
        "one after the other",
    ];
    for pair in order.windows(2) {
        assert!(median(pair[0]) <= median(pair[1]), "{pair:?}: {rows:?}");
    }
    for spread in ["0.2", "0.5"] {
        let reserved = |what: &str| median(&format!("{what} reserved, spread {spread}"));
        assert!(reserved("median") < reserved("99th percentile"), "{rows:?}");
    }
    assert!(median("memsuspend's rule") > median("median reserved, spread 0.2"), "{rows:?}");
}

#[test]
fn a_failing_episode_is_cut_down_to_what_it_needs() {
    // A job is frozen without permission: that needs this job, another to be frozen for, and no disturbance.
    let mutant = Some(Mutant::IgnoreNoSuspend);
    let failure = (0..400).find_map(|seed| run(seed, mutant, false).err()).expect("it is caught");
    let only = shrink(&failure, mutant);
    assert!(only.count() < 12 && only.count() < failure.options.tasks.len() + 11, "{only}");
    // The printed part plays it again, and nothing of it can be left out.
    let again = only.to_string().parse().expect("it reads as it is written");
    let smaller = run_only(failure.seed, mutant, false, &again).expect_err("it breaks the same promise");
    assert_eq!(smaller.violation.rule, failure.violation.rule);
    let needed = only.to_string();
    for job in 1..=failure.options.tasks.len() {
        let without = needed.replace(&format!("jobs={job},"), "jobs=").replace(&format!(",{job},"), ",");
        let without = without.replace(&format!(",{job};"), ";").replace(&format!("jobs={job};"), "jobs=;");
        if without != needed {
            let left = run_only(failure.seed, mutant, false, &without.parse().expect("it is one"));
            let same = left.is_err_and(|failure| failure.violation.rule == smaller.violation.rule);
            assert!(!same, "job {job} of {needed} is not needed");
        }
    }
}
