//! How a job's cores lie: close together or apart.
//!
//! Decided when a job first gets cores, and kept from then on. A job that says how gets it; any other lies close
//! together, unless jobs of its class were found to run faster apart, or it is their turn to be tried so (`trials`).
//! Tried are only primaries of several cores that wish no more than a number of them, on machines where they could lie
//! otherwise. Absent: which cores those are (`choice`).

use pinfold_place::layout::LayoutRequest;
use pinfold_place::pack::Shape;

use crate::api::{Class, JobId, Kind, Lay, Place, Settings};
use crate::cores::host::Host;
use crate::cores::trials::Known;
use crate::jobs::{Job, JobTable};

/// Whether a layout says no more than how many tasks and PUs there are.
fn asks_for_counts(layout: &LayoutRequest) -> bool {
    let (ntasks, cpus_per_task) = (layout.ntasks, layout.cpus_per_task);
    *layout == LayoutRequest { ntasks, cpus_per_task, ..LayoutRequest::default() }
}

/// How a job lies from now on; `None`: that is decided already.
pub(crate) fn decide_shape(host: &mut Host, settings: &Settings, job: &Job) -> Option<Shape> {
    if job.lies.is_some() {
        return None;
    }
    Some(match place_of(settings, job) {
        Place::Compact => Shape::Compact,
        Place::Spread => Shape::Spread,
        Place::Auto => is_tried(host, settings, job).map_or(Shape::Compact, |kind| host.trials.begin(kind)),
    })
}

/// What it says, or else the settings.
pub(crate) fn place_of(settings: &Settings, job: &Job) -> Place {
    job.asked_place().unwrap_or(settings.place)
}

/// As [`decide_shape`] for a job that was found running: nobody knows whether it was tried.
pub(crate) fn shape_found(settings: &Settings, job: &Job) -> Shape {
    if place_of(settings, job) == Place::Spread { Shape::Spread } else { Shape::Compact }
}

/// The kind of a job that lies as its kind was found to run faster, or as it is tried.
pub(crate) fn is_tried(host: &Host, settings: &Settings, job: &Job) -> Option<Kind> {
    let request = &job.request;
    let (fewest, most) = host.grid.site.domains_for(job.slots());
    let pinned = settings.affinity && settings.schedule;
    let plain = request
        .wish
        .as_deref()
        .is_none_or(|wish| wish.named.is_empty() && wish.within.is_empty() && asks_for_counts(&wish.layout));
    let primary = matches!(request.class, None | Some(Class::Primary));
    let free = pinned && plain && primary && request.aside.is_none();
    request.kind.filter(|_| free && job.slots() > 1 && fewest < most)
}

/// How the cores lie that a job has just started on; `None`: there was nothing to choose.
pub(crate) fn lay_of(host: &Host, settings: &Settings, job: &Job) -> Option<Lay> {
    let live = job.live().filter(|live| live.class == Class::Primary && live.aside.is_none())?;
    let site = &host.grid.site;
    let (fewest, most) = site.domains_for(job.slots());
    let whole = live.cores.len() == job.slots() && settings.affinity;
    if !whole || job.slots() < 2 || fewest == most {
        return None;
    }
    let (domains, shape) = (site.domains_of(&live.cores), job.shape());
    let pure = domains == if shape == Shape::Spread { most } else { fewest };
    Some(Lay { shape, level: site.smallest(), domains, pure })
}

/// What is known of how the kind of a job runs close together and apart, where that has a say; `None`: it does not, or
/// nothing is known.
pub(crate) fn known_of(host: &Host, jobs: &JobTable, settings: &Settings, job: JobId) -> Option<Known> {
    let job = jobs.get(&job).filter(|job| place_of(settings, job) == Place::Auto)?;
    host.trials.known(is_tried(host, settings, job)?)
}
