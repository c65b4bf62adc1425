//! Other programs write to the kernel's files of a job. What they changed is noticed, set again, and told.
//!
//! Looked at are six small files of a job at the most; when, and what follows, the judgement says (`policy::drift`). Absent:
//! jobs without groups.

use std::time::Duration;

use pinfold_policy::drift::{self, Verdict};
use pinfold_policy::{Instant, JobId};
use pinfold_proto::row::DecisionRow;
use pinfold_sys::container::{Applied, Drift, Setting};

use crate::act::in_full;
use crate::audit::{Act, Concern};
use crate::daemon::Daemon;

/// What was seen, and when to look next.
pub(crate) type Drifts = drift::Drifts<Setting>;

impl Daemon {
    /// Looks whether the kernel still has of a job what it was told.
    pub(crate) fn look_for_drift(&mut self) {
        let Some(job) = self.drifts.next(&self.running) else { return };
        let Some(live) = self.jobs.get(&job) else { return };
        // Until its keeper has named its process it may be halfway in.
        let Some(container) = live.container.as_ref().filter(|_| live.row.main.is_some()) else { return };
        let found = match container.drifts(live.row.frozen_since_us.is_some()) {
            Ok(found) => found,
            Err(error) => {
                return tracing::debug!(job = job.0, error = %in_full(&error), "a job cannot be looked at");
            }
        };
        let differs: Vec<(Setting, String)> =
            found.iter().map(|drift| (drift.setting, drift.found.clone())).collect();
        let verdicts = self.drifts.judge(job, &differs, Instant(self.clock.now_us()));
        for (drift, verdict) in found.iter().zip(verdicts) {
            match verdict {
                Verdict::Wait => {}
                Verdict::Heal => self.heal(job, drift),
                Verdict::Leave(time) => self.leave(job, drift, time),
            }
        }
    }

    fn leave(&mut self, job: JobId, drift: &Drift, time: Duration) {
        let reason = format!(
            "another program sets it to {} again and again; pinfold, which wants {}, leaves it so for {} s",
            shown(&drift.found),
            drift.wanted,
            time.as_secs()
        );
        self.tell_of_drift(job, drift, &format!("leave {}", drift.file), &reason);
    }

    fn heal(&mut self, job: JobId, drift: &Drift) {
        let Some(container) = self.jobs.get_mut(&job).and_then(|live| live.container.as_mut()) else {
            return;
        };
        let outcome = match container.set_again(drift) {
            Ok(Applied::Done) => "and it was set back".to_owned(),
            Ok(Applied::Kept(why)) => format!("and it stays so: {why}"),
            Err(error) => format!("and it cannot be set back: {}", in_full(&error)),
        };
        let reason =
            format!("another program changed it from {} to {}, {outcome}", drift.wanted, shown(&drift.found));
        self.tell_of_drift(job, drift, &format!("restore {}", drift.file), &reason);
    }

    fn tell_of_drift(&mut self, job: JobId, drift: &Drift, action: &str, reason: &str) {
        let now_us = self.clock.now_us();
        tracing::warn!(
            job = job.0,
            file = drift.file,
            wanted = drift.wanted,
            found = drift.found,
            reason,
            "another program changed what pinfold had set"
        );
        self.journal.decided(DecisionRow {
            job: job.0,
            time_us: now_us,
            action: action.to_owned(),
            reason: reason.to_owned(),
        });
        let time_s = pinfold_proto::view::seconds(now_us);
        let detail = format!("job {job}: {}: {reason}", drift.file);
        self.audit.note(Concern::Others, Act::of_the_daemon(time_s, "drift", detail));
    }
}

fn shown(found: &str) -> &str {
    if found.is_empty() { "nothing" } else { found }
}
