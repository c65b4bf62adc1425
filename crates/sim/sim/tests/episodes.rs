//! Episodes: a smaller number at each test, the seeds that once found a mistake, and mistakes made on purpose.

use std::collections::BTreeMap;

use pinfold_sim::{Mutant, Only, Outcome, run, run_only, shrink};

/// Plays an episode; the output of a failure suffices to play it again.
#[track_caller]
fn play(seed: u64) -> Outcome {
    play_only(seed, &Only::default())
}

#[track_caller]
fn play_only(seed: u64, only: &Only) -> Outcome {
    match run_only(seed, None, false, only) {
        Ok(outcome) => outcome,
        Err(failure) => {
            panic!("{failure}\nagain: cargo xtask sim --seed {seed} --episodes 1 --trace --only '{only}'")
        }
    }
}

/// The codes of all reasons for which a host without memory decides.
const REASONS: [&str; 32] = [
    "home_core_free",
    "backfill_slot_free",
    "backfill_asked",
    "unscheduled",
    "promoted",
    "promoted_to_free_core",
    "preempted",
    "idler_core",
    "cpus_gone",
    "cpus_changed",
    "exclusive",
    "exclusive_over",
    "slots_shrank",
    "slot_free",
    "asked",
    "priority_changed",
    "queue_full",
    "expired",
    "too_large",
    "withdrawn",
    "adopted",
    "restored",
    "retry",
    "guaranteed",
    "reclaimed",
    "headroom",
    "made_room",
    "reservation_free",
    "reserved_for_others",
    "interference",
    "last_of_list",
    "not_last_of_list",
];

#[test]
fn promises_hold_and_everything_happens() {
    let mut tally: BTreeMap<&'static str, u64> = BTreeMap::new();
    let mut crashes = 0;
    for seed in 100_000..100_400 {
        let outcome = play(seed);
        crashes += outcome.crashes;
        for (reason, count) in outcome.tally {
            *tally.entry(reason).or_default() += count;
        }
    }
    // Episodes in which nothing happens would keep every promise.
    assert!(crashes > 100, "{crashes} crashes");
    for reason in REASONS {
        assert!(tally.get(reason).is_some_and(|&count| count > 0), "nothing was decided because: {reason}");
    }
}

#[test]
fn seeds_that_found_mistakes() {
    let corpus = include_str!("../corpus.txt");
    let lines = corpus.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let mut count = 0;
    for line in lines {
        let (seed, found) = line.split_once(' ').expect("a seed and what it found");
        let only = found.split(' ').next().filter(|word| word.starts_with("without="));
        let only = only.map_or_else(Only::default, |word| word.parse().expect("what is left out"));
        play_only(seed.parse().expect("a seed is a number"), &only);
        count += 1;
    }
    assert!(count > 0, "the corpus is empty");
}

#[test]
fn every_mutant_is_caught() {
    for mutant in Mutant::ALL {
        let caught = (0..200).find_map(|seed| run(seed, Some(mutant), false).err());
        let Some(failure) = caught else { panic!("{mutant:?} broke no promise in 200 episodes") };
        println!("{mutant:?}: episode {}: {}", failure.seed, failure.violation.rule);
    }
}

#[test]
fn a_failing_episode_is_cut_down_to_what_it_needs() {
    let mutant = Some(Mutant::ForgetAtRestart);
    let failure = (0..200).find_map(|seed| run(seed, mutant, false).err()).expect("it is caught");
    let only = shrink(&failure, mutant);
    // A restart, or a fault that causes a restart, and a job that is forgotten at it.
    assert!(
        only.count() <= 4,
        "{only}, of {} jobs and {} disturbances",
        failure.options.jobs,
        failure.upsets
    );
    let again: Only = only.to_string().parse().expect("it reads as it is written");
    let smaller = run_only(failure.seed, mutant, false, &again).expect_err("it breaks the same promise");
    assert_eq!(smaller.violation.rule, failure.violation.rule);
    assert!(run_only(failure.seed, None, false, &again).is_ok(), "without the mistake no promise is broken");
}
