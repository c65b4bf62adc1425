//! Readings of the whole host: a row per reading in the store, and the output of `pinfold host --json`.

use serde::{Deserialize, Serialize};

/// A reading of the host. Counters are totals since boot; `None`: the host does not offer the figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostRow {
    /// When, in microseconds since the Unix epoch.
    pub time_us: u64,
    /// Busy time of all PUs together, in microseconds.
    pub cpu_busy_us: u64,
    /// Memory in use, without reclaimable memory, in bytes.
    pub memory_used_bytes: u64,
    /// Swap in use, in bytes.
    pub swap_used_bytes: u64,
    /// How long some threads waited for a processor, in microseconds.
    pub cpu_stalled_us: Option<u64>,
    /// How long some waited for memory.
    pub memory_stalled_us: Option<u64>,
    /// How long all threads waited for memory.
    pub memory_full_stalled_us: Option<u64>,
    /// How long some waited for storage.
    pub io_stalled_us: Option<u64>,
    /// How long all threads waited for storage.
    pub io_full_stalled_us: Option<u64>,
    /// The temperature of the hottest sensor, in thousandths of a degree Celsius.
    pub temperature_milli: Option<u64>,
    /// The frequency of the PUs, in the mean, in kHz.
    pub frequency_khz: Option<u64>,
}

/// `pinfold host --json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostView {
    /// [`crate::view::VERSION`].
    pub version: u32,
    /// The host's name.
    pub host: String,
    /// PUs of the host now.
    pub pus: u64,
    /// Memory of the host now, in bytes.
    pub memory_bytes: u64,
    /// The readings, oldest first; a long series is condensed.
    pub samples: Vec<HostPoint>,
}

/// The host between a reading and the reading before. Readings stop while no job runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HostPoint {
    /// When, in Unix seconds.
    pub time_s: f64,
    /// Seconds since the reading before; `null`: the first reading, or the first since a reboot. The means below are
    /// then `null` too.
    pub span_s: Option<f64>,
    /// PUs that were busy, in the mean.
    pub cpu_busy: Option<f64>,
    /// Memory in use, without reclaimable memory, in bytes.
    pub memory_used_bytes: u64,
    /// Swap in use, in bytes.
    pub swap_used_bytes: u64,
    /// The part of the time, 0 to 1, in which some threads waited for a processor.
    pub cpu_stalled: Option<f64>,
    /// In which some waited for memory.
    pub memory_stalled: Option<f64>,
    /// The part of the time in which all threads waited for memory.
    pub memory_full_stalled: Option<f64>,
    /// In which some waited for storage.
    pub io_stalled: Option<f64>,
    /// The part of the time in which all threads waited for storage.
    pub io_full_stalled: Option<f64>,
    /// The temperature of the hottest sensor; `null`: the host has no readable sensor.
    pub temperature_celsius: Option<f64>,
    /// The mean frequency of the PUs; `null`: the host does not report a frequency.
    pub frequency_mhz: Option<f64>,
}
