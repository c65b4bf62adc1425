use pinfold_proto::row::{Counts, Stalls, Usage};
use pinfold_proto::{Ending, JobState};
use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

fn reading(time_s: u64, memory_mib: u64) -> Reading {
    Reading {
        time_us: time_s * 1_000_000,
        state: JobState::Running,
        cpu_user_us: 0,
        cpu_system_us: 0,
        memory_bytes: memory_mib * MIB,
        anonymous_bytes: None,
        shared_bytes: None,
        memory_peak_kernel_bytes: None,
        cache_bytes: None,
        mapped_bytes: None,
        process_file_bytes: None,
        kernel_bytes: None,
        swap_bytes: 0,
        virtual_bytes: 0,
        io_read_bytes: None,
        io_write_bytes: None,
        processes: 1,
        threads: 1,
        stalls: None,
        counts: Counts::default(),
    }
}

/// A job as it was and as it is measured; sizes in MiB, `None` where the host does not tell.
#[derive(Default)]
struct Job {
    sampled: Option<u64>,
    charged_peak: Option<u64>,
    cache: Option<u64>,
    mapped: Option<u64>,
    kernel: Option<u64>,
    process_file: Option<u64>,
    rss_peak: Option<u64>,
    transferred: u64,
    processes: u32,
}

#[track_caller]
fn check_peak(what: &str, job: &Job, want_mib: u64) {
    let last = Reading {
        memory_peak_kernel_bytes: job.charged_peak.map(|mib| mib * MIB),
        cache_bytes: job.cache.map(|mib| mib * MIB),
        mapped_bytes: job.mapped.map(|mib| mib * MIB),
        process_file_bytes: job.process_file.map(|mib| mib * MIB),
        kernel_bytes: job.kernel.map(|mib| mib * MIB),
        io_write_bytes: Some(job.transferred * MIB),
        processes: job.processes,
        ..reading(9, 0)
    };
    let ending = job.rss_peak.map(|mib| Ending { rss_peak_bytes: mib * MIB, ..Ending::default() });
    let mut meter = Meter::new(1);
    if let Some(sampled) = job.sampled {
        meter.reading(&reading(1, sampled));
    }
    assert_eq!(meter.finish(Some(&last), ending.as_ref()).memory_peak_bytes / MIB, want_mib, "{what}");
}

#[test]
fn the_peak_is_memory_and_not_cache() {
    let job = Job { sampled: Some(500), ..Job::default() };
    check_peak("only readings", &job, 500);
    let job = Job { sampled: Some(10), charged_peak: Some(312), cache: Some(2), ..Job::default() };
    check_peak("a spike between readings", &job, 310);
    let job = Job { sampled: Some(5), charged_peak: Some(4100), cache: Some(4090), ..Job::default() };
    check_peak("a copy of 4 GiB of files", &Job { rss_peak: Some(6), transferred: 8192, ..job }, 10);
    let job = Job { charged_peak: Some(150), cache: Some(10), kernel: Some(130), ..Job::default() };
    check_peak("a walk through many directories", &Job { rss_peak: Some(8), ..job }, 10);
}

#[test]
fn a_spike_is_seen_though_cache_grows_later() {
    let job = Job { sampled: Some(20), charged_peak: Some(2000), cache: Some(1990), ..Job::default() };
    let job = Job { mapped: Some(1), rss_peak: Some(300), transferred: 1990, ..job };
    check_peak("spike first, files later", &job, 299);
    let job = Job { mapped: Some(1900), rss_peak: Some(1920), ..job };
    check_peak("a large file mapped, not a spike", &job, 20);
}

#[test]
fn every_process_has_a_thread() {
    let mut meter = Meter::new(1);
    let sample = meter.reading(&Reading { processes: 4, threads: 3, ..reading(1, 1) });
    let usage = meter.finish(None, None);
    assert_eq!((sample.processes, sample.threads), (4, 4));
    assert_eq!((usage.processes_peak, usage.threads_peak), (4, 4));
}

#[test]
fn libraries_do_not_lift_a_sampled_peak() {
    let job = Job { sampled: Some(500), rss_peak: Some(508), ..Job::default() };
    check_peak("the resident size counts libraries", &job, 500);
    let job = Job { rss_peak: Some(8), ..Job::default() };
    check_peak("nothing but the resident size", &job, 8);
    let job = Job { sampled: Some(100), rss_peak: Some(400), ..Job::default() };
    check_peak("no container, a spike", &job, 400);
}

#[test]
fn without_a_container_a_reading_on_the_way_up_is_not_the_peak() {
    let job = Job { sampled: Some(93), process_file: Some(2), rss_peak: Some(102), ..Job::default() };
    check_peak("its end is known, its libraries too", &job, 100);
    let job = Job { sampled: Some(200), ..job };
    check_peak("two processes at once", &job, 200);
    let job = Job { sampled: Some(5), process_file: Some(900), rss_peak: Some(905), ..Job::default() };
    check_peak("a large file mapped", &job, 5);
}

#[test]
fn a_file_that_came_and_went_is_not_memory() {
    let short = Job {
        charged_peak: Some(305),
        cache: Some(1),
        rss_peak: Some(3),
        transferred: 300,
        ..Job::default()
    };
    check_peak("300 MiB written and deleted unseen", &short, 3);
    check_peak("the same size as eight short processes", &Job { transferred: 0, ..short }, 304);
    let many = Job { processes: 8, rss_peak: Some(40), ..short };
    check_peak("processes enough to hold it", &many, 304);
}

#[test]
fn the_mean_is_weighted_with_time() {
    let mut meter = Meter::new(1);
    meter.reading(&reading(0, 100));
    assert_eq!(meter.usage().memory_mean_bytes, 100 * MIB, "one reading is its own mean");
    meter.reading(&reading(9, 100));
    meter.reading(&reading(10, 300));
    assert_eq!(meter.usage().memory_mean_bytes, 110 * MIB, "nine seconds of 100, one from 100 to 300");
    let after = reading(11, 0);
    assert_eq!(
        meter.finish(Some(&after), None).memory_mean_bytes,
        110 * MIB,
        "the empty container is no sample"
    );
}

#[test]
fn cpu_time_is_the_larger_source_whole() {
    let ending = Ending { cpu_user_us: 900, cpu_system_us: 50, ..Ending::default() };
    let mut meter = Meter::new(1);
    meter.reading(&Reading { cpu_user_us: 100, cpu_system_us: 60, ..reading(1, 1) });
    let usage = meter.clone().finish(None, Some(&ending));
    assert_eq!((usage.cpu_user_us, usage.cpu_system_us), (900, 50));
    let last = Reading { cpu_user_us: 2_000, cpu_system_us: 10, ..reading(2, 0) };
    let usage = meter.finish(Some(&last), Some(&ending));
    assert_eq!((usage.cpu_user_us, usage.cpu_system_us), (2_000, 60), "a total never goes back");
}

#[test]
fn a_restart_loses_nothing() {
    let mut meter = Meter::new(1);
    meter.reading(&Reading { cache_bytes: Some(40 * MIB), ..reading(10, 200) });
    meter.reading(&Reading { io_read_bytes: Some(7), ..reading(20, 200) });
    let stored = meter.usage();
    let mut meter = Meter::resume(1, stored, 0, 20_000_000);
    assert_eq!(meter.usage(), stored);
    let sample = meter.reading(&Reading { memory_peak_kernel_bytes: Some(300 * MIB), ..reading(40, 200) });
    assert_eq!(sample.io_read_bytes, 7, "a missing counter keeps its last value");
    let usage = meter.finish(None, None);
    assert_eq!(usage.memory_peak_bytes, 260 * MIB, "the cache of before the restart is still taken off");
    assert_eq!((usage.memory_mean_bytes, usage.samples), (200 * MIB, 3));
}

#[test]
fn a_job_without_a_reading_has_its_endings_figures() {
    let ending =
        Ending { cpu_user_us: 5, rss_peak_bytes: 2 * MIB, io_write_bytes: 4096, ..Ending::default() };
    let usage = Meter::new(1).finish(None, Some(&ending));
    let want = Usage {
        cpu_user_us: 5,
        memory_peak_bytes: 2 * MIB,
        memory_mean_bytes: 2 * MIB,
        io_write_bytes: 4096,
        processes_total: 1,
        processes_peak: 1,
        threads_peak: 1,
        ..Usage::default()
    };
    assert_eq!(usage, want);
}

prop_compose! {
    fn any_reading()(
        numbers in proptest::array::uniform12(prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 0..1u64 << 40]),
        present in proptest::array::uniform6(any::<bool>()),
    ) -> Reading {
        let maybe = |at: usize| present[at].then_some(numbers[at]);
        Reading {
            anonymous_bytes: None,
            shared_bytes: None,
            counts: Counts::default(),
            time_us: numbers[6],
            state: JobState::Running,
            cpu_user_us: numbers[7],
            cpu_system_us: numbers[8],
            memory_bytes: numbers[9],
            memory_peak_kernel_bytes: maybe(0),
            cache_bytes: maybe(1),
            mapped_bytes: maybe(2),
            process_file_bytes: maybe(2),
            kernel_bytes: maybe(3),
            swap_bytes: numbers[10],
            virtual_bytes: numbers[11],
            io_read_bytes: maybe(4),
            io_write_bytes: maybe(5),
            processes: 1,
            threads: 1,
            stalls: present[5].then_some(Stalls { cpu_us: numbers[0], memory_us: numbers[1], ..Stalls::default() }),
        }
    }
}

proptest! {
    #[test]
    fn any_readings_give_growing_totals(
        readings in proptest::collection::vec(any_reading(), 0..12),
        rss_peak_bytes in any::<u64>(),
    ) {
        let mut meter = Meter::new(1);
        let mut before = meter.usage();
        for reading in &readings {
            let sample = meter.reading(reading);
            let now = meter.usage();
            prop_assert!(sample.cpu_user_us >= before.cpu_user_us && sample.io_read_bytes >= before.io_read_bytes);
            prop_assert!(now.memory_peak_bytes >= reading.memory_bytes);
            before = now;
        }
        let largest = readings.iter().map(|reading| reading.memory_bytes).max().unwrap_or(0);
        let usage = meter.finish(None, Some(&Ending { rss_peak_bytes, ..Ending::default() }));
        prop_assert!(usage.memory_peak_bytes >= largest);
        prop_assert_eq!(usage.samples, readings.len() as u64);
        if !readings.is_empty() {
            prop_assert!(usage.memory_mean_bytes <= largest);
        }
    }
}
