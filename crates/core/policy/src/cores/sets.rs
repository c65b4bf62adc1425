//! Reservations as the rules ask for them: which one a job runs in, and which of its cores.

use pinfold_topo::CpuSet;

use crate::api::{Class, JobId, Settings};
use crate::cores::host::Host;
use crate::jobs::{Job, JobTable, Live};

/// The set that a job runs in, or would; `None`: it asks for none, or there is none of that name any more.
pub(crate) fn reservation_of(host: &Host, job: &Job) -> Option<usize> {
    let name = job.request.aside.as_ref()?;
    host.reservations.iter().position(|aside| aside.name == *name)
}

/// The cores that a job takes in a set.
pub(crate) fn wanted_in(host: &Host, job: &Job, at: usize) -> usize {
    let all = host.reservations[at].cores.len();
    if job.request.class == Some(Class::Exclusive) { all } else { job.slots().min(all) }
}

/// The PUs of a job that has its place in a set.
pub(crate) fn cpus_in(host: &Host, settings: &Settings, at: usize, live: &Live) -> CpuSet {
    let aside = &host.reservations[at];
    let own = settings.affinity && settings.schedule && !live.cores.is_empty();
    if own { aside.cores.cpus(&live.cores) } else { aside.all() }
}

/// Whether no job has a slot or a place in a set.
pub(crate) fn nobody_runs(host: &Host) -> bool {
    host.running.len() == 0 && host.reservations.iter().all(|aside| aside.holders.is_empty())
}

/// The jobs in sets, the oldest first.
pub(crate) fn in_reservations(host: &Host, jobs: &JobTable) -> Vec<JobId> {
    let mut all: Vec<JobId> =
        host.reservations.iter().flat_map(|aside| aside.holders.iter().copied()).collect();
    all.sort_by_key(|&job| (jobs.live(job).map(|live| live.started), job));
    all
}

/// Free cores of a set for a job; those it had, if they are that.
pub(crate) fn room_in(host: &Host, at: usize, job: &Job, had: &CpuSet) -> Option<Vec<usize>> {
    let aside = &host.reservations[at];
    let own = aside.cores.touched_by(had);
    aside.cores.choose_homes(wanted_in(host, job, at), &own, job.request.wish.as_deref(), job.shape())
}
