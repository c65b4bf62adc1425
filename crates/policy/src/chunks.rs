//! Memory near to the cores: which NUMA nodes a job's memory may lie on, and which nodes several jobs share as a chunk.
//!
//! A job whose need is known and that starts on cores of its own is bound to the nodes of these cores, if they have room
//! for all that it may need. Where no single node has, several nodes become one memory for several jobs
//! (`pinfold_place::chunk` says how many are worth it): a *chunk*. Chunks have no node in common, and all jobs of a chunk
//! may use all of it: if they were bound to parts of it, one could take the room that was counted for another, and the
//! kernel kills for want of memory in the nodes of a job though others have plenty. A chunk grows when a job needs more
//! nodes, is left when a job goes elsewhere, and gives a node back once no job has cores there and what its jobs have on it
//! is less than 1 % of it (drained). What a job holds stays where it is when it is moved or released: nothing is asked of
//! the kernel that would move much.
//!
//! Owns the readings of the nodes, and the chunks. Nothing is bound before nodes were read ([`crate::Event::Nodes`]): they
//! are where the host has several and the kernel can bind to them. Absent: which job starts (`governor` counts the memory of
//! the whole host), and how anything is bound.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pinfold_place::chunk;
use pinfold_place::pack::Shape;
use pinfold_topo::{CpuSet, PuOs, Topology};

use crate::code::MemoryBinding;
use crate::event::NodeMemory;
use crate::job::Job;
use crate::memory::Claim;
use crate::policy::Policy;
use crate::{Action, Class, Decision, Instant, JobId, Reason};

/// Kept free on each node, in thousandths of it: what the kernel itself needs there, and what readings miss.
const RESERVE_MILLI: u64 = 20;
/// Less than this part of a node is no obstacle to giving it back, in thousandths,
const DRAINED_MILLI: u64 = 10;
/// and no more than this, for the kernel moves it while the daemon waits.
const DRAINED_BYTES_MAX: u64 = 64 << 20;
/// A job that was let go because nodes ran short is not bound again before this has gone by.
const BARRED_FOR: Duration = Duration::from_secs(60);
/// Ways to join nodes are tried among so many chunks at most, those with the most room.
const CANDIDATES_MAX: usize = 12;

/// Kernel numbers of nodes.
type Nodes = BTreeSet<u32>;

/// Bytes by node.
type Wild = BTreeMap<u32, u64>;

/// What is known of a node that has PUs.
#[derive(Debug, Clone, Copy, Default)]
struct Node {
    capacity: u64,
    /// What it could still give to jobs; `None`: not read.
    available: Option<u64>,
}

/// Nodes that are one memory for some jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Chunk {
    nodes: Nodes,
    jobs: BTreeSet<JobId>,
}

/// A chunk, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkInfo {
    /// The kernel's numbers of its nodes, ascending.
    pub nodes: Vec<u32>,
    /// Its jobs, ascending.
    pub jobs: Vec<JobId>,
    /// What its jobs may come to need or hold, in bytes.
    pub claimed_bytes: u64,
    /// What its nodes have for jobs, in bytes.
    pub usable_bytes: u64,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    nodes: BTreeMap<u32, Node>,
    node_of: BTreeMap<PuOs, u32>,
    /// What each job has on each node, in bytes.
    held: BTreeMap<JobId, BTreeMap<u32, u64>>,
    chunks: Vec<Chunk>,
    /// The nodes that jobs were last told to use, of those who were told any.
    told: BTreeMap<JobId, Nodes>,
    /// Jobs of which nobody knows what the kernel has: found again, or what was asked failed.
    unsure: BTreeSet<JobId>,
    /// Until when a job is not bound.
    barred: BTreeMap<JobId, Instant>,
    /// Something may follow from what happened.
    touched: bool,
}

impl Chunks {
    /// The nodes of a machine. Readings of nodes that are still there stay.
    pub(crate) fn renew(&mut self, topology: Option<&Topology>) {
        self.touched = true;
        self.node_of.clear();
        let mut nodes = BTreeMap::new();
        let numa = topology.map_or(&[][..], Topology::numa);
        for pu in topology.iter().flat_map(|topology| topology.pus()) {
            let Some(node) = numa.get(pu.numa as usize) else { continue };
            self.node_of.insert(pu.os, node.os);
            let available = self.nodes.get(&node.os).and_then(|known| known.available);
            nodes.insert(node.os, Node { capacity: node.memory_bytes.unwrap_or(0), available });
        }
        self.nodes = nodes;
    }

    /// Whether there is anything to bind to: several nodes, and all of them were read.
    fn is_on(&self) -> bool {
        self.nodes.len() > 1 && self.nodes.values().all(|node| node.capacity > 0 && node.available.is_some())
    }

    fn nodes_of(&self, cpus: &CpuSet) -> Nodes {
        cpus.iter().filter_map(|pu| self.node_of.get(&pu)).copied().collect()
    }

    fn held_on(&self, job: JobId, nodes: &Nodes) -> u64 {
        let held = self.held.get(&job).into_iter().flatten();
        held.filter(|(node, _)| nodes.contains(node)).fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    fn held_beyond(&self, job: JobId, nodes: &Nodes) -> u64 {
        let held = self.held.get(&job).into_iter().flatten();
        held.filter(|(node, _)| !nodes.contains(node)).fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// So little that it may lie beyond the nodes of a job, in bytes.
    fn little(&self) -> u64 {
        let least = self.nodes.values().map(|node| node.capacity).min().unwrap_or(0);
        (least / 1000 * DRAINED_MILLI).min(DRAINED_BYTES_MAX)
    }

    /// What nodes have for these jobs, in bytes: what is available and what the jobs have there already.
    fn usable(&self, nodes: &Nodes, jobs: &BTreeSet<JobId>) -> u64 {
        let free = nodes
            .iter()
            .filter_map(|node| self.nodes.get(node))
            .map(|node| node.available.unwrap_or(0).saturating_sub(node.capacity / 1000 * RESERVE_MILLI));
        let held = jobs.iter().map(|&job| self.held_on(job, nodes));
        free.chain(held).fold(0, u64::saturating_add)
    }

    /// The chunks, and each node that is in none as one without jobs.
    fn all(&self) -> Vec<Chunk> {
        let taken: Nodes = self.chunks.iter().flat_map(|chunk| &chunk.nodes).copied().collect();
        let free = self.nodes.keys().filter(|node| !taken.contains(node));
        let alone = free.map(|&node| Chunk { nodes: Nodes::from([node]), jobs: BTreeSet::new() });
        self.chunks.iter().cloned().chain(alone).collect()
    }

    fn chunk_of(&self, job: JobId) -> Option<&Chunk> {
        self.chunks.iter().find(|chunk| chunk.jobs.contains(&job))
    }

    fn leave(&mut self, job: JobId) {
        for chunk in &mut self.chunks {
            chunk.jobs.remove(&job);
        }
        self.chunks.retain(|chunk| !chunk.jobs.is_empty());
    }

    /// Makes these one, for the jobs that they have and for this one.
    fn join(&mut self, chunks: &[&Chunk], job: JobId) {
        let mut joined = Chunk::default();
        for chunk in chunks {
            joined.nodes.extend(&chunk.nodes);
            joined.jobs.extend(&chunk.jobs);
        }
        joined.jobs.insert(job);
        self.chunks.retain(|chunk| chunk.nodes.is_disjoint(&joined.nodes));
        self.chunks.push(joined);
        // By their first node, so that the order tells nothing of how they came about.
        self.chunks.sort_by_key(|chunk| chunk.nodes.first().copied());
    }

    /// A job is over: what it held is free again.
    pub(crate) fn forget(&mut self, job: JobId) {
        for (node, bytes) in self.held.remove(&job).unwrap_or_default() {
            if let Some(available) = self.nodes.get_mut(&node).and_then(|node| node.available.as_mut()) {
                *available = available.saturating_add(bytes);
            }
        }
        self.leave(job);
        self.told.remove(&job);
        self.unsure.remove(&job);
        self.barred.remove(&job);
        self.touched = true;
    }

    /// Something changed about where jobs are.
    pub(crate) fn touch(&mut self) {
        self.touched = true;
    }

    /// Nobody knows what the kernel has of a job.
    pub(crate) fn unsure_of(&mut self, job: JobId) {
        self.told.remove(&job);
        self.unsure.insert(job);
    }
}

impl Policy {
    /// Takes readings of the nodes in, and sees what follows.
    pub(crate) fn nodes_read(&mut self, reading: &NodeMemory) {
        for &(node, available) in &reading.available_bytes {
            if let Some(node) = self.chunks.nodes.get_mut(&node) {
                node.available = Some(available);
            }
        }
        self.chunks.held =
            reading.jobs.iter().map(|(job, held)| (*job, held.iter().copied().collect())).collect();
        let now = self.now;
        self.chunks.barred.retain(|_, until| *until > now);
        self.leave_chunks();
        if !self.chunks.is_on() {
            return;
        }
        self.relieve_chunks();
        let open: Vec<JobId> = self.running().map(Job::id).filter(|&id| !self.is_starting(id)).collect();
        for id in open {
            self.join_chunk(id);
        }
        while self.split_a_chunk() {}
        self.chunks.touched = true;
    }

    /// What follows from what happened in this step: who went elsewhere leaves, who starts joins.
    pub(crate) fn settle_chunks(&mut self) {
        if !std::mem::take(&mut self.chunks.touched) {
            return;
        }
        self.leave_chunks();
        if self.chunks.is_on() {
            let starting: Vec<JobId> = self.starts.iter().map(|(job, _)| *job).collect();
            starting.into_iter().for_each(|id| self.join_chunk(id));
            self.relieve_chunks();
        }
        // Told once the starts are.
        self.chunks.touched = true;
    }

    /// Asks for the nodes that are wanted and were not told.
    pub(crate) fn carry_nodes(&mut self) {
        if !std::mem::take(&mut self.chunks.touched) {
            return;
        }
        let chunks = &self.chunks;
        if !chunks.is_on() && chunks.told.is_empty() {
            return;
        }
        let in_chunks = chunks.chunks.iter().flat_map(|chunk| &chunk.jobs);
        let all: BTreeSet<JobId> =
            chunks.told.keys().chain(&chunks.unsure).chain(in_chunks).copied().collect();
        let started: BTreeSet<JobId> = self
            .decisions
            .iter()
            .filter(|decision| matches!(decision.action, Action::Start { .. }))
            .map(|decision| decision.job)
            .collect();
        for job in all {
            let Some(live) = self.live(job) else {
                self.chunks.told.remove(&job);
                self.chunks.unsure.remove(&job);
                continue;
            };
            if live.requeuing || (live.starting && !started.contains(&job)) {
                continue; // once it has answered
            }
            let chunks = &mut self.chunks;
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
            self.decisions.push(Decision { job, action, reason: Reason::Near { why } });
        }
    }

    /// The kernel did not bind a job: it is asked again when nodes were read, and then for all nodes.
    pub(crate) fn not_near(&mut self, id: JobId) {
        self.chunks.leave(id);
        self.chunks.unsure_of(id);
        self.chunks.barred.insert(id, self.now.after(BARRED_FOR));
    }

    /// All chunks, by their first node.
    #[must_use]
    pub fn chunks(&self) -> Vec<ChunkInfo> {
        let info = |chunk: &Chunk| ChunkInfo {
            nodes: chunk.nodes.iter().copied().collect(),
            jobs: chunk.jobs.iter().copied().collect(),
            claimed_bytes: self.taken(&chunk.jobs),
            usable_bytes: self.chunks.usable(&chunk.nodes, &chunk.jobs),
        };
        self.chunks.chunks.iter().map(info).collect()
    }

    /// The nodes that a job's memory is bound to, and how many jobs share them; `None`: to none.
    pub(crate) fn nodes_near(&self, id: JobId) -> Option<(Vec<u32>, usize)> {
        let chunk = self.chunks.chunk_of(id)?;
        Some((chunk.nodes.iter().copied().collect(), chunk.jobs.len()))
    }

    /// Free cores for a job beside memory that it fits into; `None`: nobody knows what it needs, or there are none such.
    pub(crate) fn near_cores(&self, id: JobId, count: usize) -> Option<Vec<usize>> {
        let job =
            self.jobs.get(&id).filter(|job| job.request.wish.is_none() && job.shape() == Shape::Compact)?;
        let claim = self.need(job).filter(|_| self.chunks.is_on() && self.is_pinned())?;
        let (all, wild) = (self.chunks.all(), self.wild(Some(id)));
        let node_of = |core: usize| {
            self.cores.get(core).cpus.first().and_then(|pu| self.chunks.node_of.get(&pu)).copied()
        };
        let places: Vec<Option<u32>> = (0..self.cores.len()).map(node_of).collect();
        let free: Vec<bool> = self.cores.iter().map(|core| core.home_of.is_none()).collect();
        let among = |nodes: &Nodes| -> Vec<bool> {
            let inside = |at: usize| places[at].is_some_and(|node| nodes.contains(&node));
            (0..free.len()).map(|at| free[at] && inside(at)).collect()
        };
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for node in places.iter().zip(&free).filter_map(|(place, free)| place.filter(|_| *free)) {
            *counts.entry(node).or_default() += 1;
        }
        let enough = |nodes: &Nodes| nodes.iter().filter_map(|node| counts.get(node)).sum::<usize>() >= count;
        let roomy: Vec<&Chunk> = all
            .iter()
            .filter(|chunk| self.has_room(&[chunk], claim, &wild) && enough(&chunk.nodes))
            .collect();
        // Wherever they are closest together, if that is within one of them.
        let anywhere: Nodes = roomy.iter().flat_map(|chunk| &chunk.nodes).copied().collect();
        if let Some(cores) = self.cores.choose_among(count, &among(&anywhere)) {
            let nodes: Nodes = cores.iter().filter_map(|&core| places[core]).collect();
            if roomy.iter().any(|chunk| nodes.is_subset(&chunk.nodes)) {
                return Some(cores);
            }
        }
        if let Some(chunk) = roomy.first() {
            return self.cores.choose_among(count, &among(&chunk.nodes));
        }
        let fits = |chunks: &[&Chunk]| {
            let nodes = nodes_in(chunks);
            enough(&nodes) && self.has_room(chunks, claim, &wild)
        };
        let chosen = self.joined(&[], &all, claim, fits)?;
        self.cores.choose_among(count, &among(&nodes_in(&chosen)))
    }

    /// Binds a job to the nodes of its cores, with more if it takes more and they have room; unless nobody knows what it
    /// needs, or it holds much elsewhere.
    fn join_chunk(&mut self, id: JobId) {
        if self.chunks.chunk_of(id).is_some() || self.chunks.barred.contains_key(&id) {
            return;
        }
        let Some(job) = self.jobs.get(&id) else { return };
        let (Some(claim), Some(nodes)) = (self.need(job), self.nodes_beside(job)) else { return };
        let (all, wild) = (self.chunks.all(), self.wild(Some(id)));
        let base: Vec<&Chunk> = all.iter().filter(|chunk| !chunk.nodes.is_disjoint(&nodes)).collect();
        let others: Vec<Chunk> =
            all.iter().filter(|chunk| chunk.nodes.is_disjoint(&nodes)).cloned().collect();
        let fits = |chunks: &[&Chunk]| {
            let beyond = self.chunks.held_beyond(id, &nodes_in(chunks));
            beyond <= self.chunks.little() && self.has_room(chunks, claim, &wild)
        };
        let chosen = if fits(&base) { Some(base) } else { self.joined(&base, &others, claim, fits) };
        let Some(chosen) = chosen else { return };
        let chosen: Vec<Chunk> = chosen.into_iter().cloned().collect();
        self.chunks.join(&chosen.iter().collect::<Vec<_>>(), id);
    }

    /// `base` with some of `others` that together fit: the fewest nodes, then the least room left over, and no more nodes
    /// than are worth it for jobs of `claim` bytes unless there is no other way.
    fn joined<'a>(
        &self,
        base: &[&'a Chunk],
        others: &'a [Chunk],
        claim: u64,
        fits: impl Fn(&[&Chunk]) -> bool,
    ) -> Option<Vec<&'a Chunk>> {
        let count = u64::try_from(self.chunks.nodes.len()).unwrap_or(u64::MAX).max(1);
        let all = self.chunks.nodes.values().map(|node| node.capacity).fold(0, u64::saturating_add);
        let mean = all / count / 1000 * (1000 - RESERVE_MILLI);
        let worth = chunk::nodes_for(claim, mean).max(nodes_in(base).len());
        let mut others: Vec<&Chunk> = others.iter().collect();
        others.sort_by_key(|chunk| std::cmp::Reverse(self.room(&[chunk])));
        // Bound to many nodes it is at least counted there; bound to none it could take the room of all who are.
        [worth, self.chunks.nodes.len()].into_iter().find_map(|most| {
            let mut small: Vec<&Chunk> =
                others.iter().copied().filter(|chunk| chunk.nodes.len() <= most).collect();
            small.truncate(CANDIDATES_MAX);
            self.joined_within(most, base, &small, &fits)
        })
    }

    /// As [`Self::joined`], of `most` nodes at most.
    fn joined_within<'a>(
        &self,
        most: usize,
        base: &[&'a Chunk],
        others: &[&'a Chunk],
        fits: impl Fn(&[&Chunk]) -> bool,
    ) -> Option<Vec<&'a Chunk>> {
        let mut best: Option<((usize, u64), Vec<&Chunk>)> = None;
        // A chunk has a node at least.
        let few = |mask: &u32| mask.count_ones() as usize + base.len() <= most;
        for mask in (1u32..(1 << others.len())).filter(few) {
            let more =
                others.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1).map(|(_, chunk)| *chunk);
            let chosen: Vec<&Chunk> = base.iter().copied().chain(more).collect();
            let nodes = nodes_in(&chosen).len();
            let beaten = best.as_ref().is_some_and(|((fewest, _), _)| nodes > *fewest);
            if nodes > most || beaten || !fits(&chosen) {
                continue;
            }
            let key = (nodes, self.room(&chosen));
            if best.as_ref().is_none_or(|(known, _)| key < *known) {
                best = Some((key, chosen));
            }
        }
        best.map(|(_, chosen)| chosen)
    }

    /// What these have left beyond what their jobs may come to need, in bytes.
    fn room(&self, chunks: &[&Chunk]) -> u64 {
        let jobs = chunks.iter().flat_map(|chunk| &chunk.jobs).copied().collect();
        self.chunks.usable(&nodes_in(chunks), &jobs).saturating_sub(self.taken(&jobs))
    }

    /// Whether these have room for so much more, also when those who are bound to none have taken what they may need.
    fn has_room(&self, chunks: &[&Chunk], claim: u64, wild: &Wild) -> bool {
        self.room(chunks) >= claim.saturating_add(self.taken_by(wild, &nodes_in(chunks)))
    }

    /// What jobs may still take that are bound to no nodes, by the node of their first core; not of `except`.
    fn wild(&self, except: Option<JobId>) -> Wild {
        let mut wild = Wild::new();
        let unbound = |job: &&Job| Some(job.id()) != except && self.chunks.chunk_of(job.id()).is_none();
        for job in self.running().filter(unbound) {
            let more = self.need(job).unwrap_or(0).saturating_sub(job.held.total());
            let home = self.cpus_of(job).first().and_then(|pu| self.chunks.node_of.get(&pu));
            // One that may go anywhere has no home; the first node is as good as any.
            let home = home.or_else(|| self.chunks.nodes.keys().next());
            if let Some(&home) = home.filter(|_| more > 0) {
                let all = wild.entry(home).or_default();
                *all = all.saturating_add(more);
            }
        }
        wild
    }

    /// How much of that may come from these nodes: the kernel gives pages beside the cores as long as it has any there,
    /// and then from wherever it has some.
    fn taken_by(&self, wild: &Wild, nodes: &Nodes) -> u64 {
        if wild.is_empty() {
            return 0;
        }
        let at = |nodes: &Nodes| {
            let here = wild.iter().filter(|(node, _)| nodes.contains(node));
            here.fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes))
        };
        let others = self.chunks.all().into_iter().filter(|chunk| chunk.nodes.is_disjoint(nodes));
        let beyond = others.map(|chunk| match at(&chunk.nodes) {
            0 => 0,
            wanted => wanted.saturating_sub(self.room(&[&chunk])),
        });
        beyond.fold(at(nodes), u64::saturating_add)
    }

    fn taken(&self, jobs: &BTreeSet<JobId>) -> u64 {
        let needs = jobs.iter().filter_map(|id| self.jobs.get(id)).map(|job| {
            let need = self.need(job).unwrap_or(0);
            need.max(job.held.total())
        });
        needs.fold(0, u64::saturating_add)
    }

    /// The most that a job may come to need, in bytes; `None`: nobody knows. What its user says counts even where others of
    /// its kind needed less: who finds its nodes full is ended.
    fn need(&self, job: &Job) -> Option<u64> {
        let claim: Claim = self.claim_of(job).filter(|_| self.is_known(job))?;
        let most = claim.most_bytes.max(job.request.memory.unwrap_or(0));
        (most > 0).then_some(most)
    }

    fn is_pinned(&self) -> bool {
        self.settings.affinity && self.settings.schedule
    }

    fn is_starting(&self, id: JobId) -> bool {
        self.live(id).is_none_or(|live| live.starting || live.requeuing)
    }

    /// The nodes of a job that has cores of its own; `None`: it has none, or nobody knows their nodes.
    fn nodes_beside(&self, job: &Job) -> Option<Nodes> {
        let live = job.live().filter(|live| live.class == Class::Primary && !live.cores.is_empty())?;
        let nodes = self.chunks.nodes_of(&self.cpus_of(job));
        (live.key.is_some() && self.is_pinned() && !nodes.is_empty()).then_some(nodes)
    }

    /// Who is gone or has cores elsewhere leaves. Who stands still stays: its memory is there.
    fn leave_chunks(&mut self) {
        let stays = |chunk: &Chunk, id: &JobId| {
            let Some(job) = self.jobs.get(id) else { return false };
            let Some(live) = job.live() else { return false };
            if !self.is_pinned() || live.class == Class::Exclusive || !self.chunks.is_on() {
                return false;
            }
            let nodes = self.chunks.nodes_of(&self.cpus_of(job));
            live.key.is_none() || (!nodes.is_empty() && nodes.is_subset(&chunk.nodes))
        };
        let goes: Vec<JobId> = self
            .chunks
            .chunks
            .iter()
            .flat_map(|chunk| chunk.jobs.iter().filter(|id| !stays(chunk, id)))
            .copied()
            .collect();
        goes.into_iter().for_each(|id| self.chunks.leave(id));
        // Nodes that are not there any more.
        let known: Nodes = self.chunks.nodes.keys().copied().collect();
        self.chunks.chunks.retain(|chunk| chunk.nodes.is_subset(&known));
    }

    /// Where nodes cannot give all that their jobs may still need, the youngest is let go: it may use all nodes.
    fn relieve_chunks(&mut self) {
        loop {
            let wild = self.wild(None);
            let is_short = |chunk: &&Chunk| {
                let taken = self.taken(&chunk.jobs).saturating_add(self.taken_by(&wild, &chunk.nodes));
                taken > self.chunks.usable(&chunk.nodes, &chunk.jobs)
            };
            let short = self.chunks.chunks.iter().find(is_short);
            let started = |id: &&JobId| (self.live(**id).map(|live| live.started), **id);
            let Some(&youngest) = short.and_then(|chunk| chunk.jobs.iter().max_by_key(started)) else {
                return;
            };
            self.chunks.leave(youngest);
            self.chunks.barred.insert(youngest, self.now.after(BARRED_FOR));
        }
    }

    /// Takes a node that is drained out of a chunk, with the jobs that are on it alone; says whether there was one.
    fn split_a_chunk(&mut self) -> bool {
        let (little, wild) = (self.chunks.little(), self.wild(None));
        for at in 0..self.chunks.chunks.len() {
            let chunk = &self.chunks.chunks[at];
            if chunk.nodes.len() < 2 {
                continue;
            }
            for &node in &chunk.nodes {
                let alone = Nodes::from([node]);
                let rest: Nodes = chunk.nodes.difference(&alone).copied().collect();
                let Some((gone, left)) = self.divided(chunk, &alone, &rest) else { continue };
                let strays = |jobs: &BTreeSet<JobId>, nodes: &Nodes| {
                    jobs.iter().map(|&job| self.chunks.held_on(job, nodes)).fold(0, u64::saturating_add)
                };
                let drained = strays(&left, &alone) <= little && strays(&gone, &rest) <= little;
                let parts = [(alone, gone), (rest, left)];
                let suffices = |(nodes, jobs): &(Nodes, BTreeSet<JobId>)| {
                    let taken = self.taken(jobs).saturating_add(self.taken_by(&wild, nodes));
                    jobs.is_empty() || taken <= self.chunks.usable(nodes, jobs)
                };
                if drained && parts.iter().all(suffices) {
                    let parts = parts.into_iter().map(|(nodes, jobs)| Chunk { nodes, jobs });
                    self.chunks.chunks.splice(at..=at, parts.filter(|part| !part.jobs.is_empty()));
                    self.chunks.chunks.sort_by_key(|chunk| chunk.nodes.first().copied());
                    return true;
                }
            }
        }
        false
    }

    /// The jobs of a chunk that are on the one part alone, and those on the other alone; `None`: some are on both, or
    /// stand still and come back to either.
    fn divided(
        &self,
        chunk: &Chunk,
        one: &Nodes,
        other: &Nodes,
    ) -> Option<(BTreeSet<JobId>, BTreeSet<JobId>)> {
        let (mut first, mut second) = (BTreeSet::new(), BTreeSet::new());
        for &id in &chunk.jobs {
            let nodes = self.chunks.nodes_of(&self.jobs.get(&id).map(|job| self.cpus_of(job))?);
            let runs = self.live(id).is_some_and(|live| live.key.is_some() && !live.starting);
            match (runs, nodes.is_subset(one), nodes.is_subset(other)) {
                (true, true, _) => first.insert(id),
                (true, _, true) => second.insert(id),
                _ => return None,
            };
        }
        Some((first, second))
    }
}

fn nodes_in(chunks: &[&Chunk]) -> Nodes {
    chunks.iter().flat_map(|chunk| &chunk.nodes).copied().collect()
}
