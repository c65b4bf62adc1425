//! Clearing NUMA nodes of what others hold on them, on a thread of its own, for it takes the time that it takes to copy
//! the memory.
//!
//! Absent: whose nodes these are, which job is to go where, and what follows from what is left (the module above).

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use pinfold_policy::JobId;
use pinfold_sys::container::{Applied, Containers};
use pinfold_sys::discover::{self, NodeHeld};
use pinfold_sys::strays;

use crate::core::in_full;

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Order {
    pub number: u64,
    /// The nodes to be cleared.
    pub nodes: Vec<u32>,
    /// Whose memory is to go, and where it may lie from then on.
    pub jobs: Vec<(JobId, Vec<u32>)>,
    /// Whose memory is no foreign one.
    pub own: Vec<JobId>,
    /// Where the memory of processes goes that are no job's; `None`: it stays.
    pub strays: Option<Vec<u32>>,
}

/// What foreign memory lies on some nodes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Foreign {
    /// All memory of the nodes.
    pub total: u64,
    /// What others than their own jobs hold there.
    pub held: u64,
    /// The part of that which is of jobs.
    pub of_jobs: u64,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub number: u64,
    /// Before, and after; `None`: the kernel does not say what its nodes hold.
    pub before: Option<Foreign>,
    pub after: Option<Foreign>,
    /// What each job had there before, in bytes, and why it is not kept off.
    pub jobs: Vec<(JobId, u64, Option<String>)>,
}

/// What is read and done; a fake one in tests.
pub(super) trait Host {
    fn held(&self) -> Vec<NodeHeld>;
    fn lies(&self, job: JobId) -> Vec<(u32, u64)>;
    fn move_away(&self, job: JobId, nodes: &[u32], others: &[u32]);
    /// Why it is not bound, if it is not.
    fn bind(&self, job: JobId, nodes: &[u32]) -> Option<String>;
    fn strays(&self) -> Vec<u32>;
    fn move_stray(&self, pid: u32, nodes: &[u32], others: &[u32]);
}

/// The kernel. Nothing is bound once `ended` says so: the daemon that would unbind it is about to end.
pub(super) struct Kernel {
    pub containers: Containers,
    pub ended: Arc<Mutex<bool>>,
}

impl Host for Kernel {
    fn held(&self) -> Vec<NodeHeld> {
        discover::node_held()
    }

    fn lies(&self, job: JobId) -> Vec<(u32, u64)> {
        self.containers.memory_by_node(job.0).ok().flatten().unwrap_or_default()
    }

    fn move_away(&self, job: JobId, nodes: &[u32], others: &[u32]) {
        if let Err(error) = self.containers.move_away(job.0, nodes, others) {
            tracing::debug!(job = job.0, error = %in_full(&error), "the memory of a job stays where it is");
        }
    }

    fn bind(&self, job: JobId, nodes: &[u32]) -> Option<String> {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        if *ended {
            return Some("the daemon ends".to_owned());
        }
        match self.containers.bind_to_nodes(job.0, nodes) {
            Ok(Applied::Done) => None,
            Ok(Applied::Kept(why)) => Some(why.to_owned()),
            Err(error) => Some(in_full(&error)),
        }
    }

    fn strays(&self) -> Vec<u32> {
        self.containers.of_no_job()
    }

    fn move_stray(&self, pid: u32, nodes: &[u32], others: &[u32]) {
        if let Err(errno) = strays::move_pages(pid, nodes, others) {
            tracing::debug!(pid, %errno, "the pages of a process stay where they are");
        }
    }
}

/// The thread's life.
pub(super) fn obey(kernel: &Kernel, orders: &Receiver<Order>, tell: &Sender<Outcome>, waker: &UnixStream) {
    while let Ok(order) = orders.recv() {
        if tell.send(clear(kernel, &order)).is_err() {
            return;
        }
        let mut waker = waker;
        let _ = waker.write_all(b"n");
    }
}

/// Moves what is to go, binds the jobs elsewhere, and moves what they got meanwhile.
pub(super) fn clear(host: &impl Host, order: &Order) -> Outcome {
    let jobs: Vec<JobId> = order.jobs.iter().map(|(job, _)| *job).collect();
    let there = |job: JobId| on(&host.lies(job), &order.nodes);
    let before = foreign(host, order, &jobs);
    let mut told = Vec::with_capacity(jobs.len());
    for (job, others) in &order.jobs {
        let had = there(*job);
        host.move_away(*job, &order.nodes, others);
        let kept = host.bind(*job, others);
        if kept.is_none() && there(*job) > 0 {
            host.move_away(*job, &order.nodes, others);
        }
        told.push((*job, had, kept));
    }
    if let Some(others) = &order.strays {
        host.strays().into_iter().for_each(|pid| host.move_stray(pid, &order.nodes, others));
    }
    Outcome { number: order.number, before, after: foreign(host, order, &jobs), jobs: told }
}

fn foreign(host: &impl Host, order: &Order, jobs: &[JobId]) -> Option<Foreign> {
    let held: Vec<NodeHeld> =
        host.held().into_iter().filter(|held| order.nodes.contains(&held.node)).collect();
    if held.len() < order.nodes.len() {
        return None;
    }
    let of = |jobs: &[JobId]| {
        jobs.iter().map(|&job| on(&host.lies(job), &order.nodes)).fold(0, u64::saturating_add)
    };
    let sum = |part: fn(&NodeHeld) -> u64| held.iter().map(part).fold(0, u64::saturating_add);
    let foreign = sum(|node| node.held_bytes).saturating_sub(of(&order.own));
    // The counts of groups and those of nodes are not of the very same moment.
    Some(Foreign { total: sum(|node| node.total_bytes), held: foreign, of_jobs: of(jobs).min(foreign) })
}

/// What of this lies on some nodes, in bytes.
pub(super) fn on(lies: &[(u32, u64)], nodes: &[u32]) -> u64 {
    let there = lies.iter().filter(|(node, _)| nodes.contains(node));
    there.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
}
