//! How many commands a build may run at once, by the daemon's figures of the host.
//!
//! A build has the PUs that its job is bound to, less the needs of other jobs, running and waiting. Memory bounds it as
//! well: another command is expected to need the average of the running commands. Absent here: tokens, the daemon, the
//! clock.

use pinfold_proto::JobClass;
use pinfold_proto::view::StatusView;
use pinfold_topo::CpuSet;

/// The share of time in which all processes stalled for memory, over 10 s, from which on fewer commands run.
const PRESSURE_MOST: f64 = 0.05;

/// The known figures of the host and of the build's own job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figures {
    /// Cores of the host that jobs may use.
    pub cores: u64,
    /// PUs that jobs may use.
    pub pus: u64,
    /// Slots in use, its own included.
    pub used: u64,
    /// Its own slots.
    pub own_slots: u64,
    /// Jobs that wait for a slot or for memory.
    pub waiting: u64,
    /// PUs that the build's job is bound to.
    pub own_pus: u64,
    /// Memory that all jobs may have, in bytes.
    pub budget_bytes: u64,
    /// Memory that all jobs hold, in bytes.
    pub held_bytes: u64,
    /// Memory of the build's job, in bytes; `None`: not read.
    pub own_bytes: Option<u64>,
    /// The share of time in which all processes stalled for memory, over 10 s.
    pub pressure: Option<f64>,
}

impl Figures {
    /// The figures of `status`, for a build that asked for `own_slots` slots on a host with `pus` PUs for jobs.
    pub(super) fn of(status: &StatusView, own_slots: u64, pus: u64) -> Option<Self> {
        let own = status.jobs.first()?;
        let bound = own.cpus.as_deref().and_then(|cpus| cpus.parse::<CpuSet>().ok());
        let bound = bound.map_or(0, |cpus| cpus.len() as u64);
        Some(Self {
            cores: status.slots.cores,
            pus,
            used: status.slots.used,
            own_slots: if own.class == JobClass::Exclusive { status.slots.used } else { own_slots },
            waiting: status.slots.waiting,
            // Unbound: wherever jobs may run.
            own_pus: if bound == 0 { pus } else { bound },
            budget_bytes: status.memory.budget_bytes,
            held_bytes: status.memory.held_bytes,
            own_bytes: own.memory_bytes,
            pressure: status.memory.pressure_full_avg10,
        })
    }

    /// How many commands may run at once, from 1 to `most`, while `running` run now.
    pub(super) fn allowance(&self, running: u32, most: u32) -> u32 {
        let others = self.used.saturating_sub(self.own_slots).saturating_add(self.waiting);
        let left = self.cores.saturating_sub(others).saturating_mul(self.pus) / self.cores.max(1);
        let by_place = u32::try_from(self.own_pus.min(left)).unwrap_or(u32::MAX);
        by_place.min(self.by_memory(running)).clamp(1, most.max(1))
    }

    fn by_memory(&self, running: u32) -> u32 {
        let running = running.max(1);
        let short = self.held_bytes >= self.budget_bytes;
        if short || self.pressure.is_some_and(|share| share > PRESSURE_MOST) {
            return running - 1;
        }
        let Some(own) = self.own_bytes.filter(|&bytes| bytes > 0) else { return u32::MAX };
        let each = (own / u64::from(running)).max(1);
        let more = (self.budget_bytes - self.held_bytes) / each;
        running.saturating_add(u32::try_from(more).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn idle() -> Figures {
        Figures {
            cores: 8,
            pus: 16,
            used: 8,
            own_slots: 8,
            waiting: 0,
            own_pus: 16,
            budget_bytes: 64 * GIB,
            held_bytes: 8 * GIB,
            own_bytes: Some(8 * GIB),
            pressure: Some(0.0),
        }
    }

    #[test]
    fn other_jobs_take_their_cores() {
        let rows = [
            (idle(), 32, 16),
            (idle(), 6, 6),
            // Two beside it, one waits.
            (Figures { used: 10, ..idle() }, 32, 12),
            (Figures { used: 10, waiting: 1, ..idle() }, 32, 10),
            (Figures { used: 12, waiting: 40, ..idle() }, 32, 1),
            // Few PUs of its own.
            (Figures { own_slots: 2, used: 2, own_pus: 4, ..idle() }, 32, 4),
            // In idle cycles of the whole host: what others leave.
            (Figures { own_slots: 1, used: 6, own_pus: 16, ..idle() }, 32, 6),
            // A daemon that has no cores yet.
            (Figures { cores: 0, pus: 0, own_pus: 0, ..idle() }, 32, 1),
        ];
        for (figures, most, want) in rows {
            assert_eq!(figures.allowance(16, most), want, "{figures:?} {most}");
        }
    }

    #[test]
    fn memory_bounds_it() {
        let rows = [
            // 4 commands hold 2 GiB each, and 6 GiB are left.
            (Figures { held_bytes: 58 * GIB, ..idle() }, 4, 7),
            (Figures { held_bytes: 64 * GIB, ..idle() }, 4, 3),
            (Figures { pressure: Some(0.2), ..idle() }, 4, 3),
            (Figures { pressure: Some(0.2), ..idle() }, 1, 1),
            (Figures { pressure: None, own_bytes: None, ..idle() }, 4, 16),
            (Figures { own_bytes: Some(0), ..idle() }, 0, 16),
        ];
        for (figures, running, want) in rows {
            assert_eq!(figures.allowance(running, 32), want, "{figures:?} {running}");
        }
    }
}
