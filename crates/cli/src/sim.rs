//! `pinfold sim`: a log of jobs played on a machine by a workload manager's rule, and what came of it.
//!
//! Several runs stand beside each other (`--compare`). Absent: the rules and the figures ([`pinfold_cluster`]).

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use flate2::bufread::MultiGzDecoder;
use pinfold_cluster::dispatch::Dispatch;
use pinfold_cluster::job::{Dropped, Filter, Job};
use pinfold_cluster::metrics::{Metrics, metrics};
use pinfold_cluster::play::{Options, Played, play};
use pinfold_cluster::runtimes::Runtimes;
use pinfold_cluster::swf::{Header, Reader};
use pinfold_profile::report::duration;
use pinfold_proto::ExitCode;
use serde::Serialize;

use crate::failure::Failure;
use crate::run::say;
use crate::show::{JSON_VERSION, print_json, print_text};

/// How often a terminal is told how far a run is.
const PROGRESS: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
#[command(after_help = "Example: pinfold sim --swf log.swf.gz --compare dispatch=fcfs,easy,conservative")]
pub(crate) struct SimArgs {
    /// The log: a file in the Standard Workload Format, plain or compressed by gzip
    #[arg(long, value_name = "FILE")]
    pub swf: PathBuf,
    /// Processors of the machine, one pool [default: what the log's header says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub cores: Option<u32>,
    /// The rule by which jobs are dispatched
    #[arg(long, value_enum, default_value_t = DispatchArg::Easy)]
    pub dispatch: DispatchArg,
    /// How long jobs are believed to take when they are dispatched
    #[arg(long, value_enum, default_value_t = RuntimesArg::Requested)]
    pub runtimes: RuntimesArg,
    /// One run for each value of `dispatch`, `runtimes` or `cores`; several times: for each combination
    #[arg(long, value_name = "KEY=V1,V2,...")]
    pub compare: Vec<String>,
    /// Write when each job started and ended; with one run only
    #[arg(long, value_name = "FILE.csv")]
    pub starts: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DispatchArg {
    /// First come, first served
    Fcfs,
    /// Backfilling with a reservation for the head of the queue
    Easy,
    /// The same, with the shortest job tried first
    Shortest,
    /// Backfilling with a reservation for each job
    Conservative,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimesArg {
    /// What users asked for
    Requested,
    /// What they took
    Perfect,
    /// The mean of the user's last two jobs
    Learned,
}

/// What a run is made of, as it was said.
#[derive(Debug, Clone, Copy)]
struct Variant {
    dispatch: DispatchArg,
    runtimes: RuntimesArg,
    cores: Option<u32>,
}

/// A run and what came of it, as JSON has it.
#[derive(Debug, Serialize)]
struct RunView {
    label: String,
    jobs: usize,
    makespan_s: f64,
    utilisation: f64,
    mean_wait_s: f64,
    mean_bounded_slowdown: f64,
    p95_wait_s: f64,
    mean_turnaround_s: f64,
    frozen_s: f64,
    killed: u64,
    events: u64,
    wall_s: f64,
}

/// `pinfold sim`.
pub(crate) fn sim(args: &SimArgs) -> Result<(), Failure> {
    let variants = variants(args)?;
    if args.starts.is_some() && variants.len() > 1 {
        let text =
            "--starts writes the starts of one run; leave out --compare, or name one value of each key";
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let mut views = Vec::new();
    for (label, variant) in variants {
        let (jobs, cores) = load(&args.swf, variant.cores)?;
        let options = Options {
            processors: cores,
            dispatch: rule(variant.dispatch),
            runtimes: estimates(variant.runtimes),
        };
        let begun = Instant::now();
        let played = with_progress(&label, &jobs, &options);
        let wall_s = begun.elapsed().as_secs_f64();
        if let Some(file) = &args.starts {
            write_starts(file, &jobs, &played)
                .map_err(|error| Failure::doing(format!("failed to write {}", file.display()), &error))?;
        }
        views.push(view(label, &metrics(&jobs, &played.starts_s, cores), &played, wall_s));
    }
    if args.json {
        return print_json(&serde_json::json!({ "version": JSON_VERSION, "runs": views }));
    }
    print_text(|out| write_table(&views, out))
}

fn view(label: String, figures: &Metrics, played: &Played, wall_s: f64) -> RunView {
    RunView {
        label,
        jobs: figures.jobs,
        makespan_s: figures.makespan_s,
        utilisation: figures.utilisation,
        mean_wait_s: figures.mean_wait_s,
        mean_bounded_slowdown: figures.mean_bounded_slowdown,
        p95_wait_s: figures.p95_wait_s,
        mean_turnaround_s: figures.mean_turnaround_s,
        // One pool of processors freezes and kills nothing.
        frozen_s: 0.0,
        killed: 0,
        events: played.events,
        wall_s,
    }
}

fn rule(dispatch: DispatchArg) -> Dispatch {
    match dispatch {
        DispatchArg::Fcfs => Dispatch::Fcfs,
        DispatchArg::Easy => Dispatch::Easy,
        DispatchArg::Shortest => Dispatch::ShortestFirst,
        DispatchArg::Conservative => Dispatch::Conservative,
    }
}

fn estimates(runtimes: RuntimesArg) -> Runtimes {
    match runtimes {
        RuntimesArg::Requested => Runtimes::Requested,
        RuntimesArg::Perfect => Runtimes::Perfect,
        RuntimesArg::Learned => Runtimes::Learned,
    }
}

/// The runs that were asked for, each with a label that tells it from the others.
fn variants(args: &SimArgs) -> Result<Vec<(String, Variant)>, Failure> {
    let base = Variant { dispatch: args.dispatch, runtimes: args.runtimes, cores: args.cores };
    let mut variants = vec![(String::new(), base)];
    for compared in &args.compare {
        let wrong = |text: String| Failure::new(ExitCode::Usage, format!("--compare {compared}: {text}"));
        let Some((key, values)) = compared.split_once('=') else {
            return Err(wrong("it takes KEY=V1,V2,...; keys are dispatch, runtimes and cores".to_owned()));
        };
        let mut more = Vec::new();
        for (label, variant) in &variants {
            for value in values.split(',') {
                let changed = changed(*variant, key, value).map_err(wrong)?;
                let label = if label.is_empty() { String::new() } else { format!("{label} ") };
                more.push((format!("{label}{key}={value}"), changed));
            }
        }
        variants = more;
    }
    if args.compare.is_empty() {
        let name = |value: Option<clap::builder::PossibleValue>| {
            value.map_or_else(String::new, |value| value.get_name().to_owned())
        };
        let label = format!(
            "dispatch={} runtimes={}",
            name(args.dispatch.to_possible_value()),
            name(args.runtimes.to_possible_value())
        );
        variants[0].0 = label;
    }
    Ok(variants)
}

fn changed(variant: Variant, key: &str, value: &str) -> Result<Variant, String> {
    match key {
        "dispatch" => Ok(Variant { dispatch: DispatchArg::from_str(value, false)?, ..variant }),
        "runtimes" => Ok(Variant { runtimes: RuntimesArg::from_str(value, false)?, ..variant }),
        "cores" => match value.parse() {
            Ok(0) | Err(_) => Err(format!("`{value}` is no number of cores above 0")),
            Ok(cores) => Ok(Variant { cores: Some(cores), ..variant }),
        },
        _ => Err(format!("there is no key `{key}`; keys are dispatch, runtimes and cores")),
    }
}

/// The jobs of a log that fit on so many cores, and how many those are.
fn load(file: &Path, cores: Option<u32>) -> Result<(Vec<Job>, u32), Failure> {
    let failed =
        |error: &dyn std::error::Error| Failure::doing(format!("failed to read {}", file.display()), error);
    let (header, records) = read(file).map_err(|error| failed(&error))?;
    let in_header =
        header.processors.and_then(|processors| u32::try_from(processors).ok()).filter(|&count| count > 0);
    let Some(cores) = cores.or(in_header) else {
        let text = format!(
            "{}: its header does not say how many processors there are; say --cores N",
            file.display()
        );
        return Err(Failure::new(ExitCode::Usage, text));
    };
    let mut filter = Filter::new(cores);
    records.iter().for_each(|record| filter.take(record));
    let (jobs, dropped) = filter.finish();
    if dropped.total() > 0 {
        say(&format!(
            "{}: {} of {} jobs are not played: {}",
            file.display(),
            dropped.total(),
            records.len(),
            causes(&dropped)
        ));
    }
    if jobs.is_empty() {
        return Err(Failure::new(ExitCode::Failed, format!("{}: there is no job to play", file.display())));
    }
    Ok((jobs, cores))
}

fn causes(dropped: &Dropped) -> String {
    let causes = [
        (dropped.too_wide, "wider than the machine"),
        (dropped.no_processors, "without processors"),
        (dropped.no_run_time, "without a run time"),
        (dropped.no_request, "without a requested run time"),
        (dropped.no_submission, "without a time of submission"),
    ];
    let causes = causes.into_iter().filter(|&(count, _)| count > 0);
    causes.map(|(count, cause)| format!("{count} {cause}")).collect::<Vec<_>>().join(", ")
}

/// The lines of a log.
fn read(file: &Path) -> io::Result<(Header, Vec<pinfold_cluster::swf::Record>)> {
    let mut bytes = BufReader::new(File::open(file)?);
    let compressed = bytes.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    let text: Box<dyn Read> = if compressed { Box::new(MultiGzDecoder::new(bytes)) } else { Box::new(bytes) };
    let (mut reader, mut records, mut line) = (Reader::default(), Vec::new(), Vec::new());
    let mut text = BufReader::new(text);
    loop {
        line.clear();
        // A line of a log is short. One without an end must not fill the memory.
        let count = (&mut text).take(LINE_MAX).read_until(b'\n', &mut line)?;
        if count == 0 {
            return Ok((reader.header(), records));
        }
        let wrong =
            |error: &dyn std::fmt::Display| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        // Names in comments may be in any encoding.
        let words = String::from_utf8_lossy(&line);
        records.extend(reader.line(&words).map_err(|error| wrong(&error))?);
    }
}

/// The longest line of a log, in bytes.
const LINE_MAX: u64 = 64 * 1024;

/// Plays a log; a terminal is told how far it is.
fn with_progress(label: &str, jobs: &[Job], options: &Options) -> Played {
    let shown = io::stderr().is_terminal();
    let (mut next, mut drawn) = (Instant::now() + PROGRESS, false);
    let played = play(jobs, options, |ended| {
        if shown && Instant::now() >= next {
            (next, drawn) = (Instant::now() + PROGRESS, true);
            let _ = write!(io::stderr(), "\r\x1b[K{label}: {ended} of {} jobs", jobs.len());
        }
    });
    if drawn {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    played
}

fn write_starts(file: &Path, jobs: &[Job], played: &Played) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    writeln!(out, "job,start_s,end_s,host")?;
    for (job, start) in jobs.iter().zip(&played.starts_s) {
        writeln!(out, "{},{start},{},0", job.number, start + job.run_s)?;
    }
    out.flush()
}

fn write_table(views: &[RunView], out: &mut dyn Write) -> io::Result<()> {
    let wide = views.iter().map(|view| view.label.len()).max().unwrap_or(0).max(3);
    writeln!(
        out,
        "{:wide$}  {:>9}  {:>10}  {:>5}  {:>10}  {:>10}  {:>10}  {:>9}",
        "RUN", "JOBS", "MAKESPAN", "USED", "MEAN WAIT", "95% WAIT", "TURNAROUND", "SLOWDOWN"
    )?;
    for view in views {
        writeln!(
            out,
            "{:wide$}  {:>9}  {:>10}  {:>4.1}%  {:>10}  {:>10}  {:>10}  {:>9.2}",
            view.label,
            view.jobs,
            duration(view.makespan_s),
            view.utilisation * 100.0,
            duration(view.mean_wait_s),
            duration(view.p95_wait_s),
            duration(view.mean_turnaround_s),
            view.mean_bounded_slowdown
        )?;
    }
    Ok(())
}
