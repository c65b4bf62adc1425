//! What is run: a pool of classes, and mixes drawn from it.

use crate::dice::Dice;
use crate::row::e5::whole;
use crate::row::memory::loads;
use crate::workload::Job;

/// Jobs that compute for so much of their time, in hundredths, in bursts of 20 ms.
const DUTIES: [u64; 3] = [100, 60, 30];
/// How long such a job computes, in seconds.
const COMPUTES_S: f64 = 1.5;
/// Short ones: how long they compute, in seconds.
const SHORT_S: f64 = 0.1;
/// Jobs that hold memory and walk through it, in MiB.
const WALKS_MIB: [u64; 2] = [64, 192];
const BURST_S: f64 = 0.02;
/// Jobs that grow to so many hundredths of the budget.
const GROWS_PERCENT: [u64; 2] = [20, 35];
/// By so many MiB in a second, and then they change a word anywhere so many times: some seconds each.
const GROWS_MIB_PER_S: u64 = 120;
const GROWN_TURNS: u64 = 30_000_000;
/// A family: its processes, and hundredths of the budget that they grow to together.
const FAMILY: (u64, u64) = (3, 30);

/// One job of each class. `speed`: turns of the loop of `load` in a second; `budget_mib`: what jobs that outgrow memory may
/// hold together, if there are to be such.
pub(super) fn pool(programs: &[Job], load: &str, speed: f64, budget_mib: Option<u64>) -> Vec<Job> {
    let job = |class: String, script: String| Job { name: class.clone(), class, script, outputs: Vec::new() };
    let bursts = |seconds: f64| (seconds / BURST_S).round();
    let turns = whole(speed * BURST_S);
    let mut pool = programs.to_vec();
    for duty in DUTIES {
        let wait_us = whole(1e6 * BURST_S * (100 - duty) as f64 / duty as f64) * u64::from(duty < 100);
        let count = bursts(COMPUTES_S);
        pool.push(job(
            format!("duty-{duty}"),
            format!("{load} --bursts {count} --turns {turns} --wait-us {wait_us}\n"),
        ));
    }
    let count = bursts(SHORT_S);
    pool.push(job("short".to_owned(), format!("{load} --bursts {count} --turns {turns}\n")));
    for mib in WALKS_MIB {
        let count = bursts(COMPUTES_S);
        // A turn that changes a word anywhere takes some ten times as long as one in registers.
        let turns = (turns / 10).max(1);
        pool.push(job(
            format!("walks-{mib}"),
            format!("{load} --grow-mib {mib} --bursts {count} --turns {turns}\n"),
        ));
    }
    let Some(budget_mib) = budget_mib else { return pool };
    for percent in GROWS_PERCENT {
        let script = loads::walker(load, budget_mib * percent / 100, GROWS_MIB_PER_S, GROWN_TURNS);
        pool.push(job(format!("grows-{percent}"), script));
    }
    let (processes, percent) = FAMILY;
    let mib = budget_mib * percent / 100;
    let script = loads::slow_family(load, processes, mib, GROWS_MIB_PER_S, GROWN_TURNS / processes);
    pool.push(job("family".to_owned(), script));
    pool
}

/// How many jobs of a class a mix has at least and at most.
type Counts = fn(&str) -> [u64; 2];

/// The kinds whose jobs together outgrow the budget.
const PRESSED: [&str; 2] = ["pressure", "families"];

/// The kinds of mixes, by name.
const KINDS: [(&str, Counts); 7] = [
    ("programs", |class| if is_program(class) { [0, 2] } else { [0, 0] }),
    ("waits", |class| if class.starts_with("duty-") { [1, 5] } else { [0, 0] }),
    ("short", |class| match class {
        "short" => [20, 60],
        "duty-100" => [1, 2],
        _ => [0, 0],
    }),
    (PRESSED[0], |class| match class {
        "duty-60" => [0, 2],
        _ if class.starts_with("grows-") => [2, 5],
        _ => [0, 0],
    }),
    ("memory", |class| match class {
        _ if class.starts_with("walks-") => [1, 4],
        _ if class == "family" || class.starts_with("grows-") => [0, 0],
        _ => [0, 1],
    }),
    (PRESSED[1], |class| if class == "family" { [4, 8] } else { [0, 0] }),
    ("all", |class| match class {
        "short" => [3, 10],
        _ if class == "family" || class.starts_with("grows-") => [0, 0],
        _ => [0, 2],
    }),
];

fn is_program(class: &str) -> bool {
    !["duty-", "walks-", "short", "grows-", "family"].iter().any(|start| class.starts_with(start))
}

/// Jobs that run beside each other.
#[derive(Debug)]
pub(super) struct Mix {
    pub(super) name: String,
    /// In the order in which they are handed over; there may be none.
    pub(super) jobs: Vec<Job>,
    /// They run within the budget of memory.
    pub(super) pressed: bool,
}

/// The so-many-th mix of a seed.
pub(super) fn draw(pool: &[Job], seed: u64, number: u64) -> Mix {
    let mut dice = Dice(seed.wrapping_mul(0x1_0000).wrapping_add(number));
    let kind = usize::try_from(number % KINDS.len() as u64).unwrap_or(0);
    let (name, counts) = KINDS[kind];
    let mut jobs = Vec::new();
    for job in pool {
        let [least, most] = counts(&job.class);
        for copy in 0..least + dice.below(most - least + 1) {
            jobs.push(Job { name: format!("{}-{copy}", job.name), ..job.clone() });
        }
    }
    for at in (1..jobs.len()).rev() {
        let other = usize::try_from(dice.below(at as u64 + 1)).unwrap_or(0);
        jobs.swap(at, other);
    }
    Mix { name: format!("{name} {number}"), jobs, pressed: PRESSED.contains(&name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool_here() -> Vec<Job> {
        let program = Job {
            name: "velvet-1".to_owned(),
            class: "velvet-1".to_owned(),
            script: "velveth\n".to_owned(),
            outputs: Vec::new(),
        };
        pool(&[program], "load", 1e6, Some(1000))
    }

    #[test]
    fn classes_are_what_they_are_called() {
        let pool = pool_here();
        let script = |class: &str| &pool.iter().find(|job| job.class == class).expect(class).script;
        assert_eq!(script("duty-100"), "load --bursts 75 --turns 20000 --wait-us 0\n");
        assert_eq!(script("duty-60"), "load --bursts 75 --turns 20000 --wait-us 13333\n");
        assert_eq!(script("short"), "load --bursts 5 --turns 20000\n");
        assert_eq!(script("walks-64"), "load --grow-mib 64 --bursts 75 --turns 2000\n");
        assert!(script("grows-35").starts_with("load --grow-mib 350 "));
        assert_eq!(script("family").matches("load --grow-mib 100 ").count(), 1);
    }

    #[test]
    fn mixes_are_of_all_kinds_and_the_same_each_time() {
        let pool = pool_here();
        for number in 0..21 {
            let Mix { name, jobs, pressed } = draw(&pool, 1, number);
            let again: Vec<String> = draw(&pool, 1, number).jobs.into_iter().map(|job| job.name).collect();
            let mut names: Vec<String> = jobs.iter().map(|job| job.name.clone()).collect();
            assert_eq!(names, again);
            names.sort();
            names.dedup();
            assert_eq!(names.len(), jobs.len(), "{name}: each has a name of its own");
            let all = |of: fn(&str) -> bool| jobs.iter().all(|job| of(&job.class));
            let grows = |class: &str| class == "family" || class.starts_with("grows-");
            match number % 7 {
                0 => assert!(all(is_program), "{name}"),
                1 => assert!(jobs.len() >= 3 && all(|class| class.starts_with("duty-")), "{name}"),
                2 => assert!(jobs.len() >= 21, "{name}"),
                3 | 5 => assert!(pressed && jobs.iter().any(|job| grows(&job.class)), "{name}"),
                _ => assert!(!jobs.iter().any(|job| grows(&job.class)), "{name}"),
            }
            assert_eq!(pressed, matches!(number % 7, 3 | 5), "{name}");
        }
    }
}
