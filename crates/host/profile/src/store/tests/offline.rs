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

/// A directory that cannot be looked into is not one without a store: the cause is told. (Root may look into any, so what
/// is in the way here is a file.)
#[test]
fn a_store_that_cannot_be_looked_for_is_not_said_to_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    let why = |dir: &Path| match offline::check(dir).unwrap_err() {
        StoreError::File { source, .. } => source,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(dir.path()).to_string(), "there is no store");
    fs::write(dir.path().join("file"), "").unwrap();
    assert_eq!(why(&dir.path().join("file")).kind(), std::io::ErrorKind::NotADirectory);
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
fn other_files_are_not_restored() {
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

/// A daemon would go on in a file without a name.
#[test]
fn a_backup_does_not_take_the_store_s_place() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path());
    let other = dir.path().join("other.db");
    fs::hard_link(store.path(), &other).unwrap();
    for to in [store.path(), &other] {
        let error = offline::backup(dir.path(), to).unwrap_err();
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert!(why.contains("the store itself"), "{why}");
    }
    fs::remove_file(&other).unwrap();
    // One that a program works on.
    let elsewhere = tempfile::tempdir().unwrap();
    let at_work = filled(elsewhere.path());
    let error = offline::backup(dir.path(), at_work.path()).unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("at work"), "{error}");
    assert_eq!(open(dir.path()).job(50).unwrap(), Some(exited(50)));
}

/// The next start removes files of these names, whatever is in them.
#[test]
fn no_backup_has_a_name_that_only_passes() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = filled(dir.path());
    let names = [".restore", ".restore-partial", ".salvage", ".suspect"];
    for to in names.map(|name| open::beside(store.path(), name)) {
        let error = offline::backup(dir.path(), &to).unwrap_err();
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert!(why.contains("another name") && !to.exists(), "{why}");
    }
    let there = elsewhere.path().join(store.path().file_name().unwrap());
    let to = open::beside(&there, ".restore");
    offline::backup(dir.path(), &to).unwrap();
    drop(store);
    assert!(offline::restore(&to, elsewhere.path()).is_err() && to.exists(), "it is still there");
    assert_eq!(offline::restore(&to, dir.path()).unwrap().report.jobs, 50);
}

#[test]
fn an_empty_file_is_not_restored() {
    let dir = tempfile::tempdir().unwrap();
    drop(filled(dir.path()));
    let empty = dir.path().join("empty");
    fs::write(&empty, b"").unwrap();
    let error = offline::restore(&empty, dir.path()).unwrap_err();
    assert!(error.is_damaged(), "{error}");
    assert_eq!(open(dir.path()).job(50).unwrap(), Some(exited(50)));
}

/// What a daemon that was killed left beside the file is restored with it.
#[test]
fn a_log_is_restored_with_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let killed = dir.path().join("killed.db");
    let store = filled(dir.path());
    fs::copy(store.path(), &killed).unwrap();
    fs::copy(open::beside(store.path(), "-wal"), open::beside(&killed, "-wal")).unwrap();
    drop(store);
    let other = tempfile::tempdir().unwrap();
    assert_eq!(offline::restore(&killed, other.path()).unwrap().report.jobs, 50);
    assert_eq!(open(other.path()).job(50).unwrap(), Some(exited(50)));
}

#[test]
fn a_restoration_that_was_cut_off_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    let mut store = filled(dir.path());
    offline::backup(dir.path(), &dir.path().join("copy")).unwrap();
    fs::rename(dir.path().join("copy"), open::beside(&path, ".restore")).unwrap();
    store.insert_job(&queued(99)).unwrap();
    let log = fs::read(open::beside(&path, "-wal")).unwrap();
    drop(store);
    // An earlier one, without a log; and as it stands when the file is already moved aside and its log is not.
    fs::write(open::beside(&path, ".before-restore-1"), b"earlier").unwrap();
    fs::rename(&path, open::beside(&path, ".before-restore-2")).unwrap();
    fs::write(open::beside(&path, "-wal"), &log).unwrap();
    let store = open(dir.path());
    assert_eq!((store.job(50).unwrap(), store.job(99).unwrap()), (Some(exited(50)), None));
    assert_eq!(fs::read(open::beside(&path, ".before-restore-2-wal")).unwrap(), log);
    drop(store);
    // One that was cut off before that changes nothing.
    fs::write(open::beside(&path, ".restore"), b"whole").unwrap();
    assert_eq!(open(dir.path()).job(50).unwrap(), Some(exited(50)));
    assert!(!open::beside(&path, ".restore").exists());
}

/// The log is that of the file that was moved aside, which may not be the one with the first free number.
#[test]
fn a_restoration_that_was_cut_off_can_be_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    let mut store = filled(dir.path());
    let backup = dir.path().join("backup.db");
    offline::backup(dir.path(), &backup).unwrap();
    fs::copy(&backup, open::beside(&path, ".restore")).unwrap();
    store.insert_job(&queued(99)).unwrap();
    let log = fs::read(open::beside(&path, "-wal")).unwrap();
    drop(store);
    fs::rename(&path, open::beside(&path, ".before-restore-3")).unwrap();
    fs::write(open::beside(&path, "-wal"), &log).unwrap();
    let restored = offline::restore(&backup, dir.path()).unwrap();
    assert_eq!(restored.kept, Some(open::beside(&path, ".before-restore-4")));
    assert_eq!(fs::read(open::beside(&path, ".before-restore-3-wal")).unwrap(), log);
    assert_eq!(open(dir.path()).job(99).unwrap(), None);
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
