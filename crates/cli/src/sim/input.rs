//! What `pinfold sim` plays: the jobs of a log, a list, a graph or the host's own store, and the hosts they are played on.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use pinfold_cluster::fleet::Fleet;
use pinfold_cluster::graph::Graph;
use pinfold_cluster::job::{Dropped, Filter, Job};
use pinfold_cluster::swf::{Header, Reader, Record};
use pinfold_cluster::{Micros, SECOND};
use pinfold_proto::ExitCode;
use pinfold_proto::view::ReportView;
use pinfold_proto::wire::{Piece, Request, Select};
use pinfold_whatif::contention::{Contention, Run};
use pinfold_whatif::list::{Entry, List};
use pinfold_whatif::wfinstance;

use super::SimArgs;
use super::shake::Shake;
use super::site::Site;
use super::variant::Variant;
use crate::print::say;
use pinfold_client::Dial;
use pinfold_client::Failure;

/// The longest line of a file, in bytes. One without an end must not fill the memory.
const LINE_MAX: u64 = 1 << 20;
/// The largest graph, in bytes.
const GRAPH_MAX: u64 = 1 << 30;

/// Where the jobs come from.
#[derive(Debug)]
pub(super) enum Input {
    /// A log, read for each run: it may be longer than memory holds twice.
    Swf(PathBuf),
    /// A list.
    List(Listed),
}

/// Jobs of a file or of the host's store.
#[derive(Debug)]
pub(super) struct Listed {
    /// How it is named to people.
    name: String,
    list: List,
    /// Of the store, for each job of the list: when it ran, and beside what.
    runs: Vec<Run>,
}

/// What is played.
#[derive(Debug)]
pub(super) struct Loaded {
    /// In order of submission.
    pub jobs: Vec<Job>,
    pub graph: Graph,
    pub fleet: Fleet,
}

impl Input {
    /// What the options name; lists are read.
    pub(super) fn open(dial: &Dial, args: &SimArgs) -> Result<Self, Failure> {
        if let Some(file) = &args.swf {
            return Ok(Self::Swf(file.clone()));
        }
        if let Some(since) = &args.since {
            return own(dial, since);
        }
        let (file, graph) = match (&args.jobs, &args.wfinstance) {
            (Some(file), _) => (file, false),
            (_, Some(file)) => (file, true),
            _ => {
                return Err(Failure::new(
                    ExitCode::Usage,
                    "say what to play: --swf, --jobs, --wfinstance or --since",
                ));
            }
        };
        let name = file.display().to_string();
        let failed = |error: &dyn std::error::Error| Failure::doing(format!("failed to read {name}"), error);
        let list = if graph {
            let mut text = String::new();
            let read = opened(file).and_then(|bytes| bytes.take(GRAPH_MAX).read_to_string(&mut text));
            read.map_err(|error| failed(&error))?;
            wfinstance::read(&text).map_err(|error| failed(&error))?
        } else {
            let mut list = List::default();
            lines(file, |line| list.line(line).map(|()| true).map_err(|error| error.to_string()))
                .map_err(|error| failed(&error))?;
            list
        };
        Ok(Self::List(Listed { name, list, runs: Vec::new() }))
    }

    /// Whether this is a log of a cluster, which says itself how large that was.
    pub(super) fn is_log(&self) -> bool {
        matches!(self, Self::Swf(_))
    }

    /// The jobs that fit on the hosts of a variant, and those hosts; with submissions shaken, if that is asked for.
    pub(super) fn load(
        &self,
        variant: &Variant,
        site: &Site,
        shake: Shake,
        tells: bool,
    ) -> Result<Loaded, Failure> {
        let (name, loaded, lines, dropped) = match self {
            Self::Swf(file) => load_log(file, variant, site, shake)?,
            Self::List(listed) => listed.load(variant, site, shake, tells)?,
        };
        if tells && dropped.total() > 0 {
            say(&format!("{name}: {} of {lines} jobs are not played: {}", dropped.total(), causes(&dropped)));
        }
        if loaded.jobs.is_empty() {
            return Err(Failure::new(ExitCode::Failed, format!("{name}: there is no job to play")));
        }
        Ok(loaded)
    }
}

impl Listed {
    fn load(
        &self,
        variant: &Variant,
        site: &Site,
        shake: Shake,
        tells: bool,
    ) -> Result<(String, Loaded, u64, Dropped), Failure> {
        let fleet = variant.fleet(site, None)?;
        let name = &self.name;
        let mut list = Cow::Borrowed(&self.list);
        if !variant.question.is_idle() {
            let ended_s: Vec<f64> = self.runs.iter().map(|run| run.end_us as f64 / SECOND as f64).collect();
            let answered = variant.question.answer(&list, &ended_s);
            if tells {
                say(&format!(
                    "{}: {} of {} jobs ask for other memory than they did; {} came to hold more than that",
                    variant.label,
                    answered.changed,
                    list.len(),
                    answered.below_peak
                ));
            }
            list = Cow::Owned(answered.list);
        }
        if let Some(contention) = variant.contention().filter(|_| !self.runs.is_empty()) {
            list = Cow::Owned(self.alone(&list, fleet.cores, &contention));
        }
        if let Some(shaken) = shake.list(&list) {
            list = Cow::Owned(shaken);
        }
        let arranged = list.arrange(&fleet);
        let arranged =
            arranged.map_err(|error| Failure::new(ExitCode::Failed, format!("{name}: {error}")))?;
        let loaded = Loaded { jobs: arranged.jobs, graph: arranged.graph, fleet };
        Ok((name.clone(), loaded, list.len() as u64, arranged.dropped))
    }

    /// The jobs as they would have run beside idle cores: what they cost each other comes back in the simulation.
    fn alone(&self, list: &List, cores: u32, contention: &Contention) -> List {
        let mut alone = List::default();
        let lengths = contention.alone_us(cores, &self.runs);
        for ((entry, run), alone_us) in list.entries().iter().zip(&self.runs).zip(lengths) {
            let saved_s = (run.end_us - run.start_us).saturating_sub(alone_us) as f64 / SECOND as f64;
            let mut entry = entry.clone();
            // It stays a job, however it was measured.
            entry.wall_s = (entry.wall_s - saved_s).max(entry.wall_s / 1000.0);
            entry.cpu_s = entry.cpu_s.map(|cpu_s| (cpu_s - saved_s * f64::from(run.cores)).max(0.0));
            alone.add(entry);
        }
        alone
    }
}

fn load_log(
    file: &Path,
    variant: &Variant,
    site: &Site,
    shake: Shake,
) -> Result<(String, Loaded, u64, Dropped), Failure> {
    let name = file.display().to_string();
    let fleet_of = |header: &Header| {
        let processors = header.processors.and_then(|count| u32::try_from(count).ok());
        variant
            .fleet(site, Some(processors.filter(|&count| count > 0)))
            .map_err(|failure| Failure::new(failure.code, format!("{name}: {failure}")))
    };
    let mut filter: Option<Filter> = None;
    let (mut wrong, mut fleet, mut lines) = (None, None, 0_u64);
    let read = swf(file, |header, record| {
        lines += 1;
        if filter.is_none() {
            match fleet_of(header) {
                Ok(found) => (fleet, filter) = (Some(found), Some(Filter::new(found))),
                Err(failure) => wrong = Some(failure),
            }
        }
        if let Some(filter) = &mut filter {
            filter.take(&shake.record(record));
        }
        wrong.is_none()
    });
    let header = read.map_err(|error| Failure::doing(format!("failed to read {name}"), &error))?;
    if let Some(failure) = wrong {
        return Err(failure);
    }
    // A log without a job may be without a header, too.
    let fleet = fleet.map_or_else(|| fleet_of(&header), Ok)?;
    let (jobs, dropped) = filter.map(Filter::finish).unwrap_or_default();
    Ok((name, Loaded { jobs, graph: Graph::default(), fleet }, lines, dropped))
}

fn causes(dropped: &Dropped) -> String {
    let causes = [
        (dropped.too_wide, "wider than the machine"),
        (dropped.too_large, "larger than the memory of the hosts"),
        (dropped.no_processors, "without processors"),
        (dropped.no_run_time, "without a run time"),
        (dropped.no_request, "without a requested run time"),
        (dropped.no_submission, "without a time of submission"),
        (dropped.too_long, "with a time beyond 1,000 years"),
    ];
    let causes = causes.into_iter().filter(|&(count, _)| count > 0);
    causes.map(|(count, cause)| format!("{count} {cause}")).collect::<Vec<_>>().join(", ")
}

/// The jobs of this host's store that are over, as the daemon tells of them.
fn own(dial: &Dial, since: &str) -> Result<Input, Failure> {
    let request = Request::Report {
        select: Select::Since(crate::print::moment("--since", since)?),
        series: false,
        processes: false,
        threads: false,
        files: false,
        all: false,
        pieces: true,
    };
    let (mut list, mut runs, mut running) = (List::default(), Vec::new(), 0_u64);
    dial.connect()?.ask_in_pieces(&request, |piece| {
        if let Piece::Jobs(reports) = piece {
            for report in reports {
                match entry(&report) {
                    Some((entry, run)) => {
                        list.add(entry);
                        runs.push(run);
                    }
                    None => running += 1,
                }
            }
        }
        Ok(())
    })?;
    if running > 0 {
        say(&format!("{running} jobs since {since} are left out: they are not over, or never started"));
    }
    Ok(Input::List(Listed { name: format!("jobs since {since}"), list, runs }))
}

/// A job of the store, and when it ran; one that never started or is not over says too little.
fn entry(report: &ReportView) -> Option<(Entry, Run)> {
    let (started_s, ended_s) = (report.started_s?, report.ended_s?);
    // While it was suspended, it did not run.
    let wall_s = (report.wall_s? - report.suspended_s).max(0.0);
    let entry = Entry {
        job: Some(report.job),
        submit_s: report.submitted_s.max(0.0),
        wall_s,
        requested_s: None,
        cores: Some(report.cores.max(1)),
        cpu_s: Some(report.cpu_user_s + report.cpu_system_s),
        memory_peak_bytes: Some(report.memory_peak_bytes),
        memory_ramp: None,
        ramp_cpu_s: None,
        memory_request_bytes: report.claim_bytes,
        user: report.user.clone(),
        name: report.name.clone(),
        io_bytes: Some(report.io_read_bytes.saturating_add(report.io_write_bytes)),
        list: report.array_id.map(|array| array.to_string()),
        runs_before: 0,
        after: Vec::new(),
        label: None,
    };
    let start_us = micros(started_s);
    let run = Run {
        start_us,
        end_us: micros(ended_s).max(start_us),
        cpu_us: micros(report.cpu_user_s + report.cpu_system_s),
        cores: report.cores.max(1),
    };
    Some((entry, run))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as is saturates")]
fn micros(seconds: f64) -> Micros {
    (seconds * SECOND as f64) as u64
}

/// Reads the lines of a log, until `take` has enough.
fn swf(file: &Path, mut take: impl FnMut(&Header, Record) -> bool) -> io::Result<Header> {
    let mut reader = Reader::default();
    lines(file, |line| {
        let record = reader.line(line).map_err(|error| error.to_string())?;
        Ok(record.is_none_or(|record| take(&reader.header(), record)))
    })?;
    Ok(reader.header())
}

/// Reads the lines of a file until `take` has enough.
fn lines(file: &Path, mut take: impl FnMut(&str) -> Result<bool, String>) -> io::Result<()> {
    let mut text = BufReader::with_capacity(1 << 16, opened(file)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut text).take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        // Names in comments may be in any encoding.
        let more = take(&String::from_utf8_lossy(&line))
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if !more {
            return Ok(());
        }
    }
}

/// A file, plain or compressed by gzip.
fn opened(file: &Path) -> io::Result<Box<dyn Read>> {
    let mut bytes = BufReader::new(File::open(file)?);
    let compressed = bytes.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(if compressed { Box::new(MultiGzDecoder::new(bytes)) } else { Box::new(bytes) })
}
