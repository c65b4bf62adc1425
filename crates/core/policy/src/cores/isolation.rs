//! Isolated jobs: which of them gets whole cores of its own next, and which cores those are.
//!
//! To the rest of the scheduler such a job is one in a reservation. Idle cores are taken first, else such that only
//! best-effort jobs or such of lower priority are on, which move, and any once it has waited for ten minutes. One core
//! is always left for others. Absent: making such a reservation, keeping it over a restart, and what the kernel is
//! told; that is the daemon's.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use pinfold_place::pack;
use pinfold_place::pack::{Demand, Room};
use pinfold_topo::{CpuSet, Topology};

use crate::api::{Instant, JobId};
use crate::cores::grid::Core;
use crate::cores::sets;
use crate::jobs::{Job, Stage, SuspendReason};
use crate::queue::{line, resources};
use crate::rooms::Rooms;

/// After so long any cores will do, whoever is on them.
pub const ANY_CORES_AFTER: Duration = Duration::from_secs(600);

/// Whether nobody could ever have so many of the host's cores alone: one is left for others.
#[must_use]
pub fn is_too_wide(wanted: u32, cores: usize) -> bool {
    wanted as usize >= cores
}

/// These PUs and all others of their cores: what shares a core with a job's PU is not for others either.
#[must_use]
pub fn whole_cores(topology: &Topology, cpus: &CpuSet) -> CpuSet {
    let cores = topology.cores_within(&topology.usable());
    let touched = cores.iter().filter(|core| !core.is_disjoint(cpus));
    touched.fold(cpus.clone(), |all, core| all.union(core))
}

/// Cores of the host on which no job has this priority or a higher one, in logical order; none while an exclusive
/// job has them all.
pub(crate) fn cores_below(rooms: &Rooms, priority: u8) -> Vec<CpuSet> {
    if rooms.cores.exclusive.is_some() {
        return Vec::new();
    }
    let mut lower = vec![true; rooms.cores.grid.len()];
    let stays = |&(theirs, job): &(u8, JobId)| theirs >= priority && !rooms.jobs.is_best_effort(job);
    let as_high = rooms.cores.running.lowest_first().filter(stays);
    for live in as_high.filter_map(|(_, job)| rooms.jobs.live(job)) {
        live.cores.iter().for_each(|&core| lower[core] = false);
    }
    let cores = rooms.cores.grid.iter().zip(lower);
    cores.filter(|&(_, lower)| lower).map(|(core, _)| core.cpus.clone()).collect()
}

/// Cores of the host that no job is on, in logical order; none while an exclusive job has them all.
pub(crate) fn idle_cores(rooms: &Rooms) -> Vec<CpuSet> {
    if rooms.cores.exclusive.is_some() {
        return Vec::new();
    }
    let idle = |core: &&Core| core.home_of.is_none() && core.backfillers == 0;
    rooms.cores.grid.iter().filter(idle).map(|core| core.cpus.clone()).collect()
}

/// Who of these jobs gets cores of its own now, and which: the higher priority first, then the older. Nobody who is
/// held, waits for another job, or is kept back by its array; nothing of what is `taken`, by sets of any kind.
pub(crate) fn next_to_isolate(
    rooms: &Rooms,
    now: Instant,
    waiting: &BTreeSet<JobId>,
    taken: &CpuSet,
) -> Option<(JobId, CpuSet)> {
    let jobs = waiting.iter().filter_map(|job| rooms.jobs.get(job)).filter(|job| may_be_isolated(rooms, job));
    let rank = |job: &Job| {
        let aged = now.since(job.submitted) >= ANY_CORES_AFTER;
        if aged { u8::MAX } else { job.request.priority }
    };
    let mut in_turn: Vec<(Reverse<u8>, JobId, usize)> =
        jobs.map(|job| (Reverse(rank(job)), job.id(), job.slots())).collect();
    in_turn.sort_unstable();
    in_turn.into_iter().find_map(|(Reverse(priority), job, cores)| {
        Some((job, cores_to_isolate(rooms, cores, priority, taken)?))
    })
}

/// Whether a job still has use for the cores that were made its own: it is on them, or can start there.
pub(crate) fn needs_its_cores(rooms: &Rooms, job: JobId) -> bool {
    let Some(job) = rooms.jobs.get(&job) else { return false };
    let enough = |at: usize| rooms.cores.reservations[at].cores.len() >= job.slots();
    job.live().is_some()
        || may_be_isolated(rooms, job) && sets::reservation_of(&rooms.cores, job).is_some_and(enough)
}

/// Whether a job waits for nothing but cores: nobody holds it, and it waits for no other job; or it runs no longer
/// because its cores or its slot went to others.
pub(crate) fn waits_for_cores(rooms: &Rooms, job: JobId) -> bool {
    let Some(job) = rooms.jobs.get(&job) else { return false };
    let why = job.suspend_reason();
    may_be_isolated(rooms, job)
        || matches!(
            why,
            Some(SuspendReason::SlotsShrank | SuspendReason::Preempted { .. } | SuspendReason::Lent { .. })
        )
}

fn may_be_isolated(rooms: &Rooms, job: &Job) -> bool {
    match &job.stage {
        Stage::Waiting(waiting) => {
            let may_start = line::has_room_in_array(rooms, job.id());
            let may_start = may_start && resources::lacking(rooms, job.id()).is_none();
            !waiting.held && !waiting.is_early() && may_start
        }
        Stage::Live(_) => false,
    }
}

/// Cores close together for a job of this priority, with at least one left for others.
fn cores_to_isolate(rooms: &Rooms, count: usize, priority: u8, taken: &CpuSet) -> Option<CpuSet> {
    let pick = |cores: Vec<CpuSet>| {
        let free: Vec<CpuSet> = cores.into_iter().filter(|core| core.is_disjoint(taken)).collect();
        let cpus = close_together(rooms, &free, count)?;
        rooms.cores.grid.iter().any(|core| core.cpus.is_disjoint(&cpus)).then_some(cpus)
    };
    // Those of best-effort jobs before others': such a job runs in what is left, whatever its priority is.
    let left = || pick(cores_below(rooms, 0));
    pick(idle_cores(rooms)).or_else(left).or_else(|| pick(cores_below(rooms, priority)))
}

fn close_together(rooms: &Rooms, cores: &[CpuSet], count: usize) -> Option<CpuSet> {
    if count == 0 || cores.len() < count {
        return None;
    }
    let union = |cores: &[CpuSet]| cores.iter().fold(CpuSet::new(), |all, core| all.union(core));
    let Some(topology) = &rooms.cores.machine.topology else { return Some(union(&cores[..count])) };
    let free = union(cores);
    let topology = Topology::clone(topology).restricted(&free);
    let room = Room { topology: &topology, free: &free, memory_free_bytes: &[], bandwidth_left: &[] };
    Some(pack::pack(&room, &Demand { cores: count, ..Demand::default() })?.pus())
}

#[cfg(test)]
mod tests {
    use pinfold_topo::synthetic::facts_of;

    use super::*;
    use crate::{Aside, Class, Command, Event, Machine, Policy, Request, Settings};

    fn cpus(text: &str) -> CpuSet {
        text.parse().expect("a list of PUs")
    }

    /// A host of two cores on each of two sockets, with a primary of this priority on each of the first cores.
    fn host(busy: &[u8]) -> Policy {
        let topology = facts_of("pack:2 numa:1 core:2 pu:1").expect("a machine").assemble().expect("one");
        let mut policy = Policy::default();
        let settings = Settings { factor_milli: 1000, ..Settings::default() };
        policy.step(Instant(0), Event::Configure(settings));
        policy.step(Instant(0), Event::Machine(Machine::of(&topology, &topology.usable())));
        for (number, &priority) in (1..).zip(busy) {
            let request = Request { priority, ..Request::plain(JobId(number)) };
            policy.step(Instant(0), Event::Submit(request));
        }
        policy
    }

    fn ask(policy: &mut Policy, job: u64, priority: u8, cores: u32) {
        let aside = Some(format!("isolated-{job}"));
        policy.step(
            Instant(0),
            Event::Submit(Request { priority, cores, aside, ..Request::plain(JobId(job)) }),
        );
    }

    fn next(policy: &Policy, now_s: u64, waiting: &[u64], taken: &str) -> Option<(u64, String)> {
        let waiting = waiting.iter().copied().map(JobId).collect();
        let found = policy.next_to_isolate(Instant(now_s * 1_000_000), &waiting, &cpus(taken));
        found.map(|(job, cpus)| (job.0, cpus.to_string()))
    }

    #[test]
    fn idle_cores_go_first_then_those_of_lower_jobs_and_any_after_long() {
        let mut policy = host(&[10]);
        ask(&mut policy, 7, 10, 2);
        let (_, chosen) = next(&policy, 0, &[7], "").expect("three are idle");
        let home = policy.job(JobId(1)).expect("it runs").cpus;
        assert!(cpus(&chosen).is_disjoint(&home) && ["0-1", "2-3"].contains(&chosen.as_str()), "{chosen}");
        assert_eq!(next(&policy, 0, &[7], &chosen), None, "one of the others is busy, with a job as high");
        let mut policy = host(&[10, 10, 10, 10]);
        for (job, priority, now_s, found) in
            [(7, 10, 0, false), (8, 11, 0, true), (7, 10, 599, false), (7, 10, 600, true)]
        {
            ask(&mut policy, job, priority, 1);
            assert_eq!(next(&policy, now_s, &[job], "").is_some(), found, "{job} after {now_s} s");
        }
    }

    #[test]
    fn best_effort_jobs_make_room_whatever_their_priority_is() {
        let mut policy = host(&[3]);
        for number in 2..=6 {
            let class = Some(Class::Backfill);
            let request = Request { priority: 16, class, ..Request::plain(JobId(number)) };
            policy.step(Instant(0), Event::Submit(request));
        }
        ask(&mut policy, 7, 5, 1);
        let home = policy.job(JobId(1)).expect("it runs").cpus;
        let (_, chosen) = next(&policy, 0, &[7], "").expect("three have best-effort jobs only");
        assert!(
            cpus(&chosen).is_disjoint(&home),
            "{chosen}: nor is the primary's, though it is of lower priority"
        );
        ask(&mut policy, 8, 5, 3);
        let (_, chosen) = next(&policy, 0, &[8], "").expect("all three");
        assert!(cpus(&chosen).is_disjoint(&home), "{chosen}");
    }

    #[test]
    fn the_higher_priority_is_first_and_one_core_is_left() {
        let mut policy = host(&[]);
        ask(&mut policy, 7, 10, 1);
        ask(&mut policy, 8, 12, 1);
        ask(&mut policy, 9, 14, 4);
        assert_eq!(next(&policy, 0, &[7, 8, 9], "").map(|(job, _)| job), Some(8), "four would be all");
        assert_eq!(next(&policy, 0, &[7], "0-3"), None);
        assert!(is_too_wide(4, 4) && !is_too_wide(3, 4));
        policy.step(Instant(0), Event::Command(JobId(8), Command::Hold));
        assert_eq!(
            next(&policy, 0, &[7, 8, 9], "").map(|(job, _)| job),
            Some(7),
            "who is held takes nothing"
        );
    }

    #[test]
    fn who_waits_for_another_job_takes_no_cores_yet() {
        let mut policy = host(&[10]);
        let (aside, after) = (Some("isolated-7".to_owned()), vec![JobId(1)]);
        policy.step(Instant(0), Event::Submit(Request { aside, after, ..Request::plain(JobId(7)) }));
        assert_eq!(next(&policy, 0, &[7], ""), None);
        policy.step(Instant(1), Event::Started(JobId(1)));
        policy.step(Instant(2), Event::Exited(JobId(1)));
        assert!(next(&policy, 0, &[7], "").is_some());
    }

    #[test]
    fn cores_are_kept_for_who_can_start_on_them() {
        let topology = facts_of("pack:1 core:2 pu:2").expect("a machine").assemble().expect("one");
        assert_eq!(whole_cores(&topology, &cpus("0")).len(), 2, "its sibling belongs to it");
        let mut policy = host(&[]);
        ask(&mut policy, 7, 10, 2);
        assert!(!policy.needs_its_cores(JobId(7)), "it has none");
        let machine = |own: &str| {
            let cores: Vec<CpuSet> = cpus(own).iter().map(CpuSet::single).collect();
            let name = "isolated-7".to_owned();
            let aside = Aside { name, cores, ..Aside::default() };
            Event::Machine(Machine { asides: vec![aside], ..Machine::flat(vec![cpus("3")]) })
        };
        policy.step(Instant(0), machine("0"));
        assert!(!policy.needs_its_cores(JobId(7)), "one of its two went off line before it started");
        policy.step(Instant(0), machine("0-1"));
        assert!(policy.needs_its_cores(JobId(7)));
        policy.step(Instant(1), machine("0"));
        assert!(policy.needs_its_cores(JobId(7)), "it runs there");
        assert!(!policy.needs_its_cores(JobId(8)), "there is no such job");
    }
}
