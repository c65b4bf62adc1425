//! Other programs write to the kernel's files of a job. What they changed is noticed, set again, and told.
//!
//! Looked at are six small files of a job at the most; when, and what follows, the scheduler says (`policy::drift`). Absent:
//! jobs without groups.

use std::time::Duration;

use pinfold_policy::drift::{self, Verdict};
use pinfold_policy::{Instant, JobId};
use pinfold_proto::row::{Codes, DecisionRow};
use pinfold_sys::container::{Applied, Drift, Setting};

use crate::clients::audit::{Act, Audit, Concern};
use crate::core::{Ctx, in_full};
use crate::jobs::{JobTable, Jobs};
use crate::store::journal::Journal;

/// What was seen, and when to look next.
pub(crate) type Drifts = drift::Drifts<Setting>;

/// Looks whether the kernel still has of a job what it was told.
pub(crate) fn on_drift_due(
    ctx: &Ctx,
    journal: &mut Journal,
    jobs: &mut Jobs,
    audit: &mut Audit,
    drifts: &mut Drifts,
) {
    let Some(job) = drifts.next(&jobs.running) else { return };
    let Some(live) = jobs.table.get(&job) else { return };
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
    let verdicts = drifts.judge(job, &differs, Instant(ctx.clock.now_us()));
    for (drift, verdict) in found.iter().zip(verdicts) {
        match verdict {
            Verdict::Wait => {}
            Verdict::Heal => heal(ctx, journal, &mut jobs.table, audit, job, drift),
            Verdict::Leave(time) => leave(ctx, journal, audit, job, drift, time),
        }
    }
}

fn leave(ctx: &Ctx, journal: &mut Journal, audit: &mut Audit, job: JobId, drift: &Drift, time: Duration) {
    let reason = format!(
        "another program sets it to {} again and again; pinfold, which wants {}, leaves it so for {} s",
        shown(&drift.found),
        drift.wanted,
        time.as_secs()
    );
    tell_of_drift(ctx, journal, audit, job, drift, &format!("leave {}", drift.file), &reason);
}

fn heal(
    ctx: &Ctx,
    journal: &mut Journal,
    table: &mut JobTable,
    audit: &mut Audit,
    job: JobId,
    drift: &Drift,
) {
    let Some(container) = table.get_mut(&job).and_then(|live| live.container.as_mut()) else {
        return;
    };
    let outcome = match container.set_again(drift) {
        Ok(Applied::Done) => "and it was set back".to_owned(),
        Ok(Applied::Kept(why)) => format!("and it stays so: {why}"),
        Err(error) => format!("and it cannot be set back: {}", in_full(&error)),
    };
    let reason =
        format!("another program changed it from {} to {}, {outcome}", drift.wanted, shown(&drift.found));
    tell_of_drift(ctx, journal, audit, job, drift, &format!("restore {}", drift.file), &reason);
}

fn tell_of_drift(
    ctx: &Ctx,
    journal: &mut Journal,
    audit: &mut Audit,
    job: JobId,
    drift: &Drift,
    action: &str,
    reason: &str,
) {
    let now_us = ctx.clock.now_us();
    tracing::warn!(
        job = job.0,
        file = drift.file,
        wanted = drift.wanted,
        found = drift.found,
        reason,
        "another program changed what pinfold had set"
    );
    let codes = Codes {
        figures: [("file", drift.file), ("wanted", &drift.wanted), ("found", &drift.found)]
            .map(|(name, value)| (name.to_owned(), value.into()))
            .into_iter()
            .collect(),
        ..Codes::plain("restore", "drift")
    };
    journal.decided(DecisionRow {
        job: job.0,
        time_us: now_us,
        action: action.to_owned(),
        reason: reason.to_owned(),
        codes: Some(codes),
    });
    let time_s = pinfold_proto::view::seconds(now_us);
    let detail = format!("job {job}: {}: {reason}", drift.file);
    audit.record(Concern::Others, Act::of_the_daemon(time_s, "drift", detail));
}

fn shown(found: &str) -> &str {
    if found.is_empty() { "nothing" } else { found }
}
