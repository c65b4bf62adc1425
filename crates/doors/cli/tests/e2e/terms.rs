//! When jobs may begin, after which ends of others, and how long they may run.

use std::fs;
use std::io::Write as _;
use std::time::Instant;

use pinfold_proto::{End, JobState};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::host::{Host, has, said};
use crate::kind::{Kind, tests};
use crate::wait::no_rescue;

tests! {
    Each: ended_at_its_limit_of_cpu_time;
    Best: ended_at_its_timeout, frozen_time_does_not_count, signalled_before_its_timeout,
        started_after_how_others_ended, never_started_after_a_failure,
        jobs_of_one_name_are_waited_for_together, what_is_over_counts_as_one, begun_at_its_time,
        a_time_set_for_a_job_that_was_requeued_survives_the_daemon, terms_survive_the_daemon,
        batches_have_timeouts, jobs_are_known_by_their_names;
}

const ONE_SLOT: &[&str] = &["slots.factor=1", "host.cpus=0"];

/// Runs until the test says so.
const WAIT: &str = "while [ ! -e go ]; do sleep 0.05; done";

fn ended_at_its_timeout(kind: Kind) {
    let host = Host::new(kind);
    let done = host.pinfold(["run", "--timeout", "200ms", "--comment", "too long", "--", "sleep", "1000"]);
    assert_eq!(done.code, Some(124), "{done:?}");
    let view = host.job(1);
    assert_eq!((view.end, view.signal, view.timeout_s), (Some(End::Timeout), Some(15), Some(0.2)));
    assert_eq!(view.comment.as_deref(), Some("too long"));
    has(&view.reason.unwrap_or_default(), "longer than its timeout");
    has(&said(&host, &["report", "1", "--json"], 0), "\"end\":\"timeout\"");
    let why = said(&host, &["why", "1"], 0);
    has(&why, "send TERM: it ran for longer than its timeout");
    assert!(!why.contains("a user or operator"), "{why}");
    // One that heeds the signal ended at its timeout all the same, and one that is over in time did not.
    let heeds = "trap 'exit 0' TERM; : >heeds; while :; do sleep 0.05; done";
    let job = host.submit(&["--timeout", "1h"], heeds);
    host.until_made("heeds");
    // Only now is the time short: on a busy machine it takes a while until the signal is heeded.
    said(&host, &["set", "2", "--timeout", "1ms"], 0);
    assert_eq!(host.until(job, JobState::Exited).end, Some(End::Timeout));
    said(&host, &["wait", "2"], 124);
    // It did not succeed, and nobody says that it did.
    has(&said(&host, &["report", "2"], 0), "ended at its timeout, then exited 0");
    has(&said(&host, &["status", "--all"], 0), "timeout");
    has(&said(&host, &["report", "--by", "user", "--json"], 0), "\"failed\":2");
    said(&host, &["run", "--timeout", "1h", "--", "true"], 0);
    assert_eq!(host.job(3).end, None);
    has(&said(&host, &["run", "--timeout", "0", "--", "true"], 2), "--timeout 0");
    has(&said(&host, &["run", "--timeout-signal", "USR1@1s", "--", "true"], 2), "--timeout");
    has(
        &said(&host, &["run", "--timeout", "5s", "--timeout-signal", "USR1@5s", "--", "true"], 2),
        "later than that",
    );
}

/// A FIFO in the directory where commands run; what is written to it is there for the first job that reads.
fn gate(host: &Host) -> fs::File {
    let path = host.work("gate");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe with a name");
    host.kind().give(&path);
    // Open for both, neither end waits for the other to be opened.
    fs::File::options().read(true).write(true).open(&path).expect("both of its ends")
}

fn ended_at_its_limit_of_cpu_time(kind: Kind) {
    let mut host = Host::new(kind);
    // Two processes use it together; one that sleeps uses none.
    let busy = "while :; do :; done & while :; do :; done";
    let done = host.pinfold(["run", "--cpu-limit", "300ms", "--", "/bin/sh", "-c", busy]);
    assert_eq!(done.code, Some(124), "{done:?}");
    let view = host.job(1);
    assert_eq!((view.end, view.cpu_limit_s), (Some(End::CpuLimit), Some(0.3)));
    has(&view.reason.unwrap_or_default(), "used more CPU time than its limit of");
    has(&said(&host, &["report", "1", "--json"], 0), "\"end\":\"cpu_limit\"");
    has(&said(&host, &["why", "1"], 0), "end it at its limit of CPU time");
    said(&host, &["run", "--cpu-limit", "250ms", "--", "sleep", "0.5"], 0);
    has(&said(&host, &["run", "--cpu-limit", "0", "--", "true"], 2), "--cpu-limit 0");
    // A daemon that comes after looks at it as well. Until then the job uses no time, as a read takes none.
    let mut gate = gate(&host);
    let job = host.submit(&["--cpu-limit", "300ms"], &format!("read -r line <gate; {busy}"));
    host.until(job, JobState::Running);
    host.crash();
    host.start_daemon();
    gate.write_all(b"\n").expect("its reader is there, or this end");
    assert_eq!(host.until(job, JobState::Exited).end, Some(End::CpuLimit));
    said(&host, &["wait", &job.to_string()], 124);
    // One that runs gets a limit, and another one is freed of it.
    let job = host.submit(&[], busy);
    host.until(job, JobState::Running);
    said(&host, &["set", &job.to_string(), "--cpu-limit", "300ms"], 0);
    assert_eq!(host.until(job, JobState::Exited).end, Some(End::CpuLimit));
    let job = host.submit(&["--cpu-limit", "1h"], "sleep 3600");
    said(&host, &["set", &job.to_string(), "--cpu-limit", "0"], 0);
    assert_eq!(host.job(job).cpu_limit_s, None);
}

fn frozen_time_does_not_count(kind: Kind) {
    let _frozen = no_rescue();
    let host = Host::new(kind);
    let job = host.submit(&["--timeout", "1h"], WAIT);
    host.until(job, JobState::Running);
    said(&host, &["suspend", "1"], 0);
    host.until(job, JobState::Frozen);
    // Less than it has been asked for by now, and more than it ran.
    said(&host, &["set", "1", "--timeout", "1h"], 0);
    host.make("go");
    said(&host, &["resume", "1"], 0);
    let view = host.until(job, JobState::Exited);
    assert_eq!((view.end, view.exit_code), (None, Some(0)));
    // Changed while it runs, to less than it ran already.
    fs::remove_file(host.work("go")).expect("it was made");
    let job = host.submit(&[], WAIT);
    host.until(job, JobState::Running);
    said(&host, &["set", "2", "--timeout", "1ms", "--comment", "enough"], 0);
    let view = host.until(job, JobState::Exited);
    assert_eq!((view.end, view.comment.as_deref()), (Some(End::Timeout), Some("enough")));
}

fn signalled_before_its_timeout(kind: Kind) {
    let host = Host::new(kind);
    let job = host.submit(
        &["--timeout", "3h", "--timeout-signal", "USR1@1h"],
        "trap 'echo heard >>heard; exit 3' USR1; : >listens; while :; do sleep 0.05; done",
    );
    host.until_made("listens");
    // An hour before that is a moment after its start.
    said(&host, &["set", "1", "--timeout", "1h1ms"], 0);
    let view = host.until(job, JobState::Exited);
    assert_eq!((view.exit_code, view.end), (Some(3), None), "{view:?}");
    assert_eq!(host.wrote("heard"), "heard\n");
    let why = said(&host, &["why", "1"], 0);
    has(&why, "before its timeout");
    assert!(!why.contains("a user or operator"), "{why}");
}

fn started_after_how_others_ended(kind: Kind) {
    let host = Host::new(kind);
    let (good, bad) =
        (host.submit(&["--name", "good"], WAIT), host.submit(&["--name", "bad"], &format!("{WAIT}; exit 7")));
    let waits = host.submit(&["--after", "ok:good,failed:bad"], "echo both >both");
    let rescue = host.submit(&["--after", &format!("failed:{bad}")], "true");
    let any = host.submit(&["--after", &format!("any:{bad},{good}")], "true");
    host.until(good, JobState::Running);
    for job in [waits, rescue, any] {
        assert_eq!(host.job(job).state, JobState::Queued);
    }
    let why = said(&host, &["why", "3"], 0);
    has(&why, "it waits for job 1 to end well and for job 2 to fail");
    has(&host.job(waits).reason.unwrap_or_default(), "for job 1 to end well");
    host.make("go");
    for job in [waits, rescue, any] {
        assert_eq!(host.until(job, JobState::Exited).exit_code, Some(0));
    }
    assert_eq!(host.wrote("both"), "both\n");
    // Those that are over count, by the last of a name.
    said(&host, &["run", "--after", "ok:good,failed:2", "--", "true"], 0);
    has(&said(&host, &["run", "--after", "ok:bad", "--", "true"], 5), "job 2 did not");
    has(&said(&host, &["run", "--after", "ok:nobody", "--", "true"], 1), "there is no job `nobody`");
    has(&said(&host, &["run", "--after", "ok:99", "--", "true"], 2), "no such job");
    has(&said(&host, &["run", "--after", "okay:1", "--", "true"], 2), "ok:, failed: and any:");
    // An array counts as one.
    let done = host.pinfold([
        "submit",
        "--name",
        "grid",
        "--array",
        "0-2",
        "--",
        "/bin/sh",
        "-c",
        "exit $((PINFOLD_ARRAY_INDEX == 1))",
    ]);
    assert_eq!(done.code, Some(0), "{done:?}");
    said(&host, &["run", "--after", "failed:grid", "--", "true"], 0);
    has(&said(&host, &["run", "--after", "ok:grid", "--", "true"], 5), "had ended well");
}

/// As the lines of a batch have one name.
fn jobs_of_one_name_are_waited_for_together(kind: Kind) {
    let host = Host::with(kind, ONE_SLOT);
    let lines = [host.submit(&["--name", "step"], WAIT), host.submit(&["--name", "step"], "exit 7")];
    let [any, ok] =
        ["step", "ok:step"].map(|after| host.submit(&["--name", "join", "--after", after], "echo >>joined"));
    has(&said(&host, &["why", &any.to_string()], 0), "job 1");
    // What may have been meant: by its spelling, or else what there is.
    has(&said(&host, &["run", "--after", "stepp", "--", "true"], 1), "is `step` meant?");
    has(
        &said(&host, &["run", "--after", "align", "--", "true"], 1),
        "yours that are not over: 4 join, 3 join, 2 step",
    );
    has(&said(&host, &["run", "--after", "99", "--", "true"], 2), "not over: 4 join, 3 join, 2 step, 1 step");
    let (first, second) = (lines[0], lines[1]);
    let [mend, both, each] = [
        "failed:step".to_owned(),
        format!("failed:{first}+{second}"),
        format!("failed:{first},failed:{second}"),
    ]
    .map(|after| host.submit(&["--name", "mend", "--after", &after], "echo >>mended"));
    has(&said(&host, &["why", &mend.to_string()], 0), "jobs 1 and 2 to be over, and one of them to fail");
    has(&said(&host, &["run", "--after", "failed:1+x", "--", "true"], 2), "1+x");
    has(&said(&host, &["run", "--after", "failed:1+99", "--", "true"], 2), "no such job");
    assert!(!host.path("joined").exists() && !host.path("mended").exists());
    host.make("go");
    for job in lines {
        host.until(job, JobState::Exited);
    }
    assert_eq!(host.until(any, JobState::Exited).exit_code, Some(0));
    for job in [mend, both] {
        assert_eq!(host.until(job, JobState::Exited).exit_code, Some(0));
    }
    assert_eq!(host.until(each, JobState::Exited).end, Some(End::Dependency));
    assert_eq!(host.until(ok, JobState::Exited).end, Some(End::Dependency));
    has(&said(&host, &["run", "--after", "99", "--", "true"], 2), "you have none that is not over");
    said(&host, &["run", "--after", "failed:step", "--", "true"], 0);
}

/// Jobs of one name that are all over: a failure counts wherever it was, until the jobs are repeated.
fn what_is_over_counts_as_one(kind: Kind) {
    let mut host = Host::new(kind);
    fs::write(host.work("lines"), "true\nfalse\ntrue\n").expect("a file");
    let batch = |host: &Host, file: &str, status: i32| {
        let done = host.pinfold(["batch", "--name", "align", "-j", "1", "--in-order", file]);
        assert_eq!(done.code, Some(status), "{done:?}");
    };
    batch(&host, "lines", 1);
    let ok = ["run", "--after", "ok:align", "--", "true"];
    has(&said(&host, &ok, 5), "job 2 did not");
    for end in ["failed", "any"] {
        said(&host, &["run", "--after", &format!("{end}:align"), "--", "true"], 0);
    }
    // So it is for the next daemon.
    host.stop();
    host.start_daemon();
    has(&said(&host, &ok, 5), "job 2 did not");
    // A batch that repeats it, and one of which a line was tried again.
    fs::write(host.work("lines"), "test -e tried || { touch tried; false; }\ntrue\n").expect("a file");
    let done = host.pinfold(["batch", "--name", "align", "--retries", "2", "lines"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    said(&host, &ok, 0);
    has(&said(&host, &["run", "--after", "failed:align", "--", "true"], 5), "ended well");
    // Jobs that are submitted in a loop.
    for script in ["true", "exit 3", "true"] {
        let job = host.submit(&["--name", "step"], script);
        host.until(job, JobState::Exited);
    }
    has(&said(&host, &["run", "--after", "ok:step", "--", "true"], 5), "did not");
    said(&host, &["run", "--after", "failed:step", "--", "true"], 0);
}

/// A chain of jobs falls as a whole, and clients that wait are told.
fn never_started_after_a_failure(kind: Kind) {
    let host = Host::new(kind);
    let first = host.submit(&[], &format!("{WAIT}; exit 1"));
    let second = host.submit(&["--after", "ok:1"], "true");
    let third = host.submit(&["--after", "ok:2"], "true");
    let waiting = host.start(["run", "--after", "ok:3", "--", "true"]);
    host.until(4, JobState::Queued);
    host.make("go");
    let done = waiting.wait();
    assert_eq!(done.code, Some(5), "{done:?}");
    has(&done.err, "job 3 did not");
    host.until(first, JobState::Exited);
    for job in [second, third, 4] {
        let view = host.until(job, JobState::Exited);
        assert_eq!((view.end, view.started_s), (Some(End::Dependency), None), "{view:?}");
    }
    // One that is cancelled did not end well.
    fs::remove_file(host.work("go")).expect("it was made");
    let first = host.submit(&["--hold"], "true");
    let second = host.submit(&["--after", &format!("ok:{first}")], "true");
    said(&host, &["cancel", &first.to_string()], 0);
    assert_eq!(host.until(second, JobState::Exited).end, Some(End::Dependency));
    // Nor did one that heeds the signal and exits with code 0, for those that ask later either.
    let heeds = "trap 'exit 0' TERM; : >heeds; while :; do sleep 0.05; done";
    let first = host.submit(&["--name", "heeds"], heeds);
    let second = host.submit(&["--after", &format!("ok:{first}")], "true");
    let mend = host.submit(&["--after", &format!("failed:{first}")], "true");
    host.until_made("heeds");
    said(&host, &["cancel", &first.to_string()], 0);
    let view = host.until(first, JobState::Exited);
    assert_eq!((view.end, view.exit_code), (Some(End::Cancelled), Some(0)), "{view:?}");
    has(&view.reason.unwrap_or_default(), "it was cancelled");
    assert_eq!(host.until(second, JobState::Exited).end, Some(End::Dependency));
    assert_eq!(host.until(mend, JobState::Exited).exit_code, Some(0));
    has(&said(&host, &["run", "--after", "ok:heeds", "--", "true"], 5), "did not");
    has(&said(&host, &["report", &first.to_string(), "--json"], 0), "\"end\":\"cancelled\"");
}

fn begun_at_its_time(kind: Kind) {
    let host = Host::with(kind, ONE_SLOT);
    let asked = Instant::now();
    let job = host.submit(&["--begin", "+300ms", "--ttl", "1ms"], "true");
    let view = host.until(job, JobState::Exited);
    assert_eq!(view.exit_code, Some(0), "its time does not count as waiting: {view:?}");
    assert!(asked.elapsed().as_millis() >= 300);
    let job = host.submit(&["--begin", "2099-01-01T00:00:00Z"], "true");
    let why = said(&host, &["why", &job.to_string()], 0);
    has(&why, "it begins at 2099-01-01 00:00:00 UTC");
    has(&why, " 2099-01-01 00:00:00 UTC at the earliest");
    // It is in nobody's way.
    said(&host, &["run", "--", "true"], 0);
    assert_eq!(host.job(job).state, JobState::Queued);
    said(&host, &["set", &job.to_string(), "--begin", "tomorrow 06:00"], 0);
    said(&host, &["set", &job.to_string(), "--begin", "now"], 0);
    assert_eq!(host.until(job, JobState::Exited).exit_code, Some(0));
    has(&said(&host, &["set", &job.to_string(), "--begin", "+1h"], 1), "over already");
    has(&said(&host, &["run", "--begin", "noonish", "--", "true"], 2), "is not a moment");
}

/// All of it is on disk.
fn a_time_set_for_a_job_that_was_requeued_survives_the_daemon(kind: Kind) {
    let mut host = Host::new(kind);
    let slurm = |words: &[&str]| {
        let mut command = host.command(host.programs().join("pinfold-slurm"));
        command.args(words).stdin(std::process::Stdio::null());
        let done = host.spawn(command).wait();
        assert_eq!(done.code, Some(0), "{done:?}");
    };
    let wrapped = format!("echo >>begun; {WAIT}; exit 6");
    slurm(&["sbatch", "--requeue", "-o", "/dev/null", "--wrap", &wrapped]);
    let job = 1;
    host.until_made("begun");
    host.until(job, JobState::Running);
    slurm(&["scontrol", "requeuehold", "1"]);
    host.until(job, JobState::Held);
    said(&host, &["set", "1", "--begin", "2099-01-01"], 0);
    said(&host, &["release", "1"], 0);
    host.make("go");
    for _ in 0..2 {
        let words = host.until(job, JobState::Queued).reason;
        has(&words.unwrap_or_default(), "begins at 2099-01-01");
        has(&said(&host, &["why", "1"], 0), "begins at 2099-01-01");
        // What is free went to it in the first pass of a daemon that had forgotten.
        said(&host, &["run", "--", "true"], 0);
        assert_eq!(host.wrote("begun").lines().count(), 1);
        host.crash();
        host.start_daemon();
    }
    said(&host, &["set", "1", "--begin", "now"], 0);
    host.until_exit_code(job, 6);
    assert_eq!(host.report(job).requeues, 1);
}

fn terms_survive_the_daemon(kind: Kind) {
    let mut host = Host::new(kind);
    let failing = host.submit(&[], &format!("{WAIT}; exit 1"));
    let good = host.submit(&[], WAIT);
    let after_good = host.submit(&["--after", "ok:2"], "true");
    let after_bad = host.submit(&["--after", "ok:1"], "true");
    let late = host.submit(&["--begin", "2099-01-01", "--comment", "new year"], "true");
    let timed = host.submit(&["--timeout", "1h"], "trap 'exit 0' TERM; while :; do sleep 0.05; done");
    host.until(timed, JobState::Running);
    host.stop();
    // Two end while no daemon is there.
    host.make("go");
    host.start_daemon();
    host.until_exit_code(failing, 1);
    host.until_exit_code(good, 0);
    assert_eq!(host.until(after_good, JobState::Exited).exit_code, Some(0));
    assert_eq!(host.until(after_bad, JobState::Exited).end, Some(End::Dependency));
    let view = host.job(late);
    assert_eq!((view.state, view.comment.as_deref()), (JobState::Queued, Some("new year")));
    has(&view.reason.unwrap_or_default(), "2099");
    assert_eq!(host.job(timed).timeout_s, Some(3600.0));
    said(&host, &["set", &timed.to_string(), "--timeout", "1ms"], 0);
    assert_eq!(host.until(timed, JobState::Exited).end, Some(End::Timeout));
    said(&host, &["cancel", &late.to_string()], 0);
}

fn batches_have_timeouts(kind: Kind) {
    let host = Host::new(kind);
    fs::write(host.work("lines"), "true\nsleep 1000\n").expect("a file");
    let batch = host.start(["batch", "--timeout", "1h", "--json", "lines"]);
    host.until(1, JobState::Exited);
    assert_eq!(host.until(2, JobState::Running).timeout_s, Some(3600.0));
    // Only now is the time short: on a busy machine even the first line could take longer.
    said(&host, &["set", "2", "--timeout", "1ms"], 0);
    let done = batch.wait();
    assert_eq!(done.code, Some(1), "{done:?}");
    has(&done.out, "\"end\":\"timeout\"");
    has(&done.out, "\"failed\":1");
    let done = host.pinfold(["batch", "--timeout", "300ms", "lines"]);
    has(&done.err, "line 2 failed: timeout: sleep 1000");
}

/// In every command that takes a job, where that is the name of one.
fn jobs_are_known_by_their_names(kind: Kind) {
    let host = Host::new(kind);
    let job = host.submit(&["--name", "solver"], WAIT);
    host.until(job, JobState::Running);
    has(&said(&host, &["why", "solver"], 0), "job 1");
    for verb in ["suspend", "resume"] {
        said(&host, &[verb, "solver"], 0);
    }
    said(&host, &["set", "solver", "--comment", "found"], 0);
    has(&said(&host, &["status", "solver", "--json"], 0), "\"comment\":\"found\"");
    has(&said(&host, &["cancel", "solvent"], 1), "there is no job `solvent` of yours");
    host.submit(&["--name", "solver", "--hold"], "true");
    has(&said(&host, &["cancel", "solver"], 2), "name one by its number: 1, 2");
    said(&host, &["cancel", "2"], 0);
    host.make("go");
    host.until(job, JobState::Exited);
    // Of those that are over the last.
    has(&said(&host, &["report", "solver"], 0), "2");
}
