//! PostgreSQL: several hubs may share a database. Connections are made on demand, and anew after an outage of the
//! server. An interrupted transaction is not retried here, for its outcome is unknown: hosts send the bundle again, and
//! repeated parts do not count twice.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator as _;
use postgres::types::private::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, NoTls, Statement};

use super::{Connection, DbError, Dialect, Row, Value, is_kept};
use crate::store::QUESTION_MAX;

mod address;
mod tls;

pub(in super::super) use self::address::{Address, address, name_of};

/// Connections for reading, and for writing.
const READERS: usize = 4;
const WRITERS: usize = 3;

/// Overrides the server's configuration: acknowledged changes outlive a power cut, and with a synchronous standby the
/// loss of the server. No timeout cuts the wait for the standby short: an expired wait would look like a success.
const LASTING: &str = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') \
                       IN ('off', 'local', 'remote_write'); SET LOCAL statement_timeout = 0";

/// Interval of measurements of a bounded database.
const MEASURED_EVERY: Duration = Duration::from_secs(10);

/// The most prepared statements of a connection.
const STATEMENTS_MAX: usize = 200;

impl From<postgres::Error> for DbError {
    fn from(error: postgres::Error) -> Self {
        let Some(code) = error.code().cloned() else { return Self::Away(error.into()) };
        match code {
            SqlState::QUERY_CANCELED => Self::TooLong,
            SqlState::DISK_FULL => Self::Full,
            SqlState::UNIQUE_VIOLATION => Self::Exists,
            SqlState::T_R_SERIALIZATION_FAILURE
            | SqlState::T_R_DEADLOCK_DETECTED
            | SqlState::LOCK_NOT_AVAILABLE
            | SqlState::ADMIN_SHUTDOWN
            | SqlState::CRASH_SHUTDOWN
            | SqlState::CANNOT_CONNECT_NOW
            | SqlState::TOO_MANY_CONNECTIONS
            // The server is a standby by now.
            | SqlState::READ_ONLY_SQL_TRANSACTION => Self::Away(error.into()),
            _ => Self::Other(error.into()),
        }
    }
}

/// A database of a server.
#[derive(Debug)]
pub(in super::super) struct Postgres {
    address: Address,
    readers: Pool,
    writers: Pool,
    max_bytes: Option<u64>,
    measured: Mutex<Option<(Instant, u64)>>,
}

/// Connections, each for one transaction at a time.
#[derive(Debug)]
struct Pool {
    places: Vec<Mutex<Option<Open>>>,
    next: AtomicUsize,
}

struct Open {
    client: Client,
    /// Time after which no query begins.
    until: Option<Instant>,
    statements: HashMap<String, Statement>,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open").field("statements", &self.statements.len()).finish_non_exhaustive()
    }
}

impl Pool {
    fn new(places: usize) -> Self {
        Self { places: (0..places).map(|_| Mutex::default()).collect(), next: AtomicUsize::new(0) }
    }

    /// A free connection. After a panic its place is reusable: the connection is gone.
    fn free(&self) -> Option<MutexGuard<'_, Option<Open>>> {
        self.places.iter().find_map(|place| match place.try_lock() {
            Ok(place) => Some(place),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        })
    }

    fn place(&self) -> MutexGuard<'_, Option<Open>> {
        self.free().unwrap_or_else(|| {
            let at = self.next.fetch_add(1, Ordering::Relaxed) % self.places.len();
            self.places[at].lock().unwrap_or_else(PoisonError::into_inner)
        })
    }
}

impl Drop for Pool {
    /// Closing a client blocks, which is forbidden on threads that drive other connections.
    fn drop(&mut self) {
        let places = std::mem::take(&mut self.places);
        let _ = std::thread::Builder::new().spawn(move || drop(places));
    }
}

impl Postgres {
    /// Connects, and lets `begin` prepare the database. `max_bytes` bounds the database.
    pub(in super::super) fn open<E: From<DbError>>(
        address: Address,
        max_bytes: Option<u64>,
        begin: impl FnOnce(&mut dyn Connection) -> Result<(), E>,
    ) -> Result<Self, E> {
        let database = Self {
            address,
            readers: Pool::new(READERS),
            writers: Pool::new(WRITERS),
            max_bytes,
            measured: Mutex::default(),
        };
        database.write(false, begin)?;
        Ok(database)
    }

    /// Size of the database on the server's disk, in bytes.
    pub(in super::super) fn bytes(&self) -> Result<u64, DbError> {
        let measure = "SELECT pg_database_size(current_database())";
        Ok(self.read(|connection| connection.first(measure, &[], |row| row.get(0)))?.unwrap_or(0))
    }

    /// Reads from a single snapshot. Each query's time is bounded, and the last query begins within the same bound.
    pub(in super::super) fn read<T>(
        &self,
        ask: impl FnOnce(&mut dyn Connection) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        self.within(&self.readers, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", |open| {
            open.until = Some(Instant::now() + QUESTION_MAX);
            let answer = ask(open);
            open.until = None;
            answer
        })
    }

    /// The first row of a query, without a transaction: a single round trip to the server.
    pub(in super::super) fn first<T>(
        &self,
        text: &str,
        values: &[Value],
        of: impl Fn(&Row) -> Result<T, DbError>,
    ) -> Result<Option<T>, DbError> {
        let mut place = self.readers.place();
        if let Some(mut open) = place.take() {
            let found = (&mut open as &mut dyn Connection).first(text, values, &of);
            if !open.client.is_closed() {
                *place = Some(open);
                return found;
            }
        }
        let mut open = self.connect()?;
        let found = (&mut open as &mut dyn Connection).first(text, values, &of);
        *place = Some(open);
        found
    }

    /// Whether there are several servers, and the primary waits for no standby.
    pub(in super::super) fn is_alone(&self) -> Result<bool, DbError> {
        let ask = "SELECT current_setting('synchronous_standby_names')";
        Ok(self.address.servers() > 1
            && self.first(ask, &[], |row| row.get::<String>(0))?.is_some_and(|names| names.is_empty()))
    }

    /// Writes in a transaction. `for_hosts`: refused beyond the part of the database that hosts may fill.
    pub(in super::super) fn write<T, E: From<DbError>>(
        &self,
        for_hosts: bool,
        change: impl FnOnce(&mut dyn Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        if for_hosts && self.is_full()? {
            return Err(DbError::Full.into());
        }
        self.within(&self.writers, &format!("BEGIN; {LASTING}"), |open| change(open))
    }

    /// Whether hosts have filled their part: all but a sixteenth.
    fn is_full(&self) -> Result<bool, DbError> {
        let Some(most) = self.max_bytes else { return Ok(false) };
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = match *measured {
            Some((at, bytes)) if at.elapsed() < MEASURED_EVERY => bytes,
            _ => {
                let bytes = self.bytes()?;
                *measured = Some((Instant::now(), bytes));
                bytes
            }
        };
        Ok(bytes > most - most / 16)
    }

    fn within<T, E: From<DbError>>(
        &self,
        pool: &Pool,
        begin: &str,
        work: impl FnOnce(&mut Open) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut place = pool.place();
        // The connection leaves its place during the work: a panic then closes it within its transaction.
        let mut open = self.begun(place.take(), begin)?;
        match work(&mut open) {
            Ok(done) => {
                open.client.batch_execute("COMMIT").map_err(DbError::from)?;
                *place = Some(open);
                Ok(done)
            }
            Err(error) => {
                *place = open.client.batch_execute("ROLLBACK").is_ok().then_some(open);
                Err(error)
            }
        }
    }

    /// A connection in a transaction. A dead pooled connection is replaced.
    fn begun(&self, open: Option<Open>, begin: &str) -> Result<Open, DbError> {
        if let Some(mut open) = open
            && open.client.batch_execute(begin).is_ok()
        {
            return Ok(open);
        }
        let mut open = self.connect()?;
        open.client.batch_execute(begin)?;
        Ok(open)
    }

    fn connect(&self) -> Result<Open, DbError> {
        let Address { config, tls } = &self.address;
        let mut client = match tls {
            None => config.connect(NoTls)?,
            Some(tls) => config.connect(tls.clone())?,
        };
        // Changes have no time limit.
        client.batch_execute(&format!("SET statement_timeout = {}", QUESTION_MAX.as_millis()))?;
        Ok(Open { client, until: None, statements: HashMap::new() })
    }
}

impl Open {
    fn statement(&mut self, text: &str) -> Result<Statement, DbError> {
        if self.until.is_some_and(|until| Instant::now() > until) {
            return Err(DbError::TooLong);
        }
        if let Some(statement) = self.statements.get(text) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&places(text)).map_err(failed(self.until.is_some()))?;
        if !is_kept(text) {
            return Ok(statement);
        }
        if self.statements.len() >= STATEMENTS_MAX {
            self.statements.clear();
        }
        self.statements.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}

/// The cause of a failure. In reads, a query that was left early may have timed out and ended the transaction, which
/// the next query then reports.
fn failed(reads: bool) -> impl Fn(postgres::Error) -> DbError {
    move |error| {
        let ended = error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION);
        if ended && reads { DbError::TooLong } else { error.into() }
    }
}

/// `?1` as `$1`. No text of the store has the sign for anything else.
fn places(text: &str) -> String {
    text.replace('?', "$")
}

impl Connection for Open {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn execute(&mut self, text: &str, values: &[Value]) -> Result<u64, DbError> {
        let statement = self.statement(text)?;
        let mut rows = self.client.query_raw(&statement, values)?;
        while rows.next()?.is_some() {}
        Ok(rows.rows_affected().unwrap_or(0))
    }

    fn each(
        &mut self,
        text: &str,
        values: &[Value],
        of: &mut dyn FnMut(&Row) -> Result<ControlFlow<()>, DbError>,
    ) -> Result<(), DbError> {
        let statement = self.statement(text)?;
        let failed = failed(self.until.is_some());
        let mut rows = self.client.query_raw(&statement, values).map_err(&failed)?;
        let mut read = Row::default();
        while let Some(row) = rows.next().map_err(&failed)? {
            read.0.clear();
            for at in 0..row.len() {
                read.0.push(row.try_get(at)?);
            }
            if of(&read)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn batch(&mut self, text: &str) -> Result<(), DbError> {
        Ok(self.client.batch_execute(text)?)
    }
}

type Boxed = Box<dyn std::error::Error + Sync + Send>;

impl ToSql for Value {
    #[expect(clippy::cast_precision_loss, reason = "15 digits are enough where a number is compared")]
    fn to_sql(&self, of: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        match (self, of) {
            (Self::None, _) => Ok(IsNull::Yes),
            (Self::Whole(number), &Type::INT8) => number.to_sql(of, out),
            (Self::Whole(number), &Type::INT4) => i32::try_from(*number)?.to_sql(of, out),
            (Self::Whole(number), &Type::FLOAT8) => (*number as f64).to_sql(of, out),
            (Self::Real(number), &Type::FLOAT8) => number.to_sql(of, out),
            // PostgreSQL cannot store NUL in text.
            (Self::Text(text), _) if text.contains('\0') => text.replace('\0', "\u{fffd}").to_sql(of, out),
            (Self::Text(text), _) => text.to_sql(of, out),
            (Self::Blob(bytes), _) => bytes.to_sql(of, out),
            (value, of) => Err(format!("{value:?} is no {of}").into()),
        }
    }

    fn accepts(of: &Type) -> bool {
        matches!(*of, Type::INT4 | Type::INT8 | Type::FLOAT8 | Type::TEXT | Type::BYTEA)
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Value {
    fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Self, Boxed> {
        Ok(match *of {
            Type::INT8 => Self::Whole(i64::from_sql(of, raw)?),
            Type::INT4 => Self::Whole(i32::from_sql(of, raw)?.into()),
            Type::FLOAT8 => Self::Real(f64::from_sql(of, raw)?),
            Type::BYTEA => Self::Blob(<&[u8]>::from_sql(of, raw)?.to_vec()),
            _ => Self::Text(<&str>::from_sql(of, raw)?.to_owned()),
        })
    }

    fn from_sql_null(_: &Type) -> Result<Self, Boxed> {
        Ok(Self::None)
    }

    fn accepts(of: &Type) -> bool {
        matches!(*of, Type::INT4 | Type::INT8 | Type::FLOAT8 | Type::TEXT | Type::BYTEA)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_takes_no_place_away() {
        let pool = Pool::new(2);
        for _ in 0..3 {
            let panicked = std::thread::scope(|scope| {
                let asks = || {
                    let _both = (pool.free().unwrap(), pool.free().unwrap());
                    panic!("the disk is gone")
                };
                scope.spawn(asks).join().is_err()
            });
            assert!(panicked);
        }
        let (one, other) = (pool.free(), pool.free());
        assert!(one.is_some() && other.is_some() && pool.free().is_none());
    }
}
