//! `pinfold replay`: recordings of the scheduler's events are played again, by the same scheduler.
//!
//! Absent here: playing (the crate `record` does), and recording (the daemon does, where `record.events` says so).

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode as ProcessExit;

use pinfold_profile::report::{Align, Cell, Column, Table, clock_here, counted};
use pinfold_proto::ExitCode;
use pinfold_proto::view::seconds;
use pinfold_record::play::Player;
use pinfold_record::tell::{Came, Differs, JobAt, Said, Until};
use pinfold_record::{RecordError, mask, ring, tell};
use pinfold_sys::files::open_regular;
use serde::Serialize;

use crate::print::{JSON_VERSION, colours, moment, print_json, print_text, width};
use pinfold_client::Failure;

/// Options of `replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "A daemon records when `record.events` names a size (`pinfold config set \
record.events=64MiB`), into events/ of its state directory. Exits with 1 when a step is decided otherwise than it was: \
the recording is then a fault report in one file; --mask makes a copy without names to hand over.")]
pub(crate) struct ReplayArgs {
    /// Recordings, or a directory of them
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Show how jobs stood at that moment, and why: so long ago (2h), a date, or @SECONDS
    #[arg(long, value_name = "TIME", conflicts_with = "until")]
    at: Option<String>,
    /// Stop at the first decision about a job: job=17
    #[arg(long, value_name = "JOB=N", value_parser = job_wanted)]
    until: Option<u64>,
    /// Write a copy without names of projects and sets, and without what failures said
    #[arg(long, value_name = "FILE", conflicts_with_all = ["at", "until", "json"])]
    mask: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn job_wanted(text: &str) -> Result<u64, String> {
    let number = match text.split_once('=') {
        Some((name, number)) if name.eq_ignore_ascii_case("job") => number,
        _ => text,
    };
    number.parse().map_err(|_| "job=NUMBER is expected, as in job=17".to_owned())
}

/// `pinfold admin replay FILE --json`.
#[derive(Debug, Serialize)]
pub(crate) struct ReplayView {
    /// 1.
    pub version: u32,
    /// The version of pinfold that recorded; null: no file was played.
    pub program: Option<String>,
    /// Played files: with `--at` a single file, of that moment.
    pub files: usize,
    /// Played steps, each of a single event.
    pub steps: u64,
    /// Decisions that were made in them.
    pub decisions: u64,
    /// When the first step was, in Unix seconds.
    pub from_s: Option<f64>,
    /// When the last step was that was played, in Unix seconds.
    pub until_s: Option<f64>,
    /// Whether the last file has no proper end: it is being written, or its writer was killed.
    pub cut: bool,
    /// The first step that is decided otherwise than it was; nothing is played after it. Null: there is none.
    pub differs: Option<DiffersView>,
    /// With `--until`: the decisions on the job at the stop.
    pub about: Vec<Said>,
    /// With `--at` and `--until`: the states of jobs at the stop.
    pub jobs: Vec<JobAt>,
}

/// A step that is decided otherwise than it was.
#[derive(Debug, Serialize)]
pub(crate) struct DiffersView {
    /// The file.
    pub file: String,
    /// Its number in the file, from 1.
    pub step: u64,
    /// When it was, in microseconds since the Unix epoch.
    pub time_us: u64,
    /// The event, as the scheduler received it.
    pub event: serde_json::Value,
    /// The recorded decisions.
    pub recorded: Vec<Said>,
    /// The decisions made now.
    pub made: Vec<Said>,
}

impl DiffersView {
    fn new(file: String, differs: Differs) -> Self {
        let Differs { step, time_us, event, recorded, made } = differs;
        let event = serde_json::to_value(&event).unwrap_or_default();
        Self { file, step, time_us, event, recorded, made }
    }
}

/// `pinfold replay`.
pub(crate) fn replay(args: &ReplayArgs) -> Result<ProcessExit, Failure> {
    let files = recordings(&args.files)?;
    if let Some(copy) = &args.mask {
        masked(&files, copy)?;
        return Ok(ProcessExit::SUCCESS);
    }
    let until = match (&args.at, args.until) {
        (Some(when), _) => Until::Time(moment("--at", when)?),
        (None, Some(job)) => Until::Job(job),
        (None, None) => Until::End,
    };
    let files = match until {
        Until::Time(at_us) => vec![of_that_moment(&files, at_us)?],
        _ => files,
    };
    let view = play_all(&files, until)?;
    if let (Until::Job(job), true) = (until, view.about.is_empty() && view.differs.is_none()) {
        let text = format!("nothing was decided about job {job} in what was recorded");
        return Err(Failure::new(ExitCode::Failed, text));
    }
    let same = view.differs.is_none();
    if args.json {
        print_json(&view)?;
    } else {
        print_text(|out| write(&view, until, out))?;
    }
    Ok(if same { ProcessExit::SUCCESS } else { ProcessExit::FAILURE })
}

/// The files that are meant, in order.
fn recordings(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut found = ring::files(path).map_err(|error| Failure::doing(path.display(), &error))?;
        found.retain(|file| !is_begun(file));
        if found.is_empty() {
            let text = format!("{}: there is no recording in it (set record.events)", path.display());
            return Err(Failure::new(ExitCode::Failed, text));
        }
        files.extend(found);
    }
    Ok(files)
}

/// Whether a recording holds nothing yet: its writer has just begun it, or was killed then.
fn is_begun(path: &Path) -> bool {
    let opened = open_regular(path).map(|file| Player::open(BufReader::new(file)));
    matches!(opened, Ok(Err(RecordError::Begun)))
}

fn open(path: &Path) -> Result<Player<BufReader<File>>, Failure> {
    let failed = |error: &dyn std::error::Error| Failure::doing(path.display(), error);
    let file = open_regular(path).map_err(|error| failed(&error))?;
    Player::open(BufReader::new(file)).map_err(|error| failed(&error))
}

/// The last recording that was begun by then.
fn of_that_moment(files: &[PathBuf], at_us: u64) -> Result<PathBuf, Failure> {
    let mut last = None;
    for path in files {
        if open(path)?.head().begun_us <= at_us {
            last = Some(path.clone());
        }
    }
    last.ok_or_else(|| {
        Failure::new(ExitCode::Failed, "the first recording was begun later: nothing is known of that moment")
    })
}

fn play_all(files: &[PathBuf], until: Until) -> Result<ReplayView, Failure> {
    let mut view = ReplayView {
        version: JSON_VERSION,
        program: None,
        files: files.len(),
        steps: 0,
        decisions: 0,
        from_s: None,
        until_s: None,
        cut: false,
        differs: None,
        about: Vec::new(),
        jobs: Vec::new(),
    };
    for path in files {
        let mut player = open(path)?;
        let came = tell::play(&mut player, until).map_err(|error| Failure::doing(path.display(), &error))?;
        view.program = Some(player.head().program.clone());
        view.cut = player.is_cut();
        view.add(path, &came);
        let stopped_us = came.until_us.unwrap_or(player.head().begun_us);
        match until {
            Until::Time(at_us) => view.jobs = tell::jobs(player.policy(), at_us, None),
            Until::Job(job) => view.jobs = tell::jobs(player.policy(), stopped_us, Some(job)),
            Until::End => {}
        }
        if view.differs.is_some() || came.was_found {
            break;
        }
    }
    Ok(view)
}

impl ReplayView {
    fn add(&mut self, path: &Path, came: &Came) {
        self.steps += came.steps;
        self.decisions += came.decisions;
        self.from_s = self.from_s.or(came.from_us.map(seconds));
        self.until_s = came.until_us.map(seconds).or(self.until_s);
        let file = path.display().to_string();
        self.differs = came.differs.clone().map(|differs| DiffersView::new(file, differs));
        self.about.clone_from(&came.about);
    }
}

fn write(view: &ReplayView, until: Until, out: &mut dyn Write) -> io::Result<()> {
    let program = view.program.as_deref().unwrap_or("?");
    let time = |at: Option<f64>| at.map_or_else(|| "-".to_owned(), clock_here);
    if let Some(differs) = &view.differs {
        let file = &differs.file;
        writeln!(out, "{file}: step {} is decided otherwise than it was", differs.step)?;
        writeln!(out, "  at        {}", clock_here(seconds(differs.time_us)))?;
        writeln!(out, "  event     {}", differs.event)?;
        said(out, "recorded", &differs.recorded)?;
        said(out, "made", &differs.made)?;
        if program != env!("CARGO_PKG_VERSION") {
            let this = env!("CARGO_PKG_VERSION");
            writeln!(
                out,
                "  pinfold {program} recorded it, this is {this}: the rule may have changed by intent"
            )?;
        }
        return Ok(());
    }
    writeln!(
        out,
        "{} from {} to {}: {}, each as recorded by pinfold {program}",
        counted(view.steps, "step"),
        time(view.from_s),
        time(view.until_s),
        counted(view.decisions, "decision")
    )?;
    if view.cut {
        writeln!(out, "the last file goes no further: it is being written, or its writer was killed")?;
    }
    said(out, "decided", &view.about)?;
    if until != Until::End && view.jobs.is_empty() {
        writeln!(out, "no job waited or ran then")?;
    } else if until != Until::End {
        jobs(&view.jobs).write(width(), colours(), out)?;
    }
    Ok(())
}

fn said(out: &mut dyn Write, head: &str, decisions: &[Said]) -> io::Result<()> {
    for Said { job, action, text, .. } in decisions {
        writeln!(out, "  {head:<9} job {job}: {action} ({text})")?;
    }
    Ok(())
}

fn jobs(jobs: &[JobAt]) -> Table {
    let columns = [
        Column { head: "JOB", align: Align::Right, leave_out: 0 },
        Column { head: "STATE", align: Align::Left, leave_out: 0 },
        Column { head: "CLASS", align: Align::Left, leave_out: 2 },
        Column { head: "CPUS", align: Align::Left, leave_out: 1 },
        Column { head: "WHY", align: Align::Left, leave_out: 0 },
    ];
    let mut table = Table::new(&columns);
    for job in jobs {
        table.push(vec![
            Cell::new(&job.job.to_string()),
            Cell::new(job.state),
            Cell::new(job.class.unwrap_or("-")),
            Cell::new(job.cpus.as_deref().unwrap_or("-")),
            Cell::new(&job.cause),
        ]);
    }
    table
}

/// Writes a copy of a recording without names, which never replaces another file.
fn masked(files: &[PathBuf], copy: &Path) -> Result<(), Failure> {
    let [path] = files else {
        return Err(Failure::new(ExitCode::Usage, "--mask takes one recording, and these are several"));
    };
    let failed = |path: &Path, error: &dyn std::error::Error| Failure::doing(path.display(), error);
    let open = || open_regular(path).map(BufReader::new).map_err(|error| failed(path, &error));
    let (first, second) = (open()?, open()?);
    let out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(copy);
    let out = out.map_err(|error| failed(copy, &error))?;
    match mask::copy(first, second, out).map_err(|error| failed(path, &error)) {
        Ok(_) => Ok(()),
        Err(failure) => {
            // A partial copy is no recording.
            let _ = std::fs::remove_file(copy);
            Err(failure)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(steps: u64, decisions: u64, want: &str) {
        let view = ReplayView {
            version: 1,
            program: None,
            files: 1,
            steps,
            decisions,
            from_s: None,
            until_s: None,
            cut: false,
            differs: None,
            about: vec![],
            jobs: vec![],
        };
        let mut out = Vec::new();
        write(&view, Until::End, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }

    #[test]
    fn one_is_told_as_one() {
        check(1, 1, "1 step from - to -: 1 decision, each as recorded by pinfold ?\n");
        check(3, 0, "3 steps from - to -: 0 decisions, each as recorded by pinfold ?\n");
    }
}
