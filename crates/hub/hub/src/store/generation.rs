//! The generation of the database: a number that a restore changes. Hosts get the number, and after a change send again
//! the jobs that the restored copy may lack. Absent here: the restore ([`super::copy`]).

use super::db::values;
use super::tokens::note;
use super::{Store, StoreError};

/// The key of the generation in the database.
pub(super) const KEY: &str = "generation";

impl Store {
    /// The generation. The first call makes it: the time, in microseconds since the Unix epoch.
    ///
    /// # Errors
    /// When the database refuses, or its value is no number.
    pub fn generation(&self, now_us: u64) -> Result<u64, StoreError> {
        let kept = match self.meta(KEY)? {
            Some(kept) => kept,
            None => self.set_meta_once(KEY, &now_us.to_string())?,
        };
        kept.parse().map_err(|_| StoreError::Refused(format!("`{KEY}` in the database is no number: {kept}")))
    }

    /// Begins a generation: each host sends all its jobs again once a hub started later serves the new number.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn begin_generation(&self, who: &str, now_us: u64) -> Result<(), StoreError> {
        self.write("begin a generation", |connection| {
            let set = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
            connection.execute(set, &values![KEY, now_us.to_string()])?;
            note(connection, now_us, who, "resend", "hosts are to send again what they have")
        })
    }
}
