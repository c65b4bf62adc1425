//! Classes: the jobs of a name each, over all hosts, with the spread of their figures and their unused memory.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use maud::{Markup, html};
use pinfold_profile::report::{duration, plain};

use super::figures::{percent, real, real_size};
use super::filter::Filter;
use super::list;
use super::table::{Form, Table};
use super::{Asker, NoView, drift, frame, jobs, person};
use crate::hub::Hub;
use crate::store::{ClassRow, Session, Spread, Summary, now_us};

/// The most classes on a page.
const SHOWN: usize = 100;

pub(super) async fn view(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Markup, NoView> {
    let session = person(&hub, &asker).await?;
    let filter = jobs::asked(&hub, &session, ("/classes", "Classes"), Filter::read(&pairs)).await?;
    let query = filter.day_query(&session.access, now_us());
    hub.ask(move |hub| Ok(page(&hub.store.classes(&query)?, &filter, &session))).await?
}

fn page(classes: &Summary<ClassRow>, filter: &Filter, session: &Session) -> Markup {
    let view = html! {
        (jobs::form("/classes", filter, false))
        p.lead { (classes.rows.len()) " classes of " (classes.jobs) " jobs that ran"
            @if classes.cut { @if classes.error_part > 0.0 { ": there are more, and those with the least unused memory are left out" }
                @else { ", the last ones; earlier ones of this time are left out" } } ". The most wasteful first. Days count whole, from 00:00 UTC on."
            @if classes.error_part > 0.0 { " Medians and other quantiles are within " (format!("{:.1} %", classes.error_part * 100.0)) "." }
            @if classes.rows.len() > SHOWN { " The first " (SHOWN) " are shown; the files have all." } }
        @if !classes.rows.is_empty() {
            (list::table("Classes", "=Name|>Jobs|Drift|>Failed|>Hosts|>Wall time, median|>p90|\
                ~Memory: median, p90, p99, peak; claim median|>Cores used|>Suspended|>Unused GiB h", classes.rows.iter().take(SHOWN).map(|class| row(filter, class))))
            p { a href=(filter.link("/classes.csv")) download { "These classes as CSV" } ", " a href=(filter.link("/classes.parquet")) download { "as Parquet" } "." }
        }
    };
    frame::around(session, "/classes", "Classes", None, view)
}

fn row(filter: &Filter, class: &ClassRow) -> Vec<Markup> {
    let name = plain(&class.name);
    vec![
        html! { a href=(filter.of_name(&class.name).link("/jobs")) { (name) } },
        html! { (class.jobs) },
        html! { a href=(filter.of_class(&class.name, drift::DAYS).link("/classes/weeks")) aria-label=(format!("{name} by week")) { "by week" } },
        list::failures(class.failed),
        html! { (class.hosts) },
        html! { (duration(class.wall_s.p50)) },
        html! { (duration(class.wall_s.p90)) },
        strip(&class.memory_peak_bytes, class.claim_p50_bytes),
        html! { (percent(class.cores_used_part)) },
        html! { (duration(class.suspended_h * 3_600.0)) },
        html! { (real(class.unused_gibh)) },
    ]
}

/// A spread beside its request, in words and as a strip on its own scale.
fn strip(spread: &Spread, claim: Option<f64>) -> Markup {
    let top = spread.most.max(claim.unwrap_or(0.0)).max(1.0);
    let at = |value: f64| format!("{:.1}", 1.0 + value / top * 98.0);
    let wide = |from: f64, to: f64| format!("{:.1}", ((to - from) / top * 98.0).max(0.5));
    let words = format!(
        "{}, {}, {}, {}{}",
        real_size(spread.p50),
        real_size(spread.p90),
        real_size(spread.p99),
        real_size(spread.most),
        claim.map(|claim| format!("; claim {}", real_size(claim))).unwrap_or_default()
    );
    html! {
        svg.strip viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
            rect.strip-line x="1" y="4.5" width=(wide(0.0, spread.most)) height="1" {}
            rect.strip-box x=(at(spread.p50)) y="2" width=(wide(spread.p50, spread.p90)) height="6" {}
            rect.strip-tail x=(at(spread.p90)) y="3" width=(wide(spread.p90, spread.p99)) height="4" {}
            @if let Some(claim) = claim { rect.strip-claim x=(at(claim)) y="0" width="0.8" height="10" {} }
        }
        span.small { (words) }
    }
}

pub(super) async fn table(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    form: Form,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Response, NoView> {
    let session = person(&hub, &asker).await?;
    let query = Filter::read(&pairs).checked()?.day_query(&session.access, now_us());
    hub.ask(move |hub| table_of(&hub.store.classes(&query)?.rows).answer("classes", form)).await?
}

fn table_of(rows: &[ClassRow]) -> Table {
    let mut table = Table::new(rows.len());
    table.text("name", rows.iter().map(|class| Some(class.name.clone())));
    table.count("jobs", rows.iter().map(|class| Some(class.jobs)));
    table.count("failed", rows.iter().map(|class| Some(class.failed)));
    table.count("hosts", rows.iter().map(|class| Some(class.hosts)));
    let mut real = |name, of: fn(&ClassRow) -> Option<f64>| table.real(name, rows.iter().map(of));
    real("wall_p50_s", |class| Some(class.wall_s.p50));
    real("wall_p90_s", |class| Some(class.wall_s.p90));
    real("wall_p99_s", |class| Some(class.wall_s.p99));
    real("wall_most_s", |class| Some(class.wall_s.most));
    real("memory_peak_p50_bytes", |class| Some(class.memory_peak_bytes.p50));
    real("memory_peak_p90_bytes", |class| Some(class.memory_peak_bytes.p90));
    real("memory_peak_p99_bytes", |class| Some(class.memory_peak_bytes.p99));
    real("memory_peak_most_bytes", |class| Some(class.memory_peak_bytes.most));
    real("claim_p50_bytes", |class| class.claim_p50_bytes);
    real("cores_used_part", |class| Some(class.cores_used_part));
    real("suspended_h", |class| Some(class.suspended_h));
    real("unused_gibh", |class| Some(class.unused_gibh));
    table
}
