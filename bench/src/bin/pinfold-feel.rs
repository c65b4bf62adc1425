//! Work that says what it felt: how long a fixed amount took, how late it woke, on whose core it woke.
//!
//! The amount is counted in units, not in time, so that work which loses its core, its cache or its turn at the storage
//! does no less for it. The same program is the work beside: without an amount it goes on until it is ended. Owns the file
//! it writes to, and no other.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use serde::Serialize;
use serde_json::json;

#[path = "work/burn.rs"]
mod burn;
use burn::burn;

/// Does work and says what it felt.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The work.
    #[arg(value_enum)]
    work: Work,
    /// So many units of it; without, until it is ended.
    #[arg(long)]
    units: Option<u64>,
    /// As many units as go into so many seconds.
    #[arg(long, value_name = "SECONDS", conflicts_with = "units")]
    for_s: Option<f64>,
    /// Memory that `memory` walks through, MiB.
    #[arg(long, default_value_t = 64)]
    mib: usize,
    /// The file that `storage` writes.
    #[arg(long)]
    file: Option<PathBuf>,
    /// Say `ready` when all is set up.
    #[arg(long)]
    ready: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Work {
    /// A million turns of an integer loop a unit.
    Compute,
    /// A MiB of memory read and written a unit, on through all of it and round again.
    Memory,
    /// A block written and brought to the storage a unit.
    Storage,
    /// A sleep of 1 to 4 ms a unit; says how late each ended.
    Wake,
    /// Two threads that compute and sleep, woken by the clock; says how often one woke on the other's core.
    PackByTimer,
    /// The same, each woken by the other, which goes on.
    PackByOther,
}

/// Turns of the loop in a unit.
const TURNS: u64 = 1_000_000;
/// Words in a MiB.
const WORDS: usize = (1 << 20) / size_of::<u64>();
/// What is written at once, bytes, and how many such blocks the file has.
const BLOCK: usize = 64 << 10;
const BLOCKS: u64 = 256;

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut out = std::io::stdout().lock();
    if let Work::PackByTimer | Work::PackByOther = args.work {
        let pairs = pack(args.work, args.units.context("`--units` says how often they wake")?)?;
        return serde_json::to_writer(&mut out, &pairs).context("failed to print");
    }
    let mut doing = Doing::new(&args)?;
    if args.ready {
        writeln!(out, "ready").and_then(|()| out.flush()).context("failed to print")?;
    }
    let units = args.units.unwrap_or(u64::MAX);
    let most = args.for_s.map_or(Duration::MAX, Duration::from_secs_f64);
    let (cpu_s, start, mut done) = (processor_s(), Instant::now(), 0);
    while done < units && start.elapsed() < most {
        doing.unit(done)?;
        done += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    let felt = json!({
        "units": done, "seconds": seconds, "cpu_s": processor_s() - cpu_s, "late_us": doing.late_us,
    });
    writeln!(out, "{felt}").context("failed to print")
}

/// Processor time of this process so far.
fn processor_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default().as_secs_f64()
}

/// Work under way.
struct Doing {
    work: Work,
    state: u64,
    held: Vec<u64>,
    file: Option<File>,
    block: Vec<u8>,
    late_us: Vec<u64>,
}

impl Doing {
    /// Sets up what is not part of the work: memory is written once, the file has its size.
    fn new(args: &Args) -> anyhow::Result<Self> {
        let mut doing = Self {
            work: args.work,
            state: 1,
            held: Vec::new(),
            file: None,
            block: vec![7; BLOCK],
            late_us: Vec::new(),
        };
        match args.work {
            Work::Memory => doing.held = vec![1; args.mib.max(1) * WORDS],
            Work::Storage => {
                let path = args.file.as_ref().context("`storage` needs a `--file`")?;
                let file =
                    File::create(path).with_context(|| format!("failed to create {}", path.display()))?;
                for block in 0..BLOCKS {
                    file.write_all_at(&doing.block, block * BLOCK as u64)
                        .context("failed to fill the file")?;
                }
                file.sync_all().context("failed to fill the file")?;
                doing.file = Some(file);
            }
            // Otherwise the kernel may put a wake-up off by 50 us, to join it with others.
            Work::Wake => rustix::thread::set_current_timer_slack(NonZeroU64::new(1))
                .context("failed to ask for timers without slack")?,
            Work::Compute | Work::PackByTimer | Work::PackByOther => {}
        }
        Ok(doing)
    }

    fn unit(&mut self, number: u64) -> anyhow::Result<()> {
        match self.work {
            Work::Compute => self.state = burn(self.state, TURNS),
            Work::Memory => {
                let all = self.held.len() / WORDS;
                let at = usize::try_from(number).unwrap_or(0) % all * WORDS;
                for word in &mut self.held[at..at + WORDS] {
                    *word = word.wrapping_add(number);
                }
                black_box(&mut self.held);
            }
            Work::Storage => {
                let file = self.file.as_ref().context("the file is not open")?;
                let written = file.write_all_at(&self.block, number % BLOCKS * BLOCK as u64);
                written.and_then(|()| file.sync_data()).context("failed to write a block")?;
            }
            Work::Wake => {
                self.state = burn(self.state, 1);
                let sleep = Duration::from_micros(1_000 + self.state % 3_000);
                let start = Instant::now();
                std::thread::sleep(sleep);
                let late = start.elapsed().saturating_sub(sleep);
                self.late_us.push(u64::try_from(late.as_micros()).unwrap_or(u64::MAX));
            }
            Work::PackByTimer | Work::PackByOther => bail!("this work has no units of its own"),
        }
        Ok(())
    }
}

/// What the other of a pair can see of a thread.
#[derive(Debug, Default)]
struct Seen {
    awake: AtomicBool,
    core: AtomicUsize,
}

/// What a thread of a pair, or both, saw and had.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Pair {
    /// How often one woke while the other had not gone to sleep,
    beside: u64,
    /// and how often of these on the core where the other was.
    packed: u64,
    /// Time on a core, seconds.
    ran_s: f64,
    /// Time for which one could run and had no core, seconds.
    waited_s: f64,
}

/// Two threads that wake `wakes` times each; what both had.
fn pack(work: Work, wakes: u64) -> anyhow::Result<Pair> {
    let (one, other) = (Seen::default(), Seen::default());
    let (to_one, from_other) = sync_channel(1);
    let (to_other, from_one) = sync_channel(1);
    let both: Vec<anyhow::Result<Pair>> = std::thread::scope(|scope| {
        let mates = [(&one, &other, to_other, from_other), (&other, &one, to_one, from_one)];
        // The first of a pair that wakes each other begins; nobody has woken it.
        if work == Work::PackByOther {
            let _begun = mates[1].2.send(());
        }
        let threads = mates.into_iter().zip([3_u64, 5]).map(|((own, mate, send, receive), seed)| {
            scope.spawn(move || match work {
                Work::PackByOther => woken_by_other(own, mate, wakes, &send, &receive),
                _ => woken_by_timer(own, mate, wakes, seed),
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread of a pair does not panic")).collect()
    });
    let mut sum = Pair::default();
    for pair in both {
        let pair = pair?;
        sum.beside += pair.beside;
        sum.packed += pair.packed;
        sum.ran_s += pair.ran_s;
        sum.waited_s += pair.waited_s;
    }
    Ok(sum)
}

/// Computes for about 2 ms, sleeps 1 to 3.
fn woken_by_timer(own: &Seen, mate: &Seen, wakes: u64, seed: u64) -> anyhow::Result<Pair> {
    let mut pair = Pair::default();
    let mut state = seed;
    for _ in 0..wakes {
        state = burn(state, 1);
        std::thread::sleep(Duration::from_micros(1_000 + state % 2_000));
        own.woke(mate, &mut pair);
        own.compute(BURST);
        own.awake.store(false, Ordering::SeqCst);
    }
    pair.account()
}

/// Computes for about 2 ms, wakes the other, goes on for 1 ms, and sleeps until it is woken by the other in its turn.
fn woken_by_other(
    own: &Seen,
    mate: &Seen,
    wakes: u64,
    send: &SyncSender<()>,
    receive: &Receiver<()>,
) -> anyhow::Result<Pair> {
    let mut pair = Pair::default();
    for _ in 0..wakes {
        // One that has done all its wakes is gone, and so is its end of the channel.
        if receive.recv().is_err() {
            break;
        }
        own.woke(mate, &mut pair);
        own.compute(BURST);
        let told = send.send(());
        own.compute(BURST / 2);
        own.awake.store(false, Ordering::SeqCst);
        if told.is_err() {
            break;
        }
    }
    pair.account()
}

/// Pieces of computing of about 30 us each in a burst.
const BURST: u32 = 64;

impl Seen {
    /// Counts where this thread woke.
    fn woke(&self, mate: &Seen, pair: &mut Pair) {
        let core = rustix::thread::sched_getcpu();
        self.core.store(core, Ordering::SeqCst);
        self.awake.store(true, Ordering::SeqCst);
        if mate.awake.load(Ordering::SeqCst) {
            pair.beside += 1;
            pair.packed += u64::from(mate.core.load(Ordering::SeqCst) == core);
        }
    }

    fn compute(&self, pieces: u32) {
        for _ in 0..pieces {
            black_box(burn(black_box(1), TURNS / 50));
            self.core.store(rustix::thread::sched_getcpu(), Ordering::SeqCst);
        }
    }
}

impl Pair {
    /// Adds what the kernel counted for this thread.
    fn account(mut self) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").context("no schedstat")?;
        let mut fields = text.split_ascii_whitespace().map(str::parse::<u64>);
        let (Some(Ok(ran_ns)), Some(Ok(waited_ns))) = (fields.next(), fields.next()) else {
            bail!("`{}` is no line of schedstat", text.trim());
        };
        self.ran_s = ran_ns as f64 / 1e9;
        self.waited_s = waited_ns as f64 / 1e9;
        Ok(self)
    }
}
