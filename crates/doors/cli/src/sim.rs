//! `pinfold sim`: jobs played on hosts under a workload manager's rule, and the results.
//!
//! Several runs stand beside each other (`--compare`). Absent: the rules and the figures ([`pinfold_cluster`]).
//!
//! In: `input`, `own` (this host's jobs), `question` (`--what-if`), `site`, `calibrate` with `calibration`,
//! `variant`, `shake`. Out: `show`, `picture`.

mod calibrate;
mod calibration;
mod input;
mod own;
mod picture;
mod question;
mod shake;
mod show;
mod site;
mod variant;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use pinfold_cluster::play::{Options, play};
use pinfold_proto::ExitCode;
use pinfold_proto::quantity::{parse_size, whole};

use pinfold_whatif::play::{Hosts, Outcome};

use crate::print::{JSON_VERSION, print_json, print_text};
use crate::show::picture_kind;
use input::{Input, Loaded, Words};
use pinfold_client::{Dial, Failure};
use shake::Shake;
use show::{RunView, SimView};
use site::Site;
use variant::{HOSTS_MAX, Variant};

/// The interval of progress reports on a terminal.
const PROGRESS: Duration = Duration::from_millis(200);

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("played").required(true)))]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Play a log: a file in the Standard Workload Format, plain or compressed by gzip
    #[arg(long, value_name = "FILE", group = "played")]
    pub swf: Option<PathBuf>,
    /// Play an executed workflow with what its tasks waited for: an instance of WfCommons, as JSON or a table
    #[arg(long, value_name = "FILE", group = "played")]
    pub wfinstance: Option<PathBuf>,
    /// Play a list: one job a line, as JSON with the keys wall_s, submit_s, cores, memory_peak_bytes, after ...
    #[arg(long, value_name = "FILE.jsonl", group = "played")]
    pub jobs: Option<PathBuf>,
    /// Play what ran on this host since then: so long ago (7d), a date, or @ and Unix seconds
    #[arg(long, value_name = "WHEN", group = "played")]
    pub since: Option<String>,
    /// Hosts, all alike; a job that fits on one is on one [default: one, of all processors of a log]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=HOSTS_MAX))]
    pub hosts: Option<u32>,
    /// Cores of each host [default: the processors that the log's header names, divided among the hosts; else this host's]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=u32::MAX))]
    pub cores: Option<u32>,
    /// RAM of each host [default: memory does not count; this host's where the jobs are played on it]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
    /// Swap of each host; with it plain hosts page and kill as well
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub swap: Option<u64>,
    /// What the swap device writes and reads in a second [default: as calibrated; else 500MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub swap_rate: Option<u64>,
    /// What hosts do, as `sim calibrate` measured it: its file, or `none` [default: this host's, where jobs are played on it]
    #[arg(long, value_name = "FILE|none")]
    pub calibration: Option<String>,
    /// The machine of each host: a file of hwloc's, synthetic:"...", or sysfs:DIR, as for `pinfold topology --from`
    #[arg(long, value_name = "T", conflicts_with = "cores")]
    pub topology: Option<String>,
    /// The rule by which jobs are dispatched [default: easy; where jobs are handed to this host's pinfold: none]
    #[arg(long, value_enum)]
    pub dispatch: Option<DispatchArg>,
    /// How long jobs are believed to take when they are dispatched [default: requested]
    #[arg(long, value_enum)]
    pub runtimes: Option<RuntimesArg>,
    /// What decides on each host [default: plain for a log, unless a key of the configuration is set; else pinfold]
    #[arg(long, value_enum)]
    pub host_policy: Option<HostPolicyArg>,
    /// Set a key of the configuration (`pinfold config get` lists them), or what --compare takes
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// One run for each value of `dispatch`, `runtimes`, `hosts`, `cores`, `memory`, `swap`, `mem` (what jobs ask for),
    /// `host-policy` or a key of the configuration; several times: for each combination
    #[arg(long, value_name = "KEY=V1,V2,...")]
    pub compare: Vec<String>,
    /// Two runs: jobs as they were, and with what they ask for changed, as in "my jobs with --mem 2GiB", "--mem advised"
    #[arg(long, value_name = "QUESTION", allow_hyphen_values = true, conflicts_with_all = ["compare", "swf"])]
    pub what_if: Option<String>,
    /// Replay each run so often, all but the first with jobs submitted up to a minute later: how far figures are chance
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(1..=10_000))]
    pub repeat: u64,
    /// Chooses how the replays differ
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u64>(0..=u64::MAX))]
    pub seed: u64,
    /// Write when and where each job started and ended; with one run only
    #[arg(long, value_name = "FILE.csv")]
    pub starts: Option<PathBuf>,
    /// Draw which job was where, and what jobs held; with one run only
    #[arg(short, long, value_name = "FILE.svg|FILE.png")]
    pub output: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Measure what cores of this host cost each other, its disk and its swap, in a minute
    Calibrate(calibrate::CalibrateArgs),
}

/// The scheduler of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HostPolicyArg {
    /// The policy of pinfold's daemon
    Pinfold,
    /// Nothing: each job starts as it comes
    Plain,
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
pub(crate) fn sim(dial: &Dial, args: &SimArgs) -> Result<(), Failure> {
    if let Some(Verb::Calibrate(args)) = &args.verb {
        return calibrate::calibrate(args);
    }
    let input = Input::open(dial, args)?;
    let config = own::config(args, input.settings());
    let site = Site::look(args, &input, &config)?;
    let calibration = calibration::find(args, &site)?;
    let variants = variant::variants(args, input.is_log(), calibration.as_ref(), config)?;
    for (option, given) in [("--starts", args.starts.is_some()), ("-o", args.output.is_some())] {
        if given && variants.len() > 1 {
            let text = format!(
                "{option} writes of one run, and these are {}; leave out --what-if, and name one value of each key \
                 compared",
                variants.len()
            );
            return Err(Failure::new(ExitCode::Usage, text));
        }
    }
    input.check_runs(variants.len() as u64 * args.repeat)?;
    let kind = args.output.as_deref().map(picture_kind).transpose()?;
    // A run may take long: a missing directory is reported before it.
    for file in args.starts.iter().chain(&args.output) {
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(Err(error)) = parent.map(std::fs::metadata) {
            return Err(Failure::doing(format!("failed to write {}", file.display()), &error));
        }
    }
    let used = variants.iter().any(|variant| variant.calibration().is_some());
    let calibration = calibration.map(|(calibration, _)| calibration).filter(|_| used);
    let (mut views, words) = (Vec::new(), Words::default());
    for variant in variants {
        let (loaded, outcome, mut view) = run(args, &input, &variant, &site, (0, Some(&words)))?;
        if let Some(file) = &args.starts {
            let written = File::create(file).map(BufWriter::new);
            written
                .and_then(|mut out| show::write_starts(&loaded.jobs, &outcome.played, &mut out))
                .map_err(|error| Failure::doing(format!("failed to write {}", file.display()), &error))?;
        }
        if let (Some(file), Some(kind)) = (&args.output, &kind) {
            picture::write(file, kind, &view.label, &loaded, &outcome)?;
        }
        for replay in 1..args.repeat {
            view.add_replay(&run(args, &input, &variant, &site, (replay, None))?.2);
        }
        views.push(view);
    }
    if args.json {
        return print_json(&SimView { version: JSON_VERSION, runs: views, calibration });
    }
    print_text(|out| {
        show::write_table(&views, out)?;
        match &calibration {
            Some(calibration) => writeln!(out, "{}", calibration.in_words()),
            None => Ok(()),
        }
    })
}

/// A single run: the jobs as they were, or a replay, which prints nothing.
fn run(
    args: &SimArgs,
    input: &Input,
    variant: &Variant,
    site: &Site,
    (replay, words): (u64, Option<&Words>),
) -> Result<(Loaded, Outcome, RunView), Failure> {
    let loaded = input.load(variant, site, Shake::new(args.seed, replay), words)?;
    let options = Options { fleet: loaded.fleet, dispatch: variant.rule(), runtimes: variant.estimates() };
    let hosts = if variant.is_simple() {
        None
    } else {
        let series = args.output.is_some() && replay == 0;
        Some(Hosts { series, ..variant.simulated(site, loaded.fleet.cores)? })
    };
    let begun = Instant::now();
    let outcome = with_progress(&variant.label, &loaded, &options, hosts.as_ref());
    let wall_s = begun.elapsed().as_secs_f64();
    if outcome.stuck > 0 {
        let text = format!(
            "{}: {} of {} jobs never ended: no host lets them run with these settings",
            variant.label,
            outcome.stuck,
            loaded.jobs.len()
        );
        return Err(Failure::new(ExitCode::Failed, text));
    }
    let view = RunView::new(&variant.label, &loaded.jobs, loaded.fleet.all_cores(), &outcome, wall_s);
    Ok((loaded, outcome, view))
}

/// Plays jobs; reports progress on a terminal.
fn with_progress(label: &str, loaded: &Loaded, options: &Options, hosts: Option<&Hosts>) -> Outcome {
    let shown = io::stderr().is_terminal();
    let (mut next, mut drawn) = (Instant::now() + PROGRESS, false);
    let count = loaded.jobs.len();
    let progress = |ended| {
        if shown && Instant::now() >= next {
            (next, drawn) = (Instant::now() + PROGRESS, true);
            let _ = write!(io::stderr(), "\r\x1b[K{label}: {ended} of {count} jobs");
        }
    };
    let outcome = match hosts {
        Some(hosts) => pinfold_whatif::play::play(&loaded.jobs, &loaded.graph, options, hosts, progress),
        None => play(&loaded.jobs, &loaded.graph, options, progress).into(),
    };
    if drawn {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    outcome
}
