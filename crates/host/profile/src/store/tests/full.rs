//! A disk without room costs the turn, not the store.

use std::process::Command;

use super::*;

/// Writes turns of ten jobs from `job` on until one cannot be kept; gives the first job of that turn.
fn fill(store: &mut Store, mut job: u64) -> u64 {
    for _ in 0..10_000 {
        match turn(store, job) {
            Ok(()) => job += 10,
            Err(error) => {
                assert!(error.is_full(), "{error:?}");
                return job;
            }
        }
    }
    panic!("the disk is never full");
}

/// One turn, as a daemon writes it: what fails is only asked for at its end.
fn turn(store: &mut Store, first: u64) -> Result<(), StoreError> {
    store.begin()?;
    for job in first..first + 10 {
        let _ = store.insert_job(&queued(job));
        let _ = store.add_decision(&decision(job, &"long words ".repeat(50)));
    }
    store.commit()
}

#[track_caller]
fn check_store(store: &mut Store, jobs: u64) {
    let held: Vec<u64> = store.unfinished().unwrap().iter().map(|row| row.job).collect();
    assert_eq!(held, (1..=jobs).collect::<Vec<_>>());
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_file_that_may_not_grow() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.connection.pragma_update(None, "max_page_count", 200).unwrap();
    let first = fill(&mut store, 1);
    check_store(&mut store, first - 1);
    assert!(turn(&mut store, first).unwrap_err().is_full(), "it is still full");
    store.connection.pragma_update(None, "max_page_count", 2_000).unwrap();
    turn(&mut store, first).unwrap();
    check_store(&mut store, first + 9);
}

#[test]
fn a_failed_write_undoes_its_turn_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.connection.pragma_update(None, "max_page_count", 60).unwrap();
    store.begin().unwrap();
    let full = (1..).find_map(|job| store.insert_job(&queued(job)).err()).unwrap();
    assert!(matches!(full, StoreError::Full { .. }), "{full:?}");
    assert!(matches!(store.insert_job(&queued(1)), Err(StoreError::Undone { full: true, .. })));
    assert!(matches!(store.commit(), Err(StoreError::Undone { full: true, .. })));
    check_store(&mut store, 0);
    store.begin().unwrap();
    store.insert_job(&queued(1)).unwrap();
    store.commit().unwrap();
    check_store(&mut store, 1);
}

/// A file system of its own, unmounted when dropped.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount(size: &str) -> Result<Self, String> {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(dir.path())
            .output()
            .map_err(|error| error.to_string())?;
        if mounted.status.success() {
            Ok(Self(dir))
        } else {
            Err(String::from_utf8_lossy(&mounted.stderr).into())
        }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_disk_that_is_full_and_then_not() {
    let tmpfs = match Tmpfs::mount("1m") {
        Ok(tmpfs) => tmpfs,
        Err(why) => {
            eprintln!("skipped: no tmpfs can be mounted here: {why}");
            return;
        }
    };
    let ballast = tmpfs.0.path().join("ballast");
    fs::write(&ballast, vec![1; 300 << 10]).unwrap();
    let mut store = open(tmpfs.0.path());
    let first = fill(&mut store, 1);
    check_store(&mut store, first - 1);
    assert!(turn(&mut store, first).unwrap_err().is_full());
    fs::remove_file(&ballast).unwrap();
    turn(&mut store, first).unwrap();
    check_store(&mut store, first + 9);
    drop(store);
    check_store(&mut open(tmpfs.0.path()), first + 9);
}
