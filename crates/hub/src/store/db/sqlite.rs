//! SQLite in one file: one connection writes, a few read beside it. What a transaction changed is on disk when it is over.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{ErrorCode, OpenFlags, ToSql, TransactionBehavior, params_from_iter};

use super::{Connection, DbError, Dialect, Row, Value};
use crate::store::QUESTION_MAX;

/// Connections that read.
const READERS: usize = 4;

/// The most pages of a bounded database that hosts cannot fill: 4 MiB.
const PAGES_KEPT_MAX: i64 = 1_024;

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
    readers: Vec<Mutex<rusqlite::Connection>>,
    /// How many pages hosts may fill.
    pages_max: Option<i64>,
}

/// Makes the file for its owner alone, if it is missing: it tells of all users' jobs. Its log gets the same rights.
pub(in super::super) fn private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    std::fs::File::options().write(true).create(true).truncate(false).mode(0o600).open(path).map(drop)
}

/// Only for reading.
pub(in super::super) fn open_read_only(path: &Path) -> Result<rusqlite::Connection, DbError> {
    Ok(rusqlite::Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?)
}

impl Sqlite {
    /// Opens the file, which is there, and has `begin` prepare it. `max_bytes` bounds it.
    pub(in super::super) fn open<E: From<DbError>>(
        path: &Path,
        max_bytes: Option<u64>,
        begin: impl FnOnce(&mut dyn Connection) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut writer = connect(path, OpenFlags::default())?;
        within(&mut writer, begin)?;
        let pages_max = max_bytes.map(|max_bytes| bound(&writer, max_bytes)).transpose()?;
        let reading = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let readers = (0..READERS).map(|_| connect(path, reading).map(Mutex::new));
        Ok(Self { writer: Mutex::new(writer), readers: readers.collect::<Result<_, _>>()?, pages_max })
    }

    /// What it takes on disk, without its log.
    pub(in super::super) fn bytes(&self) -> Result<u64, DbError> {
        let connection = lock(&self.readers[0]);
        let count = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        Ok(u64::try_from(count("page_count")?.saturating_mul(count("page_size")?)).unwrap_or(0))
    }

    /// Reads, for a bounded time.
    pub(in super::super) fn read<T>(
        &self,
        ask: impl FnOnce(&mut dyn Connection) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        let free = self.readers.iter().find_map(|reader| reader.try_lock().ok());
        let mut connection = free.unwrap_or_else(|| lock(&self.readers[0]));
        let until = Instant::now() + QUESTION_MAX;
        connection.progress_handler(10_000, Some(move || Instant::now() > until))?;
        let answer = ask(&mut Open(&connection));
        let _ = connection.progress_handler(0, None::<fn() -> bool>);
        answer
    }

    /// Writes in one transaction. `for_hosts`: only as far as hosts may fill the database.
    pub(in super::super) fn write<T, E: From<DbError>>(
        &self,
        for_hosts: bool,
        change: impl FnOnce(&mut dyn Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut writer = lock(&self.writer);
        let most = self.pages_max.filter(|_| for_hosts);
        within(&mut writer, |connection| {
            let done = change(connection)?;
            if let Some(most) = most {
                // What was removed counts no more.
                let mut count = |text: &str| connection.first(text, &[], |row| row.get::<i64>(0));
                let pages = count("PRAGMA page_count")?.unwrap_or(0);
                if pages - count("PRAGMA freelist_count")?.unwrap_or(0) > most {
                    return Err(DbError::Full.into());
                }
            }
            Ok(done)
        })
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

/// A connection whose holder panicked is as good as before: its transaction was rolled back.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connect(path: &Path, flags: OpenFlags) -> Result<rusqlite::Connection, DbError> {
    let connection = rusqlite::Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.set_prepared_statement_cache_capacity(64);
    if !flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY) {
        connection.pragma_update(None, "journal_mode", "wal")?;
        // A host forgets what is acknowledged, so that it has to outlive a power cut.
        connection.pragma_update(None, "synchronous", "full")?;
    }
    connection.pragma_update(None, "foreign_keys", "on")?;
    connection.pragma_update(None, "trusted_schema", "off")?;
    Ok(connection)
}

/// Bounds the database, and says how many pages hosts may fill: the rest is for signing in and revoking although they did.
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

impl Connection for Open<'_> {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    fn execute(&mut self, text: &str, values: &[Value]) -> Result<u64, DbError> {
        Ok(self.0.prepare_cached(text)?.execute(params_from_iter(values))? as u64)
    }

    fn each(
        &mut self,
        text: &str,
        values: &[Value],
        of: &mut dyn FnMut(&Row) -> Result<ControlFlow<()>, DbError>,
    ) -> Result<(), DbError> {
        let mut statement = self.0.prepare_cached(text)?;
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
