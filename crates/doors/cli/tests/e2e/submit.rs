//! `pinfold submit` and `pinfold wait`: jobs that nobody stands beside.

use pinfold_proto::JobState;
use pinfold_proto::view::JobView;
use pinfold_proto::wire::Reply;
use rustix::process::Signal;

use crate::host::{Host, status_field};
use crate::kind::{Kind, tests};
use crate::process::{Done, Running};
use crate::relay::Between;
use crate::wait::{PATIENCE, eventually, within};

tests! {
    Each: a_child_that_lives_on;
    Best: output_files, the_shell_that_submitted_may_go, output_files_that_cannot_be_made, what_a_job_wrote,
        waiting_for_jobs, a_file_that_is_followed, a_followed_file_that_is_removed,
        a_file_that_came_and_went_unseen_is_followed, a_file_that_is_just_being_made_is_followed;
    Once: variables_of_the_submitters_process_are_dropped;
}

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
    // By whatever names.
    submit(&["-o", "both", "-e", "./both"]);
    assert_eq!(host.wrote("both"), "out\nerr\n");
    let job = submit(&["-o", "alone"]);
    assert_eq!(
        (host.wrote("alone"), host.wrote(&format!("pinfold-{job}.err"))),
        ("out\n".into(), "err\n".into())
    );
    let done = host.pinfold(["submit", "--json", "-o", "/dev/null", "-e", "/dev/null", "true"]);
    assert_eq!(done.out, "{\"version\":1,\"job\":6}\n");
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
    // A member by its own number, and one that has not started, whose file is not there yet.
    let [first, own] = [0, 1].map(|at| {
        host.pinfold(["status", &array, "--columns", "job"])
            .out
            .lines()
            .nth(1 + at)
            .expect("a line")
            .trim()
            .to_owned()
    });
    assert_eq!((first.as_str(), host.pinfold(["log", &own]).out.as_str()), (array.as_str(), "5\n"));
    let later = submit(&["--array", "7,8", "--hold"], "echo $PINFOLD_ARRAY_INDEX");
    let none = host.pinfold(["log", &later]);
    assert!(none.code == Some(0) && none.err.contains("has not started yet"), "{none:?}");
    assert_eq!(none.out, format!("==> {later}_7 <==\n==> {later}_8 <==\n"));
    let followed = host.start(["log", "-f", &format!("{later}_8")]);
    host.succeeds(["release", &later]);
    let followed = followed.wait();
    assert_eq!((followed.code, followed.out.as_str()), (Some(0), "8\n"), "{followed:?}");
    let json = host.pinfold(["log", "--json", &job]).out;
    let path = host.work(&format!("out-{job}.txt"));
    assert!(json.contains(&format!("\"{}\"", path.display())), "{json}");
    // So it is in every JSON of a job, of an array's member as well; null where nobody knows.
    let keys = |output: Option<&str>, errors: Option<&str>| {
        let key = |name: Option<&str>| {
            name.map_or("null".to_owned(), |name| format!("\"{}\"", host.work(name).display()))
        };
        format!("\"output\":{},\"error_output\":{}", key(output), key(errors))
    };
    let tells = |job: &str, wanted: &str| {
        for command in [["status", job, "--json"], ["report", job, "--json"]] {
            let told = host.pinfold(command).out;
            assert!(told.contains(wanted), "{command:?}: {told}, not {wanted}");
        }
    };
    tells(&job, &keys(Some(&format!("out-{job}.txt")), Some(&format!("%{job}"))));
    let [out, err] = ["out", "err"].map(|ending| format!("pinfold-{array}_5.{ending}"));
    tells(&format!("{array}_5"), &keys(Some(&out), Some(&err)));
    let table = host.pinfold(["report", &job, "--columns", "job,output"]).out;
    assert!(table.contains(&format!("out-{job}.txt")), "{table}");
    let fails = |arguments: &[&str], code: i32, words: &str| {
        let done = host.pinfold(arguments);
        assert!(done.code == Some(code) && done.err.contains(words), "{arguments:?}: {done:?}");
    };
    fails(&["submit", "-o", "x-%a", "--", "true"], 2, "%j");
    fails(&["log", "4711"], 1, "4711");
    fails(&["log", "-f", &array], 2, "2 jobs; name one");
    let done = host.pinfold(["run", "--", "/bin/sh", "-c", "echo $PINFOLD_JOB_ID"]);
    let run = done.out.trim();
    tells(run, &keys(None, None));
    fails(&["log", run], 1, &format!("not known where the output of job {run} went"));
    let device = submit(&["-o", "/dev/null"], "true");
    fails(&["log", "--stdout", &device], 1, "/dev/null");
    fails(&["log", &device], 0, "/dev/null");
}

/// It is said that it is gone, of one that was open as well, and what comes after is printed.
fn a_followed_file_that_is_removed(kind: Kind) {
    let host = Host::new(kind);
    let script = "echo one; until [ -e go ]; do sleep 0.05; done; echo two";
    let done = host.succeeds(["submit", "-o", "out", "--", "/bin/sh", "-c", script]);
    let job: u64 = done.out.trim().parse().expect("the bare number");
    host.until(job, JobState::Running);
    let until = |running: &Running, stream: &str, words: &str| {
        eventually(words, || {
            let said = running.said(stream);
            if said.contains(words) { Ok(()) } else { Err(said) }
        });
    };
    let before = host.start(["log", "-f", &job.to_string()]);
    until(&before, "out", "one");
    std::fs::remove_file(host.work("out")).expect("it is there");
    until(&before, "err", "was removed");
    let after = host.start(["log", "-f", &job.to_string()]);
    until(&after, "err", "is not there");
    std::fs::write(host.work("out"), "another\n").expect("a file");
    until(&before, "err", "was replaced");
    until(&after, "out", "another");
    host.make("go");
    host.until(job, JobState::Exited);
    let (before, after) = (before.wait(), after.wait());
    assert_eq!((before.code, before.out.as_str()), (Some(0), "one\nanother\n"), "{before:?}");
    assert_eq!((after.code, after.out.as_str()), (Some(0), "another\n"), "{after:?}");
    let times = |done: &Done, words: &str| done.err.matches(words).count();
    assert_eq!(
        (times(&before, "was removed"), times(&after, "is not there")),
        (1, 1),
        "{before:?} {after:?}"
    );
}

/// To its job's end, though the file is emptied and the daemon is replaced meanwhile.
fn a_file_that_is_followed(kind: Kind) {
    let mut host = Host::new(kind);
    let wait = |name: &str| format!("until [ -e {name} ]; do sleep 0.05; done");
    let script =
        format!("echo a long first line; {}; : >out; echo two; {}; echo three", wait("one"), wait("two"));
    let done = host.succeeds(["submit", "-o", "out", "--", "/bin/sh", "-c", &script]);
    let job: u64 = done.out.trim().parse().expect("the bare number");
    host.until(job, JobState::Running);
    let followed = host.start(["log", "-f", &job.to_string()]);
    let has_read = |words: &str| {
        let found = within(PATIENCE, || followed.said("out").contains(words).then_some(()));
        assert!(found.is_some(), "{words} is not read: {}", followed.said("out"));
    };
    has_read("first line");
    host.make("one");
    has_read("two");
    // It looks for a daemon for 10 s, so it is stopped until there is one. What it asked before is answered.
    followed.signal(Signal::STOP);
    eventually("it is stopped", || {
        let state = status_field(followed.pid(), "State").expect("it lives");
        if state.starts_with('T') { Ok(()) } else { Err(state) }
    });
    host.status(&[job]);
    host.crash();
    host.start_daemon();
    followed.signal(Signal::CONT);
    host.make("two");
    let done = followed.wait();
    assert_eq!((done.code, done.out.as_str()), (Some(0), "a long first line\ntwo\nthree\n"), "{done:?}");
    assert_eq!(host.wrote("out"), "two\nthree\n");
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
    let view = eventually("its status is known", || {
        let view = host.job(1);
        if view.exit_code == Some(7) { Ok(view) } else { Err(format!("{view:?}")) }
    });
    assert_eq!(view.state, JobState::Running, "{view:?}");
    assert!(!view.pids.is_empty(), "{view:?}");
    let next = host.submit(&[], "true");
    assert_eq!(host.job(next).state, JobState::Queued);
    assert_eq!(host.status(&[]).slots.used, 1);
    host.make("go");
    let view = host.until(1, JobState::Exited);
    assert_eq!(view.exit_code, Some(7));
    host.until(next, JobState::Exited);
}

/// What `log -f` prints of a job whose output file is not there yet. `change`: what the daemon says of the job, as often as
/// it was asked.
fn followed(kind: Kind, mut change: impl FnMut(u32, &Host, &mut JobView)) -> String {
    let host = Host::new(kind);
    let done =
        host.succeeds(["submit", "--hold", "-o", "late", "-e", "/dev/null", "--", "/bin/sh", "-c", "true"]);
    assert_eq!(done.out, "1\n");
    // As that of an array's member, which is made when that starts.
    std::fs::remove_file(host.work("late")).expect("its file");
    let between = Between::stand(&host);
    let follower = host.start(["log", "-f", "1"]);
    let mut asked = 0;
    between.pass_on(between.client(), |reply| {
        if let Reply::Status(view) = reply {
            asked += 1;
            change(asked, &host, &mut view.jobs[0]);
        }
    });
    let done = follower.wait();
    assert_eq!(done.code, Some(0), "{done:?}");
    done.out
}

/// It is asked where the file is, whether it waits, and then whether it is over.
const WHETHER_OVER: u32 = 3;

/// The job begins and ends after it was looked at last.
fn a_file_that_came_and_went_unseen_is_followed(kind: Kind) {
    let said = followed(kind, |asked, host, view| {
        if asked >= WHETHER_OVER {
            std::fs::write(host.work("late"), "all\n").expect("its file");
            view.state = JobState::Exited;
        }
    });
    assert_eq!(said, "all\n");
}

/// The job runs, and its file is made a moment later.
fn a_file_that_is_just_being_made_is_followed(kind: Kind) {
    let said = followed(kind, |asked, host, view| {
        (view.state, view.started_s) = (JobState::Running, Some(1.0));
        if asked > WHETHER_OVER {
            std::fs::write(host.work("late"), "all\n").expect("its file");
            view.state = JobState::Exited;
        }
    });
    assert_eq!(said, "all\n");
}

/// What the submitter's service manager, make and dpkg said to the submitter alone does not reach a job that starts later.
fn variables_of_the_submitters_process_are_dropped() {
    let host = Host::new(Kind::Rootless);
    let mut command = host.command(host.programs().join("pinfold"));
    command.args(["submit", "-o", "out", "--", "env"]);
    command.envs([
        ("NOTIFY_SOCKET", "/x"),
        ("LISTEN_FDS", "1"),
        ("DPKG_FRONTEND_LOCKED", "1"),
        ("KEPT", "1"),
    ]);
    command.env("MAKEFLAGS", "k -j4 --jobserver-auth=fifo:/x");
    let job = host.spawn(command).wait().out;
    assert_eq!(host.pinfold(["wait", job.trim()]).code, Some(0));
    let out = host.wrote("out");
    let has = |line: &str| out.lines().any(|own| own == line);
    assert!(has("KEPT=1") && has("MAKEFLAGS=k"), "{out}");
    assert!(!["NOTIFY_SOCKET", "LISTEN_FDS", "DPKG_"].iter().any(|name| out.contains(name)), "{out}");
}
