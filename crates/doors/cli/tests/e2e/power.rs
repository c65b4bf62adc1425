//! Power cuts: the host goes down, and of what was written there is left only what the daemon had brought to disk, or
//! somewhat more, as chance has it. No job begins a second time, no end is lost that somebody heard of, no number is given
//! twice, and the audit is whole.
//!
//! A cut is played. The daemon tells in its log what it flushed and how long that file was; what is behind it in the
//! store's log is cut off, wholly or in part, and files that were not flushed vanish, or are empty, or stay.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use pinfold_proto::JobState;
use pinfold_proto::view::AuditView;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::process::Running;
use crate::reboot::go_down;
use crate::wait::{eventually, within};

tests! {
    Best: what_began_does_not_begin_again, an_end_that_was_heard_of_is_known,
        nothing_begins_twice_after_many_cuts;
}

/// Its script says in a file that it began, and for which time, when it does.
const BEGINS: &str = "echo \"$PINFOLD_JOB_ID ${PINFOLD_RESTARTS:-0}\" >>ran; ";

fn host(kind: Kind) -> Host {
    let mut host = Host::without_daemon(kind, &["slots.factor=4"]);
    host.wrap_daemon(&["env", "PINFOLD_LOG=warn,pinfoldd::durable=debug"]);
    host.start_daemon();
    host
}

/// Numbers that look random, the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB) % sides
    }
}

/// What the daemon said that it brought to disk since its start: files, and how long each was then.
fn flushed(host: &Host) -> Vec<(PathBuf, u64)> {
    let said = host.daemon_said();
    // The last line may be just being written.
    let whole = said.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let words = whole.filter_map(|line| line.split_once(" on disk path=")?.1.split_once(" bytes="));
    words.map(|(path, bytes)| (PathBuf::from(path), bytes.trim().parse().expect("a length"))).collect()
}

/// When the store's own file was written last: then its log holds no more than that file does.
fn written(host: &Host) -> Option<SystemTime> {
    fs::metadata(host.state().join("pinfold.db")).and_then(|file| file.modified()).ok()
}

fn starts(host: &Host) -> BTreeSet<PathBuf> {
    fs::read_dir(host.state().join("starts"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect()
}

/// As a daemon found it when it started, which is on disk.
struct Found {
    store: Option<SystemTime>,
    starts: BTreeSet<PathBuf>,
}

impl Found {
    fn by(host: &Host) -> Self {
        Self { store: written(host), starts: starts(host) }
    }
}

/// The host goes down, and a new daemon finds what a power cut left.
fn cut_power(host: &mut Host, dice: &mut Dice, found: &mut Found) {
    go_down(host);
    let flushed = flushed(host);
    let log = host.state().join("pinfold.db-wal");
    let kept = flushed.iter().filter(|(path, _)| *path == log).map(|&(_, bytes)| bytes).max();
    let bytes = fs::metadata(&log).map_or(0, |file| file.len());
    if let Some(kept) = kept.filter(|&kept| kept < bytes && written(host) == found.store) {
        let more = if dice.roll(2) == 0 { 0 } else { dice.roll(bytes - kept) };
        let file = OpenOptions::new().write(true).open(&log).expect("the store's log");
        file.set_len(kept + more).expect("it is cut");
        let _ = fs::remove_file(host.state().join("pinfold.db-shm"));
    }
    let is_flushed = |path: &PathBuf| flushed.iter().any(|(flushed, _)| flushed == path);
    for path in starts(host).into_iter().filter(|path| !is_flushed(path) && !found.starts.contains(path)) {
        match dice.roll(3) {
            0 => fs::remove_file(path).expect("it is there"),
            1 => drop(OpenOptions::new().write(true).truncate(true).open(path).expect("it is there")),
            _ => {}
        }
    }
    host.start_daemon();
    *found = Found::by(host);
}

/// Each line of `ran` once: no job began twice for the same time.
fn began(host: &Host) -> Vec<String> {
    let ran: Vec<String> = host.wrote("ran").lines().map(str::to_owned).collect();
    let once: BTreeSet<&String> = ran.iter().collect();
    assert_eq!(once.len(), ran.len(), "a job began twice: {ran:?}");
    ran
}

fn times(ran: &[String], job: u64) -> usize {
    ran.iter().filter(|line| line.split(' ').next() == Some(&job.to_string())).count()
}

/// Nothing is written behind what the cut is about: nothing else brings that to disk.
fn what_began_does_not_begin_again(kind: Kind) {
    let mut host = host(kind);
    let mut found = Found::by(&host);
    let waits = host.submit(&["--hold"], &format!("{BEGINS} exit 4"));
    let runs = host.submit(&["--hold"], &format!("{BEGINS} until [ -e go ]; do sleep 0.05; done"));
    let again = host.submit(&["--hold", "--requeue"], &format!("{BEGINS} exit 5"));
    eventually("they are kept", || {
        let kept = |job: u64| flushed(&host).iter().any(|(path, _)| path.ends_with(job.to_string()));
        if [waits, runs, again].into_iter().all(kept) { Ok(()) } else { Err(format!("{:?}", flushed(&host))) }
    });
    for job in [runs, again] {
        host.succeeds(["release", &job.to_string()]);
        eventually(
            "it begins",
            || if times(&began(&host), job) == 1 { Ok(()) } else { Err(host.wrote("ran")) },
        );
        cut_power(&mut host, &mut Dice(0), &mut found);
    }
    let next = host.submit(&[], &format!("{BEGINS} exit 6"));
    assert!(next > again, "{next} after {again}");
    host.until_exit_code(next, 6);
    for (job, code) in [(waits, 4), (again, 5)] {
        // One that began is not held any more.
        let _ = host.pinfold(["release", &job.to_string()]);
        host.until_exit_code(job, code);
    }
    let _ = host.pinfold(["release", &runs.to_string()]);
    host.make("go");
    host.until(runs, JobState::Exited);
    assert_eq!([waits, runs].map(|job| times(&began(&host), job)), [1, 1]);
}

fn an_end_that_was_heard_of_is_known(kind: Kind) {
    let mut host = host(kind);
    let mut found = Found::by(&host);
    let job = host.submit(&["--requeue"], &format!("{BEGINS} until [ -e go ]; do sleep 0.05; done; exit 5"));
    eventually("it begins", || if times(&began(&host), job) == 1 { Ok(()) } else { Err(host.wrote("ran")) });
    let wait = host.start(["wait", &job.to_string()]);
    host.make("go");
    assert_eq!(wait.wait().code, Some(5), "somebody heard of its end");
    cut_power(&mut host, &mut Dice(0), &mut found);
    assert_eq!(host.report(job).exit_code, Some(5));
    assert_eq!(times(&began(&host), job), 1);
}

/// What was submitted in one life of the host.
struct Told {
    job: u64,
    requeue: bool,
    wait: Option<Running>,
}

fn nothing_begins_twice_after_many_cuts(kind: Kind) {
    const CUTS: u64 = 5;
    let mut host = host(kind);
    let (mut told, mut found) = (Vec::<Told>::new(), Found::by(&host));
    let mut heard = Vec::new();
    for cut in 0..CUTS {
        let mut dice = Dice(cut);
        let had = began(&host).len();
        for _ in 0..6 {
            let (requeue, long) = (dice.roll(2) == 0, dice.roll(3) == 0);
            let end = if long { "until [ -e go ]; do sleep 0.05; done; exit 5" } else { "exit 5" };
            let options = if requeue { &["--hold", "--requeue"][..] } else { &["--hold"] };
            let job = host.submit(options, &format!("{BEGINS}{end}"));
            let wait = (!long).then(|| host.start(["wait", &job.to_string()]));
            told.push(Told { job, requeue, wait });
        }
        for told in told.iter().rev().take(6).filter(|_| dice.roll(4) > 0) {
            host.succeeds(["release", &told.job.to_string()]);
        }
        let _ =
            within(Duration::from_millis(dice.roll(300)), || (began(&host).len() > had + 3).then_some(()));
        for told in told.iter_mut().filter(|told| told.wait.is_some()) {
            let done = told.wait.take().and_then(|wait| wait.wait_at_most(Duration::ZERO));
            heard.extend(done.filter(|done| done.code == Some(5)).map(|_| told.job));
        }
        cut_power(&mut host, &mut dice, &mut found);
        assert_eq!(host.status(&[]).warnings, Vec::<String>::new());
    }
    host.make("go");
    for told in &told {
        let _ = host.pinfold(["release", &told.job.to_string()]);
    }
    eventually("all are over", || {
        let jobs = host.status(&[]).jobs;
        if jobs.is_empty() { Ok(()) } else { Err(format!("{jobs:?}")) }
    });
    let numbers: BTreeSet<u64> = told.iter().map(|told| told.job).collect();
    assert_eq!(numbers.len(), told.len(), "a number was given twice");
    let ran = began(&host);
    for told in told.iter().filter(|told| !told.requeue) {
        assert!(times(&ran, told.job) <= 1, "job {} began twice: {ran:?}", told.job);
    }
    for &job in &heard {
        assert_eq!(host.report(job).exit_code, Some(5), "the end of job {job} was heard of");
    }
    let done = host.pinfold(["audit", "--verify", "--json"]);
    let view: AuditView = serde_json::from_str(&done.out).expect("one JSON object");
    assert_eq!((view.intact, view.notes), (Some(true), Vec::new()));
}
