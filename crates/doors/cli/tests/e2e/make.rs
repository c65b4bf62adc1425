//! `pinfold make`: real builds whose tokens follow the host, and the words they are told.

use std::fs::File;
use std::process::Command;

use pinfold_proto::JobState;
use pinfold_testkit::ignore;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::wait::eventually;

tests! {
    Best: what_a_killed_build_left_goes_with_the_next, tokens_follow_the_host,
        commands_are_told_of_the_jobserver, within_a_job_and_without_a_daemon;
    Once: a_killed_client_gives_its_token_back_by_fifo;
}

/// Two commands that run at the same time or not at all, and then one alone, which has a client of the jobserver killed
/// while that holds a token.
const MAKEFILE: &str = r#"
all: last
last: first second
	+touch last.runs; until [ -e kill ]; do sleep 0.02; done; \
	tokens=$$(echo "$$MAKEFLAGS" | sed -n -e 's!.*-auth=fifo:\([^ ]*\).*!\1!p' -e 's!.*-auth=\([0-9]*\),.*!/dev/fd/\1!p'); \
	sh -c "head -c 1 $$tokens >token; touch held; kill -9 \$$\$$"; \
	until [ -e end ]; do sleep 0.02; done
first:
	touch first.runs; until [ -e second.runs ]; do sleep 0.02; done
second:
	touch second.runs; until [ -e first.runs ]; do sleep 0.02; done
"#;

/// Tokens that lie free in the FIFO of this `pinfold make`; `None`: it has none yet.
fn free_tokens(pid: u32) -> Option<u64> {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let is_fifo = |path: &std::path::PathBuf| {
        std::fs::read_link(path)
            .is_ok_and(|file| file.to_string_lossy().contains("pinfold-make-") && file.ends_with("tokens"))
    };
    let fifo = files.map(|entry| entry.path()).find(is_fifo)?;
    rustix::io::ioctl_fionread(File::open(fifo).ok()?).ok()
}

fn until_free(pid: u32, want: u64) {
    eventually(&format!("{want} tokens are free"), || match free_tokens(pid) {
        Some(free) if free == want => Ok(()),
        free => Err(format!("{free:?}")),
    });
}

/// A client takes the one token there is, and is killed. That none was free meanwhile the token itself shows: after a few
/// seconds there is another in its place, whether or not anybody has looked by then.
fn given_back_once_it_is_killed(host: &Host, pid: u32) {
    host.make("kill");
    host.until_made("held");
    assert_eq!(host.wrote("token").len(), 1, "the client had it");
    until_free(pid, 1);
}

fn what_a_killed_build_left_goes_with_the_next(kind: Kind) {
    let host = Host::new(kind);
    let place = host.work("run");
    std::fs::create_dir(&place).expect("a directory");
    kind.give(&place);
    let left = || std::fs::read_dir(&place).expect("it is there").count();
    let make = |script: &str| {
        let mut command = host.command(host.programs().join("pinfold"));
        command.env("XDG_RUNTIME_DIR", &place).args([
            "make",
            "-j1",
            "--jobserver",
            "fifo",
            "--",
            "/bin/sh",
            "-c",
            script,
        ]);
        host.spawn(command)
    };
    let killed = make(": >runs; until [ -e end ]; do sleep 0.02; done");
    host.until_made("runs");
    killed.signal(rustix::process::Signal::KILL);
    killed.wait();
    assert_eq!(left(), 1, "nobody was there to remove it");
    assert_eq!(make("exit 3").wait().code, Some(3));
    assert_eq!(left(), 0);
    host.make("end");
}

fn tokens_follow_the_host(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=3"]);
    let cores = host.status(&[]).slots.cores;
    if cores < 2 || Command::new("make").arg("--version").output().is_err() {
        ignore!("it takes two cores and a make");
    }
    std::fs::write(host.work("Makefile"), MAKEFILE).expect("a file");
    let make = host.start(["make", "--", "make", "-k", "-j2"]);
    host.until_made("last.runs");
    // One command runs, and another one might.
    until_free(make.pid(), 1);
    let other = host.submit(&["--cores", &cores.to_string()], "until [ -e free ]; do sleep 0.02; done");
    host.until(other, JobState::Running);
    until_free(make.pid(), 0);
    host.make("free");
    until_free(make.pid(), 1);
    given_back_once_it_is_killed(&host, make.pid());
    host.make("end");
    let done = make.wait();
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!done.err.contains("jobserver"), "make has nothing to say of it: {done:?}");
}

/// The same by a FIFO, which make knows from 4.4 on: a client of the jobserver that is no make.
fn a_killed_client_gives_its_token_back_by_fifo() {
    let host = Host::with(Kind::Rootless, &["slots.factor=3"]);
    if host.status(&[]).slots.cores < 2 {
        ignore!("it takes two cores");
    }
    let script = "fifo=${MAKEFLAGS#*fifo:}; touch began; until [ -e kill ]; do sleep 0.02; done; \
                  sh -c \"head -c 1 $fifo >token; touch held; kill -9 \\$\\$\"; \
                  until [ -e end ]; do sleep 0.02; done";
    let build = host.start(["make", "-j", "2", "--jobserver", "fifo", "--", "sh", "-c", script]);
    host.until_made("began");
    until_free(build.pid(), 1);
    given_back_once_it_is_killed(&host, build.pid());
    host.make("end");
    let done = build.wait();
    assert_eq!(done.code, Some(0), "{done:?}");
}

fn commands_are_told_of_the_jobserver(kind: Kind) {
    let host = Host::new(kind);
    let told = |arguments: &[&str]| {
        let shell = ["--", "sh", "-c", "echo \"$MAKEFLAGS\""];
        let done = host.pinfold([&["make", "--jobs", "3"], arguments, &shell].concat());
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out.trim().to_owned()
    };
    let fifo = told(&["--jobserver", "fifo"]);
    let path = fifo.strip_prefix("-j3 --jobserver-auth=fifo:").unwrap_or_else(|| panic!("{fifo}"));
    assert!(!std::path::Path::new(path).exists(), "{path} is gone with the build");
    let pipe = told(&["--jobserver", "pipe"]);
    let ends = pipe.strip_prefix("-j3 --jobserver-auth=").and_then(|ends| ends.split_once(','));
    assert!(ends.is_some_and(|(read, write)| read.parse::<u32>().is_ok() && write.parse::<u32>().is_ok()));
    // What a build says of itself stays its own.
    let fails = host.pinfold(["make", "--", "sh", "-c", "exit 7"]);
    assert_eq!(fails.code, Some(7), "{fails:?}");
    for (wrong, word) in [
        (vec!["make", "-n", "2", "--", "make"], "a build is one task"),
        (vec!["make", "--", "make", "-j0"], "a number of jobs from 1 on"),
        (vec!["make", "-j", "0", "--", "make"], "`0` is not a whole number from 1 to 4096"),
    ] {
        let done = host.pinfold(&wrong);
        assert!(done.code == Some(2) && done.err.contains(word), "{wrong:?}: {done:?}");
    }
    let missing = host.pinfold(["make", "--", "./no-such/make"]);
    assert_eq!(missing.code, Some(127), "{missing:?}");
}

fn within_a_job_and_without_a_daemon(kind: Kind) {
    let host = Host::new(kind);
    let build = ["make", "-j", "8", "--", "sh", "-c", "echo $MAKEFLAGS"];
    // A job of one core has its build run that much at once.
    let done = host.pinfold([&["run", "--primary", "--", "pinfold"][..], &build].concat());
    let jobs = done.out.trim().strip_prefix("-j").and_then(|jobs| jobs.parse::<usize>().ok());
    let cpus = host.job(1).cpus.map_or(8, |cpus| cpus.parse::<pinfold_topo::CpuSet>().expect("a list").len());
    assert_eq!((done.code, jobs), (Some(0), Some(cpus.clamp(1, 8))), "{done:?}");
    let mut command = host.command(host.programs().join("pinfold"));
    command.env("PINFOLD_SOCKET", host.work("none.sock"));
    command.args([
        "--no-autostart",
        "make",
        "--fallback",
        "-j",
        "1",
        "--",
        "sh",
        "-c",
        "echo $MAKEFLAGS; exit 3",
    ]);
    let done = host.spawn(command).wait();
    assert_eq!((done.code, done.out.as_str()), (Some(3), "-j1\n"), "{done:?}");
    assert!(done.err.contains("runs unmanaged"), "{done:?}");
}
