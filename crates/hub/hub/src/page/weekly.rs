//! A week: of all that one may see, of a user or of a project, as the mail has it.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use maud::{Markup, html};
use pinfold_profile::report::plain;

use super::figures::{percent, real, real_size};
use super::filter::{VALUE_MAX, encoded};
use super::table::{Form, Table};
use super::{Asker, NoView, frame, person};
use crate::hub::Hub;
use crate::server::problem::Problem;
use crate::store::{Session, UsageRow, now_us};
use crate::weekly::{self, Ask, Report, Subject, Week};

type Pairs = Query<Vec<(String, String)>>;

/// What an address says.
#[derive(Debug)]
struct Asked {
    week: Week,
    user: String,
    project: String,
}

impl Asked {
    fn read(pairs: &[(String, String)], now_us: u64) -> Result<Self, Problem> {
        let mut asked = Self { week: weekly::last(now_us), user: String::new(), project: String::new() };
        for (key, value) in pairs {
            if value.len() > VALUE_MAX {
                return Err(Problem::wrong(format!("{key}: at most {VALUE_MAX} bytes")));
            }
            // A project is as it is called.
            let value = if key == "project" { value } else { value.trim() };
            match key.as_str() {
                "week" if value.is_empty() => {}
                "week" => {
                    let none = || Problem::wrong(format!("week={value}: a week is wanted, as in 2026-W47"));
                    asked.week = Week::read(value).ok_or_else(none)?;
                }
                "user" => value.clone_into(&mut asked.user),
                "project" => value.clone_into(&mut asked.project),
                _ => return Err(Problem::wrong(format!("{key}={value}: no such choice"))),
            }
        }
        Ok(asked)
    }

    fn link(&self, path: &str, week: Week) -> String {
        let mut link = format!("{path}?week={week}");
        for (key, value) in [("user", &self.user), ("project", &self.project)] {
            if !value.is_empty() {
                link.push_str(&format!("&{key}={}", encoded(value)));
            }
        }
        link
    }

    fn report(&self, hub: &Hub, session: &Session) -> Result<Report, NoView> {
        let subject = Subject::named(&self.user, &self.project).map_err(Problem::wrong)?;
        Ok(weekly::report(&hub.store, &session.access, subject, self.week)?)
    }
}

pub(super) async fn view(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Query(pairs): Pairs,
) -> Result<Markup, NoView> {
    let session = person(&hub, &asker).await?;
    let asked = Asked::read(&pairs, now_us())?;
    hub.ask(move |hub| Ok(page(&asked.report(hub, &session)?, &asked, &session))).await?
}

fn page(report: &Report, asked: &Asked, session: &Session) -> Markup {
    let view = html! {
        form.filter method="get" action="/weekly" role="search" {
            label { span { "Week" } input type="text" name="week" value=(asked.week) maxlength="8"; }
            label { span { "User" } input type="text" name="user" value=(asked.user) maxlength="300"; }
            label { span { "Project" } input type="text" name="project" value=(asked.project) maxlength="300"; }
            button type="submit" { "Show" }
        }
        nav.pages aria-label="Weeks" {
            a rel="prev" href=(asked.link("/weekly", asked.week.before())) { "The week before" }
            a rel="next" href=(asked.link("/weekly", asked.week.after())) { "The week after" }
        }
        @if report.now.jobs == 0 { p { "No job ended in this week." } } @else {
            (sums(&report.now, &report.before))
            (asks("What to ask for next time", "The most that was held, and a fifth more.", &report.asks))
            (asks("What held more than it claimed", "It may be stopped for want of memory.", &report.short))
            @if !report.failing.is_empty() {
                h2 { "What failed" }
                ul { @for class in &report.failing { li { (plain(&class.name)) ": " (class.failed) " of " (class.jobs) " jobs" } } }
            }
            p { a href=(asked.link("/weekly.csv", asked.week)) download { "What to ask for as CSV" } ", "
                a href=(asked.link("/weekly.parquet", asked.week)) download { "as Parquet" } "." }
            details { summary { "As a mail" } pre { (weekly::text(report)) } }
        }
    };
    frame::around(session, "/weekly", &format!("Week {}", asked.week), None, view)
}

fn sums(now: &UsageRow, before: &UsageRow) -> Markup {
    let part = if now.claimed_gibh > 0.0 { now.unused_gibh / now.claimed_gibh } else { 0.0 };
    let rows: [(&str, f64, f64); 6] = [
        ("CPU h", now.cpu_h, before.cpu_h),
        ("Idle core h", now.idle_core_h, before.idle_core_h),
        ("Claimed GiB h", now.claimed_gibh, before.claimed_gibh),
        ("Unused GiB h", now.unused_gibh, before.unused_gibh),
        ("Waited h", now.queued_h, before.queued_h),
        ("Suspended h", now.suspended_h, before.suspended_h),
    ];
    html! {
        p.lead { (percent(part)) " of the memory that was claimed was never used." }
        div.scroll tabindex="0" role="region" aria-label="Sums" {
            table.list {
                thead { tr { th scope="col" { "Figure" } th.right scope="col" { "This week" } th.right scope="col" { "The week before" } } }
                tbody {
                    tr { th scope="row" { "Jobs" } td.right { (now.jobs) } td.right { (before.jobs) } }
                    tr { th scope="row" { "Failed" } td.right { (now.failed) } td.right { (before.failed) } }
                    @for (head, now, before) in rows { tr { th scope="row" { (head) } td.right { (real(now)) } td.right { (real(before)) } } }
                }
            }
        }
    }
}

fn asks(head: &str, words: &str, asks: &[Ask]) -> Markup {
    html! {
        @if !asks.is_empty() {
            h2 { (head) }
            p.lead { (words) }
            div.scroll tabindex="0" role="region" aria-label=(head) {
                table.list {
                    thead { tr { th scope="col" { "Name" } th.right scope="col" { "Jobs" } th.right scope="col" { "Held" } th.right scope="col" { "Claimed" }
                        th.right scope="col" { "Ask for" } th.right scope="col" { "Unused GiB h" } } }
                    tbody { @for ask in asks { tr {
                        td.name { (plain(&ask.name)) } td.right { (ask.jobs) } td.right { (real_size(ask.held_bytes)) } td.right { (real_size(ask.claim_bytes)) }
                        td.right { (real_size(ask.ask_bytes)) } td.right { (real(ask.unused_gibh)) }
                    } } }
                }
            }
        }
    }
}

pub(super) async fn table(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    form: Form,
    Query(pairs): Pairs,
) -> Result<Response, NoView> {
    let session = person(&hub, &asker).await?;
    let asked = Asked::read(&pairs, now_us())?;
    hub.ask(move |hub| table_of(&asked.report(hub, &session)?).answer("weekly", form)).await?
}

fn table_of(report: &Report) -> Table {
    let rows: Vec<&Ask> = report.asks.iter().chain(&report.short).collect();
    let mut table = Table::new(rows.len());
    table.text("name", rows.iter().map(|ask| Some(ask.name.clone())));
    table.count("jobs", rows.iter().map(|ask| Some(ask.jobs)));
    table.real("claim_p50_bytes", rows.iter().map(|ask| Some(ask.claim_bytes)));
    table.real("held_bytes", rows.iter().map(|ask| Some(ask.held_bytes)));
    table.real("ask_bytes", rows.iter().map(|ask| Some(ask.ask_bytes)));
    table.real("unused_gibh", rows.iter().map(|ask| Some(ask.unused_gibh)));
    table
}
