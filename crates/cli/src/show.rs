//! What `status`, `why`, `report` and `plot` print: views from the daemon, as JSON or as text.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use pinfold_profile::{export, plot, report};
use pinfold_proto::array::JobName;
use pinfold_proto::quantity::parse_duration;
use pinfold_proto::view::{ReportView, VERSION};
use pinfold_proto::wire::{Member, Members, Piece, Reply, Request, Select};
use pinfold_proto::{ExitCode, JobState};

use crate::args::{
    ExportArgs, ExportForm, ExportWhat, GroupBy, PlotArgs, ReportArgs, StatusArgs, Which, WhyArgs,
};
use crate::client::{Client, Dial, unexpected};
use crate::failure::Failure;
use crate::names;

/// `pinfold status`.
pub(crate) fn status(dial: &Dial, args: &StatusArgs) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    let jobs = names::jobs(&mut client, &args.jobs)?;
    let view = match client.ask(&Request::Status { jobs, all: args.all, at_us: None })? {
        Reply::Status(view) => view,
        other => return Err(unexpected(&other)),
    };
    if args.json {
        return print_json(&view);
    }
    print_text(|out| report::write_status(&view, width(), colours(), out))
}

/// `pinfold why`.
pub(crate) fn why(dial: &Dial, args: &WhyArgs) -> Result<(), Failure> {
    let at_us = args.at.as_deref().map(|when| moment("--at", when)).transpose()?;
    let mut client = dial.connect()?;
    let named = names::members(&mut client, std::slice::from_ref(&args.job))?.pop().unwrap_or_else(|| {
        let jobs = vec![Member { job: args.job.job, index: None, over: false }];
        Members { array: false, jobs }
    });
    let mut views = Vec::new();
    for member in named.jobs {
        match client.ask(&Request::Why { job: member.job, at_us })? {
            Reply::Why(view) => views.push((member, view)),
            other => return Err(unexpected(&other)),
        }
    }
    if views.len() != 1 {
        let why = names::WhyArray::new(args.job.job, views);
        return if args.json { print_json(&why.json()) } else { print_text(|out| why.write(out)) };
    }
    let Some((_, view)) = views.pop() else { return Ok(()) };
    if args.json {
        return print_json(&view);
    }
    print_text(|out| report::write_why(&view, out))
}

/// `pinfold report`.
pub(crate) fn report(dial: &Dial, args: &ReportArgs) -> Result<(), Failure> {
    let sheet = report_sheet(args)?;
    let mut client = dial.connect()?;
    let request = Request::Report {
        select: select(&mut client, &args.which)?,
        series: args.series,
        processes: args.processes,
        threads: args.threads,
        files: args.files,
        all: args.all,
        pieces: true,
    };
    loop {
        let over = report_once(&mut client, &request, args, sheet)?;
        match args.every {
            Some(interval) if !over => std::thread::sleep(interval.max(Duration::from_millis(100))),
            _ => return Ok(()),
        }
    }
}

/// Makes a table of jobs.
type ToSheet = fn(&[ReportView]) -> export::Sheet;

/// What a report as comma-separated values has lines of: one kind, for they have other columns each.
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

/// Prints what there is; says whether all of it is over.
fn report_once(
    client: &mut Client,
    request: &Request,
    args: &ReportArgs,
    sheet: ToSheet,
) -> Result<bool, Failure> {
    let mut over = true;
    let is_over = |report: &ReportView| report.state == JobState::Exited;
    if let Some(by) = args.by {
        let reports = ask(client, request)?;
        summary(&reports, by, args.json)?;
        return Ok(reports.iter().all(is_over));
    }
    if args.csv {
        let mut table = Written::new(export::Form::Csv, None)?;
        table.add(sheet(&[]))?;
        each(client, request, |report| {
            over &= is_over(&report);
            table.add(sheet(&[report]))
        })?;
        table.end()?;
        return Ok(over);
    }
    each(client, request, |report| {
        over &= is_over(&report);
        if args.json { print_json(&report) } else { print_text(|out| write_one(&report, out)) }
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

/// `pinfold export`.
pub(crate) fn export(dial: &Dial, args: &ExportArgs) -> Result<(), Failure> {
    let form = match args.format {
        ExportForm::Csv => export::Form::Csv,
        ExportForm::Jsonl => export::Form::JsonLines,
        ExportForm::Parquet => export::Form::Parquet,
    };
    if form == export::Form::Parquet && args.output.is_none() && io::stdout().is_terminal() {
        return Err(Failure::new(ExitCode::Usage, "parquet is not for terminals: name a file by -o"));
    }
    if args.which.host {
        return crate::readings::export(dial, args, form);
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
    // Only now: a file that is there is not emptied for want of a daemon.
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
    /// `None`: whoever reads has seen enough.
    out: Option<Box<dyn Write>>,
}

impl<'a> Written<'a> {
    /// Begins it; a file that is there is emptied.
    pub(crate) fn new(form: export::Form, file: Option<&'a Path>) -> Result<Self, Failure> {
        let out: Box<dyn Write> = match file {
            None => Box::new(BufWriter::new(io::stdout().lock())),
            Some(path) => {
                let made = crate::output::create(path, crate::output::Named::ByUser);
                Box::new(BufWriter::new(made.map_err(|error| not_written(file, &error))?))
            }
        };
        Ok(Self { table: export::Table::new(form), file, out: Some(out) })
    }

    /// Writes the next rows.
    pub(crate) fn add(&mut self, sheet: export::Sheet) -> Result<(), Failure> {
        let Some(out) = &mut self.out else { return Ok(()) };
        let done = self.table.add(sheet, out);
        self.done(done)
    }

    /// Writes what is left, and the end.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        let Some(mut out) = self.out.take() else { return Ok(()) };
        let table = std::mem::replace(&mut self.table, export::Table::new(export::Form::Csv));
        let done = table.end(&mut out).and_then(|()| out.flush());
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

/// How many jobs a class is looked for among.
const CLASS_AMONG: u32 = 1000;

/// What is drawn.
pub(crate) enum Drawing {
    Over(plot::Chart),
    Spread(plot::Spread),
}

impl Drawing {
    pub(crate) fn bytes(
        &self,
        kind: Picture,
        width_px: u32,
        height_px: u32,
    ) -> Result<Vec<u8>, plot::PngError> {
        match (self, kind) {
            (Self::Over(chart), Picture::Svg) => Ok(chart.to_svg(width_px, height_px).into_bytes()),
            (Self::Over(chart), Picture::Png) => chart.to_png(width_px, height_px),
            (Self::Spread(spread), Picture::Svg) => Ok(spread.to_svg(width_px, height_px).into_bytes()),
            (Self::Spread(spread), Picture::Png) => spread.to_png(width_px, height_px),
        }
    }

    fn text(&self, width: usize, height: usize) -> String {
        match self {
            Self::Over(chart) => chart.to_text(width, height),
            Self::Spread(spread) => spread.to_text(width, height),
        }
    }
}

/// `pinfold plot`.
pub(crate) fn plot(dial: &Dial, args: &PlotArgs) -> Result<(), Failure> {
    let (width_px, height_px) = picture_size(&args.size)?;
    let kind = args.output.as_deref().map(picture_kind).transpose()?;
    let mut client = dial.connect()?;
    let drawings = if args.which.host {
        vec![crate::readings::drawing(&mut client, args)?]
    } else {
        drawings_of_jobs(&mut client, args)?
    };
    if let (Some(file), Some(kind), [drawing]) = (&args.output, kind, &drawings[..]) {
        let bytes = drawing
            .bytes(kind, width_px, height_px)
            .map_err(|error| Failure::doing(format!("failed to draw {}", file.display()), &error))?;
        return crate::output::write(file, &bytes)
            .map_err(|error| Failure::doing(format!("failed to write {}", file.display()), &error));
    }
    let height = rows().clamp(12, 40);
    print_text(|out| {
        drawings.iter().try_for_each(|drawing| out.write_all(drawing.text(width(), height).as_bytes()))
    })
}

/// What `pinfold plot` draws of jobs.
fn drawings_of_jobs(client: &mut Client, args: &PlotArgs) -> Result<Vec<Drawing>, Failure> {
    let which = &args.which;
    let select = match (&which.jobs[..], which.last, &which.since, &which.class) {
        ([], None, None, Some(_)) => Select::Last(CLASS_AMONG),
        (jobs, last, since, _) => selected(client, jobs, last, since.as_deref())?,
    };
    let request = Request::Report {
        select,
        series: which.class.is_none(),
        processes: false,
        threads: false,
        files: false,
        all: args.all,
        pieces: true,
    };
    drawings(ask(client, &request)?, which.class.as_deref(), args.each)
}

/// One picture, unless each job is to have its own.
fn drawings(mut reports: Vec<ReportView>, class: Option<&str>, each: bool) -> Result<Vec<Drawing>, Failure> {
    if let Some(class) = class {
        reports.retain(|report| report.name == class && report.started_s.is_some());
        if reports.is_empty() {
            let hint = "`pinfold report --last 1000 --by name` lists the names there are";
            return Err(Failure::new(
                ExitCode::Failed,
                format!("no job by the name {class} has run; {hint}"),
            ));
        }
        return Ok(vec![Drawing::Spread(plot::spread(class, &reports))]);
    }
    match &reports[..] {
        [] => Err(Failure::new(ExitCode::Failed, "there is no job to draw")),
        [one] => Ok(vec![Drawing::Over(plot::job_chart(one))]),
        _ if each => Ok(reports.iter().map(|report| Drawing::Over(plot::job_chart(report))).collect()),
        some if some.len() <= plot::COMPARED_MAX => Ok(vec![Drawing::Over(plot::comparison(some))]),
        many => Err(Failure::new(
            ExitCode::Usage,
            format!(
                "{} jobs in one picture: up to {} can be told apart; --each draws them one after the other, \
                 --class NAME how the figures of many are spread",
                many.len(),
                plot::COMPARED_MAX
            ),
        )),
    }
}

/// The kinds of pictures there are.
pub(crate) enum Picture {
    Svg,
    Png,
}

/// The kind of picture that a file is named after.
pub(crate) fn picture_kind(file: &Path) -> Result<Picture, Failure> {
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("svg") => Ok(Picture::Svg),
        Some("png") => Ok(Picture::Png),
        _ => Err(Failure::new(
            ExitCode::Usage,
            format!("-o {}: the file's name ends in .svg or .png", file.display()),
        )),
    }
}

fn picture_size(text: &str) -> Result<(u32, u32), Failure> {
    let bad = || {
        Failure::new(
            ExitCode::Usage,
            format!("--size {text}: two numbers from 200 to 10000 are wanted, as in 1000x700"),
        )
    };
    let (width, height) = text.split_once('x').ok_or_else(bad)?;
    let number = |text: &str| text.parse::<u32>().ok().filter(|n| (200..=10_000).contains(n)).ok_or_else(bad);
    Ok((number(width)?, number(height)?))
}

/// A job as text, with what was asked for beside its figures.
fn write_one(view: &ReportView, out: &mut dyn Write) -> io::Result<()> {
    report::write_report(view, out)?;
    report::write_processes(view, width(), out)?;
    report::write_files(view, width(), out)?;
    report::write_threads(view, width(), out)
}

/// Asks for jobs, all of which are wanted at once.
fn ask(client: &mut Client, request: &Request) -> Result<Vec<ReportView>, Failure> {
    let mut reports = Vec::new();
    each(client, request, |report| {
        reports.push(report);
        Ok(())
    })?;
    Ok(reports)
}

/// Asks for jobs, and hands each over once all of it is there.
pub(crate) fn each(
    client: &mut Client,
    request: &Request,
    mut take: impl FnMut(ReportView) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut last: Option<ReportView> = None;
    client.ask_in_pieces(request, |piece| {
        match piece {
            Piece::Jobs(reports) => {
                for report in reports {
                    last.replace(report).map_or(Ok(()), &mut take)?;
                }
            }
            Piece::Points(points) => {
                last.iter_mut().for_each(|report| report.series.get_or_insert_default().extend(&points));
            }
            Piece::Last => {}
        }
        Ok(())
    })?;
    last.map_or(Ok(()), take)
}

fn select(client: &mut Client, which: &Which) -> Result<Select, Failure> {
    selected(client, &which.jobs, which.last, which.since.as_deref())
}

fn selected(
    client: &mut Client,
    jobs: &[JobName],
    last: Option<u32>,
    since: Option<&str>,
) -> Result<Select, Failure> {
    match (last, since) {
        (Some(count), _) => Ok(Select::Last(count)),
        (None, Some(since)) => moment("--since", since).map(Select::Since),
        (None, None) => names::jobs(client, jobs).map(Select::Jobs),
    }
}

/// A moment as people name it, in microseconds since the Unix epoch: so long ago, a date, or Unix seconds after an `@`.
pub(crate) fn moment(option: &str, text: &str) -> Result<u64, Failure> {
    let bad = || {
        Failure::new(
            ExitCode::Usage,
            format!(
                "{option} {text}: a duration (2h), a date (2026-11-21, or 2026-11-21 22:10, UTC) or Unix seconds \
                 (@1790000000) is wanted"
            ),
        )
    };
    if let Some(seconds) = text.strip_prefix('@') {
        // With a fraction, as JSON has them, they are as good.
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let whole: u64 = whole.parse().map_err(|_| bad())?;
        let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
        let micros: u64 = digits.parse().map_err(|_| bad())?;
        return Ok(whole.saturating_mul(1_000_000).saturating_add(micros));
    }
    if let Some(unix_s) = report::parse_date_utc(text) {
        return Ok(unix_s.saturating_mul(1_000_000));
    }
    let ago = parse_duration(text).map_err(|_| bad())?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(u64::try_from(now.saturating_sub(ago).as_micros()).unwrap_or(0))
}

/// Whether standard output shows colours, and wants them.
pub(crate) fn colours() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !refused && !is_dumb()
}

/// Whether the terminal only writes one line below the other.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|name| name == "dumb")
}

/// Columns and lines of the terminal as they are.
pub(crate) fn screen() -> (usize, usize) {
    size().map_or((80, 24), |(columns, rows)| (columns, rows.max(1)))
}

/// Columns of the terminal, or a page's where there is none.
pub(crate) fn width() -> usize {
    size().map_or(100, |(columns, _)| columns.max(40))
}

/// Lines of the terminal.
pub(crate) fn rows() -> usize {
    size().map_or(24, |(_, rows)| rows)
}

fn size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()?;
    (size.ws_col > 0).then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Prints one JSON object on a line.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    print_text(|out| {
        serde_json::to_writer(&mut *out, value)?;
        writeln!(out)
    })
}

/// Prints to standard output. A reader that has seen enough (`| head`) is success.
pub(crate) fn print_text(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match write(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::doing("standard output", &error))
        }
        _ => Ok(()),
    }
}

/// The version that JSON made here carries.
pub(crate) const JSON_VERSION: u32 = VERSION;
