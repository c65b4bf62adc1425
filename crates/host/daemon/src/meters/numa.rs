//! On which NUMA nodes the memory of jobs lies, looked at with each sample where the host has several; and what the nodes
//! have left, for the scheduler, which binds jobs to nodes.
//!
//! Owner of state: the nodes of each job that runs. What is known goes to the journal every minute and when the job is
//! over. Absent: which job is bound to what; that is the scheduler's.

use std::collections::BTreeMap;

use pinfold_policy::{ChunkInfo, Event as SchedulerEvent, JobId, NodeMemory};
use pinfold_profile::numa::Nodes;
use pinfold_proto::row::{JobRow, NodeRow};
use pinfold_proto::view::{ChunkView, NodeView, ReportView};
use pinfold_sys::discover;
use pinfold_sys::peer::Peer;
use pinfold_topo::{CpuSet, PuOs, Topology};

use crate::clients::rights;
use crate::core::{Ctx, Outbox};
use crate::jobs::{JobTable, Jobs};
use crate::store::journal::Journal;

/// How often what is known goes to the journal.
const WRITE_EVERY_US: u64 = 60_000_000;

/// What nodes have left is read no more often than this.
const READ_EVERY_US: u64 = 250_000;

/// The nodes of all jobs that run.
#[derive(Debug, Default)]
pub(crate) struct JobNodes {
    /// When it was last read what nodes have left, and what that was.
    read_us: Option<u64>,
    available: Vec<(u32, u64)>,
    jobs: BTreeMap<JobId, Seen>,
}

#[derive(Debug)]
struct Seen {
    nodes: Nodes,
    written_us: u64,
}

impl JobNodes {
    /// A job is over: its last rows.
    pub(crate) fn finish(&mut self, job: JobId) -> Vec<NodeRow> {
        self.jobs.remove(&job).map_or_else(Vec::new, |seen| seen.nodes.rows(job.0))
    }
}

impl JobNodes {
    /// Reads what the nodes have left and lets the scheduler look at it, if the host has several and jobs can be bound to
    /// them; unless that was done a moment ago. Gives what each has left.
    pub(crate) fn read_nodes(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &Jobs) -> Option<&[(u32, u64)]> {
        if ctx.topology.numa_nodes() < 2 || !ctx.containers.can_bind_memory() {
            return None;
        }
        let now_us = ctx.clock.now_us();
        if self.read_us.is_some_and(|read_us| now_us.saturating_sub(read_us) < READ_EVERY_US) {
            return None;
        }
        self.read_us = Some(now_us);
        let available_bytes = discover::node_available();
        self.available.clone_from(&available_bytes);
        let held = |job: &JobId| {
            let container = jobs.table.get(job).and_then(|live| live.container.as_ref())?;
            Some((*job, container.memory_by_node().ok().flatten()?))
        };
        let jobs = jobs.running.iter().filter_map(held).collect();
        out.step(SchedulerEvent::Nodes(NodeMemory { available_bytes, jobs }));
        Some(&self.available)
    }

    /// What each node had left at the last reading, by logical number; empty: nobody read it.
    pub(crate) fn node_room(&self, ctx: &Ctx) -> Vec<u64> {
        if self.available.is_empty() {
            return Vec::new();
        }
        let left = |node: &pinfold_topo::NumaNode| {
            let found = self.available.iter().find(|(os, _)| *os == node.os);
            found.map_or(0, |(_, bytes)| *bytes)
        };
        ctx.topology.numa().iter().map(left).collect()
    }

    /// Takes in what a job has on each node, if the host has several.
    pub(crate) fn look_at_nodes(
        &mut self,
        ctx: &Ctx,
        journal: &mut Journal,
        table: &JobTable,
        job: JobId,
        now_us: u64,
    ) {
        if ctx.topology.numa_nodes() < 2 {
            return;
        }
        let Some(live) = table.get(&job) else { return };
        let found = live.container.as_ref().and_then(|container| container.memory_by_node().ok().flatten());
        let Some(found) = found else { return };
        let started_us = live.row.started_us.unwrap_or(now_us);
        let seen = self.jobs.entry(job).or_insert_with(|| {
            // There are rows already where a daemon before had the job.
            let known = journal.store().nodes(job.0).unwrap_or_default();
            Seen { nodes: Nodes::resume(&known, now_us.saturating_sub(started_us)), written_us: now_us }
        });
        seen.nodes.look(now_us, &found);
        if now_us.saturating_sub(seen.written_us) >= WRITE_EVERY_US {
            seen.written_us = now_us;
            seen.nodes.rows(job.0).into_iter().for_each(|row| journal.node(row));
        }
    }

    /// Adds to a report where the job's memory lay.
    pub(crate) fn tell_nodes(
        &mut self,
        ctx: &Ctx,
        journal: &mut Journal,
        row: &JobRow,
        view: &mut ReportView,
    ) {
        let job = JobId(row.job);
        let (rows, runs) = match self.jobs.get(&job) {
            Some(seen) => (seen.nodes.rows(job.0), true),
            None => {
                let waiting: Vec<NodeRow> = journal.nodes_of(job).copied().collect();
                let mut stored = || journal.store().nodes(job.0).unwrap_or_default();
                (if waiting.is_empty() { stored() } else { waiting }, false)
            }
        };
        tell_nodes_of(ctx, row, &rows, runs, view);
    }
}

/// The nodes that jobs are bound to.
pub(crate) fn chunk_views(ctx: &Ctx, table: &JobTable, user: Peer) -> Vec<ChunkView> {
    let config = &ctx.configured.config;
    let mine = |job: &JobId| table.get(job).is_some_and(|live| rights::may_touch(config, user, &live.row));
    let view = |chunk: ChunkInfo| ChunkView {
        nodes: chunk.nodes.iter().map(|&node| PuOs(node)).collect::<CpuSet>().to_string(),
        jobs: chunk.jobs.iter().filter(|job| mine(job)).map(|job| job.0).collect(),
        claimed_bytes: chunk.claimed_bytes,
        usable_bytes: chunk.usable_bytes,
    };
    ctx.policy.chunks().into_iter().map(view).collect()
}

/// The same, of these rows.
pub(crate) fn tell_nodes_of(ctx: &Ctx, row: &JobRow, rows: &[NodeRow], runs: bool, view: &mut ReportView) {
    if rows.is_empty() {
        return;
    }
    let cpus = row.cpus.as_deref().and_then(|cpus| cpus.parse::<CpuSet>().ok());
    let nodes = node_views(rows, cpus.filter(|cpus| !cpus.is_empty()).as_ref(), &ctx.topology, runs);
    view.numa_local = local_part(&nodes);
    view.numa = Some(nodes);
}

fn node_views(rows: &[NodeRow], cpus: Option<&CpuSet>, topology: &Topology, runs: bool) -> Vec<NodeView> {
    let local = |number: u32| {
        let node = topology.numa().iter().find(|node| node.os == number)?;
        Some(!node.pus.is_disjoint(cpus?))
    };
    let view = |row: &NodeRow| NodeView {
        node: row.node,
        local: local(row.node),
        memory_bytes: runs.then_some(row.memory_bytes),
        memory_mean_bytes: row.memory_mean_bytes,
        memory_peak_bytes: row.memory_peak_bytes,
    };
    rows.iter().map(view).collect()
}

/// The part of the means that is local; `None`: that is not known of a node, or there is no memory.
fn local_part(nodes: &[NodeView]) -> Option<f64> {
    let mut local_bytes = 0;
    for node in nodes {
        local_bytes += if node.local? { node.memory_mean_bytes } else { 0 };
    }
    let all_bytes: u64 = nodes.iter().map(|node| node.memory_mean_bytes).sum();
    #[expect(clippy::cast_precision_loss, reason = "a part of 1 needs no more than 53 bits")]
    (all_bytes > 0).then(|| local_bytes as f64 / all_bytes as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Topology {
        pinfold_topo::synthetic::facts_of("pack:1 numa:2 core:2 pu:1").unwrap().assemble().unwrap()
    }

    #[test]
    fn what_lies_beside_the_cores_is_local() {
        let row = |node, memory_mean_bytes| NodeRow {
            job: 1,
            node,
            memory_bytes: 5,
            memory_mean_bytes,
            memory_peak_bytes: 9,
        };
        let rows = [row(0, 300), row(1, 100)];
        let check = |cpus: Option<&str>, runs, want: Option<f64>| {
            let cpus = cpus.map(|cpus| cpus.parse::<CpuSet>().unwrap());
            let views = node_views(&rows, cpus.as_ref(), &machine(), runs);
            assert_eq!(views[0].memory_bytes, runs.then_some(5));
            assert_eq!(local_part(&views), want, "{cpus:?}");
        };
        check(Some("0"), true, Some(0.75));
        check(Some("2-3"), false, Some(0.25));
        check(Some("1-2"), false, Some(1.0));
        check(None, true, None);
        let none = node_views(&[row(0, 0)], Some(&"0".parse().unwrap()), &machine(), true);
        assert_eq!(local_part(&none), None);
    }
}
