//! What the hub keeps: hosts, tokens, sessions, jobs, series, and who did what. The interface knows no SQL, so that another
//! database can stand behind it; today SQLite does, in one file.
//!
//! One connection writes; a few read beside it, each question for a bounded time. What an answer acknowledges is on disk.
//! Owner of state: the database file. Absent here: HTTP, pages, and who may ask.

mod access;
pub mod columns;
mod copy;
mod ingest;
mod keep;
mod query;
mod schema;
mod summary;
mod tokens;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rusqlite::{Connection, OpenFlags};

pub use access::{Access, Grant};
pub use copy::{Copied, backup, restore, verify};
pub use ingest::IngestError;
pub use keep::{Keep, Kept, month_of};
pub use query::{
    Answered, Cell, Ending, HostRow, JobDetail, JobPage, JobQuery, JobRow, OFFSET_MAX, PAGE_MAX, ReportQuery,
    Reported, TABLE_MAX,
};
pub use schema::VERSION as SCHEMA_VERSION;
pub use summary::{ClassRow, Group, Spread, Summary, UsageRow};
pub use tokens::{AuditRow, Holder, Kind, LinkFor, Revoked, Session, TokenRow, is_name};

/// Connections that read.
const READERS: usize = 4;

/// The most pages of a bounded database that hosts cannot fill: 4 MiB.
const PAGES_KEPT_MAX: i64 = 1_024;

/// How long one question may take.
pub const QUESTION_MAX: Duration = Duration::from_secs(5);

/// Why the store could not do something.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused.
    #[error("failed to {what}")]
    Database {
        /// What was to be done.
        what: &'static str,
        /// The cause.
        source: rusqlite::Error,
    },
    /// There is no room: the disk is full, or the database has the size it may have.
    #[error("there is no room for more in the database: its disk is full, or `database_max` is reached")]
    Full,
    /// The question would take too long.
    #[error("that takes longer than {} s: ask for a shorter time, or by host, user or name", QUESTION_MAX.as_secs())]
    TooLong,
    /// The database is of a later version.
    #[error("{}: the database has version {found}, and this program knows versions up to {known}: use the later program", .path.display())]
    Later {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The last one that is known.
        known: u32,
    },
    /// A file could not be used.
    #[error("failed to {what} {}", .path.display())]
    File {
        /// What was to be done.
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
        /// What is wrong with it.
        what: String,
    },
    /// Something was asked for that cannot be.
    #[error("{0}")]
    Refused(String),
    /// Somebody else has it.
    #[error("{0}")]
    Taken(String),
    /// Something was asked for too often.
    #[error("{0}")]
    TooMany(String),
}

impl StoreError {
    /// For `map_err`.
    fn doing(what: &'static str) -> impl Fn(rusqlite::Error) -> Self {
        move |source| match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Self::Full,
            Some(rusqlite::ErrorCode::OperationInterrupted) => Self::TooLong,
            _ => Self::Database { what, source },
        }
    }
}

/// The store of a hub.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    writer: Mutex<Connection>,
    readers: Vec<Mutex<Connection>>,
    /// How many pages hosts may fill.
    pages_max: Option<i64>,
}

/// A file that is named as `sqlite:FILE`.
///
/// # Errors
/// When it is named otherwise.
pub fn database_file(url: &str) -> Result<PathBuf, String> {
    if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        return Err(
            "PostgreSQL is not built into this program; name a file: --database sqlite:FILE".to_owned()
        );
    }
    match url.strip_prefix("sqlite:") {
        Some(file) if !file.is_empty() => Ok(PathBuf::from(file)),
        _ => {
            Err(format!("--database {url}: sqlite:FILE is wanted, as in sqlite:/var/lib/pinfold-hub/hub.db"))
        }
    }
}

/// The hub's clock, in microseconds since the Unix epoch.
#[must_use]
pub fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// As SQLite keeps it.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// As it was before it was kept.
fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Whether it is SQLite's word for something that is there already.
fn is_there_already(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
}

impl Store {
    /// Opens the database, makes it if it is missing, and brings it to this version. `max_bytes` bounds its size; `None`:
    /// the disk does.
    ///
    /// # Errors
    /// When it cannot be opened, is damaged, or is of a later version.
    pub fn open(path: &Path, max_bytes: Option<u64>) -> Result<Self, StoreError> {
        private(path)?;
        let mut writer = connect(path, OpenFlags::default())?;
        schema::migrate(path, &mut writer)?;
        let pages_max = max_bytes.map(|max_bytes| bound(&writer, max_bytes)).transpose()?;
        let reading = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let readers = (0..READERS).map(|_| connect(path, reading).map(Mutex::new));
        Ok(Self {
            path: path.to_owned(),
            writer: Mutex::new(writer),
            readers: readers.collect::<Result<_, _>>()?,
            pages_max,
        })
    }

    /// The database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the database takes on disk, without its log, in bytes.
    ///
    /// # Errors
    /// As the database refuses.
    pub fn bytes(&self) -> Result<u64, StoreError> {
        self.read("measure the database", |connection| {
            let count = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
            Ok(natural(count("page_count")?.saturating_mul(count("page_size")?)))
        })
    }

    /// Reads, for a bounded time.
    fn read<T>(
        &self,
        what: &'static str,
        ask: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let free = self.readers.iter().find_map(|reader| reader.try_lock().ok());
        let mut connection = free.unwrap_or_else(|| lock(&self.readers[0]));
        let until = Instant::now() + QUESTION_MAX;
        let bounded = connection.progress_handler(10_000, Some(move || Instant::now() > until));
        let answer = bounded.and_then(|()| ask(&connection));
        let _ = connection.progress_handler(0, None::<fn() -> bool>);
        answer.map_err(StoreError::doing(what))
    }

    /// Writes in one transaction: all of it is on disk when this returns, or none.
    fn write<T>(
        &self,
        what: &'static str,
        change: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.write_or(StoreError::doing(what), |connection| {
            change(connection).map_err(StoreError::doing(what))
        })
    }

    /// The same with errors of another kind; `failed` makes them of the database's own.
    fn write_or<T, E>(
        &self,
        failed: impl Fn(rusqlite::Error) -> E,
        change: impl FnOnce(&Connection) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut writer = lock(&self.writer);
        let immediate = rusqlite::TransactionBehavior::Immediate;
        let transaction = writer.transaction_with_behavior(immediate).map_err(&failed)?;
        let done = change(&transaction)?;
        transaction.commit().map_err(&failed)?;
        Ok(done)
    }
}

/// A connection whose holder panicked is as good as before: its transaction was rolled back.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the file for its owner alone, if it is missing: it tells of all users' jobs. Its log gets the same rights.
fn private(path: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let made = std::fs::File::options().write(true).create(true).truncate(false).mode(0o600).open(path);
    made.map(drop).map_err(|source| StoreError::File { what: "open", path: path.to_owned(), source })
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        if !flags.contains(OpenFlags::SQLITE_OPEN_READ_ONLY) {
            connection.pragma_update(None, "journal_mode", "wal")?;
            // A host forgets what is acknowledged, so that it has to outlive a power cut.
            connection.pragma_update(None, "synchronous", "full")?;
        }
        connection.pragma_update(None, "foreign_keys", "on")?;
        connection.pragma_update(None, "trusted_schema", "off")?;
        Ok(connection)
    };
    open().map_err(StoreError::doing("open the database"))
}

/// Bounds the database, and says how many pages hosts may fill: the rest is for signing in and revoking although they did.
fn bound(connection: &Connection, max_bytes: u64) -> Result<i64, StoreError> {
    let set = || {
        let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        let pages = (whole(max_bytes) / page.max(1)).max(1);
        connection.pragma_update_and_check(None, "max_page_count", pages, |row| row.get::<_, i64>(0))?;
        Ok(pages - (pages / 16).min(PAGES_KEPT_MAX))
    };
    set().map_err(StoreError::doing("bound the database"))
}

/// Pages in use; what was removed counts no more.
fn pages_used(connection: &Connection) -> rusqlite::Result<i64> {
    let count = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    Ok(count("page_count")? - count("freelist_count")?)
}

#[cfg(test)]
pub(crate) mod tests;
