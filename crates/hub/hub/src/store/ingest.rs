//! Bundles become rows before the database is involved: unpacking and packing happen here, on a thread for each bundle.
//! The token names the rows' host, never the bundle. Absent here: the database ([`super::take`]).

use std::collections::BTreeSet;

use pinfold_hubwire::bundle::{self, Bundle, Head, Live, Part, Receipt};
use pinfold_proto::host::HostPoint;
use pinfold_proto::view::ReportView;
use pinfold_proto::{End, JobState, learned};
use pinfold_topo::Topology;
use sha2::{Digest as _, Sha256};

use super::days::{DAY_US, Fact};
use super::db::{Value, values};
use super::keep::month_of;
use super::runs::RunFact;
use super::take::Sent;
use super::tops::Figures;
use super::{Stopped, Store, StoreError, tops, whole};
use crate::workflow::Run;

/// The longest word of a job in a column, in characters; the figures keep the full word.
pub(crate) const WORD_MAX: usize = 200;

/// The most jobs of a bundle. A host sends 200 at a time.
pub const JOBS_A_BUNDLE: usize = 1_000;

/// The most days on which a bundle's jobs ended: each day's lists are written under the write lock.
pub const DAYS_A_BUNDLE: usize = 400;

/// Why a bundle was not taken.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bundle is invalid: a retry never succeeds.
    #[error("job {job}, part {part}: {what}")]
    Part {
        /// The job's number on its host.
        job: u64,
        /// Number of the part in the job.
        part: u32,
        /// The fault.
        what: &'static str,
    },
}

/// A bundle prepared for writing.
#[derive(Debug)]
pub struct Prepared {
    pub(super) host: i64,
    pub(super) boot: String,
    pub(super) origin: String,
    pub(super) now_us: u64,
    pub(super) month: u32,
    pub(super) parts: Vec<Ready>,
}

/// A part prepared for writing.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) job: u64,
    pub(super) submitted_us: u64,
    pub(super) part: u32,
    pub(super) parts: u32,
    /// The first part's data beside points.
    pub(super) first: Option<First>,
    /// Packed.
    pub(super) points: Option<Vec<u8>>,
}

/// A job prepared for writing.
#[derive(Debug)]
pub(super) struct First {
    /// The columns of the job's row.
    pub(super) row: Vec<Value>,
    /// The packed figures.
    pub(super) head: Vec<u8>,
    /// The job's addition to the sums,
    pub(super) fact: Fact,
    /// and to the lists.
    pub(super) figures: Figures,
}

impl Ready {
    /// The error that refuses the part.
    pub(super) fn wrong(&self, what: &'static str) -> IngestError {
        IngestError::Part { job: self.job, part: self.part, what }
    }
}

/// A host's packed status.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) host: i64,
    pub(super) boot: String,
    pub(super) now_us: u64,
    /// Lead of the host's clock, in microseconds.
    pub(super) ahead_us: i64,
    pub(super) packed: Vec<u8>,
    /// The reading, if present.
    pub(super) point: Option<HostPoint>,
}

impl Prepared {
    /// The rows of this host's bundle, received at this moment.
    ///
    /// # Errors
    /// When a part is invalid: then the whole bundle is refused.
    pub fn of(host: i64, bundle: &Bundle, now_us: u64) -> Result<Self, IngestError> {
        // As a database returns it: PostgreSQL stores no NUL.
        let (origin, month) = (cut(&bundle.origin).replace('\0', "\u{fffd}"), month_of(now_us));
        within_bounds(bundle)?;
        let ready = |part: &Part| ready(part, (host, &origin), (now_us, month));
        let parts = bundle.parts.iter().map(ready).collect::<Result<_, _>>()?;
        Ok(Self { host, boot: cut(&bundle.boot).to_owned(), origin, now_us, month, parts })
    }
}

impl Store {
    /// Writes a bundle of this host. The bundle is on disk on return.
    ///
    /// # Errors
    /// When the database refuses, or a part is invalid: then the whole bundle is refused.
    pub fn ingest(&self, host: i64, bundle: &Bundle, now_us: u64) -> Result<Receipt, IngestError> {
        self.take(Prepared::of(host, bundle, now_us)?)
    }

    /// [`Self::ingest`] of a prepared bundle. Concurrent bundles are written together.
    ///
    /// # Errors
    /// As [`Self::ingest`].
    pub fn take(&self, prepared: Prepared) -> Result<Receipt, IngestError> {
        self.together(Sent::Bundle(prepared))
    }

    /// Stores a host's packed status, for restarts of the hub and absences of the host.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn keep_live(&self, host: i64, live: &Live, packed: Vec<u8>, now_us: u64) -> Result<(), StoreError> {
        let ahead_us = whole(live.sent_us).saturating_sub(whole(now_us));
        let point = live.status.reading.as_deref().copied();
        let told = Told { host, boot: cut(&live.boot).to_owned(), now_us, ahead_us, packed, point };
        match self.together(Sent::Live(told)) {
            Ok(_) => Ok(()),
            Err(IngestError::Store(error)) => Err(error),
            Err(error @ IngestError::Part { .. }) => Err(StoreError::Refused(error.to_string())),
        }
    }
}

impl Store {
    /// Stores the core layout of a host.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn set_topology(&self, host: i64, topology: &Topology) -> Result<(), StoreError> {
        let packed = bundle::pack(topology).map_err(|error| StoreError::Refused(error.to_string()))?;
        let set = "UPDATE hosts SET topology = ?2 WHERE id = ?1";
        self.write_or("keep how a host's cores lie", true, |connection| {
            connection.execute(set, &values![host, packed]).map_err(Stopped::Database)
        })
        .map(drop)
    }

    /// The core layout of a host; `None`: the host sent no layout.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn topology(&self, host: i64) -> Result<Option<Topology>, StoreError> {
        let find = "SELECT topology FROM hosts WHERE id = ?1";
        let packed = self.read("read how a host's cores lie", |connection| {
            connection.first(find, &values![host], |row| row.get::<Option<Vec<u8>>>(0))
        })?;
        // A status of an earlier program is dropped; the host sends it again.
        Ok(packed.flatten().and_then(|packed| bundle::unpack(&packed, bundle::LIVE_MAX_BYTES).ok()))
    }
}

/// Whether the jobs of a bundle are not too many, and not of too many days.
fn within_bounds(bundle: &Bundle) -> Result<(), IngestError> {
    let (mut jobs, mut days) = (0, BTreeSet::new());
    for part in &bundle.parts {
        let Some(head) = &part.head else { continue };
        jobs += 1;
        days.extend(head.report.ended_s.map(|ended_s| bundle::microseconds(ended_s) / DAY_US));
        let what = match (jobs > JOBS_A_BUNDLE, days.len() > DAYS_A_BUNDLE) {
            (false, false) => continue,
            (true, _) => "the bundle has more than 1,000 jobs",
            (_, true) => "the jobs of the bundle ended on more than 400 days",
        };
        return Err(IngestError::Part { job: part.job, part: part.part, what });
    }
    Ok(())
}

fn ready(part: &Part, whose: (i64, &str), when: (u64, u32)) -> Result<Ready, IngestError> {
    let mut ready = Ready {
        job: part.job,
        submitted_us: part.submitted_us,
        part: part.part,
        parts: part.parts,
        first: None,
        points: None,
    };
    if let Some(head) = &part.head {
        ready.first = Some(row(part, head, whose, when).map_err(|what| ready.wrong(what))?);
    }
    if let Some(series) = part.series.as_ref().filter(|series| !series.is_empty()) {
        let points = bundle::pack(series).map_err(|_| ready.wrong("its series cannot be packed"))?;
        ready.points = Some(points);
    }
    Ok(ready)
}

/// The columns of a job's row.
pub(super) const COLUMNS: &str = "host, origin, job, submitted_us, started_us, ended_us, received_us, month, parts, name, \
    \"user\", project, class, priority, exit_code, signal, cores, queued_s, wall_s, suspended_s, cpu_s, cores_used, \
    memory_peak_bytes, memory_mean_bytes, swap_peak_bytes, claim_bytes, limit_bytes, io_read_bytes, io_write_bytes, \
    samples, unused_gibh, idle_core_h, likeness, measured_bytes, workflow, run, step, ended_by";

/// A job's row, packed figures, and addition to the sums.
fn row(
    part: &Part,
    head: &Head,
    (host, origin): (i64, &str),
    (now_us, month): (u64, u32),
) -> Result<First, &'static str> {
    let view = &head.report;
    if view.state != JobState::Exited {
        return Err("it is not over");
    }
    let Some(ended_s) = view.ended_s else { return Err("it has no end") };
    let packed = bundle::pack(head).map_err(|_| "its figures cannot be packed")?;
    let derived = Derived::of(view);
    let run = Run::of(view);
    let class = serde_json::to_value(view.class).ok().and_then(|word| word.as_str().map(str::to_owned));
    let figures = values![
        host,
        origin,
        part.job,
        part.submitted_us,
        view.started_s.map(bundle::microseconds),
        bundle::microseconds(ended_s),
        now_us,
        month,
        part.parts,
        cut(&view.name),
        cut(&view.user),
        view.project.as_deref().map(cut),
        class.unwrap_or_default(),
        view.priority,
        view.exit_code,
        view.signal,
        view.cores.max(1),
        view.queued_s.max(0.0),
        view.wall_s,
        view.suspended_s.max(0.0),
        derived.cpu_s,
        derived.cores_used,
        view.memory_peak_bytes,
        view.memory_mean_bytes,
        view.swap_peak_bytes,
        view.claim_bytes,
        view.limit_bytes,
        view.io_read_bytes,
        view.io_write_bytes,
        view.samples,
        derived.unused_gibh,
        derived.idle_core_h,
        likeness(view),
        measured_bytes(view),
        run.as_ref().map(|run| run.workflow.as_str()),
        run.as_ref().map(|run| run.run.as_str()),
        run.as_ref().map(|run| run.step.as_str()),
        view.end.map(End::as_str),
    ];
    let fact = fact(part, view, &derived, run, (host, month));
    let row: Vec<Value> = figures.into();
    let figures = tops::figures(&row);
    Ok(First { row, head: packed, fact, figures })
}

/// A job's addition to the sums.
fn fact(
    part: &Part,
    view: &ReportView,
    derived: &Derived,
    run: Option<Run>,
    (host, month): (i64, u32),
) -> Fact {
    Fact {
        host,
        month,
        ended_us: view.ended_s.map_or(0, bundle::microseconds),
        name: cut(&view.name).to_owned(),
        user: cut(&view.user).to_owned(),
        project: view.project.as_deref().map(|project| cut(project).to_owned()),
        failed: !view.ended_well(),
        ran: view.started_s.is_some(),
        cores: f64::from(view.cores.max(1)),
        wall_s: view.wall_s.unwrap_or(0.0),
        suspended_s: view.suspended_s.max(0.0),
        queued_s: view.queued_s.max(0.0),
        cpu_s: derived.cpu_s,
        peak_bytes: gib(view.memory_peak_bytes) * GIB,
        claim_bytes: view.claim_bytes.map(|claim| gib(claim) * GIB),
        idle_core_h: derived.idle_core_h,
        unused_gibh: derived.unused_gibh,
        run: run.map(|Run { workflow, version, run, .. }| RunFact {
            workflow,
            version,
            run,
            submitted_us: part.submitted_us,
        }),
    }
}

/// A digest of the job's similarity key, so that no command is stored.
fn likeness(view: &ReportView) -> Option<Vec<u8>> {
    let likeness = learned::likeness(&view.command, &view.name, view.cores)?;
    Some(Sha256::digest(likeness).to_vec())
}

/// The job's peak by the kernel's own count, if its host has the count; its keeper may report more.
fn measured_bytes(view: &ReportView) -> Option<u64> {
    view.memory_peak_kernel_bytes.map(|peak| peak.saturating_add(view.swap_peak_bytes))
}

/// Derived figures.
struct Derived {
    /// CPU time, user and kernel.
    cpu_s: f64,
    /// Mean cores in use while the job ran and was not suspended.
    cores_used: Option<f64>,
    /// Memory requested and never used, in GiB times hours.
    unused_gibh: f64,
    /// Cores requested and not used, in core hours.
    idle_core_h: f64,
}

impl Derived {
    fn of(view: &ReportView) -> Self {
        let cpu_s = (view.cpu_user_s + view.cpu_system_s).max(0.0);
        let wall_s = view.wall_s.unwrap_or(0.0).max(0.0);
        let active_s = (wall_s - view.suspended_s).max(0.0);
        let unused = view.claim_bytes.map_or(0, |claim| claim.saturating_sub(view.memory_peak_bytes));
        Self {
            cpu_s,
            cores_used: (active_s > 0.0).then(|| cpu_s / active_s),
            unused_gibh: gib(unused) * wall_s / 3_600.0,
            idle_core_h: (f64::from(view.cores.max(1)) * active_s - cpu_s).max(0.0) / 3_600.0,
        }
    }
}

const GIB: f64 = 1_073_741_824.0;

#[expect(clippy::cast_precision_loss, reason = "15 digits of a size are enough")]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / GIB
}

fn cut(word: &str) -> &str {
    word.char_indices().nth(WORD_MAX).map_or(word, |(at, _)| &word[..at])
}
