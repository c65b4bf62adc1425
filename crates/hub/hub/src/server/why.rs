//! Decisions about a job, in the form of `pinfold why --json` on the host. Hosts send neither the numbers behind a
//! state nor the codes of decisions: these keys are present and empty.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use pinfold_hubwire::bundle::{Act, LEFT_OUT};
use pinfold_proto::JobState;
use pinfold_proto::view::{DecisionView, LeftOutView, ReportView, VERSION, WhyView};
use serde::{Deserialize, Serialize};

use super::api::host_of;
use super::auth::Viewer;
use super::problem::Problem;
use crate::hub::Hub;
use crate::store::{Access, ReportQuery};

/// The job to explain.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneJob {
    host: String,
    job: u64,
}

/// The output of `pinfold why --json`, with its host.
#[derive(Debug, Serialize)]
struct HostWhy {
    host: String,
    #[serde(flatten)]
    why: WhyView,
}

/// Decisions about a job: all decisions of a finished job, and the cause of an unfinished job's state.
pub async fn why(
    State(hub): State<Arc<Hub>>,
    viewer: Viewer,
    Query(asked): Query<OneJob>,
) -> Result<Response, Problem> {
    hub.answer(move |hub| why_of(hub, viewer.access, &asked)).await
}

fn why_of(hub: &Hub, access: Access, asked: &OneJob) -> Result<HostWhy, Problem> {
    let host = host_of(hub, &asked.host)?;
    let status = host.seen_by(&access);
    if let Some(job) = status.iter().flat_map(|status| &status.jobs).find(|job| job.job == asked.job) {
        let cause = job.reason.clone().unwrap_or_else(|| untold(job.job));
        return Ok(HostWhy { host: host.name.clone(), why: view(job.job, job.state, cause) });
    }
    let query = ReportQuery {
        access,
        host: Some(asked.host.clone()),
        job: Some(asked.job),
        limit: 1,
        ..ReportQuery::default()
    };
    let Some(found) = hub.store.reports(&query)?.reports.pop() else {
        let words =
            format!("no job {} of {} is known here, or it is not yours to see", asked.job, asked.host);
        return Err(Problem::new(StatusCode::NOT_FOUND, words));
    };
    let report = found.head.report;
    let left_out = left_out(&found.head.acts);
    let change = over_change(&report);
    let cause = report.reason.unwrap_or_else(|| "it is over".to_owned());
    let decisions = found.head.acts.into_iter().map(decision).collect();
    let why = WhyView { change, decisions, left_out, ..view(report.job, report.state, cause) };
    Ok(HostWhy { host: found.host, why })
}

fn view(job: u64, state: JobState, cause: String) -> WhyView {
    WhyView {
        version: VERSION,
        job,
        state,
        cause,
        numbers: Vec::new(),
        figures: Default::default(),
        change: String::new(),
        decisions: Vec::new(),
        left_out: None,
        expected_start_s: None,
    }
}

/// Message for a missing cause, which the host gives on request.
fn untold(job: u64) -> String {
    format!("its host did not tell the cause; `pinfold why {job}` there does")
}

/// The change that a finished job could still have, in the words of its host.
fn over_change(report: &ReportView) -> String {
    match report.started_s {
        Some(_) => format!("nothing: it is over; `pinfold report {}` shows what it used", report.job),
        None => "nothing: it never ran; submit it again".to_owned(),
    }
}

fn decision(act: Act) -> DecisionView {
    DecisionView {
        time_s: act.time_s,
        action: act.action,
        text: act.reason.clone(),
        reason: act.reason,
        action_code: None,
        code: None,
        figures: Default::default(),
    }
}

/// The decisions between which others were dropped, if any, as in `pinfold why --json` of this host.
fn left_out(acts: &[Act]) -> Option<LeftOutView> {
    let at = acts.iter().position(|act| act.action == LEFT_OUT)?;
    let (before, after) = (acts.get(at.checked_sub(1)?)?, acts.get(at + 1)?);
    Some(LeftOutView { after_s: before.time_s, before_s: after.time_s, hides_state: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_decisions_are_left_out_is_told() {
        let check = |acts: &[(f64, &str)], want: Option<LeftOutView>| {
            let act = |&(time_s, action): &(f64, &str)| Act {
                time_s,
                action: action.to_owned(),
                reason: String::new(),
            };
            assert_eq!(left_out(&acts.iter().map(act).collect::<Vec<_>>()), want, "{acts:?}");
        };
        check(&[], None);
        check(&[(1.0, "start"), (2.0, "freeze")], None);
        let want = LeftOutView { after_s: 2.0, before_s: 90.0, hides_state: false };
        check(&[(1.0, "start"), (2.0, "freeze"), (2.0, LEFT_OUT), (90.0, "thaw")], Some(want));
        // No host sends this.
        check(&[(2.0, LEFT_OUT)], None);
        check(&[(1.0, "start"), (2.0, LEFT_OUT)], None);
    }
}
