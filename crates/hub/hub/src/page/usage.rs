//! Users and projects: their usage, and the part that they requested and did not use.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::Uri;
use axum::response::Response;
use maud::{Markup, html};
use pinfold_profile::report::plain;

use super::figures::{bar, percent, real};
use super::filter::{Filter, encoded};
use super::list;
use super::table::{Form, Table};
use super::{Asker, NoView, frame, jobs, person};
use crate::hub::Hub;
use crate::store::{Group, Session, UsageRow, now_us};

/// The most rows on a page.
const SHOWN: usize = 1_000;

/// A view: its address, its title, and the filter key of a row.
type Of = (&'static str, &'static str, &'static str);

/// The sums for an address: of projects for `/projects` and `/projects.csv`, otherwise of users.
fn of(uri: &Uri) -> (Group, Of) {
    match uri.path().starts_with("/projects") {
        true => (Group::Project, ("/projects", "Projects", "project")),
        false => (Group::User, ("/users", "Users", "user")),
    }
}

pub(super) async fn view(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    uri: Uri,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Markup, NoView> {
    let session = person(&hub, &asker).await?;
    let (group, of) = of(&uri);
    let filter = jobs::asked(&hub, &session, (of.0, of.1), Filter::read(&pairs)).await?;
    let query = filter.day_query(&session.access, now_us());
    hub.ask(move |hub| Ok(page(&hub.store.usage(group, &query)?, of, &filter, &session))).await?
}

fn page(rows: &[UsageRow], (path, title, key): Of, filter: &Filter, session: &Session) -> Markup {
    let view = html! {
        (jobs::form(path, filter, false))
        p.lead { "Unused memory is what was claimed beyond the peak, times the time the job ran: others could have had it. Days count whole, from 00:00 UTC on."
            @if rows.len() > SHOWN { " The first " (SHOWN) " are shown; the files have more." } }
        @if rows.is_empty() { p { "No such job." } } @else {
            (list::table(title, &format!("={title}{HEADS}"), rows.iter().take(SHOWN).map(|usage| row(usage, key, filter))))
            p { a href=(filter.link(&format!("{path}.csv"))) download { "This table as CSV" } ", "
                a href=(filter.link(&format!("{path}.parquet"))) download { "as Parquet" } "." }
        }
    };
    frame::around(session, path, title, None, view)
}

const HEADS: &str = "|>Jobs|>Failed|>CPU h|>Idle core h|>Claimed GiB h|>Unused GiB h|Unused of claimed|>Suspended h|>Waited h";

fn row(usage: &UsageRow, key: &str, filter: &Filter) -> Vec<Markup> {
    let part = if usage.claimed_gibh > 0.0 { usage.unused_gibh / usage.claimed_gibh } else { 0.0 };
    let figure = |number: f64| html! { (real(number)) };
    vec![
        html! { @match &usage.name {
            Some(name) => a href=(format!("/jobs?{key}={}&days={}", encoded(name), filter.days)) { (plain(name)) },
            None => "(none)",
        } },
        html! { (usage.jobs) },
        list::failures(usage.failed),
        figure(usage.cpu_h),
        figure(usage.idle_core_h),
        figure(usage.claimed_gibh),
        figure(usage.unused_gibh),
        html! { (bar(part, "unused of claimed memory")) (percent(part)) },
        figure(usage.suspended_h),
        figure(usage.queued_h),
    ]
}

pub(super) async fn table(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    form: Form,
    uri: Uri,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Response, NoView> {
    let session = person(&hub, &asker).await?;
    let (group, (path, _, key)) = of(&uri);
    let query = Filter::read(&pairs).checked()?.day_query(&session.access, now_us());
    hub.ask(move |hub| table_of(&hub.store.usage(group, &query)?, key).answer(&path[1..], form)).await?
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
