//! A writer that is killed at any moment keeps what it said it kept.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use super::*;

const DIRECTORY: &str = "PINFOLD_TEST_STORE_WRITER";

/// The writing process of the test below: it is this test program started again, and without the variable
/// there is nothing to write.
#[test]
fn writer() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let mut store = open(Path::new(&dir));
    let mut out = std::io::stdout();
    loop {
        let job = store.next_job();
        store.begin().unwrap();
        store.insert_job(&queued(job)).unwrap();
        store.add_decision(&decision(job, "queue")).unwrap();
        store.update_job(&JobRow { state: JobState::Running, ..queued(job) }).unwrap();
        (0..job % 7).for_each(|time_us| store.add_sample(&sample(job, time_us)).unwrap());
        store.commit().unwrap();
        if writeln!(out, "kept {job}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

#[test]
fn no_job_is_lost_when_the_writer_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let mut kept = 0;
    // Different counts of jobs before each kill, so that it falls on different moments of the log and on the
    // automatic checkpoints in between.
    for count in [1, 2, 3, 50, 7, 400, 90, 1, 1_200, 30] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::killed::writer", "--nocapture"])
            .env(DIRECTORY, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said =
            lines.map(Result::unwrap).filter_map(|line| line.strip_prefix("kept ")?.parse::<u64>().ok());
        let last = said.take(count).last().expect("the writer runs until it is killed");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(last > kept, "the writer went on after job {kept}, not {last}");
        kept = last;

        let mut store = open(dir.path());
        let jobs = store.unfinished().unwrap();
        for (row, job) in jobs.iter().zip(1..) {
            assert_eq!(*row, JobRow { state: JobState::Running, ..queued(job) });
        }
        assert!(jobs.len() as u64 >= kept, "{} jobs are there of {kept}", jobs.len());
        for job in [1, kept / 2 + 1, kept] {
            assert_eq!(store.decisions(job).unwrap(), vec![decision(job, "queue")]);
            assert_eq!(store.samples(job).unwrap().len() as u64, job % 7);
        }
        assert_eq!(store.next_job(), jobs.len() as u64 + 1);
        assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
    }
}
