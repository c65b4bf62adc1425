//! The audit under fire: a disk that is full for a moment, words without end about one's own job.

use pinfold_proto::view::AuditView;
use pinfold_testkit::ignore;

use super::*;
use crate::kind::tests;

tests! {
    Best: words_about_ones_own_job;
    Once: a_disk_that_is_full_for_a_moment;
}

fn audit(host: &Host) -> AuditView {
    let done = host.pinfold(["audit", "--verify", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    serde_json::from_str(&done.out).expect("one JSON object")
}

/// Says that something is over, also where it panics.
pub(super) struct Over<'a>(pub(super) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// They are not written one by one, nor flushed; everybody else is served meanwhile, and on record.
fn words_about_ones_own_job(kind: Kind) {
    const WORDS: u64 = 6_000;
    let host = shared(kind, &[]);
    let job = victims_job(&host, &[], WAIT);
    let done = AtomicBool::new(false);
    let own = std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            let _over = Over(&done);
            speak_as(&host, ATTACKER, |mut wire| {
                let spec = Box::new(JobSpec { held: true, ..spec() });
                wire.send(&Request::Submit { ticket: 1, spec, pid: None });
                let Some(Reply::Queued { job, .. }) = wire.hear() else { panic!("it is queued") };
                for round in 0..WORDS / 4 {
                    let verbs = [Verb::Priority(5), Verb::Hold, Verb::Memory(round << 20), Verb::Priority(6)];
                    wire.send_all(&verbs.map(|verb| Request::Control { job, verb }));
                    for _ in 0..4 {
                        // A second hold is noted, and done all the same.
                        let reply = wire.hear().expect("an answer");
                        assert!(!matches!(reply, Reply::Error { .. }), "{reply:?}");
                    }
                }
                job
            })
        });
        while !done.load(Ordering::SeqCst) {
            serves(&host);
        }
        flood.join().expect("it said all")
    });
    let number = job.to_string();
    assert_eq!(host.pinfold(["set", &number, "--priority", "3"]).code, Some(0), "root may");
    let bytes = std::fs::metadata(host.state().join("audit.jsonl")).expect("the records").len();
    assert!(bytes < 200 * 500, "{WORDS} words about job {own} made it grow to {bytes} bytes");
    let view = audit(&host);
    assert_eq!((view.intact, view.notes), (Some(true), Vec::new()));
    // How many more words there were may be noted after it.
    let by_root = view.records.iter().rev().find(|record| record.uid == 0).expect("a record");
    assert!(by_root.detail.starts_with(&format!("job {job} of ")), "{by_root:?}");
    host.make("go");
    host.until_exit_code(job, 0);
}

/// The state directory on a file system of its own, in a mount namespace of the daemon's.
fn a_disk_that_is_full_for_a_moment() {
    if !rustix::process::geteuid().is_root() {
        ignore!("only root can mount a small file system");
    }
    let tried = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    if !tried.is_ok_and(|status| status.success()) {
        ignore!("no mount namespaces here");
    }
    let mut host = Host::without_daemon(Kind::Rootless, &[]);
    let state = host.state().display().to_string();
    std::fs::create_dir(&state).expect("the state directory");
    let script = format!("mount -t tmpfs -o size=4m,mode=700 tmpfs {state} && exec \"$@\"");
    host.wrap_daemon(&["unshare", "--mount", "--propagation", "private", "/bin/sh", "-c", &script, "sh"]);
    host.start_daemon();
    let inside = PathBuf::from(format!("/proc/{}/root{state}", host.daemon_pid()));
    let drain = |on: bool| {
        let done = host.pinfold([if on { "drain" } else { "undrain" }]);
        assert_eq!(done.code, Some(0), "{done:?}");
    };
    drain(true);
    let full = std::fs::write(inside.join("filler"), vec![0; 8 << 20]);
    assert!(full.is_err(), "the file system is full");
    // What room there is in the file's last page is used up, and a record is cut in the middle.
    let mut said = 1;
    while audit(&host).notes.is_empty() {
        drain(said % 2 == 0);
        said += 1;
        assert!(said < 100, "the audit finds room on a full disk");
    }
    for _ in 0..10 {
        drain(said % 2 == 0);
        said += 1;
    }
    let view = audit(&host);
    assert_eq!((view.intact, view.notes.len()), (Some(true), 1), "{:?}", view.notes);
    assert!(view.notes[0].contains("wait for room"), "{:?}", view.notes);
    std::fs::remove_file(inside.join("filler")).expect("room again");
    drain(said % 2 == 0);
    said += 1;
    let view = audit(&host);
    assert_eq!((view.intact, view.notes), (Some(true), Vec::new()));
    let acts: Vec<&str> = view.records.iter().map(|record| record.action.as_str()).collect();
    let wanted: Vec<&str> =
        (0..said).map(|number| if number % 2 == 0 { "drain" } else { "undrain" }).collect();
    assert_eq!(acts, wanted, "each is on record, in order");
}
