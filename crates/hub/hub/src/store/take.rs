//! Writing of hosts' bundles. Bundles that arrive during a transaction wait, and the next transaction writes them
//! together: a transaction costs a wait for the disk, which many hosts share. Known parts are counted and not written
//! again. A bundle is on disk in full, or not at all.
//!
//! Absent here: how bundles become rows ([`super::ingest`]), and the queue ([`line`]).

mod line;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pinfold_hubwire::bundle::Receipt;

pub(super) use self::line::Line;
use pinfold_proto::host::HostPoint;

use super::days::{Added, DAY_US};
use super::db::{Connection, DbError, Value, values};
use super::ingest::{COLUMNS, First, IngestError, Prepared, Ready, Told};
use super::keep::series_table;
use super::{Stopped, Store, StoreError, tops, whole};

/// Rows in a statement; few sizes make few statements to prepare.
pub(super) const ROWS: [usize; 4] = [64, 16, 4, 1];

/// A message of a host.
#[derive(Debug)]
pub(super) enum Sent {
    Bundle(Prepared),
    Live(Told),
}

impl Sent {
    const fn host(&self) -> (i64, u64, &String) {
        match self {
            Self::Bundle(bundle) => (bundle.host, bundle.now_us, &bundle.boot),
            Self::Live(told) => (told.host, told.now_us, &told.boot),
        }
    }

    /// The parts of a bundle.
    fn bundled(&self) -> &[Ready] {
        match self {
            Self::Bundle(bundle) => &bundle.parts,
            Self::Live(_) => &[],
        }
    }

    const fn parts(&self) -> usize {
        match self {
            Self::Bundle(bundle) => bundle.parts.len(),
            Self::Live(_) => 1,
        }
    }
}

type Outcome = Result<Receipt, IngestError>;

impl Store {
    /// Writes a host's message together with concurrent messages of other hosts.
    pub(super) fn together(&self, sent: Sent) -> Outcome {
        self.line.pass(sent, |batch| self.write_all(batch))
    }

    fn write_all(&self, batch: &[Sent]) -> Vec<Outcome> {
        match self.write_batch(batch) {
            Ok(outcomes) => outcomes,
            Err(IngestError::Store(error @ (StoreError::Away { .. } | StoreError::TooLong))) => {
                batch.iter().map(|_| Err(again(&error).into())).collect()
            }
            Err(error) if batch.len() == 1 => vec![Err(error)],
            // A message that cannot be written must not fail the other messages.
            Err(_) => batch
                .iter()
                .map(|one| self.write_batch(std::slice::from_ref(one))?.pop().unwrap_or(Ok(NOTHING)))
                .collect(),
        }
    }

    /// Writes all messages except refused bundles, or none.
    fn write_batch(&self, batch: &[Sent]) -> Result<Vec<Outcome>, IngestError> {
        self.write_or("take what hosts sent", true, |connection| {
            heard(connection, batch)?;
            let months: BTreeSet<u32> = batch
                .iter()
                .filter_map(|sent| if let Sent::Bundle(bundle) = sent { Some(bundle.month) } else { None })
                .collect();
            months.iter().try_for_each(|&month| make_table(connection, &series_table(month)))?;
            take(connection, batch)
        })
    }
}

const NOTHING: Receipt = Receipt { new: 0, known: 0 };

/// Copies the error for another sender.
fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::TooLong => StoreError::TooLong,
        error => StoreError::Away { source: DbError::Away(error.to_string().into()) },
    }
}

/// Notes that hosts were heard, in the order of host numbers: hubs with bundles of the same hosts then cannot deadlock.
fn heard(connection: &mut dyn Connection, batch: &[Sent]) -> Result<(), DbError> {
    let last: BTreeMap<i64, &Sent> = batch.iter().map(|sent| (sent.host().0, sent)).collect();
    for sent in last.into_values() {
        let (host, now_us, boot) = sent.host();
        let set = "UPDATE hosts SET seen_us = ?2, boot = ?3 WHERE id = ?1";
        connection.execute(set, &values![host, now_us, boot])?;
    }
    for sent in batch {
        let Sent::Live(told) = sent else { continue };
        let set = "UPDATE hosts SET live = ?2, clock_ahead_us = ?3 WHERE id = ?1";
        connection.execute(set, &values![told.host, &told.packed[..], told.ahead_us])?;
        if let Some(point) = &told.point {
            keep_reading(connection, told.host, told.now_us, point)?;
        }
    }
    Ok(())
}

/// Stores a reading, and removes the host's readings older than a day.
fn keep_reading(
    connection: &mut dyn Connection,
    host: i64,
    now_us: u64,
    point: &HostPoint,
) -> Result<(), DbError> {
    let add = "INSERT INTO minutes (host, time_us, cpu_busy, memory_bytes, swap_bytes, stalled) \
               VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING";
    let (memory, swap) = (point.memory_used_bytes, point.swap_used_bytes);
    connection
        .execute(add, &values![host, now_us, point.cpu_busy, memory, swap, point.memory_full_stalled])?;
    let old = values![host, now_us.saturating_sub(DAY_US)];
    connection.execute("DELETE FROM minutes WHERE host = ?1 AND time_us < ?2", &old).map(drop)
}

/// Makes the table of a month unless it exists.
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

/// The key of a job: host, instance of the daemon, number, time of submission.
type Key = (i64, String, i64, i64);

fn key(bundle: &Prepared, part: &Ready) -> Key {
    (bundle.host, bundle.origin.clone(), whole(part.job), whole(part.submitted_us))
}

fn take(connection: &mut dyn Connection, batch: &[Sent]) -> Result<Vec<Outcome>, Stopped<IngestError>> {
    let mut refused = refused(connection, batch)?;
    let good = batch.iter().enumerate().filter(|(at, _)| !refused.contains_key(at));
    let rows: Vec<&[Value]> = good
        .flat_map(|(_, sent)| sent.bundled())
        .filter_map(|part| part.first.as_ref().map(|first| &first.row[..]))
        .collect();
    let mut new: HashMap<Key, i64> = HashMap::new();
    insert(
        connection,
        ("jobs", COLUMNS, "ON CONFLICT DO NOTHING RETURNING id, host, origin, job, submitted_us"),
        &rows,
        |row| {
            new.insert((row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?), row.get(0)?);
            Ok(())
        },
    )?;
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut written = Written { new, ..Written::default() };
    for (at, sent) in batch.iter().enumerate() {
        outcomes.push(match (refused.remove(&at), sent) {
            (Some(error), _) => Err(error),
            (None, Sent::Bundle(bundle)) => Ok(written.add(connection, bundle)?),
            (None, Sent::Live(_)) => Ok(NOTHING),
        });
    }
    written.write(connection)?;
    Ok(outcomes)
}

/// A transaction's writes beside the rows of jobs.
#[derive(Default)]
struct Written {
    /// Rows of new jobs; the first part of a job in the batch takes its row.
    new: HashMap<Key, i64>,
    heads: Vec<[Value; 2]>,
    added: Added,
    tops: tops::Added,
    series: BTreeMap<u32, Vec<[Value; 3]>>,
}

impl Written {
    fn add(
        &mut self,
        connection: &mut dyn Connection,
        bundle: &Prepared,
    ) -> Result<Receipt, Stopped<IngestError>> {
        let mut receipt = NOTHING;
        for part in &bundle.parts {
            let row = match &part.first {
                Some(First { head, fact, figures, .. }) => {
                    let row = self.new.remove(&key(bundle, part));
                    self.heads.extend(row.map(|row| values![row, &head[..]]));
                    if let Some(row) = row {
                        self.added.add(fact);
                        self.tops.add(row, fact.ended_us, figures);
                    }
                    row
                }
                None => later(connection, bundle, part)?,
            };
            if row.is_some() {
                receipt.new += 1
            } else {
                receipt.known += 1
            }
            if let (Some(row), Some(points)) = (row, &part.points) {
                self.series.entry(bundle.month).or_default().push(values![row, part.part, &points[..]]);
            }
        }
        Ok(receipt)
    }

    fn write(self, connection: &mut dyn Connection) -> Result<(), DbError> {
        self.added.write(connection)?;
        self.tops.write(connection)?;
        let heads: Vec<&[Value]> = self.heads.iter().map(|row| &row[..]).collect();
        insert(connection, ("heads", "job, head", ""), &heads, |_| Ok(()))?;
        for (month, rows) in self.series {
            let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
            let table = series_table(month);
            // Parts of a removed job may remain under the row's number.
            let end = "ON CONFLICT (job, part) DO UPDATE SET points = excluded.points";
            insert(connection, (&table, "job, part, points", end), &rows, |_| Ok(()))?;
        }
        Ok(())
    }
}

/// Bundles to refuse, by position: a later part has no known job, or its job has other parts.
fn refused(connection: &mut dyn Connection, batch: &[Sent]) -> Result<BTreeMap<usize, IngestError>, DbError> {
    let mut refused = BTreeMap::new();
    // Number of parts of new jobs in earlier bundles of the batch.
    let mut brought: HashMap<Key, u32> = HashMap::new();
    for (at, sent) in batch.iter().enumerate() {
        let Sent::Bundle(bundle) = sent else { continue };
        let (mut own, mut known) = (HashMap::new(), HashMap::new());
        let mut wrong = None;
        for part in &bundle.parts {
            let key = key(bundle, part);
            if part.first.is_some() {
                own.entry(key).or_insert(part.parts);
                continue;
            }
            if !known.contains_key(&key) {
                let kept = kept(connection, bundle, part)?.map(|(_, parts)| parts);
                known.insert(key.clone(), kept);
            }
            let there = known.get(&key).copied().flatten();
            let parts = there.or_else(|| brought.get(&key).copied()).or_else(|| own.get(&key).copied());
            if let Err(error) = fits(part, parts) {
                wrong = Some(error);
                break;
            }
        }
        match wrong {
            Some(error) => drop(refused.insert(at, error)),
            None => own.into_iter().for_each(|(key, parts)| {
                brought.entry(key).or_insert(parts);
            }),
        }
    }
    Ok(refused)
}

/// Whether a later part fits the number of parts in its job's first part.
fn fits(part: &Ready, parts: Option<u32>) -> Result<(), IngestError> {
    match parts {
        None => Err(part.wrong("its first part is not here")),
        Some(parts) if parts != part.parts => {
            Err(part.wrong("its first part says that there are other parts"))
        }
        Some(_) => Ok(()),
    }
}

/// The row of a part's job, and the job's number of parts; `None`: unknown job.
fn kept(
    connection: &mut dyn Connection,
    bundle: &Prepared,
    part: &Ready,
) -> Result<Option<(i64, u32)>, DbError> {
    let find =
        "SELECT id, parts FROM jobs WHERE host = ?1 AND origin = ?2 AND job = ?3 AND submitted_us = ?4";
    let key = values![bundle.host, &bundle.origin, part.job, part.submitted_us];
    connection.first(find, &key, |row| Ok((row.get(0)?, row.get(1)?)))
}

/// The row of a new later part's job; `None`: the part is known.
fn later(
    connection: &mut dyn Connection,
    bundle: &Prepared,
    part: &Ready,
) -> Result<Option<i64>, Stopped<IngestError>> {
    let found = kept(connection, bundle, part)?;
    fits(part, found.map(|(_, parts)| parts)).map_err(Stopped::Own)?;
    let put = "INSERT INTO later_parts (job, part) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    let Some((row, _)) = found else { return Ok(None) };
    Ok((connection.execute(put, &values![row, part.part])? > 0).then_some(row))
}

/// Inserts rows, many at a time. `end`: the SQL behind the values.
pub(super) fn insert(
    connection: &mut dyn Connection,
    (table, columns, end): (&str, &str, &str),
    mut rows: &[&[Value]],
    mut of: impl FnMut(&super::db::Row) -> Result<(), DbError>,
) -> Result<(), DbError> {
    for count in ROWS {
        while rows.len() >= count {
            let (now, rest) = rows.split_at(count);
            let values: Vec<Value> = now.iter().copied().flatten().cloned().collect();
            let text =
                format!("INSERT INTO {table} ({columns}) VALUES {} {end}", places(count, now[0].len()));
            connection.each(&text, &values, &mut |row| {
                of(row)?;
                Ok(std::ops::ControlFlow::Continue(()))
            })?;
            rows = rest;
        }
    }
    Ok(())
}

/// `(?1, ?2), (?3, ?4)` for two rows of two values.
fn places(rows: usize, columns: usize) -> String {
    let row = |at: usize| {
        let places: Vec<String> = (1..=columns).map(|column| format!("?{}", at * columns + column)).collect();
        format!("({})", places.join(", "))
    };
    (0..rows).map(row).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use pinfold_hubwire::bundle::{self, Bundle, Part, WIRE_VERSION};
    use pinfold_proto::view::ReportView;
    use serde_json::json;

    use super::*;

    #[test]
    fn places_are_counted_on() {
        assert_eq!(places(2, 3), "(?1, ?2, ?3), (?4, ?5, ?6)");
        assert_eq!(places(1, 1), "(?1)");
    }

    fn sent(host: i64, bundle: &Bundle) -> Sent {
        Sent::Bundle(Prepared::of(host, bundle, 1_700_000_000_000_000).unwrap())
    }

    #[test]
    fn one_that_is_refused_undoes_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_file(&dir.path().join("hub.db"), None).unwrap();
        let host = "INSERT INTO hosts (id, name, made_us) VALUES (1, 'alpha', 1)";
        store.write("add a host", |connection| connection.execute(host, &[])).unwrap();
        let report = |job: u64| -> ReportView {
            serde_json::from_value(json!({
                "version": 1, "job": job, "name": "x", "command": [], "user": "ann", "project": null, "state": "exited",
                "class": "primary", "priority": 10, "cpus": null, "submitted_s": 1.0, "started_s": 2.0, "ended_s": 3.0,
                "exit_code": 0, "signal": null, "reason": null, "queued_s": 1.0, "wall_s": 1.0, "suspended_s": 0.0,
                "cpu_user_s": 1.0, "cpu_system_s": 0.0, "cores": 1, "claim_bytes": null, "memory_peak_bytes": 1,
                "memory_mean_bytes": 0, "cache_peak_bytes": null, "swap_peak_bytes": 0, "virtual_peak_bytes": 0,
                "io_read_bytes": 0, "io_write_bytes": 0, "processes_total": 1, "processes_peak": 1, "threads_peak": 1,
                "samples": 1,
            }))
            .unwrap()
        };
        // The first part of a job, and a later part.
        let of = |job: u64, behind: &[u32], parts: u32| {
            let mut all = bundle::parts(report(job), Vec::new());
            all[0].parts = parts;
            let later = |part: &u32| Part { part: *part, head: None, ..all[0].clone() };
            let later: Vec<Part> = behind.iter().map(later).collect();
            all.extend(later);
            all
        };
        let made = |parts: Vec<Part>| Bundle {
            version: WIRE_VERSION,
            origin: "o".into(),
            boot: "b".into(),
            made_us: 0,
            parts,
        };
        let batch = [
            sent(1, &made(of(1, &[1], 3))),
            // Without its first part; with other parts than its first part says; behind a refused bundle.
            sent(1, &made([of(2, &[], 1), of(3, &[1], 2)[1..].to_vec()].concat())),
            sent(1, &made(of(1, &[2], 4)[1..].to_vec())),
            sent(1, &made(of(2, &[1], 1)[1..].to_vec())),
            sent(1, &made(of(1, &[1, 2], 3)[1..].to_vec())),
            sent(1, &made(of(4, &[], 1))),
        ];
        // In one transaction.
        let outcomes = store.write_batch(&batch).unwrap();
        let told: Vec<String> = outcomes
            .iter()
            .map(|outcome| match outcome {
                Ok(receipt) => format!("{} new, {} known", receipt.new, receipt.known),
                Err(error) => error.to_string(),
            })
            .collect();
        let want = [
            "2 new, 0 known",
            "job 3, part 1: its first part is not here",
            "job 1, part 2: its first part says that there are other parts",
            "job 2, part 1: its first part is not here",
            "1 new, 1 known",
            "1 new, 0 known",
        ];
        assert_eq!(told, want);
        assert_eq!(store.totals().unwrap().0, 2);
    }
}
