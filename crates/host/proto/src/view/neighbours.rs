//! The view of `status` on a host that several users' daemons share.

use serde::{Deserialize, Serialize};

use crate::quantity::show_size;

/// A host that several users' daemons share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NeighboursView {
    /// Active users, including this user.
    pub users: u64,
    /// Cores of this user's share,
    pub cores: u64,
    /// and of the host.
    pub host_cores: u64,
    /// Memory of this user's share,
    pub memory_bytes: u64,
    /// and memory for all jobs of the host.
    pub host_memory_bytes: u64,
    /// Slots that other users' jobs hold or wait for, as reported by their daemons.
    pub others_slots_wanted: u64,
    /// Cores held by other users' jobs, as reported by their daemons.
    pub others_cores_held: u64,
    /// Memory held by other users' jobs, as reported by their daemons.
    pub others_memory_held_bytes: u64,
}

impl std::fmt::Display for NeighboursView {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { users, cores, host_cores, memory_bytes, host_memory_bytes, .. } = self;
        if *users < 2 {
            return out.write_str("no other user has jobs");
        }
        let whole = |bytes: &u64| show_size(bytes >> 20 << 20);
        let (memory, of_memory) = (whole(memory_bytes), whole(host_memory_bytes));
        write!(
            out,
            "{users} users share this host: your share {cores} of {host_cores} cores, memory {memory} of {of_memory}"
        )
    }
}
