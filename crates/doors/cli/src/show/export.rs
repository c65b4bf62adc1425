//! `pinfold export`: jobs, samples, processes, threads, files or readings as a table for other programs.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use pinfold_profile::export;
use pinfold_proto::ExitCode;
use pinfold_proto::quantity::whole;
use pinfold_proto::view::ReportView;
use pinfold_proto::wire::{Piece, Request};

use super::ask::selected;
use crate::again::Again;
use crate::names::JobRef;
use crate::output;
use crate::print::is_open;
use crate::readings::{self, Span};
use pinfold_client::{Dial, Failure};

/// Makes a table of jobs.
pub(super) type ToSheet = fn(&[ReportView]) -> export::Sheet;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub which: ExportWhich,
    /// The form [default: that of FILE's ending, else csv]
    #[arg(long, value_enum)]
    pub format: Option<ExportForm>,
    /// What the lines are
    #[arg(long, value_enum, default_value_t = ExportWhat::Jobs, conflicts_with = "host")]
    pub what: ExportWhat,
    /// Also other users' jobs, for operators; with --last or --since
    #[arg(short, long, conflicts_with = "host")]
    pub all: bool,
    /// Write into this file instead of to standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub again: Again,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportForm {
    /// Comma-separated values
    Csv,
    /// A JSON object a line
    Jsonl,
    /// Apache Parquet
    Parquet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportWhat {
    /// A line a job
    Jobs,
    /// A line a sample
    Samples,
    /// A line a process
    Processes,
    /// A line a thread, of jobs that run
    Threads,
    /// A line a file that a job was seen to have open (`profile.files=on`)
    Files,
}

#[derive(Debug, Args)]
#[group(id = "exported", required = true, multiple = true)]
pub(crate) struct ExportWhich {
    /// These jobs
    #[arg(value_name = "JOB", conflicts_with_all = ["last", "since", "host"])]
    pub jobs: Vec<JobRef>,
    /// The last N jobs
    #[arg(long, value_name = "N", conflicts_with_all = ["since", "host"],
          value_parser = whole::<u32>(1..=u32::MAX))]
    pub last: Option<u32>,
    /// Jobs asked for since then, or the host since then: so long ago (2h), a date (2026-11-21 22:10) or Unix
    /// seconds (@1790000000)
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// What the host as a whole did while jobs ran, a line a reading: all that is kept, or from --since to --until
    #[arg(long)]
    pub host: bool,
    /// The host up to then, named as for --since
    #[arg(long, value_name = "WHEN", requires = "host", conflicts_with_all = ["jobs", "last"])]
    pub until: Option<String>,
}

impl ExportArgs {
    /// The form, if its destination can take it.
    pub(crate) fn form(&self) -> Result<export::Form, Failure> {
        let ending = self.output.as_deref().and_then(|file| file.extension()?.to_str());
        let form = match (self.format, ending) {
            (Some(ExportForm::Csv), _) | (None, None | Some("csv")) => export::Form::Csv,
            (Some(ExportForm::Jsonl), _) | (None, Some("jsonl")) => export::Form::JsonLines,
            (Some(ExportForm::Parquet), _) | (None, Some("parquet")) => export::Form::Parquet,
            (None, Some(other)) => {
                let text = format!(
                    "-o: `.{other}` is no form: the file's name ends in .csv, .jsonl or .parquet, or --format says \
                     the form"
                );
                return Err(Failure::new(ExitCode::Usage, text));
            }
        };
        if form == export::Form::Parquet && self.output.is_none() && io::stdout().is_terminal() {
            return Err(Failure::new(ExitCode::Usage, "parquet is not for terminals: name a file by -o"));
        }
        Ok(form)
    }
}

/// `pinfold export`.
pub(crate) fn export(dial: &Dial, args: &ExportArgs) -> Result<(), Failure> {
    let form = args.form()?;
    if args.which.host {
        let span = Span::of(args.which.since.as_deref(), args.which.until.as_deref())?;
        let mut client = dial.connect()?;
        let mut table = Written::new(form, args.output.as_deref())?;
        readings::sheets(&mut client, span, |sheet| table.add(sheet))?;
        return table.end();
    }
    let mut client = dial.connect()?;
    let which = &args.which;
    let request = Request::Report {
        select: selected(&mut client, &which.jobs, which.last, which.since.as_deref())?,
        series: args.what == ExportWhat::Samples,
        processes: args.what == ExportWhat::Processes,
        threads: args.what == ExportWhat::Threads,
        files: args.what == ExportWhat::Files,
        all: args.all,
        pieces: true,
    };
    let sheet: ToSheet = match args.what {
        ExportWhat::Jobs => export::jobs,
        ExportWhat::Samples => export::samples,
        ExportWhat::Processes => export::processes,
        ExportWhat::Threads => export::threads,
        ExportWhat::Files => export::files,
    };
    let mut table = Written::new(form, args.output.as_deref())?;
    table.add(sheet(&[]))?;
    let mut job = 0;
    client.ask_in_pieces(&request, |piece| match piece {
        Piece::Jobs(reports) => {
            job = reports.last().map_or(job, |report| report.job);
            table.add(sheet(&reports))
        }
        Piece::Points(points) => table.add(export::points(job, &points)),
        Piece::Last => Ok(()),
    })?;
    table.end()
}

/// A table on its way to a file, or to standard output.
pub(crate) struct Written<'a> {
    table: export::Table,
    file: Option<&'a Path>,
    /// `None`: the reader has seen enough.
    out: Option<Box<dyn Write>>,
    /// The content of the file once it is complete.
    beside: Option<File>,
    /// The table goes to a terminal: users' names must not control it.
    shown: bool,
}

impl<'a> Written<'a> {
    /// Begins the table; an existing file stays as it is until the end.
    pub(crate) fn new(form: export::Form, file: Option<&'a Path>) -> Result<Self, Failure> {
        let table = export::Table::new(form);
        let Some(path) = file else {
            is_open()?;
            let out: Box<dyn Write> = Box::new(BufWriter::new(io::stdout().lock()));
            return Ok(Self { table, file, out: Some(out), beside: None, shown: io::stdout().is_terminal() });
        };
        let failed = |error: io::Error| not_written(file, &error);
        let beside = output::beside(path).map_err(failed)?;
        let to = match &beside {
            Some(beside) => beside.try_clone(),
            None => output::create(path, output::Named::ByUser),
        };
        let out: Box<dyn Write> = Box::new(BufWriter::new(to.map_err(failed)?));
        Ok(Self { table, file, out: Some(out), beside, shown: false })
    }

    /// Writes the next rows.
    pub(crate) fn add(&mut self, sheet: export::Sheet) -> Result<(), Failure> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let sheet = if self.shown { sheet.plain() } else { sheet };
        let done = self.table.add(sheet, out);
        self.done(done)
    }

    /// Writes the rest, and the end.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        let Some(mut out) = self.out.take() else { return Ok(()) };
        let table = std::mem::replace(&mut self.table, export::Table::new(export::Form::Csv));
        let done = table.end(&mut out).and_then(|()| out.flush());
        let done = done.and_then(|()| match (self.file, self.beside.take()) {
            (Some(file), Some(beside)) => output::write_from(file, beside),
            _ => Ok(()),
        });
        self.done(done)
    }

    /// A reader that has seen enough (`| head`) is success.
    fn done(&mut self, done: io::Result<()>) -> Result<(), Failure> {
        match done {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && self.file.is_none() => {
                self.out = None;
                Ok(())
            }
            other => other.map_err(|error| not_written(self.file, &error)),
        }
    }
}

fn not_written(file: Option<&Path>, error: &io::Error) -> Failure {
    match file {
        Some(file) => Failure::doing(format!("failed to write {}", file.display()), error),
        None => Failure::doing("standard output", error),
    }
}
