//! What `why` says: the state of a job in words, the numbers behind it, and what would change it. Read only.
//!
//! By state: `waiting` (with `expected`, the expected start), `running`, `memory`, `resources`; shared phrases in
//! `words`.

mod expected;
mod memory;
mod resources;
mod running;
mod waiting;
mod words;

use pinfold_place::pack::{Level, Shape};

use crate::api::code::figures;
use crate::api::{Class, Explanation, Instant, JobId, JobInfo, Place, mib};
use crate::cores::{binding, shape, slots};
use crate::explain::words::{Numbers, count};
use crate::jobs::{Job, Stage};
use crate::memory::forecast;
use crate::memory::numa::placement;
use crate::rooms::Rooms;
use crate::shares::holding;

pub use expected::Unforeseen;
pub(crate) use expected::expected_start;

/// Why `job` is in the state it is in, and what would change it; `None` for an unknown job.
pub(crate) fn explain(rooms: &Rooms, now: Instant, job: JobId) -> Option<Explanation> {
    let job = rooms.jobs.get(&job)?;
    let now = rooms.now.max(now);
    let (used, total) = slots::in_use(&rooms.cores, &rooms.settings);
    let mut numbers = Numbers::default();
    numbers.count("priority", "priority", job.request.priority);
    numbers.count("cores asked for", "cores_asked", job.request.cores);
    numbers.part("slots used", (used as u64, total as u64), ["slots_used", "slots"]);
    explain_project(rooms, job, &mut numbers);
    if let Some((nodes, jobs)) = placement::nodes_near(rooms, job.id()) {
        let figures =
            figures!["memory_nodes": Nodes(nodes.clone()), "memory_nodes_jobs": Number(jobs as u64)];
        let nodes = nodes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let others = match jobs - 1 {
            0 => String::new(),
            others => format!(", shared with {others} {}", count(others, "job", "jobs")),
        };
        numbers.put("memory bound to NUMA nodes", format!("{nodes}{others}"), figures);
    }
    if let Some(words) = explain_shape(rooms, job) {
        numbers.say("its cores lie", words);
    }
    if let Some(words) = resources::asked_for(job) {
        numbers.say("resources asked for", words);
    }
    memory::explain_request(rooms, job, &mut numbers);
    let (cause, change) = match &job.stage {
        Stage::Waiting(waiting) => {
            let (cause, change) = waiting::explain_waiting(rooms, job, waiting, now, &mut numbers);
            match waiting::explain_circle(rooms, job) {
                Some((why, ends)) => (format!("{cause}; {why}"), ends),
                None => (cause, change),
            }
        }
        Stage::Live(live) => running::explain_live(rooms, job, live, now, &mut numbers),
    };
    Some(Explanation { cause, numbers: numbers.take(), change })
}

/// What its project has, where there are projects.
fn explain_project(rooms: &Rooms, job: &Job, numbers: &mut Numbers) {
    let Some(has) = holding::holding_of(rooms, job) else { return };
    numbers.say("project", has.project.as_deref().unwrap_or("none"));
    if let (Some(own), Some(borrowed)) = (has.cores_guaranteed, has.cores_borrowed()) {
        let more = if borrowed > 0 { format!(", {borrowed} of them borrowed") } else { String::new() };
        let figures = figures![
            "cores_guaranteed": Number(own as u64),
            "cores_used": Number(has.cores_used as u64),
            "cores_borrowed": Number(borrowed as u64),
        ];
        numbers.put("cores of its own", format!("{own}, {} used{more}", has.cores_used), figures);
    }
    if let (Some(own), Some(borrowed)) = (has.memory_guaranteed_bytes, has.memory_borrowed_bytes()) {
        let more = if borrowed > 0 { format!(", {} of it borrowed", mib(borrowed)) } else { String::new() };
        let used = mib(has.memory_used_bytes);
        let figures = figures![
            "memory_guaranteed_bytes": Number(own),
            "memory_used_bytes": Number(has.memory_used_bytes),
            "memory_borrowed_bytes": Number(borrowed),
        ];
        numbers.put("memory of its own", format!("{}, {used} used{more}", mib(own)), figures);
    }
}

/// A job as it stands.
pub(crate) fn info(rooms: &Rooms, job: &Job) -> JobInfo {
    let live = job.live();
    JobInfo {
        job: job.id(),
        state: job.state(),
        class: live.map_or(job.request.class, |live| Some(live.class)),
        cpus: binding::cpus_of(&rooms.cores, &rooms.settings, job),
        priority: job.request.priority,
        cores: job.request.cores,
        submitted: job.submitted,
        started: live.map(|live| live.started),
        suspended: live.is_some_and(|live| live.phase.is_suspended_by_user()),
        parked: job.suspend_reason().is_some() && job.held.is_parked(),
        swapped_bytes: job.held.swapped,
        memory_peak_bytes: job.held.peak,
        memory_need_bytes: forecast::need_of(rooms, job),
        cold_bytes: job.held.cold.bytes(),
        lay: live.and_then(|live| live.lay),
    }
}

/// How a job of several cores lies, and why; `None`: there is nothing to choose.
fn explain_shape(rooms: &Rooms, job: &Job) -> Option<String> {
    let (fewest, most) = rooms.cores.grid().site.domains_for(job.slots());
    if job.slots() < 2 || fewest == most || job.request.class == Some(Class::Exclusive) {
        return None;
    }
    let lies = match job.live() {
        Some(live) if !live.cores.is_empty() && live.aside.is_none() => {
            let domains = rooms.cores.grid().site.domains_of(&live.cores);
            format!(
                "{} on {domains} {}",
                word(job.shape()),
                domain_word(rooms.cores.grid().site.smallest(), domains)
            )
        }
        _ => word(job.shape()).to_owned(),
    };
    let why = match shape::place_of(&rooms.settings, job) {
        Place::Auto => match shape::is_tried(&rooms.cores, &rooms.settings, job) {
            None => "it says how its tasks lie".to_owned(),
            Some(kind) => {
                let known = rooms.cores.trials().known(kind);
                known.map_or_else(|| "nothing like it ran yet".to_owned(), |known| known.to_string())
            }
        },
        Place::Compact | Place::Spread if job.request.place.is_some() => "as asked (--place)".to_owned(),
        Place::Spread if job.asked_place().is_some() => "as asked (--hint memory_bound)".to_owned(),
        Place::Compact | Place::Spread => "as `cpu.place` says".to_owned(),
    };
    Some(format!("{lies}: {why}"))
}

const fn word(shape: Shape) -> &'static str {
    match shape {
        Shape::Compact => "close together",
        Shape::Spread => "apart",
    }
}

const fn domain_word(level: Level, count: usize) -> &'static str {
    match (level, count) {
        (Level::L3, 1) => "L3",
        (Level::L3, _) => "L3s",
        (Level::Numa, 1) => "NUMA node",
        (Level::Numa, _) => "NUMA nodes",
        (Level::Socket, 1) => "socket",
        (Level::Socket, _) => "sockets",
        (Level::Machine, _) => "machine",
    }
}
