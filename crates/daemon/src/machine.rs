//! The machine changes: PUs go off and on line, and the set that this daemon and its jobs may use is changed from
//! outside. No file tells of either, so it is looked at: two or three small files, every few seconds while there are
//! jobs, and when one comes after a quiet time.

use std::time::Duration;

use pinfold_policy::{Event as Judged, JobId};
use pinfold_sys::discover;
use pinfold_topo::CpuSet;

use crate::daemon::Daemon;
use crate::event::Effect;

/// How often is looked.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What was seen of the machine.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    online: CpuSet,
    allowed: CpuSet,
    /// PUs that went off line, and that first-generation groups lose with that for good.
    gone: CpuSet,
    due_us: u64,
}

impl Daemon {
    /// When to look again; not while there is nothing to look for.
    pub(crate) fn look_due_us(&self) -> Option<u64> {
        (!self.jobs.is_empty()).then_some(self.seen.due_us)
    }

    /// Looks whether the machine is still what it was, unless that was done a moment ago.
    pub(crate) fn look_at_machine(&mut self) {
        let now_us = self.clock.now_us();
        if now_us < self.seen.due_us {
            return;
        }
        self.seen.due_us = now_us + u64::try_from(LOOK_EVERY.as_micros()).expect("seconds");
        let (Ok(online), Ok(own)) = (discover::online(), discover::allowed()) else { return };
        self.give_back(&online);
        // What jobs have to themselves is not among what this process may use.
        let own = own.union(&self.containers.isolated_cpus().intersection(&online));
        // Jobs can have no more than the groups above theirs, and those may be narrowed by others.
        let allowed = match self.containers.allowed_cpus() {
            Ok(Some(groups)) => own.intersection(&groups),
            Ok(None) => own,
            Err(error) => {
                tracing::debug!(%error, "the PUs of the jobs' groups cannot be read");
                own
            }
        };
        let first = self.seen.online.is_empty();
        if (&online, &allowed) == (&self.seen.online, &self.seen.allowed) {
            return;
        }
        self.seen.gone = self.seen.gone.union(&self.seen.online.difference(&online));
        (self.seen.online, self.seen.allowed) = (online, allowed.clone());
        let survey = match discover::survey_within(allowed) {
            Ok(survey) => survey,
            Err(error) => return tracing::warn!(%error, "the machine changed and cannot be read"),
        };
        self.topology = survey.topology;
        let machine = self.machine();
        if *self.policy.machine() == machine {
            return;
        }
        if !first {
            tracing::warn!(cpus = %self.topology.usable(), offline = %self.topology.offline(), "the machine changed");
        }
        self.judge(Judged::Machine(machine));
        if !first {
            self.look_at_own_nodes();
        }
        // A group that lost its last PU lost its processes to the group above; they come back once it has others.
        let running: Vec<JobId> = self.running.iter().copied().collect();
        self.effects.extend(running.into_iter().map(Effect::Gather));
    }

    /// PUs that are on line again are given back to the groups that lost them when they went.
    fn give_back(&mut self, online: &CpuSet) {
        let back = self.seen.gone.intersection(online);
        if back.is_empty() {
            return;
        }
        self.seen.gone = self.seen.gone.difference(&back);
        if let Err(error) = self.containers.give_back(&back) {
            tracing::warn!(%error, cpus = %back, "PUs that are on line again are not given to jobs");
        }
    }

    /// Takes processes of a job that fell out of one of its groups in again.
    pub(crate) fn gather_job(&mut self, job: JobId) {
        let Some(container) = self.jobs.get(&job).and_then(|live| live.container.as_ref()) else { return };
        if let Err(error) = container.gather() {
            tracing::warn!(job = job.0, %error, "a job is not wholly in its container");
        }
    }
}
