//! The slots and the memory of a host, in `status`.

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
    /// Jobs that wait only for a slot or memory.
    #[serde(default)]
    pub waiting: u64,
}

/// The memory of a host.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MemoryView {
    /// Memory for all jobs together.
    pub budget_bytes: u64,
    /// Memory held by all jobs together.
    pub held_bytes: u64,
    /// Swap held by all jobs together.
    pub swap_held_bytes: u64,
    /// PSI, memory, full, over 10 s, as a fraction.
    pub pressure_full_avg10: Option<f64>,
}

/// Load of processes that are no jobs, where it reduces the slots.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OtherLoadView {
    /// Cores in use by them, smoothed over some seconds.
    pub cores: f64,
    /// Free slots withheld from jobs.
    pub slots_withheld: u64,
    /// Memory held by them, without reclaimable page cache; `null`: not read.
    pub memory_bytes: Option<u64>,
}
