//! Row `cluster`: what pinfold's factor, suspended memory, learned sizes and packing bring on job logs of real
//! clusters, beside a workload manager's plain hosts. A simulation: nothing is run.
//!
//! A log gives times, processors and, where it has them, processor time and memory. Where it has no memory, a class of
//! its jobs (one user's, one program) gets the requests and peaks of a class of other real jobs. Memory is scaled so
//! that the requests of a full host fill its RAM: no variant is better merely because memory was never short.
//!
//! One run says little: slowdown depends on when a few wide jobs come. So each variant runs on several stretches of a
//! log, and is compared with plain hosts on each.
//!
//! Reading order: [`log`] (which jobs are played), [`memory`] (what they ask for and hold), [`variant`] (the hosts and
//! one run), [`runs`] (all stretches), [`search`] (how few hosts suffice), [`tell`] (the table).

mod log;
mod memory;
mod runs;
mod search;
mod tell;
mod variant;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use pinfold_proto::quantity::parse_size;

use super::{Ground, RowArgs, perform};
use crate::record::Record;

use log::Log;
use memory::Table;
use runs::{Played, Runs};
use variant::{Site, Variant};

/// Options of row `cluster`.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Logs in the Standard Workload Format (`.swf`, `.swf.gz`): a file, or a directory of them.
    #[arg(long, value_name = "FILE|DIR", default_value = "fixtures/swf")]
    logs: PathBuf,
    /// Requests and peaks of real jobs, for logs without memory: a table with the columns `class`, `request_bytes`,
    /// `peak_bytes`, `seconds` and, where known, `cpus`; or a directory of tables, also as `nf-timeseries` has them.
    #[arg(long, value_name = "FILE|DIR", default_value = "fixtures/memory")]
    memory: PathBuf,
    /// Jobs of each stretch of a log. A log is cut into such, and `--repetitions` of them are played.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    jobs: usize,
    /// Work submitted, of what all cores can do: the stretches that are nearest to it are played.
    #[arg(long, default_value_t = 0.9)]
    load: f64,
    /// Cores of each host.
    #[arg(long, default_value_t = 16)]
    cores: u32,
    /// RAM of each host for each of its cores; the log's memory is scaled to it.
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = parse_size)]
    ram_per_core: u64,
    /// What a host's swap is written and read with in a second.
    #[arg(long, value_name = "SIZE", default_value = "500MiB", value_parser = parse_size)]
    swap_rate: u64,
    /// Which class of the log gets the memory of which class of real jobs; the next stretch has the next seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl ClusterArgs {
    /// How many stretches of a log are played.
    fn stretches(&self) -> usize {
        self.row.repetitions()
    }

    fn check(&self) -> anyhow::Result<()> {
        if self.jobs == 0 || self.stretches() == 0 {
            bail!("--jobs 0, --repetitions 0: there is no job to play");
        }
        if !(1..=1024).contains(&self.cores) {
            bail!("--cores {}: a host has 1 to 1024 cores", self.cores);
        }
        if !(self.load.is_finite() && self.load > 0.0) {
            bail!("--load {}: it is a number above 0", self.load);
        }
        if self.ram_per_core < 1 << 20 {
            bail!("--ram-per-core: a host has 1 MiB or more for each core");
        }
        Ok(())
    }
}

pub(crate) fn run(args: &ClusterArgs) -> anyhow::Result<()> {
    args.check()?;
    perform("cluster", &args.row, |ground, record| {
        let table = Table::read(&args.memory)?;
        let files = files(&args.logs, &[".swf", ".swf.gz"])?;
        if files.is_empty() {
            bail!("{} has no log (.swf, .swf.gz)", args.logs.display());
        }
        tell::preface(args, &table, record);
        for file in files {
            if ground.interrupted() {
                return Ok(());
            }
            one(args, &file, &table, ground, record).with_context(|| file.display().to_string())?;
        }
        Ok(())
    })
}

fn one(
    args: &ClusterArgs,
    file: &Path,
    table: &Table,
    ground: &Ground,
    record: &mut Record,
) -> anyhow::Result<()> {
    let log = Log::read(file, args, table)?;
    let site = Site::new(args.cores, args.ram_per_core, args.swap_rate);
    let all = log.processors.div_ceil(args.cores).max(1);
    let mut played: Vec<Played<'_>> = Vec::new();
    for stretch in &log.stretches {
        if ground.interrupted() {
            return Ok(());
        }
        played.push(Played::new(&site, all, stretch).context("some job fits on no host")?);
    }
    tell::log(&log, all, &played, record)?;
    let mut rows = Vec::new();
    for variant in Variant::all() {
        let play = |hosts: u32| Runs::play(&site, &variant, hosts, &played, &|| ground.interrupted());
        let runs = play(all);
        let good = |hosts: u32| play(hosts).is_some_and(|runs| runs.are_as_good_as_plain(&played));
        let least = search::fewest(all, good);
        if ground.interrupted() {
            return Ok(());
        }
        rows.push(tell::row(&log, &variant, (runs.as_ref(), &played), (least, all), record)?);
    }
    tell::table(&rows, record);
    Ok(())
}

/// The files with such endings: the one that is named, or those of a directory, by name.
fn files(path: &Path, endings: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return match path.try_exists() {
            Ok(true) => Ok(vec![path.to_owned()]),
            Ok(false) => bail!("there is no {}", path.display()),
            Err(error) => Err(error).with_context(|| format!("failed to look for {}", path.display())),
        };
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("failed to list {}", path.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.with_context(|| format!("failed to list {}", path.display()))?.path();
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if endings.iter().any(|ending| name.ends_with(ending)) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// A file's text, packed by gzip or not.
fn text(path: &Path) -> anyhow::Result<String> {
    use std::io::Read as _;
    let failed = || format!("failed to read {}", path.display());
    let mut file = std::io::BufReader::new(std::fs::File::open(path).with_context(failed)?);
    let mut text = String::new();
    if path.extension().is_some_and(|ending| ending == "gz") {
        flate2::read::MultiGzDecoder::new(file).read_to_string(&mut text).with_context(failed)?;
    } else {
        file.read_to_string(&mut text).with_context(failed)?;
    }
    Ok(text)
}
