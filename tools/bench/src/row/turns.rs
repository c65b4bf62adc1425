//! Row `loop`: how long turns of the daemon's loop take, and how long root waits for an answer, while many users ask as
//! much as they may.
//!
//! Each user is a process of its own (`pinfold-crowd`) with several connections; together they keep thousands of held jobs
//! in the queue. The daemon is root's and measures its turns itself; root's waits are measured on a connection of this
//! program's. Only root can be many users, so other users do not have this row.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Args;
use pinfold_proto::view::LoopView;
use serde::{Deserialize, Serialize};

use super::{Ground, RowArgs, perform};
use crate::compare::done;
use crate::daemon::{Binaries, Daemon};
use crate::record::Record;
use crate::stats::{median, percentile};
use crate::table;

/// The first of the users: numbers that are unused on usual systems.
const FIRST_USER: u32 = 61_000;
/// Pause between two questions of root's.
const PAUSE: Duration = Duration::from_millis(20);
/// The targets, in milliseconds: for 99.9 % of the turns, and for the longest.
const TARGETS_MS: (f64, f64) = (20.0, 100.0);

/// Options of row `loop`.
#[derive(Debug, Args)]
pub(crate) struct TurnsArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Users.
    #[arg(long, default_value_t = 20)]
    users: u32,
    /// Connections of each.
    #[arg(long, default_value_t = 5)]
    connections: u32,
    /// Jobs that wait, of all users together.
    #[arg(long, default_value_t = 10_000)]
    jobs: u32,
    /// Duration of the requests, seconds.
    #[arg(long, default_value_t = 30.0, value_name = "S")]
    window: f64,
}

/// The users' requests in a repetition, and the results.
#[derive(Debug, Serialize)]
struct Round {
    repetition: usize,
    turns: LoopView,
    /// Root's waits for an answer, milliseconds.
    waits_ms: Vec<f64>,
    asked: BTreeMap<String, Asked>,
}

/// The output of `pinfold-crowd`.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Asked {
    requests: u64,
    refused: u64,
    slowest_s: f64,
}

/// Runs the row.
pub(crate) fn run(args: &TurnsArgs) -> anyhow::Result<()> {
    perform("loop", &args.row, |ground, record| {
        let Some(binaries) = &ground.binaries else {
            record.say("pinfold is left out: it is not built.");
            return Ok(());
        };
        if !rustix::process::getuid().is_root() {
            record.say("Left out: only root can be many users.");
            return Ok(());
        }
        let mut rounds = Vec::new();
        for repetition in 1..=args.row.repetitions_or(3) {
            let round = measure(args, ground, binaries, repetition)?;
            let (p999_ms, max_ms) = (round.turns.p999_s * 1e3, round.turns.max_s * 1e3);
            let what = &round.turns.max_busy_with;
            done(&format!("loop {repetition}: p99.9 {p999_ms:.1} ms, longest {max_ms:.1} ms ({what})"));
            record.add("round", &round)?;
            rounds.push(round);
        }
        tell(args, &rounds, record);
        Ok(())
    })
}

/// A user's process, between its words.
#[derive(Debug)]
struct User {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl User {
    fn start(crowd: &Path, socket: &Path, number: u32, args: &TurnsArgs) -> anyhow::Result<Self> {
        let id = FIRST_USER + number;
        let mut command = Command::new(crowd);
        command.arg("--socket").arg(socket);
        for (name, value) in [
            ("--jobs", (args.jobs / args.users.max(1)).to_string()),
            ("--connections", args.connections.to_string()),
            ("--seconds", args.window.to_string()),
            ("--seed", number.to_string()),
        ] {
            command.arg(name).arg(value);
        }
        command.uid(id).gid(id).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("failed to start user {id}"))?;
        let out = BufReader::new(child.stdout.take().context("no standard output")?);
        Ok(Self { child, out })
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.out.read_line(&mut line).context("failed to read from a user's process")?;
        ensure!(!line.is_empty(), "a user's process ended before it had asked");
        Ok(line)
    }

    fn go(&mut self) -> anyhow::Result<()> {
        let stdin = self.child.stdin.as_mut().context("no standard input")?;
        Ok(stdin.write_all(b"\n")?)
    }
}

impl Drop for User {
    fn drop(&mut self) {
        // The process is over unless a step failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory that all users can reach, with their program: the build's directory may be private.
fn meeting_place(scratch: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    let program = std::env::current_exe()?.with_file_name("pinfold-crowd");
    ensure!(program.is_file(), "{} is not built", program.display());
    let place = tempfile::Builder::new().prefix("crowd-").tempdir_in(scratch)?.keep();
    for directory in [scratch, &place] {
        fs::set_permissions(directory, Permissions::from_mode(0o755))?;
    }
    let crowd = place.join("pinfold-crowd");
    fs::copy(program, &crowd)?;
    Ok((place, crowd))
}

fn measure(
    args: &TurnsArgs,
    ground: &Ground,
    binaries: &Binaries,
    repetition: usize,
) -> anyhow::Result<Round> {
    let (place, crowd) = meeting_place(ground.bench(0.0).scratch)?;
    let settings = [format!("slots.queue_depth={}", args.jobs.saturating_mul(2))];
    let daemon = Daemon::start(binaries, &place, None, &settings)?;
    daemon.open_to_all()?;
    let mut users = Vec::new();
    for number in 0..args.users {
        users.push(User::start(&crowd, daemon.socket(), number, args)?);
    }
    for user in &mut users {
        user.line()?;
    }
    let mut root = daemon.wire()?;
    users.iter_mut().try_for_each(User::go)?;
    let mut waits_ms = Vec::new();
    let begun = Instant::now();
    while begun.elapsed().as_secs_f64() < args.window && !ground.interrupted() {
        let asked = Instant::now();
        root.where_is_it()?;
        waits_ms.push(asked.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(PAUSE);
    }
    let mut asked: BTreeMap<String, Asked> = BTreeMap::new();
    for user in &mut users {
        let counts: BTreeMap<String, Asked> = serde_json::from_str(&user.line()?)?;
        for (kind, one) in counts {
            let sum = asked.entry(kind).or_default();
            sum.requests += one.requests;
            sum.refused += one.refused;
            sum.slowest_s = sum.slowest_s.max(one.slowest_s);
        }
    }
    let turns = daemon.turns()?;
    drop(users);
    daemon.stop()?;
    Ok(Round { repetition, turns, waits_ms, asked })
}

fn tell(args: &TurnsArgs, rounds: &[Round], record: &mut Record) {
    let (users, connections, jobs) = (args.users, args.users * args.connections, args.jobs);
    record.say(&format!(
        "{connections} connections of {users} users ask for {} s, each as soon as its last request is answered, with {jobs} \
         jobs in the queue. Turns since the daemon's start, the filling of the queue included; milliseconds.\n",
        args.window
    ));
    let ms = |seconds: f64| format!("{:.2}", seconds * 1e3);
    let rows: Vec<Vec<String>> = rounds
        .iter()
        .map(|round| {
            let turns = &round.turns;
            let wait =
                |share| percentile(&round.waits_ms, share).map_or_else(String::new, |ms| format!("{ms:.1}"));
            vec![
                round.repetition.to_string(),
                turns.turns.to_string(),
                ms(turns.p50_s),
                ms(turns.p99_s),
                ms(turns.p999_s),
                ms(turns.max_s),
                turns.max_busy_with.clone(),
                wait(0.5),
                wait(0.99),
                wait(1.0),
            ]
        })
        .collect();
    let head =
        ["round", "turns", "p50", "p99", "p99.9", "longest", "busy with", "root waits p50", "p99", "longest"];
    record.say(&table::markdown(&head, &rows));
    let worst =
        |of: fn(&LoopView) -> f64| rounds.iter().map(|round| of(&round.turns) * 1e3).fold(0.0, f64::max);
    let (p999, max) = (worst(|turns| turns.p999_s), worst(|turns| turns.max_s));
    let word = |met: bool| if met { "met" } else { "missed" };
    record.say(&format!(
        "Target of {} ms for p99.9: {} ({p999:.1}); of {} ms for the longest: {} ({max:.1}).\n",
        TARGETS_MS.0,
        word(p999 <= TARGETS_MS.0),
        TARGETS_MS.1,
        word(max <= TARGETS_MS.1),
    ));
    record.say("What was asked in all rounds:\n");
    let mut kinds: BTreeMap<&str, (u64, u64, Vec<f64>)> = BTreeMap::new();
    for (kind, one) in rounds.iter().flat_map(|round| &round.asked) {
        let sum = kinds.entry(kind).or_default();
        (sum.0, sum.1) = (sum.0 + one.requests, sum.1 + one.refused);
        sum.2.push(one.slowest_s);
    }
    let rows: Vec<Vec<String>> = kinds
        .into_iter()
        .map(|(kind, (requests, refused, slowest))| {
            let slowest = median(&slowest).map_or_else(String::new, |one| ms(one.value));
            vec![kind.to_owned(), requests.to_string(), refused.to_string(), slowest]
        })
        .collect();
    record.say(&table::markdown(&["request", "asked", "refused", "slowest answer, median of rounds"], &rows));
}
