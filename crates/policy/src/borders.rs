//! Jobs that may not go beyond certain PUs: whether there is room for them there at all.
//!
//! The cores inside such a border may be set aside for others, or gone. A job that has not started waits then until they
//! are back, without holding anybody up; one that has goes on where there is room, as a job does whose set is gone.

use crate::job::Job;
use crate::policy::Policy;
use crate::{Class, JobId};

impl Policy {
    /// The cores inside a job's border, and whether they are too few for it; `None`: it has no border, or one of its own
    /// set's cores.
    pub(crate) fn within_border(&self, job: &Job) -> Option<(usize, bool)> {
        let wish = job.request.wish.as_deref().filter(|wish| !wish.within.is_empty())?;
        if job.request.aside.is_some() {
            return None;
        }
        let inside = self.cores.iter().filter(|core| wish.allows(core)).count();
        let exclusive = job.request.class == Some(Class::Exclusive);
        Some((inside, !exclusive && inside < job.slots()))
    }

    /// Whether a job waits for cores inside its border to come back.
    pub(crate) fn is_shut_out(&self, job: &Job) -> bool {
        self.settings.schedule && self.within_border(job).is_some_and(|(_, short)| short)
    }

    /// The cores are others now: who was shut out may have its place, and the other way round.
    pub(crate) fn look_at_borders(&mut self) {
        let bordered = |job: &Job| job.request.wish.as_ref().is_some_and(|wish| !wish.within.is_empty());
        let bordered: Vec<JobId> =
            self.jobs.values().filter(|job| bordered(job)).map(|job| job.id()).collect();
        for job in bordered {
            self.dequeue(job);
            self.enqueue(job);
        }
    }

    /// For a job that is shut out: cause, and what would change it.
    pub(crate) fn explain_border(
        &self,
        job: &Job,
        numbers: &mut Vec<(&'static str, String)>,
    ) -> Option<(String, String)> {
        let (inside, short) = self.within_border(job).filter(|_| self.settings.schedule)?;
        if !short {
            return None;
        }
        let within = &job.request.wish.as_deref()?.within;
        numbers.push(("cores it may be on", inside.to_string()));
        Some((
            format!(
                "it may be on PUs {within} only, where {inside} cores are for jobs now, and it asks for {}",
                job.request.cores
            ),
            "cores there that are set aside must be given back, or those that are gone must return"
                .to_owned(),
        ))
    }
}
