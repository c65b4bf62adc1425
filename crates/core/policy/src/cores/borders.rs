//! The cpuset constraint of a job: PUs beyond which it may not go, and whether there is room for it there.
//!
//! The cores inside may be reserved for others, or gone. A job that has not started waits then until they are back, and
//! delays no other job; one that has started goes on where there is room.

use crate::api::{Class, Settings};
use crate::cores::host::Host;
use crate::cores::{isolation, sets};
use crate::jobs::Job;

/// The cores inside a job's border, and whether they are too few for it; `None`: it has no border, or one of its own
/// set's cores.
pub(crate) fn within_cpuset(host: &Host, job: &Job) -> Option<(usize, bool)> {
    let wish = job.request.wish.as_deref().filter(|wish| !wish.within.is_empty())?;
    if job.request.aside.is_some() {
        return None;
    }
    let inside = host.grid.iter().filter(|core| wish.allows(core)).count();
    let exclusive = job.request.class == Some(Class::Exclusive);
    Some((inside, !exclusive && inside < job.slots()))
}

/// Whether a waiting job needs more cores than this user has while other users' daemons have jobs.
pub(crate) fn waits_for_neighbours(host: &Host, job: &Job) -> bool {
    let lacks = || match (sets::reservation_of(host, job), &job.request.aside) {
        (Some(at), _) => job.slots() > host.reservations[at].cores.len(),
        (None, Some(_)) => isolation::is_too_wide(job.request.cores, host.grid.len()),
        (None, None) => {
            job.slots() > host.grid.len() || within_cpuset(host, job).is_some_and(|(_, short)| short)
        }
    };
    host.machine.neighbours_cores > 0 && job.live().is_none() && lacks()
}

/// Whether a job waits for cores inside its border to come back.
pub(crate) fn is_excluded(host: &Host, settings: &Settings, job: &Job) -> bool {
    settings.schedule && within_cpuset(host, job).is_some_and(|(_, short)| short)
}
