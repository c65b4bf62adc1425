//! The input of `pinfold sim`: the jobs of a log, a list, a graph or the host's own store, and the hosts they are
//! played on.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use pinfold_cluster::SECOND;
use pinfold_cluster::fleet::Fleet;
use pinfold_cluster::graph::Graph;
use pinfold_cluster::job::{Dropped, Filter, Job};
use pinfold_cluster::swf::{Header, Reader, Record};
use pinfold_profile::report::size;
use pinfold_proto::ExitCode;
use pinfold_proto::wire::ConfigValue;
use pinfold_whatif::contention::{Contention, Run};
use pinfold_whatif::list::List;
use pinfold_whatif::wfinstance;

use super::shake::Shake;
use super::site::Site;
use super::variant::Variant;
use super::{SimArgs, own};
use crate::input;
use crate::print::say;
use pinfold_client::{Dial, Failure};

/// The longest line of a file, in bytes. An endless line must not fill the memory.
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
    /// The name for people.
    name: String,
    list: List,
    /// From the store, for each job of the list: its run time and the jobs beside it.
    runs: Vec<Run>,
    /// From the store, the host's settings that differ from the defaults.
    settings: Vec<ConfigValue>,
}

impl Listed {
    /// The input of this host's store.
    pub(super) fn of_store(name: String, list: List, runs: Vec<Run>, settings: Vec<ConfigValue>) -> Self {
        Self { name, list, runs, settings }
    }
}

/// Remarks on the jobs of runs, printed once for any number of runs.
#[derive(Debug, Default)]
pub(super) struct Words(RefCell<BTreeSet<String>>);

impl Words {
    fn say(&self, text: String) {
        if !self.0.borrow().contains(&text) {
            say(&text);
            self.0.borrow_mut().insert(text);
        }
    }
}

/// The source of the jobs.
#[derive(Debug)]
pub(super) struct Loaded {
    /// In order of submission.
    pub jobs: Vec<Job>,
    pub graph: Graph,
    pub fleet: Fleet,
}

impl Input {
    /// Opens the named input; reads lists.
    pub(super) fn open(dial: &Dial, args: &SimArgs) -> Result<Self, Failure> {
        if let Some(file) = &args.swf {
            return Ok(Self::Swf(file.clone()));
        }
        if let Some(since) = &args.since {
            return own::jobs(dial, since);
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
            let text = opened(file).and_then(|bytes| input::text(bytes, GRAPH_MAX));
            wfinstance::read(&text.map_err(|error| failed(&error))?).map_err(|error| failed(&error))?
        } else {
            let mut list = List::default();
            lines(file, |line| list.line(line).map(|()| true).map_err(|error| error.to_string()))
                .map_err(|error| failed(&error))?;
            list
        };
        Ok(Self::List(Listed { name, list, runs: Vec::new(), settings: Vec::new() }))
    }

    /// Whether this many runs can be played: a log is read for each, and a pipe can be read once.
    pub(super) fn check_runs(&self, runs: u64) -> Result<(), Failure> {
        let Self::Swf(file) = self else { return Ok(()) };
        let again = std::fs::metadata(file).is_ok_and(|data| data.is_file() || data.is_dir());
        if runs < 2 || again || !file.exists() {
            return Ok(());
        }
        let text = format!(
            "{}: it is no file and can be read once, and each of {runs} runs reads it; write the log to a file",
            file.display()
        );
        Err(Failure::new(ExitCode::Usage, text))
    }

    /// The settings of the host that the jobs ran on, if known.
    pub(super) fn settings(&self) -> &[ConfigValue] {
        match self {
            Self::Swf(_) => &[],
            Self::List(listed) => &listed.settings,
        }
    }

    /// Whether this is a log of a cluster, which states the cluster's size.
    pub(super) fn is_log(&self) -> bool {
        matches!(self, Self::Swf(_))
    }

    /// The jobs that fit on the hosts of a variant, and the hosts; with shaken submissions, if requested.
    pub(super) fn load(
        &self,
        variant: &Variant,
        site: &Site,
        shake: Shake,
        words: Option<&Words>,
    ) -> Result<Loaded, Failure> {
        let (name, loaded, lines, dropped) = match self {
            Self::Swf(file) => load_log(file, variant, site, shake)?,
            Self::List(listed) => listed.load(variant, site, shake, words)?,
        };
        if let (Some(words), true) = (words, dropped.total() > 0) {
            let (count, causes) = (dropped.total(), causes(&dropped));
            words.say(format!("{name}: {count} of {lines} jobs are not played: {causes}"));
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
        words: Option<&Words>,
    ) -> Result<(String, Loaded, u64, Dropped), Failure> {
        let fleet = variant.fleet(site, None)?;
        let name = &self.name;
        let mut list = Cow::Borrowed(&self.list);
        if !variant.question.is_idle() {
            let ended_s: Vec<f64> = self.runs.iter().map(|run| run.end_us as f64 / SECOND as f64).collect();
            let answered = variant.question.answer(&list, &ended_s);
            if let Some(words) = words {
                words.say(format!(
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

    /// The jobs as they would have run beside idle cores: the simulation adds the contention again.
    fn alone(&self, list: &List, cores: u32, contention: &Contention) -> List {
        let mut alone = List::default();
        let lengths = contention.alone_us(cores, &self.runs);
        for ((entry, run), alone_us) in list.entries().iter().zip(&self.runs).zip(lengths) {
            let saved_s = (run.end_us - run.start_us).saturating_sub(alone_us) as f64 / SECOND as f64;
            let mut entry = entry.clone();
            // A job keeps a positive length, whatever the measurement.
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
    for number in 1_u64.. {
        line.clear();
        if (&mut text).take(LINE_MAX + 1).read_until(b'\n', &mut line)? == 0 {
            break;
        }
        if line.len() as u64 > LINE_MAX {
            return Err(wrong(format!("line {number} is longer than {}", size(LINE_MAX))));
        }
        // The mark of its encoding stands before the first line.
        let marked = line.strip_prefix(b"\xef\xbb\xbf").filter(|_| number == 1);
        // Names in comments may be in any encoding.
        if !take(&String::from_utf8_lossy(marked.unwrap_or(&line))).map_err(wrong)? {
            break;
        }
    }
    Ok(())
}

fn wrong(words: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, words)
}

/// A file, plain or compressed by gzip.
fn opened(file: &Path) -> io::Result<Box<dyn Read>> {
    let mut bytes = BufReader::new(File::open(file)?);
    let compressed = bytes.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(if compressed { Box::new(Unpacked(MultiGzDecoder::new(bytes))) } else { Box::new(bytes) })
}

/// The content of a gzip file; a truncated file gets an error in words.
struct Unpacked<R>(MultiGzDecoder<R>);

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => wrong("the compressed file is cut short".to_owned()),
            _ => error,
        })
    }
}
