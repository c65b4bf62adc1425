//! What a host as a whole did: one row a reading in the store, and what `pinfold host --json` prints of them.

use serde::{Deserialize, Serialize};

/// One reading of the host. Counters are totals since it came up; what it does not offer is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HostRow {
    /// When, in microseconds since the Unix epoch.
    pub time_us: u64,
    /// How long all PUs together were busy, in microseconds.
    pub cpu_busy_us: u64,
    /// Memory in use, without what the kernel could give back at once, in bytes.
    pub memory_used_bytes: u64,
    /// Swap in use, in bytes.
    pub swap_used_bytes: u64,
    /// How long some threads waited for a processor, in microseconds.
    pub cpu_stalled_us: Option<u64>,
    /// How long some waited for memory.
    pub memory_stalled_us: Option<u64>,
    /// How long all waited for memory.
    pub memory_full_stalled_us: Option<u64>,
    /// How long some waited for storage.
    pub io_stalled_us: Option<u64>,
    /// How long all waited for storage.
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
    /// PUs that it has now.
    pub pus: u64,
    /// Memory that it has now, in bytes.
    pub memory_bytes: u64,
    /// The readings, oldest first; of many, several are put together as one.
    pub samples: Vec<HostPoint>,
}

/// What a host did between a reading and the one before it. Nothing is read while no job runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HostPoint {
    /// When, in Unix seconds.
    pub time_s: f64,
    /// Since the reading before; `null`: there is none, or the host was restarted since. Then so are those below that
    /// are means over that time.
    pub span_s: Option<f64>,
    /// PUs that were busy, in the mean.
    pub cpu_busy: Option<f64>,
    /// Memory in use, without what the kernel could give back at once, in bytes.
    pub memory_used_bytes: u64,
    /// Swap in use, in bytes.
    pub swap_used_bytes: u64,
    /// The part of the time, 0 to 1, in which some threads waited for a processor.
    pub cpu_stalled: Option<f64>,
    /// In which some waited for memory.
    pub memory_stalled: Option<f64>,
    /// In which all did.
    pub memory_full_stalled: Option<f64>,
    /// In which some waited for storage.
    pub io_stalled: Option<f64>,
    /// In which all did.
    pub io_full_stalled: Option<f64>,
    /// The temperature of the hottest sensor; `null`: this host has none that can be read.
    pub temperature_celsius: Option<f64>,
    /// The frequency of the PUs, in the mean; `null`: this host does not tell it.
    pub frequency_mhz: Option<f64>,
}
