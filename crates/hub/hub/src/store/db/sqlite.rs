//! SQLite in a file: a single connection writes, a few read beside it. A committed transaction is on disk. Writes go to
//! the log first, and from there to the file; overlapping readers prevent a restart of the log, so that beyond a bound
//! new readers wait briefly.

mod readers;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{ErrorCode, OpenFlags, ToSql, TransactionBehavior, params_from_iter};

use self::readers::Readers;
use super::{Connection, DbError, Dialect, Row, Value, is_kept};
use crate::store::QUESTION_MAX;

/// Connections for reading.
const READERS: usize = 4;

/// The most pages of a bounded database that hosts cannot fill: 4 MiB.
const PAGES_KEPT_MAX: i64 = 1_024;

/// The longest log before readers have to wait, and its size on disk after a restart, in bytes.
const LOG_MAX_BYTES: u64 = 256 << 20;
const LOG_KEPT_BYTES: i64 = 64 << 20;

/// Time limit of a wait for another program's lock.
const BUSY: Duration = Duration::from_secs(10);

/// Retry interval after another program's read kept the log from being emptied.
const LOG_AGAIN: Duration = Duration::from_secs(30);

impl From<rusqlite::Error> for DbError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::OperationInterrupted) => Self::TooLong,
            Some(ErrorCode::ConstraintViolation) => Self::Exists,
            Some(ErrorCode::DatabaseBusy) => Self::Away(error.into()),
            _ => Self::Other(error.into()),
        }
    }
}

/// A database in a file.
#[derive(Debug)]
pub(in super::super) struct Sqlite {
    writer: Mutex<rusqlite::Connection>,
    readers: Readers,
    /// The most pages that hosts may fill.
    pages_max: Option<i64>,
    log: PathBuf,
    log_max_bytes: u64,
    /// When the log could not be emptied.
    failed: Mutex<Option<Instant>>,
}

/// Makes a missing file for its owner alone: it has all users' jobs. Its log gets the same rights.
pub(in super::super) fn private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::File::options().write(true).create(true).truncate(false).mode(0o600).open(path).map(drop)
}

pub(in super::super) fn open_read_only(path: &Path) -> Result<rusqlite::Connection, DbError> {
    Ok(rusqlite::Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?)
}

impl Sqlite {
    /// Opens the existing file, and lets `begin` prepare the database. `max_bytes` bounds the database.
    pub(in super::super) fn open<E: From<DbError>>(
        path: &Path,
        max_bytes: Option<u64>,
        begin: impl FnOnce(&mut dyn Connection) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut writer = connect(path, OpenFlags::default())?;
        within(&mut writer, begin)?;
        let pages_max = max_bytes.map(|max_bytes| bound(&writer, max_bytes)).transpose()?;
        let reading = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let readers = (0..READERS).map(|_| connect(path, reading)).collect::<Result<_, _>>()?;
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Ok(Self {
            writer: Mutex::new(writer),
            readers: Readers::new(readers),
            pages_max,
            log: log.into(),
            log_max_bytes: LOG_MAX_BYTES,
            failed: Mutex::default(),
        })
    }

    /// Size on disk without the log, in bytes.
    pub(in super::super) fn bytes(&self) -> Result<u64, DbError> {
        let connection = self.readers.take(Instant::now() + QUESTION_MAX)?;
        let count = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        Ok(u64::try_from(count("page_count")?.saturating_mul(count("page_size")?)).unwrap_or(0))
    }

    /// Reads, for a bounded time that includes the wait for a connection.
    pub(in super::super) fn read<T>(
        &self,
        ask: impl FnOnce(&mut dyn Connection) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        let until = Instant::now() + QUESTION_MAX;
        let mut connection = self.readers.take(until)?;
        connection.progress_handler(10_000, Some(move || Instant::now() > until))?;
        let answer = ask(&mut Open(&connection));
        let _ = connection.progress_handler(0, None::<fn() -> bool>);
        answer
    }

    /// Writes in a transaction. `for_hosts`: refused beyond the part of the database that hosts may fill.
    pub(in super::super) fn write<T, E: From<DbError>>(
        &self,
        for_hosts: bool,
        change: impl FnOnce(&mut dyn Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut writer = lock(&self.writer);
        let most = self.pages_max.filter(|_| for_hosts);
        let done = within(&mut writer, |connection| {
            let done = change(connection)?;
            if let Some(most) = most {
                // Free pages do not count.
                let mut count = |text: &str| connection.first(text, &[], |row| row.get::<i64>(0));
                let pages = count("PRAGMA page_count")?.unwrap_or(0);
                if pages - count("PRAGMA freelist_count")?.unwrap_or(0) > most {
                    return Err(DbError::Full.into());
                }
            }
            Ok(done)
        });
        self.bound_log(&writer);
        done
    }

    /// Empties a log beyond its bound into the file, which is possible only between queries.
    fn bound_log(&self, writer: &rusqlite::Connection) {
        if !std::fs::metadata(&self.log).is_ok_and(|log| log.len() > self.log_max_bytes) {
            return;
        }
        let mut failed = lock(&self.failed);
        if failed.is_some_and(|failed| failed.elapsed() < LOG_AGAIN) {
            return;
        }
        let emptied = self.readers.kept_out(Instant::now() + QUESTION_MAX, || {
            // Another program's read, as of a copy, is not waited for: hosts would wait meanwhile.
            writer.busy_timeout(Duration::ZERO)?;
            let busy = writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
            writer.busy_timeout(BUSY)?;
            busy
        });
        *failed = if matches!(emptied, Some(Ok(0))) { None } else { Some(Instant::now()) };
    }
}

fn within<T, E: From<DbError>>(
    writer: &mut rusqlite::Connection,
    change: impl FnOnce(&mut dyn Connection) -> Result<T, E>,
) -> Result<T, E> {
    let transaction =
        writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(DbError::from)?;
    let done = change(&mut Open(&transaction))?;
    transaction.commit().map_err(DbError::from)?;
    Ok(done)
}

/// A connection is reusable after its holder's panic: its transaction was rolled back.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<rusqlite::Connection, DbError> {
    let connection = rusqlite::Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(64);
    if !flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update_and_check(None, "journal_size_limit", LOG_KEPT_BYTES, |_| Ok(()))?;
        // A host forgets acknowledged bundles, so they have to outlive a power cut.
        connection.pragma_update(None, "synchronous", "full")?;
    }
    connection.pragma_update(None, "foreign_keys", "on")?;
    connection.pragma_update(None, "trusted_schema", "off")?;
    Ok(connection)
}

/// Bounds the database, and returns the pages for hosts: the rest is for signing in and revoking when full.
fn bound(connection: &rusqlite::Connection, max_bytes: u64) -> Result<i64, DbError> {
    let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let pages = (i64::try_from(max_bytes).unwrap_or(i64::MAX) / page.max(1)).max(1);
    connection.pragma_update_and_check(None, "max_page_count", pages, |row| row.get::<_, i64>(0))?;
    Ok(pages - (pages / 16).min(PAGES_KEPT_MAX))
}

struct Open<'a>(&'a rusqlite::Connection);

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::None => ValueRef::Null,
            Self::Whole(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl Open<'_> {
    /// Runs `work` with the text's prepared statement.
    fn with<T>(
        &self,
        text: &str,
        work: impl FnOnce(&mut rusqlite::Statement<'_>) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        if is_kept(text) {
            work(&mut *self.0.prepare_cached(text)?)
        } else {
            work(&mut self.0.prepare(text)?)
        }
    }
}

impl Connection for Open<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&mut self, text: &str, values: &[Value]) -> Result<u64, DbError> {
        self.with(text, |statement| Ok(statement.execute(params_from_iter(values))? as u64))
    }

    fn each(
        &mut self,
        text: &str,
        values: &[Value],
        of: &mut dyn FnMut(&Row) -> Result<ControlFlow<()>, DbError>,
    ) -> Result<(), DbError> {
        self.with(text, |statement| {
            let columns = statement.column_count();
            let mut rows = statement.query(params_from_iter(values))?;
            let mut read = Row::default();
            while let Some(row) = rows.next()? {
                read.0.clear();
                for at in 0..columns {
                    read.0.push(value(row.get_ref(at)?)?);
                }
                if of(&read)?.is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    fn batch(&mut self, text: &str) -> Result<(), DbError> {
        Ok(self.0.execute_batch(text)?)
    }
}

fn value(found: ValueRef<'_>) -> Result<Value, DbError> {
    Ok(match found {
        ValueRef::Null => Value::None,
        ValueRef::Integer(number) => Value::Whole(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => {
            let text = str::from_utf8(text).map_err(|error| DbError::Unread(error.into()))?;
            Value::Text(text.to_owned())
        }
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Overlapping readers each hold a part of the log, and prevent its restart.
    #[test]
    fn a_long_log_is_emptied_although_somebody_always_reads() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.db");
        let make = |connection: &mut dyn Connection| connection.batch("CREATE TABLE x (y BLOB)");
        let mut database = Sqlite::open::<DbError>(&file, None, make).unwrap();
        database.log_max_bytes = 1 << 20;
        let database = &database;
        let add = || {
            let text = "INSERT INTO x (y) VALUES (randomblob(400000))";
            database.write::<_, DbError>(false, |connection| connection.execute(text, &[])).unwrap();
        };
        add();
        let log_bytes = || std::fs::metadata(&database.log).unwrap().len();
        // A query that runs until it is ended.
        let reading = |begun: mpsc::Sender<()>, end: mpsc::Receiver<()>| {
            database.read(|connection| {
                connection.each("SELECT length(y) FROM x", &[], &mut |_| {
                    begun.send(()).unwrap();
                    let _ = end.recv();
                    Ok(ControlFlow::Break(()))
                })
            })
        };
        std::thread::scope(|scope| {
            let (begun, begins) = mpsc::channel();
            let (end, ends) = mpsc::channel();
            scope.spawn(move || reading(begun, ends).unwrap());
            begins.recv().unwrap();
            add();
            assert!(log_bytes() > 400_000);
            let adding = scope.spawn(|| (0..2).for_each(|_| add()));
            while !database.readers.are_kept_out() {
                assert!(!adding.is_finished(), "the log was left as it is: {} bytes", log_bytes());
                std::thread::yield_now();
            }
            end.send(()).unwrap();
        });
        // On a busy machine the question may have ended after the time of a question.
        *lock(&database.failed) = None;
        database.bound_log(&lock(&database.writer));
        assert!(log_bytes() < 1 << 20, "{} bytes", log_bytes());
        let count =
            database.read(|connection| connection.first("SELECT count(*) FROM x", &[], |row| row.get(0)));
        assert_eq!(count.unwrap(), Some(4i64));
    }

    #[test]
    fn a_long_text_is_not_kept_prepared() {
        let mut connection = rusqlite::Connection::open_in_memory().unwrap();
        // The hook runs at each preparation of a statement.
        let prepared = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let of_hook = std::sync::Arc::clone(&prepared);
        let hook = move |context: rusqlite::hooks::AuthContext<'_>| {
            let is_select = matches!(context.action, rusqlite::hooks::AuthAction::Select);
            of_hook.fetch_add(u32::from(is_select), std::sync::atomic::Ordering::Relaxed);
            rusqlite::hooks::Authorization::Allow
        };
        connection.authorizer(Some(hook)).unwrap();
        let asked = |text: &str| {
            for _ in 0..3 {
                Open(&connection).each(text, &[], &mut |_| Ok(ControlFlow::Continue(()))).unwrap();
            }
            prepared.swap(0, std::sync::atomic::Ordering::Relaxed)
        };
        assert_eq!(asked("SELECT 1"), 1);
        let numbers = (0..6_000).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
        assert_eq!(asked(&format!("SELECT 1 WHERE 7 IN ({numbers})")), 3);
    }
}
