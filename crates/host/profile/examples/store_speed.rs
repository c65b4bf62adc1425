//! Jobs per second that the store takes, each in its own transactions, as the daemon writes a short job: submitted,
//! started, ended, with two decisions. `cargo run --release -p pinfold-profile --example store_speed`

use std::io::Write;
use std::time::Instant;

use pinfold_profile::store::Store;
use pinfold_proto::row::{DecisionRow, JobRow, SampleRow};
use pinfold_proto::{JobSpec, JobState};

const JOBS: u64 = 20_000;
const SAMPLES: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout();
    let dir = std::env::temp_dir().join(format!("pinfold-store-speed-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let mut store = Store::open(&dir)?.store;
    let begun = Instant::now();
    for _ in 0..JOBS {
        let job = store.next_job();
        store.begin()?;
        write_job(&mut store, job)?;
        store.commit()?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    writeln!(out, "one transaction a job: {:.0} jobs/s", JOBS as f64 / seconds)?;
    let begun = Instant::now();
    for _ in 0..JOBS / 100 {
        store.begin()?;
        for _ in 0..100 {
            let job = store.next_job();
            write_job(&mut store, job)?;
        }
        store.commit()?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    writeln!(out, "one transaction a hundred jobs: {:.0} jobs/s", JOBS as f64 / seconds)?;
    let begun = Instant::now();
    for time_us in 0..SAMPLES / 10 {
        store.begin()?;
        (1..=10).try_for_each(|job| store.add_sample(&sample(job, time_us * 1_000_000)))?;
        store.commit()?;
    }
    let seconds = begun.elapsed().as_secs_f64();
    writeln!(out, "ten samples a transaction: {:.0} samples/s", SAMPLES as f64 / seconds)?;
    store.checkpoint()?;
    let begun = Instant::now();
    let report = store.check()?;
    writeln!(out, "check: {:.2} s, {} bytes", begun.elapsed().as_secs_f64(), report.file_bytes)?;
    drop(store);
    let begun = Instant::now();
    Store::open(&dir)?;
    writeln!(out, "open: {:.2} s", begun.elapsed().as_secs_f64())?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn write_job(store: &mut Store, job: u64) -> Result<(), pinfold_profile::store::StoreError> {
    let spec = JobSpec {
        name: "true".to_owned(),
        command: vec!["true".to_owned()],
        directory: "/home/ada".to_owned(),
        cores: 1,
        ..JobSpec::default()
    };
    let mut row = JobRow::asked_for(job, 1000, "ada".to_owned(), spec, job);
    store.insert_job(&row)?;
    store.add_decision(&decision(job, "start as primary on 0", "a slot is free"))?;
    row.state = JobState::Running;
    row.started_us = Some(job + 1);
    row.cpus = Some("0".to_owned());
    store.update_job(&row)?;
    row.state = JobState::Exited;
    row.ended_us = Some(job + 2);
    row.usage.cpu_user_us = 900;
    store.add_decision(&decision(job, "close", "the command exited with 0"))?;
    store.update_job(&row)
}

fn decision(job: u64, action: &str, reason: &str) -> DecisionRow {
    DecisionRow { job, time_us: job, action: action.to_owned(), reason: reason.to_owned(), codes: None }
}

fn sample(job: u64, time_us: u64) -> SampleRow {
    SampleRow {
        job,
        time_us,
        state: JobState::Running,
        cpu_user_us: time_us,
        cpu_system_us: time_us / 10,
        memory_bytes: 1 << 30,
        cache_bytes: Some(1 << 28),
        swap_bytes: 0,
        virtual_bytes: 1 << 32,
        io_read_bytes: time_us,
        io_write_bytes: time_us / 2,
        processes: 4,
        threads: 9,
        stalls: None,
    }
}
