//! Two to six jobs side by side: their figures with differences marked, and their series since each job's start in a
//! common scale. The address names the jobs, so that a link is a saved comparison.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use maud::{Markup, html};
use pinfold_profile::plot;
use pinfold_profile::report::plain;
use pinfold_proto::quantity::parse_whole;

use super::picture::{self, Look};
use super::table::Form as Kind;
use super::{Asker, NoView, figures, frame, jobs, nothing, person};
use crate::hub::Hub;
use crate::server::problem::Problem;
use crate::store::columns::{COLUMNS, Column, Form};
use crate::store::{Cell, JobQuery, JobRow, Session};

/// The fewest and the most jobs compared.
const JOBS_MIN: usize = 2;
pub(super) const JOBS_MAX: usize = plot::STACKED_MAX;

/// The part of the first job's figure from which a difference is marked.
const DIFFERS: f64 = 0.1;

type Pairs = Query<Vec<(String, String)>>;

/// The parsed address.
#[derive(Debug)]
struct Asked {
    ids: Vec<i64>,
    look: Look,
}

impl Asked {
    fn read(pairs: &[(String, String)]) -> Result<Self, Problem> {
        let (mut ids, mut look) = (Vec::new(), Look::default());
        for (key, value) in pairs {
            match (key.as_str(), value.as_str()) {
                ("job", number) => {
                    let id = parse_whole(number, &(0..=i64::MAX))
                        .map_err(|error| Problem::wrong(format!("job: {error}")))?;
                    if !ids.contains(&id) {
                        ids.push(id);
                    }
                }
                ("dark", "true") => look.dark = true,
                ("narrow", "true") => look.narrow = true,
                _ => return Err(Problem::wrong(format!("{key}={value}: no such choice"))),
            }
        }
        if !(JOBS_MIN..=JOBS_MAX).contains(&ids.len()) {
            let words = format!(
                "{} jobs are chosen: {JOBS_MIN} to {JOBS_MAX} can be compared. Choose them in the list of jobs.",
                ids.len()
            );
            return Err(Problem::wrong(words));
        }
        Ok(Self { ids, look })
    }

    fn link(&self, path: &str) -> String {
        let ids: Vec<String> = self.ids.iter().map(|id| format!("job={id}")).collect();
        format!("{path}?{}", ids.join("&"))
    }

    /// The jobs in the order of the address; fails unless all are found.
    fn rows(&self, hub: &Hub, session: &Session) -> Result<Vec<JobRow>, NoView> {
        let query = JobQuery {
            access: session.access.clone(),
            ids: self.ids.clone(),
            limit: u32::try_from(JOBS_MAX).unwrap_or(1),
            ..JobQuery::default()
        };
        let mut found = hub.store.jobs(&query)?.jobs;
        found.sort_by_key(|row| self.ids.iter().position(|id| *id == row.id));
        if found.len() == self.ids.len() { Ok(found) } else { Err(missing()) }
    }
}

fn missing() -> NoView {
    nothing("One of these jobs is not here, or it is not yours to see.")
}

pub(super) async fn view(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Query(pairs): Pairs,
) -> Result<Markup, NoView> {
    let session = person(&hub, &asker).await?;
    let asked = Asked::read(&pairs)?;
    hub.ask(move |hub| Ok(page(&asked, &asked.rows(hub, &session)?, &session))).await?
}

fn page(asked: &Asked, rows: &[JobRow], session: &Session) -> Markup {
    let view = html! {
        p.lead { "Time in the picture is counted from each job's start. Figures that differ from the first job's by "
            (figures::percent(DIFFERS)) " or more are marked with the difference, other words with \u{2260}." }
        (picture::chart(&asked.link("/compare.svg"), &format!("Memory, cores and storage of {} jobs", rows.len())))
        (table_of(rows))
        p { a href=(asked.link("/compare.csv")) download { "These figures as CSV" } ", "
            a href=(asked.link("/compare.parquet")) download { "as Parquet" }
            ". This page's address is the comparison: keep it as a bookmark, send it to others who may see these jobs." }
    };
    frame::around(session, "/jobs", "Jobs compared", None, view)
}

fn table_of(rows: &[JobRow]) -> Markup {
    // Columns without a value in any job are left out.
    let shown =
        COLUMNS.iter().enumerate().filter(|(at, _)| rows.iter().any(|row| row.cells[*at] != Cell::None));
    html! {
        div.scroll tabindex="0" role="region" aria-label="Figures" {
            table.list.compare {
                thead { tr { th scope="col" { "Figure" } @for (row, number) in rows.iter().zip(1..) {
                    th scope="col" { a href=(format!("/jobs/{}", row.id)) { (number) ": job " (figures::word(row, "job")) } " of " (figures::word(row, "host")) }
                } } }
                tbody { @for (at, column) in shown { tr {
                    th scope="row" { (column.head) }
                    @for row in rows { td { (figures::text(column, &row.cells[at])) (mark(column, &rows[0].cells[at], &row.cells[at])) } }
                } } }
            }
        }
    }
}

/// The difference of a cell from the first job's cell; empty without a difference.
fn mark(column: &Column, first: &Cell, own: &Cell) -> Markup {
    let words = differs(column, first, own);
    html! { @if let Some(words) = words { " " span.differs { (words) } } }
}

fn differs(column: &Column, first: &Cell, own: &Cell) -> Option<String> {
    // Numbers and times always differ between jobs.
    if column.key == "job" || column.form == Form::Moment || first == own {
        return None;
    }
    let Some((first, own)) = value(first).zip(value(own)) else { return Some("\u{2260}".to_owned()) };
    if matches!(column.key, "exit_code" | "signal" | "priority") {
        return Some("\u{2260}".to_owned());
    }
    if first == 0.0 {
        return Some("\u{25b2}".to_owned());
    }
    let part = own / first - 1.0;
    (part.abs() >= DIFFERS).then(|| {
        let way = if part > 0.0 { '\u{25b2}' } else { '\u{25bc}' };
        if part >= 9.0 {
            format!("{way} {}x", figures::real(own / first))
        } else {
            format!("{way} {:+.0} %", part * 100.0)
        }
    })
}

#[expect(clippy::cast_precision_loss, reason = "15 digits are enough for a difference")]
fn value(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Whole(number) => Some(*number as f64),
        Cell::Real(number) => Some(*number),
        Cell::None | Cell::Text(_) => None,
    }
}

pub(super) async fn drawn(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Query(pairs): Pairs,
) -> Result<Response, NoView> {
    let session = person(&hub, &asker).await?;
    let asked = Asked::read(&pairs)?;
    let svg = hub.ask(move |hub| {
        let mut views = Vec::new();
        for id in &asked.ids {
            let detail = hub.store.job(*id, &session.access)?.ok_or_else(missing)?;
            let mut report = detail.head.report;
            report.name = plain(&report.name);
            views.push(report);
        }
        let (look, count) = (asked.look, u32::try_from(views.len()).unwrap_or(1));
        let draw = |width, height| plot::stacked(&views, look.narrow).to_svg(width, height);
        Ok::<_, NoView>(picture::sized(look, (1_200, 90 + 170 * count), (380, 90 + 3 * 120 * count), draw))
    });
    Ok(picture::answer(svg.await??))
}

pub(super) async fn table(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    kind: Kind,
    Query(pairs): Pairs,
) -> Result<Response, NoView> {
    let session = person(&hub, &asker).await?;
    let asked = Asked::read(&pairs)?;
    hub.ask(move |hub| jobs::as_table(asked.rows(hub, &session)?).answer("compare", kind)).await?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(key: &str, first: Cell, own: Cell, want: Option<&str>) {
        let column = crate::store::columns::find(key).expect("a column");
        assert_eq!(differs(column, &first, &own).as_deref(), want, "{key}");
    }

    #[test]
    fn what_differs_is_marked() {
        check("wall_s", Cell::Real(100.0), Cell::Real(109.0), None);
        check("wall_s", Cell::Real(100.0), Cell::Real(125.0), Some("\u{25b2} +25 %"));
        check("wall_s", Cell::Real(100.0), Cell::Real(50.0), Some("\u{25bc} -50 %"));
        check("memory_peak_bytes", Cell::Whole(1), Cell::Whole(40), Some("\u{25b2} 40.0x"));
        check("swap_peak_bytes", Cell::Whole(0), Cell::Whole(1), Some("\u{25b2}"));
        check("swap_peak_bytes", Cell::Whole(0), Cell::Whole(0), None);
        check("exit_code", Cell::Whole(0), Cell::Whole(1), Some("\u{2260}"));
        check("name", Cell::Text("a".into()), Cell::Text("b".into()), Some("\u{2260}"));
        check("claim_bytes", Cell::Whole(1), Cell::None, Some("\u{2260}"));
        check("ended", Cell::Whole(1), Cell::Whole(2), None);
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let asked = |text: &str| {
            let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
            Asked::read(&pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<Vec<_>>())
        };
        assert_eq!(
            asked("job=2&job=1&job=2").map(|asked| asked.link("/c")).ok().as_deref(),
            Some("/c?job=2&job=1")
        );
        for bad in [
            "",
            "job=1",
            "job=1&job=1",
            "job=1&job=x",
            "job=1&job=2&x=1",
            "job=1&job=2&job=3&job=4&job=5&job=6&job=7",
        ] {
            assert!(asked(bad).is_err(), "{bad}");
        }
    }
}
