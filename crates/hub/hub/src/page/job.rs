//! A finished or unfinished job: its figures, its series before the usual band of its class, advice, and the decisions
//! about it.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use maud::{Markup, html};
use pinfold_hubwire::bundle::microseconds;
use pinfold_hubwire::series::Columns;
use pinfold_profile::plot;
use pinfold_profile::report::{duration, notes, plain, size};
use pinfold_proto::JobState;
use pinfold_proto::view::{PointView, ReportView};

use super::figures::{bar, moment, precise, real};
use super::hosts::{REFRESH_S, job_link};
use super::list;
use super::picture::{self, Look};
use super::table::{Form, Table};
use super::{Asker, NoView, filter, frame, nothing, person, usual};
use crate::advice;
use crate::hub::Hub;
use crate::server::problem::Problem;
use crate::store::{Access, Ending, JobDetail, JobQuery, Session, WORD_MAX, columns, now_us};

/// The most decisions shown.
const ACTS_SHOWN: usize = 200;

/// The most characters of a command shown.
const COMMAND_SHOWN: usize = 2_000;

/// The job; without access, the answer equals a missing job's.
fn found(hub: &Hub, access: &Access, id: i64) -> Result<JobDetail, NoView> {
    let missing = || nothing("There is no such job here, or it is not yours to see.");
    hub.store.job(id, access)?.ok_or_else(missing)
}

pub(super) async fn view(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Path(id): Path<i64>,
) -> Result<Markup, NoView> {
    let session = person(&hub, &asker).await?;
    hub.ask(move |hub| {
        let detail = found(hub, &session.access, id)?;
        let advice = advised(hub, &detail.head.report, &session.access)?;
        Ok(page(&format!("/jobs/{id}"), &detail, advice, &session))
    })
    .await?
}

/// Interval of reloads while the host's report is awaited, in seconds.
const ASKED_S: u32 = 2;

/// A job by its host and number.
enum ByHost {
    /// Finished, with this number at the hub.
    Over(i64),
    /// Unfinished, with its host's report.
    Told(Box<JobDetail>),
    /// Unfinished, with a report requested of its host.
    Asked,
}

fn by_host(hub: &Hub, access: &Access, name: &str, job: u64) -> Result<ByHost, NoView> {
    let missing = || nothing("There is no such job on that host, or it is not yours to see.");
    let host = hub.host(name)?.ok_or_else(missing)?;
    if !host.seen_by(access).is_some_and(|seen| seen.jobs.iter().any(|seen| seen.job == job)) {
        let conditions = columns::conditions(&format!("job={job}")).map_err(Problem::wrong)?;
        let (access, host) = (access.clone(), Some(host.name));
        let over = hub.store.jobs(&JobQuery { access, host, conditions, limit: 1, ..JobQuery::default() })?;
        return over.jobs.first().map(|row| ByHost::Over(row.id)).ok_or_else(missing);
    }
    hub.wanted(host.id, Some(job));
    let told = host.live.as_ref().and_then(|live| live.asked.iter().find(|part| part.job == job));
    let Some((part, mut head)) = told.and_then(|part| Some((part, part.head.clone()?))) else {
        return Ok(ByHost::Asked);
    };
    head.report.series = part.series.as_ref().map(Columns::points);
    let received_us = host.seen_us.unwrap_or(0);
    Ok(ByHost::Told(Box::new(JobDetail { host: host.name, received_us, head, incomplete: false, one_of: 1 })))
}

/// A job by host and number: live until its end, and its stored page afterwards.
pub(super) async fn live(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Path((host, job)): Path<(String, u64)>,
) -> Result<Response, NoView> {
    let session = person(&hub, &asker).await?;
    hub.ask(move |hub| {
        let view = match by_host(hub, &session.access, &host, job)? {
            ByHost::Over(id) => return Ok(Redirect::to(&format!("/jobs/{id}")).into_response()),
            ByHost::Told(detail) => {
                let advice = advised(hub, &detail.head.report, &session.access)?;
                page(&job_link(&host, job), &detail, advice, &session)
            }
            ByHost::Asked => {
                let words = html! { p { "Its host is asked for its report, which comes within some seconds. If it does not, the host is away, or its \
                    pusher is of an earlier version." } };
                frame::around(&session, "/jobs", &format!("Job {job} of {host}"), Some(ASKED_S), words)
            }
        };
        Ok(view.into_response())
    })
    .await?
}

/// The jobs of a job's class: of its name and user, that ended well.
fn of_its_class(report: &ReportView, access: &Access) -> JobQuery {
    JobQuery {
        access: access.clone(),
        user: Some(report.user.clone()),
        // An asterisk would stand for other names as well.
        name: Some(report.name.replace('*', "")),
        ending: Some(Ending::Succeeded),
        ..JobQuery::default()
    }
}

/// The advice for the next job of a job's class, in a sentence; `None`: too few jobs of it ended well.
fn advised(hub: &Hub, report: &ReportView, access: &Access) -> Result<Option<String>, NoView> {
    let query = JobQuery { access: access.clone(), user: Some(report.user.clone()), ..JobQuery::default() };
    let classes = advice::classes(&hub.store, &report.name, query, now_us())?;
    let of_job = |class: &advice::Class| class.user == report.user && class.cores == report.cores.max(1);
    Ok(classes.into_iter().find(of_job).map(|class| {
        format!(
            "The last {} jobs of this name, user and number of cores that ended well held {} at most: ask for --mem {} (risk {:.0} %).",
            class.runs.len(),
            size(class.advice.largest_bytes),
            advice::mebibytes(advice::ask_bytes(&class.advice)),
            100.0 * class.advice.risk
        )
    }))
}

fn page(address: &str, detail: &JobDetail, advice: Option<String>, session: &Session) -> Markup {
    let report = &detail.head.report;
    let over = report.state == JobState::Exited;
    let title = format!("Job {} of {}: {}", report.job, detail.host, plain(&report.name));
    let view = html! {
        @for note in notes(report) { p.note { (plain(&note)) } }
        @if let Some(advice) = advice { p.note { (advice) } }
        (picture(address, detail))
        (figures(report))
        (acts(detail))
        h2 { "Command" }
        pre { (command(report)) }
        p.small { @if over { "Came in" } @else { "Told" } " at " (moment(i64::try_from(detail.received_us).unwrap_or(0))) " by this hub's clock. "
            a href=(of_same_name(&report.name)) { "All jobs of this name" } }
    };
    frame::around(session, "/jobs", &title, (!over).then_some(REFRESH_S), view)
}

/// The address of all jobs of a name, cut as in the store.
fn of_same_name(name: &str) -> String {
    let kept: String = name.chars().take(WORD_MAX).collect();
    format!("/jobs?name={}&days=365", filter::encoded(&kept))
}

fn command(report: &ReportView) -> String {
    plain(&report.command.join(" ").chars().take(COMMAND_SHOWN).collect::<String>())
}

fn picture(address: &str, detail: &JobDetail) -> Markup {
    let series = detail.head.report.series.as_ref();
    html! {
        @match series {
            None => p { "Its series is not kept any more, or it has none." },
            Some(points) => {
                (picture::chart(&format!("{address}/chart.svg"), &alternative(&detail.head.report, points)))
                @if detail.head.report.state == JobState::Exited { p { a href=(format!("{address}/series.csv")) download { "The series as CSV" } ", "
                    a href=(format!("{address}/series.parquet")) download { "as Parquet" } ", " (points.len()) " points."
                    @if detail.one_of > 1 { " It is long: 1 of " (detail.one_of) " points is shown." }
                    @if detail.incomplete { " Some of it has not come in yet." } } }
            }
        }
    }
}

/// The picture in words.
fn alternative(report: &ReportView, points: &[PointView]) -> String {
    format!(
        "Memory, cores and storage over {}: memory up to {}, {} points",
        duration(report.wall_s.unwrap_or(0.0)),
        size(report.memory_peak_bytes),
        points.len()
    )
}

fn figures(report: &ReportView) -> Markup {
    let wall_s = report.wall_s.unwrap_or(0.0);
    let active_s = (wall_s - report.suspended_s).max(0.0);
    let cpu_s = report.cpu_user_s + report.cpu_system_s;
    let used = if active_s > 0.0 { cpu_s / active_s } else { 0.0 };
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "not known".to_owned(), size);
    html! {
        h2 { "Figures" }
        dl.figures.two {
            dt { "User" } dd { (plain(&report.user)) @if let Some(project) = &report.project { ", project " (plain(project)) } }
            @let at = |time_s: Option<f64>| time_s.map_or_else(|| "not yet".to_owned(), |time_s| moment(i64::try_from(microseconds(time_s)).unwrap_or(0)));
            dt { "Submitted" } dd { (at(Some(report.submitted_s))) }
            dt { "Started" } dd { (at(report.started_s)) }
            dt { "Ended" } dd { (at(report.ended_s)) }
            dt { @if report.state == JobState::Exited { "End" } @else { "State" } } dd {
                @match (report.exit_code, report.signal) {
                    (Some(0), _) if let Some(end) = report.end => span.bad { (end.words()) ", then exit code 0" },
                    (Some(0), _) => { "exit code 0" },
                    (Some(code), _) => span.bad { "exit code " (code) },
                    (None, Some(signal)) => span.bad { "signal " (signal) },
                    (None, None) if report.state != JobState::Exited => { (report.state.word()) @if let Some(reason) = &report.reason { ": " (plain(reason)) } },
                    (None, None) => span.bad { (report.reason.as_deref().map_or_else(|| report.state.word().to_owned(), plain)) },
                }
            }
            dt { "Waited" } dd { (duration(report.queued_s)) }
            dt { "Wall time" } dd { (duration(wall_s)) @if report.suspended_s > 0.0 { ", suspended " (duration(report.suspended_s)) } }
            dt { "Cores" } dd { (bar(used / f64::from(report.cores.max(1)), "cores used of those asked for")) (real(used)) " used of " (report.cores.max(1)) }
            dt { "CPU time" } dd { (duration(report.cpu_user_s)) " user, " (duration(report.cpu_system_s)) " system" }
            dt { "Memory peak" } dd {
                @if let Some(claim) = report.claim_bytes.filter(|&claim| claim > 0) {
                    (bar(precise(report.memory_peak_bytes) / precise(claim), "memory used of the claim")) (size(report.memory_peak_bytes)) " of " (size(claim)) " claimed"
                } @else { (size(report.memory_peak_bytes)) ", nothing claimed" }
            }
            dt { "Memory mean" } dd { (size(report.memory_mean_bytes)) }
            dt { "Page cache peak" } dd { (bytes(report.cache_peak_bytes)) }
            dt { "Swap peak" } dd { (size(report.swap_peak_bytes)) }
            dt { "Read, written" } dd { (size(report.io_read_bytes)) ", " (size(report.io_write_bytes)) }
            dt { "Processes" } dd { (report.processes_total) " in all, " (report.processes_peak) " at once, " (report.threads_peak) " threads" }
        }
    }
}

fn acts(detail: &JobDetail) -> Markup {
    let acts = &detail.head.acts;
    let start_s = detail.head.report.started_s.unwrap_or(detail.head.report.submitted_s);
    html! {
        @if !acts.is_empty() {
            h2 { "What the host decided" }
            (list::table("Decisions", ">After start|Decision|~Why", acts.iter().take(ACTS_SHOWN).map(|act| {
                let after = html! { @if act.time_s < start_s { "-" (duration(start_s - act.time_s)) } @else { (duration(act.time_s - start_s)) } };
                vec![after, html! { (plain(&act.action)) }, html! { (plain(&act.reason)) }]
            })))
            @if acts.len() > ACTS_SHOWN { p.small { "and " (acts.len() - ACTS_SHOWN) " more" } }
        }
    }
}

pub(super) async fn chart(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Path(id): Path<i64>,
    Query(look): Query<Look>,
) -> Result<Response, NoView> {
    let session = person(&hub, &asker).await?;
    let drawn = hub.ask(move |hub| drawn(hub, &session.access, found(hub, &session.access, id)?, look));
    Ok(picture::answer(drawn.await??))
}

/// The picture of an unfinished job.
pub(super) async fn live_chart(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Path((host, job)): Path<(String, u64)>,
    Query(look): Query<Look>,
) -> Result<Response, NoView> {
    let session = person(&hub, &asker).await?;
    let drawn = hub.ask(move |hub| {
        let ByHost::Told(detail) = by_host(hub, &session.access, &host, job)? else {
            return Err(nothing("Its host does not tell its series now."));
        };
        drawn(hub, &session.access, *detail, look)
    });
    Ok(picture::answer(drawn.await??))
}

/// The series of a job, with the band in which memory of the last jobs of its class lay.
fn drawn(hub: &Hub, access: &Access, detail: JobDetail, look: Look) -> Result<String, NoView> {
    let mut report = detail.head.report;
    let curves = hub.store.curves(&of_its_class(&report, access))?;
    report.name = plain(&report.name);
    let mut chart = plot::job_chart(&report);
    if let Some(memory) = chart.panels.first_mut() {
        memory.series.extend(usual::band(&curves));
    }
    Ok(picture::sized(look, (1_100, 640), (380, 640), |width, height| chart.to_svg(width, height)))
}

pub(super) async fn table(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    form: Form,
    Path(id): Path<i64>,
) -> Result<Response, NoView> {
    let session = person(&hub, &asker).await?;
    hub.ask(move |hub| table_of(&found(hub, &session.access, id)?).answer(&format!("job-{id}-series"), form))
        .await?
}

fn table_of(detail: &JobDetail) -> Table {
    let points = detail.head.report.series.as_deref().unwrap_or_default();
    let mut table = Table::new(points.len());
    table.real("time_s", points.iter().map(|point| Some(point.time_s)));
    table.real("cpu_cores", points.iter().map(|point| Some(point.cpu_cores)));
    table.count("memory_bytes", points.iter().map(|point| Some(point.memory_bytes)));
    table.count("cache_bytes", points.iter().map(|point| point.cache_bytes));
    table.count("swap_bytes", points.iter().map(|point| Some(point.swap_bytes)));
    table.count("io_read_bytes", points.iter().map(|point| Some(point.io_read_bytes)));
    table.count("io_write_bytes", points.iter().map(|point| Some(point.io_write_bytes)));
    table.count("processes", points.iter().map(|point| Some(point.processes.into())));
    table.count("threads", points.iter().map(|point| Some(point.threads.into())));
    table.text("state", points.iter().map(|point| Some(point.state.word().to_owned())));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_a_long_name_are_found_by_what_is_kept_of_it() {
        assert_eq!(of_same_name("trail "), "/jobs?name=trail%20&days=365");
        let kept = "x".repeat(WORD_MAX);
        assert_eq!(of_same_name(&format!("{kept}yz")), format!("/jobs?name={kept}&days=365"));
    }
}
