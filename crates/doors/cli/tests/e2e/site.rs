//! The site's own programs around jobs: called before and after each, whatever ends it, in order and in the opposite
//! one; heard, bounded in time, and run only if nobody else can write them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use pinfold_proto::JobState;
use pinfold_testkit::ignore;
use rustix::process::Signal;

use crate::host::{Host, processes_with, send};
use crate::kind::{Kind, become_nobody, tests};
use crate::wait::{eventually, no_rescue};

tests! {
    Best: around_a_job_in_order, a_refusal_has_their_words, after_follows_when_job_and_daemon_are_killed,
        before_begins_anew_with_the_daemon, after_follows_a_restart_of_the_host,
        one_that_cannot_be_started_is_called_again, one_that_the_next_daemon_does_not_know_is_told_of;
    Once: an_operator_names_no_programs;
}

pub(crate) const WAIT: &str = "until [ -e go ]; do sleep 0.05; done";

/// Notes each call in the working directory's `log`.
pub(crate) const NOTE: &str = "echo $1 ${0##*/} $PINFOLD_JOB_ID $PINFOLD_EXIT_CODE $PINFOLD_SIGNAL >>log";

/// A script of the site's; gives its path.
pub(crate) fn module(host: &Host, name: &str, text: &str) -> String {
    let path = host.path(name);
    let work = host.work(".");
    // One that is just being started cannot be written to, so that it is replaced.
    let new = host.path(&format!("{name}.new"));
    pinfold_testkit::executable(&new, &format!("#!/bin/sh\ncd {} && {text}\n", work.display()));
    std::fs::rename(&new, &path).expect("a directory of ours");
    path.display().to_string()
}

/// A host with a daemon that calls these programs.
pub(crate) fn host(kind: Kind, modules: &[(&str, &str)], others: &[&str]) -> Host {
    let mut host = Host::without_daemon(kind, &[]);
    let paths: Vec<String> = modules.iter().map(|(name, text)| module(&host, name, text)).collect();
    let site = format!("modules.site={}", paths.join(","));
    host.set(&[&[site.as_str()], others].concat());
    host.start_daemon();
    host
}

#[track_caller]
pub(crate) fn logged(host: &Host, want: &str) {
    eventually(&format!("the log is {want:?}"), || {
        let log = host.wrote("log");
        if log == want { Ok(()) } else { Err(log) }
    });
}

/// Nothing is owed to any job.
pub(crate) fn settled(host: &Host) {
    eventually("nothing is owed to a job", || {
        match std::fs::read_dir(host.state().join("around")).map(Iterator::count) {
            Ok(0) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

fn around_a_job_in_order(kind: Kind) {
    let say = |name: &str| format!("{NOTE}; [ $1 = after ] || echo PINFOLD_{name}=of-$PINFOLD_JOB_ID");
    let host = host(kind, &[("a", &say("A")), ("b", &say("B"))], &[]);
    let wrapper = host.path("wrap");
    pinfold_testkit::executable(&wrapper, "#!/bin/sh\necho wrapped\nexec \"$@\"\n");
    let wrap = format!("modules.wrap={}", wrapper.display());
    host.succeeds(["config", "set", &wrap]);
    let done = host.pinfold(["run", "--", "/bin/sh", "-c", "echo $PINFOLD_A $PINFOLD_B; exit 3"]);
    assert_eq!((done.code, done.out.as_str()), (Some(3), "wrapped\nof-1 of-1\n"), "{done:?}");
    logged(&host, "before a 1\nbefore b 1\nafter b 1 3\nafter a 1 3\n");
    let done = host.pinfold(["run", "-n", "2", "--", "/bin/sh", "-c", "echo $PINFOLD_B"]);
    assert_eq!(done.out.matches("wrapped").count(), 2, "each task: {done:?}");
    assert_eq!(done.out.matches("of-2").count(), 2, "{done:?}");
    std::fs::write(host.work("list"), "echo x >$TMPDIR/x\ntrue\n").expect("a list");
    kind.give(&host.work("list"));
    let done = host.pinfold(["batch", "--tmp", "1MiB", "list"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    settled(&host);
    let log = host.wrote("log");
    assert_eq!((log.matches("before").count(), log.matches("after").count()), (8, 8), "{log}");
}

fn a_refusal_has_their_words(kind: Kind) {
    let refuse = format!("{NOTE}; [ $1 = after ] || {{ echo the licence server is away >&2; exit 1; }}");
    let host = host(kind, &[("a", NOTE), ("b", &refuse)], &[]);
    let done = host.pinfold(["run", "touch", "ran"]);
    assert_eq!(done.code, Some(5), "{done:?}");
    assert!(done.err.contains("ended with exit code 1: the licence server is away"), "{done:?}");
    logged(&host, "before a 1\nbefore b 1\nafter b 1\nafter a 1\n");
    let job = host.submit(&[], "touch ran");
    let reason = host.until(job, JobState::Exited).reason.unwrap_or_default();
    assert!(reason.contains("the licence server is away"), "{reason}");
    // Only now may they be short of time: on a busy machine even a script that ends at once can miss a narrow limit.
    module(&host, "b", "[ $1 = after ] || while :; do sleep 0.05; done");
    let alone = format!("modules.site={}", host.path("b").display());
    host.succeeds(["config", "set", "modules.limit=500ms", &alone]);
    let done = host.pinfold(["run", "touch", "ran"]);
    assert_eq!(done.code, Some(5), "{done:?}");
    assert!(done.err.contains("did not end within 500ms"), "{done:?}");
    host.succeeds(["config", "set", "modules.limit=60s"]);
    for at in [host.path("b"), host.path(".")] {
        let before = std::fs::metadata(&at).expect("it is there").permissions();
        std::fs::set_permissions(&at, PermissionsExt::from_mode(before.mode() | 0o020)).expect("it is ours");
        let done = host.pinfold(["run", "touch", "ran"]);
        assert!(done.code == Some(5) && done.err.contains("can be written by others"), "{done:?}");
        std::fs::set_permissions(&at, before).expect("it is ours");
    }
    settled(&host);
    assert!(!host.work("ran").exists(), "no command was started");
    // What wraps commands is checked against the same rule.
    let unset = ["config", "set", "modules.site=", "modules.wrap=/nonexistent/wrap"];
    assert_eq!(host.pinfold(unset).code, Some(0));
    let done = host.pinfold(["run", "touch", "ran"]);
    assert!(done.code == Some(5) && done.err.contains("/nonexistent/wrap"), "{done:?}");
    assert!(!host.work("ran").exists(), "no command was started");
}

fn after_follows_when_job_and_daemon_are_killed(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = host(kind, &[("a", NOTE)], &[]);
    let job = host.submit(&[], WAIT);
    host.until(job, JobState::Running);
    host.succeeds(["cancel", "--signal", "KILL", &job.to_string()]);
    logged(&host, "before a 1\nafter a 1 9\n");
    let job = host.submit(&[], WAIT);
    host.until(job, JobState::Running);
    host.crash();
    host.make("go");
    host.start_daemon();
    host.until_exit_code(job, 0);
    logged(&host, "before a 1\nafter a 1 9\nbefore a 2\nafter a 2 0\n");
    settled(&host);
}

/// The daemon dies while a program prepares a job: what was begun is undone, and the job, which waits, prepared anew.
fn before_begins_anew_with_the_daemon(kind: Kind) {
    let slow = format!("{NOTE}; [ $1 = after ] || {WAIT}");
    let mut host = host(kind, &[("a", NOTE), ("b", &slow)], &[]);
    let job = host.submit(&[], "exit 4");
    logged(&host, "before a 1\nbefore b 1\n");
    assert_eq!(host.job(job).state, JobState::Queued);
    host.crash();
    host.start_daemon();
    let anew = "before a 1\nbefore b 1\nafter b 1\nafter a 1\nbefore a 1\nbefore b 1\n";
    logged(&host, anew);
    host.make("go");
    host.until_exit_code(job, 4);
    logged(&host, &format!("{anew}after b 1 4\nafter a 1 4\n"));
    // One that is taken back meanwhile is undone as well.
    std::fs::remove_file(host.work("go")).expect("it was made above");
    let job = host.submit(&[], "exit 5");
    eventually("it is prepared", || {
        let log = host.wrote("log");
        if log.contains("before b 2") { Ok(()) } else { Err(log) }
    });
    host.succeeds(["cancel", &job.to_string()]);
    host.until(job, JobState::Exited);
    host.make("go");
    settled(&host);
    assert!(
        host.wrote("log").ends_with("before a 2\nbefore b 2\nafter b 2\nafter a 2\n"),
        "{}",
        host.wrote("log")
    );
}

/// A restart of the host leaves a state directory of another boot, and nothing of what ran.
fn after_follows_a_restart_of_the_host(kind: Kind) {
    let mut host = host(kind, &[("a", NOTE)], &[]);
    let done = host.pinfold(["run", "true"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    logged(&host, "before a 1\nafter a 1 0\n");
    settled(&host);
    let job = host.submit(&[], WAIT);
    host.until(job, JobState::Running);
    let socket = host.socket().display().to_string();
    host.crash();
    // Keepers and jobs are gone with the host.
    // All at once: a keeper that outlived its job for a moment would note how that ended.
    let left = processes_with(&socket);
    for signal in [Signal::STOP, Signal::KILL] {
        left.iter().for_each(|&process| send(process, signal));
    }
    // What a daemon had noted that the host took with it, of a job that no store knows any more.
    let record = format!(
        "{{\"version\":1,\"job\":70,\"begun\":[\"{}\"],\"variables\":[],\"about\":{{\"user\":\"ann\",\"uid\":1,\
         \"name\":\"x\",\"project\":null,\"command\":[\"x\"],\"directory\":\"/\",\"cpus\":null,\"tmpdir\":null}}}}",
        host.path("a").display()
    );
    let path = host.state().join("around/job-70.json");
    std::fs::write(&path, record).expect("a record");
    kind.give(&path);
    let boot = host.state().join("boot");
    std::fs::write(&boot, "00000000-0000-0000-0000-000000000000\n").expect("a note of another boot");
    host.start_daemon();
    eventually("both are told that it is over", || {
        let log = host.wrote("log");
        if log.contains("after a 2\n") && log.contains("after a 70\n") { Ok(()) } else { Err(log) }
    });
    assert_eq!(host.wrote("log").lines().count(), 5, "{}", host.wrote("log"));
    settled(&host);
}

/// A hook that is not there for a moment, or is not to be trusted then, did not run: what it was to do is still to be done.
fn one_that_cannot_be_started_is_called_again(kind: Kind) {
    let mut host = host(kind, &[("a", NOTE)], &["slots.factor=4"]);
    let (path, aside) = (host.path("a"), host.path("a.aside"));
    let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("it is ours");
    let owed = |host: &Host, words: &str| {
        eventually(&format!("doctor says {words}"), || {
            let done = host.pinfold(["doctor"]);
            let is_said = done.out.contains("its epilog could not be called") && done.out.contains(words);
            if is_said { Ok(()) } else { Err(done.out) }
        });
    };
    let ends_without_it = |host: &Host| {
        let job = host.submit(&[], WAIT);
        host.until(job, JobState::Running);
        std::fs::rename(&path, &aside).expect("it is ours");
        host.make("go");
        host.until_exit_code(job, 0);
        owed(host, "failed to look at");
    };
    ends_without_it(&host);
    // Its epilog is owed by the next daemon as well.
    host.crash();
    host.start_daemon();
    owed(&host, "failed to look at");
    std::fs::rename(&aside, &path).expect("it is ours");
    logged(&host, "before a 1\nafter a 1 0\n");
    settled(&host);
    // One that others could write is not run; once nobody can, it is.
    std::fs::remove_file(host.work("go")).expect("it was made above");
    let job = host.submit(&[], WAIT);
    host.until(job, JobState::Running);
    mode(0o757);
    host.make("go");
    host.until_exit_code(job, 0);
    owed(&host, "can be written by others");
    mode(0o755);
    logged(&host, "before a 1\nafter a 1 0\nbefore a 2\nafter a 2 0\n");
    settled(&host);
    // A job waits for its prolog, and one that is cancelled meanwhile owes nothing.
    std::fs::rename(&path, &aside).expect("it is ours");
    let (job, cancelled) = (host.submit(&[], "exit 4"), host.submit(&[], "exit 5"));
    for job in [job, cancelled] {
        eventually("it is said why it waits", || {
            let reason = host.job(job).reason.unwrap_or_default();
            if reason.contains("its prolog could not be called") { Ok(()) } else { Err(reason) }
        });
    }
    eventually("so does the headline of why", || {
        let done = host.pinfold(["why", &job.to_string()]);
        let is_said = done.out.contains("its prolog could not be called: failed to look at")
            && done.out.contains("or take the hook out of `modules.site`")
            && !done.out.contains("since its start");
        if is_said { Ok(()) } else { Err(done.out) }
    });
    host.succeeds(["cancel", &cancelled.to_string()]);
    assert_eq!(host.until(cancelled, JobState::Exited).started_s, None);
    std::fs::rename(&aside, &path).expect("it is ours");
    host.until_exit_code(job, 4);
    settled(&host);
    assert!(host.wrote("log").ends_with("after a 2 0\nbefore a 3\nafter a 3 4\n"), "{}", host.wrote("log"));
    // One that is not there is taken, and it is said what follows.
    let missing = host.pinfold(["config", "set", "modules.site=[\"/nonexistent\"]"]);
    let warned = "warning: modules.site: no job starts until this is mended: failed to look at /nonexistent";
    assert!(missing.code == Some(0) && missing.err.contains(warned), "{missing:?}");
    let there = host.pinfold(["config", "set", &format!("modules.site=[\"{}\"]", path.display())]);
    let kept = format!(
        "pinfold: modules.site is [\"{}\"] until the daemon ends; `pinfold config save` keeps it\n",
        path.display()
    );
    assert_eq!((there.code, &there.err), (Some(0), &kept), "{there:?}");
    // What the site took out of its configuration is not waited for.
    std::fs::remove_file(host.work("go")).expect("it was made above");
    ends_without_it(&host);
    host.succeeds(["config", "set", "modules.site="]);
    settled(&host);
}

/// A hook that was set and not saved is none of the next daemon's. An epilog that could not be called by then is called by
/// nobody, and that is said.
fn one_that_the_next_daemon_does_not_know_is_told_of(kind: Kind) {
    let mut host = Host::new(kind);
    let path = module(&host, "a", NOTE);
    host.succeeds(["config", "set", &format!("modules.site={path}")]);
    let job = host.submit(&[], WAIT);
    host.until(job, JobState::Running);
    std::fs::rename(&path, host.path("aside")).expect("it is ours");
    host.make("go");
    host.until_exit_code(job, 0);
    host.crash();
    host.start_daemon();
    settled(&host);
    let said = host.daemon_said();
    let is_told = |line: &str| line.contains("is not tried again") && line.contains(&path);
    assert!(said.lines().any(is_told), "{said}");
    let done = host.pinfold(["doctor"]);
    assert!(done.out.contains(&format!("not called: job {job}: {path}")), "{done:?}");
}

/// A user who names a program that root's daemon starts would be root.
fn an_operator_names_no_programs() {
    if !rustix::process::geteuid().is_root() {
        ignore!("only root can be two users");
    }
    let host = Host::with(Kind::Rootless, &["access.operators=nobody"]);
    std::fs::set_permissions(host.path("."), PermissionsExt::from_mode(0o755)).expect("an open directory");
    let set = |change: &str| {
        let mut command = host.command(host.programs().join("pinfold"));
        command.args(["config", "set", change]).stdin(Stdio::null()).current_dir("/");
        become_nobody(&mut command);
        host.spawn(command).wait()
    };
    if !Path::new("/etc/passwd").exists() || set("slots.factor=2").code != Some(0) {
        ignore!("there is no user nobody here, or the programs are out of its reach");
    }
    for change in ["modules.site=/bin/true", " modules.wrap=/bin/true", "modules.limit=1h"] {
        let done = set(change);
        assert!(done.code == Some(3) && done.err.contains("own user"), "{change}: {done:?}");
    }
}
