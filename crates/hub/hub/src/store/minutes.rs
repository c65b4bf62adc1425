//! The last day of each host: a reading with each stored status. Times are by the hub's clock, so that a host's wrong
//! clock keeps no reading for longer than a day.

use pinfold_proto::host::HostPoint;

use super::db::values;
use super::{Store, StoreError};

/// A reading reduced to the stored figures.
pub(crate) const fn reading(
    time_s: f64,
    cpu_busy: Option<f64>,
    (memory_used_bytes, swap_used_bytes): (u64, u64),
    memory_full_stalled: Option<f64>,
) -> HostPoint {
    HostPoint {
        time_s,
        span_s: None,
        cpu_busy,
        memory_used_bytes,
        swap_used_bytes,
        cpu_stalled: None,
        memory_stalled: None,
        memory_full_stalled,
        io_stalled: None,
        io_full_stalled: None,
        temperature_celsius: None,
        frequency_mhz: None,
    }
}

impl Store {
    /// The readings of a host since a moment, oldest first.
    ///
    /// # Errors
    /// When the database refuses.
    pub fn minutes(&self, host: i64, since_us: u64) -> Result<Vec<HostPoint>, StoreError> {
        let find = "SELECT time_us, cpu_busy, memory_bytes, swap_bytes, stalled FROM minutes \
                    WHERE host = ?1 AND time_us >= ?2 ORDER BY time_us";
        self.read("read a host's last day", |connection| {
            connection.all(find, &values![host, since_us], |row| {
                let time_s = pinfold_proto::view::seconds(row.get(0)?);
                Ok(reading(time_s, row.get(1)?, (row.get(2)?, row.get(3)?), row.get(4)?))
            })
        })
    }
}
