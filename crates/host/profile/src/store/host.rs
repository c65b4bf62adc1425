//! Readings of the whole host, a row each, kept as long as jobs and within a part of the store.

use pinfold_proto::host::HostRow;
use rusqlite::{Connection, Row};

use super::fields::{Binder, Fields, whole};
use super::{Store, StoreError};

/// Older rows are thinned to a row per [`THIN_US`],
const WHOLE_US: u64 = 7 * 86_400 * 1_000_000;
/// over this span only: thinning runs every hour, so older rows are thin already.
const THINNED_US: u64 = 8 * 86_400 * 1_000_000;
/// Between two rows of long ago.
const THIN_US: u64 = 60 * 1_000_000;
/// Estimated bytes of a row.
const ROW_BYTES: u64 = 100;

/// The operation in error messages.
const READ: &str = "read the host's readings";

/// The first and the last of some time.
const ENDS: &str = "SELECT (SELECT min(time_us) FROM host WHERE time_us >= ?1), \
                    (SELECT max(time_us) FROM host WHERE time_us <= ?2)";

const COLUMNS: &str = "time_us, cpu_busy_us, memory_used_bytes, swap_used_bytes, cpu_stalled_us, memory_stalled_us, \
                       memory_full_stalled_us, io_stalled_us, io_full_stalled_us, temperature_milli, frequency_khz";

impl Store {
    /// Writes a reading of the host.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn add_host(&mut self, row: &HostRow) -> Result<(), StoreError> {
        self.write("add a reading of the host", |store| {
            let sql = format!("INSERT OR REPLACE INTO host ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?)");
            let mut statement = store.connection.prepare_cached(&sql)?;
            let to = &mut Binder::new(&mut statement);
            to.number(row.time_us)?.number(row.cpu_busy_us)?.number(row.memory_used_bytes)?;
            to.number(row.swap_used_bytes)?.maybe(row.cpu_stalled_us)?.maybe(row.memory_stalled_us)?;
            to.maybe(row.memory_full_stalled_us)?.maybe(row.io_stalled_us)?.maybe(row.io_full_stalled_us)?;
            to.maybe(row.temperature_milli)?.maybe(row.frequency_khz)?;
            statement.raw_execute()
        })?;
        Ok(())
    }

    /// The readings of the host between two times, inclusive, oldest first. Beyond about `most`, neighbours are
    /// merged: the last value of counters, the maximum of other figures.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn host_between(&self, since_us: u64, until_us: u64, most: u64) -> Result<Vec<HostRow>, StoreError> {
        let (since, until) = (whole(since_us), whole(until_us));
        // Time without readings takes no share of the limit.
        let ends = |row: &Row<'_>| -> rusqlite::Result<(Option<i64>, Option<i64>)> {
            Ok((row.get(0)?, row.get(1)?))
        };
        let found = self.read(READ, ENDS, &[&since, &until], ends)?;
        let Some((Some(first), Some(last))) = found.into_iter().next() else { return Ok(Vec::new()) };
        let step = (last - first).max(0) / whole(most.max(1)) + 1;
        let merged = "max(time_us), max(cpu_busy_us), max(memory_used_bytes), max(swap_used_bytes), \
                      max(cpu_stalled_us), max(memory_stalled_us), max(memory_full_stalled_us), max(io_stalled_us), \
                      max(io_full_stalled_us), max(temperature_milli), max(frequency_khz)";
        let sql = format!(
            "SELECT {merged} FROM host WHERE time_us >= ?1 AND time_us <= ?3 GROUP BY (time_us - ?1) / ?2 \
             ORDER BY max(time_us)"
        );
        self.read(READ, &sql, &[&first, &step, &until], read_host)
    }

    /// The first `count` readings of the host between two times, inclusive, unchanged, oldest first.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn host_each(&self, since_us: u64, until_us: u64, count: u64) -> Result<Vec<HostRow>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM host WHERE time_us >= ?1 AND time_us <= ?2 ORDER BY time_us LIMIT ?3"
        );
        self.read(READ, &sql, &[&whole(since_us), &whole(until_us), &whole(count)], read_host)
    }

    /// The last two readings of the host up to a time, oldest first; fewer if the store has fewer.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn host_until(&self, at_us: u64) -> Result<Vec<HostRow>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM host WHERE time_us <= ?1 ORDER BY time_us DESC LIMIT 2");
        let mut rows = self.read(READ, &sql, &[&whole(at_us)], read_host)?;
        rows.reverse();
        Ok(rows)
    }

    /// Estimated maximum number of readings for an interval, a retention time and a size of the store.
    #[must_use]
    pub fn host_rows_max(retain_us: u64, every_us: u64, bytes_max: Option<u64>) -> u64 {
        let whole = retain_us.min(WHOLE_US) / every_us.max(1);
        let rows = whole.saturating_add(retain_us.saturating_sub(WHOLE_US) / THIN_US);
        rows.min(rows_within(bytes_max))
    }

    /// Removes readings of the host from before that time, thins readings older than a week, and keeps all readings
    /// below an eighth of the store's limit. Joins an open transaction.
    ///
    /// # Errors
    /// As SQLite refuses.
    pub fn prune_host(
        &mut self,
        before_us: u64,
        now_us: u64,
        bytes_max: Option<u64>,
    ) -> Result<(), StoreError> {
        let rows_max = rows_within(bytes_max);
        self.in_turn("prune the host's readings", |store| {
            prune(&store.connection, before_us, now_us, rows_max)
        })
    }
}

/// The number of readings in an eighth of the store's limit.
fn rows_within(bytes_max: Option<u64>) -> u64 {
    bytes_max.map_or(u64::MAX, |bytes| bytes / 8 / ROW_BYTES)
}

fn prune(connection: &Connection, before_us: u64, now_us: u64, rows_max: u64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM host WHERE time_us < ?1")?.execute([whole(before_us)])?;
    // The last reading of each minute stays.
    let thin = "DELETE FROM host WHERE time_us < ?1 AND time_us >= ?3 AND EXISTS (SELECT 1 FROM host AS later \
                WHERE later.time_us > host.time_us AND later.time_us < (host.time_us / ?2 + 1) * ?2)";
    let old_us = now_us.saturating_sub(WHOLE_US);
    let from = whole(old_us.saturating_sub(THINNED_US));
    connection.prepare_cached(thin)?.execute([whole(old_us), whole(THIN_US), from])?;
    let beyond = "DELETE FROM host WHERE time_us <= (SELECT time_us FROM host ORDER BY time_us DESC LIMIT 1 OFFSET ?1)";
    connection.prepare_cached(beyond)?.execute([whole(rows_max)])?;
    Ok(())
}

fn read_host(row: &Row<'_>) -> rusqlite::Result<HostRow> {
    let from = &mut Fields::new(row);
    Ok(HostRow {
        time_us: from.number()?,
        cpu_busy_us: from.number()?,
        memory_used_bytes: from.number()?,
        swap_used_bytes: from.number()?,
        cpu_stalled_us: from.maybe()?,
        memory_stalled_us: from.maybe()?,
        memory_full_stalled_us: from.maybe()?,
        io_stalled_us: from.maybe()?,
        io_full_stalled_us: from.maybe()?,
        temperature_milli: from.maybe()?,
        frequency_khz: from.maybe()?,
    })
}
