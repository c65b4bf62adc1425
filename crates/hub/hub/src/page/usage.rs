//! Users and projects: what they had, and what of it was kept from others in vain.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use maud::{Markup, html};
use pinfold_profile::report::plain;

use super::figures::{bar, percent, real};
use super::filter::{Filter, encoded};
use super::table::{Form, Table};
use super::{Asker, NoView, frame, jobs, person};
use crate::hub::Hub;
use crate::store::{Group, Session, UsageRow, now_us};

/// Rows that a page shows.
const SHOWN: usize = 1_000;

/// Where a view is, what it is called, and the choice of jobs that one of its rows stands for.
type Of = (&'static str, &'static str, &'static str);
const USERS: Of = ("/users", "Users", "user");
const PROJECTS: Of = ("/projects", "Projects", "project");

type Pairs = Query<Vec<(String, String)>>;

pub(super) async fn users(hub: State<Arc<Hub>>, asker: Asker, pairs: Pairs) -> Result<Markup, NoView> {
    view(hub, asker, pairs, (Group::User, USERS)).await
}

pub(super) async fn projects(hub: State<Arc<Hub>>, asker: Asker, pairs: Pairs) -> Result<Markup, NoView> {
    view(hub, asker, pairs, (Group::Project, PROJECTS)).await
}

pub(super) async fn users_table(
    hub: State<Arc<Hub>>,
    asker: Asker,
    form: Form,
    pairs: Pairs,
) -> Result<Response, NoView> {
    table(hub, asker, form, pairs, (Group::User, "user", "users")).await
}

pub(super) async fn projects_table(
    hub: State<Arc<Hub>>,
    asker: Asker,
    form: Form,
    pairs: Pairs,
) -> Result<Response, NoView> {
    table(hub, asker, form, pairs, (Group::Project, "project", "projects")).await
}

async fn view(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Query(pairs): Pairs,
    (group, of): (Group, Of),
) -> Result<Markup, NoView> {
    let session = person(&hub, &asker).await?;
    let filter = Filter::read(&pairs)?;
    let query = filter.day_query(&session.access, now_us());
    hub.ask(move |hub| Ok(page(&hub.store.usage(group, &query)?, of, &filter, &session))).await?
}

fn page(rows: &[UsageRow], (path, title, key): Of, filter: &Filter, session: &Session) -> Markup {
    let view = html! {
        (jobs::form(path, filter, false))
        p.lead { "Unused memory is what was claimed beyond the peak, times the time the job ran: others could have had it. Days count whole, from 00:00 UTC on."
            @if rows.len() > SHOWN { " The first " (SHOWN) " are shown; the files have more." } }
        @if rows.is_empty() { p { "No such job." } } @else {
            div.scroll tabindex="0" role="region" aria-label=(title) {
                table.list {
                    thead { tr {
                        th scope="col" { (title) } th.right scope="col" { "Jobs" } th.right scope="col" { "Failed" } th.right scope="col" { "CPU h" }
                        th.right scope="col" { "Idle core h" } th.right scope="col" { "Claimed GiB h" } th.right scope="col" { "Unused GiB h" }
                        th scope="col" { "Unused of claimed" } th.right scope="col" { "Suspended h" } th.right scope="col" { "Waited h" }
                    } }
                    tbody { @for usage in rows.iter().take(SHOWN) { (row(usage, key, filter)) } }
                }
            }
            p { a href=(filter.link(&format!("{path}.csv"))) download { "This table as CSV" } ", "
                a href=(filter.link(&format!("{path}.parquet"))) download { "as Parquet" } "." }
        }
    };
    frame::around(session, path, title, None, view)
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
    asker: Asker,
    form: Form,
    Query(pairs): Pairs,
    (group, key, name): (Group, &'static str, &'static str),
) -> Result<Response, NoView> {
    let session = person(&hub, &asker).await?;
    let query = Filter::read(&pairs)?.day_query(&session.access, now_us());
    hub.ask(move |hub| table_of(&hub.store.usage(group, &query)?, key).answer(name, form)).await?
}

fn table_of(rows: &[UsageRow], key: &'static str) -> Table {
    let mut table = Table::new(rows.len());
    table.text(key, rows.iter().map(|usage| usage.name.clone()));
    table.count("jobs", rows.iter().map(|usage| Some(usage.jobs)));
    table.count("failed", rows.iter().map(|usage| Some(usage.failed)));
    let mut hours =
        |name, of: fn(&UsageRow) -> f64| table.real(name, rows.iter().map(|usage| Some(of(usage))));
    hours("cpu_h", |usage| usage.cpu_h);
    hours("idle_core_h", |usage| usage.idle_core_h);
    hours("claimed_gibh", |usage| usage.claimed_gibh);
    hours("unused_gibh", |usage| usage.unused_gibh);
    hours("suspended_h", |usage| usage.suspended_h);
    hours("queued_h", |usage| usage.queued_h);
    table
}
