//! The error of this coarse world, which goes from event to event, against the fine world in steps of 10 ms and pages: the
//! same jobs, the same policy, too little memory.

use pinfold_cluster::dispatch::Dispatch;
use pinfold_cluster::fleet::Fleet;
use pinfold_cluster::graph::Graph;
use pinfold_cluster::job::Job;
use pinfold_cluster::play::Options;
use pinfold_cluster::runtimes::Runtimes;
use pinfold_policy::{Machine, MemorySettings, Settings};
use pinfold_sim::dice::Dice;
use pinfold_sim::pressure;
use pinfold_sim::pressure::footprint::{Footprint, Plan};
use pinfold_sim::pressure::options::{Regime, Task};
use pinfold_sim::pressure::world::Hardware as Fine;
use pinfold_topo::{CpuSet, PuOs};
use pinfold_whatif::play::{Hardware, Hosts, play};

const KIB: u64 = 1 << 10;
const CORES: u32 = 2;
/// The device's rate in a second, in KiB.
const RATE: u64 = 500 << 10;

/// A host and jobs that together hold more than it has.
struct Mix {
    ram: u64,
    tasks: Vec<Task>,
}

fn mix(seed: u64) -> Mix {
    let mut dice = Dice::new(seed);
    let ram = dice.pick(&[2u64, 4, 8]) << 20;
    let tasks = (0..dice.between(4, 14))
        .map(|_| Task {
            plan: Plan {
                work_us: dice.between(20, 200) * 1_000_000,
                peak: ram * dice.between(100, 700) / 1000,
                footprint: Footprint::Walk { grow_milli: 333 },
                hot_milli: 1000,
                touch: 1000,
                read: 0,
                width: 1,
            },
            arrives_us: 0,
            kind: None,
            asked: None,
            priority: 10,
            no_suspend: false,
            requeue: false,
            checkpoint: false,
            project: None,
        })
        .collect();
    Mix { ram, tasks }
}

fn settings(mix: &Mix, factor_milli: u32) -> Settings {
    let memory = MemorySettings { budget_bytes: mix.ram * KIB, ..MemorySettings::default() };
    Settings { factor_milli, memory, ..Settings::default() }
}

/// The makespan in the world of 10 ms, in seconds.
fn fine(seed: u64, mix: &Mix, factor_milli: u32) -> f64 {
    let all: u64 = mix.tasks.iter().map(|task| task.plan.peak).sum();
    let options = pressure::Options {
        hardware: Fine {
            cores: CORES.into(),
            ram: mix.ram,
            swap: 2 * all,
            out_rate: RATE,
            in_rate: RATE,
            latency_us: 20,
            strict_lru: true,
            others: 0,
            swing: 0,
            swing_us: 1,
        },
        reserve: 0,
        outside: 0,
        settings: settings(mix, factor_milli),
        regime: Regime::Ample,
        tasks: mix.tasks.clone(),
        history: Vec::new(),
        start_us: 0,
        freeze_us: 0,
        lag_us: 0,
        missing_permille: 0,
        lie_permille: 0,
        cache_permille: 0,
        fail_permille: 0,
        stall_readings: true,
        crash_us: 0,
        suspend_us: 0,
        budget_us: 0,
    };
    let outcome = pressure::run_with(seed, options).expect("a sound episode");
    assert_eq!(outcome.lost, 0);
    outcome.makespan_us as f64 / 1e6
}

fn coarse(mix: &Mix, factor_milli: u32) -> f64 {
    let job = |task: &Task| Job {
        run_us: task.plan.work_us,
        requested_us: task.plan.work_us,
        memory_peak: task.plan.peak * KIB,
        ..Job::default()
    };
    let jobs: Vec<Job> = mix.tasks.iter().map(job).collect();
    let rate = RATE * KIB;
    let hardware = Hardware { ram: mix.ram * KIB, swap: u64::MAX / 4, out_rate: rate, in_rate: rate };
    let machine = Machine::flat((0..CORES).map(|pu| CpuSet::single(PuOs(pu))).collect());
    let hosts = Hosts {
        pinfold: Some((settings(mix, factor_milli), machine)),
        hardware: Some(hardware),
        contention: None,
        series: false,
    };
    // All are handed over at once: jobs that wait, wait on the host.
    let fleet = Fleet { hosts: 1, cores: CORES, slots: 100, memory: None, job_memory: u64::MAX };
    let options = Options { fleet, dispatch: Dispatch::Fcfs, runtimes: Runtimes::Requested };
    let outcome = play(&jobs, &Graph::default(), &options, &hosts, |_| {});
    assert_eq!((outcome.stuck, outcome.toll.killed), (0, 0));
    outcome.played.spans.iter().map(|span| span.end_us).max().unwrap_or(0) as f64 / 1e6
}

/// The figures of 40 mixes are in `docs/sim-accuracy.md`: `PINFOLD_MIXES=40` and `--nocapture` print them, in a minute.
#[test]
#[expect(clippy::disallowed_methods, reason = "only the crate itself knows no environment")]
fn the_coarse_world_is_near_the_fine_one() {
    let asked = std::env::var("PINFOLD_MIXES").ok();
    compare(asked.and_then(|count| count.parse().ok()).unwrap_or(5));
}

#[track_caller]
#[expect(clippy::print_stdout, reason = "the figures are for people")]
fn compare(mixes: u64) {
    let (mut errors, mut named, mut pairs) = (Vec::new(), 0, 0);
    for seed in 0..mixes {
        let mix = mix(seed);
        let [once, twice] = [1000, 2000].map(|factor| (fine(seed, &mix, factor), coarse(&mix, factor)));
        for (fine, coarse) in [once, twice] {
            errors.push((coarse / fine - 1.0).abs());
        }
        if (once.0 / twice.0 - 1.0).abs() >= 0.05 {
            pairs += 1;
            named += i32::from((once.0 < twice.0) == (once.1 < twice.1));
        }
    }
    errors.sort_by(f64::total_cmp);
    let at = |percent: usize| 100.0 * errors[(errors.len() * percent / 100).min(errors.len() - 1)];
    println!(
        "{} runs: error of the makespan {:.1} % in the median, {:.1} % for 90 of 100, at most {:.1} %; of {pairs} pairs \
         that differ by 5 %, {named} are named right",
        errors.len(),
        at(50),
        at(90),
        at(100)
    );
    assert!(at(50) < 6.0 && at(90) < 20.0, "{} {}", at(50), at(90));
}
