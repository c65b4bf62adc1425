//! On which PUs a job is wanted.

use pinfold_topo::CpuSet;

use crate::api::{Class, Settings};
use crate::cores::evenness::list_of;
use crate::cores::host::Host;
use crate::cores::sets;
use crate::jobs::Job;

/// The PUs a job is wanted on; empty: anywhere.
pub(crate) fn cpus_of(host: &Host, settings: &Settings, job: &Job) -> CpuSet {
    let Some(live) = job.live() else { return CpuSet::new() };
    if let Some(at) = live.aside {
        return sets::cpus_in(host, settings, at, live);
    }
    let pinned = settings.affinity && settings.schedule;
    if pinned && job.moves_freely() {
        host.grid.around(&live.cores)
    } else if pinned {
        host.grid.cpus(&live.cores)
    } else if host.reservations.is_empty() {
        CpuSet::new()
    } else {
        // Anywhere but on cores that are set aside.
        host.grid.iter().flat_map(|core| core.cpus.iter()).collect()
    }
}

/// Whether a backfiller shares cores with primaries as one of them does.
pub(crate) fn shares_evenly(host: &Host, job: &Job) -> bool {
    let backfills = job.live().is_some_and(|live| live.class == Class::Backfill && live.aside.is_none());
    backfills && list_of(job).is_some_and(|list| host.evenness.now == Some(list))
}
