//! Row `interfere`: the loss of a primary to backfillers, their use of the cores it leaves, its wake-up delay beside them;
//! and whether the kernel puts idle-class tasks that wake onto the same core while another is free.
//!
//! Each round runs every primary once by every way, and each figure is compared with the primary alone in the same round.
//! The order begins a way further each round. Beside the primary is a process on each core. Idle time is the machine's own
//! count; the share of the processes beside it is their processor time as the scheduler counts it.

mod tell;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::isolated::Load;
use super::{Ground, RowArgs, perform};
use crate::compare::done;
use crate::daemon::Daemon;
use crate::machine::{self, allowed};
use crate::record::Record;
use crate::usage;
use crate::watch::descendants;
use crate::way::installed;

/// Options of row `interfere`.
#[derive(Debug, Args)]
pub(crate) struct InterfereArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Time of each primary alone, seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Wake-ups of the sleeping primary in each run.
    #[arg(long, default_value_t = 1_000)]
    wakes: u64,
    /// The primaries.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "compute,memory,storage,wake")]
    primaries: Vec<Work>,
    /// The work beside them.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "compute,memory")]
    beside: Vec<Beside>,
}

/// The work of a primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Work {
    /// Computes, on registers alone.
    Compute,
    /// Streams through more memory than the last cache holds.
    Memory,
    /// Writes blocks and has each brought to the storage.
    Storage,
    /// Sleeps and wakes.
    Wake,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
            Self::Storage => "storage",
            Self::Wake => "wake",
        }
    }

    /// The promised bound on its slowdown, as a fraction; `None`: no promise.
    fn target(self) -> Option<f64> {
        match self {
            Self::Compute => Some(0.01),
            Self::Memory => Some(0.03),
            Self::Storage | Self::Wake => None,
        }
    }
}

/// Endless work beside a primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Beside {
    /// Computing.
    Compute,
    /// Streaming.
    Memory,
}

impl Beside {
    fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Memory => "memory",
        }
    }
}

/// The launcher of the primary, and the work beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The primary and nothing else.
    Alone,
    /// The same as a job.
    PinfoldAlone,
    /// Beside processes of nice 19.
    Nice(Beside),
    /// A primary job beside backfilling jobs.
    Backfill(Beside),
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::PinfoldAlone => "pinfold, alone",
            Self::Nice(_) => "beside nice 19",
            Self::Backfill(_) => "beside pinfold's backfillers",
        }
    }

    fn beside(self) -> Option<Beside> {
        match self {
            Self::Alone | Self::PinfoldAlone => None,
            Self::Nice(beside) | Self::Backfill(beside) => Some(beside),
        }
    }

    fn is_pinfold(self) -> bool {
        matches!(self, Self::PinfoldAlone | Self::Backfill(_))
    }
}

/// The work's own report.
#[derive(Debug, Deserialize)]
struct Felt {
    units: u64,
    seconds: f64,
    cpu_s: f64,
    late_us: Vec<u64>,
}

/// A run of a primary.
#[derive(Debug, Serialize)]
struct Run {
    round: usize,
    primary: Work,
    way: &'static str,
    beside: Option<Beside>,
    /// From its first to its last unit.
    seconds: f64,
    /// Its processor time.
    cpu_s: f64,
    /// While it was there, with its start: seconds,
    window_s: f64,
    /// processor time of the processes beside it,
    beside_s: f64,
    /// time that the cores idled, waits for storage included,
    idle_s: f64,
    /// and how many cores others used in the mean.
    foreign_cores: f64,
    /// The delay of each of its wake-ups, microseconds.
    late_us: Vec<u64>,
}

/// Runs the row.
pub(crate) fn run(args: &InterfereArgs) -> anyhow::Result<()> {
    perform("interfere", &args.row, |ground, record| {
        ensure!(args.seconds > 0.0 && args.wakes > 0, "`--seconds` and `--wakes` are above nought");
        let stand = Stand::new(args, ground, record)?;
        let ways = stand.ways(&args.beside, record);
        let rounds = args.row.repetitions_or(10);
        let mut runs = Vec::new();
        for round in 0..rounds {
            for (primary, units) in &stand.primaries {
                for at in 0..ways.len() {
                    let way = ways[(at + round) % ways.len()];
                    let run = stand.measure(*primary, *units, way, round)?;
                    let beside = run.beside.map_or("", Beside::name);
                    done(&format!(
                        "interfere {round} {} {} {beside}: {:.3} s",
                        primary.name(),
                        run.way,
                        run.seconds
                    ));
                    record.add("run", &run)?;
                    runs.push(run);
                    if ground.interrupted() {
                        bail!("interrupted");
                    }
                }
            }
        }
        tell::tell(&ways, &stand.primaries, &runs, record);
        Ok(())
    })
}

/// The context common to all runs.
struct Stand<'g> {
    ground: &'g Ground,
    feel: PathBuf,
    /// The file that is written, below the scratch directory.
    file: PathBuf,
    /// MiB that are beyond the last cache.
    mib: usize,
    pus: Vec<usize>,
    /// Each primary with its units.
    primaries: Vec<(Work, u64)>,
}

impl<'g> Stand<'g> {
    fn new(args: &InterfereArgs, ground: &'g Ground, record: &mut Record) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("failed to find this program's own path")?;
        let feel = own.with_file_name("pinfold-feel");
        ensure!(feel.is_file(), "{} is not built", feel.display());
        let scratch = ground.bench(600.0).scratch;
        let cache_mib = last_cache_mib();
        let mut stand = Self {
            ground,
            feel,
            file: scratch.join("written"),
            mib: cache_mib.map_or(128, |mib| (2 * mib).max(64)),
            pus: allowed(),
            primaries: Vec::new(),
        };
        for &primary in &args.primaries {
            if primary == Work::Storage && in_memory(scratch)? {
                record.say("The primary that writes is left out: `--scratch` is a file system in memory.");
                continue;
            }
            let units = match primary {
                Work::Wake => args.wakes,
                _ => {
                    let mut command = stand.work(primary.name());
                    command.args(["--for-s", &args.seconds.to_string()]);
                    felt(command)?.units
                }
            };
            stand.primaries.push((primary, units));
        }
        let units: Vec<(&str, u64)> =
            stand.primaries.iter().map(|(primary, units)| (primary.name(), *units)).collect();
        record.add(
            "work",
            &serde_json::json!({ "last_cache_mib": cache_mib, "streamed_mib": stand.mib, "units": units }),
        )?;
        Ok(stand)
    }

    /// The ways that can be used here.
    fn ways(&self, beside: &[Beside], record: &mut Record) -> Vec<Way> {
        let mut ways = vec![Way::Alone];
        let (nice, pinfold) = (installed("nice"), self.ground.binaries.is_some());
        if pinfold {
            ways.push(Way::PinfoldAlone);
        } else {
            record.say("pinfold is left out: it is not built.");
        }
        for &beside in beside {
            ways.extend(nice.then_some(Way::Nice(beside)));
            ways.extend(pinfold.then_some(Way::Backfill(beside)));
        }
        ways
    }

    /// A command that does the work of this name, natively.
    fn work(&self, name: &str) -> Command {
        self.below(Command::new(&self.feel), name)
    }

    fn below(&self, mut command: Command, name: &str) -> Command {
        command.arg(name).args(["--mib", &self.mib.to_string(), "--file"]).arg(&self.file);
        command
    }

    fn measure(&self, primary: Work, units: u64, way: Way, round: usize) -> anyhow::Result<Run> {
        let daemon = match &self.ground.binaries {
            Some(binaries) if way.is_pinfold() => {
                let settings = ["slots.factor=2".to_owned()];
                Some(Daemon::start(binaries, self.ground.bench(600.0).scratch, None, &settings)?)
            }
            _ => None,
        };
        let beside = self.start_beside(way, daemon.as_ref())?;
        let roots: BTreeSet<i32> = beside.iter().filter_map(|load| i32::try_from(load.0.id()).ok()).collect();
        let mut command = match &daemon {
            Some(daemon) => {
                let mut command = daemon.command();
                command.args(["run", "--primary", "--"]).arg(&self.feel);
                self.below(command, primary.name())
            }
            None => self.work(primary.name()),
        };
        command.args(["--units", &units.to_string()]);
        let used_s = || usage::cpu_s(&descendants(&roots)).values().sum::<f64>();
        let (beside_s, idle_s, busy_s) = (used_s(), idle_s(&self.pus), machine::busy_s());
        let begun = Instant::now();
        let felt = felt(command)?;
        let window_s = begun.elapsed().as_secs_f64();
        let (busy_s, idle_s) = (machine::busy_s() - busy_s, self::idle_s(&self.pus) - idle_s);
        let beside_s = used_s() - beside_s;
        drop(beside);
        if let Some(daemon) = daemon {
            daemon.cancel_all();
            daemon.stop()?;
        }
        ensure!(felt.units == units, "{}: {} units of {units}", way.name(), felt.units);
        Ok(Run {
            round,
            primary,
            way: way.name(),
            beside: way.beside(),
            seconds: felt.seconds,
            cpu_s: felt.cpu_s,
            window_s,
            beside_s,
            idle_s,
            foreign_cores: ((busy_s - beside_s - felt.cpu_s) / window_s).max(0.0),
            late_us: felt.late_us,
        })
    }

    /// A process on each core, all at work.
    fn start_beside(&self, way: Way, daemon: Option<&Daemon>) -> anyhow::Result<Vec<Load>> {
        let Some(beside) = way.beside() else { return Ok(Vec::new()) };
        let start = || -> anyhow::Result<Load> {
            let mut command = match daemon {
                Some(daemon) => {
                    let mut command = daemon.command();
                    command.args(["run", "--backfill", "--"]).arg(&self.feel);
                    command
                }
                None => {
                    let mut command = Command::new("nice");
                    command.args(["-n", "19"]).arg(&self.feel);
                    command
                }
            };
            command = self.below(command, beside.name());
            command.arg("--ready").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            command.spawn().map(Load).context("failed to start what is beside")
        };
        let mut loads = (0..self.pus.len()).map(|_| start()).collect::<anyhow::Result<Vec<_>>>()?;
        if let Some(daemon) = daemon {
            daemon.await_so_many(loads.len())?;
        }
        for load in &mut loads {
            until_ready(&mut load.0)?;
        }
        Ok(loads)
    }
}

/// Waits until a process reports that it is set up.
fn until_ready(child: &mut Child) -> anyhow::Result<()> {
    let out = child.stdout.as_mut().context("what is beside has no output")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line).context("failed to hear of what is beside")?;
    ensure!(line.trim() == "ready", "what is beside said `{}`", line.trim());
    Ok(())
}

/// The report of a work at its end.
fn felt(mut command: Command) -> anyhow::Result<Felt> {
    let output = command.stdin(Stdio::null()).output().context("failed to run the work")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let felt = serde_json::from_str(&text).ok().filter(|_| output.status.success());
    felt.with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        format!("the work ended with {}: `{}` {}", output.status, text.trim(), said.trim())
    })
}

/// Size of the largest cache of the third level, or of the last level present; `None`: unknown.
fn last_cache_mib() -> Option<usize> {
    let entries = fs::read_dir("/sys/devices/system/cpu/cpu0/cache").ok()?;
    let sizes = entries.flatten().filter_map(|entry| {
        let text = |name: &str| fs::read_to_string(entry.path().join(name)).ok();
        let level: u32 = text("level")?.trim().parse().ok()?;
        let kib: usize = text("size")?.trim().strip_suffix('K')?.parse().ok()?;
        Some((level, kib.div_ceil(1024)))
    });
    sizes.max().map(|(_, mib)| mib)
}

/// Whether files below `directory` stay in memory.
fn in_memory(directory: &std::path::Path) -> anyhow::Result<bool> {
    const TMPFS: rustix::fs::FsWord = 0x0102_1994;
    let found = rustix::fs::statfs(directory).context("failed to look at the file system of `--scratch`")?;
    Ok(found.f_type == TMPFS)
}

/// Idle time of these PUs, waits for storage included, since the machine started; seconds.
fn idle_s(pus: &[usize]) -> f64 {
    let tick_s = 1.0 / rustix::param::clock_ticks_per_second().max(1) as f64;
    idle_ticks(&fs::read_to_string("/proc/stat").unwrap_or_default(), pus) as f64 * tick_s
}

fn idle_ticks(stat: &str, pus: &[usize]) -> u64 {
    let of = |line: &str| {
        let (name, times) = line.strip_prefix("cpu")?.split_once(' ')?;
        let times: Vec<u64> = times.split_ascii_whitespace().filter_map(|time| time.parse().ok()).collect();
        pus.contains(&name.parse().ok()?).then(|| times.iter().skip(3).take(2).sum::<u64>())
    };
    stat.lines().filter_map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_of_the_pus_asked_for() {
        let stat =
            "cpu  9 9 9 99 99 9\ncpu0 1 1 1 100 20 5 5\ncpu1 1 1 1 7 3 5 5\ncpu10 1 1 1 50 0 5\nintr 5\n";
        assert_eq!(idle_ticks(stat, &[0, 1]), 130);
        assert_eq!(idle_ticks(stat, &[10]), 50);
        assert_eq!(idle_ticks(stat, &[2]), 0);
    }
}
