//! Finished jobs: filtered, sorted, with columns of choice.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use maud::{Markup, html};
use pinfold_profile::report::plain;

use super::compare::JOBS_MAX;
use super::figures;
use super::filter::{Filter, PERIODS, Wrong};
use super::table::{Form as Kind, Table};
use super::{Asker, NoView, frame, list, person};
use crate::hub::Hub;
use crate::store::choices::Choices;
use crate::store::columns::{COLUMNS, Column, Form};
use crate::store::{Cell, JobPage, JobQuery, JobRow, Session, TABLE_MAX, now_us};

pub(super) async fn view(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Markup, NoView> {
    let session = person(&hub, &asker).await?;
    let filter = asked(&hub, &session, ("/jobs", "Jobs"), Filter::read(&pairs)).await?;
    let query = filter.query(&session.access, now_us());
    hub.ask(move |hub| Ok(whole(&hub.store.jobs(&query)?, &filter, &session))).await?
}

fn whole(page: &JobPage, filter: &Filter, session: &Session) -> Markup {
    let view = html! {
        (form("/jobs", filter, true))
        (listed(filter, page))
        (pages(filter, page))
        p { a href=(filter.link("/jobs.csv")) download { "This list as CSV" } ", "
            a href=(filter.link("/jobs.parquet")) download { "as Parquet" } " (at most " (TABLE_MAX) " jobs). "
            "This page's address is the view: keep it as a bookmark, send it to others." }
    };
    frame::around(session, "/jobs", "Jobs", None, view)
}

/// The filter of a view, with the names to choose from. With an invalid value in the address, the form comes back as filled
/// in, with the reason beside the field.
pub(super) async fn asked(
    hub: &Arc<Hub>,
    session: &Session,
    (path, title): (&'static str, &'static str),
    filter: Filter,
) -> Result<Filter, NoView> {
    let access = session.access.clone();
    let filter = hub.ask(move |hub| filter.with_choices(hub, &access)).await??;
    if filter.wrong.is_empty() {
        return Ok(filter);
    }
    let view = form(path, &filter, path == "/jobs");
    Err(NoView::Form(frame::around(session, path, title, None, view)))
}

/// A field of a filter, with the names to choose from and the reason of an invalid value.
pub(super) fn field(
    (key, head, hint): (&str, &str, &str),
    value: &str,
    choices: &[String],
    wrong: &Wrong,
) -> Markup {
    let why = wrong.iter().find(|(of, _)| of == key).map(|(_, words)| plain(words));
    let list = (!choices.is_empty()).then(|| format!("{key}-choices"));
    html! {
        label.wide[key == "figures"] {
            span { (head) }
            input type="text" name=(key) value=(value) placeholder=(hint) maxlength="300" list=[&list] aria-invalid=[why.as_ref().map(|_| "true")];
            @if let Some(words) = why { span.bad { (words) } }
        }
        @if let Some(list) = list { datalist id=(list) { @for name in choices { option value=(name) {} } } }
    }
}

/// Text fields of a filter.
const FIELDS: [(&str, &str, &str); 5] = [
    ("host", "Host", ""),
    ("user", "User", ""),
    ("project", "Project", ""),
    ("name", "Name", "align*"),
    ("figures", "Figures", "memory_peak_bytes>4GiB, wall_s<1h"),
];

/// The choices of a view.
pub(super) fn form(path: &str, filter: &Filter, columns: bool) -> Markup {
    let Choices { hosts, users, projects, names } = &filter.choices;
    let values = [&filter.host, &filter.user, &filter.project, &filter.name, &filter.figures];
    let choices: [&[String]; 5] = [hosts, users, projects, names, &[]];
    let elsewhere = filter.wrong.iter().filter(|(key, _)| !FIELDS.iter().any(|(field, ..)| field == key));
    html! {
        form.filter method="get" action=(path) role="search" {
            @for (key, words) in elsewhere { p.bad { (plain(key)) ": " (plain(words)) } }
            @for ((of, value), choices) in FIELDS.into_iter().zip(values).zip(choices) { (field(of, value, choices, &filter.wrong)) }
            label { span { "Ended" } select name="end" {
                @for (value, head) in [("", "anyhow"), ("ok", "with exit code 0"), ("failed", "otherwise")] {
                    option value=(value) selected[filter.end == value] { (head) }
                }
            } }
            label { span { "Within" } select name="days" {
                @for (days, head) in PERIODS { option value=(days) selected[filter.days == days] { (head) } }
                @if !PERIODS.iter().any(|(days, _)| *days == filter.days) { option value=(filter.days) selected { (filter.days) " days" } }
            } }
            @if columns {
                input type="hidden" name="sort" value=(filter.sort.key);
                @if filter.ascending { input type="hidden" name="dir" value="up"; }
                details { summary { "Columns" }
                    div.columns { @for column in &COLUMNS {
                        label.check { input type="checkbox" name="col" value=(column.key) checked[filter.columns.contains(&column)]; " " (column.head) }
                    } }
                }
            }
            button type="submit" { "Show" }
            a href=(path) { "Reset" }
        }
    }
}

fn listed(filter: &Filter, page: &JobPage) -> Markup {
    let head = |column: &&Column| {
        let sign = if column.key == "name" { "=" } else { sign(column) };
        format!("|{sign}{}", column.head)
    };
    let heads: String =
        std::iter::once("#Compare".to_owned()).chain(filter.columns.iter().map(head)).collect();
    let link = |column: &&'static Column| {
        let now = (filter.sort == *column).then_some(filter.ascending);
        (filter.sorted_by(column).link("/jobs"), now)
    };
    let links = filter.columns.iter().map(link).collect();
    let row = |job: &JobRow| {
        let words = format!("Compare {}", words_of(job));
        let tick = html! { input type="checkbox" name="job" value=(job.id) aria-label=(words); };
        std::iter::once(tick).chain(filter.columns.iter().map(|column| cell(job, column))).collect()
    };
    html! {
        @if page.jobs.is_empty() {
            p { "No such job." }
        } @else {
            form method="get" action="/compare" {
                (list::sortable("Jobs", &heads, links, page.jobs.iter().map(row)))
                p.choose { button type="submit" { "Compare those that are ticked" } span.small { "2 to " (JOBS_MAX) " jobs" } }
            }
        }
    }
}

/// Names the job for screen readers.
fn words_of(job: &JobRow) -> String {
    let of = |key| figures::word(job, key);
    format!("job {} of {}, {}", of("job"), of("host"), of("name"))
}

fn sign(column: &Column) -> &'static str {
    if matches!(column.form, Form::Text | Form::Moment) { "" } else { ">" }
}

fn cell(job: &JobRow, column: &'static Column) -> Markup {
    let value =
        COLUMNS.iter().position(|one| one == column).and_then(|at| job.cells.get(at)).unwrap_or(&Cell::None);
    let text = figures::text(column, value);
    let ended_by = if column.key == "exit_code" { figures::word(job, "end") } else { String::new() };
    // A job with a recorded cause of end failed, whatever its exit code.
    let failed = column.key == "exit_code" && !(matches!(value, Cell::Whole(0)) && ended_by.is_empty());
    html! {
        @if matches!(column.key, "job" | "name") {
            a href=(format!("/jobs/{}", job.id)) { @if text.is_empty() { "(no name)" } @else { (text) } }
        } @else if failed {
            span.bad { @if text.is_empty() { "none" } @else { (text) } @if !ended_by.is_empty() { " " (ended_by) } }
        } @else { (text) }
    }
}

fn pages(filter: &Filter, page: &JobPage) -> Markup {
    html! {
        nav.pages aria-label="Pages" {
            @if filter.page > 0 { a rel="prev" href=(filter.at_page(filter.page - 1).link("/jobs")) { "Earlier page" } }
            span { "Page " (filter.page + 1) }
            @if page.more { a rel="next" href=(filter.at_page(filter.page + 1).link("/jobs")) { "Next page" } }
        }
    }
}

pub(super) async fn table(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    kind: Kind,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Response, NoView> {
    let session = person(&hub, &asker).await?;
    let query = Filter::read(&pairs).checked()?.query(&session.access, now_us());
    let query = JobQuery { limit: TABLE_MAX, offset: 0, ..query };
    hub.ask(move |hub| as_table(hub.store.jobs(&query)?.jobs).answer("jobs", kind)).await?
}

/// All columns of jobs. The values are moved, for there may be many.
pub(super) fn as_table(mut jobs: Vec<JobRow>) -> Table {
    let mut table = Table::new(jobs.len());
    for (at, column) in COLUMNS.iter().enumerate() {
        let cells = jobs.iter_mut().map(|job| job.cells.get_mut(at).map_or(Cell::None, std::mem::take));
        let whole = |cell| if let Cell::Whole(number) = cell { Some(number) } else { None };
        match column.form {
            Form::Text => table.text(
                column.key,
                cells.map(|cell| if let Cell::Text(text) = cell { Some(text) } else { None }),
            ),
            Form::Moment => table.moment(column.key, cells.map(whole)),
            Form::Count | Form::Bytes => table.whole(column.key, cells.map(whole)),
            Form::Real | Form::Seconds => table.real(
                column.key,
                cells.map(|cell| match cell {
                    Cell::Real(number) => Some(number),
                    _ => None,
                }),
            ),
        }
    }
    table
}
