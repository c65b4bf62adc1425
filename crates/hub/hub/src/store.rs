//! The hub's store: hosts, tokens, sessions, jobs, series, and the audit. The interface knows no SQL: SQLite in one
//! file stands behind it, or PostgreSQL, which several hubs may share. Both read the same query text ([`db`]).
//!
//! Each query has a bounded time. Acknowledged changes are on disk. Owner of state: the database. Absent here: HTTP,
//! pages, and authorization.
//!
//! Writing: `ingest` and `take` (bundles to rows), `days`, `runs`, `tops`, `sketch` (sums kept as jobs come), `keep`
//! (retention). Reading: `list`, `query`, `summary`, `weeks`, `columns`, `failed`. Authorization: `access`, `tokens`.
//! The database: `db`, `schema`, `generation`, `copy`; `learned`.

mod access;
pub mod choices;
pub mod columns;
mod copy;
mod curves;
mod days;
mod db;
mod failed;
mod generation;
mod ingest;
mod keep;
mod learned;
mod list;
pub(crate) mod minutes;
mod query;
mod runs;
mod schema;
mod sketch;
mod summary;
mod take;
mod tokens;
mod tops;
mod weeks;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use db::{Connection, Postgres, Sqlite};

pub use access::{Access, Grant};
pub use copy::{Copied, Restored, backup, restore, verify};
pub use days::DAY_US;
pub use db::DbError;
pub(crate) use ingest::WORD_MAX;
pub use ingest::{DAYS_A_BUNDLE, IngestError, JOBS_A_BUNDLE, Prepared};
pub use keep::{Keep, Kept, month_of};
pub use learned::{RUNS_MIN, Whose, class_of};
pub use list::{READ_MAX, Way};
pub use query::{
    Answered, Cell, Ending, HostRow, JobDetail, JobPage, JobQuery, JobRow, OFFSET_MAX, PAGE_MAX, POINTS_MAX,
    ReportQuery, Reported, TABLE_MAX,
};
pub use runs::{EARLIER_MAX, RUN_JOBS_MAX, RUNS_MAX, RunDetail, RunJob, RunKey, RunRow};
pub use schema::VERSION as SCHEMA_VERSION;
pub use sketch::ERROR_PART;
pub use summary::{ClassRow, Group, Spread, Summary, UsageRow};
pub use tokens::{AuditRow, Holder, Kind, LinkFor, Revoked, Session, TokenRow, is_name};
pub use weeks::{ClassRun, LAST_WEEKS, Weeks};

/// Time limit of a query.
pub const QUESTION_MAX: Duration = Duration::from_secs(5);

/// Why the store could not do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused.
    #[error("failed to {what}")]
    Database {
        /// The operation, for the message.
        what: &'static str,
        /// The cause.
        source: DbError,
    },
    /// The database is unreachable, or busy with another change: a retry may succeed.
    #[error("the database is not there now; ask again in a moment")]
    Away {
        /// The cause.
        source: DbError,
    },
    /// The disk is full, or the database has reached its bound.
    #[error(
        "there is no room for more in the database: its disk is full, or `database_max` is reached (PostgreSQL gives room \
         of what was removed back by VACUUM FULL alone)"
    )]
    Full,
    /// The question would take too long.
    #[error("that takes longer than {} s: ask for a shorter time, or by host, user or name", QUESTION_MAX.as_secs())]
    TooLong,
    /// The database is of a later version.
    #[error(
        "{name}: the database has version {found}, and this program knows versions up to {known}: use the later program"
    )]
    Later {
        /// The database.
        name: String,
        /// The database's version.
        found: u32,
        /// The latest schema version that this program knows.
        known: u32,
    },
    /// No hub has a database there.
    #[error(
        "{0}: no hub's database is there; if the name is right, `pinfold-hub serve` makes one, and so does `pinfold-hub token`"
    )]
    Missing(String),
    /// A file could not be used.
    #[error("failed to {what} {}", .path.display())]
    File {
        /// The operation, for the message.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A copy is damaged.
    #[error("{}: {what}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        what: String,
    },
    /// An invalid request.
    #[error("{0}")]
    Refused(String),
    /// Another host has the name or the key.
    #[error("{0}")]
    Taken(String),
    /// Too many requests.
    #[error("{0}")]
    TooMany(String),
}

impl StoreError {
    /// For `map_err`.
    fn doing(what: &'static str) -> impl Fn(DbError) -> Self {
        move |source| match source {
            DbError::Full => Self::Full,
            DbError::TooLong => Self::TooLong,
            source @ DbError::Away(_) => Self::Away { source },
            source => Self::Database { what, source },
        }
    }
}

/// Why a change is not made: by the database, or by the store's own rules.
enum Stopped<E> {
    Database(DbError),
    Own(E),
}

impl<E> From<DbError> for Stopped<E> {
    fn from(error: DbError) -> Self {
        Self::Database(error)
    }
}

impl<E: From<StoreError>> Stopped<E> {
    fn while_doing(what: &'static str) -> impl Fn(Self) -> E {
        move |stopped| match stopped {
            Self::Database(error) => StoreError::doing(what)(error).into(),
            Self::Own(error) => error,
        }
    }
}

/// The store of a hub.
#[derive(Debug)]
pub struct Store {
    database: Database,
    line: take::Line,
}

#[derive(Debug)]
enum Database {
    Sqlite(Box<Sqlite>),
    Postgres(Box<Postgres>),
}

/// The location of a database.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// A file of SQLite.
    File(PathBuf),
    /// The address of a PostgreSQL server.
    Server(String),
}

impl std::fmt::Display for Location {
    /// Shows the location without its password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Server(url) => db::name_of(url).fmt(f),
        }
    }
}

impl std::fmt::Debug for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Parses a database's name: `sqlite:FILE` or `postgres://...`.
///
/// # Errors
/// When the name has another form.
pub fn location(url: &str) -> Result<Location, String> {
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        return db::address(url).map(|_| Location::Server(url.to_owned()));
    }
    match url.strip_prefix("sqlite:") {
        Some(file) if !file.is_empty() => Ok(Location::File(PathBuf::from(file))),
        _ => Err("sqlite:FILE or postgres://... is wanted, as in sqlite:/var/lib/pinfold-hub/hub.db or postgres:///hub"
            .to_owned()),
    }
}

/// The hub's clock, in microseconds since the Unix epoch.
#[must_use]
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// A day from now; a later end comes from a clock that was ahead.
fn latest_us() -> u64 {
    now_us().saturating_add(DAY_US)
}

/// Fails unless the file of a database exists.
fn is_there(path: &Path) -> Result<(), StoreError> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(()),
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::File { what: "open", path: path.to_owned(), source })
        }
        _ => Err(StoreError::Missing(path.display().to_string())),
    }
}

/// A number as databases store it, capped.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Store {
    /// Opens the database, creates missing tables, and migrates the schema to this version. `max_bytes` bounds its
    /// size; `None`: the disk does.
    ///
    /// # Errors
    /// When the database cannot be opened, is damaged, or is of a later version.
    pub fn open(at: &Location, max_bytes: Option<u64>) -> Result<Self, StoreError> {
        Self::prepared(at, max_bytes, |connection| schema::migrate(&at.to_string(), connection))
    }

    /// Opens a database that a hub made; never creates a database.
    ///
    /// # Errors
    /// As [`Self::open`], and when the database does not exist.
    pub fn open_existing(at: &Location) -> Result<Self, StoreError> {
        if let Location::File(path) = at {
            is_there(path)?;
        }
        Self::prepared(at, None, |connection| match schema::version(connection)? {
            0 => Err(Stopped::Own(StoreError::Missing(at.to_string()))),
            _ => schema::migrate(&at.to_string(), connection),
        })
    }

    fn prepared(
        at: &Location,
        max_bytes: Option<u64>,
        prepare: impl FnOnce(&mut dyn Connection) -> Result<(), Stopped<StoreError>>,
    ) -> Result<Self, StoreError> {
        let database = match at {
            Location::File(path) => {
                db::private(path).map_err(|source| StoreError::File {
                    what: "open",
                    path: path.clone(),
                    source,
                })?;
                Sqlite::open(path, max_bytes, prepare).map(|sqlite| Database::Sqlite(Box::new(sqlite)))
            }
            Location::Server(url) => {
                let address = db::address(url).map_err(StoreError::Refused)?;
                Postgres::open(address, max_bytes, prepare)
                    .map(|postgres| Database::Postgres(Box::new(postgres)))
            }
        };
        let database = database.map_err(Stopped::while_doing("open the database"))?;
        Ok(Self { database, line: take::Line::default() })
    }

    /// [`Self::open`] for a file.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_file(path: &Path, max_bytes: Option<u64>) -> Result<Self, StoreError> {
        Self::open(&Location::File(path.to_owned()), max_bytes)
    }

    /// Whether other hubs may serve the same database.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self.database, Database::Postgres(_))
    }

    /// Size of the database on disk, without its log, in bytes.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn bytes(&self) -> Result<u64, StoreError> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.bytes(),
            Database::Postgres(postgres) => postgres.bytes(),
        }
        .map_err(StoreError::doing("measure the database"))
    }

    /// Whether a promoted standby may lack acknowledged changes: there are several servers, and the primary waits for
    /// no standby.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn is_alone(&self) -> Result<bool, StoreError> {
        match &self.database {
            Database::Sqlite(_) => Ok(false),
            Database::Postgres(postgres) => {
                postgres.is_alone().map_err(StoreError::doing("look for standbys"))
            }
        }
    }

    /// The first row of a query that runs with every request.
    fn first<T>(
        &self,
        what: &'static str,
        text: &str,
        values: &[db::Value],
        of: impl Fn(&db::Row) -> Result<T, DbError>,
    ) -> Result<Option<T>, StoreError> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.read(|connection| connection.first(text, values, of)),
            Database::Postgres(postgres) => postgres.first(text, values, of),
        }
        .map_err(StoreError::doing(what))
    }

    /// Reads, for a bounded time.
    fn read<T>(
        &self,
        what: &'static str,
        ask: impl FnOnce(&mut dyn Connection) -> Result<T, DbError>,
    ) -> Result<T, StoreError> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.read(ask),
            Database::Postgres(postgres) => postgres.read(ask),
        }
        .map_err(StoreError::doing(what))
    }

    /// Writes in one transaction: all changes are on disk on return, or none is.
    fn write<T>(
        &self,
        what: &'static str,
        change: impl FnOnce(&mut dyn Connection) -> Result<T, DbError>,
    ) -> Result<T, StoreError> {
        self.write_or(what, false, |connection| change(connection).map_err(Stopped::Database))
    }

    /// [`Self::write`] with the store's own errors. `for_hosts`: refused beyond the part that hosts may fill.
    fn write_or<T, E: From<StoreError>>(
        &self,
        what: &'static str,
        for_hosts: bool,
        change: impl FnOnce(&mut dyn Connection) -> Result<T, Stopped<E>>,
    ) -> Result<T, E> {
        match &self.database {
            Database::Sqlite(sqlite) => sqlite.write(for_hosts, change),
            Database::Postgres(postgres) => postgres.write(for_hosts, change),
        }
        .map_err(Stopped::while_doing(what))
    }
}
