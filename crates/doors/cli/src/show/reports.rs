//! `pinfold report`: the use of resources by jobs.

use std::io::{self, Write};
use std::time::Duration;

use clap::{Args, ValueEnum};
use pinfold_profile::{export, report};
use pinfold_proto::quantity::whole;
use pinfold_proto::view::ReportView;
use pinfold_proto::wire::{Request, Select};
use pinfold_proto::{ExitCode, JobState};
use pinfold_sys::peer;

use super::ask::{ask, each, selected};
use super::filter::Filter;
use super::{ToSheet, Written};
use crate::again::{interval, may_look, until_next_here};
use crate::names::JobRef;
use crate::print::{print_json, print_text, say, width};
use pinfold_client::{Client, Dial, Failure, outputs::Outputs};

/// The number of jobs shown by default.
const LAST: u32 = 20;

/// `--failed` looks for failures among this many of the user's last jobs: as many as a report covers.
pub(crate) const LOOKED_AT: u32 = 1000;

#[derive(Debug, Args)]
#[group(id = "which", multiple = false)]
pub(crate) struct Which {
    /// These jobs [default: the last 20 of yours, a line each]
    #[arg(value_name = "JOB", group = "which")]
    pub jobs: Vec<JobRef>,
    /// The last N jobs
    #[arg(long, value_name = "N", group = "which", value_parser = whole::<u32>(1..=u32::MAX))]
    pub last: Option<u32>,
    /// Jobs asked for since then: so long ago (2h), a date (2026-11-21 22:10) or Unix seconds (@1790000000)
    #[arg(long, value_name = "WHEN", group = "which")]
    pub since: Option<String>,
}

impl Which {
    fn select(&self, client: &mut Client) -> Result<Select, Failure> {
        selected(client, &self.jobs, self.last_of(), self.since.as_deref())
    }

    /// How many of the last jobs are meant: a default without options.
    pub(crate) fn last_of(&self) -> Option<u32> {
        self.last.or(self.is_unsaid().then_some(LAST))
    }

    /// Whether no option selects jobs.
    fn is_unsaid(&self) -> bool {
        self.jobs.is_empty() && self.last.is_none() && self.since.is_none()
    }

    /// Prints why no job is shown, and where others may be.
    pub(crate) fn say_none(&self, words: &str) {
        let further = if self.is_unsaid() { "; --last N and --since WHEN look further back" } else { "" };
        say(&format!("{words}{further}"));
    }
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub which: Which,
    /// With every sample
    #[arg(long)]
    pub series: bool,
    /// With the processes of each job: by command, and the largest one by one
    #[arg(long)]
    pub processes: bool,
    /// With the threads of each job that runs
    #[arg(long)]
    pub threads: bool,
    /// With the files that each job was seen to have open (`profile.files=on`)
    #[arg(long)]
    pub files: bool,
    /// Put the jobs together, with how each figure is spread
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with_all = ["series", "processes", "threads", "files"])]
    pub by: Option<GroupBy>,
    #[command(flatten)]
    pub filter: Filter,
    /// All figures of each job, not one line; so it is for a single job, and with what is listed beside it
    #[arg(long, conflicts_with_all = ["json", "csv", "by", "columns"])]
    pub full: bool,
    /// Also other users' jobs, for operators; with --last or --since
    #[arg(short, long)]
    pub all: bool,
    /// Print comma-separated values: a line a job, or with one of --series, --processes, --threads and --files a line each
    /// of these
    #[arg(long, conflicts_with_all = ["json", "by"])]
    pub csv: bool,
    /// Report again and again at this interval, until the jobs are over
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    pub every: Option<Duration>,
    /// Print one JSON object a job
    #[arg(long)]
    pub json: bool,
}

impl ReportArgs {
    /// Whether jobs are picked or shown a line each: many, and nothing listed beside them.
    pub(crate) fn shows_lines(&self) -> bool {
        let single = self.which.jobs.len() == 1;
        self.picks() || !(self.json || self.full || single || self.has_lists())
    }

    /// Whether something is listed of each job.
    fn has_lists(&self) -> bool {
        self.series || self.processes || self.threads || self.files
    }

    /// Whether some jobs are picked out of the daemon's answer.
    fn picks(&self) -> bool {
        let Filter { user, name, state, failed, project, limit, sort, columns } = &self.filter;
        [user, name, project, sort].iter().any(|text| text.is_some())
            || *failed
            || limit.is_some()
            || !(state.is_empty() && columns.is_empty())
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum GroupBy {
    /// Jobs of one name
    Name,
    /// Jobs of one user
    User,
    /// Jobs of one project
    Project,
    /// Primaries, backfillers, exclusive jobs
    Class,
    /// Jobs asked for on one day
    Day,
}

/// `pinfold report`.
pub(crate) fn report(dial: &Dial, args: &ReportArgs) -> Result<(), Failure> {
    let sheet = report_sheet(args)?;
    may_look(args.every)?;
    if !(args.all || args.json || args.csv) && args.which.jobs.is_empty() && peer::own_uid() == 0 {
        say("only root's own jobs; --all shows the jobs of all users");
    }
    let mut client = dial.connect()?;
    let request = Request::Report {
        // The last few jobs may include no failed job.
        select: match args.which.is_unsaid() && args.filter.failed {
            true => Select::Last(LOOKED_AT),
            false => args.which.select(&mut client)?,
        },
        series: args.series,
        processes: args.processes,
        threads: args.threads,
        files: args.files,
        all: args.all,
        pieces: true,
    };
    loop {
        let outputs = Outputs::of(dial.socket());
        let over = report_once(&mut client, &request, args, sheet, &outputs)?;
        match args.every {
            Some(interval) if !over && until_next_here(interval)? => {}
            _ => return Ok(()),
        }
    }
}

/// The kind of lines of a report as comma-separated values: a single kind, for each kind has other columns.
fn report_sheet(args: &ReportArgs) -> Result<ToSheet, Failure> {
    let kinds: [(bool, ToSheet); 4] = [
        (args.series, export::samples),
        (args.processes, export::processes),
        (args.threads, export::threads),
        (args.files, export::files),
    ];
    let mut asked = kinds.into_iter().filter(|(asked, _)| *asked).map(|(_, sheet)| sheet);
    let first = asked.next().unwrap_or(export::jobs);
    if args.csv && asked.next().is_some() {
        let text = "--csv is one table: of --series, --processes, --threads and --files it takes one";
        return Err(Failure::new(ExitCode::Usage, text));
    }
    Ok(first)
}

/// Prints the jobs; says whether all of them are over.
fn report_once(
    client: &mut Client,
    request: &Request,
    args: &ReportArgs,
    sheet: ToSheet,
    outputs: &Outputs,
) -> Result<bool, Failure> {
    let mut over = true;
    let is_over = |report: &ReportView| report.state == JobState::Exited;
    if let Some(by) = args.by {
        let reports = args.filter.apply(ask(client, request)?)?;
        summary(&reports, by, args.json)?;
        return Ok(reports.iter().all(is_over));
    }
    if args.csv {
        let mut table = Written::new(export::Form::Csv, None)?;
        table.add(sheet(&[]))?;
        let mut add = |report| {
            over &= is_over(&report);
            table.add(sheet(&[report]))
        };
        if args.picks() {
            args.filter.apply(ask(client, request)?)?.into_iter().try_for_each(add)?;
        } else {
            each(client, request, &mut add)?;
        }
        table.end()?;
        return Ok(over);
    }
    if args.shows_lines() {
        let mut reports = ask(client, request)?;
        reports.iter_mut().for_each(|report| outputs.tell_report(report));
        let looked_at = reports.len();
        let reports = args.filter.apply(reports)?;
        if let Some(words) = args.filter.none_of(looked_at).filter(|_| reports.is_empty()) {
            args.which.say_none(&words);
        }
        over = reports.iter().all(is_over);
        if args.json {
            reports.iter().try_for_each(print_json)?;
        } else if args.full || args.has_lists() {
            reports.into_iter().try_for_each(|report| print_text(|out| write_one(report, out)))?;
        } else if args.filter.columns.is_empty() {
            print_text(|out| report::write_lines(&reports, width(), out))?;
        } else {
            let table = args.filter.table(&reports)?;
            print_text(|out| out.write_all(table.as_bytes()))?;
        }
        return Ok(over);
    }
    pages(client, request, args, outputs)
}

/// Prints a page or an object of each job, and a line of each if a name means many.
fn pages(
    client: &mut Client,
    request: &Request,
    args: &ReportArgs,
    outputs: &Outputs,
) -> Result<bool, Failure> {
    let mut over = true;
    let is_over = |report: &ReportView| report.state == JobState::Exited;
    if !(args.json || args.full || args.has_lists()) {
        // A name may mean many jobs: an array.
        let mut reports = ask(client, request)?;
        reports.iter_mut().for_each(|report| outputs.tell_report(report));
        let over = reports.iter().all(is_over);
        print_text(|out| match reports.len() {
            0 | 1 => reports.into_iter().try_for_each(|report| write_one(report, out)),
            _ => report::write_lines(&reports, width(), out),
        })?;
        return Ok(over);
    }
    each(client, request, |mut report| {
        over &= is_over(&report);
        outputs.tell_report(&mut report);
        if args.json { print_json(&report) } else { print_text(|out| write_one(report, out)) }
    })?;
    Ok(over)
}

fn summary(reports: &[ReportView], by: GroupBy, json: bool) -> Result<(), Failure> {
    let view = report::summary(
        reports,
        match by {
            GroupBy::Name => report::By::Name,
            GroupBy::User => report::By::User,
            GroupBy::Project => report::By::Project,
            GroupBy::Class => report::By::Class,
            GroupBy::Day => report::By::Day,
        },
    );
    if json { print_json(&view) } else { print_text(|out| report::write_summary(&view, width(), out)) }
}

/// A job as text, with its request beside its figures, and the place of its output.
fn write_one(mut view: ReportView, out: &mut dyn Write) -> io::Result<()> {
    let note = match (&view.output, &view.error_output) {
        (Some(output), Some(errors)) if output == errors => Some(format!("its output is in {output}")),
        (Some(output), Some(errors)) => Some(format!("its output is in {output}, its errors in {errors}")),
        _ => None,
    };
    view.notes.extend(note);
    report::write_report(&view, out)?;
    report::write_processes(&view, width(), out)?;
    report::write_files(&view, width(), out)?;
    report::write_threads(&view, width(), out)
}
