//! Row `cage`: an application that starts processes without end, and what the rest of the machine feels of it.
//!
//! Each round runs a code that needs nothing but a core once for every way: alone; beside the application where the kernel
//! puts both; the two pinned apart by hand; and as jobs, the application in a set of cores that is set aside for it.
//! Counted beside its time are the processes that pinfold saw, and the processor time of its daemon, all threads.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use clap::Args;
use serde::Serialize;

use super::{Ground, RowArgs, perform};
use crate::compare::done;
use crate::daemon::Daemon;
use crate::machine::allowed;
use crate::record::Record;
use crate::stats::median;
use crate::table;
use crate::usage;
use crate::watch::descendants;

/// Options of row `cage`.
#[derive(Debug, Args)]
pub(crate) struct CageArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Processes a second; 28 are 100,000 an hour.
    #[arg(long, value_delimiter = ',', default_value = "28,1000", value_name = "N,...")]
    rates: Vec<f64>,
    /// Queens on the board of the code.
    #[arg(long, default_value_t = 12)]
    queens: u32,
    /// How often the board is solved in each run.
    #[arg(long, default_value_t = 200)]
    times: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Alone,
    Native,
    Hand,
    Cage,
}

impl Way {
    const ALL: [Self; 4] = [Self::Alone, Self::Native, Self::Hand, Self::Cage];

    fn name(self) -> &'static str {
        match self {
            Self::Alone => "alone",
            Self::Native => "native",
            Self::Hand => "pinned apart by hand",
            Self::Cage => "caged by pinfold",
        }
    }
}

/// One run of the code.
#[derive(Debug, Serialize)]
struct Run {
    way: &'static str,
    rate: f64,
    round: usize,
    seconds: f64,
    /// Of pinfold's daemon meanwhile, percent of a core.
    daemon_percent: Option<f64>,
    /// Processes that pinfold saw of the application, a second.
    seen_rate: Option<f64>,
}

/// Runs the row.
pub(crate) fn run(args: &CageArgs) -> anyhow::Result<()> {
    perform("cage", &args.row, |ground, record| {
        let stand = Stand::new(args)?;
        if stand.pus.len() < 2 {
            record.say("Left out: it takes two PUs to keep two apart.");
            return Ok(());
        }
        if ground.binaries.is_none() {
            record.say("pinfold is left out: it is not built.");
        }
        let ways = Way::ALL.into_iter().filter(|&way| way != Way::Cage || ground.binaries.is_some());
        let ways: Vec<Way> = ways.collect();
        let mut runs = Vec::new();
        for round in 0..args.row.repetitions() {
            for &rate in &args.rates {
                for &way in &ways {
                    let run = stand.measure(way, rate, round, ground)?;
                    done(&format!("cage {round} {rate} {}: {:.3} s", run.way, run.seconds));
                    record.add("run", &run)?;
                    runs.push(run);
                    if ground.interrupted() {
                        bail!("interrupted");
                    }
                }
            }
        }
        tell(&args.rates, &ways, &runs, record);
        Ok(())
    })
}

struct Stand {
    queens: PathBuf,
    load: PathBuf,
    arguments: [String; 4],
    pus: Vec<usize>,
}

impl Stand {
    fn new(args: &CageArgs) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("failed to find this program's own path")?;
        let (queens, load) = (own.with_file_name("pinfold-queens"), own.with_file_name("pinfold-load"));
        ensure!(queens.is_file() && load.is_file(), "{} is not built", load.display());
        let arguments =
            ["--queens".to_owned(), args.queens.to_string(), "--times".to_owned(), args.times.to_string()];
        Ok(Self { queens, load, arguments, pus: allowed() })
    }

    fn measure(&self, way: Way, rate: f64, round: usize, ground: &Ground) -> anyhow::Result<Run> {
        let daemon = match (&ground.binaries, way) {
            (Some(binaries), Way::Cage) => {
                Some(Daemon::start(binaries, ground.bench(600.0).scratch, None, &[])?)
            }
            _ => None,
        };
        let (first, last) = (self.pus[0].to_string(), self.pus[self.pus.len() - 1].to_string());
        let pinned = |pu: &str, program: &PathBuf| {
            let mut command = Command::new("taskset");
            command.args(["-c", pu]).arg(program);
            command
        };
        let (load, code) = match &daemon {
            Some(daemon) => {
                let aside = daemon.command().args(["set-aside", "cage", "--cpus", &first]).status();
                ensure!(aside.context("pinfold set-aside")?.success(), "no set for the application");
                let job = |options: &[&str], program: &PathBuf| {
                    let mut command = daemon.command();
                    command.arg("run").args(options).arg("--").arg(program);
                    command
                };
                (job(&["--in", "cage"], &self.load), job(&[], &self.queens))
            }
            None if way == Way::Native => (Command::new(&self.load), Command::new(&self.queens)),
            None => (pinned(&first, &self.load), pinned(&last, &self.queens)),
        };
        let load = if way == Way::Alone { None } else { Some(Load::start(load, rate)?) };
        if let Some(daemon) = &daemon {
            daemon.await_running(1)?;
        }
        let begun = Instant::now();
        let before_s = daemon.as_ref().map(cpu_s);
        let seconds = self.solve(code)?;
        let passed_s = begun.elapsed().as_secs_f64();
        let used =
            |before_s: f64| daemon.as_ref().map(|daemon| 100.0 * (cpu_s(daemon) - before_s) / passed_s);
        let daemon_percent = before_s.and_then(used);
        let load_s = load.as_ref().map(|load| load.begun.elapsed().as_secs_f64());
        drop(load);
        let seen_rate = match (daemon, load_s) {
            (Some(daemon), Some(load_s)) => {
                let seen = processes_of_first(&daemon)?;
                daemon.stop()?;
                Some(seen as f64 / load_s)
            }
            _ => None,
        };
        Ok(Run { way: way.name(), rate, round, seconds, daemon_percent, seen_rate })
    }

    /// The seconds that the code says.
    fn solve(&self, mut command: Command) -> anyhow::Result<f64> {
        let output = command.args(&self.arguments).stdin(Stdio::null()).output().context("the code")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let seconds = text.trim().split_once(' ').and_then(|(_, seconds)| seconds.parse().ok());
        seconds.filter(|_| output.status.success()).with_context(|| {
            format!("the code said `{}` and {}", text.trim(), String::from_utf8_lossy(&output.stderr).trim())
        })
    }
}

/// The processor time of a daemon so far, seconds, all threads.
fn cpu_s(daemon: &Daemon) -> f64 {
    let root: BTreeSet<i32> = daemon.pid().into_iter().collect();
    usage::cpu_s(&descendants(&root)).values().sum()
}

/// How many processes the application's job, the first, had by the daemon's count.
fn processes_of_first(daemon: &Daemon) -> anyhow::Result<u64> {
    let output = daemon.command().args(["report", "--json", "1"]).output().context("pinfold report")?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).context("no report")?;
    report["processes_total"].as_u64().context("a report without processes")
}

/// The application, ended when it is not wanted any more.
struct Load {
    child: Child,
    begun: Instant,
}

impl Load {
    fn start(mut command: Command, rate: f64) -> anyhow::Result<Self> {
        command.args(["--forks", &rate.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { child: command.spawn().context("failed to start the application")?, begun: Instant::now() })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _sent = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _gone = self.child.wait();
    }
}

fn tell(rates: &[f64], ways: &[Way], runs: &[Run], record: &mut Record) {
    for &rate in rates {
        let of = |way: Way| {
            runs.iter().filter(move |run| run.way == way.name() && run.rate.total_cmp(&rate).is_eq())
        };
        let seconds = |way: Way| median(&of(way).map(|run| run.seconds).collect::<Vec<f64>>());
        let alone_s = seconds(Way::Alone).map(|median| median.value);
        let rows = ways.iter().filter_map(|&way| {
            let took = seconds(way)?;
            let cell = |values: Vec<f64>, digits| {
                median(&values).map_or_else(String::new, |median| table::with_interval(&median, digits))
            };
            Some(vec![
                way.name().to_owned(),
                table::with_interval(&took, 3),
                alone_s.map_or_else(String::new, |alone| format!("{:.3}", took.value / alone)),
                cell(of(way).filter_map(|run| run.daemon_percent).collect(), 2),
                cell(of(way).filter_map(|run| run.seen_rate).collect(), 1),
            ])
        });
        record.say(&format!("\n### Beside {rate} new processes a second\n"));
        let head = ["way", "seconds", "x alone", "pinfoldd, % of a core", "processes seen a second"];
        record.say(&table::markdown(&head, &rows.collect::<Vec<_>>()));
    }
}
