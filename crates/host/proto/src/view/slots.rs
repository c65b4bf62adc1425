//! The slots and the memory of a host, as `status` says them.

use serde::{Deserialize, Serialize};

/// The slots of a host.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SlotsView {
    /// Cores that jobs may use.
    pub cores: u64,
    /// Slots per core.
    pub factor: f64,
    /// All slots.
    pub total: u64,
    /// Slots in use.
    pub used: u64,
    /// Jobs that could start if there were a slot, or memory, for them.
    #[serde(default)]
    pub waiting: u64,
}

/// The memory of a host.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MemoryView {
    /// What all jobs together may have.
    pub budget_bytes: u64,
    /// What all jobs together hold.
    pub held_bytes: u64,
    /// What all jobs together have in swap.
    pub swap_held_bytes: u64,
    /// PSI, memory, full, over 10 s, as a fraction.
    pub pressure_full_avg10: Option<f64>,
}

/// What processes that are no jobs use of a host, where that is handed out less.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OtherLoadView {
    /// Cores that they use, smoothed over some seconds.
    pub cores: f64,
    /// Free slots that jobs do not get for that.
    pub slots_withheld: u64,
    /// Memory that they hold, page cache that could be had left out; `null`: not read.
    pub memory_bytes: Option<u64>,
}
