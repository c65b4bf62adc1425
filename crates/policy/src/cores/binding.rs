//! On which PUs a job is wanted.

use pinfold_topo::CpuSet;

use crate::api::Class;
use crate::cores::evenness::list_of;
use crate::cores::sets;
use crate::jobs::Job;
use crate::rooms::Rooms;

/// The PUs a job is wanted on; empty: anywhere.
pub(crate) fn cpus_of(rooms: &Rooms, job: &Job) -> CpuSet {
    let Some(live) = job.live() else { return CpuSet::new() };
    if let Some(at) = live.aside {
        return sets::cpus_in(rooms, at, live);
    }
    let pinned = rooms.settings.affinity && rooms.settings.schedule;
    if pinned && job.moves_freely() {
        rooms.cores.grid.around(&live.cores)
    } else if pinned {
        rooms.cores.grid.cpus(&live.cores)
    } else if rooms.cores.reservations.is_empty() {
        CpuSet::new()
    } else {
        // Anywhere but on cores that are set aside.
        rooms.cores.grid.iter().flat_map(|core| core.cpus.iter()).collect()
    }
}

/// Whether a backfiller shares cores with primaries as one of them does.
pub(crate) fn shares_evenly(rooms: &Rooms, job: &Job) -> bool {
    let backfills = job.live().is_some_and(|live| live.class == Class::Backfill && live.aside.is_none());
    backfills && list_of(job).is_some_and(|list| rooms.cores.evenness.now == Some(list))
}
