//! `pinfold batch`: every line a job, waited for, accounted for.

use std::io::{Read as _, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Stdio;

use pinfold_proto::view::BatchView;
use pinfold_proto::wire::{self, Decoder, REQUEST_MAX_BYTES, Reply, Request, WIRE_VERSION};
use pinfold_proto::{End, JobState};
use pinfold_sys::mode::{self, Mode};
use pinfold_testkit::ignore;
use rustix::process::Signal;
use serde_json::Value;

use crate::host::{Host, send, status_field};
use crate::kind::{Kind, tests};
use crate::process::Done;
use crate::wait::{PATIENCE, eventually};

tests! {
    Best: results, nothing_to_do, from_standard_input, lines_start_as_they_come, files_that_cannot_be_read,
        interrupted, signals_of_job_control_are_for_the_lines, a_thousand_jobs, a_hundred_thousand_lines,
        the_command_is_killed, options_hold_for_every_line, the_longest_first_once_it_is_known,
        plain_words_need_no_shell, lines_run_in_the_calling_shell, output_in_files_and_a_log_to_resume_from,
        arguments_tags_and_tries, output_that_a_full_disk_does_not_take,
        as_many_at_once_as_the_processors_say, giving_up, the_shell_that_calls_runs_the_lines,
        a_hangup_that_the_caller_ignores_ends_nothing,
        a_batch_that_is_told_to_end_waits_for_its_lines_handlers,
        a_line_runs_from_before_its_process_is_made, lines_that_are_ended_did_not_do_well,
        lines_that_were_cancelled_are_not_tried_again, lines_whose_processes_are_killed_before_their_start;
    Once: a_line_whose_process_is_killed_before_it_has_a_number_gets_no_other;
}

fn view(done: &Done) -> BatchView {
    serde_json::from_str(&done.out).unwrap_or_else(|error| panic!("{error}: {done:?}"))
}

/// Number, exit value, signal and command of each line in the job log.
fn logged(host: &Host) -> Vec<String> {
    let entry = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        [0, 6, 7, 8].map(|field| fields[field]).join(" ")
    };
    host.wrote("log").lines().skip(1).map(entry).collect()
}

fn results(kind: Kind) {
    let host = Host::new(kind);
    let text = "# a comment\n\ntrue\n   \n  exit 3  \nkill -TERM $$\necho out; echo err >&2\nno-such-command-anywhere\n";
    std::fs::write(host.work("lines"), text).expect("a file");
    let done = host.pinfold(["batch", "--json", "lines"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    // Standard output is for the results alone.
    assert!(done.err.contains("err\n") && done.err.contains("out\n"), "{done:?}");
    let raw: Value = serde_json::from_str(&done.out).expect("JSON");
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    for key in ["version", "jobs", "failed", "makespan_s", "results"] {
        assert!(keys(&raw).iter().any(|own| own == key), "{key} is missing in {raw}");
    }
    for key in [
        "job",
        "line",
        "exit_code",
        "signal",
        "queued_s",
        "wall_s",
        "suspended_s",
        "cpu_s",
        "memory_peak_bytes",
        "command",
        "output",
        "attempts",
    ] {
        assert!(keys(&raw["results"][0]).iter().any(|own| own == key), "{key} is missing in {raw}");
    }
    let batch: BatchView = serde_json::from_value(raw).expect("a batch");
    assert_eq!((batch.version, batch.jobs, batch.failed), (1, 5, 3));
    let got: Vec<_> = batch.results.iter().map(|r| (r.job, r.line, r.exit_code, r.signal)).collect();
    let want = [
        (Some(1), 3, Some(0), None),
        (Some(2), 5, Some(3), None),
        (Some(3), 6, None, Some(15)),
        (Some(4), 7, Some(0), None),
        (Some(5), 8, Some(127), None),
    ];
    assert_eq!(got, want);
    for result in &batch.results {
        assert!(result.wall_s > 0.0 && result.wall_s <= batch.makespan_s, "{result:?}");
        assert!(result.cpu_s > 0.0, "{result:?}");
    }
}

fn nothing_to_do(kind: Kind) {
    let host = Host::new(kind);
    for text in ["", "\n\n", "# only words\n   # more\n"] {
        std::fs::write(host.work("lines"), text).expect("a file");
        let done = host.pinfold(["batch", "--json", "lines"]);
        assert_eq!(done.code, Some(0), "{text:?}: {done:?}");
        let batch = view(&done);
        assert_eq!((batch.jobs, batch.failed, batch.results.len()), (0, 0, 0));
    }
}

fn from_standard_input(kind: Kind) {
    let host = Host::new(kind);
    let mut command = host.command(host.programs().join("pinfold"));
    command.args(["batch", "--json", "-"]).stdin(Stdio::piped());
    let mut running = host.spawn(command);
    // The jobs do not get what the list was read from, nor anything else. A line need not be UTF-8.
    running.input().write_all(b"wc -c >in\nprintf '\xff' >bytes").expect("it reads its input");
    let done = running.wait();
    assert_eq!((done.code, view(&done).jobs), (Some(0), 2), "{done:?}");
    assert_eq!(host.wrote("in").trim(), "0");
    assert_eq!(std::fs::read(host.work("bytes")).expect("written"), b"\xff");
}

/// The writer of a list waits for its first line to run before it writes the second one.
fn lines_start_as_they_come(kind: Kind) {
    let host = Host::new(kind);
    for (line, batch) in [
        ("touch N; echo N", "batch -k -"),
        ("touch N; echo N", "batch -k"),
        ("N", "batch -k -a - 'touch {}; echo {}'"),
        ("N", "batch -k 'touch {}; echo {}'"),
        ("N", "batch -k touch {}\\; echo {}"),
        ("N,x", "batch -k -C , 'touch {1}; echo {1}' :::: /dev/stdin"),
    ] {
        let [first, second] = ["1", "2"].map(|name| line.replace('N', name));
        let script = format!(
            "rm -f 1; (echo '{first}'; for i in $(seq 3000); do [ -e 1 ] && echo '{second}' && break; sleep 0.02; done) \
             | pinfold {batch}"
        );
        let done = host.shell(&script);
        assert_eq!((done.code, &done.out[..]), (Some(0), "1\n2\n"), "{batch}: {done:?}");
    }
    // The rest of the list is not waited for.
    let done =
        host.shell("mkfifo list; exec 3<>list; echo false >&3; pinfold batch --halt now,fail=1 list 3>&-");
    assert_eq!(done.code, Some(1), "{done:?}");
}

fn files_that_cannot_be_read(kind: Kind) {
    let host = Host::new(kind);
    let done = host.pinfold(["batch", "no-such-file"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("no-such-file"), "{done:?}");
    let done = host.pinfold(["batch", "."]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(host.status(&[]).jobs.is_empty());
}

fn interrupted(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let text = "true\n: >ready; exec sleep 1000\necho never >never\necho never >never\n";
    std::fs::write(host.work("lines"), text).expect("a file");
    let running = host.start(["batch", "--json", "--joblog", "log", "lines"]);
    host.until_made("ready");
    running.signal(Signal::INT);
    let done = running.wait();
    assert_eq!(done.code, Some(130), "{done:?}");
    let batch = view(&done);
    assert_eq!((batch.jobs, batch.failed), (4, 3));
    assert_eq!(logged(&host), ["1 0 0 true"], "the one that was ended is done when the list is resumed");
    let got: Vec<_> = batch.results.iter().map(|r| (r.exit_code, r.signal, r.reason.is_some())).collect();
    assert_eq!(got, [(Some(0), None, false), (None, Some(2), false), (None, None, true), (None, None, true)]);
    assert!(!host.work("never").exists());
    assert!(host.status(&[]).jobs.is_empty(), "nothing waits and nothing runs");
    assert_eq!(host.job(3).started_s, None);
}

/// `Ctrl-Z` stops all lines and the command, `fg` lets them go on; a signal of the user's own reaches each line.
fn signals_of_job_control_are_for_the_lines(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1"]);
    let line = "trap ': >told' USR1; : >ready; echo $$ >pid; until [ -e told ]; do sleep 0.02; done; exit 7";
    let running = host.start(["batch", "--json", ":::", line]);
    let pid = eventually("the line runs", || host.wrote("pid").trim().parse::<u32>());
    let state = |process: u32, wanted: bool| {
        eventually(&format!("{process} is stopped: {wanted}"), || {
            let found = status_field(process, "State").unwrap_or_default();
            if found.starts_with('T') == wanted { Ok(()) } else { Err(found) }
        });
    };
    running.signal(Signal::TSTP);
    state(pid, true);
    state(running.pid(), true);
    running.signal(Signal::CONT);
    state(pid, false);
    running.signal(Signal::USR1);
    let done = running.wait();
    assert_eq!(view(&done).results[0].exit_code, Some(7), "{done:?}");
}

fn a_thousand_jobs(kind: Kind) {
    // Primaries only: beside other work on the machine a backfiller may have to wait for long.
    let host = Host::with(kind, &["slots.factor=1"]);
    let count = if kind == Kind::Groups { 1000 } else { 300 };
    std::fs::write(host.work("lines"), "exit 0\n".repeat(count - 1) + "exit 1\n").expect("a file");
    let done = host.pinfold(["batch", "--json", "lines"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let batch = view(&done);
    assert_eq!((batch.jobs, batch.failed, batch.results.len()), (count as u64, 1, count));
    let mut jobs: Vec<u64> = batch.results.iter().map(|result| result.job.expect("a number")).collect();
    jobs.sort_unstable();
    jobs.dedup();
    assert_eq!(jobs.len(), count, "each line is one job");
    let status = host.status(&[]);
    assert_eq!((status.jobs.len(), status.slots.used), (0, 0));
}

fn a_hundred_thousand_lines(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=4"]);
    let text = "echo x >>ran; exec sleep 1000\n".repeat(100_000);
    std::fs::write(host.work("lines"), text).expect("a file");
    let running = host.start(["batch", "--json", "lines"]);
    let total = host.status(&[]).slots.total;
    let ran = || host.wrote("ran").len() as u64 / 2;
    crate::wait::eventually("every slot is taken", || if ran() == total { Ok(()) } else { Err(ran()) });
    running.signal(Signal::INT);
    let done = running.wait();
    assert_eq!(done.code, Some(130), "{}", done.err);
    let batch = view(&done);
    assert_eq!((batch.jobs, batch.failed, batch.results.len()), (100_000, 100_000, 100_000));
    let signalled = batch.results.iter().filter(|result| result.signal == Some(2)).count();
    let reasoned = batch.results.iter().filter(|result| result.reason.is_some()).count();
    assert_eq!((signalled as u64, reasoned as u64), (total, 100_000 - total));
    assert!(host.status(&[]).jobs.is_empty());
}

/// Killed outright it can pass nothing on: what runs goes on and is recorded, what waits is withdrawn.
fn the_command_is_killed(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let text = ": >ready; until [ -e go ]; do sleep 0.05; done; exit 5\necho never >never\n";
    std::fs::write(host.work("lines"), text).expect("a file");
    let running = host.start(["batch", "lines"]);
    host.until_made("ready");
    running.signal(Signal::KILL);
    let view = host.until(2, JobState::Exited);
    assert_eq!(view.started_s, None);
    assert!(view.reason.is_some());
    assert_eq!(host.job(1).state, JobState::Running);
    host.make("go");
    assert_eq!(host.until(1, JobState::Exited).exit_code, Some(5));
    assert!(!host.work("never").exists());
}

fn options_hold_for_every_line(kind: Kind) {
    let host = Host::new(kind);
    std::fs::write(host.work("lines"), "true\ntrue\n").expect("a file");
    let mut command = host.command(host.programs().join("pinfold"));
    command
        .env("PINFOLD_PRIORITY", "4")
        .args(["batch", "--json", "--name", "pair", "lines"])
        .stdin(Stdio::null());
    assert_eq!(host.spawn(command).wait().code, Some(0));
    for job in [1, 2] {
        let view = host.job(job);
        assert_eq!((view.name.as_str(), view.priority), ("pair", 4));
    }
}

/// Earlier runs tell how long each line takes: then the longest comes first, unless the file's order is asked for.
fn the_longest_first_once_it_is_known(kind: Kind) {
    // One slot, however many cores there are.
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let begun = || {
        let text = std::fs::read_to_string(host.work("begun")).expect("what the lines wrote");
        std::fs::remove_file(host.work("begun")).expect("a file of ours");
        text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    // Far apart at first, as on a busy machine even the shortest may take long; and not again once that is known.
    let text = "echo short >> begun; sleep 0.05\necho long >> begun; test -e known || sleep 10\n\
                echo middle >> begun; test -e known || sleep 5\n";
    std::fs::write(host.work("lines"), text).expect("a file");
    let run = |options: &[&str]| {
        let done = host.pinfold([&["batch", "--json"], options, &["lines"]].concat());
        assert_eq!(view(&done).failed, 0, "{done:?}");
        let lines: Vec<u64> = view(&done).results.iter().map(|result| result.line).collect();
        assert_eq!(lines, [1, 2, 3], "results come in the order of the file");
    };
    run(&[]);
    assert_eq!(begun(), ["short", "long", "middle"]);
    host.make("known");
    run(&[]);
    assert_eq!(begun(), ["long", "middle", "short"]);
    run(&["--in-order"]);
    assert_eq!(begun(), ["short", "long", "middle"]);
    // A line of which nothing is known leaves all where they are.
    std::fs::write(host.work("lines"), format!("{text}:\n")).expect("a file");
    let done = host.pinfold(["batch", "--json", "lines"]);
    assert_eq!(view(&done).jobs, 4, "{done:?}");
    assert_eq!(begun(), ["short", "long", "middle"]);
}

/// Lines of plain words are executed without a shell in between, and nobody can tell but by the time that it saves.
fn plain_words_need_no_shell(kind: Kind) {
    use std::os::unix::fs::PermissionsExt;

    let host = Host::new(kind);
    for (name, mode) in [("no-interpreter", 0o755), ("no-right", 0o644)] {
        pinfold_testkit::executable(&host.work(name), "echo \"of a script: $1\"\n");
        std::fs::set_permissions(host.work(name), PermissionsExt::from_mode(mode)).expect("its mode");
        host.kind().give(&host.work(name));
    }
    let lines =
        "env printf %s, a=b 10% x@y:z\n./no-interpreter word\n./no-right\nno-such-program --at=all\n./\n";
    std::fs::write(host.work("lines"), lines).expect("a file");
    let done = host.pinfold(["batch", "--json", "--in-order", "lines"]);
    for words in ["a=b,10%,x@y:z,", "of a script: word\n"] {
        assert!(done.err.contains(words), "{words:?} is missing in {done:?}");
    }
    let batch: BatchView = serde_json::from_str(&done.out).expect("a batch");
    let codes: Vec<_> = batch.results.iter().map(|result| result.exit_code).collect();
    assert_eq!(codes, [Some(0), Some(0), Some(126), Some(127), Some(126)], "{done:?}");
    for words in ["no-right: Permission denied", "no-such-program: not found", "./: Permission denied"] {
        assert!(done.err.contains(words), "{words:?} is missing in {done:?}");
    }
    let recorded = host.pinfold(["report", "--json", "1"]);
    assert!(
        recorded.out.contains("env printf %s, a=b 10% x@y:z"),
        "the line as it was written: {recorded:?}"
    );
}

fn lines_run_in_the_calling_shell(kind: Kind) {
    let host = Host::new(kind);
    let by_bash = |script: &str| {
        let mut command = host.command("bash");
        command.args(["-c", &format!("{script}; exit $?")]).env_remove("PINFOLD_SHELL");
        host.spawn(command).wait()
    };
    let rows = [
        ("f() { echo \"function $1\"; }; export -f f; pinfold batch f ::: a", "function a\n"),
        ("pinfold batch ::: '[[ a = a ]] && cat <(echo substituted)'", "substituted\n"),
        ("env SHELL=/bin/sh pinfold batch ::: 'echo ${BASH_VERSION:+bash}'", "bash\n"),
        ("PINFOLD_SHELL=/bin/sh pinfold batch ::: 'echo \"$0\"'", "/bin/sh\n"),
        ("PINFOLD_SHELL=/no/such pinfold batch --shell sh ::: 'echo ran'", "ran\n"),
    ];
    for (script, want) in rows {
        let done = by_bash(script);
        assert_eq!((done.code, &done.out[..]), (Some(0), want), "{script}: {done:?}");
    }
    let found = by_bash("dash -c 'pinfold batch ::: \"echo \\$0; true\"; true'");
    assert!(found.out.ends_with("dash\n"), "the nearest shell runs the line: {found:?}");
    for (script, name) in [
        ("pinfold batch --shell /no/such ::: true", "--shell: /no/such"),
        ("PINFOLD_SHELL=/no/such pinfold batch ::: true", "PINFOLD_SHELL: /no/such"),
        ("PINFOLD_SHELL=/no/such pinfold run --checkpoint true -- true", "PINFOLD_SHELL: /no/such"),
    ] {
        let done = by_bash(script);
        assert!(done.code == Some(2) && done.err.contains(name), "{script}: {done:?}");
    }
}

fn output_in_files_and_a_log_to_resume_from(kind: Kind) {
    let host = Host::new(kind);
    std::fs::write(host.work("lines"), "echo out; echo err >&2\n\ntest -e fixed\n").expect("a file");
    let options = ["batch", "--output", "out", "--joblog", "log", "--json=results", "lines"];
    let done = host.pinfold(options);
    assert_eq!((done.code, &done.out[..]), (Some(1), ""), "{done:?}");
    assert_eq!((host.wrote("out/1.out"), host.wrote("out/1.err")), ("out\n".into(), "err\n".into()));
    let results: BatchView = serde_json::from_str(&host.wrote("results")).expect("JSON");
    let last = &results.results[1];
    assert_eq!((last.line, &last.command[..], last.attempts), (3, "test -e fixed", 1));
    assert_eq!(last.output.as_deref(), Some("out/3.out"));
    host.make("fixed");
    let done = host.pinfold(["batch", "--joblog", "log", "--resume-failed", "--json", "lines"]);
    assert_eq!((done.code, view(&done).jobs), (Some(0), 1), "{done:?}");
    let done = host.pinfold(["batch", "--joblog", "log", "--resume", "--json", "lines"]);
    assert_eq!((done.code, view(&done).jobs), (Some(0), 0), "{done:?}");
    let log = host.wrote("log");
    assert_eq!(log.lines().count(), 4, "{log}");
    assert!(log.lines().all(|line| line.split('\t').count() == 9), "{log}");
    std::fs::write(host.work("other"), "true\n").expect("a file");
    let done = host.pinfold(["batch", "--joblog", "log", "--resume", "other"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("log is of another list"), "{done:?}");
    let done = host.pinfold(["batch", "--json=none/results", "lines"]);
    assert!(done.code == Some(1) && done.err.contains("none/results"), "{done:?}");
}

fn arguments_tags_and_tries(kind: Kind) {
    // Two slots, on one core as well.
    let host = Host::with(kind, &["slots.factor=2"]);
    let done =
        host.pinfold(["batch", "-j", "1", "--tag", "echo {} {.} {#}; echo end", ":::", "a b.c", "$(x)"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.out, "a b.c\ta b.c a b 1\na b.c\tend\n$(x)\t$(x) $(x) 2\n$(x)\tend\n");
    // Whatever ends first, and nothing of one line between the parts of another's.
    let script = "echo {}; until [ -e late{} ]; do sleep 0.02; done; touch late1; echo end";
    host.make("late2");
    let done = host.pinfold(["batch", "-k", "--in-order", "-j", "2", script, ":::", "1", "2"]);
    assert_eq!((done.code, &done.out[..]), (Some(0), "1\nend\n2\nend\n"), "{done:?}");
    let script = "echo {}; touch both{}; until [ -e both1 -a -e both2 ]; do sleep 0.02; done; echo end";
    let done = host.pinfold(["batch", "-j", "2", script, ":::", "1", "2"]);
    assert!(["1\nend\n2\nend\n", "2\nend\n1\nend\n"].contains(&&done.out[..]), "{done:?}");
    std::fs::write(host.work("arguments"), "x\ny z\n").expect("a file");
    let done = host.pinfold(["batch", "--dry-run", "-a", "arguments", "echo {2} {1}", ":::", "1"]);
    assert_eq!((done.code, &done.out[..]), (Some(0), "echo 1 x\necho 1 'y z'\n"), "{done:?}");
    // It succeeds the third time.
    std::fs::write(host.work("lines"), "echo x >>tries; test $(wc -l <tries) = 3\nexit 7\n").expect("a file");
    let done = host.pinfold(["batch", "--retries", "3", "lines", "--json"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let got: Vec<_> = view(&done).results.iter().map(|r| (r.exit_code, r.attempts)).collect();
    assert_eq!(got, [(Some(0), 3), (Some(7), 3)]);
    let done = host.pinfold(["batch", "echo {}"]);
    assert!(done.code == Some(2) && done.err.contains(":::"), "{done:?}");
}

fn output_that_a_full_disk_does_not_take(kind: Kind) {
    let host = Host::new(kind);
    for options in ["--tag", "-k"] {
        let done = host.shell(&format!("pinfold batch {options} 'echo {{}}' ::: 1 2 >/dev/full"));
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.err.contains("the output of a line is lost: No space left"), "{done:?}");
    }
    // Lines that write nothing lose nothing.
    let done = host.shell("pinfold batch --tag 'true {}' ::: 1 2 >/dev/full");
    assert_eq!(done.code, Some(0), "{done:?}");
}

fn as_many_at_once_as_the_processors_say(kind: Kind) {
    let host = Host::new(kind);
    let shown = |arguments: &[&str], want: &str| {
        let done = host.pinfold([&["batch", "--dry-run"], arguments].concat());
        assert_eq!((done.code, &done.out[..]), (Some(0), want), "{done:?}");
    };
    shown(&["echo {1} {2}", ":::", "a", "b", ":::+", "1", "2", "3"], "echo a 1\necho b 2\n");
    shown(&["-C", ",", "echo {2}-{1}", ":::", "a, b c"], "echo 'b c'-a\n");
    std::fs::write(host.work("list"), "x\ty\n").expect("a file");
    shown(&["--colsep", "\\t", "echo {2}", "::::", "list"], "echo y\n");
    for at_once in ["50%", "+1", "-1", "0"] {
        let done = host.pinfold(["batch", "-k", "-j", at_once, "echo {}", ":::", "1", "2"]);
        assert_eq!((done.code, &done.out[..]), (Some(0), "1\n2\n"), "-j {at_once}: {done:?}");
    }
    for (option, value) in [("--jobs", "half"), ("--jobs", "0%"), ("--colsep", "("), ("--delay", "soon")] {
        let done = host.pinfold(["batch", option, value, "echo {}", ":::", "1"]);
        assert!(done.code == Some(2) && done.err.contains(option), "{done:?}");
    }
    let done =
        host.pinfold(["batch", "--delay", "150ms", "--json", "-j", "9", "true {}", ":::", "1", "2", "3"]);
    let view = view(&done);
    assert!(view.failed == 0 && view.makespan_s >= 0.3, "three starts are two delays apart: {view:?}");
}

fn giving_up(kind: Kind) {
    let host = Host::new(kind);
    std::fs::write(
        host.work("lines"),
        ": >ready; exec sleep 1000\nuntil test -e ready; do :; done; exit 1\nexit 2\n",
    )
    .expect("a file");
    let options = ["--halt", "now,fail=1", "-j", "2", "--in-order", "--json", "--joblog", "log"];
    let done = host.pinfold([&["batch"], &options[..], &["lines"]].concat());
    assert_eq!(done.code, Some(1), "{done:?}");
    assert_eq!(logged(&host).len(), 1, "that which failed: {:?}", logged(&host));
    let got: Vec<_> =
        view(&done).results.iter().map(|r| (r.exit_code, r.signal, r.reason.is_some())).collect();
    assert_eq!(got, [(None, Some(15), false), (Some(1), None, false), (None, None, true)]);
}

/// GNU parallel's best known idiom, and words that only bash knows.
fn the_shell_that_calls_runs_the_lines(kind: Kind) {
    let host = Host::new(kind);
    let script = "unset PINFOLD_SHELL; f() { echo \"f $1\"; }; export -f f; pinfold batch -k ::: 'f a' 'echo b &> b; cat b' \
                  '[[ a == a ]] && diff <(echo 1) <(echo 1) && echo {x,y}'; PINFOLD_SHELL=/bin/sh pinfold batch ::: 'echo {x,y}' nothing";
    let mut command = host.command("bash");
    command.args(["-c", script]).stdin(Stdio::null());
    let done = host.spawn(command).wait();
    assert_eq!(done.out, "f a\nb\nx y\n{x,y}\n", "{done:?}");
    assert!(done.err.contains("the lines were run by /bin/sh (--shell)"), "{done:?}");
    let refused = host.pinfold(["batch", "--shell", "/no/such/shell", ":::", "true"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("--shell") && refused.err.contains("/no/such/shell"), "{refused:?}");
}

fn a_hangup_that_the_caller_ignores_ends_nothing(kind: Kind) {
    let host = Host::new(kind);
    let mut command = host.command("/bin/sh");
    let line = ": >ready-{}; until [ -e go ]; do sleep 0.05; done";
    command.args(["-c", "trap '' HUP; exec pinfold batch -j1 \"$0\" ::: 1 2", line]).stdin(Stdio::null());
    let batch = host.spawn(command);
    host.until_made("ready-1");
    send(batch.pid(), Signal::HUP);
    std::fs::write(host.work("go"), b"").expect("a file");
    batch.wait().ended_with(0);
    assert!(host.work("ready-2").exists());
}

/// Also where the shell of a line is gone before.
fn a_batch_that_is_told_to_end_waits_for_its_lines_handlers(kind: Kind) {
    let host = Host::new(kind);
    let line =
        "sh -c 'trap \"sleep 0.3; : >handled; exit\" TERM; : >ready; while :; do sleep 0.05; done'; true";
    let batch = host.start(["batch", ":::", line]);
    host.until_made("ready");
    send(batch.pid(), Signal::TERM);
    assert_eq!(batch.wait().code, Some(143));
    assert!(host.work("handled").exists(), "the batch ended before the handler of its line was done");
}

/// Though their commands exit with 0 once they are told to end.
fn lines_that_are_ended_did_not_do_well(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=4"]);
    let line = "trap 'exit 0' TERM; [ -e again ] && exit; : >ready-{}; while :; do sleep 0.05; done";
    let words = ["--timeout", "1h", "-j", "2", "--in-order", "--joblog", "log"];
    let batch = |more: &[&str]| {
        host.start([&["batch", "--json"], &words[..], more, &[line, ":::", "1", "2"]].concat())
    };
    let running = batch(&[]);
    host.until_made("ready-1");
    host.until_made("ready-2");
    host.succeeds(["set", "1", "--timeout", "1ms"]);
    host.succeeds(["cancel", "2"]);
    let done = running.wait();
    assert_eq!((done.code, view(&done).failed), (Some(1), 2), "{done:?}");
    let got: Vec<_> = view(&done).results.iter().map(|r| (r.exit_code, r.end)).collect();
    assert_eq!(got, [(Some(0), Some(End::Timeout)), (Some(0), Some(End::Cancelled))]);
    let mut log = logged(&host);
    log.sort();
    assert!(log[0].starts_with("1 124 0 ") && log[1].starts_with("2 1 0 "), "{log:?}");
    host.make("again");
    let done = batch(&["--resume-failed"]).wait();
    assert_eq!((done.code, view(&done).jobs), (Some(0), 2), "{done:?}");
}

fn lines_that_were_cancelled_are_not_tried_again(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=4"]);
    let lines = "trap 'exit 0' TERM; : >ready-1; while :; do sleep 0.05; done\n: >ready-2; exec sleep 1000\n";
    std::fs::write(host.work("lines"), lines).expect("a file");
    let running = host.start(["batch", "--json", "--retries", "3", "-j", "2", "--in-order", "lines"]);
    host.until_made("ready-1");
    host.until_made("ready-2");
    host.succeeds(["cancel", "1"]);
    host.succeeds(["cancel", "2"]);
    let done = running.wait();
    assert_eq!(done.code, Some(1), "{done:?}");
    let got: Vec<_> = view(&done).results.iter().map(|r| (r.end, r.attempts)).collect();
    assert_eq!(got, [(Some(End::Cancelled), 1); 2], "{done:?}");
}

/// Children wait ready-made where a process enters its groups by itself. As if memory ran short, they are killed.
fn lines_whose_processes_are_killed_before_their_start(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let lines =
        "echo $PPID $$ >pids-new; mv pids-new pids; until [ -e go ]; do sleep 0.05; done\ntrue\ntrue\n";
    std::fs::write(host.work("lines"), lines).expect("a file");
    let words = ["--retries", "2", "--in-order", "--joblog", "log", "--json", "lines"];
    let running = host.start([&["batch"], &words[..]].concat());
    host.until_made("pids");
    let pids = host.wrote("pids");
    let (keeper, command) = pids.trim().split_once(' ').expect("two numbers");
    let children = std::fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children"));
    let held: Vec<u32> = children
        .unwrap_or_default()
        .split_whitespace()
        .filter(|pid| *pid != command)
        .filter_map(|pid| pid.parse().ok())
        .collect();
    held.iter().for_each(|pid| send(*pid, Signal::KILL));
    host.make("go");
    let done = running.wait();
    assert_eq!(done.code, Some(0), "{done:?}");
    let got: Vec<_> = view(&done).results.iter().map(|r| (r.exit_code, r.attempts)).collect();
    let tries = if held.is_empty() { 1 } else { 2 };
    assert_eq!(got, [(Some(0), 1), (Some(0), tries), (Some(0), tries)], "{held:?} {done:?}");
    assert_eq!(logged(&host).len(), 3, "{:?}", logged(&host));
}

/// What stands in for a daemon, on one connection.
struct StandIn {
    stream: UnixStream,
    decoder: Decoder,
}

impl StandIn {
    fn accept(listener: &UnixListener) -> Self {
        listener.set_nonblocking(true).expect("it may look");
        let (stream, _) = eventually("a command connects", || listener.accept());
        stream.set_nonblocking(false).expect("it may wait");
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        Self { stream, decoder: Decoder::new(REQUEST_MAX_BYTES) }
    }

    /// All at once: the command may be gone after the first.
    fn answer(&mut self, replies: &[Reply]) {
        let mut bytes = Vec::new();
        replies.iter().for_each(|reply| wire::encode(reply, &mut bytes).expect("a reply"));
        self.stream.write_all(&bytes).expect("it is heard");
    }

    /// The next request but a greeting, which it answers; `None`: the connection is closed.
    fn hear(&mut self) -> Option<Request> {
        let mut buffer = [0; 4096];
        loop {
            match self.decoder.take().expect("requests") {
                Some(Request::Hello { .. }) => self.answer(&[Reply::Welcome {
                    version: WIRE_VERSION,
                    mode: "rootless".into(),
                    slots: 1,
                    doors: false,
                    instance: "i".into(),
                    state: String::new(),
                    warnings: Vec::new(),
                    cpus: "0".into(),
                }]),
                Some(request) => return Some(request),
                None => match self.stream.read(&mut buffer).expect("the command speaks") {
                    0 => return None,
                    count => self.decoder.push(&buffer[..count]),
                },
            }
        }
    }
}

/// Its daemon has taken the process in, and would not take in another: that one would run outside the job's group.
fn a_line_whose_process_is_killed_before_it_has_a_number_gets_no_other() {
    let host = Host::without_daemon(Kind::Rootless, &[]);
    let listener = UnixListener::bind(host.socket()).expect("a socket");
    std::fs::write(host.work("lines"), ": >ran\n").expect("a file");
    let running = host.start(["--no-autostart", "batch", "--json", "--in-order", "lines"]);
    // The command itself looks whether there is a daemon, and then its keeper comes.
    let (mut daemon, ticket, pid) = loop {
        let mut daemon = StandIn::accept(&listener);
        if let Some(Request::Submit { ticket, pid, .. }) = daemon.hear() {
            break (daemon, ticket, pid.expect("a child is held for it"));
        }
    };
    send(pid, Signal::KILL);
    let process = format!("/proc/{pid}");
    eventually("it is reaped", || if Path::new(&process).exists() { Err("it is there") } else { Ok(()) });
    let go = Reply::Go { job: 1, doors: 0, variables: Vec::new(), wrap: Vec::new(), run: None };
    daemon.answer(&[Reply::Queued { ticket, job: 1 }, go]);
    while !matches!(daemon.hear().expect("it withdraws the job"), Request::Withdraw { job: 1, .. }) {}
    let done = running.wait();
    assert_eq!(done.code, Some(1), "{done:?}");
    let got: Vec<_> = view(&done).results.iter().map(|r| (r.job, r.signal)).collect();
    assert_eq!(got, [(Some(1), Some(9))], "{done:?}");
    assert!(!host.work("ran").exists());
}

/// A line of one thread takes no less time than its CPU time. Where its child is forked before it may start, some of its
/// CPU time is from then: that is so but where a process enters all its groups by itself.
fn a_line_runs_from_before_its_process_is_made(kind: Kind) {
    let plan = mode::decide(&mode::probe(&mode::Roots::default()), None).expect("a mode");
    if kind != Kind::Groups
        || plan.mode != Mode::Hybrid
        || plan.hierarchies.iter().any(|one| one.carries("io"))
    {
        ignore!("children are forked ahead here");
    }
    let host = Host::new(kind);
    let done = host.pinfold(["batch", "--json", "-j", "1", "true {}", ":::", "1", "2", "3", "4", "5"]);
    for result in view(&done).results {
        assert!(result.wall_s >= result.cpu_s, "{result:?}");
    }
}
