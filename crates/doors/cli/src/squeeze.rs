//! `pinfold squeeze`: a command is run under falling memory bounds, to find the least bound under which it runs as
//! well; or a running job's memory is taken until the job misses some.
//!
//! Reading order: [`search`] (which bound is tried next, and the knee), [`trial`] (a run of the command as a job under
//! a bound); [`descent`] (how far a running job is squeezed), [`live`] (readings of it). Absent here: bounds
//! themselves, which the daemon sets, and paging out.

mod descent;
mod live;
mod search;
mod trial;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use pinfold_profile::plot::{Across, Chart, Panel, Series, Style, Unit};
use pinfold_profile::report::{Align, Cell, Column, Table, duration, size};
use pinfold_proto::ExitCode;
use pinfold_proto::quantity::parse_duration;
use pinfold_proto::wire::Request;
use serde::Serialize;

use crate::job::part;
use crate::names::JobRef;
use crate::print::{JSON_VERSION, print_json, print_text, say, width};
use crate::show::{Drawing, Picture, picture_kind};
use pinfold_client::{Dial, Failure};

use search::{Found, Knee, Tried};

/// The size of the picture, in pixels.
const SIZE_PX: (u32, u32) = (1000, 600);

/// Options of `squeeze`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "A command is run ten to twenty times, one after the other, with its output thrown away and nothing \
to read: name one that may be run again, and runs for a second or more. Example: pinfold squeeze -o knee.svg -- sort big.txt\n\n\
Of a running JOB, one in a hundred of what it holds is taken every 6 s, until it stalls for memory for more than 10 ms in \
that time. No bound is left behind. Example: pinfold squeeze 12",
    group(clap::ArgGroup::new("squeezed").required(true).args(["job", "command"])),
    group(clap::ArgGroup::new("of_a_job").multiple(true).args(["every", "most", "keep"]))
)]
pub(crate) struct SqueezeArgs {
    /// The running job
    #[arg(value_name = "JOB")]
    job: Option<JobRef>,
    /// How exact the answer is, as a share of it; of a running job how much a step takes, 0.01 at most
    #[arg(long, value_name = "F", default_value_t = 0.01, value_parser = step)]
    step: f64,
    /// Of a running job: how long it is watched after each step [default: 6s]
    #[arg(long, value_name = "DURATION", value_parser = every, conflicts_with = "command")]
    every: Option<Duration>,
    /// Of a running job: for how long it is squeezed at most
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration, conflicts_with = "command")]
    most: Option<Duration>,
    /// Of a running job: go on to take what it comes to hold beyond the knee, until it is over
    #[arg(long, conflicts_with = "command")]
    keep: bool,
    /// Draw time and stalls over the bound: FILE.svg or FILE.png
    #[arg(short, long, value_name = "FILE", conflicts_with = "job")]
    output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The largest share of a running job's memory that is taken at a time.
const STEP_OF_A_JOB: f64 = 0.01;

fn step(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(step) if (0.001..=0.5).contains(&step) => Ok(step),
        _ => Err("a share from 0.001 to 0.5 is expected, as in 0.01".to_owned()),
    }
}

/// The default pace of a running job's squeeze.
const EVERY: Duration = Duration::from_secs(6);

fn every(text: &str) -> Result<Duration, String> {
    let every = parse_duration(text).map_err(|error| error.to_string())?;
    let within = (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&every);
    if within { Ok(every) } else { Err("a duration from 1s to 1h is expected, as in 6s".to_owned()) }
}

/// The JSON of `squeeze --json`.
#[derive(Debug, Serialize)]
struct View<'a> {
    version: u32,
    /// The command's peak without a bound.
    peak_bytes: u64,
    /// The least bound under which the command ran as well; `null`: none was found.
    knee_bytes: Option<u64>,
    /// Whether a second run at the knee was as good.
    confirmed: bool,
    why: &'a str,
    runs: &'a [Tried],
}

/// `pinfold squeeze`.
pub(crate) fn squeeze(dial: &Dial, args: &SqueezeArgs) -> Result<(), Failure> {
    if let Some(job) = &args.job {
        if args.step > STEP_OF_A_JOB {
            let text =
                format!("--step {}: of a running job at most {STEP_OF_A_JOB} is taken at a time", args.step);
            return Err(Failure::new(ExitCode::Usage, text));
        }
        let every = args.every.unwrap_or(EVERY);
        let pace = live::Pace { step: args.step, every, most: args.most, keep: args.keep };
        return live::squeeze(dial, job, pace, args.json);
    }
    let kind = args.output.as_deref().map(picture_kind).transpose()?;
    if let Some(job) = part::of(dial)? {
        let text =
            format!("this is part of job {job}, whose memory cannot be bounded anew: run it from outside");
        return Err(Failure::new(ExitCode::Refused, text));
    }
    can_bound(dial)?;
    let mut runner = trial::Runner::new(dial, &args.command)?;
    let found = search::search(args.step, |bound, deadline| {
        let tried = runner.run(bound, deadline)?;
        say(&told(&tried));
        Ok(tried)
    })?;
    if let (Some(file), Some(kind)) = (&args.output, kind) {
        draw(file, kind, &found)?;
    }
    if args.json {
        print_json(&View {
            version: JSON_VERSION,
            peak_bytes: found.peak_bytes,
            knee_bytes: found.knee_bytes(),
            confirmed: found.knee == Knee::Confirmed,
            why: &found.why,
            runs: &found.runs,
        })?;
    } else {
        print_text(|out| write(&found, out))?;
    }
    match found.knee_bytes() {
        Some(_) => Ok(()),
        None => Err(Failure::new(ExitCode::Failed, found.why)),
    }
}

/// Fails if no daemon here can bound a job's memory: every run would be unbounded.
fn can_bound(dial: &Dial) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    let view = answer!(client.ask(&Request::Doctor)?, Doctor)?;
    match view.abilities.iter().find(|ability| ability.ability == "limit") {
        Some(limit) if limit.real => Ok(()),
        limit => {
            let how = limit.map_or("the daemon knows of no limits", |limit| &limit.how);
            let change = limit.and_then(|limit| limit.change.as_deref());
            let change = change.map_or(String::new(), |change| format!("; {change}"));
            let text = format!("memory cannot be bounded in mode {}: {how}{change}", view.mode);
            Err(Failure::new(ExitCode::Refused, text))
        }
    }
}

/// A finished run in words.
fn told(run: &Tried) -> String {
    let bound =
        run.limit_bytes.map_or("without a bound".to_owned(), |bytes| format!("within {}", size(bytes)));
    let stalled = run.stalled_s.filter(|&stalled| stalled > 0.0);
    let stalled =
        stalled.map_or(String::new(), |stalled| format!(", stalled for memory {}", duration(stalled)));
    format!("{bound}: {} after {}{stalled}", ended(run), duration(run.wall_s))
}

fn ended(run: &Tried) -> String {
    match (run.exit_code, run.signal) {
        (Some(0), _) => "done".to_owned(),
        (Some(code), _) => format!("exit code {code}"),
        (None, _) if run.was_stopped => "stopped, far too slow".to_owned(),
        (None, Some(9)) => "killed".to_owned(),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "not known how it ended".to_owned(),
    }
}

const fn column(head: &'static str, align: Align) -> Column {
    Column { head, align, leave_out: 0 }
}

fn write(found: &Found, out: &mut dyn io::Write) -> io::Result<()> {
    let mut table = Table::new(&[
        column("BOUND", Align::Right),
        column("RAN", Align::Right),
        column("STALLED", Align::Right),
        column("ENDED", Align::Left),
    ]);
    let mut runs: Vec<&Tried> = found.runs.iter().collect();
    runs.sort_by_key(|run| std::cmp::Reverse(run.limit_bytes.unwrap_or(u64::MAX)));
    for run in runs {
        let mark = if run.is_good { "" } else { " (not as well)" };
        let cells = [
            run.limit_bytes.map_or("none".to_owned(), size),
            duration(run.wall_s),
            run.stalled_s.map_or("-".to_owned(), duration),
            format!("{}{mark}", ended(run)),
        ];
        table.push(cells.map(|text| Cell::new(&text)).into());
    }
    table.write(width(), false, out)?;
    writeln!(out, "\n{}", found.why)
}

/// Time and stalls over the bound, with the peak and the knee.
fn draw(file: &std::path::Path, kind: Picture, found: &Found) -> Result<(), Failure> {
    let doing = |what: &str| format!("failed to {what} {}", file.display());
    let bytes = Drawing::Over(chart(found))
        .bytes(kind, SIZE_PX.0, SIZE_PX.1)
        .map_err(|error| Failure::doing(doing("draw"), &error))?;
    crate::output::write(file, &bytes).map_err(|error| Failure::doing(doing("write"), &error))
}

fn chart(found: &Found) -> Chart {
    let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let mut runs: Vec<&Tried> = found.runs.iter().filter(|run| run.limit_bytes.is_some()).collect();
    runs.sort_by_key(|run| run.limit_bytes);
    let points = |of: &dyn Fn(&Tried) -> Option<f64>| -> Vec<(f64, f64)> {
        runs.iter().filter_map(|run| Some((mebibytes(run.limit_bytes?), of(run)?))).collect()
    };
    let series = |name: &str, of: &dyn Fn(&Tried) -> Option<f64>| Series {
        name: name.to_owned(),
        points: points(of),
        style: Style::Line,
    };
    let panel = |title: &str, series, marks| Panel {
        title: title.to_owned(),
        unit: Unit::from("s"),
        series,
        marks,
        ..Panel::default()
    };
    let well = |run: &Tried| run.exit_code == Some(0);
    let free =
        found.runs.iter().filter(|run| run.limit_bytes.is_none()).map(|run| run.wall_s).fold(0.0, f64::max);
    let mut shaded = Vec::new();
    if let (Some(knee), Some(first)) = (found.knee_bytes(), runs.first().and_then(|run| run.limit_bytes)) {
        shaded.push((mebibytes(first), mebibytes(knee), "below the knee".to_owned()));
    }
    Chart {
        title: found.why.clone(),
        panels: vec![
            panel(
                "time",
                vec![
                    series("done", &|run| well(run).then_some(run.wall_s)),
                    series("failed", &|run| (!well(run)).then_some(run.wall_s)),
                ],
                vec![
                    (free, "without a bound".to_owned()),
                    (found.tolerated_s, "as well up to here".to_owned()),
                ],
            ),
            panel("stalled for memory", vec![series("", &|run| run.stalled_s)], Vec::new()),
        ],
        shaded,
        without: "no run under a bound".to_owned(),
        across: Some(Across { title: "bound".to_owned(), unit: "MiB".to_owned() }),
        ..Chart::default()
    }
}
