//! One job: its figures, its series as a picture, and what the host decided about it.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};
use pinfold_profile::plot;
use pinfold_profile::report::{duration, notes, plain, size};
use pinfold_proto::view::{PointView, ReportView};

use super::figures::{bar, moment, precise, real};
use super::picture::{self, Look};
use super::table::{Form, Table};
use super::{Asker, NoView, filter, frame, nothing, person};
use crate::hub::Hub;
use crate::store::{Access, JobDetail, Session, WORD_MAX};

/// Decisions that are shown.
const ACTS_SHOWN: usize = 200;

/// Words of a command that are shown, in characters.
const COMMAND_SHOWN: usize = 2_000;

/// The job, for somebody who may see it; to others it is as if there were none.
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
    hub.ask(move |hub| Ok(page(id, &found(hub, &session.access, id)?, &session))).await?
}

fn page(id: i64, detail: &JobDetail, session: &Session) -> Markup {
    let report = &detail.head.report;
    let title = format!("Job {} of {}: {}", report.job, detail.host, plain(&report.name));
    let view = html! {
        @for note in notes(report) { p.note { (plain(&note)) } }
        (picture(id, detail))
        (figures(report))
        (acts(detail))
        h2 { "Command" }
        pre { (command(report)) }
        p.small { "Came in at " (moment(i64::try_from(detail.received_us).unwrap_or(0))) " by this hub's clock. "
            a href=(of_same_name(&report.name)) { "All jobs of this name" } }
    };
    frame::around(session, "/jobs", &title, None, view)
}

/// The address of all jobs of a name: they have as much of it as the store keeps.
fn of_same_name(name: &str) -> String {
    let kept: String = name.chars().take(WORD_MAX).collect();
    format!("/jobs?name={}&days=365", filter::encoded(&kept))
}

fn command(report: &ReportView) -> String {
    plain(&report.command.join(" ").chars().take(COMMAND_SHOWN).collect::<String>())
}

fn picture(id: i64, detail: &JobDetail) -> Markup {
    let series = detail.head.report.series.as_ref();
    html! {
        @match series {
            None => p { "Its series is not kept any more, or it has none." },
            Some(points) => {
                (picture::chart(&format!("/jobs/{id}/chart.svg"), &alternative(&detail.head.report, points)))
                p { a href=(format!("/jobs/{id}/series.csv")) download { "The series as CSV" } ", "
                    a href=(format!("/jobs/{id}/series.parquet")) download { "as Parquet" } ", " (points.len()) " points."
                    @if detail.one_of > 1 { " It is long: 1 of " (detail.one_of) " points is shown." }
                    @if detail.incomplete { " Some of it has not come in yet." } }
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
            dt { "Ended" } dd {
                @match (report.exit_code, report.signal) {
                    (Some(0), _) if let Some(end) = report.end => span.bad { (end.words()) ", then exit code 0" },
                    (Some(0), _) => { "exit code 0" },
                    (Some(code), _) => span.bad { "exit code " (code) },
                    (None, Some(signal)) => span.bad { "signal " (signal) },
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
            div.scroll tabindex="0" role="region" aria-label="Decisions" {
                table {
                    thead { tr { th.right scope="col" { "After start" } th scope="col" { "Decision" } th scope="col" { "Why" } } }
                    tbody { @for act in acts.iter().take(ACTS_SHOWN) {
                        tr {
                            td.right { @if act.time_s < start_s { "-" (duration(start_s - act.time_s)) } @else { (duration(act.time_s - start_s)) } }
                            td { (plain(&act.action)) }
                            td.wrap { (plain(&act.reason)) }
                        }
                    } }
                }
            }
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
    let drawn = hub.ask(move |hub| {
        let mut report = found(hub, &session.access, id)?.head.report;
        report.name = plain(&report.name);
        let draw = |width, height| plot::job_chart(&report).to_svg(width, height);
        Ok::<_, NoView>(picture::sized(look, (1_100, 640), (380, 640), draw))
    });
    Ok(picture::answer(drawn.await??))
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
