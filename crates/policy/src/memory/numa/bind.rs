//! Which jobs join, leave, widen and drain node groups, and what the kernel is then asked for, once. `schedule::nodes`
//! goes through it.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::api::{Action, Class, Decision, Instant, JobId, MemoryBinding, MemoryReason, NodeMemory, Reason};
use crate::cores::binding;
use crate::jobs::{Job, JobTable};
use crate::memory::numa::groups::{NodeGroup, NodeGroups, Nodes, nodes_in};
use crate::memory::numa::placement;
use crate::rooms::Rooms;

/// A job that was let go because nodes ran short is not bound again before this has gone by.
const BARRED_FOR: Duration = Duration::from_secs(60);

impl NodeGroups {
    /// Takes readings of the nodes in.
    pub(crate) fn read(&mut self, reading: &NodeMemory, now: Instant) {
        for &(node, available) in &reading.available_bytes {
            if let Some(node) = self.nodes.get_mut(&node) {
                node.available = Some(available);
            }
        }
        self.held = reading.jobs.iter().map(|(job, held)| (*job, held.iter().copied().collect())).collect();
        self.barred.retain(|_, until| *until > now);
    }

    /// These jobs leave their groups, and nodes that are not there any more are in none.
    pub(crate) fn leave_all(&mut self, jobs: &[JobId]) {
        jobs.iter().for_each(|&job| self.leave(job));
        let known: Nodes = self.nodes.keys().copied().collect();
        self.chunks.retain(|chunk| chunk.nodes.is_subset(&known));
    }

    /// A job is bound to no nodes, for a while.
    pub(crate) fn let_go(&mut self, job: JobId, now: Instant) {
        self.leave(job);
        self.barred.insert(job, now.after(BARRED_FOR));
    }

    /// The kernel did not bind a job: it is asked again when nodes were read, and then for all nodes.
    pub(crate) fn binding_failed(&mut self, job: JobId, now: Instant) {
        self.let_go(job, now);
        self.unsure_of(job);
    }

    /// A group is divided.
    pub(crate) fn divide(&mut self, Division { at, parts }: Division) {
        self.chunks.splice(at..=at, parts);
        self.chunks.sort_by_key(|chunk| chunk.nodes.first().copied());
    }
}

/// What the kernel is to be asked for of a job, and why.
fn told(job: JobId, wanted: Nodes, why: MemoryBinding) -> Decision {
    let action = Action::Near { nodes: wanted.into_iter().collect() };
    Decision { job, action, reason: Reason::Memory(MemoryReason::Binding { why }) }
}

/// Asks for the nodes that are wanted and were not told; `started`: by the decisions of this step.
pub(crate) fn reconcile_nodes(
    groups: &mut NodeGroups,
    jobs: &JobTable,
    started: impl Fn() -> BTreeSet<JobId>,
) -> Vec<Decision> {
    let mut decisions = Vec::new();
    if !std::mem::take(&mut groups.touched) || (!groups.is_on() && groups.told.is_empty()) {
        return decisions;
    }
    let in_chunks = groups.chunks.iter().flat_map(|chunk| &chunk.jobs);
    let all: BTreeSet<JobId> = groups.told.keys().chain(&groups.unsure).chain(in_chunks).copied().collect();
    let started = started();
    for job in all {
        let Some(live) = jobs.live(job) else {
            groups.told.remove(&job);
            groups.unsure.remove(&job);
            continue;
        };
        if live.phase.is_leaving() || (live.phase.is_starting() && !started.contains(&job)) {
            continue; // once it has answered
        }
        let wanted = groups.chunk_of(job).map(|chunk| chunk.nodes.clone()).unwrap_or_default();
        let before = groups.told.get(&job).cloned().unwrap_or_default();
        let unsure = groups.unsure.remove(&job);
        if wanted == before && !unsure {
            continue;
        }
        let why = match (wanted.is_empty(), before.is_empty()) {
            (true, _) => MemoryBinding::Lifted,
            (false, true) => MemoryBinding::Room,
            _ if wanted.is_superset(&before) => MemoryBinding::Shared,
            (false, false) => MemoryBinding::GivenBack,
        };
        groups.told.insert(job, wanted.clone());
        if wanted.is_empty() {
            groups.told.remove(&job);
        }
        decisions.push(told(job, wanted, why));
    }
    decisions
}

/// The groups that become one for a job: those of its cores, with more if it takes more and they have room. `None`: it
/// is bound already, or for a while to none, nobody knows what it needs, or it holds much elsewhere.
pub(crate) fn groups_for(rooms: &Rooms, id: JobId) -> Option<Vec<NodeGroup>> {
    if rooms.nodes.chunk_of(id).is_some() || rooms.nodes.barred.contains_key(&id) {
        return None;
    }
    let job = rooms.jobs.get(&id)?;
    let (claim, nodes) = (placement::need(rooms, job)?, placement::nodes_beside(rooms, job)?);
    let (all, wild) = (rooms.nodes.all(), placement::wild(rooms, Some(id)));
    let base: Vec<&NodeGroup> = all.iter().filter(|chunk| !chunk.nodes.is_disjoint(&nodes)).collect();
    let others: Vec<NodeGroup> =
        all.iter().filter(|chunk| chunk.nodes.is_disjoint(&nodes)).cloned().collect();
    let fits = |chunks: &[&NodeGroup]| {
        let beyond = rooms.nodes.held_beyond(id, &nodes_in(chunks));
        beyond <= rooms.nodes.little() && placement::has_room(rooms, chunks, claim, &wild)
    };
    let chosen = if fits(&base) { base } else { placement::joined(rooms, &base, &others, claim, fits)? };
    Some(chosen.into_iter().cloned().collect())
}

/// The jobs that leave their groups: they are gone or have cores elsewhere. A frozen job stays: its memory is there.
pub(crate) fn stale(rooms: &Rooms) -> Vec<JobId> {
    let stays = |chunk: &NodeGroup, id: &JobId| {
        let Some(job) = rooms.jobs.get(id) else { return false };
        let Some(live) = job.live() else { return false };
        if !placement::is_pinned(rooms) || live.class == Class::Exclusive || !rooms.nodes.is_on() {
            return false;
        }
        let nodes = rooms.nodes.nodes_of(&binding::cpus_of(&rooms.cores, &rooms.settings, job));
        live.key.is_none() || (!nodes.is_empty() && nodes.is_subset(&chunk.nodes))
    };
    let stale_in = |chunk: &'_ NodeGroup| -> Vec<JobId> {
        chunk.jobs.iter().filter(|id| !stays(chunk, id)).copied().collect()
    };
    rooms.nodes.chunks.iter().flat_map(stale_in).collect()
}

/// The job that is let go where nodes cannot give all that their jobs may still need, the youngest: it may use all
/// nodes.
pub(crate) fn without_room(rooms: &Rooms) -> Option<JobId> {
    let wild = placement::wild(rooms, None);
    let is_short = |chunk: &&NodeGroup| {
        let by_others = placement::taken_by(rooms, &wild, &chunk.nodes);
        let taken = placement::taken(rooms, &chunk.jobs).saturating_add(by_others);
        taken > rooms.nodes.usable(&chunk.nodes, &chunk.jobs)
    };
    let short = rooms.nodes.chunks.iter().find(is_short)?;
    let started = |id: &&JobId| (rooms.jobs.live(**id).map(|live| live.started), **id);
    short.jobs.iter().max_by_key(started).copied()
}

/// The jobs with a slot that have started.
pub(crate) fn running(jobs: &JobTable) -> Vec<JobId> {
    let has_started = |job: &&Job| job.live().is_some_and(|live| live.phase.is_open());
    jobs.running().filter(has_started).map(Job::id).collect()
}

/// A group that is divided, by its place among all.
#[derive(Debug)]
pub(crate) struct Division {
    at: usize,
    parts: Vec<NodeGroup>,
}

/// A node that is drained, and the jobs that are on it alone, apart from the others of its group.
pub(crate) fn drained(rooms: &Rooms) -> Option<Division> {
    let (little, wild) = (rooms.nodes.little(), placement::wild(rooms, None));
    for (at, chunk) in rooms.nodes.chunks.iter().enumerate() {
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
                return Some(Division { at, parts: parts.filter(|part| !part.jobs.is_empty()).collect() });
            }
        }
    }
    None
}
