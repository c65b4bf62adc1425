//! What the first in the queue keeps from the jobs behind it while it cannot start, so that it starts at last.
//!
//! Most wait for slots or memory, of which any would do: then nothing behind them starts. One that its own user's jobs hold
//! up holds back that user's jobs alone (`owner`). One that may be on certain cores only waits for these: others start as
//! long as they leave it those of them that are free, and a slot for each. They start as primaries only: a backfiller would
//! get the core that the first waits for as soon as it falls free, and each new one would be before it again. Read only.

use crate::api::{Class, JobId};
use crate::cores::slots;
use crate::jobs::Demand;
use crate::memory::oracle;
use crate::queue::order::{PASSED_MAX, RANK_AGED};
use crate::queue::owner;
use crate::rooms::Rooms;
use crate::shares::core_pool;

/// See the module's page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HoldBack {
    /// It was not passed over often enough yet, or waits for what other projects are guaranteed.
    Nothing,
    /// The jobs of this user.
    OwnersJobs(u32),
    /// These home cores, which are free, and as many slots; and backfill.
    Homes(Vec<usize>),
    All,
}

/// What `head`, the first in the host's queue, holds back if it cannot start now; `rank` is its rank.
pub(crate) fn of(rooms: &Rooms, rank: u8, head: JobId) -> HoldBack {
    let job = &rooms.jobs[&head];
    let exclusive = job.request.class == Some(Class::Exclusive);
    let first = exclusive || rank == RANK_AGED || job.passed >= PASSED_MAX;
    if !first || core_pool::waits_for_guaranteed(rooms, head) {
        return HoldBack::Nothing;
    }
    if let Some(owner) = owner::held_up_by_its_own(rooms, head) {
        return HoldBack::OwnersJobs(owner);
    }
    awaited_homes(rooms, head).map_or(HoldBack::All, HoldBack::Homes)
}

/// For a job that may be on certain cores only and lacks home cores there: those of them that are free.
fn awaited_homes(rooms: &Rooms, id: JobId) -> Option<Vec<usize>> {
    let job = rooms.jobs.get(&id).filter(|job| job.request.class == Some(Class::Primary))?;
    let mut homes = owner::only_homes(rooms, job)?;
    homes.retain(|&core| rooms.cores.grid().get(core).home_of.is_none());
    oracle::lacks_memory(rooms, id).is_none().then_some(homes)
}

impl HoldBack {
    /// Whether jobs of this shape may start past the first.
    pub(crate) fn lets_start(&self, rooms: &Rooms, shape: Demand) -> bool {
        match self {
            Self::Nothing => true,
            Self::OwnersJobs(owner) => shape.owner != *owner,
            Self::Homes(kept) => {
                let cores = (shape.cores.max(shape.homes) as usize).saturating_add(kept.len());
                let plain = matches!(shape.class, None | Some(Class::Primary)) && !shape.wishes;
                plain
                    && cores <= slots::free_slots(&rooms.cores, &rooms.settings)
                    && cores <= rooms.cores.grid().free_homes()
            }
            Self::All => false,
        }
    }

    /// The home cores that a job which starts past the first leaves free.
    pub(crate) fn kept_homes(self) -> Vec<usize> {
        if let Self::Homes(kept) = self { kept } else { Vec::new() }
    }
}
