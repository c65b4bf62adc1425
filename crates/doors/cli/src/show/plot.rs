//! `pinfold plot`: pictures of jobs and of the host.

use std::path::{Path, PathBuf};

use clap::Args;
use pinfold_profile::plot;
use pinfold_proto::ExitCode;
use pinfold_proto::quantity::whole;
use pinfold_proto::view::ReportView;
use pinfold_proto::wire::Select;

use super::ask::{each, figures_of, selected};
use crate::again::Again;
use crate::names::JobRef;
use crate::print::{print_text, rows, width};
use crate::readings;
use pinfold_client::{Client, Dial, Failure};

#[derive(Debug, Args)]
pub(crate) struct PlotArgs {
    #[command(flatten)]
    pub which: PlotWhich,
    /// Draw several jobs one after the other instead of together
    #[arg(long, conflicts_with_all = ["class", "output", "host"])]
    pub each: bool,
    /// Also other users' jobs, for operators; with --last, --since or --class
    #[arg(short, long, conflicts_with = "host")]
    pub all: bool,
    /// Write a picture: FILE.svg or FILE.png; without it, draw in characters
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Width and height of the picture
    #[arg(long, value_name = "WxH", default_value = "1000x700")]
    pub size: String,
    #[command(flatten)]
    pub again: Again,
}

#[derive(Debug, Args)]
#[group(id = "drawn", required = true, multiple = true)]
pub(crate) struct PlotWhich {
    /// This job, or two to four jobs beside each other
    #[arg(value_name = "JOB", conflicts_with_all = ["last", "since", "class", "host"])]
    pub jobs: Vec<JobRef>,
    /// The last N jobs
    #[arg(long, value_name = "N", conflicts_with_all = ["since", "host"],
          value_parser = whole::<u32>(1..=u32::MAX))]
    pub last: Option<u32>,
    /// Jobs asked for since then, or the host since then: so long ago (2h), a date (2026-11-21 22:10) or Unix
    /// seconds (@1790000000)
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// How memory, CPU time and run time of all jobs by this name are spread; of all of one's jobs
    /// unless --last or --since says otherwise
    #[arg(long, value_name = "NAME", conflicts_with = "host")]
    pub class: Option<String>,
    /// What the host as a whole did while jobs ran: PUs busy, memory, stalls, temperature and frequency where it tells
    /// them; in the last hour, or from --since to --until
    #[arg(long)]
    pub host: bool,
    /// The host up to then, named as for --since
    #[arg(long, value_name = "WHEN", requires = "host", conflicts_with_all = ["jobs", "last", "class"])]
    pub until: Option<String>,
}

/// The subjects of a picture.
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
    picture_size(&args.size)?;
    args.output.as_deref().map(picture_kind).transpose()?;
    let mut client = dial.connect()?;
    let drawings = if args.which.host {
        let which = &args.which;
        let chart = readings::chart(&mut client, which.since.as_deref(), which.until.as_deref())?;
        vec![Drawing::Over(chart)]
    } else {
        drawings_of_jobs(&mut client, args)?
    };
    show(&drawings, args)
}

/// Draws into a file, or in characters.
pub(crate) fn show(drawings: &[Drawing], args: &PlotArgs) -> Result<(), Failure> {
    let (width_px, height_px) = picture_size(&args.size)?;
    let kind = args.output.as_deref().map(picture_kind).transpose()?;
    if let (Some(file), Some(kind), [drawing]) = (&args.output, kind, drawings) {
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

/// The pictures of jobs by `pinfold plot`.
fn drawings_of_jobs(client: &mut Client, args: &PlotArgs) -> Result<Vec<Drawing>, Failure> {
    let which = &args.which;
    let select = match (&which.jobs[..], which.last, &which.since, &which.class) {
        ([], None, None, Some(_)) => Select::Since(0),
        (jobs, last, since, _) => selected(client, jobs, last, since.as_deref())?,
    };
    let request = figures_of(select, which.class.is_none(), args.all);
    let mut reports = Vec::new();
    each(client, &request, |report| {
        // Only jobs of the class are kept.
        if which.class.as_ref().is_none_or(|class| report.name == *class && report.started_s.is_some()) {
            reports.push(report);
        }
        Ok(())
    })?;
    drawings(reports, which.class.as_deref(), args.each)
}

/// A single picture, unless each job is to have its own.
pub(crate) fn drawings(
    reports: Vec<ReportView>,
    class: Option<&str>,
    each: bool,
) -> Result<Vec<Drawing>, Failure> {
    if let Some(class) = class {
        if reports.is_empty() {
            let hint = "`pinfold report --since @0 --by name` lists the names there are";
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
