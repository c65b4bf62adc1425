//! What the process that asks for a job has itself is the most that the job gets: PUs and memory that a workload manager, or a
//! service manager, bounds by control groups, and PUs that a workload manager binds to by affinity. A job is put into a
//! group of pinfold's, and would leave those behind. A job of a workload manager's also ends with its keeper: that is who
//! is ended there when the job is cancelled or its time is over.
//!
//! Owns what was found around the processes that ask, as long as they are connected. Absent here: reading groups (`sys::bounds`)
//! and where the job's cores are looked for (the scheduler, which takes the PUs as a cpuset constraint).

use std::collections::BTreeMap;

use pinfold_policy::JobId;
use pinfold_proto::quantity::show_size;
use pinfold_proto::wire::ErrorCode;
use pinfold_proto::{Allocation, JobClass, JobSpec};
use pinfold_sys::bounds::{self, Bounds};
use pinfold_sys::mode::Roots;
use pinfold_topo::CpuSet;

use crate::clients::server::Server;
use crate::core::{ConnectionId, Ctx, Effect, Outbox, Refusal, is_alive};
use crate::host::limits;
use crate::host::sets::{self, Sets};
use crate::jobs::record::{allocated_cpus, is_tied};
use crate::jobs::{JobTable, Jobs};

/// A part of what jobs share, one in so many: with less left they are read as often as when the host is short.
const NEAR_THE_END_PART: u64 = 8;
/// The step in which a job's bound follows what is left to it.
const BOUND_STEP_BYTES: u64 = 1 << 20;

/// What a client may call a workload manager and its job.
const MANAGER_MAX_BYTES: usize = 64;

/// What the groups around the processes that ask let them have.
#[derive(Debug, Default)]
pub(crate) struct Askers {
    known: BTreeMap<ConnectionId, Bounds>,
    /// The memory that groups around this daemon bound, which bounds all that it starts anyway.
    own_memory_bytes: Option<Option<u64>>,
    /// Whether several jobs have come close to the end of what they share, and are to be read often.
    pub(crate) near_the_end: bool,
}

impl Askers {
    /// A connection is at its end.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.known.remove(&id);
    }
}

/// What jobs are known by that share the memory that a workload manager gave, without a group of the kernel's: nobody else
/// may come into that by the name of a job of theirs.
fn shared_by(manager: &str, uid: u32, memory_bytes: Option<u64>) -> Option<String> {
    memory_bytes.map(|_| format!("{manager} of user {uid}"))
}

/// What each of several may have that share so much: what it has, and what none of them has; in whole steps.
fn portions(all: u64, charged: &[u64]) -> Vec<u64> {
    let free = all.saturating_sub(charged.iter().sum());
    charged.iter().map(|one| whole_steps(one.saturating_add(free), Some(all.max(*one)))).collect()
}

/// A bound in whole steps, so that it is not written anew for every page; what a job may have at most is as it is.
fn whole_steps(bytes: u64, most: Option<u64>) -> u64 {
    bytes.next_multiple_of(BOUND_STEP_BYTES).min(most.unwrap_or(u64::MAX))
}

impl Askers {
    /// Adds to what is asked for what the groups around the asking process bound, and refuses what cannot be had within that.
    pub(crate) fn stay_within(
        &mut self,
        ctx: &Ctx,
        table: &JobTable,
        server: &Server,
        sets: &Sets,
        id: ConnectionId,
        spec: &mut JobSpec,
    ) -> Result<(), Refusal> {
        let uid = server.peer(id).map_or(u32::MAX, |user| user.uid);
        let bounds = self.bounds_of(ctx, server, id)?;
        if let Some(manager) = &bounds.manager {
            told_by_groups(ctx, server, id, manager, spec);
        }
        if let Some(told) = spec.allocation.as_mut() {
            told.memory_group =
                told.manager.as_deref().and_then(|manager| shared_by(manager, uid, told.memory_bytes));
        }
        self.stay_within_bounds(ctx, table, sets, bounds, spec)
    }

    /// The same within bounds that are known.
    pub(crate) fn stay_within_bounds(
        &mut self,
        ctx: &Ctx,
        table: &JobTable,
        sets: &Sets,
        bounds: Bounds,
        spec: &mut JobSpec,
    ) -> Result<(), Refusal> {
        let told = spec.allocation.take();
        let manager = told.as_ref().and_then(|told| told.manager.clone());
        if manager.as_ref().is_some_and(|manager| manager.len() > MANAGER_MAX_BYTES) {
            let text = format!("a workload manager's name of more than {MANAGER_MAX_BYTES} bytes");
            return Err((ErrorCode::Usage, text));
        }
        limits::can_carry_over(ctx, &bounds)?;
        if let Some(outer) = bounds.job.and_then(|job| table.get(&JobId(job))) {
            // What a job asks for has what the job has.
            spec.allocation.clone_from(&outer.row.spec.allocation);
        } else {
            let told = told.unwrap_or_default();
            let affinity = told.cpus.and_then(|cpus| cpus.parse::<CpuSet>().ok());
            let cpus = [bounds.cpus, affinity].into_iter().flatten();
            let cpus = cpus.reduce(|one, other| one.intersection(&other));
            // All that there are is no bound.
            let cpus = cpus.filter(|cpus| !ctx.topology.usable().difference(cpus).is_empty());
            let group = bounds.memory_group.map(|path| path.display().to_string());
            let ways = [bounds.memory_bytes.zip(group), told.memory_bytes.zip(told.memory_group)];
            let least = ways.into_iter().flatten().min();
            let own = self.own_memory_bytes(ctx);
            let (memory_bytes, memory_group) = least.filter(|(bytes, _)| *bytes < own).unzip();
            let cpus = cpus.map(|cpus| cpus.to_string());
            let limits = limits::kept(&bounds.limits);
            spec.allocation = Some(Allocation { manager, cpus, memory_bytes, memory_group, limits })
                .filter(|one| *one != Allocation::default());
        }
        let refused = beyond(ctx, sets, spec).map(|text| (ErrorCode::Refused, text));
        if let Some(bytes) = spec.allocation.as_ref().and_then(|one| one.memory_bytes) {
            spec.limit_bytes = Some(spec.limit_bytes.map_or(bytes, |limit| limit.min(bytes)));
        }
        refused.map_or(Ok(()), Err)
    }

    /// Looked up once for each connection: its process is one job of a workload manager's for as long as it lives. Of one
    /// that has ended, and left its end of the connection to another, nothing is known.
    fn bounds_of(&mut self, ctx: &Ctx, server: &Server, id: ConnectionId) -> Result<Bounds, Refusal> {
        if let Some(known) = self.known.get(&id) {
            return Ok(known.clone());
        }
        let process = server.process(id);
        let found = process.map(|process| bounds_around(ctx, process.pid));
        // What was read is its own only if it still lives.
        let lives = process.is_some_and(|process| is_alive(&ctx.proc, process));
        let Some(found) = found.filter(|_| lives) else {
            let text = "what connected has ended, so that nobody knows what it may have; connect anew";
            return Err((ErrorCode::Refused, text.to_owned()));
        };
        self.known.insert(id, found.clone());
        Ok(found)
    }

    /// What the groups around this daemon let it have, or the host's memory, in bytes.
    pub(crate) fn own_memory_bytes(&mut self, ctx: &Ctx) -> u64 {
        if self.own_memory_bytes.is_none() {
            self.own_memory_bytes = Some(bounds_around(ctx, std::process::id()).memory_bytes);
        }
        let own = self.own_memory_bytes.flatten();
        own.unwrap_or(u64::MAX).min(ctx.containers.plan().facts.memory_bytes)
    }

    /// Keeps jobs that were handed over from within the same group to its memory together: each may have what it has and
    /// what none of them has, anew with each reading. A group of the kernel's around them all would bound them at any
    /// moment, but would also stand between them and the idle class of other jobs: that holds among groups side by side.
    pub(crate) fn share_allocations(&mut self, jobs: &mut Jobs) {
        let mut shared: BTreeMap<String, (u64, Vec<(JobId, u64)>)> = BTreeMap::new();
        for job in &jobs.running {
            let Some(live) = jobs.table.get(job) else { continue };
            let Some(allocation) = live.row.spec.allocation.as_ref() else { continue };
            let (Some(group), Some(bytes)) = (&allocation.memory_group, allocation.memory_bytes) else {
                continue;
            };
            let charged = live.container.as_ref().and_then(|one| one.charged_bytes().ok().flatten());
            if let Some(charged) = charged {
                let (least, sharers) = shared.entry(group.clone()).or_insert((bytes, Vec::new()));
                *least = bytes.min(*least);
                sharers.push((*job, charged));
            }
        }
        self.near_the_end = false;
        for (all, sharers) in shared.into_values() {
            let charged: Vec<u64> = sharers.iter().map(|(_, charged)| *charged).collect();
            let free = all.saturating_sub(charged.iter().sum());
            let portions = portions(all, &charged);
            self.near_the_end |= sharers.len() > 1 && free < all / NEAR_THE_END_PART;
            for ((job, _), bytes) in sharers.iter().zip(portions) {
                bound_within(&mut jobs.table, *job, bytes);
            }
        }
    }
}

/// The kernel says in whose job the asking process is, whatever its environment says. If that said nothing, the PUs that
/// it was bound to are read from the kernel as well.
fn told_by_groups(ctx: &Ctx, server: &Server, id: ConnectionId, manager: &str, spec: &mut JobSpec) {
    let told = spec.allocation.get_or_insert_default();
    let same = |own: &String| {
        let kind = |name: &str| name.split(' ').next().map(str::to_owned);
        kind(own) == kind(manager) && (own.starts_with(manager) || manager.starts_with(own.as_str()))
    };
    if told.manager.as_ref().is_some_and(same) {
        // It may know more, such as the number of a task.
        return;
    }
    told.manager = Some(manager.chars().take(MANAGER_MAX_BYTES / 4).collect());
    if told.cpus.is_none() {
        let process = server.process(id);
        let status = process.and_then(|process| ctx.proc.status(process.pid).ok().flatten());
        told.cpus = status.map(|status| status.cpus.to_string());
    }
}

/// What a job asks for beyond its allocation, in words.
fn beyond(ctx: &Ctx, sets: &Sets, spec: &JobSpec) -> Option<String> {
    let allocation = spec.allocation.as_ref()?;
    let whose = allocation.manager.as_deref().unwrap_or("the control groups around it");
    if let Some(bytes) = allocation.memory_bytes
        && let Some(claim) = spec.claim_bytes.filter(|&claim| claim > bytes)
    {
        let (claim, bytes) = (show_size(claim), show_size(bytes));
        return Some(format!("--mem {claim} is more than the client may have, {bytes} ({whose})"));
    }
    let most = allocated_cpus(spec)?;
    let all = sets::usable_in_time(ctx);
    let (usable, cores) = (all.intersection(&most), ctx.topology.cores_within(&all));
    let inside = cores.iter().filter(|core| !core.is_disjoint(&most)).count();
    if usable.is_empty() {
        return Some(format!(
            "the client may use PUs {most} ({whose}), and this daemon has none of them: with PINFOLD_SOCKET set to \
             a path of its own, a daemon is started within those"
        ));
    }
    if spec.class != Some(JobClass::Exclusive) && spec.cores as usize > inside {
        let cores = spec.cores;
        return Some(format!(
            "the job needs {cores} cores, and the client may use {inside}, PUs {most} ({whose})"
        ));
    }
    let layout = spec.layout.as_ref()?;
    let set = layout.set.as_deref().and_then(|name| sets.named(name));
    let named = layout.cpus.as_deref().and_then(|text| text.parse::<CpuSet>().ok());
    let beyond = set.map(|set| set.cpus.clone()).into_iter().chain(named);
    let strange = beyond.map(|cpus| cpus.difference(&most)).find(|cpus| !cpus.is_empty());
    match strange {
        Some(strange) => {
            Some(format!("PUs {strange} are not among those that the client may use, {most} ({whose})"))
        }
        None if layout.isolated => {
            Some(format!("--isolated chooses among all cores, and the client may use PUs {most} ({whose})"))
        }
        None => None,
    }
}

pub(crate) fn bounds_around(ctx: &Ctx, pid: u32) -> Bounds {
    let plan = ctx.containers.plan();
    let hierarchies = &plan.facts.hierarchies;
    bounds::around(hierarchies, &plan.hierarchies, &Roots::default(), &ctx.proc, &ctx.instance, pid)
}

/// The same of a process in these groups, as its `/proc/PID/cgroup` tells them; no manager is told.
pub(crate) fn bounds_along(ctx: &Ctx, groups: &str) -> Bounds {
    let plan = ctx.containers.plan();
    bounds::along(&plan.facts.hierarchies, &plan.hierarchies, &Roots::default(), groups, &ctx.instance)
}

/// Of what these bounds let a process have less than a job may that was asked for with this, in words. `own_bytes`: what
/// the groups around this daemon bound anyway.
pub(crate) fn less_than_allocated(
    ctx: &Ctx,
    own_bytes: u64,
    spec: &JobSpec,
    bounds: &Bounds,
) -> Option<String> {
    let allocated = spec.allocation.as_ref();
    let usable = ctx.topology.usable();
    let most = allocated_cpus(spec).map_or_else(|| usable.clone(), |most| most.intersection(&usable));
    if let Some(cpus) = bounds.cpus.as_ref().filter(|cpus| !most.difference(cpus).is_empty()) {
        return Some(format!("PUs {cpus}"));
    }
    let memory = allocated.and_then(|one| one.memory_bytes).unwrap_or(own_bytes);
    if let Some(bytes) = bounds.memory_bytes.filter(|&bytes| bytes < memory) {
        return Some(format!("memory {}", show_size(bytes)));
    }
    let limits = allocated.map_or(&[][..], |one| &one.limits);
    let is_kept = |bound: &&bounds::GroupBound| {
        let what = bound.what.to_string();
        limits.iter().any(|limit| limit.what == what && limit.most <= bound.most)
    };
    let less = bounds.limits.iter().find(|bound| !is_kept(bound))?;
    Some(format!("{} {}", less.what, less.most))
}

/// Bounds a job's memory, and by what it said itself.
fn bound_within(table: &mut JobTable, job: JobId, bytes: u64) {
    let Some(live) = table.get_mut(&job) else { return };
    let bytes = whole_steps(bytes, live.row.spec.limit_bytes);
    if let Some(Err(error)) = live.container.as_mut().map(|container| container.limit(Some(bytes))) {
        tracing::warn!(job = job.0, %error, "a job may come to more memory than is left to it");
    }
}

/// The keeper of a job is gone: one of a workload manager's goes with it, and says so.
pub(crate) fn ends_with_its_keeper(out: &mut Outbox, table: &mut JobTable, job: JobId) {
    let Some(live) = table.get_mut(&job).filter(|live| is_tied(&live.row.spec)) else { return };
    let allocation = live.row.spec.allocation.as_ref();
    let manager = allocation.and_then(|one| one.manager.as_deref()).unwrap_or_default();
    live.row.reason = Some(format!("ended with its keeper, which was part of a job of {manager}"));
    out.journal.touch(job);
    out.push(Effect::Kill(job));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::record::confined;

    #[track_caller]
    fn check(allocation: Option<&str>, given: &str, want: &str) {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        let allocation =
            allocation.map(|cpus| Allocation { cpus: Some(cpus.to_owned()), ..Allocation::default() });
        let spec = JobSpec { allocation, ..JobSpec::default() };
        assert_eq!(confined(&spec, &set(given)), set(want), "{:?} of {given:?}", spec.allocation);
    }

    #[test]
    fn what_is_left_goes_in_steps_and_never_beyond() {
        const MIB: u64 = 1 << 20;
        for (charged, all, bounds) in [
            (&[10 * MIB, 20 * MIB][..], 64 * MIB, &[44 * MIB, 54 * MIB][..]),
            (&[10 * MIB + 1], 64 * MIB, &[64 * MIB]),
            (&[40 * MIB, 30 * MIB], 64 * MIB, &[40 * MIB, 30 * MIB]),
            (&[60 * MIB + 5, MIB], 64 * MIB, &[63 * MIB, 4 * MIB]),
        ] {
            assert_eq!(portions(all, charged), bounds, "{charged:?} of {all}");
        }
        assert_eq!(whole_steps(MIB + 1, None), 2 * MIB);
        assert_eq!(whole_steps(MIB + 1, Some(MIB + 5)), MIB + 5);
    }

    #[test]
    fn memory_without_a_group_is_shared_within_a_users_job() {
        assert_eq!(shared_by("Grid Engine 3", 1000, None), None);
        let shared = shared_by("Grid Engine 3", 1000, Some(1));
        assert_ne!(shared, shared_by("Grid Engine 3", 1001, Some(1)), "somebody else's");
        assert_ne!(shared, shared_by("Grid Engine 3.1", 1000, Some(1)), "another task");
        assert_eq!(shared, shared_by("Grid Engine 3", 1000, Some(2)));
    }

    #[test]
    fn a_job_has_no_more_than_its_allocation() {
        check(None, "0-3", "0-3");
        check(None, "", "");
        check(Some("0-3"), "0-1", "0-1");
        check(Some("0,2"), "0-1", "0");
        check(Some("0,2"), "", "0,2");
        check(Some("4"), "0-1", "0-1");
        check(Some("no list"), "0-1", "0-1");
    }
}
