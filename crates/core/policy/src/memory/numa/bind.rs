//! Which jobs join, leave, widen and drain node groups, and what the kernel is then asked for, once. `schedule::nodes`
//! goes through it.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::time::Duration;

use crate::api::{Action, Class, Decision, Instant, JobId, MemoryBinding, MemoryReason, NodeMemory, Reason};
use crate::cores::binding;
use crate::jobs::{Job, JobTable};
use crate::memory::numa::groups::{NodeGroup, NodeGroups, Nodes};
use crate::memory::numa::join::Want;
use crate::memory::numa::placement;
use crate::memory::numa::survey::{Part, Survey, capped};
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
    if !std::mem::take(&mut groups.touched) || (!groups.is_on() && groups.told.is_empty()) {
        return Vec::new();
    }
    let (changes, over) = changes(groups, jobs, &started());
    for job in over {
        groups.told.remove(&job);
        groups.unsure.remove(&job);
    }
    let decided = changes.into_iter().map(|(job, wanted)| {
        groups.unsure.remove(&job);
        let before = groups.told.remove(&job).unwrap_or_default();
        let why = match (wanted.is_empty(), before.is_empty()) {
            (true, _) => MemoryBinding::Lifted,
            (false, true) => MemoryBinding::Room,
            _ if wanted.is_superset(&before) => MemoryBinding::Shared,
            (false, false) => MemoryBinding::GivenBack,
        };
        if !wanted.is_empty() {
            groups.told.insert(job, wanted.clone());
        }
        told(job, wanted, why)
    });
    decided.collect()
}

/// The jobs that are to be told to use other nodes than before, or of which nobody knows what they were told, and the nodes
/// of each; and the jobs that are over.
fn changes(
    groups: &NodeGroups,
    jobs: &JobTable,
    started: &BTreeSet<JobId>,
) -> (Vec<(JobId, Nodes)>, Vec<JobId>) {
    let (mut changes, mut over) = (Vec::new(), Vec::new());
    let (in_groups, none) = (groups.by_job(), Nodes::new());
    let bound = in_groups.iter().map(|(job, _)| job);
    let all: BTreeSet<JobId> = groups.told.keys().chain(&groups.unsure).chain(bound).copied().collect();
    for job in all {
        let Some(live) = jobs.live(job) else {
            over.push(job);
            continue;
        };
        if live.phase.is_leaving() || (live.phase.is_starting() && !started.contains(&job)) {
            continue; // once it has answered
        }
        let found = in_groups.binary_search_by_key(&job, |(job, _)| *job);
        let wanted = found.map_or(&none, |at| &in_groups[at].1.nodes);
        if wanted != groups.told.get(&job).unwrap_or(&none) || groups.unsure.contains(&job) {
            changes.push((job, wanted.clone()));
        }
    }
    (changes, over)
}

/// The groups that become one for a job: those of its cores, with more if it takes more and they have room. `None`: it
/// is bound already, or for a while to none, nobody knows what it needs, or it holds much elsewhere.
pub(crate) fn groups_for(rooms: &Rooms, id: JobId) -> Option<Vec<NodeGroup>> {
    let job = rooms.jobs.get(&id).filter(|_| !rooms.nodes.barred.contains_key(&id))?;
    let (claim, nodes) = (placement::need(rooms, job)?, placement::nodes_beside(rooms, job)?);
    if rooms.nodes.chunk_of(id).is_some() {
        return None;
    }
    let survey = Survey::of(rooms, Some(id));
    let beside = |&at: &usize| survey.parts[at].nodes().any(|node| nodes.contains(&node));
    let (base, others): (Vec<usize>, Vec<usize>) = (0..survey.parts.len()).partition(beside);
    let held = rooms.nodes.held.get(&id);
    let all: u128 = held.into_iter().flatten().map(|(_, &bytes)| u128::from(bytes)).sum();
    let held_on = |node: u32| held.and_then(|held| held.get(&node)).copied().unwrap_or(0);
    let little = rooms.nodes.little();
    let want = Want { claim, count: &held_on, suffices: &|held| capped(all - held) <= little };
    let chosen = if survey.suffice(&base, &want) { base } else { survey.joined(&base, others, &want)? };
    Some(chosen.into_iter().map(|at| survey.parts[at].to_group()).collect())
}

/// The jobs that leave their groups: they are gone or have cores elsewhere. A frozen job stays: its memory is there.
pub(crate) fn stale(rooms: &Rooms) -> Vec<JobId> {
    if rooms.nodes.chunks.is_empty() {
        return Vec::new();
    }
    // Which looks at all nodes: once, not for each job.
    let is_on = placement::is_pinned(rooms) && rooms.nodes.is_on();
    let stays = |chunk: &NodeGroup, id: &JobId| {
        let Some(job) = rooms.jobs.get(id).filter(|_| is_on) else { return false };
        let Some(live) = job.live().filter(|live| live.class != Class::Exclusive) else { return false };
        live.key.is_none() || {
            let cpus = binding::cpus_of(&rooms.cores, &rooms.settings, job);
            let mut nodes = cpus.iter().filter_map(|pu| rooms.nodes.node_beside(Some(pu))).peekable();
            nodes.peek().is_some() && nodes.all(|node| chunk.nodes.contains(&node))
        }
    };
    let stale_in = |chunk: &'_ NodeGroup| -> Vec<JobId> {
        chunk.jobs.iter().filter(|id| !stays(chunk, id)).copied().collect()
    };
    rooms.nodes.chunks.iter().flat_map(stale_in).collect()
}

/// The job that is let go where nodes cannot give all that their jobs may still need, the youngest: it may use all
/// nodes.
pub(crate) fn without_room(rooms: &Rooms) -> Option<JobId> {
    if rooms.nodes.chunks.is_empty() {
        return None;
    }
    let survey = Survey::of(rooms, None);
    let is_short = |part: &&Part<'_>| part.taken.saturating_add(survey.taken_by_others(part)) > part.usable;
    let short = survey.parts.iter().filter(|part| part.group.is_some()).find(is_short)?;
    let started = |id: &&JobId| (rooms.jobs.live(**id).map(|live| live.started), **id);
    short.group?.jobs.iter().max_by_key(started).copied()
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
    let little = rooms.nodes.little();
    let survey = OnceCell::new();
    for (at, chunk) in rooms.nodes.chunks.iter().enumerate().filter(|(_, chunk)| chunk.nodes.len() > 1) {
        let Some(on) = placement::nodes_of_all(rooms, chunk) else { continue };
        for &node in &chunk.nodes {
            // Most are not, and that is seen soonest here: a job is there and elsewhere.
            let Some((gone, left)) = divided(&on, node) else { continue };
            let alone = Nodes::from([node]);
            let rest: Nodes = chunk.nodes.difference(&alone).copied().collect();
            let strays = |jobs: &BTreeSet<JobId>, nodes: &Nodes| {
                jobs.iter().map(|&job| rooms.nodes.held_on(job, nodes)).fold(0, u64::saturating_add)
            };
            if strays(&left, &alone) > little || strays(&gone, &rest) > little {
                continue;
            }
            let survey = survey.get_or_init(|| Survey::of(rooms, None));
            let parts = [(alone, gone), (rest, left)];
            let suffices = |(nodes, jobs): &(Nodes, BTreeSet<JobId>)| {
                let others = survey.taken_within(&survey.parts[at], nodes);
                let taken = placement::taken(rooms, jobs).saturating_add(others);
                jobs.is_empty() || taken <= rooms.nodes.usable(nodes, jobs)
            };
            if parts.iter().all(suffices) {
                let parts = parts.into_iter().map(|(nodes, jobs)| NodeGroup { nodes, jobs });
                return Some(Division { at, parts: parts.filter(|part| !part.jobs.is_empty()).collect() });
            }
        }
    }
    None
}

/// The jobs that are on this node alone, and those that are on others alone, of jobs and the nodes of each; `None`: some
/// are on both.
fn divided(on: &[(JobId, Nodes)], node: u32) -> Option<(BTreeSet<JobId>, BTreeSet<JobId>)> {
    let is_alone = |nodes: &Nodes| nodes.iter().all(|&other| other == node);
    if on.iter().any(|(_, nodes)| nodes.contains(&node) && !is_alone(nodes)) {
        return None;
    }
    let jobs =
        |alone: bool| on.iter().filter(move |(_, nodes)| is_alone(nodes) == alone).map(|(job, _)| *job);
    Some((jobs(true).collect(), jobs(false).collect()))
}
