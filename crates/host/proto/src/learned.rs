//! Peak memory of job classes over all hosts of a hub: a signed table with rising numbers, from the hub to its hosts.
//!
//! The table holds no commands, names or users: a class is a digest of these. A host computes the digest of its own
//! job and finds that user's similar jobs of other hosts, but no other classes. Absent here: digests and signatures,
//! made by hub and daemon.

use serde::{Deserialize, Serialize};

use crate::program::class;

/// The version of the table.
pub const VERSION: u32 = 1;

/// Prefix of the signed text, so that no other text signed with the key passes as a table.
pub const SIGNED_BEFORE: &[u8] = b"pinfold learned figures 1\n";

/// The longest table, in bytes: a request with the table fits into a frame.
pub const TABLE_MAX_BYTES: usize = 224 * 1_024;

/// The most classes of a table; classes with the most runs are kept.
pub const ROWS_MAX: usize = 2_500;

/// How many bytes of a digest name a class.
pub const CLASS_BYTES: usize = 12;

/// The user name in classes over all users: a real user's name is never empty.
pub const EVERYBODY: &str = "";

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// [`VERSION`].
    pub version: u32,
    /// Rises with each table of a hub; a host refuses a number below its last.
    pub number: u64,
    /// When the table was made, in microseconds since the Unix epoch.
    pub made_us: u64,
    /// The hub's address.
    pub hub: String,
    /// The classes.
    pub rows: Vec<Row>,
}

/// Peak memory of a class's runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Cells", into = "Cells")]
pub struct Row {
    /// The class, [`CLASS_BYTES`] in hexadecimal.
    pub class: String,
    /// The number of successful runs.
    pub runs: u32,
    /// On how many hosts.
    pub hosts: u32,
    /// Median of the peak memory, in bytes.
    pub held_p50_bytes: u64,
    /// 99th percentile of the peak memory, in bytes.
    pub held_p99_bytes: u64,
}

/// A row as serialized: an array, because a table has many rows.
#[derive(Serialize, Deserialize)]
struct Cells(String, u32, u32, u64, u64);

impl From<Cells> for Row {
    fn from(Cells(class, runs, hosts, held_p50_bytes, held_p99_bytes): Cells) -> Self {
        Self { class, runs, hosts, held_p50_bytes, held_p99_bytes }
    }
}

impl From<Row> for Cells {
    fn from(row: Row) -> Self {
        Self(row.class, row.runs, row.hosts, row.held_p50_bytes, row.held_p99_bytes)
    }
}

/// A table and its signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signed {
    /// The [`Table`] as JSON, byte for byte as signed.
    pub table: String,
    /// The Ed25519 signature of [`SIGNED_BEFORE`] and the table, in hexadecimal.
    pub signature: String,
}

/// Why a table is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The table is too long.
    #[error("it has {0} bytes, and {TABLE_MAX_BYTES} are the most")]
    Long(usize),
    /// The text is not a table.
    #[error("it cannot be read: {0}")]
    Malformed(String),
    /// The table has another version.
    #[error("it has version {0}, and this is version {VERSION}")]
    Version(u32),
    /// The table has too many rows.
    #[error("it has {0} classes, and {ROWS_MAX} are the most")]
    Rows(usize),
    /// A row is inconsistent.
    #[error("class {class}: {what}")]
    Row {
        /// The class.
        class: String,
        /// The inconsistency.
        what: &'static str,
    },
}

impl Table {
    /// Reads a table with a verified signature, and checks its consistency.
    ///
    /// # Errors
    /// When the table is too long, malformed, inconsistent, or has another version.
    pub fn read(text: &str) -> Result<Self, TableError> {
        if text.len() > TABLE_MAX_BYTES {
            return Err(TableError::Long(text.len()));
        }
        let table: Self =
            serde_json::from_str(text).map_err(|error| TableError::Malformed(error.to_string()))?;
        if table.version != VERSION {
            return Err(TableError::Version(table.version));
        }
        if table.rows.len() > ROWS_MAX {
            return Err(TableError::Rows(table.rows.len()));
        }
        table.rows.iter().try_for_each(Row::check)?;
        Ok(table)
    }
}

impl Row {
    fn check(&self) -> Result<(), TableError> {
        let wrong = |what| Err(TableError::Row { class: self.class.chars().take(40).collect(), what });
        let digits = self.class.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if self.class.len() != 2 * CLASS_BYTES || !digits {
            return wrong("that is no class");
        }
        if self.runs == 0 || self.hosts == 0 {
            return wrong("it rests on nothing");
        }
        if self.held_p50_bytes == 0 || self.held_p50_bytes > self.held_p99_bytes {
            return wrong("its figures contradict each other");
        }
        Ok(())
    }
}

/// The signed bytes.
#[must_use]
pub fn signed_text(table: &str) -> Vec<u8> {
    [SIGNED_BEFORE, table.as_bytes()].concat()
}

/// The common part of a class's jobs over all users: its [`class`] and cores. [`of_user`] makes the class of it.
/// `None`: the job has no command.
#[must_use]
pub fn likeness(command: &[String], name: &str, cores: u32) -> Option<Vec<u8>> {
    let (program, given) = class(command, name)?;
    let code = program.code.unwrap_or_default();
    Some(joined([program.name.as_bytes(), code.as_bytes(), given.as_bytes(), cores.to_string().as_bytes()]))
}

/// A class: the digest of a likeness, of a user or of [`EVERYBODY`].
#[must_use]
pub fn of_user(likeness: &[u8], user: &str) -> Vec<u8> {
    joined([likeness, user.as_bytes(), b"pinfold class 1"])
}

/// Parts with their lengths, so that different parts never join to the same bytes.
fn joined<const PARTS: usize>(parts: [&[u8]; PARTS]) -> Vec<u8> {
    parts.iter().flat_map(|part| [part.len().to_string().as_bytes(), b":", *part].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: Vec<Row>) -> Table {
        Table { version: VERSION, number: 1, made_us: 1, hub: "https://hub.example".into(), rows }
    }

    fn row() -> Row {
        Row { class: "0a".repeat(CLASS_BYTES), runs: 5, hosts: 2, held_p50_bytes: 1, held_p99_bytes: 2 }
    }

    fn read(table: &Table) -> Result<Table, TableError> {
        Table::read(&serde_json::to_string(table).unwrap())
    }

    #[test]
    fn a_full_table_fits_and_comes_back_as_it_was() {
        let far = Row {
            runs: u32::MAX,
            hosts: u32::MAX,
            held_p50_bytes: 1 << 50,
            held_p99_bytes: 1 << 50,
            ..row()
        };
        let full = table(vec![far; ROWS_MAX]);
        assert_eq!(read(&full).unwrap(), full);
        let request = crate::wire::Request::Learn {
            signed: Signed { table: serde_json::to_string(&full).unwrap(), signature: "0".repeat(128) },
        };
        assert!(serde_json::to_vec(&request).unwrap().len() < crate::wire::REQUEST_MAX_BYTES);
    }

    #[test]
    fn impossible_figures_are_refused() {
        let check = |bad: Row| assert!(matches!(read(&table(vec![bad])), Err(TableError::Row { .. })));
        check(Row { class: "0A".repeat(CLASS_BYTES), ..row() });
        check(Row { class: String::new(), ..row() });
        check(Row { class: "é".repeat(CLASS_BYTES), ..row() });
        check(Row { runs: 0, ..row() });
        check(Row { hosts: 0, ..row() });
        check(Row { held_p50_bytes: 0, ..row() });
        check(Row { held_p50_bytes: 3, ..row() });
        assert!(matches!(read(&table(vec![row(); ROWS_MAX + 1])), Err(TableError::Rows(_))));
        assert!(matches!(read(&Table { version: 2, ..table(Vec::new()) }), Err(TableError::Version(2))));
        let long = Table { hub: "x".repeat(TABLE_MAX_BYTES), ..table(Vec::new()) };
        assert!(matches!(read(&long), Err(TableError::Long(_))));
        for bad in ["", "null", "{}", "[1]"] {
            assert!(matches!(Table::read(bad), Err(TableError::Malformed(_))), "{bad}");
        }
    }

    #[test]
    fn classes_of_different_jobs_and_users_differ() {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let of = |command: &[&str], name: &str, cores| likeness(&words(command), name, cores).unwrap();
        assert_eq!(of(&["python3", "-u", "a.py", "x"], "n", 2), of(&["python3", "a.py", "y"], "n", 2));
        assert_ne!(of(&["python3", "a.py"], "n", 2), of(&["python3", "b.py"], "n", 2));
        assert_ne!(of(&["a"], "n", 1), of(&["a"], "n", 2));
        assert_ne!(of(&["a1:b"], "c", 1), of(&["a"], "1:bc", 1));
        let one = of(&["a"], "n", 1);
        assert_ne!(of_user(&one, "ann"), of_user(&one, "bea"));
        assert_eq!(likeness(&[], "n", 1), None);
    }
}
