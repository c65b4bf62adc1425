//! Row `store`: bytes that a sample takes before and after packing, and how long reports take over a million of them.
//!
//! The samples are made up, for a million seconds are not to be waited for; three kinds of jobs that differ in how much
//! of a sample is new. They are written by pinfold's own store, and read by its daemon and its commands.

use std::path::Path;
use std::process::Stdio;
use std::time::{Instant, SystemTime};

use anyhow::{Context, bail, ensure};
use clap::Args;
use pinfold_profile::store::Store;
use pinfold_proto::row::{JobRow, SampleRow, Stalls, Usage};
use pinfold_proto::{JobSpec, JobState};
use serde_json::json;

use super::{Ground, RowArgs, perform};
use crate::compare::done;
use crate::daemon::Daemon;
use crate::dice::Dice;
use crate::record::Record;
use crate::stats::median;
use crate::table;

/// A job that was over for so long is packed; one that was over only just now is not.
const HOUR_US: u64 = 3_600_000_000;

/// Options of row `store`.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Samples in all.
    #[arg(long, default_value_t = 1_000_000)]
    samples: u64,
    /// Jobs that they are of.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    jobs: u64,
}

/// What the samples of a job are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Every counter moves, none of them evenly.
    Busy,
    /// It computes at an even pace and holds what it holds.
    Steady,
    /// It waits.
    Idle,
    /// A third of each.
    Mixed,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Busy, Self::Steady, Self::Idle, Self::Mixed];

    fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Steady => "steady",
            Self::Idle => "idle",
            Self::Mixed => "a third of each",
        }
    }

    /// The kind of one job of them.
    fn of(self, job: u64) -> Self {
        match self {
            Self::Mixed => [Self::Busy, Self::Steady, Self::Idle][usize::try_from(job % 3).unwrap_or(0)],
            one => one,
        }
    }
}

/// Samples of a job, a second apart as a daemon takes them: a millisecond late at most.
fn series(job: u64, kind: Kind, begin_us: u64, count: u64) -> Vec<SampleRow> {
    let mut dice = Dice(job);
    let mut row = SampleRow {
        job,
        time_us: begin_us,
        state: JobState::Running,
        cpu_user_us: 0,
        cpu_system_us: 0,
        memory_bytes: 64 << 20,
        cache_bytes: Some(16 << 20),
        swap_bytes: 0,
        virtual_bytes: 512 << 20,
        io_read_bytes: 0,
        io_write_bytes: 0,
        processes: 4,
        threads: 8,
        stalls: Some(Stalls { cpu_us: 0, memory_us: 0, memory_full_us: 0, io_us: 0, io_full_us: 0 }),
    };
    let mut stalls = row.stalls.expect("set above");
    (0..count)
        .map(|number| {
            row.time_us = begin_us + number * 1_000_000 + dice.below(1_000);
            match kind {
                Kind::Busy | Kind::Mixed => {
                    row.cpu_user_us += 700_000 + dice.below(250_000);
                    row.cpu_system_us += dice.below(40_000);
                    row.memory_bytes += dice.below(1_024) * 4096;
                    row.memory_bytes -= dice.below(1_024).min(row.memory_bytes / 4096) * 4096;
                    row.cache_bytes = row.cache_bytes.map(|bytes| bytes + dice.below(64) * 4096);
                    row.virtual_bytes += if dice.below(10) == 0 { dice.below(256) * 4096 } else { 0 };
                    row.io_read_bytes += if dice.below(4) == 0 { dice.below(512) * 4096 } else { 0 };
                    row.io_write_bytes += if dice.below(8) == 0 { dice.below(512) * 4096 } else { 0 };
                    stalls.cpu_us += dice.below(20_000);
                    stalls.io_us += if dice.below(4) == 0 { dice.below(5_000) } else { 0 };
                    stalls.io_full_us = stalls.io_us / 2;
                }
                Kind::Steady => {
                    row.cpu_user_us += 999_000 + dice.below(2_000);
                    row.cpu_system_us += dice.below(200);
                    stalls.cpu_us += dice.below(300);
                }
                Kind::Idle => {}
            }
            row.stalls = Some(stalls);
            row
        })
        .collect()
}

fn job_row(job: u64, begin_us: u64, count: u64) -> JobRow {
    let spec = JobSpec {
        name: format!("made-{job}"),
        command: vec!["made".to_owned(), "up".to_owned()],
        directory: "/".to_owned(),
        cores: 1,
        ..JobSpec::default()
    };
    let uid = rustix::process::getuid().as_raw();
    let row = JobRow::asked_for(job, uid, "bench".to_owned(), spec, begin_us);
    let usage = Usage { samples: count, memory_peak_bytes: 1 << 30, ..Usage::default() };
    JobRow { usage, ..row.ran_until(begin_us + count * 1_000_000) }
}

/// A store in `directory` with the samples of `jobs` jobs that ended `ago_us` before `now_us`; bytes that it takes
/// beyond an empty one.
fn fill(
    directory: &Path,
    kind: Kind,
    (jobs, each): (u64, u64),
    (now_us, ago_us): (u64, u64),
) -> anyhow::Result<(Store, u64)> {
    let mut store = Store::open(directory).context("failed to make a store")?.store;
    let empty = store.used_bytes()?;
    let begin_us = now_us.saturating_sub(ago_us + each * 1_000_000);
    for job in 1..=jobs {
        store.begin()?;
        // One after the other, so that packing, which goes by the end, has an order.
        let begin_us = begin_us - job;
        store.insert_job(&job_row(job, begin_us, each))?;
        for sample in series(job, kind.of(job), begin_us, each) {
            store.add_sample(&sample)?;
        }
        store.commit()?;
    }
    let used = store.used_bytes()?.saturating_sub(empty);
    Ok((store, used))
}

/// Packs what is to be packed; how long it took in all, and in the longest step, seconds.
fn pack(store: &mut Store, now_us: u64) -> anyhow::Result<(f64, f64)> {
    let (mut whole_s, mut longest_s) = (0.0, 0.0_f64);
    loop {
        let begun = Instant::now();
        let more = store.compact(now_us)?.more;
        let passed_s = begun.elapsed().as_secs_f64();
        (whole_s, longest_s) = (whole_s + passed_s, longest_s.max(passed_s));
        if !more {
            return Ok((whole_s, longest_s));
        }
    }
}

/// Runs the row.
pub(crate) fn run(args: &StoreArgs) -> anyhow::Result<()> {
    perform("store", &args.row, |ground, record| {
        let each = (args.samples / args.jobs).max(1);
        let now_us =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).context("a clock before 1970")?;
        let now_us = u64::try_from(now_us.as_micros()).context("a clock far from now")?;
        sizes(ground, record, (args.jobs, each), now_us)?;
        if ground.binaries.is_none() {
            record.say("Reports are left out: pinfold is not built.");
            return Ok(());
        }
        let mut rows = Vec::new();
        for (form, ago_us) in [("rows", 0), ("packed", HOUR_US)] {
            rows.extend(reports(ground, record, args, (form, now_us, ago_us))?);
        }
        record.say(&format!(
            "\nReports over {} samples of {} jobs, by commands and daemon, {} repetitions, seconds:\n",
            args.jobs * each,
            args.jobs,
            args.row.repetitions()
        ));
        record.say(&table::markdown(&["report", "s"], &rows));
        Ok(())
    })
}

fn sizes(ground: &Ground, record: &mut Record, (jobs, each): (u64, u64), now_us: u64) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for kind in Kind::ALL {
        // A tenth of the samples says as much about their size.
        let jobs = (jobs / 10).max(3);
        let own = tempfile::Builder::new().prefix("store-").tempdir_in(ground.bench(0.0).scratch)?;
        let begun = Instant::now();
        let (mut store, loose) = fill(own.path(), kind, (jobs, each), (now_us, HOUR_US))?;
        let written_s = begun.elapsed().as_secs_f64();
        let empty = store.used_bytes()? - loose;
        let (packed_s, step_s) = pack(&mut store, now_us)?;
        let packed = store.used_bytes()?.saturating_sub(empty);
        let kept: usize =
            (1..=jobs).map(|job| store.samples(job).map(|rows| rows.len())).sum::<Result<_, _>>()?;
        ensure!(kept as u64 == jobs * each, "{kept} of {} samples are there after packing", jobs * each);
        let count = (jobs * each) as f64;
        done(&format!("store {}: {:.1} bytes a sample", kind.name(), packed as f64 / count));
        record.add(
            "size",
            &json!({ "kind": kind.name(), "samples": jobs * each, "loose_bytes": loose, "packed_bytes": packed,
                     "write_s": written_s, "pack_s": packed_s, "longest_step_s": step_s }),
        )?;
        rows.push(vec![
            kind.name().to_owned(),
            format!("{:.1}", loose as f64 / count),
            format!("{:.2}", packed as f64 / count),
            format!("{:.1}", 1e6 * written_s / count),
            format!("{:.2}", 1e6 * packed_s / count),
            format!("{:.1}", 1e3 * step_s),
        ]);
    }
    record.say(
        "Bytes of the store beyond an empty one, with the jobs' rows and indexes, for each sample of 17 figures; \
         microseconds to write and to pack one; the longest step of packing, for which the daemon's loop stands still:\n",
    );
    record.say(&table::markdown(
        &["samples", "bytes, rows", "bytes, packed", "us to write", "us to pack", "longest step, ms"],
        &rows,
    ));
    Ok(())
}

/// Rows of the table of reports.
fn reports(
    ground: &Ground,
    record: &mut Record,
    args: &StoreArgs,
    (form, now_us, ago_us): (&str, u64, u64),
) -> anyhow::Result<Vec<Vec<String>>> {
    let each = (args.samples / args.jobs).max(1);
    let binaries = ground.binaries.as_ref().context("pinfold is not built")?;
    let own = tempfile::Builder::new().prefix("store-").tempdir_in(ground.bench(0.0).scratch)?;
    let state = own.path().join("filled");
    std::fs::create_dir(&state).context("failed to make a state directory")?;
    let (mut store, _) = fill(&state, Kind::Mixed, (args.jobs, each), (now_us, ago_us))?;
    pack(&mut store, now_us)?;
    drop(store);
    let daemon = Daemon::start(binaries, own.path(), Some(&state), &[])?;
    let last = args.jobs.to_string();
    let questions: [(&str, Vec<&str>, u64); 4] = [
        ("one job", vec!["report", "--json", "1"], 1),
        ("one job with its series", vec!["report", "--json", "--series", "1"], 1),
        ("all jobs", vec!["report", "--json", "--last", &last], args.jobs),
        ("all samples as CSV", vec!["export", "--what", "samples", "--last", &last], args.jobs * each + 1),
    ];
    let mut rows = Vec::new();
    for (name, question, lines) in questions {
        let mut times = Vec::new();
        for _ in 0..args.row.repetitions() {
            times.push(ask(&daemon, &question, lines)?);
            if ground.interrupted() {
                bail!("interrupted");
            }
        }
        record.add("report", &json!({ "form": form, "question": question, "times_s": times }))?;
        let cell = median(&times).map_or_else(String::new, |median| table::with_interval(&median, 3));
        done(&format!("store {form}, {name}: {cell} s"));
        rows.push(vec![format!("{form}: {name}"), cell]);
    }
    daemon.stop()?;
    Ok(rows)
}

/// Seconds that a command takes; it must say so many lines.
fn ask(daemon: &Daemon, question: &[&str], lines: u64) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let output =
        daemon.command().args(question).stdin(Stdio::null()).output().context("failed to run pinfold")?;
    let passed_s = begun.elapsed().as_secs_f64();
    ensure!(output.status.success(), "{question:?}: {}", String::from_utf8_lossy(&output.stderr));
    let said = output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64;
    ensure!(said == lines, "{question:?} said {said} lines, not {lines}");
    Ok(passed_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_the_same_each_time_and_of_their_kind() {
        let busy = series(7, Kind::Busy, 1_000, 50);
        assert_eq!(busy, series(7, Kind::Busy, 1_000, 50));
        assert!(busy.windows(2).all(|pair| pair[0].cpu_user_us < pair[1].cpu_user_us));
        assert!(busy.windows(2).all(|pair| pair[0].time_us < pair[1].time_us));
        let idle = series(7, Kind::Idle, 1_000, 50);
        assert!(
            idle.iter()
                .all(|sample| SampleRow { time_us: 0, ..*sample } == SampleRow { time_us: 0, ..idle[0] })
        );
        assert_eq!([1, 2, 3].map(|job| Kind::Mixed.of(job)), [Kind::Steady, Kind::Idle, Kind::Busy]);
    }

    #[test]
    fn packing_makes_a_store_smaller_and_loses_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let now_us = 10 * HOUR_US;
        let (mut store, loose) = fill(directory.path(), Kind::Mixed, (6, 400), (now_us, HOUR_US)).unwrap();
        let empty = store.used_bytes().unwrap() - loose;
        pack(&mut store, now_us).unwrap();
        let packed = store.used_bytes().unwrap() - empty;
        assert!(packed < loose / 2, "{packed} of {loose}");
        for job in 1..=6 {
            let begin_us = now_us - HOUR_US - 400 * 1_000_000 - job;
            assert_eq!(store.samples(job).unwrap(), series(job, Kind::Mixed.of(job), begin_us, 400));
        }
    }
}
