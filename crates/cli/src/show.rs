//! What `status`, `why`, `report` and `plot` print: views from the daemon, as JSON or as text.

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use pinfold_profile::{export, plot, report};
use pinfold_proto::quantity::parse_duration;
use pinfold_proto::view::{ReportView, VERSION};
use pinfold_proto::wire::{Reply, Request, Select};
use pinfold_proto::{ExitCode, JobState};

use crate::args::{
    ExportArgs, ExportForm, ExportWhat, GroupBy, PlotArgs, ReportArgs, StatusArgs, Which, WhyArgs,
};
use crate::client::{Client, Dial, unexpected};
use crate::failure::Failure;

/// `pinfold status`.
pub(crate) fn status(dial: &Dial, args: &StatusArgs) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    let view = match client.ask(&Request::Status { jobs: args.jobs.clone(), all: args.all, at_us: None })? {
        Reply::Status(view) => view,
        other => return Err(unexpected(&other)),
    };
    if args.json {
        return print_json(&view);
    }
    print_text(|out| report::write_status(&view, width(), io::stdout().is_terminal(), out))
}

/// `pinfold why`.
pub(crate) fn why(dial: &Dial, args: &WhyArgs) -> Result<(), Failure> {
    let at_us = args.at.as_deref().map(|when| moment("--at", when)).transpose()?;
    let mut client = dial.connect()?;
    let view = match client.ask(&Request::Why { job: args.job, at_us })? {
        Reply::Why(view) => view,
        other => return Err(unexpected(&other)),
    };
    if args.json {
        return print_json(&view);
    }
    print_text(|out| report::write_why(&view, out))
}

/// `pinfold report`.
pub(crate) fn report(dial: &Dial, args: &ReportArgs) -> Result<(), Failure> {
    let select = select(&args.which)?;
    let mut client = dial.connect()?;
    loop {
        let reports = ask(
            &mut client,
            &Request::Report {
                select: select.clone(),
                series: args.series,
                processes: args.processes,
                threads: args.threads,
                files: args.files,
                all: args.all,
            },
        )?;
        if let Some(by) = args.by {
            return summary(&reports, by, args.json);
        }
        if args.csv {
            let sheet = if args.processes { export::processes(&reports) } else { export::jobs(&reports) };
            print_text(|out| sheet.write(export::Form::Csv, out))?;
        } else if args.json {
            for report in &reports {
                print_json(report)?;
            }
        } else {
            print_text(|out| reports.iter().try_for_each(|view| write_one(view, out)))?;
        }
        let over = reports.iter().all(|report| report.state == JobState::Exited);
        match args.every {
            Some(interval) if !over => std::thread::sleep(interval.max(Duration::from_millis(100))),
            _ => return Ok(()),
        }
    }
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
    let mut client = dial.connect()?;
    let wanted = |select, in_full: bool| Request::Report {
        select,
        series: in_full && args.what == ExportWhat::Samples,
        processes: in_full && args.what == ExportWhat::Processes,
        threads: false,
        files: false,
        all: args.all,
    };
    let mut reports = ask(&mut client, &wanted(select(&args.which)?, false))?;
    if args.what != ExportWhat::Jobs {
        // One by one: samples of a thousand jobs in one answer would hold the daemon up, and fill its memory.
        let each = reports.iter().map(|job| ask(&mut client, &wanted(Select::Jobs(vec![job.job]), true)));
        reports = each.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    }
    let sheet = match args.what {
        ExportWhat::Jobs => export::jobs(&reports),
        ExportWhat::Samples => export::samples(&reports),
        ExportWhat::Processes => export::processes(&reports),
    };
    let Some(file) = &args.output else { return print_text(|out| sheet.write(form, out)) };
    let write = || {
        let mut out = BufWriter::new(crate::output::create(file, crate::output::Named::ByUser)?);
        sheet.write(form, &mut out)?;
        out.flush()
    };
    write().map_err(|error: io::Error| Failure::doing(format!("failed to write {}", file.display()), &error))
}

/// How many jobs a class is looked for among.
const CLASS_AMONG: u32 = 1000;

/// What is drawn.
enum Drawing {
    Over(plot::Chart),
    Spread(plot::Spread),
}

impl Drawing {
    fn bytes(&self, kind: Picture, width_px: u32, height_px: u32) -> Result<Vec<u8>, plot::PngError> {
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
    let which = &args.which;
    let select = match (&which.jobs[..], which.last, &which.since, &which.class) {
        ([], None, None, Some(_)) => Select::Last(CLASS_AMONG),
        (jobs, last, since, _) => selected(jobs, last, since.as_deref())?,
    };
    let mut client = dial.connect()?;
    let reports = ask(
        &mut client,
        &Request::Report {
            select,
            series: which.class.is_none(),
            processes: false,
            threads: false,
            files: false,
            all: args.all,
        },
    )?;
    let drawings = drawings(reports, which.class.as_deref(), args.each)?;
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

fn ask(client: &mut Client, request: &Request) -> Result<Vec<ReportView>, Failure> {
    match client.ask(request)? {
        Reply::Report(reports) => Ok(reports),
        other => Err(unexpected(&other)),
    }
}

fn select(which: &Which) -> Result<Select, Failure> {
    selected(&which.jobs, which.last, which.since.as_deref())
}

fn selected(jobs: &[u64], last: Option<u32>, since: Option<&str>) -> Result<Select, Failure> {
    match (last, since) {
        (Some(count), _) => Ok(Select::Last(count)),
        (None, Some(since)) => moment("--since", since).map(Select::Since),
        (None, None) => Ok(Select::Jobs(jobs.to_vec())),
    }
}

/// A moment as people name it, in microseconds since the Unix epoch: so long ago, or Unix seconds after an `@`.
pub(crate) fn moment(option: &str, text: &str) -> Result<u64, Failure> {
    let bad = || {
        Failure::new(
            ExitCode::Usage,
            format!("{option} {text}: a duration (2h) or Unix seconds (@1790000000) is wanted"),
        )
    };
    if let Some(seconds) = text.strip_prefix('@') {
        // Unix seconds with a fraction, as JSON has them, are as good.
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let whole: u64 = whole.parse().map_err(|_| bad())?;
        let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
        let micros: u64 = digits.parse().map_err(|_| bad())?;
        return Ok(whole.saturating_mul(1_000_000).saturating_add(micros));
    }
    let ago = parse_duration(text).map_err(|_| bad())?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ok(u64::try_from(now.saturating_sub(ago).as_micros()).unwrap_or(0))
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
