//! Reservations as the rules ask for them: which one a job runs in, and which of its cores.

use pinfold_topo::CpuSet;

use crate::api::{Class, JobId};
use crate::jobs::{Job, Live};
use crate::rooms::Rooms;

/// The set that a job runs in, or would; `None`: it asks for none, or there is none of that name any more.
pub(crate) fn reservation_of(rooms: &Rooms, job: &Job) -> Option<usize> {
    let name = job.request.aside.as_ref()?;
    rooms.cores.reservations.iter().position(|aside| aside.name == *name)
}

/// The cores that a job takes in a set.
pub(crate) fn wanted_in(rooms: &Rooms, job: &Job, at: usize) -> usize {
    let all = rooms.cores.reservations[at].cores.len();
    if job.request.class == Some(Class::Exclusive) { all } else { job.slots().min(all) }
}

/// The PUs of a job that has its place in a set.
pub(crate) fn cpus_in(rooms: &Rooms, at: usize, live: &Live) -> CpuSet {
    let aside = &rooms.cores.reservations[at];
    let own = rooms.settings.affinity && rooms.settings.schedule && !live.cores.is_empty();
    if own { aside.cores.cpus(&live.cores) } else { aside.all() }
}

/// Whether no job has a slot or a place in a set.
pub(crate) fn nobody_runs(rooms: &Rooms) -> bool {
    rooms.cores.running.len() == 0 && rooms.cores.reservations.iter().all(|aside| aside.holders.is_empty())
}

/// The jobs in sets, the oldest first.
pub(crate) fn in_reservations(rooms: &Rooms) -> Vec<JobId> {
    let mut all: Vec<JobId> =
        rooms.cores.reservations.iter().flat_map(|aside| aside.holders.iter().copied()).collect();
    all.sort_by_key(|&job| (rooms.jobs.live(job).map(|live| live.started), job));
    all
}

/// Free cores of a set for a job; those it had, if they are that.
pub(crate) fn room_in(rooms: &Rooms, at: usize, job: &Job, had: &CpuSet) -> Option<Vec<usize>> {
    let aside = &rooms.cores.reservations[at];
    let own = aside.cores.touched_by(had);
    aside.cores.choose_homes(wanted_in(rooms, job, at), &own, job.request.wish.as_deref(), job.shape())
}
