//! Memory binding: which NUMA nodes a job's memory may lie on, and which nodes several jobs share as a group.
//!
//! A job whose need is known and that starts on cores of its own is bound to the nodes of these cores, if they have
//! room for all that it may need. Where no single node has, several nodes become one memory for several jobs
//! (`pinfold_place::chunk` says how many are worth it): a *group*. Groups have no node in common, and all jobs of a
//! group may use all of it: if they were bound to parts of it, one could take the room that was counted for another,
//! and the kernel kills for want of memory in the nodes of a job though others have plenty. A group grows when a job
//! needs more nodes, is left when a job goes elsewhere, and gives a node back once no job has cores there and what its
//! jobs have on it is less than 1 % of it (drained). What a job holds stays where it is when it is moved or released:
//! nothing is asked of the kernel that would move much.
//!
//! Owns the readings of the nodes, and the groups. Nothing is bound before nodes were read ([`crate::Event::Nodes`]).

use std::collections::{BTreeMap, BTreeSet};

use pinfold_topo::{CpuSet, PuOs, Topology};

use crate::api::{Instant, JobId};

/// Kept free on each node, in thousandths of it: what the kernel itself needs there, and what readings miss.
pub(super) const RESERVE_MILLI: u64 = 20;

/// Less than this part of a node is no obstacle to giving it back, in thousandths,
const DRAINED_MILLI: u64 = 10;
/// and no more than this, for the kernel moves it while the daemon waits.
const DRAINED_BYTES_MAX: u64 = 64 << 20;

/// Kernel numbers of nodes.
pub(super) type Nodes = BTreeSet<u32>;

/// Bytes by node.
pub(super) type Wild = BTreeMap<u32, u64>;

/// What is known of a node that has PUs.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Node {
    pub(super) capacity: u64,
    /// What it could still give to jobs; `None`: not read.
    pub(super) available: Option<u64>,
}

/// Nodes that are one memory for some jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct NodeGroup {
    pub(super) nodes: Nodes,
    pub(super) jobs: BTreeSet<JobId>,
}

/// See the module's page.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct NodeGroups {
    pub(super) nodes: BTreeMap<u32, Node>,
    pub(super) node_of: BTreeMap<PuOs, u32>,
    /// What each job has on each node, in bytes.
    pub(super) held: BTreeMap<JobId, BTreeMap<u32, u64>>,
    pub(super) chunks: Vec<NodeGroup>,
    /// The nodes that jobs were last told to use, of those that were told any.
    pub(super) told: BTreeMap<JobId, Nodes>,
    /// Jobs of which nobody knows what the kernel has: found again, or what was asked failed.
    pub(super) unsure: BTreeSet<JobId>,
    /// Until when a job is not bound.
    pub(super) barred: BTreeMap<JobId, Instant>,
    /// Something may follow from what happened.
    pub(super) touched: bool,
}

impl NodeGroups {
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
    pub(crate) fn is_on(&self) -> bool {
        self.nodes.len() > 1 && self.nodes.values().all(|node| node.capacity > 0 && node.available.is_some())
    }

    /// The node of a PU; `None`: nobody knows it.
    pub(super) fn node_beside(&self, pu: Option<PuOs>) -> Option<u32> {
        pu.and_then(|pu| self.node_of.get(&pu)).copied()
    }

    pub(super) fn nodes_of(&self, cpus: &CpuSet) -> Nodes {
        cpus.iter().filter_map(|pu| self.node_of.get(&pu)).copied().collect()
    }

    pub(super) fn held_on(&self, job: JobId, nodes: &Nodes) -> u64 {
        let held = self.held.get(&job).into_iter().flatten();
        held.filter(|(node, _)| nodes.contains(node)).fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    /// So little that it may lie beyond the nodes of a job, in bytes.
    pub(super) fn little(&self) -> u64 {
        let least = self.nodes.values().map(|node| node.capacity).min().unwrap_or(0);
        (least / 1000 * DRAINED_MILLI).min(DRAINED_BYTES_MAX)
    }

    /// What nodes have for these jobs, in bytes: what is available and what the jobs have there already.
    pub(super) fn usable(&self, nodes: &Nodes, jobs: &BTreeSet<JobId>) -> u64 {
        let free = nodes.iter().map(|&node| self.free_on(node));
        let held = jobs.iter().map(|&job| self.held_on(job, nodes));
        free.chain(held).fold(0, u64::saturating_add)
    }

    /// What a node can still give to jobs, in bytes.
    pub(super) fn free_on(&self, node: u32) -> u64 {
        #[cfg(test)]
        super::survey::tests::look();
        let free =
            |node: &Node| node.available.unwrap_or(0).saturating_sub(node.capacity / 1000 * RESERVE_MILLI);
        self.nodes.get(&node).map_or(0, free)
    }

    /// The jobs that are bound to nodes, ascending.
    pub(crate) fn bound(&self) -> Vec<JobId> {
        let mut bound: Vec<JobId> = self.chunks.iter().flat_map(|chunk| &chunk.jobs).copied().collect();
        bound.sort_unstable();
        bound
    }

    /// To look up the groups of many jobs: each job that is bound and its group, ascending.
    pub(super) fn by_job(&self) -> Vec<(JobId, &NodeGroup)> {
        let mut bound: Vec<(JobId, &NodeGroup)> =
            self.chunks.iter().flat_map(|chunk| chunk.jobs.iter().map(move |&job| (job, chunk))).collect();
        bound.sort_unstable_by_key(|(job, _)| *job);
        bound
    }

    pub(super) fn chunk_of(&self, job: JobId) -> Option<&NodeGroup> {
        self.chunks.iter().find(|chunk| chunk.jobs.contains(&job))
    }

    pub(super) fn leave(&mut self, job: JobId) {
        for chunk in &mut self.chunks {
            chunk.jobs.remove(&job);
        }
        self.chunks.retain(|chunk| !chunk.jobs.is_empty());
    }

    /// Makes these one, for the jobs that they have and for this one.
    pub(crate) fn join(&mut self, chunks: &[NodeGroup], job: JobId) {
        let mut joined = NodeGroup::default();
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

    /// Whether something changed about where jobs are since the kernel was last asked.
    pub(crate) fn is_touched(&self) -> bool {
        self.touched
    }

    /// Nobody knows what the kernel has of a job.
    pub(crate) fn unsure_of(&mut self, job: JobId) {
        self.told.remove(&job);
        self.unsure.insert(job);
    }
}
