//! The settings of a new container.

use pinfold_topo::CpuSet;

use super::limits::Limits;

/// A job's share of the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// By weight: twice the weight, twice the time.
    Normal {
        /// 1 to 10,000; 100 is normal.
        weight: u32,
    },
    /// Only processor time that no other process wants.
    Idle,
}

/// The largest weight of a job.
pub(super) const WEIGHT_MAX: u32 = 10_000;

impl Share {
    /// The usual share.
    pub const NORMAL: Self = Self::Normal { weight: 100 };
}

/// The settings of a new container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The PUs; empty: unbound.
    pub cpus: CpuSet,
    /// The NUMA nodes that its memory may lie on, ascending; empty: all.
    pub nodes: Vec<u32>,
    /// The share of the processor.
    pub share: Share,
    /// The bound on memory, in bytes.
    pub limit_bytes: Option<u64>,
    /// Bounds on other resources.
    pub limits: Limits,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            cpus: CpuSet::new(),
            nodes: Vec::new(),
            share: Share::NORMAL,
            limit_bytes: None,
            limits: Limits::default(),
        }
    }
}
