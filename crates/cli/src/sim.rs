//! `pinfold sim`: jobs played on hosts under a workload manager's rule, and what came of it.
//!
//! Several runs stand beside each other (`--compare`). Absent: the rules and the figures ([`pinfold_cluster`]).

mod input;
mod show;
mod variant;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use pinfold_cluster::metrics::metrics;
use pinfold_cluster::play::{Options, Played, play};
use pinfold_proto::ExitCode;
use pinfold_proto::quantity::parse_size;

use crate::failure::Failure;
use crate::show::{JSON_VERSION, print_json, print_text};
use input::Loaded;
use show::RunView;

/// How often a terminal is told how far a run is.
const PROGRESS: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
#[command(after_help = "Example: pinfold sim --swf log.swf.gz --compare dispatch=fcfs,easy,conservative")]
pub(crate) struct SimArgs {
    /// The log: a file in the Standard Workload Format, plain or compressed by gzip
    #[arg(long, value_name = "FILE")]
    pub swf: PathBuf,
    /// Hosts, all alike; a job that fits on one is on one [default: one pool of all processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub hosts: Option<u32>,
    /// Cores of each host [default: the processors that the log's header names, divided among the hosts]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub cores: Option<u32>,
    /// Memory of each host, of which the dispatcher gives each job what it asks for [default: nobody looks at memory]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// The rule by which jobs are dispatched
    #[arg(long, value_enum, default_value_t = DispatchArg::Easy)]
    pub dispatch: DispatchArg,
    /// How long jobs are believed to take when they are dispatched
    #[arg(long, value_enum, default_value_t = RuntimesArg::Requested)]
    pub runtimes: RuntimesArg,
    /// One run for each value of `dispatch`, `runtimes`, `hosts`, `cores` or `memory`; several times: for each combination
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

/// `pinfold sim`.
pub(crate) fn sim(args: &SimArgs) -> Result<(), Failure> {
    let variants = variant::variants(args)?;
    if args.starts.is_some() && variants.len() > 1 {
        let text =
            "--starts writes the starts of one run; leave out --compare, or name one value of each key";
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let mut views = Vec::new();
    for variant in variants {
        let loaded = input::load(&args.swf, &variant)?;
        let options =
            Options { fleet: loaded.fleet, dispatch: variant.rule(), runtimes: variant.estimates() };
        let begun = Instant::now();
        let played = with_progress(&variant.label, &loaded, &options);
        let wall_s = begun.elapsed().as_secs_f64();
        if let Some(file) = &args.starts {
            let written = File::create(file).map(BufWriter::new);
            written
                .and_then(|mut out| show::write_starts(&loaded.jobs, &played, &mut out))
                .map_err(|error| Failure::doing(format!("failed to write {}", file.display()), &error))?;
        }
        let figures = metrics(&loaded.jobs, &played.spans, loaded.fleet.all_cores());
        views.push(RunView::new(variant.label, &figures, &played, wall_s));
    }
    if args.json {
        return print_json(&serde_json::json!({ "version": JSON_VERSION, "runs": views }));
    }
    print_text(|out| show::write_table(&views, out))
}

/// Plays jobs; a terminal is told how far it is.
fn with_progress(label: &str, loaded: &Loaded, options: &Options) -> Played {
    let shown = io::stderr().is_terminal();
    let (mut next, mut drawn) = (Instant::now() + PROGRESS, false);
    let played = play(&loaded.jobs, &loaded.graph, options, |ended| {
        if shown && Instant::now() >= next {
            (next, drawn) = (Instant::now() + PROGRESS, true);
            let _ = write!(io::stderr(), "\r\x1b[K{label}: {ended} of {} jobs", loaded.jobs.len());
        }
    });
    if drawn {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    played
}
