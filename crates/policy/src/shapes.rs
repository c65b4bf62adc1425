//! How a job's cores lie: close together or apart.
//!
//! Decided when a job first gets cores, and kept from then on. Who says it gets it; who says nothing lies close together,
//! unless jobs of its kind were found to run faster apart, or it is their turn to be tried so (`trials`). Tried are only
//! primaries of several cores that wish no more than a number of them, on machines where they could lie otherwise.
//! Absent: which cores those are (`choice`).

use pinfold_place::layout::LayoutRequest;
use pinfold_place::pack::{Level, Shape};

use crate::job::{Job, Lay};
use crate::policy::Policy;
use crate::trials::Known;
use crate::{Class, JobId, Kind, Place};

impl Policy {
    /// Decides how a job lies, if that is not decided yet.
    pub(crate) fn decide_shape(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id).filter(|job| job.lies.is_none()) else { return };
        let shape = match self.place_of(job) {
            Place::Compact => Shape::Compact,
            Place::Spread => Shape::Spread,
            Place::Auto => self.is_tried(job).map_or(Shape::Compact, |kind| self.trials.begin(kind)),
        };
        if let Some(job) = self.jobs.get_mut(&id) {
            job.lies = Some(shape);
        }
    }

    /// What it says, or else the settings.
    fn place_of(&self, job: &Job) -> Place {
        job.asked_place().unwrap_or(self.settings.place)
    }

    /// As [`Self::decide_shape`] for a job that was found running: nobody knows whether it was tried.
    pub(crate) fn keep_shape(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let shape = if self.place_of(job) == Place::Spread { Shape::Spread } else { Shape::Compact };
        if let Some(job) = self.jobs.get_mut(&id) {
            job.lies = Some(shape);
        }
    }

    /// The kind of a job that lies as its kind was found to run faster, or as it is tried.
    fn is_tried(&self, job: &Job) -> Option<Kind> {
        let request = &job.request;
        let (fewest, most) = self.cores.site.domains_for(job.slots());
        let pinned = self.settings.affinity && self.settings.schedule;
        let plain = request.wish.as_deref().is_none_or(|wish| {
            wish.named.is_empty() && wish.within.is_empty() && asks_for_counts(&wish.layout)
        });
        let primary = matches!(request.class, None | Some(Class::Primary));
        let free = pinned && plain && primary && request.aside.is_none();
        request.kind.filter(|_| free && job.slots() > 1 && fewest < most)
    }

    /// Notes how the cores lie that a job has just started on.
    pub(crate) fn note_lay(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let Some(live) = job.live().filter(|live| live.class == Class::Primary && live.aside.is_none())
        else {
            return;
        };
        let site = &self.cores.site;
        let (fewest, most) = site.domains_for(job.slots());
        let whole = live.cores.len() == job.slots() && self.settings.affinity;
        if !whole || job.slots() < 2 || fewest == most {
            return;
        }
        let (domains, shape) = (site.domains_of(&live.cores), job.shape());
        let pure = domains == if shape == Shape::Spread { most } else { fewest };
        let lay = Lay { shape, level: site.smallest(), domains, pure };
        if let Some(live) = self.live_mut(id) {
            live.lay = Some(lay);
        }
    }

    /// What is known of how the kind of a job runs close together and apart, where that has a say; `None`: it does not, or
    /// nothing is known.
    #[must_use]
    pub fn known_of(&self, job: JobId) -> Option<Known> {
        let job = self.jobs.get(&job).filter(|job| self.place_of(job) == Place::Auto)?;
        self.trials.known(self.is_tried(job)?)
    }

    /// How a job of several cores lies, and why; `None`: there is nothing to choose.
    pub(crate) fn explain_shape(&self, job: &Job) -> Option<String> {
        let (fewest, most) = self.cores.site.domains_for(job.slots());
        if job.slots() < 2 || fewest == most || job.request.class == Some(Class::Exclusive) {
            return None;
        }
        let lies = match job.live() {
            Some(live) if !live.cores.is_empty() && live.aside.is_none() => {
                let domains = self.cores.site.domains_of(&live.cores);
                format!(
                    "{} on {domains} {}",
                    word(job.shape()),
                    domain_word(self.cores.site.smallest(), domains)
                )
            }
            _ => word(job.shape()).to_owned(),
        };
        let why = match self.place_of(job) {
            Place::Auto => match self.is_tried(job) {
                None => "it says how its tasks lie".to_owned(),
                Some(kind) => {
                    let known = self.trials.known(kind);
                    known.map_or_else(|| "nothing like it ran yet".to_owned(), |known| known.to_string())
                }
            },
            Place::Compact | Place::Spread if job.request.place.is_some() => "as asked (--place)".to_owned(),
            Place::Spread if job.asked_place().is_some() => "as asked (--hint memory_bound)".to_owned(),
            Place::Compact | Place::Spread => "as `cpu.place` says".to_owned(),
        };
        Some(format!("{lies}: {why}"))
    }
}

/// Whether a layout says no more than how many tasks and PUs there are.
fn asks_for_counts(layout: &LayoutRequest) -> bool {
    let (ntasks, cpus_per_task) = (layout.ntasks, layout.cpus_per_task);
    *layout == LayoutRequest { ntasks, cpus_per_task, ..LayoutRequest::default() }
}

const fn word(shape: Shape) -> &'static str {
    match shape {
        Shape::Compact => "close together",
        Shape::Spread => "apart",
    }
}

const fn domain_word(level: Level, count: usize) -> &'static str {
    match (level, count) {
        (Level::L3, 1) => "L3",
        (Level::L3, _) => "L3s",
        (Level::Numa, 1) => "NUMA node",
        (Level::Numa, _) => "NUMA nodes",
        (Level::Socket, 1) => "socket",
        (Level::Socket, _) => "sockets",
        (Level::Machine, _) => "machine",
    }
}
