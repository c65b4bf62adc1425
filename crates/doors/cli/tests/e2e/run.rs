//! `pinfold run`: the command as if the shell had started it.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::process::Stdio;

use pinfold_proto::JobState;
use rustix::process::Signal;

use crate::host::Host;
use crate::kind::{Kind, tests};

tests! {
    Each: ten_thousand_forks, what_does_not_hold_here;
    Best: exit_status, statuses_of_shells, streams, surroundings, arguments_byte_by_byte,
        a_large_environment, in_a_pipe, without_a_terminal, signals_are_passed_on,
        inside_a_job_there_is_no_second_one, without_a_daemon;
}

fn exit_status(kind: Kind) {
    let host = Host::new(kind);
    let cases = [
        ("exit 0", 0, Some(0), None),
        ("exit 7", 7, Some(7), None),
        ("exit 255", 255, Some(255), None),
        ("kill -TERM $$", 143, None, Some(15)),
        ("kill -KILL $$", 137, None, Some(9)),
        ("kill -HUP $$", 129, None, Some(1)),
    ];
    for (job, (script, status, exit_code, signal)) in (1..).zip(cases) {
        let done = host.pinfold(["run", "--", "/bin/sh", "-c", script]);
        assert_eq!(done.code, Some(status), "{script}: {done:?}");
        let view = host.until(job, JobState::Exited);
        assert_eq!((view.exit_code, view.signal), (exit_code, signal), "{script}");
        assert_eq!(view.name, "sh");
    }
}

fn statuses_of_shells(kind: Kind) {
    let host = Host::new(kind);
    std::fs::write(host.work("plain"), "no program").expect("a file");
    let script = host.work("no-interpreter");
    pinfold_testkit::executable(&script, "#!/no/such/interpreter\n");
    let script_of_sh = host.work("of-sh");
    pinfold_testkit::executable(&script_of_sh, "exit 9\n");
    let cases = [
        ("no-such-command-anywhere", 127, "not found"),
        ("/no/such/path", 127, "not found"),
        ("", 127, "'': command not found"),
        ("./plain", 126, "permission denied"),
        ("/", 126, "is a directory"),
        ("./no-interpreter", 127, "No such file"),
        ("./of-sh", 9, ""),
    ];
    for (command, status, word) in cases {
        let done = host.pinfold(["run", "--", command]);
        assert_eq!(done.code, Some(status), "{command}: {done:?}");
        assert!(done.err.contains(word), "{command}: {done:?}");
    }
}

fn streams(kind: Kind) {
    let host = Host::new(kind);
    // More than any pipe holds, with every byte there is.
    let sent: Vec<u8> = (0..1_000_000u32).map(|i| u8::try_from(i % 256).expect("below 256")).collect();
    let mut command = host.command(host.programs().join("pinfold"));
    command.args(["run", "--", "/bin/sh", "-c", "cat; echo to error >&2; exit 3"]).stdin(Stdio::piped());
    let mut running = host.spawn(command);
    running.input().write_all(&sent).expect("it reads its input");
    let done = running.wait();
    assert_eq!((done.code, done.err.as_str()), (Some(3), "to error\n"));
    assert!(done.raw == sent, "{} bytes came back of {}", done.raw.len(), sent.len());
}

fn surroundings(kind: Kind) {
    let host = Host::new(kind);
    let own = "pwd; umask; ulimit -n; ulimit -c; echo \"$KEPT\"; cat <&3; nice; test -t 0 && echo terminal";
    let script = format!(
        "umask 0027; ulimit -n 333; ulimit -c 0; export KEPT='a  b'; mkdir deep; cd deep; echo three >../three; \
         exec 3<../three; pinfold run -- /bin/sh -c '{own}'; echo $?"
    );
    let done = host.shell(&script);
    let expected = format!("{}\n0027\n333\n0\na  b\nthree\n0\n1\n", host.work("deep").display());
    assert_eq!(done.out, expected, "{done:?}");

    let done = host.pinfold(["run", "--", "/usr/bin/env"]);
    let has = |line: &str| done.out.lines().any(|own| own == line);
    assert!(has("PINFOLD_JOB_ID=2") && has("PINFOLD_TASK_ID=0") && has("PINFOLD_NTASKS=1"), "{done:?}");
    assert!(done.out.lines().any(|line| line.starts_with("PINFOLD_CPUS=") && line.len() > 13), "{done:?}");

    // A signal that the caller's shell ignores stays ignored, as under nohup.
    let done = host.shell("trap '' HUP; pinfold run -- /bin/sh -c 'kill -HUP $$; echo alive'");
    assert_eq!((done.code, done.out.as_str()), (Some(0), "alive\n"), "{done:?}");
}

fn arguments_byte_by_byte(kind: Kind) {
    let host = Host::new(kind);
    let arguments: [&[u8]; 6] =
        [b"", b"two\nlines", b"'quo\"ted' $HOME `x` \\", b"\xff\xfe\x01", b"--name", b" - "];
    let command = ["run", "--", "/bin/sh", "-c", "printf '%s\\0' \"$@\"", "name"].map(OsString::from);
    let sent = arguments.map(|argument| OsString::from_vec(argument.to_vec()));
    let done = host.pinfold(command.into_iter().chain(sent));
    assert_eq!(done.code, Some(0), "{done:?}");
    let got: Vec<&[u8]> =
        done.raw.strip_suffix(b"\0").expect("a last NUL").split(|&byte| byte == 0).collect();
    assert_eq!(got, arguments);
    // Behind the command nothing is pinfold's own, with `--` before it or without.
    let done = host.pinfold(["run", "--name", "own", "printf", "%s ", "--name", "--", "-x", "--help"]);
    assert_eq!((done.code, done.out.as_str()), (Some(0), "--name -- -x --help "), "{done:?}");
    let recorded = host.report(1).command;
    assert_eq!(recorded[4..7], ["", "two\nlines", "'quo\"ted' $HOME `x` \\"]);
}

fn a_large_environment(kind: Kind) {
    let host = Host::new(kind);
    // The kernel takes 128 KiB a string and a quarter of the stack in all (execve(2)).
    let mut command = host.command(host.programs().join("pinfold"));
    for i in 0..16 {
        command.env(format!("BULK_{i}"), "x".repeat(64 * 1024));
    }
    command
        .args(["run", "--", "/bin/sh", "-c", "echo ${#BULK_0} ${#BULK_15}; env | wc -c"])
        .stdin(Stdio::null());
    let done = host.spawn(command).wait();
    let (lengths, bytes) = done.out.split_once('\n').expect("two lines");
    assert_eq!(lengths, "65536 65536");
    assert!(bytes.trim().parse::<u64>().expect("a number") > 1024 * 1024, "{bytes}");
}

fn in_a_pipe(kind: Kind) {
    let host = Host::new(kind);
    let done = host.shell("printf 'c\\na\\nb\\n' | pinfold run -- sort | pinfold run -- tr a-z A-Z");
    assert_eq!((done.code, done.out.as_str()), (Some(0), "A\nB\nC\n"), "{done:?}");
    // A reader that has seen enough ends the writer by SIGPIPE, as without pinfold.
    let done = host.shell("{ pinfold run -- yes; echo $? >status; } | head -n 2");
    assert_eq!(done.out, "y\ny\n", "{done:?}");
    crate::wait::eventually("the writer's status", || match host.wrote("status").as_str() {
        "141\n" => Ok(()),
        other => Err(other.to_owned()),
    });
    assert_eq!(host.until(3, JobState::Exited).signal, Some(13));
}

fn without_a_terminal(kind: Kind) {
    let host = Host::new(kind);
    let done = host.shell("setsid --wait pinfold run -- /bin/sh -c 'echo apart; exit 4' </dev/null");
    assert_eq!((done.code, done.out.as_str()), (Some(4), "apart\n"), "{done:?}");
    // Closed streams are nothing to fall over either.
    let done = host.shell("pinfold run -- /bin/sh -c 'exit 5' <&- >&- 2>&-");
    assert_eq!(done.code, Some(5), "{done:?}");
}

fn signals_are_passed_on(kind: Kind) {
    let host = Host::new(kind);
    for (job, name, signal) in [(1, "TERM", Signal::TERM), (2, "USR1", Signal::USR1), (3, "INT", Signal::INT)]
    {
        let script = format!("trap 'exit 42' {name}; : >ready-{job}; while :; do sleep 0.05; done");
        let running = host.start(["run", "--", "/bin/sh", "-c", &script]);
        host.until_made(&format!("ready-{job}"));
        running.signal(signal);
        assert_eq!(running.wait().code, Some(42), "{name}");
        assert_eq!(host.until(job, JobState::Exited).exit_code, Some(42), "{name}");
    }
    // Without a trap the command ends by the signal, and so says the status.
    let running = host.start(["run", "--", "/bin/sh", "-c", ": >ready-4; exec sleep 1000"]);
    host.until_made("ready-4");
    running.signal(Signal::TERM);
    running.wait().ended_with(143);
    assert_eq!(host.until(4, JobState::Exited).signal, Some(15));
}

fn inside_a_job_there_is_no_second_one(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let done =
        host.pinfold(["run", "--", "pinfold", "run", "--", "/bin/sh", "-c", "echo $PINFOLD_JOB_ID; exit 6"]);
    assert_eq!((done.code, done.out.as_str()), (Some(6), "1\n"), "{done:?}");
}

fn ten_thousand_forks(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=200ms"]);
    let script = "i=0; while [ $i -lt 10000 ]; do (exit 0); i=$((i+1)); done; echo $i";
    let done = host.pinfold(["run", "--", "/bin/sh", "-c", script]);
    assert_eq!((done.code, done.out.as_str()), (Some(0), "10000\n"), "{done:?}");
    host.until(1, JobState::Exited);
    let report = host.report(1);
    assert!(report.cpu_user_s + report.cpu_system_s > 0.1, "{report:?}");
}

fn without_a_daemon(kind: Kind) {
    let host = Host::without_daemon(kind, &[]);
    let run =
        ["--no-autostart", "run", "--fallback", "--", "/bin/sh", "-c", "echo $PINFOLD_JOB_ID ran; exit 7"];
    let done = host.pinfold(run);
    assert_eq!((done.code, &done.out[..]), (Some(7), "ran\n"), "{done:?}");
    assert!(done.err.contains("unmanaged"), "{done:?}");
    assert_eq!(host.pinfold(["--no-autostart", "run", "true"]).code, Some(4));
}

fn what_does_not_hold_here(kind: Kind) {
    let host = Host::new(kind);
    let done = host.pinfold(["run", "--mem", "9000TiB", "--strict", "--", "true"]);
    assert!(done.code == Some(5) && done.err.contains("--mem 8.79 PiB"), "{done:?}");
    let holds = matches!(kind, Kind::Groups);
    for (options, code) in [(&["--mem-limit", "1GiB"][..], 0), (&["--mem-limit", "1GiB", "--strict"], 5)] {
        let done = host.pinfold([&["run"], options, &["--", "true"]].concat());
        assert_eq!(done.code, Some(if holds { 0 } else { code }), "{done:?}");
        assert_eq!(done.err.contains("see `limit` in `pinfold doctor`"), !holds, "{done:?}");
    }
}
