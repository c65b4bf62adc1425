//! Aggregates for programs: runs of workflows, and weeks. Each counts only jobs that the viewer may see.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::auth::Viewer;
use super::problem::Problem;
use crate::drift;
use crate::hub::Hub;
use crate::store::{Access, DAY_US, JobQuery, RUNS_MAX, RunKey, RunRow, now_us};
use crate::weekly::{self, Subject, Week};
use crate::workflow::chain::Chain;
use crate::workflow::steps::{self, Figure, Step};

/// The runs to return.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Runs {
    host: Option<String>,
    user: Option<String>,
    project: Option<String>,
    workflow: Option<String>,
    since_us: Option<u64>,
    last: Option<u32>,
}

/// Runs of workflows, the last first.
pub async fn workflows(
    State(hub): State<Arc<Hub>>,
    viewer: Viewer,
    Query(asked): Query<Runs>,
) -> Result<Response, Problem> {
    if asked.last.is_some_and(|last| last > RUNS_MAX) {
        return Err(Problem::wrong(format!("at most {RUNS_MAX} runs at once")));
    }
    let query = JobQuery {
        access: viewer.access,
        host: asked.host,
        user: asked.user,
        project: asked.project,
        name: asked.workflow,
        since_us: asked.since_us,
        limit: asked.last.unwrap_or(RUNS_MAX),
        ..JobQuery::default()
    };
    hub.answer(move |hub| {
        let runs: Vec<Value> = hub.store.runs(&query)?.iter().map(run_view).collect();
        Ok(json!({ "version": 1, "runs": runs }))
    })
    .await
}

fn run_view(run: &RunRow) -> Value {
    let seconds = pinfold_proto::view::seconds;
    json!({ "workflow": run.workflow, "workflow_version": run.version, "run": run.run, "user": run.user, "hosts": run.hosts,
        "jobs": run.jobs, "failed": run.failed, "begun_s": seconds(run.begun_us), "ended_s": seconds(run.ended_us),
        "makespan_s": run.makespan_s(), "core_h": run.core_h, "cpu_h": run.cpu_h, "claimed_gibh": run.claimed_gibh,
        "unused_gibh": run.unused_gibh, "queued_h": run.queued_h })
}

/// The run to return.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneRun {
    workflow: String,
    user: String,
    run: String,
}

impl From<OneRun> for RunKey {
    fn from(asked: OneRun) -> Self {
        Self { workflow: asked.workflow, user: asked.user, run: asked.run }
    }
}

/// A run by its steps, beside earlier runs.
pub async fn run(
    State(hub): State<Arc<Hub>>,
    viewer: Viewer,
    Query(asked): Query<OneRun>,
) -> Result<Response, Problem> {
    let key = RunKey::from(asked);
    hub.answer(move |hub| run_answer(hub, &key, &viewer.access)).await
}

fn run_answer(hub: &Hub, key: &RunKey, access: &Access) -> Result<Value, Problem> {
    let none = || Problem::new(StatusCode::NOT_FOUND, "no such run is known here, or it is not yours to see");
    let detail = hub.store.run(key, access)?.ok_or_else(none)?;
    let chain = Chain::of(&detail.jobs);
    let steps: Vec<Value> = steps::of(&detail).iter().map(step_view).collect();
    Ok(json!({ "version": 1, "run": run_view(&detail.run), "cut": detail.cut, "steps": steps,
        "earlier": detail.earlier.iter().map(run_view).collect::<Vec<_>>(),
        "chain": { "jobs": chain.links.len(), "ran_s": chain.ran_s, "queued_s": chain.queued_s,
            "suspended_s": chain.suspended_s, "idle_s": chain.idle_s } }))
}

fn step_view(step: &Step) -> Value {
    let figure = |figure: &Figure| {
        let before = figure
            .before
            .map(|before| json!({ "low": before.low, "middle": before.middle, "high": before.high }));
        json!({ "now": figure.now, "before": before, "change": figure.change.word() })
    };
    json!({ "step": step.step, "jobs": step.jobs, "failed": step.failed, "earlier_runs": step.earlier_runs,
        "earlier_jobs": step.earlier_jobs, "ran_s": figure(&step.ran_s), "peak_bytes": figure(&step.peak_bytes),
        "core_h": step.core_h, "claimed_gibh": step.claimed_gibh, "queued_h": step.queued_h })
}

/// The week, and its user or project.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneWeek {
    #[serde(default)]
    user: String,
    #[serde(default)]
    project: String,
    week: Option<String>,
}

/// Answers a week's report.
pub async fn weekly(
    State(hub): State<Arc<Hub>>,
    viewer: Viewer,
    Query(asked): Query<OneWeek>,
) -> Result<Response, Problem> {
    let subject = Subject::named(&asked.user, &asked.project).map_err(Problem::wrong)?;
    let week = match &asked.week {
        Some(text) => {
            Week::read(text).ok_or_else(|| Problem::wrong("week: a week is wanted, as in 2026-W47"))?
        }
        None => weekly::last(now_us()),
    };
    hub.answer(move |hub| Ok(weekly::json(&weekly::report(&hub.store, &viewer.access, subject, week)?))).await
}

/// The class to return.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneClass {
    host: Option<String>,
    user: Option<String>,
    project: Option<String>,
    name: String,
    since_us: Option<u64>,
}

/// Answers a class by week.
pub async fn class(
    State(hub): State<Arc<Hub>>,
    viewer: Viewer,
    Query(asked): Query<OneClass>,
) -> Result<Response, Problem> {
    if asked.name.is_empty() {
        return Err(Problem::wrong("name: that of a class is needed"));
    }
    let query = JobQuery {
        access: viewer.access,
        host: asked.host,
        user: asked.user,
        project: asked.project,
        name: Some(asked.name),
        since_us: Some(asked.since_us.unwrap_or_else(|| now_us().saturating_sub(365 * DAY_US))),
        ..JobQuery::default()
    };
    hub.answer(move |hub| Ok(drift::json(&drift::report(&hub.store, &query)?))).await
}
