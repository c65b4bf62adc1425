//! `pinfold submit` and `pinfold wait`: jobs that nobody stands beside.

use pinfold_proto::JobState;

use crate::host::Host;
use crate::kind::{Kind, each_kind};

each_kind!(
    output_files,
    output_files_that_cannot_be_made,
    what_a_job_wrote,
    waiting_for_jobs,
    the_shell_that_submitted_may_go,
    a_child_that_lives_on,
);

fn output_files(kind: Kind) {
    let host = Host::new(kind);
    let script = "echo out; echo err >&2; cat; exit 3";
    let submit = |options: &[&str]| {
        let done = host.pinfold([&["submit"], options, &["--", "/bin/sh", "-c", script]].concat());
        assert_eq!(done.code, Some(0), "{done:?}");
        let job: u64 = done.out.trim().parse().expect("the bare number");
        let view = host.until(job, JobState::Exited);
        assert_eq!(view.exit_code, Some(3));
        job
    };
    let job = submit(&[]);
    assert_eq!(host.wrote(&format!("pinfold-{job}.out")), "out\n");
    assert_eq!(host.wrote(&format!("pinfold-{job}.err")), "err\n");
    submit(&["-o", "own.out", "-e", "own.err"]);
    assert_eq!((host.wrote("own.out").as_str(), host.wrote("own.err").as_str()), ("out\n", "err\n"));
    submit(&["-o", "both", "-e", "both"]);
    assert_eq!(host.wrote("both"), "out\nerr\n");
    let done = host.pinfold(["submit", "--json", "-o", "/dev/null", "-e", "/dev/null", "true"]);
    assert_eq!(done.out, "{\"version\":1,\"job\":4}\n");
}

fn what_a_job_wrote(kind: Kind) {
    let host = Host::new(kind);
    let submit = |options: &[&str], script: &str| {
        let done = host.pinfold([&["submit"], options, &["--", "/bin/sh", "-c", script]].concat());
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out.trim().to_owned()
    };
    let job = submit(&["-o", "out-%j.txt", "-e", "%%%A"], "echo out; echo err >&2");
    // From elsewhere as well, and while it runs or after.
    let done = host.shell(&format!("cd / && pinfold log -f {job} && pinfold log --stderr {job}"));
    assert_eq!((done.code, &done.out[..]), (Some(0), "out\nerr\n"), "{done:?}");
    assert_eq!(host.wrote(&format!("out-{job}.txt")), "out\n");
    assert_eq!(host.wrote(&format!("%{job}")), "err\n");
    let array = submit(&["--array", "3,5"], "echo $PINFOLD_ARRAY_INDEX");
    host.succeeds(["wait", &array]);
    assert_eq!(host.pinfold(["log", &format!("{array}_5")]).out, "5\n");
    assert_eq!(host.pinfold(["log", &array]).out, format!("==> {array}_3 <==\n3\n==> {array}_5 <==\n5\n"));
    let json = host.pinfold(["log", "--json", &job]).out;
    let path = host.work(&format!("out-{job}.txt"));
    assert!(json.contains(&format!("\"{}\"", path.display())), "{json}");
    let fails = |arguments: &[&str], code: i32, words: &str| {
        let done = host.pinfold(arguments);
        assert!(done.code == Some(code) && done.err.contains(words), "{arguments:?}: {done:?}");
    };
    fails(&["submit", "-o", "x-%a", "--", "true"], 2, "%j");
    fails(&["log", "4711"], 1, "4711");
    fails(&["log", "-f", &array], 2, "2 members");
    host.succeeds(["run", "--", "true"]);
    fails(&["log", "4"], 1, "not known where the output of job 4 went");
    let device = submit(&["-o", "/dev/null"], "true");
    fails(&["log", &device], 1, "/dev/null");
}

fn output_files_that_cannot_be_made(kind: Kind) {
    let host = Host::new(kind);
    let done = host.pinfold(["submit", "-o", "no/such/directory/out", "--", "true"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.err.contains("no/such/directory/out"), "{done:?}");
    let view = host.until(1, JobState::Exited);
    assert_eq!((view.started_s, view.exit_code), (None, None));
    let reason = view.reason.expect("a reason");
    assert!(reason.contains("no/such/directory/out"), "{reason}");
    let done = host.pinfold(["submit", "--", "no-such-command-anywhere"]);
    assert_eq!(done.code, Some(127), "{done:?}");
}

fn waiting_for_jobs(kind: Kind) {
    let host = Host::new(kind);
    let script = |code: u32| format!("until [ -e go ]; do sleep 0.05; done; exit {code}");
    let first = host.submit(&[], &script(4)).to_string();
    let second = host.submit(&[], &script(5)).to_string();
    let both = host.start(["wait", &first, &second]);
    let reversed = host.start(["wait", &second, &first]);
    host.make("go");
    both.wait().ended_with(5);
    reversed.wait().ended_with(4);
    // Jobs that are over are not waited for; one that never was is no job.
    assert_eq!(host.pinfold(["wait", &first]).code, Some(4));
    let done = host.pinfold(["wait", "999"]);
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("no job 999"), "{done:?}");
    let killed = host.submit(&[], "kill -KILL $$").to_string();
    assert_eq!(host.pinfold(["wait", &killed]).code, Some(137));
}

fn the_shell_that_submitted_may_go(kind: Kind) {
    let host = Host::new(kind);
    // The shell's whole session ends by SIGHUP and SIGKILL right after; the job has nothing to do with it.
    let script = "until [ -e go ]; do sleep 0.05; done; echo done; exit 8";
    host.shell(&format!(
        "setsid --wait sh -c 'pinfold submit -o out -e err -- sh -c \"{script}\"; kill -HUP 0; kill -KILL 0'"
    ));
    host.until(1, JobState::Running);
    host.make("go");
    assert_eq!(host.until(1, JobState::Exited).exit_code, Some(8));
    assert_eq!(host.wrote("out"), "done\n");
}

/// A job is all processes below one start: one that a command leaves behind holds the slot until it ends, and the
/// command's status is known all along.
fn a_child_that_lives_on(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let left = "setsid sh -c 'until [ -e go ]; do sleep 0.05; done' </dev/null >/dev/null 2>&1 &";
    let done = host.pinfold(["run", "--", "/bin/sh", "-c", &format!("{left} exit 7")]);
    assert_eq!(done.code, Some(7), "{done:?}");
    let view = host.job(1);
    assert_eq!((view.state, view.exit_code), (JobState::Running, Some(7)), "{view:?}");
    assert!(!view.pids.is_empty(), "{view:?}");
    let next = host.submit(&[], "true");
    assert_eq!(host.job(next).state, JobState::Queued);
    assert_eq!(host.status(&[]).slots.used, 1);
    host.make("go");
    let view = host.until(1, JobState::Exited);
    assert_eq!(view.exit_code, Some(7));
    host.until(next, JobState::Exited);
}
