//! Row `simulators`: how long `pinfold sim` takes to play a job log, and AccaSim (a simulator of workload managers, in
//! Python), and whether both start each job at the same moment.
//!
//! Each is run as anybody runs it, from the start of its program to its end. Absent: Batsim, which is no package of the
//! usual registries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::json;

use super::{Ground, RowArgs, perform};
use crate::stats::median;
use crate::table::{markdown, with_interval};

const ACCASIM: &str = include_str!("../../peers/accasim_play.py");
/// The rules that both have.
const RULES: [&str; 2] = ["fcfs", "easy"];

/// Options of row `simulators`.
#[derive(Debug, clap::Args)]
pub(crate) struct SimulatorsArgs {
    #[command(flatten)]
    row: RowArgs,
    /// A Python that has AccaSim (`pip install accasim`).
    #[arg(long, value_name = "PYTHON")]
    accasim: PathBuf,
    /// The log, in the Standard Workload Format, compressed by gzip.
    #[arg(long, value_name = "FILE", default_value = "fixtures/swf/KTH-SP2-1996-2-sc15.swf.gz")]
    log: PathBuf,
    /// Processors of the machine.
    #[arg(long, default_value_t = 100)]
    processors: u32,
    /// Jobs of the log, from its first on.
    #[arg(long, default_value_t = 5000)]
    jobs: usize,
}

/// The start of each job by its number, in seconds.
type Starts = BTreeMap<u64, f64>;

pub(crate) fn run(args: &SimulatorsArgs) -> anyhow::Result<()> {
    perform("simulators", &args.row, |ground, record| {
        let binaries = ground.binaries.as_ref().context("pinfold is not built")?;
        let work = ground.bench(0.0).scratch.join("simulators");
        std::fs::create_dir_all(&work).context("failed to make a directory")?;
        let log = first_jobs(&args.log, args.jobs, &work)?;
        let script = work.join("accasim_play.py");
        std::fs::write(&script, ACCASIM).context("failed to write a script")?;
        let mut table = Vec::new();
        for rule in RULES {
            let (mut own_s, mut peer_s, mut same) = (Vec::new(), Vec::new(), (0, 0));
            for _ in 0..args.row.repetitions() {
                let own = || of_pinfold(&binaries.pinfold, &log, args.processors, rule, &work);
                let (wall_s, own) = timed(ground, own)?;
                own_s.push(wall_s);
                let peer = || of_accasim(&args.accasim, &script, &log, args.processors, rule, &work);
                let (wall_s, peer) = timed(ground, peer)?;
                peer_s.push(wall_s);
                same = alike(&own, &peer);
            }
            record.add(
                rule,
                &json!({ "pinfold_s": own_s, "accasim_s": peer_s, "jobs": same.1, "same_start": same.0 }),
            )?;
            let (own, peer) =
                (median(&own_s).context("no repetition")?, median(&peer_s).context("no repetition")?);
            table.push(vec![
                rule.to_owned(),
                same.1.to_string(),
                with_interval(&own, 3),
                with_interval(&peer, 1),
                format!("{:.0}", peer.value / own.value.max(1e-9)),
                same.0.to_string(),
            ]);
        }
        let head = ["rule", "jobs", "pinfold s", "AccaSim s", "times as long", "started at the same moment"];
        record.say(&markdown(&head, &table));
        Ok(())
    })
}

fn timed(ground: &Ground, work: impl FnOnce() -> anyhow::Result<Starts>) -> anyhow::Result<(f64, Starts)> {
    if ground.interrupted() {
        bail!("interrupted");
    }
    let began = Instant::now();
    let starts = work()?;
    Ok((began.elapsed().as_secs_f64(), starts))
}

/// A log of the first jobs of another, with its head.
fn first_jobs(packed: &Path, count: usize, work: &Path) -> anyhow::Result<PathBuf> {
    let whole = work.join("whole.swf");
    crate::inputs::unpack("gzip", packed, &whole)?;
    let text = std::fs::read_to_string(&whole).context("failed to read the log")?;
    let (head, jobs): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.trim_start().starts_with(';'));
    let lines: Vec<&str> = head.into_iter().chain(jobs.into_iter().take(count)).collect();
    let log = work.join("log.swf");
    std::fs::write(&log, lines.join("\n") + "\n").context("failed to write the log")?;
    Ok(log)
}

fn of_pinfold(
    pinfold: &Path,
    log: &Path,
    processors: u32,
    rule: &str,
    work: &Path,
) -> anyhow::Result<Starts> {
    let file = work.join("starts.csv");
    let mut command = Command::new(pinfold);
    command.args(["sim", "--json", "--dispatch", rule, "--runtimes", "requested", "--swf"]).arg(log);
    said(command.args(["--cores", &processors.to_string(), "--starts"]).arg(&file))?;
    let text = std::fs::read_to_string(&file).context("`pinfold sim` wrote no starts")?;
    let start = |line: &str| -> Option<(u64, f64)> {
        let mut fields = line.split(',');
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    Ok(text.lines().filter_map(start).collect())
}

fn of_accasim(
    python: &Path,
    script: &Path,
    log: &Path,
    processors: u32,
    rule: &str,
    work: &Path,
) -> anyhow::Result<Starts> {
    let mut command = Command::new(python);
    command.arg(script).arg(log).args([&processors.to_string(), rule]).arg(work);
    let text = said(&mut command)?;
    let last = text.lines().last().context("AccaSim printed nothing")?;
    let starts: BTreeMap<String, f64> = serde_json::from_str(last).context("AccaSim printed no starts")?;
    starts.into_iter().map(|(job, start)| Ok((job.parse()?, start))).collect()
}

/// What a command prints; fails where it does.
fn said(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("failed to run {command:?}"))?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// How many jobs both start at the same second, and how many jobs both have.
fn alike(one: &Starts, other: &Starts) -> (usize, usize) {
    let both = one.iter().filter_map(|(job, start)| Some((start, other.get(job)?)));
    both.fold((0, 0), |(same, all), (a, b)| (same + usize::from((a - b).abs() < 1.0), all + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_both_have_are_compared() {
        let starts = |all: &[(u64, f64)]| all.iter().copied().collect::<Starts>();
        let one = starts(&[(1, 0.0), (2, 10.0), (3, 20.0), (4, 5.0)]);
        assert_eq!(alike(&one, &starts(&[(1, 0.0), (2, 12.0), (3, 20.4), (9, 5.0)])), (2, 3));
        assert_eq!(alike(&one, &starts(&[])), (0, 0));
    }

    #[test]
    fn a_shorter_log_has_the_head_and_the_first_jobs() {
        let work = tempfile::tempdir().expect("a directory");
        let log = work.path().join("log.swf");
        std::fs::write(&log, "; MaxProcs: 4\n1 0\n; more\n2 5\n3 6\n").expect("a file");
        assert!(Command::new("gzip").arg(&log).status().expect("gzip").success());
        let short = first_jobs(&log.with_extension("swf.gz"), 2, work.path()).expect("a log");
        let text = std::fs::read_to_string(short).expect("text");
        assert_eq!(text, "; MaxProcs: 4\n; more\n1 0\n2 5\n");
    }
}
