//! What `pinfold sim` plays: the jobs of a file, and how many hosts of which size they are played on.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use pinfold_cluster::fleet::Fleet;
use pinfold_cluster::graph::Graph;
use pinfold_cluster::job::{Dropped, Filter, Job};
use pinfold_cluster::swf::{Header, Reader};
use pinfold_proto::ExitCode;

use super::variant::Variant;
use crate::failure::Failure;
use crate::run::say;

/// The longest line of a file, in bytes. One without an end must not fill the memory.
const LINE_MAX: u64 = 64 * 1024;

/// What is played.
#[derive(Debug)]
pub(super) struct Loaded {
    /// In order of submission.
    pub jobs: Vec<Job>,
    pub graph: Graph,
    pub fleet: Fleet,
}

/// The jobs of a log that fit on the hosts of a variant, and those hosts.
pub(super) fn load(file: &Path, variant: &Variant) -> Result<Loaded, Failure> {
    let mut filter: Option<Filter> = None;
    let mut wrong = None;
    let mut fleet = None;
    let mut lines = 0_u64;
    let read = swf(file, |header, record| {
        let filter = match &mut filter {
            Some(filter) => filter,
            None => match fleet_of(file, header, variant) {
                Ok(found) => {
                    fleet = Some(found);
                    filter.insert(Filter::new(found))
                }
                Err(failure) => {
                    wrong = Some(failure);
                    return false;
                }
            },
        };
        lines += 1;
        filter.take(&record);
        true
    });
    let header =
        read.map_err(|error| Failure::doing(format!("failed to read {}", file.display()), &error))?;
    if let Some(failure) = wrong {
        return Err(failure);
    }
    // A log without a job may be without a header, too.
    let fleet = fleet.map_or_else(|| fleet_of(file, &header, variant), Ok)?;
    let (jobs, dropped) = filter.map(Filter::finish).unwrap_or_default();
    tell(file, lines, &dropped);
    if jobs.is_empty() {
        return Err(Failure::new(ExitCode::Failed, format!("{}: there is no job to play", file.display())));
    }
    Ok(Loaded { jobs, graph: Graph::default(), fleet })
}

/// The hosts of a variant: as many as it says, or one pool of all processors.
fn fleet_of(file: &Path, header: &Header, variant: &Variant) -> Result<Fleet, Failure> {
    let hosts = variant.hosts.unwrap_or(1);
    let in_header =
        header.processors.and_then(|processors| u32::try_from(processors).ok()).filter(|&count| count > 0);
    let Some(cores) = variant.cores.or(in_header.map(|processors| processors.div_ceil(hosts))) else {
        let text = format!(
            "{}: its header does not say how many processors there are; say --cores N",
            file.display()
        );
        return Err(Failure::new(ExitCode::Usage, text));
    };
    Ok(Fleet { hosts, cores, slots: cores, memory: variant.memory })
}

fn tell(file: &Path, lines: u64, dropped: &Dropped) {
    if dropped.total() > 0 {
        say(&format!(
            "{}: {} of {lines} jobs are not played: {}",
            file.display(),
            dropped.total(),
            causes(dropped)
        ));
    }
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
fn swf(
    file: &Path,
    mut take: impl FnMut(&Header, pinfold_cluster::swf::Record) -> bool,
) -> io::Result<Header> {
    let mut reader = Reader::default();
    lines(file, |line| {
        let record = reader.line(line).map_err(|error| error.to_string())?;
        Ok(record.is_none_or(|record| take(&reader.header(), record)))
    })?;
    Ok(reader.header())
}

/// Reads the lines of a file, plain or compressed by gzip, until `take` has enough.
pub(super) fn lines(file: &Path, mut take: impl FnMut(&str) -> Result<bool, String>) -> io::Result<()> {
    let mut bytes = BufReader::new(File::open(file)?);
    let compressed = bytes.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    let text: Box<dyn Read> = if compressed { Box::new(MultiGzDecoder::new(bytes)) } else { Box::new(bytes) };
    let mut text = BufReader::with_capacity(1 << 16, text);
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
