//! Jobs that are bound to other nodes than those that a set has to itself, and jobs that the scheduler binds.

use pinfold_policy::{Action, Event as SchedulerEvent, JobId};
use pinfold_sys::container::{Applied, ContainerError, Shape};

use super::clear::Order;
use super::{OwnNodes, SHORT_PART, list};
use crate::core::{Ctx, Outbox, in_full};
use crate::host::guard::Guard;
use crate::host::limits::HostProcesses;
use crate::host::own_nodes::{note_for, room_on, without};
use crate::jobs::{JobTable, Jobs};
use crate::store::journal::Journal;

impl OwnNodes {
    /// A job could not be bound.
    pub(super) fn leave_unbound(&mut self, table: &mut JobTable, guard: &mut Guard, job: JobId) {
        self.away.remove(&job);
        let Some(live) = table.get_mut(&job).filter(|live| live.memory_nodes.is_empty()) else { return };
        if live.container.as_mut().is_none_or(|container| container.near(&[]).is_ok()) {
            guard.memory_unbound(job.0);
        }
    }

    /// All nodes but those that are kept clear of a job; empty: none is.
    pub(super) fn may_lie_on(&self, ctx: &Ctx, table: &JobTable, job: JobId) -> Vec<u32> {
        let set = table.get(&job).and_then(|live| live.row.set());
        let closed = self.closed_to(set.as_deref());
        if closed.is_empty() {
            return Vec::new();
        }
        let all = ctx.containers.nodes().unwrap_or_default();
        let may = without(&all, &closed);
        if may.len() == all.len() { Vec::new() } else { may }
    }

    /// What a job's container is made with.
    pub(crate) fn shape_of(
        &mut self,
        ctx: &Ctx,
        jobs: &mut Jobs,
        guard: &mut Guard,
        host_processes: &mut HostProcesses,
        job: JobId,
    ) -> Option<Shape> {
        let limits = host_processes.limits_at_start(ctx, jobs, job);
        let shape = Shape { limits, ..jobs.table.get(&job)?.shape() };
        if !shape.nodes.is_empty() {
            return Some(shape);
        }
        let nodes = self.may_lie_on(ctx, &jobs.table, job);
        if !nodes.is_empty() {
            guard.will_bind_memory(job.0, None);
            self.away.insert(job, nodes.clone());
        }
        Some(Shape { nodes, ..shape })
    }

    /// The scheduler lets a job's memory lie anywhere: that is on all nodes but those that are kept clear of it. `None`:
    /// there are none such.
    pub(crate) fn bind_away(
        &mut self,
        ctx: &Ctx,
        table: &mut JobTable,
        guard: &mut Guard,
        job: JobId,
    ) -> Option<Result<(), ContainerError>> {
        if self.under_way.contains_key(&job) {
            return Some(Ok(()));
        }
        if self.may_lie_on(ctx, table, job).is_empty() {
            self.away.remove(&job);
            return None;
        }
        let set = table.get(&job).and_then(|live| live.row.set());
        let closed = self.closed_to(set.as_deref());
        self.order(ctx, table, guard, &[job], Order { nodes: closed, ..Order::default() });
        Some(Ok(()))
    }

    /// A job runs in a container that was not made with the nodes that it may lie on: its processes ran before.
    pub(crate) fn keep_away(&mut self, ctx: &Ctx, table: &mut JobTable, guard: &mut Guard, job: JobId) {
        let unbound = table.get(&job).is_some_and(|live| live.memory_nodes.is_empty());
        if unbound && !self.away.contains_key(&job) {
            // Whether there are such nodes is its answer.
            let _ = self.bind_away(ctx, table, guard, job);
        }
    }

    /// Lets jobs lie on nodes that are not kept clear of them any more.
    pub(super) fn let_back(
        &mut self,
        ctx: &Ctx,
        journal: &mut Journal,
        table: &mut JobTable,
        guard: &mut Guard,
    ) {
        let away: Vec<JobId> = self.away.keys().copied().collect();
        for job in away {
            self.let_back_one(ctx, journal, table, guard, job);
        }
    }

    pub(super) fn let_back_one(
        &mut self,
        ctx: &Ctx,
        journal: &mut Journal,
        table: &mut JobTable,
        guard: &mut Guard,
        job: JobId,
    ) {
        let may = self.may_lie_on(ctx, table, job);
        let Some(had) = self.away.get(&job).cloned() else { return };
        let narrower = !may.is_empty() && !without(&had, &may).is_empty();
        // A job that is about to be bound is looked at again then; and what narrows is the thread's to do.
        if self.under_way.contains_key(&job) || narrower {
            return;
        }
        let Some(live) = table.get_mut(&job) else {
            self.away.remove(&job);
            return;
        };
        let bound = !live.memory_nodes.is_empty();
        let wanted = if bound { live.memory_nodes.clone() } else { may };
        match live.container.as_mut().map(|container| container.near(&wanted)) {
            Some(Err(error)) => {
                tracing::warn!(job = job.0, error = %in_full(&error), "a job's memory stays bound");
            }
            Some(Ok(Applied::Kept(why))) => tracing::debug!(job = job.0, why, "a job's memory is not bound"),
            Some(Ok(Applied::Done)) | None => {}
        }
        if bound || wanted.is_empty() {
            self.away.remove(&job);
        } else {
            self.away.insert(job, wanted.clone());
        }
        if wanted.is_empty() {
            guard.memory_unbound(job.0);
            note_for(
                ctx,
                journal,
                table,
                job,
                "let its memory lie on all NUMA nodes",
                "no set has a node to itself any more",
            );
        }
    }

    /// Lets jobs lie on nodes that were kept clear of them where the other nodes have run short.
    pub(crate) fn relieve_nodes(
        &mut self,
        ctx: &Ctx,
        journal: &mut Journal,
        table: &mut JobTable,
        guard: &mut Guard,
        available: &[(u32, u64)],
    ) {
        let closed = self.closed_to(None);
        if closed.is_empty() {
            return;
        }
        let rest = without(&ctx.containers.nodes().unwrap_or_default(), &closed);
        if room_on(&ctx.topology, available, &rest, SHORT_PART) > 0 {
            return;
        }
        for kept in self.kept.values_mut().filter(|kept| kept.open.is_none()) {
            kept.open = Some("the other nodes ran short of memory".to_owned());
            tracing::warn!(
                nodes = list(&kept.nodes),
                "NUMA nodes are not kept clear any more: the others ran short"
            );
        }
        self.let_back(ctx, journal, table, guard);
    }
}

/// Binds a job's memory to nodes, or to none. What the kernel does not take is told to the scheduler.
pub(crate) fn bind_memory(
    ctx: &Ctx,
    out: &mut Outbox,
    table: &mut JobTable,
    guard: &mut Guard,
    own_nodes: &mut OwnNodes,
    job: JobId,
    nodes: &[u32],
) -> Option<Result<(), ContainerError>> {
    if nodes.is_empty()
        && let Some(done) = own_nodes.bind_away(ctx, table, guard, job)
    {
        return Some(done);
    }
    let live = table.get_mut(&job)?;
    let main = live.row.main;
    let container = live.container.as_mut()?;
    if !nodes.is_empty() {
        guard.will_bind_memory(job.0, main);
    }
    match container.near(nodes) {
        Ok(Applied::Done) => {}
        Ok(Applied::Kept(why)) => {
            tracing::debug!(job = job.0, why, "a job's memory is not bound to NUMA nodes");
            live.memory_nodes.clear();
            let action = Action::Near { nodes: nodes.to_vec() };
            out.step(SchedulerEvent::Failed { job, action, error: why.to_owned() });
        }
        Err(error) => return Some(Err(error)),
    }
    if nodes.is_empty() {
        guard.memory_unbound(job.0);
    }
    own_nodes.on_bound(job);
    Some(Ok(()))
}
