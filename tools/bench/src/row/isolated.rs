//! Row `isolated`: the variation of a code's time, which needs nothing but a core, beside others, pinned apart by hand and
//! kept apart by pinfold.
//!
//! Each round runs every way once at every load. The reference is the same pair pinned apart by hand in the same round: on
//! a machine with dependent cores no manager makes a run beside a load as fast as a run alone. The reference stands in each
//! round twice, which shows how far it equals itself.

use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::json;

use super::{Ground, RowArgs, perform};
use crate::daemon::Daemon;
use crate::machine::allowed;
use crate::record::Record;
use crate::stats::{Spread, median};
use crate::table;

/// Options of row `isolated`.
#[derive(Debug, Args)]
pub(crate) struct IsolatedArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Queens on the board.
    #[arg(long, default_value_t = 12)]
    queens: u32,
    /// Solutions of the board in each run.
    #[arg(long, default_value_t = 4)]
    times: u32,
    /// Times that differ by less than this fraction count as equal.
    #[arg(long, default_value_t = 0.001)]
    margin: f64,
}

/// The way to run the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// At the kernel's choice, with its load.
    Native,
    /// The code on the last core, the load on the others.
    Hand,
    /// The same once more, against which the first is held.
    HandAgain,
    /// Code and load as jobs.
    Pinfold,
    /// The same, with the code as an isolated job.
    Isolated,
}

impl Way {
    const ALL: [Self; 5] = [Self::Native, Self::Hand, Self::HandAgain, Self::Pinfold, Self::Isolated];

    fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Hand => "pinned apart by hand",
            Self::HandAgain => "by hand, again",
            Self::Pinfold => "pinfold",
            Self::Isolated => "pinfold --isolated",
        }
    }
}

/// Runs the row.
pub(crate) fn run(args: &IsolatedArgs) -> anyhow::Result<()> {
    perform("isolated", &args.row, |ground, record| {
        let stand = Stand::new(args, ground)?;
        let ways: Vec<Way> = Way::ALL.into_iter().filter(|&way| stand.can(way)).collect();
        if ways.len() < Way::ALL.len() {
            record.say("pinfold is left out: it is not built.");
        }
        let cores = ground.cores();
        let mut loads = vec![0, cores - 1, cores];
        loads.dedup();
        let mut seconds = vec![vec![Vec::new(); ways.len()]; loads.len()];
        for round in 0..args.row.repetitions() {
            for (&load, seconds) in loads.iter().zip(&mut seconds) {
                for (&way, seconds) in ways.iter().zip(seconds) {
                    let took_s = stand.measure(way, load)?;
                    record.add(
                        "run",
                        &json!({ "round": round, "load": load, "way": way.name(), "seconds": took_s }),
                    )?;
                    seconds.push(took_s);
                    if ground.interrupted() {
                        bail!("interrupted");
                    }
                }
            }
        }
        let solo_s = ways.iter().position(|&way| way == Way::Hand).and_then(|at| median(&seconds[0][at]));
        for (&load, seconds) in loads.iter().zip(&seconds) {
            tell(load, &ways, seconds, solo_s.map(|solo| solo.value), args.margin, record);
        }
        stand.stop(record)
    })
}

/// The inputs of a measurement.
struct Stand {
    queens: Command,
    load: std::path::PathBuf,
    pus: Vec<usize>,
    daemon: Option<Daemon>,
    expected: String,
    arguments: [String; 4],
}

impl Stand {
    fn new(args: &IsolatedArgs, ground: &Ground) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("failed to find this program's own path")?;
        let (queens, load) = (own.with_file_name("pinfold-queens"), own.with_file_name("pinfold-load"));
        let daemon = match &ground.binaries {
            Some(binaries) => Some(Daemon::start(binaries, ground.bench(1_800.0).scratch, None, &[])?),
            None => None,
        };
        let arguments =
            ["--queens".to_owned(), args.queens.to_string(), "--times".to_owned(), args.times.to_string()];
        let mut stand = Self {
            queens: Command::new(&queens),
            load,
            pus: allowed(),
            daemon,
            expected: String::new(),
            arguments,
        };
        // Also a first run, for the files' sake.
        let (count, _) = stand.solve(Command::new(&queens))?;
        stand.expected = count;
        Ok(stand)
    }

    fn can(&self, way: Way) -> bool {
        self.daemon.is_some() || !matches!(way, Way::Pinfold | Way::Isolated)
    }

    /// Seconds of the code itself beside `load` others.
    fn measure(&self, way: Way, load: usize) -> anyhow::Result<f64> {
        let others =
            (0..load).map(|number| self.start_load(way, number)).collect::<anyhow::Result<Vec<_>>>()?;
        if let Some(daemon) = self.daemon.as_ref().filter(|_| matches!(way, Way::Pinfold | Way::Isolated)) {
            daemon.await_so_many(load)?;
        }
        let program = self.queens.get_program();
        let last = self.pus.last().context("this process may use no PU")?.to_string();
        let pinfold = |options: &[&str]| {
            let daemon = self.daemon.as_ref().expect("left out without one");
            let mut command = daemon.command();
            command.arg("run").args(options).arg("--").arg(program);
            command
        };
        let command = match way {
            Way::Native => Command::new(program),
            Way::Hand | Way::HandAgain => {
                let mut command = Command::new("taskset");
                command.args(["-c", &last]).arg(program);
                command
            }
            // More important than its load, as it would be: with as many others as cores it takes a core from one of them.
            Way::Pinfold => pinfold(&["--priority", "11"]),
            Way::Isolated => pinfold(&["--priority", "11", "--isolated"]),
        };
        let (count, seconds) = self.solve(command)?;
        drop(others);
        if let Some(daemon) = &self.daemon {
            daemon.cancel_all();
        }
        if count != self.expected {
            bail!("{}: the count is {count} and not {}", way.name(), self.expected);
        }
        Ok(seconds)
    }

    /// A process that computes until it is dropped.
    fn start_load(&self, way: Way, number: usize) -> anyhow::Result<Load> {
        let mut command = match (way, &self.daemon) {
            (Way::Pinfold | Way::Isolated, Some(daemon)) => {
                let mut command = daemon.command();
                command.args(["run", "--"]).arg(&self.load);
                command
            }
            (Way::Hand | Way::HandAgain, _) => {
                let others = &self.pus[..self.pus.len().saturating_sub(1).max(1)];
                let mut command = Command::new("taskset");
                command.args(["-c", &others[number % others.len()].to_string()]).arg(&self.load);
                command
            }
            _ => Command::new(&self.load),
        };
        command.args(["--bursts", "4000000000", "--turns", "100000000"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Load(command.spawn().context("failed to start a load")?))
    }

    /// The count and the seconds that the code prints.
    fn solve(&self, mut command: Command) -> anyhow::Result<(String, f64)> {
        let output = command.args(&self.arguments).stdin(Stdio::null()).output().context("the code")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said =
            text.trim().split_once(' ').and_then(|(count, s)| Some((count.to_owned(), s.parse().ok()?)));
        said.filter(|_| output.status.success()).with_context(|| {
            format!("the code said `{}` and {}", text.trim(), String::from_utf8_lossy(&output.stderr).trim())
        })
    }

    fn stop(self, record: &mut Record) -> anyhow::Result<()> {
        for group in self.daemon.map_or(Ok(Vec::new()), Daemon::stop)? {
            record.say(&format!("Left behind: cgroup {}.", group.display()));
        }
        Ok(())
    }
}

/// A process that is ended when this is dropped.
pub(super) struct Load(pub(super) Child);

impl Drop for Load {
    fn drop(&mut self) {
        // A job's client passes the signal on and ends with its job; processes that ignore it end with the job.
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _sent = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _gone = self.0.wait();
    }
}

fn tell(
    load: usize,
    ways: &[Way],
    seconds: &[Vec<f64>],
    solo_s: Option<f64>,
    margin: f64,
    record: &mut Record,
) {
    let at = |wanted: Way| ways.iter().position(|&way| way == wanted).map(|at| &seconds[at]);
    let Some(hand) = at(Way::Hand) else { return };
    let hand_deviation = Spread::of(hand).map_or(f64::NAN, |spread| spread.deviation);
    let mut rows = Vec::new();
    for (way, own) in ways.iter().zip(seconds) {
        let (Some(median), Some(spread)) = (median(own), Spread::of(own)) else { continue };
        let paired: Vec<f64> = own.iter().zip(hand).map(|(own, hand)| (own / hand).ln()).collect();
        let verdict = match Spread::of(&paired) {
            _ if *way == Way::Hand => "reference".to_owned(),
            None => "-".to_owned(),
            Some(ratio) => {
                let (low, high) = ratio.mean_interval_90();
                let percent = |value: f64| 100.0 * value.exp_m1();
                let word = if low > -margin && high < margin { "equal" } else { "not shown to be equal" };
                format!("{:+.2} [{:+.2}, {:+.2}] {word}", percent(ratio.mean), percent(low), percent(high))
            }
        };
        rows.push(vec![
            way.name().to_owned(),
            table::with_interval(&median, 4),
            format!("{:.4}", spread.deviation),
            format!("{:.2}", spread.deviation / hand_deviation),
            format!("{:.4}", own.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
            solo_s.map_or_else(|| "-".to_owned(), |solo| format!("{:.3}", median.value / solo)),
            verdict,
        ]);
    }
    record.say(&format!(
        "\n### Beside {load} load process{}\n\n{} interleaved rounds. By hand: mean difference in % with its 90 % interval, \
         equal if that lies within {:.2} %.\n",
        if load == 1 { "" } else { "es" },
        hand.len(),
        100.0 * margin
    ));
    let head = ["way", "median s", "deviation s", "x by hand", "worst s", "x alone", "against by hand"];
    record.say(&table::markdown(&head, &rows));
}
