//! Bytes torn, cut off or written over: the store opens, says what happened, and works.

use super::*;

/// A small generator of its own, so that a seed names one damage for good.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        // Steele, Lea, Flood 2014: SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }
}

/// At a FIFO nobody may ever write: it is not waited for.
#[test]
fn a_special_file_is_no_store() {
    let dir = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("mkfifo").arg(dir.path().join("pinfold.db")).status().unwrap();
    assert!(made.success());
    let error = Store::open(dir.path()).err().unwrap();
    assert!(matches!(error, StoreError::File { .. }), "{error}");
}

const FINISHED: u64 = 150;
const UNFINISHED: u64 = 30;

/// The two files of a store that was cut off: some of its jobs are only in the log.
struct Template {
    file: Vec<u8>,
    log: Vec<u8>,
}

fn template() -> Template {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    for job in 1..=FINISHED {
        store.begin().unwrap();
        store.insert_job(&exited(job)).unwrap();
        store.add_decision(&decision(job, "start")).unwrap();
        (0..20).for_each(|time_us| store.add_sample(&sample(job, time_us)).unwrap());
        store.commit().unwrap();
    }
    assert!(store.checkpoint().unwrap());
    for job in FINISHED + 1..=FINISHED + UNFINISHED {
        store.insert_job(&queued(job)).unwrap();
        store.add_decision(&decision(job, "queue")).unwrap();
    }
    // Read while it is open: closing it would take the log into the file.
    let log = fs::read(open::beside(store.path(), "-wal")).unwrap();
    Template { file: fs::read(store.path()).unwrap(), log }
}

fn damage(bytes: &mut Vec<u8>, dice: &mut Dice) -> &'static str {
    let at = dice.below(bytes.len());
    match dice.below(6) {
        0 => {
            let flips = 1 + dice.below(4);
            for _ in 0..flips {
                let at = dice.below(bytes.len());
                bytes[at] ^= 1 << dice.below(8);
            }
            "some bits flipped"
        }
        1 => {
            bytes.truncate(at);
            "cut off"
        }
        2 => {
            let page = at / 4096 * 4096;
            let end = bytes.len().min(page + 4096);
            bytes[page..end].fill(0);
            "a page of zeros"
        }
        3 => {
            let end = bytes.len().min(at + 1 + dice.below(3_000));
            bytes[at..end].iter_mut().for_each(|byte| *byte = u8::try_from(dice.below(256)).unwrap());
            "a stretch of noise"
        }
        4 => {
            let (one, other) = (at / 4096 * 4096, dice.below(bytes.len()) / 4096 * 4096);
            let size = 4096.min(bytes.len() - one).min(bytes.len() - other);
            let copy = bytes[one..one + size].to_vec();
            bytes[other..other + size].copy_from_slice(&copy);
            "a page in another's place"
        }
        _ => {
            let at = dice.below(120.min(bytes.len()));
            bytes[at] = u8::try_from(dice.below(256)).unwrap();
            "the header"
        }
    }
}

/// All that a daemon does with a store, on one that was damaged.
fn work_with(mut store: Store) -> Result<(), StoreError> {
    let unfinished = store.unfinished()?;
    for row in unfinished.iter().chain(&store.last(None, 50)?) {
        store.samples(row.job)?;
        store.decisions(row.job)?;
    }
    let job = store.next_job();
    store.begin()?;
    store.insert_job(&queued(job))?;
    store.add_decision(&decision(job, "queue"))?;
    store.add_sample(&sample(job, 1))?;
    store.commit()?;
    assert_eq!(store.job(job)?, Some(queued(job)));
    store.prune(0)?;
    store.checkpoint()?;
    Ok(())
}

#[test]
fn any_damage_leaves_a_store_that_works() {
    let template = template();
    let (mut moved_aside, mut jobs_read) = (0, 0);
    let seeds: u64 = std::env::var("PINFOLD_TEST_DAMAGES").ok().map_or(120, |count| count.parse().unwrap());
    for seed in 0..seeds {
        let dir = tempfile::tempdir().unwrap();
        let mut dice = Dice(seed);
        let (mut file, mut log) = (template.file.clone(), template.log.clone());
        let in_log = dice.below(4) == 0;
        let what = damage(if in_log { &mut log } else { &mut file }, &mut dice);
        let path = dir.path().join(FILE_NAME);
        fs::write(&path, &file).unwrap();
        fs::write(open::beside(&path, "-wal"), &log).unwrap();
        let context = format!("seed {seed}: {what} in the {}", if in_log { "log" } else { "file" });
        let opened = Store::open(dir.path()).unwrap_or_else(|error| panic!("{context}: {error:?}"));
        if let Some(recovery) = &opened.recovered {
            moved_aside += 1;
            jobs_read += recovery.jobs;
            assert!(!in_log, "{context}: a damaged log is cut, the file is sound: {recovery}");
            let as_it_was = fs::read(&recovery.kept).unwrap() == file;
            assert!(as_it_was, "{context}: the damaged file was written to: {recovery}");
        }
        match work_with(opened.store) {
            Ok(()) => {}
            // What the checks at opening pass and use finds is cured by use of the way out.
            Err(error) if error.is_damaged() => {
                let again = Store::open(dir.path()).unwrap().store.replace_damaged().unwrap();
                work_with(again.store).unwrap_or_else(|error| panic!("{context}, replaced: {error:?}"));
            }
            Err(error) => panic!("{context}: {error:?}"),
        }
    }
    assert!(moved_aside > seeds / 4, "{moved_aside} of {seeds} damages were found");
    println!("{moved_aside} of {seeds} files moved aside, {jobs_read} jobs read from them");
}

#[test]
fn a_damaged_page_costs_only_the_jobs_on_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    (1..=200).for_each(|job| store.insert_job(&queued(job)).unwrap());
    (0..40).for_each(|time_us| store.add_sample(&sample(7, time_us)).unwrap());
    store.add_decision(&decision(7, "queue")).unwrap();
    assert!(store.checkpoint().unwrap());
    let root: i64 = store
        .connection
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'jobs'", [], |r| r.get(0))
        .unwrap();
    drop(store);
    let path = dir.path().join(FILE_NAME);
    let mut bytes = fs::read(&path).unwrap();
    // The first leaf that the root of `jobs` points to holds the jobs with the lowest numbers.
    let root = (usize::try_from(root).unwrap() - 1) * 4096;
    let cell = root + usize::from(u16::from_be_bytes([bytes[root + 12], bytes[root + 13]]));
    let leaf = u32::from_be_bytes(bytes[cell..cell + 4].try_into().unwrap()) as usize;
    // With it goes the largest number there: below 128, so that it takes a single byte.
    let lost = u64::from(bytes[cell + 4]);
    assert!((10..60).contains(&lost), "{lost} jobs on a page");
    bytes[(leaf - 1) * 4096..leaf * 4096].fill(0xA5);
    fs::write(&path, &bytes).unwrap();

    let Opened { mut store, recovered } = Store::open(dir.path()).unwrap();
    let recovery = recovered.unwrap();
    assert_eq!((recovery.jobs, recovery.unfinished), (200 - lost, 200 - lost), "{recovery}");
    let jobs = store.unfinished().unwrap();
    assert_eq!(jobs.first().map(|row| row.job), Some(lost + 1));
    assert_eq!(jobs.len() as u64, recovery.jobs);
    jobs.iter().for_each(|row| assert_eq!(*row, queued(row.job)));
    assert_eq!(store.next_job(), 201);
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
}

/// What leads to the pages of jobs is gone, the pages are not: every job comes back, those of the log too, and the numbers
/// go on.
#[test]
fn a_page_that_leads_to_others_costs_no_job() {
    let Template { file, log } = template();
    let all = FINISHED + UNFINISHED;
    let root: usize = {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        fs::write(&path, &file).unwrap();
        let connection = Connection::open(&path).unwrap();
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'jobs'";
        connection.query_row(sql, [], |row| row.get::<_, u16>(0)).unwrap().into()
    };
    let wreck = |bytes: &mut [u8], page: usize| bytes[(page - 1) * 4096..page * 4096].fill(0xa5);
    type Damage<'a> = Box<dyn Fn(&mut Vec<u8>, &mut Vec<u8>) + 'a>;
    let cases: [(&str, Damage<'_>); 4] = [
        ("the header", Box::new(|file, _| file[..100].fill(0))),
        ("the first page", Box::new(|file, _| wreck(file, 1))),
        (
            "the root of jobs",
            Box::new(|file, log| {
                wreck(file, root);
                log.clear();
            }),
        ),
        (
            "both, and the log is gone",
            Box::new(|file, log| {
                wreck(file, 1);
                wreck(file, root);
                log.clear();
            }),
        ),
    ];
    for (what, damage) in cases {
        let (mut file, mut log) = (file.clone(), log.clone());
        damage(&mut file, &mut log);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE_NAME);
        fs::write(&path, &file).unwrap();
        fs::write(open::beside(&path, "-wal"), &log).unwrap();
        let want = if log.is_empty() { FINISHED } else { all };
        let Opened { mut store, recovered } = Store::open(dir.path()).unwrap();
        let recovered = recovered.expect("it was damaged");
        assert_eq!((recovered.jobs, recovered.unfinished), (want, want - FINISHED), "{what}");
        for job in 1..=want {
            let row = if job <= FINISHED { exited(job) } else { queued(job) };
            assert_eq!(store.job(job).unwrap().as_ref(), Some(&row), "{what}");
        }
        assert!(store.next_job() > want, "{what}");
        work_with(store).unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

#[test]
fn a_recovery_that_was_cut_off_is_completed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(FILE_NAME);
    let mut store = open(dir.path());
    store.insert_job(&queued(4)).unwrap();
    store.backup(&open::beside(&path, ".salvage")).unwrap();
    let log = fs::read(open::beside(&path, "-wal")).unwrap();
    drop(store);
    // As it stands when the damaged file is already moved aside and nothing else is done.
    fs::rename(&path, open::beside(&path, ".damaged-1")).unwrap();
    fs::write(open::beside(&path, "-wal"), &log).unwrap();
    assert_eq!(open(dir.path()).unfinished().unwrap(), vec![queued(4)]);
    assert_eq!(fs::read(open::beside(&path, ".damaged-1-wal")).unwrap(), log);
}

/// Of a large file only what decides about jobs is looked through, until damage is met elsewhere.
#[test]
fn damage_that_was_met_in_use_is_found_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.insert_job(&queued(1)).unwrap();
    store.add_sample(&sample(1, 2_000_000)).unwrap();
    let put = "INSERT INTO blocks (job, first_us, last_us, step_us, samples, data) VALUES (2, 1, 1, 1, 1, zeroblob(?1))";
    store.connection.execute(put, [17 << 20]).unwrap();
    store.checkpoint().unwrap();
    let root: u32 = store
        .connection
        .query_row("SELECT rootpage FROM sqlite_schema WHERE name = 'samples'", [], |row| row.get(0))
        .unwrap();
    drop(store);
    let path = dir.path().join(FILE_NAME);
    let mut bytes = fs::read(&path).unwrap();
    assert!(bytes.len() > 16 << 20, "{}", bytes.len());
    let at = (root as usize - 1) * 4096;
    bytes[at..at + 4096].fill(0xFF);
    fs::write(&path, bytes).unwrap();
    let opened = Store::open(dir.path()).unwrap();
    assert!(opened.recovered.is_none(), "not looked at");
    assert!(opened.store.samples(1).unwrap_err().is_damaged());
    drop(opened);
    let opened = Store::open(dir.path()).unwrap();
    assert_eq!(opened.recovered.unwrap().jobs, 1);
    assert_eq!(opened.store.job(1).unwrap(), Some(queued(1)));
    drop(opened.store);
    assert!(Store::open(dir.path()).unwrap().recovered.is_none());
}

/// A bit of a packed series is turned: the rest comes back.
#[test]
fn a_block_that_cannot_be_is_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    store.insert_job(&queued(1)).unwrap();
    store.add_decision(&decision(1, "start")).unwrap();
    open::trust_writes(&store.connection, true).unwrap();
    let put =
        "INSERT INTO blocks (job, first_us, last_us, step_us, samples, data) VALUES (1, 5, ?1, 1, 1, x'00')";
    store.connection.execute(put, [-5]).unwrap();
    drop(store);
    let opened = Store::open(dir.path()).unwrap();
    assert_eq!(opened.recovered.expect("it was damaged").jobs, 1);
    assert_eq!(opened.store.decisions(1).unwrap().len(), 1);
}

/// Free pages keep what was in them.
#[test]
fn jobs_that_were_struck_off_stay_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    for job in 1..=300 {
        store.insert_job(&queued(job)).unwrap();
    }
    for job in 1..=200 {
        store.update_job(&exited(job)).unwrap();
    }
    while store.prune(u64::MAX).unwrap().more {}
    open::trust_writes(&store.connection, true).unwrap();
    let put = "INSERT INTO blocks (job, first_us, last_us, step_us, samples, data) VALUES (250, 5, -5, 1, 1, x'00')";
    store.connection.execute(put, []).unwrap();
    drop(store);
    let recovery = Store::open(dir.path()).unwrap().recovered.expect("it was damaged");
    assert_eq!((recovery.jobs, recovery.unfinished), (100, 100));
}

#[test]
fn damaged_files_are_numbered_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    for number in 1..=3 {
        fs::write(dir.path().join(FILE_NAME), format!("noise {number}")).unwrap();
        let recovery = Store::open(dir.path()).unwrap().recovered.unwrap();
        assert_eq!(recovery.kept, dir.path().join(format!("pinfold.db.damaged-{number}")));
        assert_eq!(fs::read_to_string(&recovery.kept).unwrap(), format!("noise {number}"));
    }
}

/// Writes are not checked against the CHECKs where the daemon is fast; a look through the file still is, and leaves that
/// as it was.
#[test]
fn a_look_finds_what_a_trusted_write_let_in() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap().store;
    for job in 1..=2 {
        store.insert_job(&queued(job)).unwrap();
    }
    assert_eq!(store.check().unwrap().problems, Vec::<String>::new());
    let spoil = |store: &Store, job: u64| {
        store.connection.execute("UPDATE jobs SET class = 'none' WHERE job = ?1", [job.cast_signed()])
    };
    open::trust_writes(&store.connection, false).unwrap();
    assert!(spoil(&store, 1).unwrap_err().to_string().contains("CHECK"));
    open::trust_writes(&store.connection, true).unwrap();
    spoil(&store, 1).unwrap();
    let found = store.check().unwrap().problems;
    assert!(found.iter().any(|problem| problem.contains("CHECK")), "{found:?}");
    spoil(&store, 2).expect("writes are trusted as before");
}
