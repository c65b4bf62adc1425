//! Row `cost`: the cost of watching a farm of processes at a sample a second.
//!
//! A farm per size and repetition, and each watcher has its turn with it while the others are away; but for pinfold, which
//! runs the farm as a job and so watches all the time, and is measured in a turn of its own. Counted are all threads and
//! children of a watcher; of pinfold also the job's keeper. A second table is of an idle daemon.

mod rest;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::Serialize;

use self::rest::Rest;
use super::{Ground, RowArgs, perform};
use crate::compare::done;
use crate::daemon::Daemon;
use crate::monitor::{LEFT_OUT, Monitor, Peer};
use crate::record::Record;
use crate::stats::median;
use crate::table;
use crate::usage::{self, Memory};
use crate::watch::descendants;

/// The time for a watcher's first reading, which costs more than later readings.
const SETTLE: Duration = Duration::from_millis(1_500);
/// The thread that reads proportional sizes in pinfold's daemon.
const SHARES: &str = "shares";

/// Options of row `cost`.
#[derive(Debug, Args)]
pub(crate) struct CostArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Numbers of processes.
    #[arg(long, value_delimiter = ',', default_value = "100,1000", value_name = "N,...")]
    processes: Vec<usize>,
    /// Numbers of jobs that wait, for a daemon at rest.
    #[arg(long, value_delimiter = ',', default_value = "0,1000,10000", value_name = "N,...")]
    waiting: Vec<usize>,
    /// Measured time of each watcher, seconds.
    #[arg(long, default_value_t = 8.0, value_name = "S")]
    window: f64,
    /// Settings of pinfold's daemon.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watcher {
    Pinfold,
    Peer(Peer),
}

impl Watcher {
    fn name(self) -> &'static str {
        match self {
            Self::Pinfold => "pinfold",
            Self::Peer(peer) => peer.name(),
        }
    }
}

/// A watcher's turn.
#[derive(Debug, Serialize)]
struct Turn {
    watcher: &'static str,
    /// Processes of the farm.
    processes: usize,
    repetition: usize,
    window_s: f64,
    /// Processor time within the window, by thread, seconds.
    cpu_s: BTreeMap<String, f64>,
    memory: Memory,
    /// Samples a second, by the watcher's own count.
    rate_hz: f64,
}

impl Turn {
    /// Percent of a core for a sample a second, of all threads or of a single thread.
    fn percent(&self, thread: Option<&str>) -> f64 {
        let cpu_s: f64 = match thread {
            Some(name) => self.cpu_s.get(name).copied().unwrap_or(0.0),
            None => self.cpu_s.values().sum(),
        };
        100.0 * cpu_s / self.window_s / self.rate_hz.max(1e-9)
    }
}

/// Runs the row.
pub(crate) fn run(args: &CostArgs) -> anyhow::Result<()> {
    perform("cost", &args.row, |ground, record| {
        let watchers = watchers(ground, record);
        let (mut turns, mut rests) = (Vec::new(), Vec::new());
        for repetition in 1..=args.row.repetitions() {
            for &processes in &args.processes {
                let farm = Farm::start(ground, processes, &args.settings)?;
                // In alternating order: the first watcher finds a farm that no watcher has read yet.
                let mut order = watchers.clone();
                if repetition % 2 == 0 {
                    order.reverse();
                }
                for watcher in order {
                    let turn = measure(watcher, &farm, ground, (processes, repetition), args.window)?;
                    let percent = turn.percent(None);
                    done(&format!(
                        "cost {repetition} {processes} {}: {percent:.2} % of a core",
                        turn.watcher
                    ));
                    record.add("turn", &turn)?;
                    turns.push(turn);
                    if ground.interrupted() {
                        bail!("interrupted");
                    }
                }
                farm.stop()?;
            }
            rests.extend(at_rest(args, ground, repetition, record)?);
        }
        tell(&args.processes, &watchers, &turns, record);
        if !rests.is_empty() {
            rest::tell(&rests, record);
        }
        Ok(())
    })
}

/// The daemon at rest, with each number of jobs that wait.
fn at_rest(
    args: &CostArgs,
    ground: &Ground,
    repetition: usize,
    record: &mut Record,
) -> anyhow::Result<Vec<Rest>> {
    let mut rests = Vec::new();
    for &waiting in &args.waiting {
        let Some(rest) = rest::measure(ground, (waiting, repetition), args.window, &args.settings)? else {
            return Ok(rests);
        };
        done(&format!("cost {repetition} at rest, {waiting} jobs wait: {:.3} % of a core", rest.percent()));
        record.add("rest", &rest)?;
        rests.push(rest);
        if ground.interrupted() {
            bail!("interrupted");
        }
    }
    Ok(rests)
}

fn watchers(ground: &Ground, record: &mut Record) -> Vec<Watcher> {
    let mut watchers = Vec::new();
    match &ground.binaries {
        Some(_) => watchers.push(Watcher::Pinfold),
        None => record.say("pinfold is left out: it is not built."),
    }
    for peer in Peer::ALL {
        match peer.missing() {
            Some(why) => record.say(&why),
            None => {
                record.say(&format!("{}: {}.", peer.name(), peer.version().unwrap_or_default()));
                watchers.push(Watcher::Peer(peer));
            }
        }
    }
    record.say(LEFT_OUT);
    watchers
}

/// A farm, as a job where pinfold is there.
#[derive(Debug)]
struct Farm {
    /// The farm's starter: the job's keeper, or the farm itself.
    child: Child,
    /// The farm lasts as long as this is open.
    input: ChildStdin,
    daemon: Option<Daemon>,
}

impl Farm {
    fn start(ground: &Ground, processes: usize, settings: &[String]) -> anyhow::Result<Self> {
        let load =
            std::env::current_exe().context("failed to find this program")?.with_file_name("pinfold-load");
        ensure!(load.is_file(), "{} is not built", load.display());
        let scratch = ground.bench(0.0).scratch;
        let daemon = match &ground.binaries {
            Some(binaries) => Some(Daemon::start(binaries, scratch, None, settings)?),
            None => None,
        };
        let mut command = match &daemon {
            Some(daemon) => {
                let mut command = daemon.command();
                command.args(["run", "--"]).arg(load);
                command
            }
            None => Command::new(load),
        };
        command.args(["--farm", &processes.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("failed to start a farm")?;
        let input = child.stdin.take().expect("its input was asked for");
        let output = child.stdout.take().expect("its output was asked for");
        let farm = Self { child, input, daemon };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line).context("failed to read what a farm says")?;
        ensure!(line.starts_with("ready"), "the farm of {processes} processes did not come up: {line}");
        Ok(farm)
    }

    /// pinfold's own processes.
    fn pids(&self) -> Vec<i32> {
        let mut pids: Vec<i32> =
            self.daemon.iter().flat_map(|daemon| descendants(&daemon.pid().into_iter().collect())).collect();
        pids.extend(i32::try_from(self.child.id()));
        pids
    }

    /// Samples that pinfold has taken of it.
    fn samples(&self) -> anyhow::Result<u64> {
        let daemon = self.daemon.as_ref().context("pinfold is not there")?;
        let output =
            daemon.command().args(["report", "--json", "1"]).output().context("failed to ask pinfold")?;
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).context("no report")?;
        report["samples"].as_u64().context("a report without samples")
    }

    fn stop(mut self) -> anyhow::Result<()> {
        drop(self.input);
        let status = self.child.wait().context("failed to wait for a farm")?;
        ensure!(status.success(), "the farm ended with {status}");
        if let Some(daemon) = self.daemon
            && let Some(group) = daemon.stop()?.first()
        {
            done(&format!("left behind: cgroup {}", group.display()));
        }
        Ok(())
    }
}

fn measure(
    watcher: Watcher,
    farm: &Farm,
    ground: &Ground,
    (processes, repetition): (usize, usize),
    window_s: f64,
) -> anyhow::Result<Turn> {
    let window = |pids: &dyn Fn() -> Vec<i32>| {
        std::thread::sleep(SETTLE);
        let (before, begun) = (usage::cpu_s(&pids()), Instant::now());
        std::thread::sleep(Duration::from_secs_f64(window_s));
        let pids = pids();
        let (after, window_s) = (usage::cpu_s(&pids), begun.elapsed().as_secs_f64());
        (used(&before, &after), window_s, usage::memory(&pids))
    };
    let ((cpu_s, window_s, memory), rate_hz) = match watcher {
        Watcher::Pinfold => {
            let (before, begun) = (farm.samples()?, Instant::now());
            let found = window(&|| farm.pids());
            let passed_s = begun.elapsed().as_secs_f64();
            (found, (farm.samples()? - before) as f64 / passed_s)
        }
        Watcher::Peer(peer) => {
            let directory: &Path = ground.bench(0.0).scratch;
            let monitor = Monitor::start(peer, directory)?;
            let found = window(&|| monitor.pids());
            let seen = monitor.stop()?;
            let pids: BTreeSet<i32> = seen.rows.iter().map(|row| row.pid).collect();
            ensure!(pids.len() >= processes, "{} saw {} of {processes} processes", peer.name(), pids.len());
            (found, seen.rate_hz())
        }
    };
    Ok(Turn { watcher: watcher.name(), processes, repetition, window_s, cpu_s, memory, rate_hz })
}

/// The use of each thread between two readings.
fn used(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let since = |name: &String, after: f64| (after - before.get(name).copied().unwrap_or(0.0)).max(0.0);
    after.iter().map(|(name, after)| (name.clone(), since(name, *after))).collect()
}

fn tell(sizes: &[usize], watchers: &[Watcher], turns: &[Turn], record: &mut Record) {
    let mut rows = Vec::new();
    for &processes in sizes {
        for watcher in watchers {
            let own =
                || turns.iter().filter(|turn| turn.processes == processes && turn.watcher == watcher.name());
            let cell = |of: &dyn Fn(&Turn) -> f64, digits| {
                let values: Vec<f64> = own().map(of).collect();
                median(&values).map_or_else(String::new, |median| table::with_interval(&median, digits))
            };
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            rows.push(vec![
                format!("{processes}, {}", watcher.name()),
                cell(&|turn| turn.percent(None), 2),
                cell(&|turn| turn.percent((*watcher == Watcher::Pinfold).then_some(SHARES)), 2),
                cell(&|turn| mib(turn.memory.pss_bytes), 1),
                cell(&|turn| mib(turn.memory.rss_bytes), 1),
                cell(&|turn| turn.rate_hz, 2),
            ]);
            if *watcher != Watcher::Pinfold {
                // Only pinfold has this part by itself.
                rows.last_mut().expect("pushed just now")[2] = String::new();
            }
        }
    }
    record.say(
        "\nCPU is percent of one core at a sample a second, all threads and children of the watcher; the part for \
         dividing shared memory (PSS) where it is told apart. The farm: 1 MiB each, 20 compute 1 % of the time, 10 \
         grow, the others sleep; the host's other processes are watched by the peers, too.\n",
    );
    record.say(&table::markdown(
        &["processes, watcher", "CPU %", "of it PSS", "memory MiB (PSS)", "RSS", "samples/s"],
        &rows,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_is_of_a_core_at_a_sample_a_second() {
        let cpu_s = BTreeMap::from([("a".to_owned(), 0.1), (SHARES.to_owned(), 0.06)]);
        let turn = Turn {
            watcher: "x",
            processes: 1,
            repetition: 1,
            window_s: 8.0,
            cpu_s,
            memory: Memory::default(),
            rate_hz: 0.5,
        };
        assert!((turn.percent(None) - 4.0).abs() < 1e-9);
        assert!((turn.percent(Some(SHARES)) - 1.5).abs() < 1e-9);
        assert!(turn.percent(Some("none")).abs() < 1e-9);
    }

    #[test]
    fn a_thread_that_came_between_counts_whole() {
        let times = |pairs: &[(&str, f64)]| -> BTreeMap<String, f64> {
            pairs.iter().map(|(name, time)| ((*name).to_owned(), *time)).collect()
        };
        let used = used(&times(&[("a", 1.0), ("gone", 9.0)]), &times(&[("a", 1.5), ("new", 0.25)]));
        assert_eq!(used, times(&[("a", 0.5), ("new", 0.25)]));
    }
}
