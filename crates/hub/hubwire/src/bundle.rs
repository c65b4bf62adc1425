//! Bundles: ended jobs of a host, as JSON compressed by gzip. Both directions are bounded: a bundle too long packed
//! or unpacked is refused, and never held in memory beyond the bound. Absent here: the network and the disk.

use std::fmt;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use pinfold_proto::view::{MapView, PointView, ReportView, StatusView};
use pinfold_topo::Topology;
use serde::de::{DeserializeOwned, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::bounds::{self, OutOfRange};
use crate::series::Columns;

/// The version of messages. A hub refuses other versions with a message.
pub const WIRE_VERSION: u32 = 1;

/// The longest packed message, in bytes.
pub const PACKED_MAX_BYTES: usize = 4 << 20;

/// The longest message unpacked, in bytes.
pub const PLAIN_MAX_BYTES: u64 = 24 << 20;

/// The longest state of a host, unpacked, in bytes; the hub keeps each host's last state in memory.
pub const LIVE_MAX_BYTES: u64 = 8 << 20;

/// The most living jobs in a host's state, sent every two seconds.
pub const LIVE_JOBS_MAX: usize = 2_000;

/// The most PUs of a machine.
pub const PUS_MAX: usize = 8_192;

/// The most sets of cores, NUMA nodes and resources, of each kind.
pub const SETS_MAX: usize = 2_000;

/// The most parts of a bundle: a host sends some hundreds. A nearly empty part takes 21 bytes of text, but as much
/// memory as a whole part once parsed.
pub const PARTS_A_BUNDLE: usize = 10_000;

/// Points of a series per part. The longest part is some 2 MiB of JSON.
pub const POINTS_A_PART: usize = 8_000;

/// The most parts a job has: 24 million points.
pub const PARTS_MAX: u32 = 3_000;

/// The most reports of living jobs beside the state of a host.
pub const ASKED_MAX: usize = 4;

/// The most decisions sent of a job: the first and the last.
pub const ACTS_MAX: usize = 10_000;

/// Ended jobs of a host. A part is identified by the daemon's instance, the job's number and submission time, and the
/// part's number: a hub counts a part it already has as known and ignores it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bundle {
    /// [`WIRE_VERSION`].
    pub version: u32,
    /// The instance of the daemon that numbered the jobs. It lasts as long as the daemon's state directory, over
    /// reboots: a job has the same instance at each reading.
    pub origin: String,
    /// The host's boot when the bundle was made.
    pub boot: String,
    /// When the bundle was made by the host's clock, in microseconds since the Unix epoch.
    pub made_us: u64,
    /// The parts, up to [`PARTS_A_BUNDLE`].
    #[serde(deserialize_with = "some_parts")]
    pub parts: Vec<Part>,
}

/// Reads at most the allowed number of parts.
fn some_parts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Part>, D::Error> {
    struct Few;
    impl<'de> Visitor<'de> for Few {
        type Value = Vec<Part>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(out, "up to {PARTS_A_BUNDLE} parts")
        }

        fn visit_seq<S: SeqAccess<'de>>(self, mut all: S) -> Result<Vec<Part>, S::Error> {
            let mut parts = Vec::new();
            while let Some(part) = all.next_element()? {
                if parts.len() == PARTS_A_BUNDLE {
                    return Err(S::Error::invalid_length(PARTS_A_BUNDLE + 1, &self));
                }
                parts.push(part);
            }
            Ok(parts)
        }
    }
    from.deserialize_seq(Few)
}

/// A part of an ended job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The job's number.
    pub job: u64,
    /// When the job was submitted, in microseconds since the Unix epoch. Distinguishes jobs whose number recurs after
    /// a store was lost.
    pub submitted_us: u64,
    /// The part's number, from 0.
    pub part: u32,
    /// How many parts the job has.
    pub parts: u32,
    /// The job's figures; in part 0 only.
    pub head: Option<Head>,
    /// Points of its series.
    pub series: Option<Columns>,
}

/// The figures of an ended job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// As in `pinfold report --json`, without lists.
    pub report: ReportView,
    /// The host's decisions about the job, oldest first.
    #[serde(default)]
    pub acts: Vec<Act>,
}

/// The action in place of omitted decisions, between the last before and the first after the omission.
pub const LEFT_OUT: &str = "left out";

/// A decision about a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Act {
    /// When, in Unix seconds.
    pub time_s: f64,
    /// The action.
    pub action: String,
    /// Why.
    pub reason: String,
}

/// A report with its host, for programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostReport {
    /// The host.
    pub host: String,
    /// The report, as on the host.
    #[serde(flatten)]
    pub report: ReportView,
}

/// The hub's answer to a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// New parts, now on the hub's disk.
    pub new: u64,
    /// Parts already known.
    pub known: u64,
}

/// The present state of a host. Each replaces the one before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Live {
    /// [`WIRE_VERSION`].
    pub version: u32,
    /// The host's boot.
    pub boot: String,
    /// The host's clock at sending, in microseconds since the Unix epoch.
    pub sent_us: u64,
    /// As in `pinfold status --json`, of all users' living jobs.
    pub status: StatusView,
    /// The content of the host's spool.
    pub spool: SpoolFigures,
    /// The allocation of cores; processes are in the status.
    #[serde(default)]
    pub map: Option<MapView>,
    /// The topology: sent once per boot, and again after changes.
    #[serde(default)]
    pub topology: Option<Box<Topology>>,
    /// Reports of living jobs, by the hub's request, each in one part: figures and a thinned series.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Part>,
}

/// The hub's answer to a host's state.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LiveReceipt {
    /// Of the answer, 1.
    pub version: u32,
    /// The generation of the hub's database: another number after an earlier copy was restored. `None`: unknown.
    #[serde(default)]
    pub generation: Option<u64>,
    /// Living jobs under view, [`ASKED_MAX`] at most: the host's next state carries their reports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub wanted: Vec<u64>,
}

/// The content of a spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SpoolFigures {
    /// Bundles that the hub does not have yet.
    pub bundles: u64,
    /// Their size on disk, in bytes.
    pub bytes: u64,
    /// The size limit of the spool, in bytes.
    pub max_bytes: u64,
    /// Ended jobs not yet in the spool.
    pub jobs_waiting: u64,
    /// Bundles refused by the hub for good, kept on the host's disk.
    pub refused: u64,
}

/// Why a message could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The unpacked message is too long.
    #[error("the message is longer than {max_bytes} bytes once it is unpacked")]
    TooLong {
        /// The bound.
        max_bytes: u64,
    },
    /// The message is malformed.
    #[error("the message cannot be read: {0}")]
    Malformed(#[source] serde_json::Error),
    /// The message has another version.
    #[error("the message has version {found}; this hub reads version {WIRE_VERSION}")]
    Version {
        /// The version found.
        found: u32,
    },
    /// The message has too many living jobs.
    #[error("the message tells of {found} jobs that are not over, and the most is {LIVE_JOBS_MAX}")]
    Jobs {
        /// Of how many.
        found: usize,
    },
    /// The message describes too large a machine.
    #[error("the message tells of {found} {what}, and the most is {most}")]
    Machine {
        /// The kind of object.
        what: &'static str,
        /// Of how many.
        found: usize,
        /// The most.
        most: usize,
    },
    /// An impossible figure of a job.
    #[error("job {job}, part {part}: {figure}")]
    Figure {
        /// The job.
        job: u64,
        /// The part.
        part: u32,
        /// The figure.
        figure: OutOfRange,
    },
    /// An impossible figure of the host.
    #[error("{0}")]
    HostFigure(OutOfRange),
    /// A part contradicts itself.
    #[error("job {job}, part {part}: {what}")]
    Part {
        /// The job.
        job: u64,
        /// The part.
        part: u32,
        /// The fault.
        what: &'static str,
    },
}

/// Packs a value.
///
/// # Errors
/// When a number in it is not finite.
pub fn pack(value: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    pack_measured(value).map(|(packed, _)| packed)
}

/// As [`pack`], with the unpacked length in bytes.
///
/// # Errors
/// When a number in it is not finite.
pub fn pack_measured(value: &impl Serialize) -> Result<(Vec<u8>, u64), serde_json::Error> {
    // Compressed as a whole: feeding the compressor small pieces takes several times as long.
    let plain = serde_json::to_vec(value)?;
    let mut packed = GzEncoder::new(Vec::with_capacity(plain.len() / 8), Compression::new(4));
    packed.write_all(&plain).map_err(serde_json::Error::io)?;
    Ok((packed.finish().map_err(serde_json::Error::io)?, plain.len() as u64))
}

/// Unpacks a value of at most `max_bytes`; stops unpacking at the bound.
///
/// # Errors
/// When the message is too long or malformed.
pub fn unpack<T: DeserializeOwned>(packed: &[u8], max_bytes: u64) -> Result<T, DecodeError> {
    unpack_measured(packed, max_bytes).map(|(value, _)| value)
}

/// As [`unpack`], with the unpacked length in bytes.
///
/// # Errors
/// When the message is longer than `max_bytes` or malformed.
pub fn unpack_measured<T: DeserializeOwned>(packed: &[u8], max_bytes: u64) -> Result<(T, u64), DecodeError> {
    // Parsed as a whole: a parser that reads byte by byte takes several times as long.
    let mut plain = Vec::new();
    let unpacked = GzDecoder::new(packed).take(max_bytes.saturating_add(1)).read_to_end(&mut plain);
    let bytes = plain.len() as u64;
    if bytes > max_bytes {
        return Err(DecodeError::TooLong { max_bytes });
    }
    unpacked.map_err(|error| DecodeError::Malformed(serde_json::Error::io(error)))?;
    let value = serde_json::from_slice(&plain).map_err(DecodeError::Malformed)?;
    Ok((value, bytes))
}

/// Reads a bundle and checks its consistency.
///
/// # Errors
/// When the bundle is too long, malformed, inconsistent, or has another version.
pub fn read_bundle(packed: &[u8]) -> Result<Bundle, DecodeError> {
    let mut bundle: Bundle = unpack(packed, PLAIN_MAX_BYTES)?;
    if bundle.version != WIRE_VERSION {
        return Err(DecodeError::Version { found: bundle.version });
    }
    bundle.parts.iter().try_for_each(check)?;
    bundle.parts.iter_mut().try_for_each(check_figures)?;
    Ok(bundle)
}

/// Reads a host's state.
///
/// # Errors
/// When the state is too long, malformed, or has another version.
pub fn read_live(packed: &[u8]) -> Result<Live, DecodeError> {
    let mut live: Live = unpack(packed, LIVE_MAX_BYTES)?;
    if live.version != WIRE_VERSION {
        return Err(DecodeError::Version { found: live.version });
    }
    if live.status.jobs.len() > LIVE_JOBS_MAX {
        return Err(DecodeError::Jobs { found: live.status.jobs.len() });
    }
    if live.asked.len() > ASKED_MAX {
        return Err(DecodeError::Jobs { found: live.asked.len() });
    }
    live.asked.iter().try_for_each(check)?;
    live.asked.iter_mut().try_for_each(check_figures)?;
    check_machine(&live)?;
    bounds::check_live(&mut live).map_err(DecodeError::HostFigure)?;
    Ok(live)
}

fn check_machine(live: &Live) -> Result<(), DecodeError> {
    let pus = live.topology.as_ref().map_or(0, |topology| topology.pus().len().max(topology.numa().len()));
    let map = live.map.as_ref();
    let sets = map.map_or(0, |map| map.sets.len());
    let others = map.map_or(0, |map| map.set_asides.len().max(map.chunks.len()).max(map.resources.len()));
    for (what, found, most) in [
        ("PUs", pus, PUS_MAX),
        ("jobs on cores", sets, LIVE_JOBS_MAX),
        ("sets, NUMA nodes or resources", others, SETS_MAX),
    ] {
        if found > most {
            return Err(DecodeError::Machine { what, found, most });
        }
    }
    Ok(())
}

fn check_figures(part: &mut Part) -> Result<(), DecodeError> {
    let of_head = part.head.as_mut().map_or(Ok(()), bounds::check_head);
    let found = of_head.and_then(|()| part.series.as_mut().map_or(Ok(()), bounds::check_series));
    found.map_err(|figure| DecodeError::Figure { job: part.job, part: part.part, figure })
}

fn check(part: &Part) -> Result<(), DecodeError> {
    let wrong = |what| Err(DecodeError::Part { job: part.job, part: part.part, what });
    let whole = |number: u64| i64::try_from(number).is_ok();
    match (&part.head, part.part) {
        (None, 0) => return wrong("the first part has no figures"),
        (Some(_), 1..) => return wrong("figures are in the first part alone"),
        (Some(head), 0) if head.report.job != part.job => return wrong("its figures are another job's"),
        (Some(head), 0) if has_lists(&head.report) => return wrong("its figures have lists"),
        (Some(head), 0) if microseconds(head.report.submitted_s) != part.submitted_us => {
            return wrong("its figures have another time of submission");
        }
        _ => {}
    }
    if part.parts > PARTS_MAX || part.part >= part.parts {
        return wrong("there are not so many parts");
    }
    if !whole(part.job) || !whole(part.submitted_us) {
        return wrong("a number is out of range");
    }
    match &part.series {
        Some(series) if series.len().is_none() => wrong("the columns of its series differ in length"),
        Some(series) if series.len() > Some(POINTS_A_PART) => wrong("its series has too many points"),
        _ => Ok(()),
    }
}

fn has_lists(report: &ReportView) -> bool {
    report.processes.is_some()
        || report.threads.is_some()
        || report.files.is_some()
        || report.series.is_some()
}

/// Converts Unix seconds from [`pinfold_proto::view::seconds`] to microseconds; 0 for NaN.
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and what is not finite becomes 0"
)]
pub fn microseconds(seconds: f64) -> u64 {
    (seconds * 1e6).round() as u64
}

fn bounded(points: &[PointView]) -> Columns {
    let mut columns = Columns::of(points);
    bounds::bound_series(&mut columns);
    columns
}

/// Drops decisions in the middle if they are too many for a message.
fn first_and_last(mut acts: Vec<Act>) -> Vec<Act> {
    let more = acts.len().saturating_sub(ACTS_MAX);
    let middle = ACTS_MAX / 2;
    if let (1.., Some(first)) = (more, acts.get(middle)) {
        let reason = format!("{more} decisions are not told to the hub");
        let left_out = Act { time_s: first.time_s, action: LEFT_OUT.to_owned(), reason };
        acts.splice(middle..middle + more, [left_out]);
    }
    acts
}

/// Divides an ended job into parts, with figures clamped into their ranges.
#[must_use]
pub fn parts(mut report: ReportView, acts: Vec<Act>) -> Vec<Part> {
    let points = report.series.take().unwrap_or_default();
    let job = report.job;
    let mut head = Head { report, acts: first_and_last(acts) };
    bounds::bound_head(&mut head);
    let submitted_us = microseconds(head.report.submitted_s);
    let mut chunks = points.chunks(POINTS_A_PART).take(PARTS_MAX as usize);
    let count = points.len().div_ceil(POINTS_A_PART).clamp(1, PARTS_MAX as usize);
    let parts = u32::try_from(count).unwrap_or(PARTS_MAX);
    let mut head = Some(head);
    (0..parts)
        .map(|part| Part {
            job,
            submitted_us,
            part,
            parts,
            head: head.take(),
            series: chunks.next().map(bounded),
        })
        .collect()
}

#[cfg(test)]
mod tests;
