//! Backups beside a writer, restores, and looking through.

use super::*;
use crate::store::offline;

fn filled(dir: &Path) -> Store {
    let mut store = open(dir);
    for job in 1..=50 {
        store.insert_job(&exited(job)).unwrap();
        store.add_sample(&sample(job, 2_000_000 + job)).unwrap();
        store.add_decision(&decision(job, "start")).unwrap();
        store.put_process(&ProcessRow { job, number: 1, count: 1, ..ProcessRow::default() }).unwrap();
    }
    store
}

#[test]
fn a_backup_beside_a_writer_is_whole_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = filled(dir.path());
    let to = dir.path().join("copy.db");
    // In the middle of a turn: what is not committed is not in the copy.
    store.begin().unwrap();
    store.insert_job(&queued(99)).unwrap();
    let report = offline::backup(dir.path(), &to).unwrap();
    store.commit().unwrap();
    assert_eq!((report.jobs, report.samples, report.problems.len()), (50, 50, 0));
    assert_eq!(fs::metadata(&to).unwrap().permissions().mode() & 0o777, 0o600);
    let checked = offline::check(dir.path()).unwrap();
    assert_eq!((checked.jobs, checked.decisions, checked.problems.len()), (51, 50, 0));
    drop(store);
    let other = tempfile::tempdir().unwrap();
    let restored = offline::restore(&to, other.path()).unwrap();
    assert_eq!((restored.kept, restored.report.jobs), (None, 50));
    let store = open(other.path());
    assert_eq!(store.job(50).unwrap(), Some(exited(50)));
    assert_eq!(store.processes(50).unwrap().len(), 1);
    drop(store);
    // Again over what is there: that is kept.
    let restored = offline::restore(&to, dir.path()).unwrap();
    let kept = restored.kept.expect("there was a store");
    assert!(kept.exists());
    let mut store = open(dir.path());
    assert_eq!((store.job(99).unwrap(), store.next_job()), (None, 51));
}

#[test]
fn what_is_no_store_is_not_restored() {
    let dir = tempfile::tempdir().unwrap();
    drop(filled(dir.path()));
    let before = fs::read(dir.path().join(FILE_NAME)).unwrap();
    let bad = dir.path().join("bad");
    fs::write(&bad, b"not a store").unwrap();
    assert!(offline::restore(&bad, dir.path()).is_err());
    let mut torn = before.clone();
    let half = torn.len() / 2;
    torn[half..half + 4096].fill(0xA5);
    fs::write(&bad, torn).unwrap();
    assert!(offline::restore(&bad, dir.path()).is_err());
    assert!(offline::restore(&dir.path().join("nowhere"), dir.path()).is_err());
    assert_eq!(fs::read(dir.path().join(FILE_NAME)).unwrap(), before, "nothing has changed");
}

#[test]
fn damage_is_found_beside_a_writer() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = filled(dir.path());
    store.checkpoint().unwrap();
    drop(store);
    let path = dir.path().join(FILE_NAME);
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - 3000;
    // To its end, where the last page has what it holds.
    bytes[at..].fill(0xFF);
    fs::write(&path, bytes).unwrap();
    let found = offline::check(dir.path());
    assert!(found.is_err() || !found.unwrap().problems.is_empty());
}
