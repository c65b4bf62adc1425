//! The processes of a job that was adopted move into its container, as its turn comes. The groups that they leave bound
//! them no longer, so that the job is kept to what these let each of them have.
//!
//! Absent here: asking for such a job (`adopted`), and how processes are held (`sys::container`).

use std::collections::{BTreeMap, BTreeSet};

use pinfold_policy::{Action, JobId};
use pinfold_proto::Adopted;
use pinfold_proto::quantity::show_size;
use pinfold_proto::row::ProcessId;
use pinfold_proto::wire::ErrorCode;
use pinfold_sys::adoptee::{self, Processes};
use pinfold_sys::bounds::Bounds;
use pinfold_sys::container::{Container, ContainerError, Entered, Limited, Shape};
use pinfold_sys::managers;
use pinfold_sys::own;
use pinfold_sys::procfs::ProcessStat;
use pinfold_topo::CpuSet;

use crate::core::{Event, Refusal, in_full, is_alive};
use crate::host::allocation;
use crate::jobs::endings;
use crate::reactor::Daemon;
use crate::reactor::adopted::{PROCESSES_MAX, taken};

/// How often is looked for processes that were forked while others were moved.
const ROUNDS_MAX: usize = 64;
/// The groups that the processes of one job are in may have so many levels above them in all: each is looked at.
const LEVELS_MAX: usize = 256;

/// Which groups, as `/proc/PID/cgroup` tells them, bound a process more than its job, and what they let it have.
#[derive(Debug, Default)]
struct Known {
    by_groups: BTreeMap<String, Option<String>>,
    levels: usize,
    /// Whether some are the job's own: a try before moved processes there.
    has_own: bool,
}

/// How many groups there are above a process, in the hierarchy in which there are most.
fn levels(groups: &str) -> usize {
    groups.lines().map(|line| line.matches('/').count()).max().unwrap_or(0)
}

/// What such processes hold already that is more than all of them together would have, in words.
fn hold_more(found: &[ProcessStat], bounds: &Bounds) -> Option<String> {
    let page = own::page_bytes();
    if let Some(bytes) = bounds.memory_bytes {
        // The largest, not the sum: what they share would count for each of them.
        let held = found.iter().map(|stat| (stat.resident_pages.saturating_mul(page), stat.pid)).max();
        if let Some((held, pid)) = held.filter(|(held, _)| *held > bytes) {
            let [bytes, held] = [bytes, held].map(show_size);
            return Some(format!("memory {bytes}, and process {pid} holds {held}"));
        }
    }
    let threads: u64 = found.iter().map(|stat| stat.threads).sum();
    let processes = bounds.limits.iter().filter(|bound| bound.what == Limited::Processes);
    let most = processes.map(|bound| bound.most).min().filter(|&most| most < threads)?;
    Some(format!("{most} processes and threads, and they are {threads}"))
}

impl Daemon {
    /// What the groups around these processes, each of them, let them have. What stays in its groups is bounded by them all
    /// the same: those of the first tell what the job has.
    pub(super) fn bounds_around_all(&self, found: &[ProcessStat], in_place: bool) -> Result<Bounds, Refusal> {
        let first = found[0].pid;
        if in_place || self.is_rootless() {
            return Ok(allocation::bounds_around(&self.ctx, first));
        }
        let refused = |text: String| Err((ErrorCode::Refused, format!("{text}; adopt parts of them")));
        let groups = self.groups_of(found.iter().map(|stat| stat.pid));
        if groups.len() > 1 && groups.keys().map(|groups| levels(groups)).sum::<usize>() > LEVELS_MAX {
            return refused(format!(
                "its processes are in {} control groups, too many or too deep to look at for one job",
                groups.len()
            ));
        }
        let none = Bounds { manager: managers::of_process(&self.ctx.proc, first), ..Bounds::default() };
        let all =
            groups.keys().fold(none, |all, groups| all.and(allocation::bounds_along(&self.ctx, groups)));
        if all.cpus.as_ref().is_some_and(CpuSet::is_empty) {
            let text = "the groups of its processes let them use different PUs, and none in common";
            return refused(text.to_owned());
        }
        match hold_more(found, &all).filter(|_| groups.len() > 1) {
            Some(what) => refused(format!(
                "its processes are in {} control groups, and as one job they would have the least of each: {what}",
                groups.len()
            )),
            None => Ok(all),
        }
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

    /// Those of these processes whose groups let them have less than the job may, and of what. Where they stay in their
    /// groups these bound them all the same.
    fn bounded_more(
        &mut self,
        job: JobId,
        pids: impl Iterator<Item = u32>,
        known: &mut Known,
    ) -> BTreeMap<u32, String> {
        let mut more = BTreeMap::new();
        let own_bytes = self.clients.askers.own_memory_bytes(&self.ctx);
        let Some(spec) = self.jobs.table.get(&job).map(|live| &live.row.spec) else { return more };
        if self.is_rootless() || spec.adopted.as_ref().is_some_and(|adopted| adopted.in_place.is_some()) {
            return more;
        }
        for (groups, pids) in self.groups_of(pids) {
            let what = match known.by_groups.get(&groups) {
                Some(what) => what.clone(),
                None if known.levels + levels(&groups) > LEVELS_MAX && known.levels > 0 => {
                    Some("they are too many or too deep to look at".to_owned())
                }
                None => {
                    let bounds = allocation::bounds_along(&self.ctx, &groups);
                    let is_own = bounds.job == Some(job.0);
                    let less = || allocation::less_than_allocated(&self.ctx, own_bytes, spec, &bounds);
                    let what = if is_own { None } else { less() };
                    known.has_own |= is_own;
                    known.levels += levels(&groups);
                    known.by_groups.insert(groups, what.clone());
                    what
                }
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
        let mut known = Known::default();
        let pids = adopted.processes.iter().map(|(pid, _)| *pid);
        let more = self.bounded_more(job, pids, &mut known).pop_first();
        if let Some((pid, what)) = more.filter(|_| !known.has_own) {
            let reason =
                format!("the groups of process {pid} bound it more than the job: {what}; adopt it again");
            self.withdrawn(job, reason);
            return None;
        }
        let main = adopted.processes[0];
        self.ctx.containers.takes_in(job.0, taken(&adopted));
        let (container, entered) = match self.moved(job, &shape, &adopted, known) {
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
        mut groups: Known,
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
            let bounded_more = self.bounded_more(job, fresh.iter().map(|stat| stat.pid), &mut groups);
            for stat in fresh {
                if let Some(what) = bounded_more.get(&stat.pid) {
                    let pid = stat.pid;
                    tracing::warn!(job = job.0, pid, %what, "a process stays in groups that bound it more");
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

#[cfg(test)]
mod tests {
    use pinfold_sys::bounds::GroupBound;

    use super::*;

    #[test]
    fn what_is_held_already_is_no_more_than_one_job_would_have() {
        let found = [(7, 3, 1_000), (8, 2, 10)];
        let found = found.map(|(pid, threads, resident_pages)| ProcessStat {
            pid,
            threads,
            resident_pages,
            ..ProcessStat::default()
        });
        let check = |memory_bytes, most: Option<u64>, want: Option<&str>| {
            let bound = |most| GroupBound { what: Limited::Processes, most, group: "g".into() };
            let limits = most.into_iter().map(bound).collect();
            let told = hold_more(&found, &Bounds { memory_bytes, limits, ..Bounds::default() });
            assert_eq!(told.is_some(), want.is_some(), "{told:?}");
            assert!(told.unwrap_or_default().contains(want.unwrap_or_default()), "{want:?}");
        };
        check(None, None, None);
        check(Some(u64::MAX), Some(5), None);
        check(Some(4_096), None, Some("process 7 holds"));
        check(None, Some(4), Some("4 processes and threads, and they are 5"));
    }

    #[test]
    fn the_deepest_hierarchy_counts() {
        assert_eq!((levels("0::/\n"), levels("3:cpuset:/a/b\n2:memory:/\n0::/c\n"), levels("")), (1, 2, 0));
    }
}
