//! PostgreSQL: several hubs may serve one database. Connections are made as they are needed, and anew after the server was
//! away; a transaction that was cut off is not begun again by itself, for nobody knows whether it was done: hosts hand a
//! bundle over again, and nothing counts twice.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use postgres::config::Host;
use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator as _;
use postgres::types::private::BytesMut;
use postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use postgres::{Client, Config, NoTls, Statement};

use super::{Connection, DbError, Dialect, Row, Value};
use crate::store::QUESTION_MAX;

/// Connections that read, and that write.
const READERS: usize = 4;
const WRITERS: usize = 3;

/// How long it may take to reach the server.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How often a bounded database is measured.
const MEASURED_EVERY: Duration = Duration::from_secs(10);

/// Where Debian's server listens.
const SOCKETS: &str = "/var/run/postgresql";

/// Statements that a connection keeps prepared.
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
    config: Config,
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

    fn place(&self) -> MutexGuard<'_, Option<Open>> {
        self.places.iter().find_map(|place| place.try_lock().ok()).unwrap_or_else(|| {
            let at = self.next.fetch_add(1, Ordering::Relaxed) % self.places.len();
            self.places[at].lock().unwrap_or_else(PoisonError::into_inner)
        })
    }
}

impl Drop for Pool {
    /// A client waits for its farewell, which no thread may that drives other connections.
    fn drop(&mut self) {
        let places = std::mem::take(&mut self.places);
        let _ = std::thread::Builder::new().spawn(move || drop(places));
    }
}

/// Reads `postgres://...`. `None` for the password: that of `PGPASSWORD`.
///
/// # Errors
/// When it cannot be read, or the way to the server is open to the network.
pub(in super::super) fn config(url: &str) -> Result<Config, String> {
    let mut config: Config = url.parse().map_err(|error: postgres::Error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("that is no address of a PostgreSQL database: {error}{cause}")
    })?;
    if config.get_hosts().is_empty() {
        config.host_path(SOCKETS);
    }
    for host in config.get_hosts() {
        let Host::Tcp(name) = host else { continue };
        let here = name == "localhost" || name.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        if !here {
            return Err(format!(
                "{name}: the hub speaks to PostgreSQL without TLS, so that it has to be on this host: name a socket \
                 (postgres:///DATABASE) or a loopback address, to which a tunnel with TLS or ssh may lead"
            ));
        }
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_MAX);
    }
    if config.get_password().is_none()
        && let Ok(password) = std::env::var("PGPASSWORD")
    {
        config.password(password);
    }
    config.application_name("pinfold-hub");
    Ok(config)
}

/// Which database it is, without what is secret in its address.
pub(in super::super) fn name_of(url: &str) -> String {
    let Ok(config) = url.parse::<Config>() else { return "postgres".to_owned() };
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        })
        .collect();
    format!("postgres database {} at {}", config.get_dbname().unwrap_or("of its user"), hosts.join(","))
}

impl Postgres {
    /// Reaches the server, and has `begin` prepare the database. `max_bytes` bounds it.
    pub(in super::super) fn open<E: From<DbError>>(
        config: Config,
        max_bytes: Option<u64>,
        begin: impl FnOnce(&mut dyn Connection) -> Result<(), E>,
    ) -> Result<Self, E> {
        let database = Self {
            config,
            readers: Pool::new(READERS),
            writers: Pool::new(WRITERS),
            max_bytes,
            measured: Mutex::default(),
        };
        database.write(false, begin)?;
        Ok(database)
    }

    /// What the database takes on the server's disk.
    pub(in super::super) fn bytes(&self) -> Result<u64, DbError> {
        let measure = "SELECT pg_database_size(current_database())";
        Ok(self.read(|connection| connection.first(measure, &[], |row| row.get(0)))?.unwrap_or(0))
    }

    /// Reads, all as of one moment, each question for a bounded time.
    pub(in super::super) fn read<T>(
        &self,
        ask: impl FnOnce(&mut dyn Connection) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        let bound = format!("SET LOCAL statement_timeout = {}", QUESTION_MAX.as_millis());
        let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {bound}");
        self.within(&self.readers, &begin, ask)
    }

    /// Writes in one transaction. `for_hosts`: only as far as hosts may fill the database.
    pub(in super::super) fn write<T, E: From<DbError>>(
        &self,
        for_hosts: bool,
        change: impl FnOnce(&mut dyn Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        if for_hosts && self.is_full()? {
            return Err(DbError::Full.into());
        }
        // Whatever the server's configuration says: what is acknowledged outlives a power cut.
        let lasting = "SELECT set_config('synchronous_commit', 'on', true) WHERE \
                       current_setting('synchronous_commit') = 'off'";
        self.within(&self.writers, &format!("BEGIN; {lasting}"), change)
    }

    /// Whether hosts have filled what they may: all but a sixteenth.
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
        work: impl FnOnce(&mut dyn Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut place = pool.place();
        // Out of its place while it works: after a panic it is closed, not used again in the middle of a transaction.
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

    /// A connection in a transaction. One that was left from before and is dead by now is replaced.
    fn begun(&self, open: Option<Open>, begin: &str) -> Result<Open, DbError> {
        if let Some(mut open) = open
            && open.client.batch_execute(begin).is_ok()
        {
            return Ok(open);
        }
        let mut client = self.config.connect(NoTls)?;
        client.batch_execute(begin)?;
        Ok(Open { client, statements: HashMap::new() })
    }
}

impl Open {
    fn statement(&mut self, text: &str) -> Result<Statement, DbError> {
        if let Some(statement) = self.statements.get(text) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&places(text))?;
        if self.statements.len() >= STATEMENTS_MAX {
            self.statements.clear();
        }
        self.statements.insert(text.to_owned(), statement.clone());
        Ok(statement)
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
        let mut rows = self.client.query_raw(&statement, values)?;
        let mut read = Row::default();
        while let Some(row) = rows.next()? {
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
            // The one sign that PostgreSQL keeps in no text.
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
    fn only_ways_that_nobody_reads_are_taken() {
        for good in
            ["postgres:///hub", "postgres://hub@localhost/hub", "postgresql:///hub?host=/tmp/x&user=hub"]
        {
            assert!(config(good).is_ok(), "{good}");
        }
        assert!(config("postgres://db.example/hub").unwrap_err().contains("TLS"));
        assert!(config("postgres:///hub?zz=1").unwrap_err().contains("zz"));
    }
}
