//! How many processes, how much processor time, swap, input and output a job may have: what bounded the process that asked for it,
//! which it left behind when it was given a group of its own, and what pinfold bounds itself, so that no job takes all the
//! processes that a host can have.
//!
//! Several jobs that were asked for from within one group share what that group may have: each may have a part, one of as
//! many as there are of them, in powers of two, so that all parts together are never more than the whole and a part changes
//! seldom. The jobs of a user share what a user may have in the same way. What the group's other processes have is not
//! counted. Owns what the host can have. Absent here: finding the bounds (`sys::bounds`), and the files (`sys::container`).

use std::collections::BTreeMap;

use pinfold_policy::JobId;
use pinfold_proto::GroupLimit;
use pinfold_proto::config::Config;
use pinfold_proto::wire::ErrorCode;
use pinfold_sys::bounds::{Bounds, GroupBound};
use pinfold_sys::container::{Limited, Limits};
use pinfold_sys::procfs::Proc;

use crate::core::{Ctx, Refusal, in_full};
use crate::jobs::{JobRecord, Jobs};

/// A job may have one part in so many of the processes that the host can have, where nothing is configured,
const PART_OF_A_JOB: u64 = 4;
/// and all jobs of a user one in so many.
const PART_OF_A_USER: u64 = 2;
/// No job is left with fewer processes by what pinfold bounds itself, however many of its user's run.
const PROCESSES_MIN: u64 = 64;

/// How many processes and threads a host can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostProcesses(u64);

impl HostProcesses {
    pub(crate) fn read(proc: &Proc) -> Self {
        let number = |file: &str| proc.text(file).ok().flatten()?.trim().parse::<u64>().ok();
        let bounds = [number("sys/kernel/pid_max"), number("sys/kernel/threads-max")];
        // The kernel's own default, where it does not say.
        Self(bounds.into_iter().flatten().min().unwrap_or(32_768))
    }

    fn of_a_job(self, config: &Config) -> u64 {
        config.limits_processes.map_or(self.0 / PART_OF_A_JOB, u64::from).max(1)
    }

    fn of_a_user(self, config: &Config) -> u64 {
        config.limits_user_processes.map_or(self.0 / PART_OF_A_USER, u64::from).max(1)
    }
}

/// How what is bounded is kept in a job's row.
pub(crate) fn kept(bounds: &[GroupBound]) -> Vec<GroupLimit> {
    let limit = |bound: &GroupBound| GroupLimit {
        what: bound.what.to_string(),
        most: bound.most,
        group: bound.group.display().to_string(),
    };
    bounds.iter().map(limit).collect()
}

/// The part that each of so many may have: of as many parts as the next power of two.
fn part(all: u64, sharers: u64) -> u64 {
    all / sharers.max(1).checked_next_power_of_two().unwrap_or(u64::MAX)
}

/// How many jobs share what.
#[derive(Debug, Default)]
struct Sharers<'a> {
    groups: BTreeMap<(&'a str, &'a str), u64>,
    users: BTreeMap<u32, u64>,
}

/// Whether a job takes its part of this: a suspended one has processes and swap, and does nothing.
fn takes_part(live: &JobRecord, limit: &GroupLimit) -> bool {
    live.row.frozen_since_us.is_none() || matches!(limit.what.as_str(), "processes" | "swap")
}

impl<'a> Sharers<'a> {
    fn count(&mut self, live: &'a JobRecord) {
        *self.users.entry(live.row.uid).or_default() += 1;
        for limit in group_limits(live).iter().filter(|limit| takes_part(live, limit)) {
            *self.groups.entry((&limit.what, &limit.group)).or_default() += 1;
        }
    }

    /// What one of them may have, of what groups bound and of processes: of those, `job` and `user` are what pinfold bounds.
    fn limits(&self, live: &JobRecord, own: Option<(u64, u64)>) -> Limits {
        let mut limits = Limits::default();
        if let Some((job, user)) = own {
            let users = part(user, self.users.get(&live.row.uid).copied().unwrap_or(1));
            limits.bound(Limited::Processes, job.min(users.max(PROCESSES_MIN.min(user))));
        }
        for limit in group_limits(live) {
            // One that does nothing keeps the part that it will have once it goes on.
            let sharers = self.groups.get(&(limit.what.as_str(), limit.group.as_str())).copied().unwrap_or(1);
            if let Ok(what) = limit.what.parse() {
                limits.bound(what, part(limit.most, sharers));
            }
        }
        limits
    }
}

fn group_limits(live: &JobRecord) -> &[GroupLimit] {
    live.row.spec.allocation.as_ref().map_or(&[], |allocation| &allocation.limits)
}

impl HostProcesses {
    /// What a job about to start may have. Those that it shares with are kept to their smaller parts first.
    pub(crate) fn limits_at_start(&mut self, ctx: &Ctx, jobs: &mut Jobs, job: JobId) -> Limits {
        self.share_limits_with(ctx, jobs, Some(job))
    }

    /// Keeps every running job to its part.
    pub(crate) fn share_limits(&mut self, ctx: &Ctx, jobs: &mut Jobs) {
        self.share_limits_with(ctx, jobs, None);
    }

    fn share_limits_with(&mut self, ctx: &Ctx, jobs: &mut Jobs, starting: Option<JobId>) -> Limits {
        let config = &ctx.configured.config;
        let own = (self.of_a_job(config), self.of_a_user(config));
        let own = ctx.containers.can_limit(&Limited::Processes).then_some(own);
        let mut sharers = Sharers::default();
        let sharing: Vec<JobId> =
            jobs.running.iter().copied().chain(starting.filter(|job| !jobs.running.contains(job))).collect();
        sharing.iter().filter_map(|job| jobs.table.get(job)).for_each(|live| sharers.count(live));
        let limits_of = |job: &JobId| Some((*job, sharers.limits(jobs.table.get(job)?, own)));
        let all: Vec<(JobId, Limits)> = sharing.iter().filter_map(limits_of).collect();
        let mut at_start = Limits::default();
        for (job, limits) in all {
            if Some(job) == starting {
                at_start = limits;
                continue;
            }
            let container = jobs.table.get_mut(&job).and_then(|live| live.container.as_deref_mut());
            if let Some(Err(error)) = container.map(|container| container.restrict(&limits)) {
                tracing::warn!(job = job.0, error = %in_full(&error), "a job may have more than its part");
            }
        }
        at_start
    }
}

/// Refuses a request from within bounds that a job's group cannot be given here.
pub(crate) fn can_carry_over(ctx: &Ctx, bounds: &Bounds) -> Result<(), Refusal> {
    match bounds.limits.iter().find(|bound| !ctx.containers.can_limit(&bound.what)) {
        None => Ok(()),
        Some(GroupBound { what, most, group }) => {
            let group = group.display();
            let text = format!(
                "the control group {group} bounds the client ({what}: {most}), and jobs of this daemon cannot be \
                 kept to that"
            );
            Err((ErrorCode::Refused, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use pinfold_proto::row::JobRow;
    use pinfold_proto::{Allocation, JobSpec};

    use super::*;

    fn live(job: u64, uid: u32, limits: &[(&str, u64, &str)]) -> JobRecord {
        let limit = |(what, most, group): &(&str, u64, &str)| GroupLimit {
            what: (*what).to_owned(),
            most: *most,
            group: (*group).to_owned(),
        };
        let limits = limits.iter().map(limit).collect();
        let allocation = Some(Allocation { limits, ..Allocation::default() });
        let spec = JobSpec { allocation, ..JobSpec::default() };
        JobRecord::new(JobRow::asked_for(job, uid, String::new(), spec, 0), false)
    }

    #[test]
    fn all_parts_together_are_never_more_than_the_whole() {
        for sharers in 1..200 {
            let part = part(10_000, sharers);
            assert!(part * sharers <= 10_000, "{sharers} of {part}");
            assert!(part * sharers * 2 > 10_000 - 2 * 256, "{sharers} of {part}: more than half is used");
        }
        assert_eq!(part(7, u64::MAX), 0);
    }

    #[test]
    fn jobs_of_one_group_share_what_it_may_have() {
        let jobs = [
            live(1, 5, &[("processes", 100, "/a"), ("cpu", 2_000_000, "/a")]),
            live(2, 5, &[("processes", 100, "/a"), ("processes", 30, "/a/b"), ("cpu", 2_000_000, "/a")]),
            live(3, 6, &[("processes", 100, "/c"), ("no such thing", 1, "/c")]),
        ];
        let mut sharers = Sharers::default();
        jobs.iter().for_each(|live| sharers.count(live));
        let of = |live: &JobRecord, what: Limited| sharers.limits(live, None).of(&what);
        let processes = jobs.each_ref().map(|live| of(live, Limited::Processes));
        assert_eq!(processes, [Some(50), Some(30), Some(100)]);
        assert_eq!(
            jobs.each_ref().map(|live| of(live, Limited::Cpu)),
            [Some(1_000_000), Some(1_000_000), None]
        );
        // What pinfold bounds itself counts as well, and the smaller bound holds.
        let own = |live: &JobRecord| sharers.limits(live, Some((90, 80))).of(&Limited::Processes);
        assert_eq!(jobs.each_ref().map(own), [Some(50), Some(30), Some(80)]);
    }

    #[test]
    fn a_job_that_stands_still_leaves_its_time_to_the_others() {
        let limits = [("processes", 100, "/a"), ("cpu", 1_000_000, "/a")];
        let (one, mut other) = (live(1, 5, &limits), live(2, 5, &limits));
        other.row.frozen_since_us = Some(1);
        let mut sharers = Sharers::default();
        [&one, &other].into_iter().for_each(|live| sharers.count(live));
        let found = sharers.limits(&one, None);
        assert_eq!((found.of(&Limited::Processes), found.of(&Limited::Cpu)), (Some(50), Some(1_000_000)));
    }

    #[test]
    fn no_user_takes_all_processes_of_the_host() {
        let host = HostProcesses(32_768);
        let config = Config::default();
        let own = (host.of_a_job(&config), host.of_a_user(&config));
        assert_eq!(own, (8_192, 16_384));
        let jobs: Vec<JobRecord> = (0..8).map(|job| live(job, 5, &[])).collect();
        let mut sharers = Sharers::default();
        jobs.iter().for_each(|live| sharers.count(live));
        assert_eq!(sharers.limits(&jobs[0], Some(own)).of(&Limited::Processes), Some(2_048));
        let (config, _) =
            config.with_changes(["limits.processes=10", "limits.user_processes=9"]).expect("they fit");
        assert_eq!((host.of_a_job(&config), host.of_a_user(&config)), (10, 9));
    }
}
