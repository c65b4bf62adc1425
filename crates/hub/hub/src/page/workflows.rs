//! Workflows: their runs, and a run by its steps beside earlier runs.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::Response;
use maud::{Markup, html};
use pinfold_profile::report::{duration, plain};

use super::figures::{moment, percent, real, real_size};
use super::filter::{Filter, encoded};
use super::list;
use super::table::{Form, Table};
use super::{Asker, NoView, frame, jobs, nothing, person};
use crate::hub::Hub;
use crate::server::sums::OneRun;
use crate::store::{
    EARLIER_MAX, JobQuery, RUN_JOBS_MAX, RUNS_MAX, RunDetail, RunKey, RunRow, Session, now_us,
};
use crate::workflow::chain::Chain;
use crate::workflow::steps::{self, Change, Figure, RUNS_MIN, Step};

/// The most runs on a page.
const SHOWN: u32 = 100;

/// The most steps of a run shown, by core hours, and the most jobs of its chain.
const STEPS_SHOWN: usize = 500;
const LINKS_SHOWN: usize = 30;

type Pairs = Query<Vec<(String, String)>>;

fn runs(hub: &Hub, session: &Session, filter: &Filter, limit: u32) -> Result<Vec<RunRow>, NoView> {
    Ok(hub.store.runs(&JobQuery { limit, ..filter.query(&session.access, now_us()) })?)
}

pub(super) async fn view(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Query(pairs): Pairs,
) -> Result<Markup, NoView> {
    let session = person(&hub, &asker).await?;
    let filter = jobs::asked(&hub, &session, ("/workflows", "Workflows"), Filter::read(&pairs)).await?;
    hub.ask(move |hub| Ok(list(&runs(hub, &session, &filter, SHOWN)?, &filter, &session))).await?
}

fn list(runs: &[RunRow], filter: &Filter, session: &Session) -> Markup {
    let view = html! {
        (jobs::form("/workflows", filter, false))
        p.lead { "Runs of workflows, the last first. A job is of a run when its comment says so: "
            code { "--comment 'workflow=rnaseq version=1.4 run=42'" } ", or when Snakemake's plugin for Slurm asked for it." }
        @if runs.is_empty() { p { "No such run." } } @else {
            (list::table("Runs", "=Workflow|Version|=Run|User|Begun|>Makespan|>Jobs|>Failed|>Core h|\
                >Claimed GiB h|>Unused GiB h|>Waited h|>Hosts", runs.iter().map(row)))
            @if runs.len() >= SHOWN as usize { p.small { "The last " (SHOWN) " are shown; the files have up to " (RUNS_MAX) "." } }
            p { a href=(filter.link("/workflows.csv")) download { "These runs as CSV" } ", "
                a href=(filter.link("/workflows.parquet")) download { "as Parquet" } "." }
        }
    };
    frame::around(session, "/workflows", "Workflows", None, view)
}

/// The address of a run at a path.
fn link(path: &str, run: &RunRow) -> String {
    format!(
        "{path}?workflow={}&user={}&run={}",
        encoded(&run.workflow),
        encoded(&run.user),
        encoded(&run.run)
    )
}

fn row(run: &RunRow) -> Vec<Markup> {
    let figure = |number: f64| html! { (real(number)) };
    vec![
        html! { (plain(&run.workflow)) },
        html! { (run.version.as_deref().map(plain).unwrap_or_default()) },
        html! { a href=(link("/workflows/run", run)) { (plain(&run.run)) } },
        html! { (plain(&run.user)) },
        html! { (moment(i64::try_from(run.begun_us).unwrap_or(0))) },
        html! { (duration(run.makespan_s())) },
        html! { (run.jobs) },
        list::failures(run.failed),
        figure(run.core_h),
        figure(run.claimed_gibh),
        figure(run.unused_gibh),
        figure(run.queued_h),
        html! { (run.hosts) },
    ]
}

pub(super) async fn table(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    form: Form,
    Query(pairs): Pairs,
) -> Result<Response, NoView> {
    let session = person(&hub, &asker).await?;
    let filter = Filter::read(&pairs).checked()?;
    hub.ask(move |hub| table_of(&runs(hub, &session, &filter, RUNS_MAX)?).answer("workflows", form)).await?
}

fn table_of(rows: &[RunRow]) -> Table {
    let mut table = Table::new(rows.len());
    table.text("workflow", rows.iter().map(|run| Some(run.workflow.clone())));
    table.text("version", rows.iter().map(|run| run.version.clone()));
    table.text("run", rows.iter().map(|run| Some(run.run.clone())));
    table.text("user", rows.iter().map(|run| Some(run.user.clone())));
    table.moment("begun", rows.iter().map(|run| i64::try_from(run.begun_us).ok()));
    table.moment("ended", rows.iter().map(|run| i64::try_from(run.ended_us).ok()));
    table.real("makespan_s", rows.iter().map(|run| Some(run.makespan_s())));
    table.count("jobs", rows.iter().map(|run| Some(run.jobs)));
    table.count("failed", rows.iter().map(|run| Some(run.failed)));
    table.count("hosts", rows.iter().map(|run| Some(run.hosts)));
    let mut hours = |name, of: fn(&RunRow) -> f64| table.real(name, rows.iter().map(|run| Some(of(run))));
    hours("core_h", |run| run.core_h);
    hours("cpu_h", |run| run.cpu_h);
    hours("claimed_gibh", |run| run.claimed_gibh);
    hours("unused_gibh", |run| run.unused_gibh);
    hours("queued_h", |run| run.queued_h);
    table
}

fn detail(hub: &Hub, session: &Session, key: &RunKey) -> Result<RunDetail, NoView> {
    let found = hub.store.run(key, &session.access)?;
    found.ok_or_else(|| nothing("There is no such run here, or it is not yours to see."))
}

pub(super) async fn run(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Query(which): Query<OneRun>,
) -> Result<Markup, NoView> {
    let session = person(&hub, &asker).await?;
    let key = RunKey::from(which);
    hub.ask(move |hub| Ok(page(&detail(hub, &session, &key)?, &session))).await?
}

fn page(detail: &RunDetail, session: &Session) -> Markup {
    let (run, steps) = (&detail.run, steps::of(detail));
    let shown = &steps[..steps.len().min(STEPS_SHOWN)];
    let version = run.version.as_ref().map(|version| format!(" {}", plain(version))).unwrap_or_default();
    let title = format!("{}{version}, run {} of {}", plain(&run.workflow), plain(&run.run), plain(&run.user));
    let view = html! {
        @if detail.cut { p.note { "There are more jobs than the " (RUN_JOBS_MAX) " that are read of a run: the rest is left out of what is below the sums." } }
        (sums(run))
        h2 { "Beside earlier runs" }
        (changes(detail, &steps))
        h2 { "Steps" }
        (list::table("Steps", "=Step|>Jobs|>Failed|>Ran, median|>ran before|>Peak, median|\
                >peak before|>Core h|>Claimed GiB h|>Waited h|>Earlier runs", shown.iter().map(step_row)))
        @if steps.len() > shown.len() { p.small { (steps.len() - shown.len()) " steps with fewer core hours are left out; the files have all." } }
        p { a href=(link("/workflows/steps.csv", run)) download { "These steps as CSV" } ", "
            a href=(link("/workflows/steps.parquet", run)) download { "as Parquet" } "." }
        h2 { "What the time went to" }
        (chain_of(detail))
        @if !detail.earlier.is_empty() {
            h2 { "The runs before" }
            ul { @for one in &detail.earlier { li { a href=(link("/workflows/run", one)) { (plain(&one.run)) }
                @if let Some(version) = &one.version { ", version " (plain(version)) }
                ", begun " (moment(i64::try_from(one.begun_us).unwrap_or(0))) ", " (duration(one.makespan_s())) ", " (one.jobs) " jobs" } } }
        }
    };
    frame::around(session, "/workflows", &title, None, view)
}

fn sums(run: &RunRow) -> Markup {
    html! {
        dl.figures.two {
            dt { "Begun" } dd { (moment(i64::try_from(run.begun_us).unwrap_or(0))) }
            dt { "Makespan" } dd { (duration(run.makespan_s())) }
            dt { "Jobs" } dd { (run.jobs) ", " @if run.failed > 0 { span.bad { (run.failed) " failed" } } @else { "none failed" } " on " (run.hosts) @if run.hosts == 1 { " host" } @else { " hosts" } }
            dt { "Core hours" } dd { (real(run.core_h)) ", of CPU " (real(run.cpu_h)) }
            dt { "Memory claimed" } dd { (real(run.claimed_gibh)) " GiB h, unused " (real(run.unused_gibh)) }
            dt { "Waited" } dd { (real(run.queued_h)) " h, all jobs together" }
        }
    }
}

/// The slower, larger, quicker and smaller steps, in words.
fn changes(detail: &RunDetail, steps: &[Step]) -> Markup {
    let mut told: Vec<(bool, String)> = steps.iter().flat_map(words).collect();
    let more = told.len().saturating_sub(STEPS_SHOWN);
    told.truncate(STEPS_SHOWN);
    let few = steps.iter().filter(|step| step.ran_s.change == Change::TooFew).count();
    html! {
        @if told.is_empty() && few < steps.len() {
            p { "No step is beyond what the " (detail.earlier.len()) " runs before differ by." }
        }
        @if !told.is_empty() { ul { @for (worse, words) in &told { li { @if *worse { span.bad { "Worse: " } } @else { "Better: " } (words) } } } }
        @if more > 0 { p.small { "and " (more) " more" } }
        @if few > 0 {
            p { (few) " of " (steps.len()) " steps cannot be compared: they ended well in fewer than " (RUNS_MIN)
                " of the last " (EARLIER_MAX) " runs before, or did not end well in this one." }
        }
    }
}

fn words(step: &Step) -> Vec<(bool, String)> {
    let told = |figure: &Figure, shown: fn(f64) -> String, [more, less]: [&str; 2]| {
        let (worse, word) = match figure.change {
            Change::More => (true, more),
            Change::Less => (false, less),
            Change::TooFew | Change::Within => return None,
        };
        let (now, before) = (figure.now?, figure.before?);
        let by = if before.middle > 0.0 { percent((now / before.middle - 1.0).abs()) } else { String::new() };
        Some((
            worse,
            format!(
                "{} is {by} {word}: {} in the middle of {} jobs, before that {} ({} to {} in {} runs with {} jobs)",
                plain(&step.step),
                shown(now),
                step.jobs - step.failed,
                shown(before.middle),
                shown(before.low),
                shown(before.high),
                step.earlier_runs,
                step.earlier_jobs
            ),
        ))
    };
    let of_time = told(&step.ran_s, duration, ["slower", "quicker"]);
    let of_memory = told(&step.peak_bytes, real_size, ["larger", "smaller"]);
    of_time.into_iter().chain(of_memory).collect()
}

fn step_row(step: &Step) -> Vec<Markup> {
    let mut row =
        vec![html! { (plain(&step.step)) }, html! { (step.jobs) }, list::failures(step.failed as u64)];
    row.extend(cells(&step.ran_s, duration));
    row.extend(cells(&step.peak_bytes, real_size));
    row.extend([step.core_h, step.claimed_gibh, step.queued_h].map(|hours| html! { (real(hours)) }));
    row.push(html! { (step.earlier_runs) });
    row
}

fn cells(figure: &Figure, shown: fn(f64) -> String) -> [Markup; 2] {
    let now = html! {
        (figure.now.map(shown).unwrap_or_default())
        @match figure.change {
            Change::More => { " " span.bad { "\u{25b2}" } },
            Change::Less => " \u{25bc}",
            Change::TooFew | Change::Within => {},
        }
    };
    [now, html! { (figure.before.map(|before| shown(before.middle)).unwrap_or_default()) }]
}

fn chain_of(detail: &RunDetail) -> Markup {
    let chain = Chain::of(&detail.jobs);
    let hidden = chain.links.len().saturating_sub(LINKS_SHOWN);
    html! {
        p.lead { "As far as times tell: each job of this chain is the one that ended last before the next was asked for. Its " (chain.links.len())
            @if chain.links.len() == 1 { " job" } @else { " jobs" } " ran " (duration(chain.ran_s)) ", waited to start " (duration(chain.queued_s)) " and were suspended "
            (duration(chain.suspended_s)) "; for " (duration(chain.idle_s)) " none of them was asked for." }
        @if hidden > 0 { p.small { "The last " (LINKS_SHOWN) " are shown." } }
        (list::table("Chain", "=Job|>Asked for after|>Waited|>Ran|>Suspended", chain.links.iter().skip(hidden).map(|link| {
            let job = &detail.jobs[link.at];
            let mut row = vec![html! { a href=(format!("/jobs/{}", job.id)) { (plain(&job.step)) } }];
            row.extend([link.idle_s, link.queued_s, link.ran_s, link.suspended_s].map(|length| html! { (duration(length)) }));
            row
        })))
    }
}

pub(super) async fn steps(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    form: Form,
    Query(which): Query<OneRun>,
) -> Result<Response, NoView> {
    let session = person(&hub, &asker).await?;
    let key = RunKey::from(which);
    hub.ask(move |hub| steps_of(&steps::of(&detail(hub, &session, &key)?)).answer("steps", form)).await?
}

fn steps_of(rows: &[Step]) -> Table {
    let mut table = Table::new(rows.len());
    let count = |count: usize| Some(count as u64);
    table.text("step", rows.iter().map(|step| Some(step.step.clone())));
    table.count("jobs", rows.iter().map(|step| count(step.jobs)));
    table.count("failed", rows.iter().map(|step| count(step.failed)));
    table.count("earlier_runs", rows.iter().map(|step| count(step.earlier_runs)));
    table.count("earlier_jobs", rows.iter().map(|step| count(step.earlier_jobs)));
    table.real("ran_p50_s", rows.iter().map(|step| step.ran_s.now));
    table.real("ran_before_p50_s", rows.iter().map(|step| step.ran_s.before.map(|before| before.middle)));
    table.text("ran_change", rows.iter().map(|step| Some(step.ran_s.change.word().to_owned())));
    table.real("peak_p50_bytes", rows.iter().map(|step| step.peak_bytes.now));
    table.real(
        "peak_before_p50_bytes",
        rows.iter().map(|step| step.peak_bytes.before.map(|before| before.middle)),
    );
    table.text("peak_change", rows.iter().map(|step| Some(step.peak_bytes.change.word().to_owned())));
    table.real("core_h", rows.iter().map(|step| Some(step.core_h)));
    table.real("claimed_gibh", rows.iter().map(|step| Some(step.claimed_gibh)));
    table.real("queued_h", rows.iter().map(|step| Some(step.queued_h)));
    table
}
