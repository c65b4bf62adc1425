//! The machine changes: PUs go off and on line, and the set that this daemon and its jobs may use is changed from
//! outside. No file tells of either, so it is looked at: two or three small files, every few seconds while there are
//! jobs, and when one comes after a quiet time.

use std::time::Duration;

use pinfold_policy::JobId;
use pinfold_sys::discover;
use pinfold_topo::CpuSet;

use crate::core::Ctx;
use crate::jobs::JobTable;

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

impl Seen {
    /// When to look again; not while there is nothing to look for.
    pub(crate) fn look_due_us(&self, table: &JobTable) -> Option<u64> {
        (!table.is_empty()).then_some(self.due_us)
    }

    /// Looks whether the machine is still what it was, unless that was done a moment ago. If it is not: whether it is the
    /// first look.
    pub(crate) fn look(&mut self, ctx: &mut Ctx) -> Option<bool> {
        let now_us = ctx.clock.now_us();
        if now_us < self.due_us {
            return None;
        }
        self.due_us = now_us + u64::try_from(LOOK_EVERY.as_micros()).expect("seconds");
        let (Ok(online), Ok(own)) = (discover::online(), discover::allowed()) else { return None };
        self.give_back(ctx, &online);
        // What jobs have to themselves is not among what this process may use.
        let own = own.union(&ctx.containers.isolated_cpus().intersection(&online));
        // Jobs can have no more than the groups above theirs, and those may be narrowed by others.
        let allowed = match ctx.containers.allowed_cpus() {
            Ok(Some(groups)) => own.intersection(&groups),
            Ok(None) => own,
            Err(error) => {
                tracing::debug!(%error, "the PUs of the jobs' groups cannot be read");
                own
            }
        };
        let first = self.online.is_empty();
        if (&online, &allowed) == (&self.online, &self.allowed) {
            return None;
        }
        self.gone = self.gone.union(&self.online.difference(&online));
        (self.online, self.allowed) = (online, allowed.clone());
        let survey = match discover::survey_within(allowed) {
            Ok(survey) => survey,
            Err(error) => {
                tracing::warn!(%error, "the machine changed and cannot be read");
                return None;
            }
        };
        ctx.topology = survey.topology;
        Some(first)
    }

    /// PUs that are on line again are given back to the groups that lost them when they went.
    fn give_back(&mut self, ctx: &Ctx, online: &CpuSet) {
        let back = self.gone.intersection(online);
        if back.is_empty() {
            return;
        }
        self.gone = self.gone.difference(&back);
        if let Err(error) = ctx.containers.give_back(&back) {
            tracing::warn!(%error, cpus = %back, "PUs that are on line again are not given to jobs");
        }
    }
}

/// Takes processes of a job that fell out of one of its groups in again.
pub(crate) fn gather_job(table: &JobTable, job: JobId) {
    let Some(container) = table.get(&job).and_then(|live| live.container.as_ref()) else {
        return;
    };
    if let Err(error) = container.gather() {
        tracing::warn!(job = job.0, %error, "a job is not wholly in its container");
    }
}
