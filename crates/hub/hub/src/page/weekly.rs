//! A week of a user, a project or the viewer's whole access, as in the mail.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use maud::{Markup, html};
use pinfold_profile::report::{plain, size};

use super::figures::{percent, real};
use super::filter::{VALUE_MAX, Wrong, check, encoded};
use super::list;
use super::table::{Form, Table};
use super::{Asker, NoView, frame, jobs, person};
use crate::hub::Hub;
use crate::server::problem::Problem;
use crate::store::{Session, UsageRow, now_us};
use crate::weekly::{self, Ask, Report, Subject, Week};

type Pairs = Query<Vec<(String, String)>>;

/// The parsed address.
#[derive(Debug)]
struct Asked {
    week: Week,
    /// The week as typed.
    typed: String,
    user: String,
    project: String,
    wrong: Wrong,
}

impl Asked {
    fn read(pairs: &[(String, String)], now_us: u64) -> Result<Self, Problem> {
        let week = weekly::last(now_us);
        let (user, project, wrong) = (String::new(), String::new(), Vec::new());
        let mut asked = Self { week, typed: week.to_string(), user, project, wrong };
        for (key, value) in pairs {
            match key.as_str() {
                _ if value.len() > VALUE_MAX => {
                    return Err(Problem::wrong(format!("{key}: at most {VALUE_MAX} bytes")));
                }
                "week" if value.trim().is_empty() => {}
                "week" => value.trim().clone_into(&mut asked.typed),
                "user" => value.trim().clone_into(&mut asked.user),
                // A project's name keeps its spaces.
                "project" => value.clone_into(&mut asked.project),
                _ => return Err(Problem::wrong(format!("{key}={value}: no such choice"))),
            }
        }
        let mut wrong = |key: &str, words: &str| asked.wrong.push((key.to_owned(), words.to_owned()));
        match Week::read(&asked.typed) {
            Some(week) => asked.week = week,
            None => wrong("week", "a week is wanted, as in 2026-W47"),
        }
        if let Err(words) = Subject::named(&asked.user, &asked.project) {
            asked.wrong.push(("project".to_owned(), words.to_owned()));
        }
        Ok(asked)
    }

    fn form(&self) -> Markup {
        let fields = [
            ("week", "Week", &self.typed),
            ("user", "User", &self.user),
            ("project", "Project", &self.project),
        ];
        html! {
            form.filter method="get" action="/weekly" role="search" {
                @for (key, head, value) in fields { (jobs::field((key, head, ""), value, &[], &self.wrong)) }
                button type="submit" { "Show" }
            }
        }
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
    if !asked.wrong.is_empty() {
        return Err(NoView::Form(frame::around(&session, "/weekly", "Week", None, asked.form())));
    }
    hub.ask(move |hub| Ok(page(&asked.report(hub, &session)?, &asked, &session))).await?
}

fn page(report: &Report, asked: &Asked, session: &Session) -> Markup {
    let view = html! {
        (asked.form())
        nav.pages aria-label="Weeks" {
            a rel="prev" href=(asked.link("/weekly", asked.week.before())) { "The week before" }
            a rel="next" href=(asked.link("/weekly", asked.week.after())) { "The week after" }
        }
        @if report.now.jobs == 0 { p { "No job ended in this week." } } @else {
            (sums(&report.now, &report.before))
            (asks("What to ask for next time", "By the jobs of 90 days that ended well, as pinfold advise says.", &report.asks))
            (asks("What claims less than it needs", "It may be stopped for want of memory.", &report.short))
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
    let counts = [("Jobs", now.jobs, before.jobs), ("Failed", now.failed, before.failed)];
    let counts = counts.map(|(head, now, before)| (head, now.to_string(), before.to_string()));
    let rows = [
        ("CPU h", now.cpu_h, before.cpu_h),
        ("Idle core h", now.idle_core_h, before.idle_core_h),
        ("Claimed GiB h", now.claimed_gibh, before.claimed_gibh),
        ("Unused GiB h", now.unused_gibh, before.unused_gibh),
        ("Waited h", now.queued_h, before.queued_h),
        ("Suspended h", now.suspended_h, before.suspended_h),
    ];
    let rows = rows.map(|(head, now, before)| (head, real(now), real(before)));
    html! {
        p.lead { (percent(part)) " of the memory that was claimed was never used." }
        (list::table("Sums", "Figure|>This week|>The week before", counts.into_iter().chain(rows).map(|(head, now, before)| {
            vec![html! { (head) }, html! { (now) }, html! { (before) }]
        })))
    }
}

fn asks(head: &str, words: &str, asks: &[Ask]) -> Markup {
    html! {
        @if !asks.is_empty() {
            h2 { (head) }
            p.lead { (words) }
            (list::table(head, "=Name|User|>Cores|>Jobs|>Held at most|>Claimed|>Ask for|>Unused GiB h", asks.iter().map(|ask| {
                let sizes = [ask.held_bytes, ask.claim_bytes, ask.ask_bytes].map(|bytes| html! { (size(bytes)) });
                let class = [html! { (plain(&ask.name)) }, html! { (plain(&ask.user)) }, html! { (ask.cores) }, html! { (ask.jobs) }];
                class.into_iter().chain(sizes).chain([html! { (real(ask.unused_gibh)) }]).collect()
            })))
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
    check(&asked.wrong)?;
    hub.ask(move |hub| table_of(&asked.report(hub, &session)?).answer("weekly", form)).await?
}

fn table_of(report: &Report) -> Table {
    let rows: Vec<&Ask> = report.asks.iter().chain(&report.short).collect();
    let mut table = Table::new(rows.len());
    table.text("name", rows.iter().map(|ask| Some(ask.name.clone())));
    table.text("user", rows.iter().map(|ask| Some(ask.user.clone())));
    table.count("cores", rows.iter().map(|ask| Some(ask.cores.into())));
    table.count("jobs", rows.iter().map(|ask| Some(ask.jobs)));
    table.count("claim_p50_bytes", rows.iter().map(|ask| Some(ask.claim_bytes)));
    table.count("held_bytes", rows.iter().map(|ask| Some(ask.held_bytes)));
    table.count("ask_bytes", rows.iter().map(|ask| Some(ask.ask_bytes)));
    table.real("unused_gibh", rows.iter().map(|ask| Some(ask.unused_gibh)));
    table
}
