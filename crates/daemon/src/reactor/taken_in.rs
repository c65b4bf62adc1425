//! The processes of a job that was adopted move into its container, as its turn comes. The groups that they leave bound
//! them no longer, so that the job is kept to what these let each of them have.
//!
//! Absent here: asking for such a job (`adopted`), and how processes are held (`sys::container`).

use std::collections::{BTreeMap, BTreeSet};

use pinfold_policy::{Action, JobId};
use pinfold_proto::Adopted;
use pinfold_proto::row::ProcessId;
use pinfold_proto::wire::ErrorCode;
use pinfold_sys::adoptee::{self, Processes};
use pinfold_sys::bounds::Bounds;
use pinfold_sys::container::{Container, ContainerError, Entered, Shape};
use pinfold_sys::procfs::ProcessStat;
use pinfold_topo::CpuSet;

use crate::core::{Event, Refusal, in_full, is_alive};
use crate::host::allocation;
use crate::jobs::endings;
use crate::reactor::Daemon;
use crate::reactor::adopted::{PROCESSES_MAX, taken};

/// How often is looked for processes that were forked while others were moved.
const ROUNDS_MAX: usize = 64;
/// The processes of one job may be in so many different groups. Each costs a look at all groups above it.
const GROUPS_MAX: usize = 16;

impl Daemon {
    /// What the groups around these processes, each of them, let them have. What stays in its groups (`in_place`) is bounded
    /// by them all the same: those of the first tell what the job has.
    pub(super) fn bounds_around_all(&self, found: &[ProcessStat], in_place: bool) -> Result<Bounds, Refusal> {
        let first = allocation::bounds_around(&self.ctx, found[0].pid);
        if in_place {
            return Ok(first);
        }
        let groups = self.groups_of(found.iter().map(|stat| stat.pid));
        if groups.len() > GROUPS_MAX {
            let text = format!("its processes are in {} groups, and {GROUPS_MAX} are the most", groups.len());
            return Err((ErrorCode::Refused, format!("{text}; adopt parts of them")));
        }
        let all =
            groups.keys().fold(first, |all, groups| all.and(allocation::bounds_along(&self.ctx, groups)));
        if all.cpus.as_ref().is_some_and(CpuSet::is_empty) {
            let text = "the groups of its processes let them use different PUs, and none in common; adopt parts of them";
            return Err((ErrorCode::Refused, text.to_owned()));
        }
        Ok(all)
    }

    /// Processes by the groups that they are in, as their `/proc/PID/cgroup` tells these.
    fn groups_of(&self, pids: impl Iterator<Item = u32>) -> BTreeMap<String, Vec<u32>> {
        let mut groups: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for pid in pids {
            if let Some(text) = self.ctx.proc.text(&format!("{pid}/cgroup")).ok().flatten() {
                groups.entry(text).or_default().push(pid);
            }
        }
        groups
    }

    /// Those of these processes whose groups let them have less by now than the job may, and of what. Where they stay in
    /// their groups these bound them all the same.
    fn bounded_more(&mut self, job: JobId, processes: &[(u32, u64)]) -> BTreeMap<u32, String> {
        let mut more = BTreeMap::new();
        let own_bytes = self.clients.askers.own_memory_bytes(&self.ctx);
        let Some(spec) = self.jobs.table.get(&job).map(|live| &live.row.spec) else { return more };
        if self.is_rootless() || spec.adopted.as_ref().is_some_and(|adopted| adopted.in_place.is_some()) {
            return more;
        }
        let groups = self.groups_of(processes.iter().map(|(pid, _)| *pid));
        for ((groups, pids), count) in groups.into_iter().zip(1..) {
            let what = if count > GROUPS_MAX {
                Some(format!("they are in more than {GROUPS_MAX} groups"))
            } else {
                let bounds = allocation::bounds_along(&self.ctx, &groups);
                allocation::less_than_allocated(&self.ctx, own_bytes, spec, &bounds)
            };
            what.into_iter().for_each(|what| more.extend(pids.iter().map(|&pid| (pid, what.clone()))));
        }
        more
    }

    /// Moves the processes of such a job into its container, now that it may start.
    pub(super) fn take_in(&mut self, job: JobId, action: Action) -> Option<Event> {
        if let Some(why) = self.host.resources.put_off(job) {
            return Some(Event::PutOff(job, action, why));
        }
        if let Err(unready) =
            self.surroundings.set_up(&self.ctx, &mut self.outbox, &mut self.jobs.table, job)?
        {
            return Some(unready.into_event(job, action));
        }
        let limits = self.host.host_processes.limits_at_start(&self.ctx, &mut self.jobs, job);
        let live = self.jobs.table.get(&job)?;
        let (shape, mut adopted) = (Shape { limits, ..live.shape() }, live.row.spec.adopted.clone()?);
        adopted
            .processes
            .retain(|&(pid, start_ticks)| is_alive(&self.ctx.proc, ProcessId { pid, start_ticks }));
        if adopted.processes.is_empty() {
            self.withdrawn(job, endings::ENDED_BEFORE.to_owned());
            return None;
        }
        if let Some((pid, what)) = self.bounded_more(job, &adopted.processes).pop_first() {
            let reason =
                format!("process {pid} has come into groups that bound it more: {what}; adopt it again");
            self.withdrawn(job, reason);
            return None;
        }
        let main = adopted.processes[0];
        self.ctx.containers.takes_in(job.0, taken(&adopted));
        let (container, entered) = match self.moved(job, &shape, &adopted) {
            Ok(moved) => moved,
            Err(error) => return Some(Event::NotCarried(job, action, in_full(&error))),
        };
        let sum = |of: fn(&ProcessStat) -> u64| entered.iter().map(of).sum::<u64>();
        adopted.before_ticks = (
            sum(|stat| stat.user_ticks + stat.children_user_ticks),
            sum(|stat| stat.system_ticks + stat.children_system_ticks),
        );
        // Groups know which processes are in them, so that one is enough to remember.
        let kept = if self.knows_each(&adopted) { PROCESSES_MAX } else { 1 };
        adopted.processes = entered.iter().take(kept).map(|stat| (stat.pid, stat.start_ticks)).collect();
        self.ctx.containers.takes_in(job.0, taken(&adopted));
        container.used_before(adopted.before_ticks);
        self.host.guard.takes_in(job.0, &adopted.processes, adopted.in_place.is_some());
        let now_us = self.ctx.clock.now_us();
        entered.iter().for_each(|stat| self.meters.processes.bind(job, stat.pid, now_us));
        let live = self.jobs.table.get_mut(&job)?;
        live.row.main = Some(ProcessId { pid: main.0, start_ticks: main.1 });
        live.row.spec.adopted = Some(adopted);
        live.orphaned = true;
        self.started(job, container);
        self.first_reading(job);
        self.outbox.journal.touch(job);
        self.watch_container(job);
        self.watch_adopted(job);
        self.answer_starts(job);
        Some(Event::Carried(job, action))
    }

    /// Reads what it holds already: it may be over before the first sample.
    fn first_reading(&mut self, job: JobId) {
        let now_us = self.ctx.clock.now_us();
        let read = self.meters.read_now(&self.ctx, &mut self.jobs.table, job);
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        if let (Some((measure, _)), Some(meter)) = (read, &mut live.meter) {
            let row = meter.reading(&crate::meters::sample::reading(&measure, now_us, live.row.state));
            live.row.usage = meter.usage();
            self.outbox.journal.sampled(row);
        }
    }

    /// Makes the container, or takes that of a try before, and moves the processes in, again until no new one appears.
    fn moved(
        &mut self,
        job: JobId,
        shape: &Shape,
        adopted: &Adopted,
    ) -> Result<(Container, Vec<ProcessStat>), ContainerError> {
        let container = match self.ctx.containers.create(job.0, shape) {
            Err(error @ ContainerError::Occupied { .. }) => {
                let mut left = self.ctx.containers.adopt(job.0, None)?.ok_or(error)?;
                left.bind(&shape.cpus)?;
                left.share(shape.share)?;
                left.limit(shape.limit_bytes)?;
                left.restrict(&shape.limits)?;
                left
            }
            made => made?,
        };
        let named: Vec<u32> = adopted.processes.iter().map(|(pid, _)| *pid).collect();
        let (mut entered, mut known) = (Vec::new(), BTreeSet::new());
        let kept = self.kept_processes();
        for _ in 0..ROUNDS_MAX {
            let all = Processes::read(&self.ctx.proc)?;
            let mut fresh = all.tree(&named);
            fresh.retain(|stat| known.insert((stat.pid, stat.start_ticks)));
            if fresh.is_empty() {
                break;
            }
            let above = self.jobs_above(&all, &fresh);
            let numbers: Vec<(u32, u64)> = fresh.iter().map(|stat| (stat.pid, stat.start_ticks)).collect();
            let bounded_more = self.bounded_more(job, &numbers);
            for stat in fresh {
                if let Some(what) = bounded_more.get(&stat.pid) {
                    tracing::warn!(job = job.0, pid = stat.pid, %what, "a process stays in groups that bound it more");
                    continue;
                }
                let id = ProcessId { pid: stat.pid, start_ticks: stat.start_ticks };
                let Some(process) = self.ctx.process_again(id) else { continue };
                if self.may_enter(job, &stat, &kept, &above)
                    && container.enter_process(&process)? == Entered::Yes
                {
                    entered.push(stat);
                }
            }
        }
        Ok((container, entered))
    }

    /// Whether one that descends from those that were asked for may come along: what has become another job since, or
    /// keeps one, may not; nor what is another user's by now, unless an operator asked.
    fn may_enter(
        &self,
        job: JobId,
        stat: &ProcessStat,
        kept: &BTreeSet<(u32, u64)>,
        above: &BTreeMap<u32, JobId>,
    ) -> bool {
        let Some(row) = self.jobs.table.get(&job).map(|live| &live.row) else { return false };
        let any_user = row.spec.adopted.as_ref().is_some_and(|adopted| adopted.any_user);
        let standing = adoptee::standing(&self.ctx.proc, stat.pid).ok().flatten();
        if !any_user && standing.is_none_or(|one| one.user != row.uid || one.mixed) {
            return false;
        }
        is_alive(&self.ctx.proc, ProcessId { pid: stat.pid, start_ticks: stat.start_ticks })
            && stat.pid != std::process::id()
            && !kept.contains(&(stat.pid, stat.start_ticks))
            && self
                .managed(stat.pid, above, &self.environs(row.uid, vec![stat.pid]))
                .is_none_or(|whose| whose == (true, job.0))
    }
}
