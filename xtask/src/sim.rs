//! `cargo xtask sim`: episodes of consecutive seeds, spread over threads.

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use pinfold_sim::{Failure, run};

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
    /// Print the whole history of the episode that failed (or of the only one)
    #[arg(long)]
    trace: bool,
}

pub(crate) fn sim(args: &SimArgs) -> anyhow::Result<()> {
    let seed = args.seed.unwrap_or_else(fresh_seed);
    println!("seeds {seed} to {}", seed.saturating_add(args.episodes.saturating_sub(1)));
    let (next, played, decisions) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let failed: Mutex<Option<Box<Failure>>> = Mutex::new(None);
    let began = Instant::now();
    let work = || {
        let mut told = Instant::now();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= args.episodes || failed.lock().is_ok_and(|failed| failed.is_some()) {
                return;
            }
            match run(seed.wrapping_add(index), None, false) {
                Ok(outcome) => decisions.fetch_add(outcome.decisions, Ordering::Relaxed),
                Err(failure) => {
                    if let Ok(mut failed) = failed.lock() {
                        failed.get_or_insert(failure);
                    }
                    return;
                }
            };
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
    let failed = failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(failure) = failed {
        return report(&failure, args.trace);
    }
    if args.trace && args.episodes == 1 {
        print_trace(seed);
    }
    println!(
        "{} episodes, {} decisions, no promise broken, {:.1} s",
        played.into_inner(),
        decisions.into_inner(),
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

fn report(failure: &Failure, trace: bool) -> anyhow::Result<()> {
    let seed = failure.seed;
    if trace {
        print_trace(seed);
    }
    println!("{}", failure.violation);
    println!("options {:#?}", failure.options);
    println!("seed {seed}, commit {}", commit());
    println!("again: cargo xtask sim --seed {seed} --episodes 1 --trace");
    bail!("a promise was broken in the episode of seed {seed}");
}

fn print_trace(seed: u64) {
    match run(seed, None, true) {
        Ok(outcome) => println!("{outcome:?}"),
        Err(failure) => failure.trace.iter().for_each(|line| println!("{line}")),
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
