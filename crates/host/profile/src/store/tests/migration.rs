//! Files of every version ever released open, and files that are not ours or too new are told apart.

use super::*;

/// Written by version 1 itself, from [`rows`]; see `fixtures/ORIGIN.md`.
const VERSION_1: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/store-v1.db");

fn rows() -> Vec<JobRow> {
    let mut frozen = queued(2);
    frozen.state = JobState::Frozen;
    frozen.started_us = Some(2_000_000);
    frozen.frozen_since_us = Some(3_000_000);
    frozen.cpus = Some("0-3,8".to_owned());
    frozen.spec.claim_bytes = Some(2 << 30);
    vec![exited(1), frozen, queued(7)]
}

#[test]
fn version_1_opens_as_the_newest() {
    check_old(1);
}

#[test]
fn version_2_opens_as_the_newest() {
    check_old(2);
}

#[test]
fn version_3_opens_as_the_newest() {
    check_old(3);
}

#[test]
fn version_4_opens_as_the_newest() {
    check_old(4);
}

#[test]
fn version_5_opens_as_the_newest() {
    check_old(5);
}

#[test]
fn version_10_opens_as_the_newest() {
    check_old(10);
}

#[test]
fn version_12_opens_as_the_newest() {
    check_old(12);
}

#[test]
fn version_14_opens_as_the_newest() {
    check_old(14);
}

#[test]
fn version_15_opens_as_the_newest() {
    check_old(15);
}

#[test]
fn version_19_opens_as_the_newest() {
    check_old(19);
}

#[test]
fn version_11_opens_as_the_newest() {
    check_old(11);
}

/// Version 1's file, taken to version `by`'s first, as that version would have.
fn check_old(by: u32) {
    let dir = tempfile::tempdir().unwrap();
    fs::copy(VERSION_1, dir.path().join(FILE_NAME)).unwrap();
    let old = open::whole_at(&dir.path().join(FILE_NAME), by).unwrap();
    assert_eq!(schema::version(&old).unwrap(), by);
    drop(old);
    let mut store = open(dir.path());
    assert_eq!(schema::version(&store.connection).unwrap(), schema::VERSION);
    let mut want = rows();
    // Nothing kept it from its turn.
    want[2].waits_since_us = Some(want[2].submitted_us);
    assert_eq!(store.last(None, 9).unwrap(), want);
    assert_eq!(store.samples(2).unwrap(), vec![sample(2, 2_500_000)]);
    assert_eq!(store.decisions(2).unwrap(), vec![DecisionRow { codes: None, ..decision(2, "freeze") }]);
    assert_eq!(store.next_job(), 8);
    let seen: i64 = store.connection.query_row("SELECT count(*) FROM report", [], |row| row.get(0)).unwrap();
    assert_eq!(seen, 3);
}

/// Up to version 26 nobody noted since when jobs wait that something had kept from their turn.
#[test]
fn jobs_that_nothing_kept_have_waited_since_they_were_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    fs::copy(VERSION_1, &path).unwrap();
    let old = open::whole_at(&path, 26).unwrap();
    for (job, change) in [
        (8, "held = 1"),
        (9, "after = '[3]'"),
        (10, r#"terms = '{"begin_us":5}'"#),
        (11, r#"terms = '{"comment":"soon"}'"#),
        (12, "state = 'held'"),
        (13, "state = 'running', started_us = 9"),
    ] {
        let copy = format!(
            "CREATE TEMP TABLE one AS SELECT * FROM jobs WHERE job = 7; UPDATE one SET job = {job}, {change}; \
             INSERT INTO jobs SELECT * FROM one; DROP TABLE one"
        );
        old.execute_batch(&copy).unwrap();
    }
    drop(old);
    let rows = open(dir.path()).unfinished().unwrap();
    let known: Vec<&JobRow> = rows.iter().filter(|row| row.waits_since_us.is_some()).collect();
    assert_eq!(known.iter().map(|row| row.job).collect::<Vec<_>>(), [7, 11]);
    assert!(known.iter().all(|row| row.waits_since_us == Some(row.submitted_us)), "{known:?}");
}

/// A file of an older version whose decisions are gone still has its jobs, and samples of those that are not over.
#[test]
fn rest_of_a_damaged_older_file_is_kept() {
    for by in [1, 5, 12, 14] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        fs::copy(VERSION_1, &path).unwrap();
        let old = open::whole_at(&path, by).unwrap();
        let look = "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_schema WHERE name = 'decisions'";
        let (page, size): (i64, i64) = old.query_row(look, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        old.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        drop(old);
        let mut bytes = fs::read(&path).unwrap();
        let (page, size) = (usize::try_from(page).unwrap(), usize::try_from(size).unwrap());
        bytes[(page - 1) * size..page * size].fill(0x55);
        fs::write(&path, &bytes).unwrap();
        let opened = Store::open(dir.path()).unwrap();
        let recovered = opened.recovered.unwrap_or_else(|| panic!("version {by}: damage is seen"));
        assert_eq!((recovered.jobs, recovered.unfinished), (3, 2), "version {by}: {recovered}");
        assert_eq!(opened.store.last(None, 9).unwrap(), rows(), "version {by}");
        assert_eq!(opened.store.samples(2).unwrap(), vec![sample(2, 2_500_000)], "version {by}");
    }
}

#[test]
fn a_newer_file_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.connection.execute("UPDATE meta SET value = 99 WHERE key = 'schema'", []).unwrap();
    store.connection.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    let before = fs::read(dir.path().join(FILE_NAME)).unwrap();
    assert!(matches!(
        Store::open(dir.path()),
        Err(StoreError::Newer { found: 99, known: schema::VERSION, .. })
    ));
    assert_eq!(fs::read(dir.path().join(FILE_NAME)).unwrap(), before);
}

#[test]
fn a_foreign_file_is_moved_aside_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    let foreign = Connection::open(&path).unwrap();
    foreign.execute_batch("CREATE TABLE songs (title TEXT)").unwrap();
    drop(foreign);
    let before = fs::read(&path).unwrap();
    let recovered = Store::open(dir.path()).unwrap().recovered.unwrap();
    assert_eq!(recovered.cause, "it is not a store of pinfold's");
    assert_eq!(recovered.kept, dir.path().join("pinfold.db.damaged-1"));
    assert_eq!(fs::read(&recovered.kept).unwrap(), before);
}

#[test]
fn additions_beside_the_schema_stay() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.connection.execute_batch("CREATE VIEW mine AS SELECT job FROM jobs").unwrap();
    drop(store);
    let store = open(dir.path());
    let mine: i64 = store.connection.query_row("SELECT count(*) FROM mine", [], |row| row.get(0)).unwrap();
    assert_eq!(mine, 0);
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = Store::open(&dir.path().join("nowhere")).unwrap_err();
    assert!(error.to_string().contains("nowhere/pinfold.db"), "{error}");
}
