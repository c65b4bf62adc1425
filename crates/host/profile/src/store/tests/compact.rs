//! Samples packed and thinned: nothing is lost that should stay, and how small it gets.

use super::*;
use crate::store::{blocks, compact};

const S: u64 = 1_000_000;
const DAY: u64 = 86_400 * S;

/// A busy job as the daemon would sample it each second: nothing stays as it was, and the timer is late by a little.
fn busy(job: u64, count: u64) -> Vec<SampleRow> {
    let mut seed = job;
    let mut noise = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let (mut cpu, mut system, mut read, mut memory) = (0, 0, 0, 100 << 20);
    (0..count)
        .map(|at| {
            cpu += 950_000 + noise(100_000);
            system += noise(40_000);
            read += if noise(4) == 0 { noise(1 << 22) & !4095 } else { 0 };
            memory += noise(3 << 20) & !4095;
            SampleRow {
                job,
                time_us: 1_000 * S + at * S + noise(800),
                cpu_user_us: cpu,
                cpu_system_us: system,
                memory_bytes: memory,
                cache_bytes: Some(read / 2),
                io_read_bytes: read,
                stalls: Some(Stalls { cpu_us: cpu / 50, ..Stalls::default() }),
                ..sample(job, 0)
            }
        })
        .collect()
}

proptest! {
    #[test]
    fn blocks_come_back_as_they_were(samples in proptest::collection::vec(any_sample(), 0..40)) {
        let samples: Vec<SampleRow> = samples.into_iter().map(|one| SampleRow { job: 9, ..one }).collect();
        let before = blocks::pack_as(&samples, blocks::SPARSE_ONLY);
        prop_assert!(blocks::pack(&samples).len() <= before.len());
        prop_assert_eq!(blocks::unpack(9, &before), Some(samples.clone()), "as the version before wrote it");
        prop_assert_eq!(blocks::unpack(9, &blocks::pack(&samples)), Some(samples));
    }

    #[test]
    fn hostile_blocks_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = blocks::unpack(1, &bytes);
        for version in [1u8, 2] {
            let _ = blocks::unpack(1, &[&[version, 5][..], &bytes].concat());
            // Dense, from the first column on.
            let _ = blocks::unpack(1, &[&[version, 5, 1 << 6][..], &bytes].concat());
        }
    }
}

#[test]
fn a_sample_takes_at_most_16_bytes() {
    let samples = busy(3, 3600);
    let bytes = blocks::pack(&samples).len();
    assert!(bytes <= 16 * samples.len(), "{} bytes a sample", bytes as f64 / samples.len() as f64);
}

/// Every counter moves, none of them evenly; one of them jumps once.
#[test]
fn all_counters_of_a_busy_job_take_at_most_14_bytes() {
    let mut samples = busy(3, 3600);
    for (at, sample) in (0u64..).zip(&mut samples) {
        let noise = at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let waited_us = at * 20_000 + noise % 20_000;
        sample.virtual_bytes += at / 10 * 4096 + if at > 1000 { 1 << 40 } else { 0 };
        sample.io_write_bytes = at / 8 * (1 << 20);
        sample.cache_bytes = sample.cache_bytes.map(|bytes| bytes + at * 4096 * 32 + noise % 32 * 4096);
        sample.stalls = Some(Stalls { cpu_us: waited_us, io_us: at / 4 * 4_000, ..Stalls::default() });
    }
    let bytes = blocks::pack(&samples).len();
    assert!(bytes <= 14 * samples.len(), "{} bytes a sample", bytes as f64 / samples.len() as f64);
    assert_eq!(blocks::unpack(3, &blocks::pack(&samples)), Some(samples));
    // One that waits takes next to nothing.
    let idle: Vec<SampleRow> = (0..3600).map(|at| sample(3, 1_000_000 * at)).collect();
    let idle: Vec<SampleRow> = idle.into_iter().map(|one| SampleRow { cpu_user_us: 7, ..one }).collect();
    assert!(blocks::pack(&idle).len() < 100, "{}", blocks::pack(&idle).len());
}

#[test]
fn jobs_that_are_over_are_packed_and_thinned_as_they_age() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    for job in 1..=40 {
        let ended_us = Some(5_000 * S);
        store.insert_job(&JobRow { ended_us, ..exited(job) }).unwrap();
    }
    store.insert_job(&queued(99)).unwrap();
    store.begin().unwrap();
    let samples = busy(2, 4000);
    samples.iter().chain(&busy(99, 10)).for_each(|row| store.add_sample(row).unwrap());
    store.commit().unwrap();
    let all = |store: &mut Store, now_us: u64| {
        let mut jobs = 0;
        loop {
            let done = store.compact(now_us).unwrap();
            jobs += done.jobs;
            if !done.more {
                return jobs;
            }
        }
    };
    assert_eq!(all(&mut store, 5_001 * S), 0, "too early");
    let now_us = 5_000 * S + compact::PACK_AFTER_US;
    assert_eq!(all(&mut store, now_us), 40);
    assert_eq!(all(&mut store, now_us), 0, "once");
    let loose: i64 =
        store.connection.query_row("SELECT count(*) FROM samples", [], |row| row.get(0)).unwrap();
    assert_eq!(loose, 10, "what is not over stays as it is");
    assert_eq!(store.samples(2).unwrap(), samples);
    assert_eq!((store.check().unwrap().samples, store.check().unwrap().problems), (4010, Vec::new()));
    all(&mut store, 5_000 * S + compact::MINUTES_AFTER_US);
    let minutes = store.samples(2).unwrap();
    assert!((66..=68).contains(&minutes.len()), "{}", minutes.len());
    let peak = |of: &[SampleRow]| of.iter().map(|one| one.memory_bytes).max();
    assert_eq!(peak(&minutes), peak(&samples), "no peak is lost");
    assert_eq!(minutes.last().map(|one| one.cpu_user_us), samples.last().map(|one| one.cpu_user_us));
    all(&mut store, 5_000 * S + compact::HOURS_AFTER_US);
    assert!(store.samples(2).unwrap().len() <= 3);
    store.prune(5_000 * S + 90 * DAY).unwrap();
    store.prune(5_000 * S + 90 * DAY).unwrap();
    assert_eq!(store.samples(2).unwrap(), Vec::new());
    assert_eq!(store.samples(99).unwrap().len(), 10);
}

#[test]
fn a_long_job_is_packed_while_it_runs() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.insert_job(&queued(7)).unwrap();
    let samples = busy(7, 500);
    samples.iter().for_each(|row| store.add_sample(row).unwrap());
    store.pack(7, 100).unwrap();
    assert_eq!(store.samples(7).unwrap(), samples);
    store.pack(7, 0).unwrap();
    assert_eq!(store.samples(7).unwrap(), samples);
}

#[test]
fn a_damaged_block_is_named_and_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.insert_job(&exited(1)).unwrap();
    busy(1, 10).iter().for_each(|row| store.add_sample(row).unwrap());
    store.pack(1, 5).unwrap();
    store.connection.execute("UPDATE blocks SET data = x'01FF'", []).unwrap();
    assert_eq!(store.samples(1).unwrap().len(), 5);
    assert_eq!(store.check().unwrap().problems, ["1 blocks of samples cannot be read"]);
}
