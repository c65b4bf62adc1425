//! Which node groups have room for a job, and which cores beside them. Read only.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_place::pack::Shape;

use crate::api::{ChunkInfo, Claim, Class, JobId};
use crate::cores::binding;
use crate::jobs::Job;
use crate::memory::forecast;
use crate::memory::numa::groups::{NodeGroup, Nodes};
use crate::memory::numa::join::Want;
use crate::memory::numa::survey::Survey;
use crate::rooms::Rooms;

/// All chunks, by their first node.
pub(crate) fn all_groups(rooms: &Rooms) -> Vec<ChunkInfo> {
    let info = |chunk: &NodeGroup| ChunkInfo {
        nodes: chunk.nodes.iter().copied().collect(),
        jobs: chunk.jobs.iter().copied().collect(),
        claimed_bytes: taken(rooms, &chunk.jobs),
        usable_bytes: rooms.nodes.usable(&chunk.nodes, &chunk.jobs),
    };
    rooms.nodes.chunks.iter().map(info).collect()
}

/// The nodes that a job's memory is bound to, and how many jobs share them; `None`: to none.
pub(crate) fn nodes_near(rooms: &Rooms, id: JobId) -> Option<(Vec<u32>, usize)> {
    let chunk = rooms.nodes.chunk_of(id)?;
    Some((chunk.nodes.iter().copied().collect(), chunk.jobs.len()))
}

/// Free cores for a job beside memory that it fits into; `None`: nobody knows what it needs, or there are none such.
pub(crate) fn cores_near_memory(rooms: &Rooms, id: JobId, count: usize) -> Option<Vec<usize>> {
    let job =
        rooms.jobs.get(&id).filter(|job| job.request.wish.is_none() && job.shape() == Shape::Compact)?;
    let claim = need(rooms, job).filter(|_| rooms.nodes.is_on() && is_pinned(rooms))?;
    let survey = Survey::of(rooms, Some(id));
    let free = FreeCores::of(rooms, &survey);
    let enough = |at: &usize| free.in_part[*at] >= count;
    let has_room = |at: &usize| survey.has_room(&survey.parts[*at], claim);
    let roomy: Vec<usize> = (0..survey.parts.len()).filter(enough).filter(has_room).collect();
    // Wherever they are closest together, if that is within one of them.
    let mut is_roomy = vec![false; survey.parts.len()];
    roomy.iter().for_each(|&at| is_roomy[at] = true);
    if let Some(cores) = free.choose(rooms, count, |at| is_roomy[at])
        && is_within_one(cores.iter().map(|&core| free.part_of[core]))
    {
        return Some(cores);
    }
    if let Some(&first) = roomy.first() {
        return free.choose(rooms, count, |at| at == first);
    }
    let in_node = |node: u32| free.in_node.get(&node).copied().unwrap_or(0);
    let want = Want { claim, count: &in_node, suffices: &|cores| cores >= count as u128 };
    let chosen = survey.joined(&[], (0..survey.parts.len()).collect(), &want)?;
    free.choose(rooms, count, |at| chosen.contains(&at))
}

/// Whether all of these are the same, and known.
fn is_within_one(mut parts: impl Iterator<Item = Option<usize>>) -> bool {
    let Some(Some(first)) = parts.next() else { return false };
    parts.all(|part| part == Some(first))
}

/// The free cores, and beside which nodes they are.
struct FreeCores {
    /// By core, the part of its node; `None`: the core is not free, or nobody knows its node.
    part_of: Vec<Option<usize>>,
    /// How many there are in each part,
    in_part: Vec<usize>,
    /// and at each node.
    in_node: BTreeMap<u32, u64>,
}

impl FreeCores {
    fn of(rooms: &Rooms, survey: &Survey<'_>) -> Self {
        let parts = survey.parts.iter().enumerate();
        let place_of: BTreeMap<u32, usize> =
            parts.flat_map(|(at, part)| part.nodes().map(move |node| (node, at))).collect();
        let mut free =
            Self { part_of: Vec::new(), in_part: vec![0; survey.parts.len()], in_node: BTreeMap::new() };
        free.part_of.reserve_exact(rooms.cores.grid().len());
        for core in rooms.cores.grid().iter() {
            let node = if core.home_of.is_none() { rooms.nodes.node_beside(core.cpus.first()) } else { None };
            let part = node.and_then(|node| place_of.get(&node)).copied();
            if let (Some(node), Some(part)) = (node, part) {
                free.in_part[part] += 1;
                *free.in_node.entry(node).or_default() += 1;
            }
            free.part_of.push(part);
        }
        free
    }

    /// So many of them, of the parts that are allowed.
    fn choose(&self, rooms: &Rooms, count: usize, allowed: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
        let among: Vec<bool> = self.part_of.iter().map(|part| part.is_some_and(&allowed)).collect();
        rooms.cores.grid().choose_among(count, &among)
    }
}

pub(crate) fn taken(rooms: &Rooms, jobs: &BTreeSet<JobId>) -> u64 {
    let needs = jobs.iter().filter_map(|id| rooms.jobs.get(id)).map(|job| {
        let need = self::need(rooms, job).unwrap_or(0);
        need.max(job.held.total())
    });
    needs.fold(0, u64::saturating_add)
}

/// The most that a job may come to need, in bytes; `None`: nobody knows. What its user says counts even where others of
/// its kind needed less: who finds its nodes full is ended.
pub(crate) fn need(rooms: &Rooms, job: &Job) -> Option<u64> {
    #[cfg(test)]
    super::survey::tests::look();
    let claim: Claim = forecast::claim_of(rooms, job).filter(|_| forecast::is_known(rooms, job))?;
    let most = claim.most_bytes.max(job.request.memory.unwrap_or(0));
    (most > 0).then_some(most)
}

pub(crate) fn is_pinned(rooms: &Rooms) -> bool {
    rooms.settings.affinity && rooms.settings.schedule
}

/// The nodes of a job that has cores of its own; `None`: it has none, or nobody knows their nodes.
pub(crate) fn nodes_beside(rooms: &Rooms, job: &Job) -> Option<Nodes> {
    let live = job.live().filter(|live| live.class == Class::Primary && !live.cores.is_empty())?;
    let nodes = rooms.nodes.nodes_of(&binding::cpus_of(&rooms.cores, &rooms.settings, job));
    (live.key.is_some() && is_pinned(rooms) && !nodes.is_empty()).then_some(nodes)
}

/// On which nodes each job of a group is; `None`: some are beside others as well, or are suspended and come back to any.
pub(super) fn nodes_of_all(rooms: &Rooms, group: &NodeGroup) -> Option<Vec<(JobId, Nodes)>> {
    let nodes_of = |&id: &JobId| {
        let job = rooms.jobs.get(&id)?;
        job.live().filter(|live| live.key.is_some() && !live.phase.is_starting())?;
        let nodes = rooms.nodes.nodes_of(&binding::cpus_of(&rooms.cores, &rooms.settings, job));
        nodes.is_subset(&group.nodes).then_some((id, nodes))
    };
    group.jobs.iter().map(nodes_of).collect()
}
