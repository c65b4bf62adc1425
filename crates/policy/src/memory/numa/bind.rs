//! Jobs join, leave, widen and drain node groups; what follows is asked for once.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::api::{Action, Class, Decision, JobId, MemoryBinding, MemoryReason, NodeMemory, Reason};
use crate::cores::binding;
use crate::jobs::Job;
use crate::memory::numa::groups::{NodeGroup, Nodes, nodes_in};
use crate::memory::numa::placement;
use crate::rooms::Rooms;

/// A job that was let go because nodes ran short is not bound again before this has gone by.
const BARRED_FOR: Duration = Duration::from_secs(60);

/// Takes readings of the nodes in, and sees what follows.
pub(crate) fn nodes_read(rooms: &mut Rooms, reading: &NodeMemory) {
    for &(node, available) in &reading.available_bytes {
        if let Some(node) = rooms.nodes.nodes.get_mut(&node) {
            node.available = Some(available);
        }
    }
    rooms.nodes.held =
        reading.jobs.iter().map(|(job, held)| (*job, held.iter().copied().collect())).collect();
    let now = rooms.now;
    rooms.nodes.barred.retain(|_, until| *until > now);
    leave_stale(rooms);
    if !rooms.nodes.is_on() {
        return;
    }
    relieve(rooms);
    let open: Vec<JobId> =
        rooms.jobs.running().map(Job::id).filter(|&id| !placement::is_starting(rooms, id)).collect();
    for id in open {
        join(rooms, id);
    }
    while split(rooms) {}
    rooms.nodes.touched = true;
}

/// What follows from what happened in this step: who went elsewhere leaves, who starts joins.
pub(crate) fn settle(rooms: &mut Rooms) {
    if rooms.cores.take_touched() {
        rooms.nodes.touch();
    }
    if !std::mem::take(&mut rooms.nodes.touched) {
        return;
    }
    leave_stale(rooms);
    if rooms.nodes.is_on() {
        let starting: Vec<JobId> = rooms.pending.starts().iter().map(|(job, _)| *job).collect();
        starting.into_iter().for_each(|id| join(rooms, id));
        relieve(rooms);
    }
    // Told once the starts are.
    rooms.nodes.touched = true;
}

/// Asks for the nodes that are wanted and were not told.
pub(crate) fn reconcile_nodes(rooms: &mut Rooms) {
    if !std::mem::take(&mut rooms.nodes.touched) {
        return;
    }
    let chunks = &rooms.nodes;
    if !chunks.is_on() && chunks.told.is_empty() {
        return;
    }
    let in_chunks = chunks.chunks.iter().flat_map(|chunk| &chunk.jobs);
    let all: BTreeSet<JobId> = chunks.told.keys().chain(&chunks.unsure).chain(in_chunks).copied().collect();
    let started: BTreeSet<JobId> = rooms
        .pending
        .decisions()
        .iter()
        .filter(|decision| matches!(decision.action, Action::Start { .. }))
        .map(|decision| decision.job)
        .collect();
    for job in all {
        let Some(live) = rooms.jobs.live(job) else {
            rooms.nodes.told.remove(&job);
            rooms.nodes.unsure.remove(&job);
            continue;
        };
        if live.phase.is_leaving() || (live.phase.is_starting() && !started.contains(&job)) {
            continue; // once it has answered
        }
        let chunks = &mut rooms.nodes;
        let wanted = chunks.chunk_of(job).map(|chunk| chunk.nodes.clone()).unwrap_or_default();
        let told = chunks.told.get(&job).cloned().unwrap_or_default();
        let unsure = chunks.unsure.remove(&job);
        if wanted == told && !unsure {
            continue;
        }
        let why = match (wanted.is_empty(), told.is_empty()) {
            (true, _) => MemoryBinding::Lifted,
            (false, true) => MemoryBinding::Room,
            _ if wanted.is_superset(&told) => MemoryBinding::Shared,
            (false, false) => MemoryBinding::GivenBack,
        };
        chunks.told.insert(job, wanted.clone());
        if wanted.is_empty() {
            chunks.told.remove(&job);
        }
        let action = Action::Near { nodes: wanted.into_iter().collect() };
        rooms.pending.decide(Decision { job, action, reason: Reason::Memory(MemoryReason::Binding { why }) });
    }
}

/// The kernel did not bind a job: it is asked again when nodes were read, and then for all nodes.
pub(crate) fn binding_failed(rooms: &mut Rooms, id: JobId) {
    rooms.nodes.leave(id);
    rooms.nodes.unsure_of(id);
    rooms.nodes.barred.insert(id, rooms.now.after(BARRED_FOR));
}

/// Binds a job to the nodes of its cores, with more if it takes more and they have room; unless nobody knows what it
/// needs, or it holds much elsewhere.
fn join(rooms: &mut Rooms, id: JobId) {
    if rooms.nodes.chunk_of(id).is_some() || rooms.nodes.barred.contains_key(&id) {
        return;
    }
    let Some(job) = rooms.jobs.get(&id) else { return };
    let (Some(claim), Some(nodes)) = (placement::need(rooms, job), placement::nodes_beside(rooms, job))
    else {
        return;
    };
    let (all, wild) = (rooms.nodes.all(), placement::wild(rooms, Some(id)));
    let base: Vec<&NodeGroup> = all.iter().filter(|chunk| !chunk.nodes.is_disjoint(&nodes)).collect();
    let others: Vec<NodeGroup> =
        all.iter().filter(|chunk| chunk.nodes.is_disjoint(&nodes)).cloned().collect();
    let fits = |chunks: &[&NodeGroup]| {
        let beyond = rooms.nodes.held_beyond(id, &nodes_in(chunks));
        beyond <= rooms.nodes.little() && placement::has_room(rooms, chunks, claim, &wild)
    };
    let chosen = if fits(&base) { Some(base) } else { placement::joined(rooms, &base, &others, claim, fits) };
    let Some(chosen) = chosen else { return };
    let chosen: Vec<NodeGroup> = chosen.into_iter().cloned().collect();
    rooms.nodes.join(&chosen.iter().collect::<Vec<_>>(), id);
}

/// Who is gone or has cores elsewhere leaves. Who stands still stays: its memory is there.
fn leave_stale(rooms: &mut Rooms) {
    let stays = |chunk: &NodeGroup, id: &JobId| {
        let Some(job) = rooms.jobs.get(id) else { return false };
        let Some(live) = job.live() else { return false };
        if !placement::is_pinned(rooms) || live.class == Class::Exclusive || !rooms.nodes.is_on() {
            return false;
        }
        let nodes = rooms.nodes.nodes_of(&binding::cpus_of(&rooms.cores, &rooms.settings, job));
        live.key.is_none() || (!nodes.is_empty() && nodes.is_subset(&chunk.nodes))
    };
    let goes: Vec<JobId> = rooms
        .nodes
        .chunks
        .iter()
        .flat_map(|chunk| chunk.jobs.iter().filter(|id| !stays(chunk, id)))
        .copied()
        .collect();
    goes.into_iter().for_each(|id| rooms.nodes.leave(id));
    // Nodes that are not there any more.
    let known: Nodes = rooms.nodes.nodes.keys().copied().collect();
    rooms.nodes.chunks.retain(|chunk| chunk.nodes.is_subset(&known));
}

/// Where nodes cannot give all that their jobs may still need, the youngest is let go: it may use all nodes.
fn relieve(rooms: &mut Rooms) {
    loop {
        let wild = placement::wild(rooms, None);
        let is_short = |chunk: &&NodeGroup| {
            let taken = placement::taken(rooms, &chunk.jobs).saturating_add(placement::taken_by(
                rooms,
                &wild,
                &chunk.nodes,
            ));
            taken > rooms.nodes.usable(&chunk.nodes, &chunk.jobs)
        };
        let short = rooms.nodes.chunks.iter().find(is_short);
        let started = |id: &&JobId| (rooms.jobs.live(**id).map(|live| live.started), **id);
        let Some(&youngest) = short.and_then(|chunk| chunk.jobs.iter().max_by_key(started)) else {
            return;
        };
        rooms.nodes.leave(youngest);
        rooms.nodes.barred.insert(youngest, rooms.now.after(BARRED_FOR));
    }
}

/// Takes a node that is drained out of a chunk, with the jobs that are on it alone; says whether there was one.
fn split(rooms: &mut Rooms) -> bool {
    let (little, wild) = (rooms.nodes.little(), placement::wild(rooms, None));
    for at in 0..rooms.nodes.chunks.len() {
        let chunk = &rooms.nodes.chunks[at];
        if chunk.nodes.len() < 2 {
            continue;
        }
        for &node in &chunk.nodes {
            let alone = Nodes::from([node]);
            let rest: Nodes = chunk.nodes.difference(&alone).copied().collect();
            let Some((gone, left)) = placement::divided(rooms, chunk, &alone, &rest) else { continue };
            let strays = |jobs: &BTreeSet<JobId>, nodes: &Nodes| {
                jobs.iter().map(|&job| rooms.nodes.held_on(job, nodes)).fold(0, u64::saturating_add)
            };
            let drained = strays(&left, &alone) <= little && strays(&gone, &rest) <= little;
            let parts = [(alone, gone), (rest, left)];
            let suffices = |(nodes, jobs): &(Nodes, BTreeSet<JobId>)| {
                let taken =
                    placement::taken(rooms, jobs).saturating_add(placement::taken_by(rooms, &wild, nodes));
                jobs.is_empty() || taken <= rooms.nodes.usable(nodes, jobs)
            };
            if drained && parts.iter().all(suffices) {
                let parts = parts.into_iter().map(|(nodes, jobs)| NodeGroup { nodes, jobs });
                rooms.nodes.chunks.splice(at..=at, parts.filter(|part| !part.jobs.is_empty()));
                rooms.nodes.chunks.sort_by_key(|chunk| chunk.nodes.first().copied());
                return true;
            }
        }
    }
    false
}
