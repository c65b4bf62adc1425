use super::*;

fn home(dir: &Path) -> Home {
    Home { directory: dir.to_owned(), journal: dir.join("jobs-x.jsonl") }
}

#[test]
fn the_last_word_counts_and_torn_lines_do_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let home = home(dir.path());
    assert!(home.read().labels.is_empty());
    let label =
        |job: u64, name: &str| Label { job, submitted_s: 10, name: name.to_owned(), ..Label::default() };
    home.add_step(&Step { job: 1, started_s: 9.0, ..Step::default() }).expect("it is added");
    home.add_step(&Step { job: 1, started_s: 11.0, ..Step::default() }).expect("it is added");
    home.add(&label(1, "a")).expect("it is added");
    home.cancelled(1, 5.0).expect("it is added");
    home.add(&label(2, "b")).expect("it is added");
    home.set(2, "qos", "é\n\"x\"").expect("it is added");
    fs::OpenOptions::new()
        .append(true)
        .open(&home.journal)
        .and_then(|mut file| file.write_all(b"{\"job\":{\"job\":3\n"))
        .expect("a torn line");
    home.add(&label(1, "again")).expect("it is added");
    let known = home.read();
    assert_eq!(known.labels[&1].name, "again");
    assert!(known.cancelled.is_empty(), "that was another job of this number");
    assert_eq!(known.steps[&1].len(), 1, "a step may end before its job is written down");
    assert_eq!(known.labels[&2].qos, "é\n\"x\"");
    assert_eq!(known.labels.len(), 2);
}

#[test]
fn the_jobs_of_a_dependency() {
    let label = Label { dependency: "afterok:1:2_3,singleton,7".to_owned(), ..Label::default() };
    assert_eq!(label.named_in_dependency().collect::<Vec<_>>(), [1, 2, 7]);
}

#[test]
fn a_long_journal_keeps_what_is_not_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let home = home(dir.path());
    for job in 1..=10 {
        home.add(&Label { job, ..Label::default() }).expect("it is added");
    }
    home.shorten(&BTreeSet::from([2])).expect("it is shortened");
    let left: Vec<u64> = home.read().labels.into_keys().collect();
    assert_eq!(left, [2, 6, 7, 8, 9, 10]);
}

#[test]
fn a_spool_of_a_job_that_is_not_over_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let home = home(dir.path());
    let [live, over, fresh] = [0; 3].map(|_| new_spool(&home.directory).expect("a spool"));
    for (job, spool) in [(1, &live), (2, &over), (3, &fresh)] {
        home.add(&Label { job, spool: spool.clone(), ..Label::default() }).expect("it is added");
    }
    let past = SystemTime::now() - Duration::from_secs(3600);
    for spool in [&live, &over] {
        fs::File::open(spool).and_then(|dir| dir.set_modified(past)).expect("an older directory");
    }
    home.sweep(&BTreeSet::from([1]));
    assert_eq!([live.exists(), over.exists(), fresh.exists()], [true, false, true]);
}

#[test]
fn a_single_process_sweeps_at_a_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let (one, other) =
        (home(dir.path()), Home { journal: dir.path().join("jobs-y.jsonl"), ..home(dir.path()) });
    let held = one.lock_sweep().expect("nobody sweeps");
    assert!(one.lock_sweep().is_err(), "it is swept already");
    other.lock_sweep().expect("another daemon's journal is another one's to sweep");
    drop(held);
    one.lock_sweep().expect("that is over");
}

fn age(spool: &Path, by: Duration) {
    let past = SystemTime::now() - by;
    fs::File::open(spool).and_then(|dir| dir.set_modified(past)).expect("an older directory");
}

#[test]
fn a_spool_of_another_daemons_job_stays() {
    let dir = tempfile::tempdir().expect("a directory");
    let (one, other) =
        (home(dir.path()), Home { journal: dir.path().join("jobs-y.jsonl"), ..home(dir.path()) });
    let [held, unnamed] = [0; 2].map(|_| new_spool(&one.directory).expect("a spool"));
    one.add(&Label { job: 1, spool: held.clone(), ..Label::default() }).expect("it is added");
    let own = new_spool(&other.directory).expect("a spool");
    other.add(&Label { job: 7, ..Label::default() }).expect("it is added");
    for spool in [&held, &unnamed, &own] {
        age(spool, 2 * SPOOL_AGE_UNKNOWN);
    }
    other.sweep(&BTreeSet::from([7]));
    one.sweep(&BTreeSet::from([1]));
    assert_eq!(
        [held.exists(), unnamed.exists(), own.exists()],
        [true; 3],
        "either may be of the other's jobs"
    );
    fs::remove_file(&other.journal).expect("it is there");
    one.sweep(&BTreeSet::from([1, 2]));
    assert!(unnamed.exists(), "job 2 may be in it");
    one.sweep(&BTreeSet::from([1]));
    assert_eq!([held.exists(), unnamed.exists(), own.exists()], [true, false, false]);
}

#[test]
fn nothing_goes_where_a_journal_cannot_be_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let home = home(dir.path());
    let spool = new_spool(&home.directory).expect("a spool");
    home.add(&Label { job: 1, spool: spool.clone(), ..Label::default() }).expect("it is added");
    age(&spool, SPOOL_AGE_UNKNOWN);
    let journal = dir.path().join("jobs-y.jsonl");
    std::os::unix::fs::symlink("nowhere", &journal).expect("a link");
    home.sweep(&BTreeSet::new());
    assert!(spool.exists(), "the other journal may name it");
    fs::remove_file(&journal).expect("it was there");
    home.sweep(&BTreeSet::new());
    assert!(!spool.exists());
}

#[test]
fn a_journal_that_is_a_link_is_neither_read_nor_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let home = home(dir.path());
    let precious = dir.path().join("precious");
    fs::write(&precious, "precious\n").expect("a file");
    for name in [home.journal.clone(), home.journal.with_extension("new")] {
        std::os::unix::fs::symlink(&precious, name).expect("a link");
    }
    assert!(home.add(&Label { job: 1, ..Label::default() }).is_err());
    assert!(home.read().labels.is_empty());
    assert!(home.shorten(&BTreeSet::new()).is_err());
    fs::remove_file(&home.journal).expect("it was there");
    home.add(&Label { job: 1, ..Label::default() }).expect("it is added");
    assert!(home.shorten(&BTreeSet::new()).is_err());
    assert_eq!(fs::read_to_string(&precious).expect("it is there"), "precious\n");
}

#[test]
fn a_spool_below_what_others_can_write_to_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a directory");
    let above = dir.path().join("pinfold-1");
    let home = home(&above.join("slurm"));
    let spool = new_spool(&home.directory).expect("a spool");
    fs::write(spool.join("job.json"), "{}").expect("a file");
    fs::set_permissions(spool.join("job.json"), fs::Permissions::from_mode(0o600)).expect("its mode");
    read_spooled(&spool, "job.json").expect("it is one's own");
    fs::set_permissions(&above, fs::Permissions::from_mode(0o777)).expect("its mode");
    let error = new_spool(&home.directory).expect_err("others could exchange it");
    assert!(error.contains("pinfold-1 can be written by others") && error.contains(VARIABLE), "{error}");
    assert!(home.add(&Label::default()).is_err());
    assert!(read_spooled(&spool, "job.json").is_err(), "they may have exchanged it since");
}

#[test]
fn root_uses_no_place_below_tmp() {
    assert_eq!(homeless(0), Path::new("/root/.local/state/pinfold/slurm"));
    assert_eq!(homeless(7), Path::new("/tmp/pinfold-7/slurm"));
}
