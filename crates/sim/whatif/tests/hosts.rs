//! Hosts that decide for themselves beside plain hosts, on the same jobs.

use pinfold_cluster::SECOND;
use pinfold_cluster::dispatch::Dispatch;
use pinfold_cluster::fleet::Fleet;
use pinfold_cluster::graph::Graph;
use pinfold_cluster::job::{Job, LONGEST_S};
use pinfold_cluster::metrics::metrics;
use pinfold_cluster::play::Options;
use pinfold_cluster::runtimes::Runtimes;
use pinfold_policy::{Machine, MemorySettings, Settings};
use pinfold_topo::{CpuSet, PuOs};
use pinfold_whatif::play::{Hardware, Hosts, Outcome, play};

const GIB: u64 = 1 << 30;

fn machine(cores: u32) -> Machine {
    Machine::flat((0..cores).map(|pu| CpuSet::single(PuOs(pu))).collect())
}

/// Hosts of two cores, 10 GiB of RAM and 40 GiB of swap.
fn hardware() -> Hardware {
    Hardware { ram: 10 * GIB, swap: 40 * GIB, out_rate: GIB, in_rate: GIB }
}

fn pinfold(factor_milli: u32, hardware: Option<Hardware>) -> Hosts {
    let memory = MemorySettings {
        governor: hardware.is_some(),
        budget_bytes: hardware.map_or(u64::MAX, |hardware| hardware.ram),
        ..MemorySettings::default()
    };
    let settings = Settings { factor_milli, memory, ..Settings::default() };
    Hosts { pinfold: Some((settings, machine(2))), hardware, contention: None, series: false }
}

fn fleet(hosts: u32, slots: u32) -> Fleet {
    Fleet { hosts, cores: 2, slots, memory: None, job_memory: u64::MAX }
}

fn job(run_s: u64) -> Job {
    Job { run_us: run_s * SECOND, requested_us: 2 * run_s * SECOND, program: 1, ..Job::default() }
}

fn played(jobs: &[Job], fleet: Fleet, hosts: &Hosts) -> Outcome {
    let options = Options { fleet, dispatch: Dispatch::Easy, runtimes: Runtimes::Requested };
    let outcome = play(jobs, &Graph::default(), &options, hosts, |_| {});
    for (job, span) in jobs.iter().zip(&outcome.played.spans) {
        assert!(span.submit_us >= job.submit_us && span.start_us >= span.submit_us, "{job:?} {span:?}");
        assert!(span.end_us >= span.start_us, "{job:?} {span:?}");
    }
    outcome
}

fn makespan_s(jobs: &[Job], fleet: Fleet, hosts: &Hosts) -> f64 {
    metrics(jobs, &played(jobs, fleet, hosts).played.spans, fleet.all_cores()).makespan_s
}

/// A mix of narrow and wide jobs.
fn mix() -> Vec<Job> {
    let one = |number: u64| Job {
        number,
        submit_us: number * 3 * SECOND,
        processors: if number % 5 == 4 { 5 } else { 1 + u32::from(number % 5 == 2) },
        ..job(1 + number * 7 % 60)
    };
    (0..300).map(one).collect()
}

#[test]
fn plain_hosts_are_those_of_the_cluster() {
    let (jobs, fleet) = (mix(), fleet(4, 2));
    let options = Options { fleet, dispatch: Dispatch::Easy, runtimes: Runtimes::Requested };
    let simple = pinfold_cluster::play::play(&jobs, &Graph::default(), &options, |_| {});
    for hosts in [Hosts::plain(None), Hosts::plain(Some(hardware()))] {
        let outcome = played(&jobs, fleet, &hosts);
        assert_eq!((&outcome.played.spans, &outcome.played.parts), (&simple.spans, &simple.parts));
    }
}

#[test]
fn a_job_per_core_is_the_same_under_pinfold() {
    let (jobs, fleet) = (mix(), fleet(4, 2));
    let outcome = played(&jobs, fleet, &pinfold(1000, None));
    assert_eq!(outcome.played.spans, played(&jobs, fleet, &Hosts::plain(None)).played.spans);
    assert_eq!(outcome.toll, Default::default());
}

#[test]
fn backfillers_use_what_primaries_leave() {
    let waits = |_| Job { busy_milli: 500, ..job(100) };
    let jobs: Vec<Job> = (0..16).map(waits).collect();
    let once = makespan_s(&jobs, fleet(1, 2), &Hosts::plain(None));
    assert!((once - 800.0).abs() < 1e-6, "{once}");
    let twice = makespan_s(&jobs, fleet(1, 4), &pinfold(2000, None));
    assert!((400.0..440.0).contains(&twice), "{twice}");
    // Jobs that never wait leave nothing.
    let jobs: Vec<Job> = (0..16).map(|_| job(100)).collect();
    let busy = makespan_s(&jobs, fleet(1, 4), &pinfold(2000, None));
    assert!((795.0..820.0).contains(&busy), "{busy}");
}

#[test]
fn the_last_of_a_list_share_the_cores() {
    let fleet = Fleet::own_host(2, u64::MAX);
    let of = |list| (0..3).map(|_| Job { list, ..job(100) }).collect::<Vec<_>>();
    let apart = makespan_s(&of(0), fleet, &pinfold(2000, None));
    assert!((190.0..201.0).contains(&apart), "{apart}");
    let together = makespan_s(&of(1), fleet, &pinfold(2000, None));
    assert!((149.0..152.0).contains(&together), "{together}");
}

#[test]
fn a_job_that_waits_while_it_grows_computes_afterwards() {
    let fleet = Fleet::own_host(2, u64::MAX);
    let grows = |ramp_busy_milli| Job { busy_milli: 500, ramp_milli: 500, ramp_busy_milli, ..job(100) };
    let four = |ramp_busy_milli| (0..4).map(|_| grows(ramp_busy_milli)).collect::<Vec<_>>();
    let evenly = makespan_s(&four(None), fleet, &pinfold(2000, None));
    assert!((100.0..110.0).contains(&evenly), "{evenly}");
    // All wait at first, and then all want a core.
    let first = makespan_s(&four(Some(1)), fleet, &pinfold(2000, None));
    assert!((149.0..160.0).contains(&first), "{first}");
    let one = makespan_s(&four(Some(1))[..1], fleet, &pinfold(2000, None));
    assert!((one - 100.0).abs() < 0.1, "{one}");
}

#[test]
fn a_job_with_earlier_runs_starts_beside_growing_jobs() {
    let fleet = Fleet::own_host(2, 10 * GIB);
    let grows = |number, memory, runs_before| Job {
        number,
        memory,
        runs_before,
        memory_peak: 6 * GIB,
        ramp_milli: 900,
        ..job(100)
    };
    let two = |memory, runs_before| [1, 2].map(|number| grows(number, memory, runs_before));
    // Their requests count in full until there is evidence for less.
    let asked = makespan_s(&two(6 * GIB, 1), fleet, &pinfold(1000, Some(hardware())));
    assert!((asked - 200.0).abs() < 1.0, "{asked}");
    let known = makespan_s(&two(0, 1), fleet, &pinfold(1000, Some(hardware())));
    assert!(known < 150.0, "{known}");
}

#[test]
fn a_job_that_does_not_fit_waits_instead_of_dying() {
    let large = |number| Job { number, memory_peak: 6 * GIB, memory: GIB, ..job(100) };
    let jobs: Vec<Job> = (0..6).map(large).collect();
    let fleet = Fleet { memory: Some(50 * GIB), job_memory: 10 * GIB, ..fleet(1, 2) };
    // Two at a time hold 12 GiB of 10, without a throttle: they lack a sixth of their accesses.
    let slow = Hardware { in_rate: GIB / 8, ..hardware() };
    let plain_s = makespan_s(&jobs, fleet, &Hosts::plain(Some(slow)));
    assert!(plain_s > 400.0, "{plain_s}");
    // A device as fast as their accesses to missing pages keeps none waiting.
    let plain_s = makespan_s(&jobs, fleet, &Hosts::plain(Some(hardware())));
    assert!((plain_s - 300.0).abs() < 0.1, "{plain_s}");
    let without_swap = Hardware { swap: 0, ..hardware() };
    assert!(played(&jobs, fleet, &Hosts::plain(Some(without_swap))).toll.killed > 0);
    let outcome = played(&jobs, fleet, &pinfold(1000, Some(hardware())));
    assert_eq!(outcome.toll.killed, 0, "{:?}", outcome.toll);
    let frozen = outcome.toll.freezes > 0 && outcome.toll.frozen_us > 0;
    assert!(frozen, "{:?}", outcome.toll);
    let last_s = outcome.played.spans.iter().map(|span| span.end_us).max().unwrap_or(0) / SECOND;
    // In turn they take 600 s, and each goes to swap and back once at most.
    assert!(last_s < 700, "{last_s} {:?}", outcome.toll);
}

#[test]
fn hosts_with_ram_left_come_before_those_that_would_have_to_swap() {
    let asks = |number| Job { number, memory: 6 * GIB, memory_peak: GIB, ..job(100) };
    let jobs: Vec<Job> = (0..3).map(asks).collect();
    let hosts = |fleet| -> Vec<u32> {
        let parts = played(&jobs, fleet, &pinfold(1000, Some(hardware()))).played.parts;
        parts.iter().flat_map(|parts| parts.iter().map(|part| part.host)).collect()
    };
    let fleet = Fleet { memory: Some(20 * GIB), job_memory: 10 * GIB, ..fleet(2, 2) };
    // The third asks for more RAM than any host has left: it is given swap.
    assert_eq!(hosts(fleet)[..2], [0, 1]);
    assert_eq!(hosts(fleet).len(), 3);
}

/// A store and accounting have Unix times; a job may be wide, and may run for years.
#[test]
fn jobs_that_begin_late_or_run_long_come_to_an_end() {
    let fleet = Fleet { hosts: 1, cores: 64, slots: 64, memory: None, job_memory: u64::MAX };
    let small = pinfold(1000, None);
    let settings = small.pinfold.clone().map(|(settings, _)| (settings, machine(64)));
    let hosts = Hosts { pinfold: settings, ..small };
    let wide = |submit_s: u64, run_s: u64, processors| Job {
        submit_us: submit_s * SECOND,
        processors,
        ..job(run_s)
    };
    for jobs in [
        vec![wide(1_790_000_000, 10, 64)],
        vec![wide(LONGEST_S, 10, 1)],
        vec![wide(0, 5 * 365 * 86_400, 63), wide(4 * 365 * 86_400, 10, 1)],
        vec![wide(0, LONGEST_S, 1), wide(LONGEST_S - 1, 10, 1)],
    ] {
        let outcome = played(&jobs, fleet, &hosts);
        assert_eq!(outcome.stuck, 0, "{jobs:?}");
        let ends = jobs.iter().map(|job| job.submit_us + job.run_us);
        assert!(ends.eq(outcome.played.spans.iter().map(|span| span.end_us)), "{jobs:?}");
    }
}

#[test]
fn a_list_that_outlasts_the_clock_comes_to_an_end() {
    let jobs = vec![Job { processors: 2, ..job(LONGEST_S) }; 600];
    let options = Options { fleet: fleet(1, 2), dispatch: Dispatch::Fcfs, runtimes: Runtimes::Requested };
    let outcome = play(&jobs, &Graph::default(), &options, &pinfold(1000, Some(hardware())), |_| {});
    assert!((1..600).contains(&outcome.stuck), "{}", outcome.stuck);
}

#[test]
fn without_swap_one_job_dies_for_the_others() {
    let large = |number| Job { number, memory_peak: 6 * GIB, ..job(100) };
    let jobs: Vec<Job> = (0..2).map(large).collect();
    let without_swap = Hardware { swap: 0, ..hardware() };
    assert_eq!(played(&jobs, fleet(1, 2), &Hosts::plain(Some(without_swap))).toll.killed, 1);
}

#[test]
fn the_same_jobs_give_the_same_history() {
    let jobs: Vec<Job> = mix()
        .into_iter()
        .map(|job| Job { memory_peak: (job.number % 7) * GIB, busy_milli: 700, ..job })
        .collect();
    let fleet = Fleet { memory: Some(50 * GIB), job_memory: 10 * GIB, ..fleet(4, 3) };
    let run = || {
        let outcome = played(&jobs, fleet, &pinfold(1500, Some(hardware())));
        (outcome.played.spans, outcome.toll)
    };
    let (spans, toll) = run();
    assert!(toll.freezes > 0, "{toll:?}");
    assert_eq!((spans, toll), run());
}
