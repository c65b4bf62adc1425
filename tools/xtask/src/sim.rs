//! `cargo xtask sim`: episodes of consecutive seeds, spread over threads.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::bail;
use pinfold_sim::{Only, pressure};

#[derive(Debug, clap::Args)]
pub(crate) struct SimArgs {
    /// Episodes to play
    #[arg(long, default_value_t = 10_000)]
    episodes: u64,
    /// The first seed; without one, a fresh seed from the time
    #[arg(long)]
    seed: Option<u64>,
    /// Threads
    #[arg(long, default_value_t = 1)]
    jobs: u64,
    /// Print the whole history of the episode that failed (or of the only episode)
    #[arg(long)]
    trace: bool,
    /// Compare strategies on the toy model instead
    #[arg(long)]
    toy: bool,
    /// Play with these jobs, disturbances and kinds of faults only, as a failure prints them
    #[arg(long, value_name = "jobs=..;upsets=..;faults=..")]
    only: Option<Only>,
    /// Play episodes in which memory does not suffice
    #[arg(long)]
    pressure: bool,
}

/// The result of an episode.
pub(crate) struct Played {
    pub(crate) decisions: u64,
    /// The hash over all decisions.
    pub(crate) hash: u64,
    /// Jobs that the kernel killed where it was unavoidable.
    lost: u64,
    /// Under pressure: the regime of knowledge, and the makespan in thousandths of the serial bound.
    makespan: Option<(String, u64)>,
    words: String,
}

/// An episode in which a promise was broken.
pub(crate) struct Broken {
    seed: u64,
    violation: String,
    options: String,
    trace: Vec<String>,
    /// Finds the smallest part of it that breaks the same promise.
    shrink: Box<dyn FnOnce() -> Only + Send>,
}

/// Plays an episode: its seed, whether its history is kept, and the played part.
pub(crate) type Play = fn(u64, bool, &Only) -> Result<Played, Box<Broken>>;

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a promise was broken in the episode of seed {}: {}", self.seed, self.violation)
    }
}

pub(crate) fn sim(args: &SimArgs) -> anyhow::Result<()> {
    if args.toy {
        toy();
        return Ok(());
    }
    let play: Play = if args.pressure { under_pressure } else { plain };
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let only = args.only.clone().unwrap_or_default();
    println!("seeds {seed} to {}", seed.saturating_add(args.episodes.saturating_sub(1)));
    let (next, played, decisions) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let lost = AtomicU64::new(0);
    let makespans: Mutex<BTreeMap<String, Vec<u64>>> = Mutex::new(BTreeMap::new());
    let failed: Mutex<Option<Box<Broken>>> = Mutex::new(None);
    let began = Instant::now();
    let work = || {
        let mut told = Instant::now();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= args.episodes || failed.lock().is_ok_and(|failed| failed.is_some()) {
                return;
            }
            match play(seed.wrapping_add(index), false, &only) {
                Ok(outcome) => {
                    decisions.fetch_add(outcome.decisions, Ordering::Relaxed);
                    lost.fetch_add(outcome.lost, Ordering::Relaxed);
                    if let Some((known, milli)) = outcome.makespan {
                        let mut all = makespans.lock().unwrap_or_else(PoisonError::into_inner);
                        all.entry(known).or_default().push(milli);
                    }
                }
                Err(broken) => {
                    if let Ok(mut failed) = failed.lock() {
                        failed.get_or_insert(broken);
                    }
                    return;
                }
            }
            let count = played.fetch_add(1, Ordering::Relaxed) + 1;
            if told.elapsed() > Duration::from_secs(5) {
                told = Instant::now();
                eprintln!("{count} of {} episodes, {:.0} s", args.episodes, began.elapsed().as_secs_f64());
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(broken) = failed {
        return report(*broken, args, play);
    }
    if args.trace && args.episodes == 1 {
        print_trace(seed, play, &only);
    }
    println!(
        "{} episodes, {} decisions, no promise broken, {:.1} s",
        played.into_inner(),
        decisions.into_inner(),
        began.elapsed().as_secs_f64()
    );
    if args.pressure {
        let lost = lost.into_inner();
        println!(
            "{lost} jobs lost, all where swap was short and nobody knew what they need; commit {}",
            commit()
        );
        tell_makespans(makespans.into_inner().unwrap_or_else(PoisonError::into_inner));
    }
    Ok(())
}

/// Prints makespans against the serial bound: the cost and gain of the governor.
fn tell_makespans(makespans: BTreeMap<String, Vec<u64>>) {
    println!("| what is known | episodes | makespan / serial bound, mean | median | p90 |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for (known, mut all) in makespans {
        all.sort_unstable();
        let at = |part: usize| all[(all.len() - 1) * part / 100];
        let mean = all.iter().sum::<u64>() / all.len() as u64;
        let ratio = |milli: u64| format!("{}.{:03}", milli / 1000, milli % 1000);
        println!("| {known} | {} | {} | {} | {} |", all.len(), ratio(mean), ratio(at(50)), ratio(at(90)));
    }
}

/// Sets of jobs of the toy model.
const TOY_SETS: u64 = 60;

fn toy() {
    println!("| strategy | median | p90 |");
    println!("| --- | ---: | ---: |");
    let ratio = |milli: u64| format!("{}.{:02}", (milli + 5) / 1000, (milli + 5) % 1000 / 10);
    for row in pressure::toy::compare(TOY_SETS) {
        println!("| {} | {} | {} |", row.strategy, ratio(row.median_milli), ratio(row.p90_milli));
    }
}

pub(crate) fn plain(seed: u64, traced: bool, only: &Only) -> Result<Played, Box<Broken>> {
    let played = pinfold_sim::run_only(seed, None, traced, only);
    let told = |o: pinfold_sim::Outcome| Played {
        decisions: o.decisions,
        hash: o.hash,
        lost: 0,
        makespan: None,
        words: format!("{o:?}"),
    };
    played.map(told).map_err(|failure| {
        let options = format!("{:#?}", failure.options);
        let (violation, trace) = (failure.violation.to_string(), failure.trace.clone());
        let shrink = Box::new(move || pinfold_sim::shrink(&failure, None));
        Box::new(Broken { seed, violation, options, trace, shrink })
    })
}

pub(crate) fn under_pressure(seed: u64, traced: bool, only: &Only) -> Result<Played, Box<Broken>> {
    let played = pressure::run_only(seed, None, traced, only);
    let told = |o: pressure::Outcome| {
        let milli = o.makespan_us.saturating_mul(1000) / o.bound_us.max(1);
        let makespan = Some((format!("{:?}", o.regime).to_lowercase(), milli));
        Played { decisions: o.decisions, hash: o.hash, lost: o.lost, makespan, words: format!("{o:?}") }
    };
    played.map(told).map_err(|failure| {
        let options = format!("{:#?}", failure.options);
        let (violation, trace) = (failure.violation.to_string(), failure.trace.clone());
        let shrink = Box::new(move || pressure::shrink(&failure, None));
        Box::new(Broken { seed, violation, options, trace, shrink })
    })
}

fn report(broken: Broken, args: &SimArgs, play: Play) -> anyhow::Result<()> {
    let seed = broken.seed;
    if args.trace {
        print_trace(seed, play, &args.only.clone().unwrap_or_default());
    }
    println!("{}", broken.violation);
    println!("options {}", broken.options);
    println!("seed {seed}, commit {}", commit());
    let which = if args.pressure { "--pressure " } else { "" };
    let again = format!("cargo xtask sim {which}--seed {seed} --episodes 1 --trace");
    if let Some(only) = &args.only {
        println!("again: {again} --only '{only}'");
    } else {
        println!("again: {again}");
        let only = (broken.shrink)();
        println!("the same promise, with the {} things that it needs: {again} --only '{only}'", only.count());
    }
    bail!("a promise was broken in the episode of seed {seed}");
}

fn print_trace(seed: u64, play: Play, only: &Only) {
    match play(seed, true, only) {
        Ok(played) => println!("{}", played.words),
        Err(broken) => broken.trace.iter().for_each(|line| println!("{line}")),
    }
}

fn commit() -> String {
    let git = Command::new("git").args(["describe", "--always", "--dirty"]).output();
    match git {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

fn fresh_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| since.as_secs())
}
