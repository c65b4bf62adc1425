//! The first screen: the cluster's health, its users, the reasons of waiting jobs, and the hosts.

use std::sync::Arc;

use axum::extract::{Query, State};
use maud::{Markup, html};
use pinfold_profile::report::{duration, plain, size};
use pinfold_proto::view::JobView;
use serde::Deserialize;

use super::cluster::{self, CLOCK_APART_US, Line, RUNNING, SUSPENDED, Sort, Trouble, Use, WAITING, Wait};
use super::figures::{bar, percent, real, real_size};
use super::list;
use super::{Asker, NoView, filter, frame, machine, person};
use crate::hub::{HostNow, Hub};
use crate::store::{Session, now_us};

/// The most jobs listed of a host, the largest by memory.
const JOBS_SHOWN: usize = 8;

/// The most users, projects and reasons listed.
const NAMED: usize = 6;

/// Hosts in a table: a wide window has several tables side by side.
const HOSTS_A_TABLE: usize = 50;

/// Interval of reloads on request, in seconds. An automatic reload would take the reading position away from users of
/// screen readers.
pub(super) const REFRESH_S: u32 = 5;

/// The view's options.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Look {
    live: bool,
    cards: bool,
    sort: Sort,
    up: bool,
}

impl Look {
    fn link(self) -> String {
        let Self { live, cards, sort, up } = self;
        format!("/?sort={}&up={up}&cards={cards}&live={live}", format!("{sort:?}").to_lowercase())
    }
}

pub(super) async fn view(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Query(look): Query<Look>,
) -> Result<Markup, NoView> {
    let session = person(&hub, &asker).await?;
    hub.ask(move |hub| Ok(page(&hub.hosts()?, &session, look))).await?
}

fn page(hosts: &[HostNow], session: &Session, look: Look) -> Markup {
    let mut lines: Vec<Line<'_>> = hosts.iter().map(|host| Line::of(host, &session.access)).collect();
    cluster::sort(&mut lines, look.sort, look.up);
    let view = html! {
        @if hosts.is_empty() {
            p { "No host yet. " code { "pinfold-hub token --host NAME" } " makes a token for one, and "
                code { "pinfold hub join" } " on that host uses it." }
        } @else {
            (totals(&lines))
            (now(&lines, session))
            div.choose { h2 { "Hosts" }
                @if look.cards { a href=(Look { cards: false, ..look }.link()) { "As rows" } } @else { a href=(Look { cards: true, ..look }.link()) { "As cards" } }
                @if look.live { span { "Loaded again every " (REFRESH_S) " s; " a href=(Look { live: false, ..look }.link()) { "stop that" } } }
                @else { a href=(Look { live: true, ..look }.link()) { "Load this again every " (REFRESH_S) " s" } }
            }
            @if look.cards {
                div.cards { @for line in &lines { (card(line, JOBS_SHOWN)) } }
            } @else {
                div.wall { @for part in lines.chunks(HOSTS_A_TABLE) { (list::sortable("Hosts", HEADS, orders(look), part.iter().map(row))) } }
            }
        }
    };
    frame::around(session, "/", "Cluster", look.live.then_some(REFRESH_S), view)
}

/// Whether the cluster is well, in a sentence and in five figures.
fn totals(lines: &[Line<'_>]) -> Markup {
    let of = |trouble| lines.iter().filter(|line| line.trouble == trouble).count();
    let sum = |figure: fn(&Line<'_>) -> (f64, f64)| {
        lines.iter().map(figure).fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1))
    };
    let jobs = |states| lines.iter().map(|line| line.count(states)).sum::<usize>();
    let (busy, cores) = sum(|line| line.cores());
    let (held, budget) = sum(|line| line.memory());
    let (away, pressed, warned) = (of(Trouble::Away), of(Trouble::Pressure), of(Trouble::Warning));
    let part = |of: f64, all: f64| if all > 0.0 { of / all } else { 0.0 };
    let told = [(away, "not heard"), (pressed, "under pressure"), (warned, "with warnings")];
    let told: Vec<String> = told
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{count} {words}"))
        .collect();
    let trouble = |count: usize, words: &str| html! { span.bad[count > 0] { (count) } span { (words) } };
    html! {
        p.note { @if told.is_empty() { "All is well: each host is heard, and none is short of memory." } @else { span.bad { (told.join(", ")) } " of " (lines.len()) " hosts" } }
        div.totals {
            div { strong { (real(busy)) " of " (real(cores)) } span { "cores busy" } (bar(part(busy, cores), "cores busy")) }
            div { strong { (real_size(held)) " of " (real_size(budget)) } span { "memory held by jobs" } (bar(part(held, budget), "memory held")) }
            div { strong { (jobs(RUNNING)) " running" } span { (jobs(SUSPENDED)) " suspended, " (jobs(WAITING)) " waiting" } }
            div { strong { (trouble(away, " not heard")) } span { (lines.len() - away) " of " (lines.len()) " hosts are heard" } }
            div { strong { (trouble(pressed, " under pressure")) } span { "stalled for memory " (percent(cluster::PRESSED)) " of the time or more" } }
        }
    }
}

fn uses(title: &str, key: &str, used: &[(&str, Use)]) -> Markup {
    let heads = format!("={title}|>Cores busy|>Memory|>Started|>Waiting");
    let row = |(name, used): &(&str, Use)| {
        let link = format!("/jobs?{key}={}", filter::encoded(name));
        vec![
            html! { @if name.is_empty() { "(none)" } @else { a href=(link) { (plain(name)) } } },
            html! { (real(used.cores)) },
            html! { (size(used.memory_bytes)) },
            html! { (used.jobs) },
            html! { (used.waiting) },
        ]
    };
    html! {
        section.dense { (list::table(title, &heads, used.iter().take(NAMED).map(row)))
            @if used.len() > NAMED { p.small { "and " (used.len() - NAMED) " more" } } }
    }
}

/// Users and projects of unfinished jobs, and the reasons of waiting jobs.
fn now(lines: &[Line<'_>], session: &Session) -> Markup {
    let users = cluster::used_by(lines, |job| &job.user);
    let projects = cluster::used_by(lines, |job| job.project.as_deref().unwrap_or_default());
    let waits = cluster::waits(lines);
    let row = |wait: &Wait<'_>| {
        let job = wait.first;
        let waited_s = pinfold_proto::view::seconds(now_us()) - job.submitted_s;
        vec![
            html! { (job.reason.as_deref().map_or_else(|| "their host did not tell why".to_owned(), plain)) },
            html! { (wait.jobs) },
            html! { (duration(waited_s)) },
            html! { a href=(job_link(wait.host, job.job)) { (job.job) ", " (wait.host) } },
        ]
    };
    html! {
        @if !session.access.is_all() { p.small { "Below are jobs that you may see: " (session.access.words()) "." } }
        @if users.is_empty() { p { "No job runs or waits." } } @else {
            div.panels {
                (uses("User", "user", &users))
                (uses("Project", "project", &projects))
                section.dense { @if waits.is_empty() { p { "No job waits." } } @else {
                    (list::table("Waiting", "~Jobs wait because|>Jobs|>Longest|=Which", waits.iter().take(NAMED).map(row)))
                    @if waits.len() > NAMED { p.small { "and " (waits.len() - NAMED) " more reasons" } }
                } }
            }
        }
    }
}

/// The address of an unfinished job.
pub(super) fn job_link(host: &str, job: u64) -> String {
    format!("/hosts/{}/jobs/{job}", filter::encoded(host))
}

const HEADS: &str = "=Host|State|Cores busy|Memory held|>Stalled|>Running|>Susp.|>Waiting";

/// The address of each order of hosts.
fn orders(look: Look) -> Vec<list::Sorted> {
    use Sort::{Cores, Host, Memory, Pressure, Running, Suspended, Trouble, Waiting};
    let of = |sort: Sort| {
        let now = (look.sort == sort).then_some(look.up ^ (sort == Host));
        (Look { sort, up: look.sort == sort && !look.up, ..look }.link(), now)
    };
    [Host, Trouble, Cores, Memory, Pressure, Running, Suspended, Waiting].map(of).into()
}

fn row(line: &Line<'_>) -> Vec<Markup> {
    let (busy, cores) = line.cores();
    let (held, budget) = line.memory();
    let part = |of: f64, all: f64| if all > 0.0 { of / all } else { 0.0 };
    let link = format!("/hosts/{}", filter::encoded(&line.host.name));
    let name = html! { a href=(link) { (line.host.name) } };
    let Some(status) = line.status else { return vec![name, state(line)] };
    let count = |states| html! { (line.count(states)) };
    vec![
        name,
        state(line),
        html! { (bar(part(busy, cores), "cores busy")) (real(busy)) " of " (status.slots.cores) },
        html! { (bar(part(held, budget), "memory held")) (real_size(held)) " of " (real_size(budget)) },
        html! { span.bad[line.pressure() >= cluster::PRESSED] { (percent(line.pressure())) } },
        count(RUNNING),
        count(SUSPENDED),
        count(WAITING),
    ]
}

fn state(line: &Line<'_>) -> Markup {
    let warnings = line.status.map_or(0, |status| status.warnings.len());
    let draining = line.status.is_some_and(|status| status.draining);
    html! {
        @match (line.trouble, line.host.seen_us) {
            (Trouble::Away, None) => span.bad { "never heard" },
            (Trouble::Away, Some(seen_us)) => span.bad { "away " (ago(seen_us)) },
            (Trouble::Pressure, _) => span.bad { "pressure" },
            (Trouble::Warning, _) if warnings > 0 => span.bad { (warnings) @if warnings == 1 { " warning" } @else { " warnings" } },
            (Trouble::Warning, _) => span.bad { "see its page" },
            (Trouble::Nothing, _) => @if !draining { "well" },
        }
        @if draining { " draining" }
    }
}

/// A host's summary, with this number of its jobs.
pub(super) fn card(line: &Line<'_>, shown: usize) -> Markup {
    let host = line.host;
    let link = format!("/hosts/{}", filter::encoded(&host.name));
    html! {
        section.card.away[line.trouble == Trouble::Away] {
            h2 { a href=(link) { (host.name) } }
            @if host.live.as_ref().is_some_and(|live| live.map.is_some()) {
                a href=(link) { (machine::of_cores(&host.name, &format!("The cores of {} and the jobs on them", host.name), true)) }
            }
            dl.figures { @for (head, cell) in HEADS.split('|').zip(row(line)).skip(1) { dt { (head.trim_start_matches('>')) } dd { (cell) } } }
            (jobs(&host.name, &line.jobs, shown))
            @for warning in line.status.iter().flat_map(|status| &status.warnings).take(5) { p.bad { (plain(warning)) } }
            (remarks(host))
            p.small { a href=(format!("/jobs?host={}", filter::encoded(&host.name))) { "Its jobs that are over" } }
        }
    }
}

/// An operator's remarks on the way from the host to the hub.
fn remarks(host: &HostNow) -> Markup {
    let spool = host.live.as_ref().map(|live| live.spool).unwrap_or_default();
    let ahead_us = host.clock_ahead_us.unwrap_or(0);
    let ahead = duration(pinfold_proto::view::seconds(ahead_us.unsigned_abs()));
    html! {
        @if ahead_us.unsigned_abs() > CLOCK_APART_US {
            p.bad { "Its clock is " (ahead) @if ahead_us > 0 { " ahead of" } @else { " behind" } " this hub's." }
        }
        @if spool.bundles > 0 || spool.jobs_waiting > 0 {
            p { "On their way: " (spool.bundles) " bundles (" (size(spool.bytes)) "), " (spool.jobs_waiting) " jobs beside them." }
        }
        @if spool.refused > 0 { p.bad { (spool.refused) " bundles were refused; they are kept on the host." } }
    }
}

/// Unfinished jobs of a host, the most memory first.
fn jobs(host: &str, jobs: &[JobView], shown: usize) -> Markup {
    let mut sorted: Vec<&JobView> = jobs.iter().collect();
    sorted.sort_by_key(|job| (std::cmp::Reverse(job.memory_bytes), job.job));
    let row = |job: &&JobView| {
        let reason = job.reason.as_deref().map(plain).unwrap_or_default();
        vec![
            html! { a href=(job_link(host, job.job)) { (job.job) } },
            html! { (plain(&job.name)) },
            html! { (plain(&job.user)) },
            html! { span title=(reason) { (job.state.word()) } },
            html! { (job.memory_bytes.map(size).unwrap_or_default()) },
        ]
    };
    html! {
        @if !jobs.is_empty() {
            (list::table("Jobs that are not over", "Job|=Name|User|State|>Memory", sorted.iter().take(shown).map(row)))
            @if jobs.len() > shown { p.small { "and " (jobs.len() - shown) " more" } }
        }
    }
}

fn ago(us: u64) -> String {
    duration(pinfold_proto::view::seconds(now_us().saturating_sub(us)))
}
