//! The rooms side by side: each owns its state, and nobody else changes it but through the room's own functions.

use crate::api::{Instant, Settings};
use crate::apply::pending::Pending;
use crate::cores::host::Host;
use crate::jobs::JobTable;
use crate::memory::numa::groups::NodeGroups;
use crate::memory::room::Memory;
use crate::queue::queues::Queues;
use crate::shares::pools::Pools;

/// What the scheduler knows.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Rooms {
    pub(crate) settings: Settings,
    /// The time of the last event; never goes back.
    pub(crate) now: Instant,
    pub(crate) jobs: JobTable,
    pub(crate) queue: Queues,
    pub(crate) cores: Host,
    pub(crate) memory: Memory,
    /// Which NUMA nodes jobs share.
    pub(crate) nodes: NodeGroups,
    /// What is whose.
    pub(crate) shares: Pools,
    pub(crate) pending: Pending,
}
