//! Work that reports its own time: the duration of a fixed amount, its wake-up delay, and the core on which it woke.
//!
//! The amount is counted in units, not in time, so that work which loses its core, its cache or its turn at the storage
//! does no less for it. The same program is the work beside: without an amount it goes on until it is ended. Owns its
//! output file, and no other.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Parser, ValueEnum};
use serde_json::json;

#[path = "work/burn.rs"]
mod burn;
use burn::burn;

/// Does work and reports its own time.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The work.
    #[arg(value_enum)]
    work: Work,
    /// The number of units; without it, until it is ended.
    #[arg(long)]
    units: Option<u64>,
    /// As many units as fit into this many seconds.
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
    /// A sleep of 1 to 4 ms a unit; reports the delay of each.
    Wake,
}

/// Turns of the loop in a unit.
const TURNS: u64 = 1_000_000;
/// Words in a MiB.
const WORDS: usize = (1 << 20) / size_of::<u64>();
/// The size of a write, bytes, and the number of blocks in the file.
const BLOCK: usize = 64 << 10;
const BLOCKS: u64 = 256;

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let mut out = std::io::stdout().lock();
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
    /// Sets up outside the measured time: memory is written once, the file has its size.
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
            Work::Compute => {}
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
        }
        Ok(())
    }
}
