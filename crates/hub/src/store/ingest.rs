//! Bundles become rows. Each part is taken once: what is there already is counted as known. All of a bundle is on disk, or
//! none of it. Whose rows these are the token says, never the bundle.

use pinfold_hubwire::bundle::{self, Bundle, Head, Live, Part, Receipt};
use pinfold_proto::view::ReportView;
use pinfold_proto::{JobState, learned};
use pinfold_topo::Topology;
use sha2::{Digest as _, Sha256};

use super::db::{Connection, DbError, values};
use super::keep::{month_of, series_table};
use super::{Stopped, Store, StoreError, whole};

/// The longest word of a job that becomes a column, in characters; the figures keep the whole.
const WORD_MAX: usize = 200;

/// Why a bundle was not taken.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bundle: it will never be taken.
    #[error("job {job}, part {part}: {what}")]
    Part {
        /// The job.
        job: u64,
        /// The part.
        part: u32,
        /// What is wrong.
        what: &'static str,
    },
}

impl Store {
    /// Takes a bundle of this host. When this returns it is on disk.
    ///
    /// # Errors
    /// When the database refuses, or a part cannot be: then nothing of the bundle is taken.
    pub fn ingest(&self, host: i64, bundle: &Bundle, now_us: u64) -> Result<Receipt, IngestError> {
        self.write_or("take a bundle", true, |connection| {
            // First, so that two hubs that have bundles of one host take them one after the other.
            seen(connection, host, now_us, &bundle.boot)?;
            let month = month_of(now_us);
            let table = series_table(month);
            make_table(connection, &table)?;
            let mut receipt = Receipt { new: 0, known: 0 };
            for part in &bundle.parts {
                let new = take(connection, host, bundle, part, (now_us, month, &table))?;
                if new { receipt.new += 1 } else { receipt.known += 1 }
            }
            Ok(receipt)
        })
    }

    /// Keeps how a host was, for when the hub is restarted or the host is gone.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn keep_live(&self, host: i64, live: &Live, now_us: u64) -> Result<(), StoreError> {
        let packed = bundle::pack(live).map_err(|error| StoreError::Refused(error.to_string()))?;
        self.write("keep how a host is", |connection| {
            seen(connection, host, now_us, &live.boot)?;
            let ahead = whole(live.sent_us).saturating_sub(whole(now_us));
            connection.execute(
                "UPDATE hosts SET live = ?2, clock_ahead_us = ?3 WHERE id = ?1",
                &values![host, packed, ahead],
            )
        })
        .map(drop)
    }
}

impl Store {
    /// Keeps how the cores of a host lie.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn set_topology(&self, host: i64, topology: &Topology) -> Result<(), StoreError> {
        let packed = bundle::pack(topology).map_err(|error| StoreError::Refused(error.to_string()))?;
        let set = "UPDATE hosts SET topology = ?2 WHERE id = ?1";
        self.write("keep how a host's cores lie", |connection| {
            connection.execute(set, &values![host, packed])
        })
        .map(drop)
    }

    /// How the cores of a host lie; `None`: it did not tell.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn topology(&self, host: i64) -> Result<Option<Topology>, StoreError> {
        let find = "SELECT topology FROM hosts WHERE id = ?1";
        let packed = self.read("read how a host's cores lie", |connection| {
            connection.first(find, &values![host], |row| row.get::<Option<Vec<u8>>>(0))
        })?;
        // One that an earlier program wrote is as good as none; the host tells it again.
        Ok(packed.flatten().and_then(|packed| bundle::unpack(&packed, bundle::LIVE_MAX_BYTES).ok()))
    }
}

fn seen(connection: &mut dyn Connection, host: i64, now_us: u64, boot: &str) -> Result<u64, DbError> {
    let set = "UPDATE hosts SET seen_us = ?2, boot = ?3 WHERE id = ?1";
    connection.execute(set, &values![host, now_us, cut(boot)])
}

/// The table of a month, which may be there already.
fn make_table(connection: &mut dyn Connection, table: &str) -> Result<(), DbError> {
    let find = connection.dialect().series_tables();
    if connection.all(find, &[], |row| Ok(row.get::<&str>(0)? == table))?.contains(&true) {
        return Ok(());
    }
    connection.dialect().making(connection)?;
    let make = format!(
        "CREATE TABLE IF NOT EXISTS {table} (job INTEGER NOT NULL, part INTEGER NOT NULL, points BLOB NOT NULL, \
         PRIMARY KEY (job, part)) WITHOUT ROWID"
    );
    connection.batch(&connection.dialect().definitions(&make))
}

/// Says whether the part was new.
fn take(
    connection: &mut dyn Connection,
    host: i64,
    bundle: &Bundle,
    part: &Part,
    (now_us, month, table): (u64, u32, &str),
) -> Result<bool, Stopped<IngestError>> {
    let wrong = |what| Stopped::Own(IngestError::Part { job: part.job, part: part.part, what });
    let row = if let Some(head) = &part.head {
        match insert(connection, host, bundle, (part, head), (now_us, month)) {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(false),
            Err(Stopped::Own(what)) => return Err(wrong(what)),
            Err(Stopped::Database(error)) => return Err(error.into()),
        }
    } else {
        let key = values![host, cut(&bundle.origin), part.job, part.submitted_us];
        let find =
            "SELECT id, parts FROM jobs WHERE host = ?1 AND origin = ?2 AND job = ?3 AND submitted_us = ?4";
        let found = connection.first(find, &key, |row| Ok((row.get::<i64>(0)?, row.get::<u32>(1)?)))?;
        let Some((row, parts)) = found else { return Err(wrong("its first part is not here")) };
        if parts != part.parts {
            return Err(wrong("its first part says that there are other parts"));
        }
        let put = "INSERT INTO later_parts (job, part) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
        if connection.execute(put, &values![row, part.part])? == 0 {
            return Ok(false);
        }
        row
    };
    if let Some(series) = part.series.as_ref().filter(|series| !series.is_empty()) {
        let points = bundle::pack(series).map_err(|_| wrong("its series cannot be packed"))?;
        let put = format!(
            "INSERT INTO {table} (job, part, points) VALUES (?1, ?2, ?3) \
             ON CONFLICT (job, part) DO UPDATE SET points = excluded.points"
        );
        connection.execute(&put, &values![row, part.part, points])?;
    }
    Ok(true)
}

const INSERT: &str = "INSERT INTO jobs (host, origin, job, submitted_us, started_us, ended_us, received_us, month, parts, \
    name, \"user\", project, class, priority, exit_code, signal, cores, queued_s, wall_s, suspended_s, cpu_s, cores_used, \
    memory_peak_bytes, memory_mean_bytes, swap_peak_bytes, claim_bytes, limit_bytes, io_read_bytes, io_write_bytes, \
    samples, unused_gibh, idle_core_h, likeness, measured_bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, \
    ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34) ON CONFLICT DO NOTHING RETURNING id";

/// The row of a job that is new; `None`: it is there already.
fn insert(
    connection: &mut dyn Connection,
    host: i64,
    bundle: &Bundle,
    (part, head): (&Part, &Head),
    (now_us, month): (u64, u32),
) -> Result<Option<i64>, Stopped<&'static str>> {
    let view = &head.report;
    if view.state != JobState::Exited {
        return Err(Stopped::Own("it is not over"));
    }
    let Some(ended_s) = view.ended_s else { return Err(Stopped::Own("it has no end")) };
    let packed = bundle::pack(head).map_err(|_| Stopped::Own("its figures cannot be packed"))?;
    let derived = Derived::of(view);
    let class = serde_json::to_value(view.class).ok().and_then(|word| word.as_str().map(str::to_owned));
    let figures = values![
        host,
        cut(&bundle.origin),
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
    ];
    let Some(row) = connection.first(INSERT, &figures, |row| row.get::<i64>(0))? else { return Ok(None) };
    connection.execute("INSERT INTO heads (job, head) VALUES (?1, ?2)", &values![row, packed])?;
    Ok(Some(row))
}

/// What a job has in common with those like it, as a digest: no command is kept for that.
fn likeness(view: &ReportView) -> Option<Vec<u8>> {
    let likeness = learned::likeness(&view.command, &view.name, view.cores)?;
    Some(Sha256::digest(likeness).to_vec())
}

/// What a job held by the kernel's own count, where its host has that; its keeper may tell of more.
fn measured_bytes(view: &ReportView) -> Option<u64> {
    view.memory_peak_kernel_bytes.map(|peak| peak.saturating_add(view.swap_peak_bytes))
}

/// Figures that follow from others.
struct Derived {
    /// CPU time, user and kernel.
    cpu_s: f64,
    /// Mean cores in use while it ran and was not frozen.
    cores_used: Option<f64>,
    /// Memory claimed and never used, in GiB times hours.
    unused_gibh: f64,
    /// Cores asked for and not used, in core hours.
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

#[expect(clippy::cast_precision_loss, reason = "15 digits of a size are enough")]
fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1u32 << 30)
}

fn cut(word: &str) -> &str {
    word.char_indices().nth(WORD_MAX).map_or(word, |(at, _)| &word[..at])
}
