//! The job store over a long time: a size that it keeps below while jobs go on.

use std::os::unix::fs::DirBuilderExt;
use std::time::{SystemTime, UNIX_EPOCH};

use pinfold_profile::store::Store;
use pinfold_proto::row::{JobRow, SampleRow, Usage};
use pinfold_proto::view::ReportView;
use pinfold_proto::wire::{ErrorCode, Piece, Reply, Request, Select, Verb};
use pinfold_proto::{JobSpec, JobState};

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wait::eventually;
use crate::wire::Wire;

tests! {
    Best: below_its_size, in_pieces, drawn_of_all_jobs, unreadable;
}

/// What the store may take.
const MOST_BYTES: u64 = 1 << 20;
/// Jobs of the days before, and samples of each.
const JOBS: u64 = 300;
const SAMPLES: u64 = 300;

const MINUTE_US: u64 = 60_000_000;

/// A job that was over days ago, one after the other.
fn over(host: &Host, job: u64, taken: u64, now_us: u64) -> JobRow {
    let ended_us = now_us - 6 * 1440 * MINUTE_US + job * 10 * MINUTE_US;
    let spec = JobSpec { name: format!("old-{job}"), command: vec!["old".to_owned()], ..JobSpec::default() };
    // The daemon's own user.
    let uid = if host.kind().is_other_user() { 65534 } else { rustix::process::geteuid().as_raw() };
    let row = JobRow::asked_for(job, uid, "somebody".to_owned(), spec, ended_us - taken * 1_000_000);
    let usage = Usage { memory_peak_bytes: job << 20, samples: taken, ..Usage::default() };
    JobRow { usage, ..row.ran_until(ended_us) }
}

/// A state directory as a daemon left it, with so many jobs of so many samples each; as many were `taken` of each.
fn fill(host: &Host, jobs: u64, samples: u64, taken: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    let now_us = u64::try_from(now.as_micros()).expect("a clock not far from now");
    std::fs::DirBuilder::new().mode(0o700).create(host.state()).expect("a state directory");
    let mut store = Store::open(&host.state()).expect("a store").store;
    store.begin().expect("a transaction");
    for job in 1..=jobs {
        let row = over(host, job, taken, now_us);
        store.insert_job(&row).expect("a job");
        for at in 0..samples {
            // Figures that packing can do little about.
            let noise = (at + job * samples).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let sample = SampleRow {
                job,
                time_us: row.submitted_us + at * 1_000_000,
                state: JobState::Running,
                cpu_user_us: at * 1_000_000 + (noise & 0xF_FFFF),
                cpu_system_us: at * 2_000_000 + (noise >> 20 & 0xF_FFFF),
                memory_bytes: noise >> 40,
                cache_bytes: Some(noise >> 32 & 0xFF_FFFF),
                swap_bytes: 0,
                virtual_bytes: noise >> 24 & 0xFFFF_FFFF,
                io_read_bytes: at << 32 | noise >> 36,
                io_write_bytes: 0,
                processes: 1,
                threads: 1,
                stalls: None,
            };
            store.add_sample(&sample).expect("a sample");
        }
    }
    store.commit().expect("all is kept");
    assert!(store.checkpoint().expect("it is brought into the file"));
    drop(store);
    let files = std::fs::read_dir(host.state()).expect("a directory").flatten();
    files.for_each(|file| host.kind().give(&file.path()));
    host.kind().give(&host.state());
}

fn file_bytes(host: &Host) -> u64 {
    std::fs::metadata(host.state().join("pinfold.db")).expect("the store's file").len()
}

/// How many samples each of these jobs still has.
fn samples_of(host: &Host, jobs: impl Iterator<Item = u64>) -> Vec<usize> {
    let names: Vec<String> = jobs.map(|job| job.to_string()).collect();
    let arguments = ["export", "--format", "csv", "--what", "samples"].map(str::to_owned);
    let done = host.pinfold(arguments.iter().chain(&names));
    assert_eq!(done.code, Some(0), "{done:?}");
    let count = |name: &String| done.out.lines().filter(|line| line.split(',').next() == Some(name)).count();
    names.iter().map(count).collect()
}

/// Of a job that cannot be read nobody is told that there is none: who hands jobs on would leave it out for good.
fn unreadable(kind: Kind) {
    let host = Host::new(kind);
    let job = host.submit(&[], "true");
    host.until(job, JobState::Exited);
    let report = |pieces| Request::Report {
        select: Select::Jobs(vec![job]),
        series: false,
        processes: false,
        threads: false,
        files: false,
        all: false,
        pieces,
    };
    let questions = [
        Request::Why { job, at_us: None },
        report(false),
        report(true),
        Request::Status { jobs: vec![job], all: false, at_us: None },
        Request::Wait { jobs: vec![job] },
        Request::Control { job, verb: Verb::Hold },
    ];
    let mut wire = Wire::greeted(&host);
    let store = rusqlite::Connection::open(host.state().join("pinfold.db")).expect("the daemon's store");
    store.busy_timeout(crate::wait::PATIENCE).expect("a limit");
    let rename = |from: &str, to: &str| {
        store.execute_batch(&format!("ALTER TABLE {from} RENAME TO {to}")).expect("nobody holds it for long");
    };
    rename("jobs", "away");
    for question in &questions {
        wire.send(question);
        match wire.hear() {
            Some(Reply::Error { code: ErrorCode::Failed, message })
                if message.starts_with("the job store cannot be read: ") => {}
            other => panic!("{question:?}: {other:?}"),
        }
    }
    rename("away", "jobs");
    wire.send(&questions[0]);
    assert!(matches!(wire.hear(), Some(Reply::Why(why)) if why.job == job));
    wire.send(&Request::Why { job: job + 1, at_us: None });
    match wire.hear() {
        Some(Reply::Error { message, .. }) => assert_eq!(message, format!("there is no job {}", job + 1)),
        other => panic!("{other:?}"),
    }
}

fn below_its_size(kind: Kind) {
    let size = format!("profile.store_max={}MiB", MOST_BYTES >> 20);
    let mut host = Host::without_daemon(kind, &["profile.interval=50ms", &size]);
    fill(&host, JOBS, SAMPLES, SAMPLES);
    assert!(file_bytes(&host) > 4 * MOST_BYTES, "there is too little to begin with");
    host.start_daemon();
    let job = host.submit(&[], "until [ -e go ]; do sleep 0.05; done");
    assert_eq!(job, JOBS + 1, "numbers go on");
    host.until(job, JobState::Running);
    // It goes down in several turns; only the last leaves room for what comes.
    eventually("the store is below its size", || {
        let bytes = file_bytes(&host);
        if bytes <= MOST_BYTES - MOST_BYTES / 8 { Ok(()) } else { Err(bytes) }
    });
    for _ in 0..5 {
        let done =
            host.shell("for i in 1 2 3 4 5 6 7 8; do echo 'sh -c \"exit 0\"; true'; done | pinfold batch -");
        assert_eq!(done.code, Some(0), "{done:?}");
        let bytes = file_bytes(&host);
        assert!(bytes <= MOST_BYTES, "it grew to {bytes} bytes");
    }
    host.make("go");
    host.until(job, JobState::Exited);

    let left = samples_of(&host, 1..=JOBS);
    assert!(left.is_sorted(), "the oldest have fewest: {left:?}");
    let whole = usize::try_from(SAMPLES).expect("a small number");
    assert!(left[0] < whole && left.last() == Some(&whole), "no more than must be: {left:?}");
    assert_eq!(
        samples_of(&host, [job].into_iter()),
        [usize::try_from(host.report(job).samples).expect("few")]
    );
    for old in [1, JOBS / 2, JOBS] {
        let report = host.report(old);
        assert_eq!((report.memory_peak_bytes, report.samples), (old << 20, SAMPLES), "figures of jobs stay");
    }
    let check = host.pinfold(["check"]);
    assert_eq!(check.code, Some(0), "{check:?}");
}

/// A long answer comes in pieces of a few hundred KiB, and is of one moment, however long it is read for.
fn in_pieces(kind: Kind) {
    // More than the sockets between the two hold.
    const EACH: u64 = 5_000;
    let mut host = Host::without_daemon(kind, &[]);
    // Many more were taken, and are not there any more.
    fill(&host, 3, EACH, 50_000);
    host.start_daemon();
    let ask = |pieces| Request::Report {
        select: Select::Since(0),
        series: true,
        processes: false,
        threads: false,
        files: false,
        all: true,
        pieces,
    };
    let mut wire = Wire::greeted(&host);
    wire.send(&ask(false));
    match wire.hear() {
        Some(Reply::Error { code: ErrorCode::Refused, message }) => {
            assert!(message.contains("in pieces"), "{message}");
        }
        other => panic!("too long for one answer: {other:?}"),
    }
    wire.send(&ask(true));
    // What comes now is not in the answer, and a second one has to wait for its question.
    let first = wire.hear();
    assert!(matches!(&first, Some(Reply::Piece(Piece::Jobs(jobs))) if jobs[0].job == 1), "{first:?}");
    host.succeeds(["run", "--", "/bin/true"]);
    wire.send(&ask(true));
    let (mut told, mut refused) = (vec![(1, 0)], 0);
    loop {
        match wire.hear().expect("the daemon goes on") {
            Reply::Piece(Piece::Jobs(jobs)) => told.extend(jobs.iter().map(|job| (job.job, 0))),
            Reply::Piece(Piece::Points(points)) => {
                assert!(points.len() <= 1_000, "{}", points.len());
                told.last_mut().expect("a job before its points").1 += points.len() as u64;
            }
            Reply::Piece(Piece::Last) => break,
            Reply::Error { code: ErrorCode::Usage, .. } => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((told, refused), (vec![(1, EACH), (2, EACH), (3, EACH)], 1));
    // The same by the command, a line a sample.
    let done = host.pinfold(["export", "--what", "samples", "--format", "jsonl", "--since", "@0", "--all"]);
    let lines = done.out.lines().count() as u64;
    assert!(done.code == Some(0) && lines >= 3 * EACH, "{lines} {}", done.err);
    let report = host.pinfold(["report", "--json", "--series", "2"]);
    let view: ReportView = serde_json::from_str(&report.out).expect("an object on a line");
    assert_eq!(view.series.map(|series| series.len() as u64), Some(EACH));
}

/// A class is looked for among all jobs, however many came after it.
fn drawn_of_all_jobs(kind: Kind) {
    let mut host = Host::without_daemon(kind, &[]);
    fill(&host, 1_100, 0, 5);
    host.start_daemon();
    let drawn = host.pinfold(["plot", "--class", "old-3"]);
    assert!(drawn.code == Some(0) && drawn.out.contains("old-3"), "{drawn:?}");
    let none = host.pinfold(["plot", "--class", "old-3", "--last", "1000"]);
    assert!(none.code == Some(1) && none.err.contains("no job by the name old-3"), "{none:?}");
}
