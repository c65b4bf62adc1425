//! The hosts as they are now.

use std::sync::Arc;

use axum::extract::{Query, State};
use maud::{Markup, html};
use pinfold_profile::report::{duration, plain, size};
use pinfold_proto::JobState;
use pinfold_proto::view::{JobView, StatusView};
use serde::Deserialize;

use super::figures::{bar, moment, percent, precise, real};
use super::{Asker, NoView, filter, frame, machine, person};
use crate::hub::{HostNow, Hub};
use crate::store::{Access, Session, now_us};

/// Jobs of a host that are listed; the largest by memory.
const JOBS_SHOWN: usize = 8;

/// How often the view is loaded again where that is asked for, in seconds. A page that reloads by itself would take the
/// place in it away from users of screen readers.
pub(super) const REFRESH_S: u32 = 5;

/// How the view is wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Look {
    #[serde(default)]
    live: bool,
}

pub(super) async fn view(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Query(look): Query<Look>,
) -> Result<Markup, NoView> {
    let session = person(&hub, &asker).await?;
    hub.ask(move |hub| Ok(page(&hub.hosts()?, &session, look.live))).await?
}

fn page(hosts: &[HostNow], session: &Session, live: bool) -> Markup {
    let here = hosts.iter().filter(|host| host.here).count();
    let view = html! {
        @if hosts.is_empty() {
            p { "No host yet. " code { "pinfold-hub token --host NAME" } " makes a token for one, and "
                code { "pinfold hub join" } " on that host uses it." }
        } @else {
            p.lead { (here) " of " (hosts.len()) " hosts are heard now. "
                @if live { "Loaded again every " (REFRESH_S) " s; " a href="/" { "stop that" } "." }
                @else { a href="/?live=true" { "Load this again every " (REFRESH_S) " s" } "." } }
            div.cards { @for host in hosts { (card(host, &session.access)) } }
        }
    };
    frame::around(session, "/", "Hosts", live.then_some(REFRESH_S), view)
}

/// A host in short.
pub(super) fn card(host: &HostNow, access: &Access) -> Markup {
    let away = !host.here;
    html! {
        section.card.away[away] {
            h2 { a href=(format!("/hosts/{}", filter::encoded(&host.name))) { (host.name) } }
            @match (&host.live, host.seen_us) {
                (_, None) => p { "Not heard yet." },
                (None, Some(seen_us)) => p { "Last heard " (ago(seen_us)) " ago; how it was is not known." },
                (Some(live), Some(seen_us)) => {
                    @if away { p.bad { "Away: last heard " (ago(seen_us)) " ago, " (moment(i64::try_from(seen_us).unwrap_or(0))) "." } }
                    @if live.map.is_some() {
                        a href=(format!("/hosts/{}", filter::encoded(&host.name))) {
                            (machine::of_cores(&host.name, &format!("The cores of {} and the jobs on them", host.name), true))
                        }
                    }
                    (state(&live.status, &host.seen_by(access).map(|seen| seen.jobs).unwrap_or_default()))
                    @for warning in live.status.warnings.iter().take(5) { p.bad { (plain(warning)) } }
                    (remarks(host))
                }
            }
            p.small { a href=(format!("/jobs?host={}", filter::encoded(&host.name))) { "Its jobs that are over" } }
        }
    }
}

/// What an operator should know of the way from the host to here.
fn remarks(host: &HostNow) -> Markup {
    let spool = host.live.as_ref().map(|live| live.spool).unwrap_or_default();
    let ahead_us = host.clock_ahead_us.unwrap_or(0);
    let ahead = duration(pinfold_proto::view::seconds(ahead_us.unsigned_abs()));
    html! {
        @if ahead_us.unsigned_abs() > 5_000_000 {
            p.bad { "Its clock is " (ahead) @if ahead_us > 0 { " ahead of" } @else { " behind" } " this hub's." }
        }
        @if spool.bundles > 0 || spool.jobs_waiting > 0 {
            p { "On their way: " (spool.bundles) " bundles (" (size(spool.bytes)) "), " (spool.jobs_waiting) " jobs beside them." }
        }
        @if spool.refused > 0 { p.bad { (spool.refused) " bundles were refused; they are kept on the host." } }
    }
}

/// `jobs`: those that may be seen.
fn state(status: &StatusView, seen: &[JobView]) -> Markup {
    let count = |state: &[JobState]| status.jobs.iter().filter(|job| state.contains(&job.state)).count();
    let running = count(&[JobState::Running]);
    let suspended = count(&[JobState::Frozen, JobState::Parked]);
    let waiting = count(&[JobState::Queued, JobState::Held]);
    let (slots, memory) = (&status.slots, &status.memory);
    let busy = status.reading.as_ref().and_then(|reading| reading.cpu_busy);
    let part = |of: u64, all: u64| if all == 0 { 0.0 } else { precise(of) / precise(all) };
    html! {
        dl.figures {
            dt { "Slots" }
            dd { (bar(part(slots.used, slots.total), "slots in use")) (slots.used) " of " (slots.total) " on " (slots.cores) " cores" }
            @if let Some(busy) = busy {
                dt { "CPU" }
                dd { (bar(busy / precise(slots.cores.max(1)), "PUs busy")) (real(busy)) " PUs busy" }
            }
            dt { "Memory" }
            dd { (bar(part(memory.held_bytes, memory.budget_bytes), "memory held by jobs"))
                (size(memory.held_bytes)) " of " (size(memory.budget_bytes))
                @if memory.swap_held_bytes > 0 { ", " (size(memory.swap_held_bytes)) " in swap" } }
            @if let Some(pressure) = memory.pressure_full_avg10 {
                dt { "Pressure" }
                dd { (bar(pressure, "memory pressure")) (percent(pressure.clamp(0.0, 1.0))) " stalled for memory" }
            }
            dt { "Jobs" }
            dd { (running) " running, " (suspended) " suspended, " (waiting) " waiting"
                @if status.draining { "; draining" } }
        }
        (jobs(seen))
    }
}

fn jobs(jobs: &[JobView]) -> Markup {
    let mut started: Vec<&JobView> = jobs.iter().filter(|job| job.started_s.is_some()).collect();
    started.sort_by_key(|job| (std::cmp::Reverse(job.memory_bytes), job.job));
    html! {
        @if !started.is_empty() {
            div.scroll tabindex="0" role="region" aria-label="Jobs that have started" {
                table {
                    thead { tr { th scope="col" { "Job" } th scope="col" { "Name" } th scope="col" { "User" } th scope="col" { "State" } th.right scope="col" { "Memory" } } }
                    tbody {
                        @for job in started.iter().take(JOBS_SHOWN) {
                            tr {
                                td { (job.job) }
                                td.name { (plain(&job.name)) }
                                td { (plain(&job.user)) }
                                td title=(job.reason.as_deref().map(plain).unwrap_or_default()) { (job.state.word()) }
                                td.right { (job.memory_bytes.map(size).unwrap_or_default()) }
                            }
                        }
                    }
                }
            }
            @if started.len() > JOBS_SHOWN { p.small { "and " (started.len() - JOBS_SHOWN) " more" } }
        }
    }
}

fn ago(us: u64) -> String {
    duration(pinfold_proto::view::seconds(now_us().saturating_sub(us)))
}
