//! A job with a duty cycle: bursts of a fixed amount of computing with waits between them; or a job that grows; or a job
//! that starts processes without end; or a farm of processes that do little, for programs that watch processes.
//!
//! The amount is counted in turns of an integer loop, not in time, so that a job that loses its core does no less work for
//! it: CPU use and makespan then show the manager's effect. Owns nothing.

use std::hint::black_box;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;

#[path = "work/burn.rs"]
mod burn;
use burn::burn;

/// Computes in bursts of fixed work and waits between them.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Print the number of turns of the loop that fit into a second here, and do nothing else.
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
    /// Grow to this many MiB, each page written, before the bursts; each turn then changes a word anywhere in them.
    #[arg(long, default_value_t = 0)]
    grow_mib: usize,
    /// Grow by at most this many MiB in a second.
    #[arg(long, default_value_t = f64::INFINITY)]
    grow_mib_per_s: f64,
    /// Change the words in turn instead, from the first to the last and again.
    #[arg(long)]
    sweep: bool,
    /// Start this many processes a second, each of which ends at once, until it is ended itself.
    #[arg(long, value_name = "RATE")]
    forks: Option<f64>,
    /// Start a farm of this many processes, print `ready`, and keep it until standard input ends.
    #[arg(long, value_name = "N")]
    farm: Option<usize>,
    /// Be a process of a farm.
    #[arg(long, value_enum, hide = true)]
    member: Option<Member>,
}

/// The behaviour of a farm's process. Each has written 1 MiB of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Member {
    /// Nothing.
    Idle,
    /// Computes 1 % of the time, ten times a second.
    Work,
    /// Grows by half a MiB a second, up to 32.
    Grow,
}

/// The numbers of working and growing members of a farm, as far as it has members.
const WORKING: usize = 20;
const GROWING: usize = 10;

fn main() -> std::io::Result<()> {
    let args = Args::parse();
    let mut out = std::io::stdout().lock();
    if args.calibrate {
        return writeln!(out, "{:.0}", calibrate());
    }
    if let Some(member) = args.member {
        return be(member);
    }
    if let Some(members) = args.farm {
        return farm(members, &mut out);
    }
    if let Some(rate) = args.forks {
        return fork_for_ever(rate);
    }
    let mut state = 1;
    let mut held = grow(args.grow_mib, args.grow_mib_per_s);
    for _ in 0..args.bursts {
        state = match (held.is_empty(), args.sweep) {
            (true, _) => burn(state, args.turns),
            (false, false) => walk(&mut held, state, args.turns),
            (false, true) => sweep(&mut held, state, args.turns),
        };
        if args.wait_us > 0 {
            std::thread::sleep(Duration::from_micros(args.wait_us));
        }
    }
    // The result depends on every turn, so a job that was cut short cannot print it.
    writeln!(out, "{state:016x}")
}

/// In turn; a rate that cannot be reached runs as fast as possible.
fn fork_for_ever(rate: f64) -> std::io::Result<()> {
    let begun = Instant::now();
    for number in 0u64.. {
        let due = Duration::from_secs_f64(number as f64 / rate.max(f64::MIN_POSITIVE));
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let mut command = Command::new("/bin/true");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    }
    Ok(())
}

fn farm(members: usize, out: &mut impl Write) -> std::io::Result<()> {
    let program = std::env::current_exe()?;
    let start = |number: usize| -> std::io::Result<Child> {
        let member = match number {
            0..WORKING => "work",
            number if number < WORKING + GROWING => "grow",
            _ => "idle",
        };
        let mut command = Command::new(&program);
        command.args(["--member", member]).stdin(Stdio::null()).stdout(Stdio::null()).spawn()
    };
    let mut children = Vec::new();
    let started = (0..members).try_for_each(|number| start(number).map(|child| children.push(child)));
    let told = started.and_then(|()| writeln!(out, "ready {members}")).and_then(|()| out.flush());
    let waited = told.and_then(|()| std::io::stdin().read_to_end(&mut Vec::new()));
    for child in &mut children {
        // An ended child needs no signal.
        let _answer = child.kill();
        child.wait()?;
    }
    waited.map(drop)
}

/// Never returns: ends with its parent.
fn be(member: Member) -> std::io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    const STEP: usize = (1 << 19) / size_of::<u64>();
    const MOST: usize = 64 * STEP;
    let mut held = grow(1, f64::INFINITY);
    if member == Member::Grow {
        // Reserved room takes no memory; a vector that moved as it grew would take twice its size for moments.
        held.reserve_exact(MOST);
    }
    loop {
        let begun = Instant::now();
        let pause = match member {
            Member::Idle => Duration::from_secs(3600),
            Member::Work => {
                while begun.elapsed() < Duration::from_millis(1) {
                    black_box(burn(black_box(1), 1_000));
                }
                Duration::from_millis(99)
            }
            Member::Grow => {
                if held.len() < MOST {
                    held.resize(held.len() + STEP, 1);
                }
                Duration::from_secs(1)
            }
        };
        std::thread::sleep(pause);
    }
}

/// Memory of `mib` MiB, written MiB by MiB, no faster than requested.
fn grow(mib: usize, mib_per_s: f64) -> Vec<u64> {
    const WORDS: usize = (1 << 20) / size_of::<u64>();
    // A single reservation: a vector that moved as it grew would take twice its size for moments.
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

/// `turns` steps of a sum through the words of `held`, each of which is changed: as fast as memory gives and takes them.
fn sweep(held: &mut [u64], mut state: u64, turns: u64) -> u64 {
    let mut left = usize::try_from(turns).unwrap_or(usize::MAX);
    while left > 0 {
        let part = left.min(held.len());
        for word in &mut held[..part] {
            state = state.wrapping_add(*word);
            *word = state;
        }
        left -= part;
    }
    black_box(state)
}

/// Turns in a second of this core: the best of several tries, as other load on the core only slows it.
fn calibrate() -> f64 {
    const TURNS: u64 = 20_000_000;
    let speed = |_| {
        let start = Instant::now();
        black_box(burn(black_box(1), TURNS));
        TURNS as f64 / start.elapsed().as_secs_f64()
    };
    (0..15).map(speed).fold(0.0, f64::max)
}
