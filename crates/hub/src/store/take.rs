//! Writing what hosts sent. What comes while a transaction is under way waits, and is written together in the next one:
//! a transaction costs a wait for the disk, and many hosts share it. Each part is taken once: what is there already is
//! counted as known. All of a bundle is on disk, or none of it.
//!
//! Owner of state: those that wait. Absent here: what rows are made of ([`super::ingest`]).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use pinfold_hubwire::bundle::Receipt;

use super::days::Added;
use super::db::{Connection, DbError, Value, values};
use super::ingest::{COLUMNS, First, IngestError, Prepared, Ready, Told};
use super::keep::series_table;
use super::{Stopped, Store, StoreError, tops, whole};

/// The most that one transaction writes: of hosts, and of parts.
const SENT_AT_ONCE: usize = 128;
const PARTS_AT_ONCE: usize = 1_024;

/// Rows of one statement, so that there are few statements to prepare.
pub(super) const ROWS: [usize; 4] = [64, 16, 4, 1];

/// What a host sent.
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

    const fn parts(&self) -> usize {
        match self {
            Self::Bundle(bundle) => bundle.parts.len(),
            Self::Live(_) => 1,
        }
    }
}

type Outcome = Result<Receipt, IngestError>;

/// Those that wait to be written, and what became of those that were.
#[derive(Debug, Default)]
pub(super) struct Line {
    state: Mutex<State>,
    written: Condvar,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    waiting: BTreeMap<u64, Sent>,
    done: HashMap<u64, Outcome>,
    /// Whether somebody writes.
    writing: bool,
}

impl State {
    /// The first ones, as many as one transaction writes.
    fn batch(&mut self) -> Vec<(u64, Sent)> {
        let (mut batch, mut parts) = (Vec::new(), 0);
        while let Some(next) = self.waiting.first_entry() {
            parts += next.get().parts();
            if !batch.is_empty() && (parts > PARTS_AT_ONCE || batch.len() >= SENT_AT_ONCE) {
                break;
            }
            batch.push(next.remove_entry());
        }
        batch
    }
}

/// Whoever writes; when this is dropped, also by a panic, another one may.
struct Writing<'a>(&'a Line);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.state().writing = false;
        self.0.written.notify_all();
    }
}

impl Line {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has it written: by whoever writes next, which may be this thread.
    fn pass(&self, sent: Sent, write: impl Fn(&[Sent]) -> Vec<Outcome>) -> Outcome {
        let mut state = self.state();
        let ticket = state.next;
        state.next += 1;
        state.waiting.insert(ticket, sent);
        loop {
            if let Some(outcome) = state.done.remove(&ticket) {
                return outcome;
            }
            if state.writing {
                state = self.written.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            if !state.waiting.contains_key(&ticket) {
                // The thread that had it panicked.
                return Err(StoreError::Refused("it was not written: send it again".to_owned()).into());
            }
            let (tickets, batch): (Vec<u64>, Vec<Sent>) = state.batch().into_iter().unzip();
            state.writing = true;
            let writing = Writing(self);
            drop(state);
            let outcomes = write(&batch);
            self.state().done.extend(tickets.into_iter().zip(outcomes));
            drop(writing);
            state = self.state();
        }
    }
}

impl Store {
    /// Writes what a host sent, together with what others send meanwhile.
    pub(super) fn together(&self, sent: Sent) -> Outcome {
        self.line.pass(sent, |batch| self.write_all(batch))
    }

    fn write_all(&self, batch: &[Sent]) -> Vec<Outcome> {
        match self.write_batch(batch) {
            Ok(receipts) => receipts.into_iter().map(Ok).collect(),
            Err(IngestError::Store(error @ (StoreError::Away { .. } | StoreError::TooLong))) => {
                batch.iter().map(|_| Err(again(&error).into())).collect()
            }
            Err(error) if batch.len() == 1 => vec![Err(error)],
            // One of them cannot be written: that is no reason for the others to wait.
            Err(_) => batch
                .iter()
                .map(|one| {
                    Ok(self.write_batch(std::slice::from_ref(one))?.first().copied().unwrap_or(NOTHING))
                })
                .collect(),
        }
    }

    /// All of them or none.
    fn write_batch(&self, batch: &[Sent]) -> Result<Vec<Receipt>, IngestError> {
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

/// The same error for another one.
fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::TooLong => StoreError::TooLong,
        error => StoreError::Away { source: DbError::Away(error.to_string().into()) },
    }
}

/// Notes that hosts were heard, the lowest number first: two hubs that have bundles of the same hosts write them one
/// after the other, and neither waits for the other.
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
    }
    Ok(())
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

/// What a job is known by: host, instance of the daemon, number, time of submission.
type Key = (i64, String, i64, i64);

fn key(bundle: &Prepared, part: &Ready) -> Key {
    (bundle.host, bundle.origin.clone(), whole(part.job), whole(part.submitted_us))
}

fn take(connection: &mut dyn Connection, batch: &[Sent]) -> Result<Vec<Receipt>, Stopped<IngestError>> {
    let bundles =
        || batch.iter().filter_map(|sent| if let Sent::Bundle(one) = sent { Some(one) } else { None });
    let rows: Vec<&[Value]> = bundles()
        .flat_map(|bundle| {
            bundle.parts.iter().filter_map(|part| part.first.as_ref().map(|first| &first.row[..]))
        })
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
    let (mut receipts, mut heads) = (Vec::new(), Vec::new());
    let (mut added, mut tops) = (Added::default(), tops::Added::default());
    let mut series: BTreeMap<u32, Vec<[Value; 3]>> = BTreeMap::new();
    for sent in batch {
        let mut receipt = NOTHING;
        if let Sent::Bundle(bundle) = sent {
            for part in &bundle.parts {
                let row = match &part.first {
                    Some(First { head, fact, figures, .. }) => {
                        let row = new.remove(&key(bundle, part));
                        heads.extend(row.map(|row| values![row, &head[..]]));
                        if let Some(row) = row {
                            added.add(fact);
                            tops.add(row, fact.ended_us, figures);
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
                    series.entry(bundle.month).or_default().push(values![row, part.part, &points[..]]);
                }
            }
        }
        receipts.push(receipt);
    }
    added.write(connection)?;
    tops.write(connection)?;
    let heads: Vec<&[Value]> = heads.iter().map(|row| &row[..]).collect();
    insert(connection, ("heads", "job, head", ""), &heads, |_| Ok(()))?;
    for (month, rows) in series {
        let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
        let table = series_table(month);
        // What a job had that was removed may be there under its row's number.
        let end = "ON CONFLICT (job, part) DO UPDATE SET points = excluded.points";
        insert(connection, (&table, "job, part, points", end), &rows, |_| Ok(()))?;
    }
    Ok(receipts)
}

/// The row of the job of a later part that is new; `None`: the part is there already.
fn later(
    connection: &mut dyn Connection,
    bundle: &Prepared,
    part: &Ready,
) -> Result<Option<i64>, Stopped<IngestError>> {
    let find =
        "SELECT id, parts FROM jobs WHERE host = ?1 AND origin = ?2 AND job = ?3 AND submitted_us = ?4";
    let key = values![bundle.host, &bundle.origin, part.job, part.submitted_us];
    let found = connection.first(find, &key, |row| Ok((row.get::<i64>(0)?, row.get::<u32>(1)?)))?;
    let wrong = |what| Err(Stopped::Own(part.wrong(what)));
    let Some((row, parts)) = found else { return wrong("its first part is not here") };
    if parts != part.parts {
        return wrong("its first part says that there are other parts");
    }
    let put = "INSERT INTO later_parts (job, part) VALUES (?1, ?2) ON CONFLICT DO NOTHING";
    Ok((connection.execute(put, &values![row, part.part])? > 0).then_some(row))
}

/// Puts rows into a table, many at a time. `end`: what follows the values.
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
    use super::*;

    #[test]
    fn places_are_counted_on() {
        assert_eq!(places(2, 3), "(?1, ?2, ?3), (?4, ?5, ?6)");
        assert_eq!(places(1, 1), "(?1)");
    }

    fn told(host: i64) -> Sent {
        Sent::Live(Told { host, boot: String::new(), now_us: 0, ahead_us: 0, packed: Vec::new() })
    }

    #[test]
    fn what_comes_meanwhile_is_written_together() {
        let line = Line::default();
        let sizes = Mutex::new(Vec::new());
        let (begun, first) = std::sync::mpsc::channel();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let wait = Mutex::new(wait);
        let write = |batch: &[Sent]| {
            let mut sizes = sizes.lock().unwrap();
            if sizes.is_empty() {
                begun.send(()).unwrap();
                wait.lock().unwrap().recv().unwrap();
            }
            sizes.push(batch.len());
            batch.iter().map(|_| Ok(NOTHING)).collect()
        };
        let write = &write;
        std::thread::scope(|scope| {
            let line = &line;
            scope.spawn(move || line.pass(told(0), write).unwrap());
            first.recv().unwrap();
            for host in 1..=5 {
                scope.spawn(move || line.pass(told(host), write).unwrap());
            }
            while line.state().waiting.len() < 5 {
                std::thread::yield_now();
            }
            go.send(()).unwrap();
        });
        assert_eq!(*sizes.lock().unwrap(), [1, 5]);
    }

    #[test]
    fn a_panic_holds_nobody_up() {
        let line = Line::default();
        let panicked = std::thread::scope(|scope| {
            scope.spawn(|| line.pass(told(0), |_| panic!("the disk is gone"))).join().is_err()
        });
        assert!(panicked);
        assert!(line.pass(told(1), |batch| batch.iter().map(|_| Ok(NOTHING)).collect()).is_ok());
    }
}
