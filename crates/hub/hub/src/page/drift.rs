//! A class by week: the spread of its memory and wall time, and whether the last weeks differ from earlier weeks.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use maud::{Markup, html};
use pinfold_profile::report::{duration, plain};

use super::figures::real_size;
use super::filter::Filter;
use super::list;
use super::table::{Form, Table};
use super::{Asker, NoView, frame, jobs, person};
use crate::drift::{self, Report, Version};
use crate::hub::Hub;
use crate::server::problem::Problem;
use crate::store::{ClassRow, Session, Spread, now_us};
use crate::weekly::Week;

/// The default period, in days.
pub(super) const DAYS: u32 = 365;

type Pairs = Query<Vec<(String, String)>>;

fn asked(pairs: &[(String, String)]) -> Filter {
    let mut filter = Filter::read(pairs);
    if !pairs.iter().any(|(key, _)| key == "days") {
        filter.days = DAYS;
    }
    if !filter.figures.is_empty() {
        let words = "weeks are read from sums, which have no figures of single jobs".to_owned();
        filter.wrong.push(("figures".to_owned(), words));
    }
    filter
}

fn report(hub: &Hub, session: &Session, filter: &Filter) -> Result<Report, NoView> {
    Ok(drift::report(&hub.store, &filter.day_query(&session.access, now_us()))?)
}

pub(super) async fn view(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Query(pairs): Pairs,
) -> Result<Markup, NoView> {
    let session = person(&hub, &asker).await?;
    let at = ("/classes/weeks", "A class by week");
    let filter = jobs::asked(&hub, &session, at, asked(&pairs)).await?;
    if filter.name.is_empty() {
        let view = html! { (jobs::form("/classes/weeks", &filter, false)) p { "A name is needed: that of a class." } };
        return Ok(frame::around(&session, "/classes", "A class by week", None, view));
    }
    hub.ask(move |hub| Ok(page(&report(hub, &session, &filter)?, &filter, &session))).await?
}

fn page(report: &Report, filter: &Filter, session: &Session) -> Markup {
    let title = format!("{} by week", plain(&filter.name));
    let view = html! {
        (jobs::form("/classes/weeks", filter, false))
        @if report.weeks.is_empty() { p { "No such job ran in this time." } } @else {
            h2 { "Does it drift?" }
            ul { @for words in report.words() { li { (words) } } }
            (weeks(filter, &report.weeks))
            @if report.hosts.len() > 1 { (hosts(filter, report)) }
            @if !report.versions.is_empty() { (versions(&report.versions, report.runs)) }
            p { a href=(filter.link("/classes/weeks.csv")) download { "These weeks as CSV" } ", "
                a href=(filter.link("/classes/weeks.parquet")) download { "as Parquet" } "; "
                a href=(filter.link("/jobs")) { "the jobs" } "." }
        }
    };
    frame::around(session, "/classes", &title, None, view)
}

/// A common scale for all rows, so that changes show.
fn scale<'a>(rows: impl Iterator<Item = &'a ClassRow> + Clone) -> (f64, f64) {
    let top = |of: fn(&ClassRow) -> f64| rows.clone().map(of).fold(0.0, f64::max);
    (top(|row| row.memory_peak_bytes.p95), top(|row| row.wall_s.p95))
}

fn weeks(filter: &Filter, weeks: &[(Week, ClassRow)]) -> Markup {
    let tops = scale(weeks.iter().map(|(_, row)| row));
    html! {
        h2 { "By week" }
        p.lead { "The last week first. A strip is from the median to the p95, all of a column in one scale. Weeks begin on Monday, 00:00 UTC." }
        (table_of("By week", "Week", tops, weeks.iter().rev().map(|(week, row)| {
            (html! { (week) }, row)
        })))
        @if weeks.len() == 1 { p { "One week says nothing of drift: choose a longer time." } }
        @if filter.name.contains('*') { p { "Jobs of several names are together here." } }
    }
}

fn hosts(filter: &Filter, report: &Report) -> Markup {
    html! {
        h2 { "By host" }
        p.lead { "Over the whole time" @if report.more_hosts { ", the " (report.hosts.len()) " hosts with the most jobs" } "." }
        (table_of("By host", "Host", scale(report.hosts.iter()), report.hosts.iter().map(|row| {
            let of_it = filter.of_host(&row.name);
            (html! { a href=(of_it.link("/classes/weeks")) { (plain(&row.name)) } }, row)
        })))
    }
}

fn table_of<'a>(
    label: &str,
    first: &str,
    (memory_top, wall_top): (f64, f64),
    rows: impl Iterator<Item = (Markup, &'a ClassRow)>,
) -> Markup {
    let heads = format!("={first}|>Jobs|>Failed|Memory peak: median, p95|Wall time: median, p95");
    let cells = |(name, row): (Markup, &ClassRow)| {
        vec![
            name,
            html! { (row.jobs) },
            list::failures(row.failed),
            strip(&row.memory_peak_bytes, memory_top, real_size),
            strip(&row.wall_s, wall_top, duration),
        ]
    };
    list::table(label, &heads, rows.map(cells))
}

fn strip(spread: &Spread, top: f64, told: fn(f64) -> String) -> Markup {
    let at = |value: f64| 1.0 + value / top.max(f64::MIN_POSITIVE) * 98.0;
    let (from, to) = (at(spread.p50).min(99.0), at(spread.p95).min(99.0));
    html! {
        svg.strip viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
            rect.strip-line x="1" y="4.5" width=(format!("{:.1}", to - 1.0)) height="1" {}
            rect.strip-box x=(format!("{from:.1}")) y="2" width=(format!("{:.1}", (to - from).max(0.8))) height="6" {}
        }
        span.small { (told(spread.p50)) ", " (told(spread.p95)) }
    }
}

fn versions(versions: &[Version], runs: usize) -> Markup {
    html! {
        h2 { "By version" }
        p.lead { "Of the last " (runs) " jobs that ended well, as their runs of workflows say; the last version is below." }
        (list::table("By version", "=Version|>Jobs|>Memory peak, median|>Wall time, median", versions.iter().map(|version| vec![
            html! { (version.version.as_deref().map_or_else(|| "none".to_owned(), plain)) },
            html! { (version.jobs) },
            html! { (real_size(version.peak_p50_bytes)) },
            html! { (duration(version.wall_p50_s)) },
        ])))
    }
}

pub(super) async fn table(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    form: Form,
    Query(pairs): Pairs,
) -> Result<Response, NoView> {
    let session = person(&hub, &asker).await?;
    let filter = asked(&pairs).checked()?;
    if filter.name.is_empty() {
        return Err(Problem::wrong("name: that of a class is needed").into());
    }
    hub.ask(move |hub| file_of(&report(hub, &session, &filter)?.weeks).answer("class-weeks", form)).await?
}

fn file_of(weeks: &[(Week, ClassRow)]) -> Table {
    let mut table = Table::new(weeks.len());
    table.text("week", weeks.iter().map(|(week, _)| Some(week.to_string())));
    table.count("jobs", weeks.iter().map(|(_, row)| Some(row.jobs)));
    table.count("failed", weeks.iter().map(|(_, row)| Some(row.failed)));
    let mut real =
        |name, of: fn(&ClassRow) -> f64| table.real(name, weeks.iter().map(|(_, row)| Some(of(row))));
    real("memory_peak_p50_bytes", |row| row.memory_peak_bytes.p50);
    real("memory_peak_p95_bytes", |row| row.memory_peak_bytes.p95);
    real("memory_peak_most_bytes", |row| row.memory_peak_bytes.most);
    real("wall_p50_s", |row| row.wall_s.p50);
    real("wall_p95_s", |row| row.wall_s.p95);
    real("wall_most_s", |row| row.wall_s.most);
    real("cores_used_part", |row| row.cores_used_part);
    real("unused_gibh", |row| row.unused_gibh);
    table
}
