//! A job with a duty cycle: bursts of a fixed amount of computing with waits between them; or a job that grows.
//!
//! The amount is counted in turns of an integer loop, not in time, so that a job that loses its core does no less
//! work for it: CPU use and makespan then tell what the manager did. Owns nothing.

use std::hint::black_box;
use std::io::Write;
use std::time::{Duration, Instant};

use clap::Parser;

/// Computes in bursts of fixed work and waits between them.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Print how many turns of the loop fit into one second here, and do nothing else.
    #[arg(long)]
    calibrate: bool,
    /// Bursts.
    #[arg(long, default_value_t = 10)]
    bursts: u32,
    /// Turns of the loop in each burst.
    #[arg(long, default_value_t = 1_000_000)]
    turns: u64,
    /// Wait after each burst, microseconds.
    #[arg(long, default_value_t = 0)]
    wait_us: u64,
    /// Grow to so many MiB, each page written, before the bursts; each turn then changes a word anywhere in them.
    #[arg(long, default_value_t = 0)]
    grow_mib: usize,
    /// Grow by no more than so many MiB in a second.
    #[arg(long, default_value_t = f64::INFINITY)]
    grow_mib_per_s: f64,
}

fn main() -> std::io::Result<()> {
    let args = Args::parse();
    let mut out = std::io::stdout().lock();
    if args.calibrate {
        return writeln!(out, "{:.0}", calibrate());
    }
    let mut state = 1;
    let mut held = grow(args.grow_mib, args.grow_mib_per_s);
    for _ in 0..args.bursts {
        state = if held.is_empty() { burn(state, args.turns) } else { walk(&mut held, state, args.turns) };
        if args.wait_us > 0 {
            std::thread::sleep(Duration::from_micros(args.wait_us));
        }
    }
    // The result depends on every turn, so a job that was cut short cannot print it.
    writeln!(out, "{state:016x}")
}

/// Memory of so many MiB, written MiB by MiB, no faster than asked.
fn grow(mib: usize, mib_per_s: f64) -> Vec<u64> {
    const WORDS: usize = (1 << 20) / size_of::<u64>();
    // One reservation: a vector that moved as it grew would hold twice its size for moments.
    let mut held = Vec::with_capacity(mib * WORDS);
    let start = Instant::now();
    for index in 0..mib {
        held.resize((index + 1) * WORDS, index as u64 + 1);
        let due = Duration::from_secs_f64((index + 1) as f64 / mib_per_s);
        std::thread::sleep(due.saturating_sub(start.elapsed()));
    }
    held
}

/// `turns` steps of the generator, each of which mixes a word of `held` into the state and back.
fn walk(held: &mut [u64], mut state: u64, turns: u64) -> u64 {
    let words = held.len() as u64;
    for _ in 0..turns {
        state = burn(state, 1);
        if let Some(word) = usize::try_from(state % words).ok().and_then(|at| held.get_mut(at)) {
            *word = word.wrapping_add(state);
            state ^= *word | 1;
        }
    }
    state
}

/// `turns` steps of a xorshift generator from `state`: each needs the one before, so no compiler shortens it.
fn burn(mut state: u64, turns: u64) -> u64 {
    for _ in 0..turns {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state)
}

/// Turns in a second of this core: the best of several tries, as anything else on the core only slows it.
fn calibrate() -> f64 {
    const TURNS: u64 = 20_000_000;
    let speed = |_| {
        let start = Instant::now();
        black_box(burn(black_box(1), TURNS));
        TURNS as f64 / start.elapsed().as_secs_f64()
    };
    (0..15).map(speed).fold(0.0, f64::max)
}
