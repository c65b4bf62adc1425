//! What is learned from jobs: one user's figures, true or forged, say nothing of another user's jobs.

use super::*;
use crate::kind::tests;

tests! {
    Best: forged_ends_say_nothing_of_others, forged_ends_say_nothing_of_others_after_a_restart;
}

/// More than any host has.
const ABSURD_BYTES: u64 = 1 << 44;

fn forged() -> Ending {
    Ending { exit_code: Some(0), rss_peak_bytes: ABSURD_BYTES, ended_us: 1, ..Ending::default() }
}

/// What the victim's jobs are, in all that others can see of them.
fn like_the_victims(held: bool) -> Box<JobSpec> {
    let command = vec!["/bin/sleep".to_owned(), "3600".to_owned()];
    Box::new(JobSpec { name: "sleep".to_owned(), command, held, ..spec() })
}

/// Ends of jobs that never ran, by a message and by being presented again, and of jobs that ran for a moment.
fn forge(host: &Host) {
    for ticket in 0..3 {
        speak_as(host, ATTACKER, |mut wire| {
            wire.send(&Request::Submit { ticket, spec: like_the_victims(true), pid: None });
            let Some(Reply::Queued { job, .. }) = wire.hear() else { panic!("it is queued") };
            wire.send(&Request::Attach { job, phase: Phase::Ended { ending: forged(), run: None } });
            wire.hear().expect("an answer");
            wire.send(&Request::Ended { job, ending: forged() });
            wire.send(&Request::Control { job, verb: Verb::Cancel { signal: 9 } });
            wire.hear().expect("an answer");
        });
    }
    for ticket in 0..3 {
        let job = speak_as(host, ATTACKER, |mut wire| {
            let mut child =
                Killed(Command::new("/bin/cat").stdin(Stdio::piped()).spawn().expect("a process"));
            let pid = Some(child.0.id());
            wire.send(&Request::Submit { ticket, spec: like_the_victims(false), pid });
            let Some(Reply::Queued { job, .. }) = wire.hear() else { panic!("it is queued") };
            let begun = wire.hear();
            assert!(matches!(begun, Some(Reply::Go { .. })), "{begun:?}");
            drop(child.0.stdin.take());
            child.0.wait().expect("it ends");
            wire.send(&Request::Ended { job, ending: Ending { ended_us: u64::MAX, ..forged() } });
            let ended = wire.hear();
            assert!(matches!(ended, Some(Reply::Recorded { .. })), "{ended:?}");
            job
        });
        host.until(job, JobState::Exited);
    }
}

/// Two jobs of the victim's run side by side, which they do not where each is expected to need all memory.
fn two_run(host: &Host) {
    let sleep = ["submit", "-o", "/dev/null", "-e", "/dev/null", "--", "/bin/sleep", "3600"];
    let jobs: Vec<u64> = (0..2)
        .map(|_| {
            let done = run_as(host, VICTIM, &sleep);
            assert_eq!(done.code, Some(0), "{done:?}");
            done.out.trim().parse().expect("a number")
        })
        .collect();
    for &job in &jobs {
        let why = run_as(host, VICTIM, &["why", &job.to_string()]).out;
        assert!(!why.contains("16384") && !why.contains("TiB"), "{why}");
        host.until(job, JobState::Running);
    }
    for job in jobs {
        assert_eq!(run_as(host, VICTIM, &["cancel", "--signal", "KILL", &job.to_string()]).code, Some(0));
        host.until(job, JobState::Exited);
    }
}

fn forged_ends_say_nothing_of_others(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    forge(&host);
    two_run(&host);
}

/// A daemon that starts learns from the store, which has what keepers told.
fn forged_ends_say_nothing_of_others_after_a_restart(kind: Kind) {
    let mut host = shared(kind, &["slots.factor=4"]);
    forge(&host);
    assert_eq!(host.stop(), Some(0));
    host.start_daemon();
    two_run(&host);
}
