//! Which node groups have room for a job, and which cores beside them. Read only.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_place::chunk;
use pinfold_place::pack::Shape;

use crate::api::{ChunkInfo, Claim, Class, JobId};
use crate::cores::binding;
use crate::jobs::Job;
use crate::memory::forecast;
use crate::memory::numa::groups::{NodeGroup, Nodes, RESERVE_MILLI, Wild, nodes_in};
use crate::rooms::Rooms;

/// Ways to join nodes are tried among so many chunks at most, those with the most room.
const CANDIDATES_MAX: usize = 12;

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
    let (all, wild) = (rooms.nodes.all(), self::wild(rooms, Some(id)));
    let node_of = |core: usize| {
        rooms.cores.grid().get(core).cpus.first().and_then(|pu| rooms.nodes.node_of.get(&pu)).copied()
    };
    let places: Vec<Option<u32>> = (0..rooms.cores.grid().len()).map(node_of).collect();
    let free: Vec<bool> = rooms.cores.grid().iter().map(|core| core.home_of.is_none()).collect();
    let among = |nodes: &Nodes| -> Vec<bool> {
        let inside = |at: usize| places[at].is_some_and(|node| nodes.contains(&node));
        (0..free.len()).map(|at| free[at] && inside(at)).collect()
    };
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for node in places.iter().zip(&free).filter_map(|(place, free)| place.filter(|_| *free)) {
        *counts.entry(node).or_default() += 1;
    }
    let enough = |nodes: &Nodes| nodes.iter().filter_map(|node| counts.get(node)).sum::<usize>() >= count;
    let roomy: Vec<&NodeGroup> =
        all.iter().filter(|chunk| has_room(rooms, &[chunk], claim, &wild) && enough(&chunk.nodes)).collect();
    // Wherever they are closest together, if that is within one of them.
    let anywhere: Nodes = roomy.iter().flat_map(|chunk| &chunk.nodes).copied().collect();
    if let Some(cores) = rooms.cores.grid().choose_among(count, &among(&anywhere)) {
        let nodes: Nodes = cores.iter().filter_map(|&core| places[core]).collect();
        if roomy.iter().any(|chunk| nodes.is_subset(&chunk.nodes)) {
            return Some(cores);
        }
    }
    if let Some(chunk) = roomy.first() {
        return rooms.cores.grid().choose_among(count, &among(&chunk.nodes));
    }
    let fits = |chunks: &[&NodeGroup]| {
        let nodes = nodes_in(chunks);
        enough(&nodes) && has_room(rooms, chunks, claim, &wild)
    };
    let chosen = joined(rooms, &[], &all, claim, fits)?;
    rooms.cores.grid().choose_among(count, &among(&nodes_in(&chosen)))
}

/// `base` with some of `others` that together fit: the fewest nodes, then the least room left over, and no more nodes
/// than are worth it for jobs of `claim` bytes unless there is no other way.
pub(super) fn joined<'a>(
    rooms: &Rooms,
    base: &[&'a NodeGroup],
    others: &'a [NodeGroup],
    claim: u64,
    fits: impl Fn(&[&NodeGroup]) -> bool,
) -> Option<Vec<&'a NodeGroup>> {
    let count = u64::try_from(rooms.nodes.nodes.len()).unwrap_or(u64::MAX).max(1);
    let all = rooms.nodes.nodes.values().map(|node| node.capacity).fold(0, u64::saturating_add);
    let mean = all / count / 1000 * (1000 - RESERVE_MILLI);
    let worth = chunk::nodes_for(claim, mean).max(nodes_in(base).len());
    let mut others: Vec<&NodeGroup> = others.iter().collect();
    others.sort_by_key(|chunk| std::cmp::Reverse(room(rooms, &[chunk])));
    // Bound to many nodes it is at least counted there; bound to none it could take the room of all who are.
    [worth, rooms.nodes.nodes.len()].into_iter().find_map(|most| {
        let mut small: Vec<&NodeGroup> =
            others.iter().copied().filter(|chunk| chunk.nodes.len() <= most).collect();
        small.truncate(CANDIDATES_MAX);
        joined_within(rooms, most, base, &small, &fits)
    })
}

/// As [`joined`], of `most` nodes at most.
fn joined_within<'a>(
    rooms: &Rooms,
    most: usize,
    base: &[&'a NodeGroup],
    others: &[&'a NodeGroup],
    fits: impl Fn(&[&NodeGroup]) -> bool,
) -> Option<Vec<&'a NodeGroup>> {
    let mut best: Option<((usize, u64), Vec<&NodeGroup>)> = None;
    // A chunk has a node at least.
    let few = |mask: &u32| mask.count_ones() as usize + base.len() <= most;
    for mask in (1u32..(1 << others.len())).filter(few) {
        let more = others.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1).map(|(_, chunk)| *chunk);
        let chosen: Vec<&NodeGroup> = base.iter().copied().chain(more).collect();
        let nodes = nodes_in(&chosen).len();
        let beaten = best.as_ref().is_some_and(|((fewest, _), _)| nodes > *fewest);
        if nodes > most || beaten || !fits(&chosen) {
            continue;
        }
        let key = (nodes, room(rooms, &chosen));
        if best.as_ref().is_none_or(|(known, _)| key < *known) {
            best = Some((key, chosen));
        }
    }
    best.map(|(_, chosen)| chosen)
}

/// What these have left beyond what their jobs may come to need, in bytes.
fn room(rooms: &Rooms, chunks: &[&NodeGroup]) -> u64 {
    let jobs = chunks.iter().flat_map(|chunk| &chunk.jobs).copied().collect();
    rooms.nodes.usable(&nodes_in(chunks), &jobs).saturating_sub(taken(rooms, &jobs))
}

/// Whether these have room for so much more, also when those that are bound to none have taken what they may need.
pub(super) fn has_room(rooms: &Rooms, chunks: &[&NodeGroup], claim: u64, wild: &Wild) -> bool {
    room(rooms, chunks) >= claim.saturating_add(taken_by(rooms, wild, &nodes_in(chunks)))
}

/// What jobs may still take that are bound to no nodes, by the node of their first core; not of `except`.
pub(crate) fn wild(rooms: &Rooms, except: Option<JobId>) -> Wild {
    let mut wild = Wild::new();
    let unbound = |job: &&Job| Some(job.id()) != except && rooms.nodes.chunk_of(job.id()).is_none();
    for job in rooms.jobs.running().filter(unbound) {
        let more = need(rooms, job).unwrap_or(0).saturating_sub(job.held.total());
        let home = binding::cpus_of(&rooms.cores, &rooms.settings, job)
            .first()
            .and_then(|pu| rooms.nodes.node_of.get(&pu));
        // One that may go anywhere has no home; the first node is as good as any.
        let home = home.or_else(|| rooms.nodes.nodes.keys().next());
        if let Some(&home) = home.filter(|_| more > 0) {
            let all = wild.entry(home).or_default();
            *all = all.saturating_add(more);
        }
    }
    wild
}

/// How much of that may come from these nodes: the kernel gives pages beside the cores as long as it has any there,
/// and then from wherever it has some.
pub(crate) fn taken_by(rooms: &Rooms, wild: &Wild, nodes: &Nodes) -> u64 {
    if wild.is_empty() {
        return 0;
    }
    let at = |nodes: &Nodes| {
        let here = wild.iter().filter(|(node, _)| nodes.contains(node));
        here.fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes))
    };
    let others = rooms.nodes.all().into_iter().filter(|chunk| chunk.nodes.is_disjoint(nodes));
    let beyond = others.map(|chunk| match at(&chunk.nodes) {
        0 => 0,
        wanted => wanted.saturating_sub(room(rooms, &[&chunk])),
    });
    beyond.fold(at(nodes), u64::saturating_add)
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

/// The jobs of a chunk that are on the one part alone, and those on the other alone; `None`: some are on both, or
/// be suspended and come back to either.
pub(super) fn divided(
    rooms: &Rooms,
    chunk: &NodeGroup,
    one: &Nodes,
    other: &Nodes,
) -> Option<(BTreeSet<JobId>, BTreeSet<JobId>)> {
    let (mut first, mut second) = (BTreeSet::new(), BTreeSet::new());
    for &id in &chunk.jobs {
        let nodes = rooms
            .nodes
            .nodes_of(&rooms.jobs.get(&id).map(|job| binding::cpus_of(&rooms.cores, &rooms.settings, job))?);
        let runs = rooms.jobs.live(id).is_some_and(|live| live.key.is_some() && !live.phase.is_starting());
        match (runs, nodes.is_subset(one), nodes.is_subset(other)) {
            (true, true, _) => first.insert(id),
            (true, _, true) => second.insert(id),
            _ => return None,
        };
    }
    Some((first, second))
}
