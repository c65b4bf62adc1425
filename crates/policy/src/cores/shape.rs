//! How a job's cores lie: close together or apart.
//!
//! Decided when a job first gets cores, and kept from then on. A job that says how gets it; any other lies close together,
//! unless jobs of its class were found to run faster apart, or it is their turn to be tried so (`trials`). Tried are only
//! primaries of several cores that wish no more than a number of them, on machines where they could lie otherwise.
//! Absent: which cores those are (`choice`).

use pinfold_place::layout::LayoutRequest;
use pinfold_place::pack::Shape;

use crate::api::{Class, JobId, Kind, Lay, Place, Ran};
use crate::cores::trials::Known;
use crate::jobs::Job;
use crate::rooms::Rooms;

/// Whether a layout says no more than how many tasks and PUs there are.
fn asks_for_counts(layout: &LayoutRequest) -> bool {
    let (ntasks, cpus_per_task) = (layout.ntasks, layout.cpus_per_task);
    *layout == LayoutRequest { ntasks, cpus_per_task, ..LayoutRequest::default() }
}

/// Decides how a job lies, if that is not decided yet.
pub(crate) fn decide_shape(rooms: &mut Rooms, id: JobId) {
    let Some(job) = rooms.jobs.get(&id).filter(|job| job.lies.is_none()) else { return };
    let shape = match place_of(rooms, job) {
        Place::Compact => Shape::Compact,
        Place::Spread => Shape::Spread,
        Place::Auto => is_tried(rooms, job).map_or(Shape::Compact, |kind| rooms.cores.trials.begin(kind)),
    };
    rooms.jobs.set_shape(id, shape);
}

/// What it says, or else the settings.
pub(crate) fn place_of(rooms: &Rooms, job: &Job) -> Place {
    job.asked_place().unwrap_or(rooms.settings.place)
}

/// As [`decide_shape`] for a job that was found running: nobody knows whether it was tried.
pub(crate) fn keep_shape(rooms: &mut Rooms, id: JobId) {
    let Some(job) = rooms.jobs.get(&id) else { return };
    let shape = if place_of(rooms, job) == Place::Spread { Shape::Spread } else { Shape::Compact };
    rooms.jobs.set_shape(id, shape);
}

/// The kind of a job that lies as its kind was found to run faster, or as it is tried.
pub(crate) fn is_tried(rooms: &Rooms, job: &Job) -> Option<Kind> {
    let request = &job.request;
    let (fewest, most) = rooms.cores.grid.site.domains_for(job.slots());
    let pinned = rooms.settings.affinity && rooms.settings.schedule;
    let plain = request
        .wish
        .as_deref()
        .is_none_or(|wish| wish.named.is_empty() && wish.within.is_empty() && asks_for_counts(&wish.layout));
    let primary = matches!(request.class, None | Some(Class::Primary));
    let free = pinned && plain && primary && request.aside.is_none();
    request.kind.filter(|_| free && job.slots() > 1 && fewest < most)
}

/// Notes how the cores lie that a job has just started on.
pub(crate) fn note_lay(rooms: &mut Rooms, id: JobId) {
    let Some(job) = rooms.jobs.get(&id) else { return };
    let Some(live) = job.live().filter(|live| live.class == Class::Primary && live.aside.is_none()) else {
        return;
    };
    let site = &rooms.cores.grid.site;
    let (fewest, most) = site.domains_for(job.slots());
    let whole = live.cores.len() == job.slots() && rooms.settings.affinity;
    if !whole || job.slots() < 2 || fewest == most {
        return;
    }
    let (domains, shape) = (site.domains_of(&live.cores), job.shape());
    let pure = domains == if shape == Shape::Spread { most } else { fewest };
    let lay = Lay { shape, level: site.smallest(), domains, pure };
    rooms.jobs.set_lay(id, lay);
}

/// What is known of how the kind of a job runs close together and apart, where that has a say; `None`: it does not, or
/// nothing is known.
pub(crate) fn known_of(rooms: &Rooms, job: JobId) -> Option<Known> {
    let job = rooms.jobs.get(&job).filter(|job| place_of(rooms, job) == Place::Auto)?;
    rooms.cores.trials.known(is_tried(rooms, job)?)
}

/// A job is over whose cores lay one way from its start to its end.
pub(crate) fn ran(rooms: &mut Rooms, ran: Ran) {
    rooms.cores.trials.ended(ran);
}
