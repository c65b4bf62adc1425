//! What each project has and what is its own, for people and for other programs.

use crate::api::{Class, Holding};
use crate::jobs::{Job, Stage};
use crate::memory::oracle;
use crate::rooms::Rooms;
use crate::shares::pools::Count;
use crate::shares::{core_pool, memory_pool, reclaim_memory};

/// What each project has and what is its own, by name; last the jobs of no project. Empty without projects.
pub(crate) fn projects(rooms: &Rooms) -> Vec<Holding> {
    let mut names: Vec<Option<&str>> = rooms.shares.of.keys().map(String::as_str).map(Some).collect();
    if names.is_empty() {
        return Vec::new();
    }
    names.push(None);
    names.into_iter().map(|name| holding(rooms, name)).collect()
}

/// What the project of a job has; `None` where there are no projects.
pub(crate) fn holding_of(rooms: &Rooms, job: &Job) -> Option<Holding> {
    let name = job.request.project.as_deref();
    (!rooms.shares.of.is_empty()).then(|| holding(rooms, known_project(rooms, name)))
}

fn known_project<'a>(rooms: &Rooms, name: Option<&'a str>) -> Option<&'a str> {
    name.filter(|name| rooms.shares.of.contains_key(*name))
}

fn holding(rooms: &Rooms, name: Option<&str>) -> Holding {
    let ids = rooms.shares.of(name);
    let own = |pool: u16| name.is_none() || pool != 0;
    let mut holding = Holding {
        project: name.map(str::to_owned),
        cores_guaranteed: own(ids.cores).then(|| rooms.shares.share(ids.cores)),
        cores_used: 0,
        cores_owed: 0,
        memory_guaranteed_bytes: (own(ids.memory) && rooms.memory.usable().is_some())
            .then(|| memory_pool::memory_shares(rooms)[usize::from(ids.memory)]),
        memory_used_bytes: 0,
        memory_owed_bytes: 0,
        started: 0,
        waiting: 0,
    };
    let mut wanted = 0;
    for job in rooms.jobs.values().filter(|job| job.request.aside.is_none()) {
        if known_project(rooms, job.request.project.as_deref()) != name {
            continue;
        }
        let homes = match job.live() {
            Some(live) if live.class == Class::Exclusive && live.key.is_some() => rooms.cores.grid().len(),
            _ => core_pool::amount(rooms, Count::Homes, job.id()),
        };
        let asks = matches!(job.request.class, None | Some(Class::Primary));
        let runs = job.live().is_some_and(|live| live.key.is_some());
        if homes == 0 && asks && (runs || job.queued.is_some()) {
            wanted += job.slots();
        }
        holding.cores_used += homes;
        holding.memory_used_bytes = holding.memory_used_bytes.saturating_add(job.held.total());
        match job.stage {
            Stage::Waiting(_) => holding.waiting += 1,
            Stage::Live(_) => holding.started += 1,
        }
    }
    if let Some(cores) = holding.cores_guaranteed {
        holding.cores_owed = wanted.min(cores.saturating_sub(holding.cores_used));
    }
    if name.is_some() && ids.memory != 0 && oracle::is_governed(rooms) {
        holding.memory_owed_bytes = match reclaim_memory::lacks_its_memory(rooms, ids.memory) {
            Some((_, wanted, lacking)) if lacking > 0 => wanted,
            _ => 0,
        };
    }
    holding
}
