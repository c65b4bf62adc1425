//! Users and projects: what they had, and what of it was kept from others in vain.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use maud::{Markup, html};
use pinfold_profile::report::plain;

use super::csv::Csv;
use super::figures::{bar, percent, real};
use super::filter::{Filter, encoded};
use super::{NoView, frame, jobs, person};
use crate::hub::Hub;
use crate::store::{Group, Session, UsageRow, now_us};

type Pairs = Query<Vec<(String, String)>>;

pub(super) async fn users(hub: State<Arc<Hub>>, headers: HeaderMap, pairs: Pairs) -> Result<Markup, NoView> {
    view(hub, headers, pairs, (Group::User, "/users", "Users", "user")).await
}

pub(super) async fn projects(
    hub: State<Arc<Hub>>,
    headers: HeaderMap,
    pairs: Pairs,
) -> Result<Markup, NoView> {
    view(hub, headers, pairs, (Group::Project, "/projects", "Projects", "project")).await
}

pub(super) async fn users_table(
    hub: State<Arc<Hub>>,
    headers: HeaderMap,
    pairs: Pairs,
) -> Result<Response, NoView> {
    table(hub, headers, pairs, (Group::User, "user")).await
}

pub(super) async fn projects_table(
    hub: State<Arc<Hub>>,
    headers: HeaderMap,
    pairs: Pairs,
) -> Result<Response, NoView> {
    table(hub, headers, pairs, (Group::Project, "project")).await
}

async fn usage(
    hub: &Arc<Hub>,
    session: &Session,
    group: Group,
    filter: &Filter,
) -> Result<Vec<UsageRow>, NoView> {
    let query = filter.query(&session.access, now_us());
    Ok(hub.ask(move |hub| hub.store.usage(group, &query)).await??)
}

async fn view(
    State(hub): State<Arc<Hub>>,
    headers: HeaderMap,
    Query(pairs): Pairs,
    (group, path, title, key): (Group, &str, &str, &str),
) -> Result<Markup, NoView> {
    let session = person(&hub, &headers).await?;
    let filter = Filter::read(&pairs)?;
    let rows = usage(&hub, &session, group, &filter).await?;
    let view = html! {
        (jobs::form(path, &filter, false))
        p.lead { "Unused memory is what was claimed beyond the peak, times the time the job ran: others could have had it." }
        @if rows.is_empty() { p { "No such job." } } @else {
            div.scroll tabindex="0" role="region" aria-label=(title) {
                table.list {
                    thead { tr {
                        th scope="col" { (title) } th.right scope="col" { "Jobs" } th.right scope="col" { "Failed" } th.right scope="col" { "CPU h" }
                        th.right scope="col" { "Idle core h" } th.right scope="col" { "Claimed GiB h" } th.right scope="col" { "Unused GiB h" }
                        th scope="col" { "Unused of claimed" } th.right scope="col" { "Suspended h" } th.right scope="col" { "Waited h" }
                    } }
                    tbody { @for usage in &rows { (row(usage, key, &filter)) } }
                }
            }
            p { a href=(filter.link(&format!("{path}.csv"))) download { "This table as CSV" } "." }
        }
    };
    Ok(frame::around(&session, path, title, None, view))
}

fn row(usage: &UsageRow, key: &str, filter: &Filter) -> Markup {
    let part = if usage.claimed_gibh > 0.0 { usage.unused_gibh / usage.claimed_gibh } else { 0.0 };
    html! {
        tr {
            td.name { @match &usage.name {
                Some(name) => a href=(format!("/jobs?{key}={}&days={}", encoded(name), filter.days)) { (plain(name)) },
                None => "(none)",
            } }
            td.right { (usage.jobs) }
            td.right { @if usage.failed > 0 { span.bad { (usage.failed) } } @else { "0" } }
            td.right { (real(usage.cpu_h)) }
            td.right { (real(usage.idle_core_h)) }
            td.right { (real(usage.claimed_gibh)) }
            td.right { (real(usage.unused_gibh)) }
            td { (bar(part, "unused of claimed memory")) (percent(part)) }
            td.right { (real(usage.suspended_h)) }
            td.right { (real(usage.queued_h)) }
        }
    }
}

async fn table(
    State(hub): State<Arc<Hub>>,
    headers: HeaderMap,
    Query(pairs): Pairs,
    (group, key): (Group, &str),
) -> Result<Response, NoView> {
    let session = person(&hub, &headers).await?;
    let rows = usage(&hub, &session, group, &Filter::read(&pairs)?).await?;
    let heads = [
        key,
        "jobs",
        "failed",
        "cpu_h",
        "idle_core_h",
        "claimed_gibh",
        "unused_gibh",
        "suspended_h",
        "queued_h",
    ];
    let mut csv = Csv::new(heads);
    for usage in &rows {
        csv.word(usage.name.as_deref().unwrap_or_default());
        csv.number(Some(usage.jobs));
        csv.number(Some(usage.failed));
        let hours = [
            usage.cpu_h,
            usage.idle_core_h,
            usage.claimed_gibh,
            usage.unused_gibh,
            usage.suspended_h,
            usage.queued_h,
        ];
        hours.iter().for_each(|hours| csv.number(Some(hours)));
        csv.end();
    }
    Ok(csv.answer(&format!("{key}s.csv")))
}
