//! A host that joins a hub: what its jobs used is there once, whichever side is killed, and is asked for from elsewhere.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pinfold_proto::ExitCode;
use pinfold_proto::JobState;
use pinfold_proto::view::{ReportView, StatusView};

use crate::host::Host;
use crate::kind::{Kind, become_nobody, each_kind};
use crate::process::Done;
use crate::users::shared;
use crate::wait::eventually;

each_kind!(jobs_are_told_once, what_cannot_be_is_said);

/// A hub's program, serving; killed when it is dropped.
struct Hub {
    child: Child,
    url: String,
    database: String,
}

fn program() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_pinfold")).with_file_name("pinfold-hub");
    assert!(
        program.is_file(),
        "{} is missing: build it first by `cargo build --workspace`",
        program.display()
    );
    program
}

impl Hub {
    /// Serves a database in this directory.
    fn serve(dir: &Path, listen: &str) -> Self {
        let database = format!("sqlite:{}", dir.join("hub.db").display());
        let mut command = Command::new(program());
        command.args(["serve", "--database", &database, "--listen", listen]).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the hub starts");
        let mut said = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("the hub says where it serves");
        let url = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "{line}");
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self { child, url, database }
    }

    fn token(&self, kind: &str, name: &str) -> String {
        let mut command = Command::new(program());
        command.args(["token", "--database", &self.database, kind, name]).stderr(Stdio::null());
        let output = command.output().expect("the hub's program runs");
        String::from_utf8(output.stdout).expect("a token is text").trim().to_owned()
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `pinfold` with directories for the hub's settings in the host's working directory.
fn pinfold(host: &Host, arguments: &str) -> Done {
    host.shell(&format!("PINFOLD_HUB_DIR=$PWD/push PINFOLD_HUB_READER_DIR=$PWD/reader pinfold {arguments}"))
}

#[track_caller]
fn good(done: &Done) -> String {
    assert_eq!(done.code, Some(0), "{done:?}");
    done.out.clone()
}

fn jobs_are_told_once(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=50ms"]);
    let dir = tempfile::tempdir().expect("a directory for the hub");
    let mut hub = Hub::serve(dir.path(), "127.0.0.1:0");
    let (token, reader) = (hub.token("--host", "alpha"), hub.token("--reader", "ops"));
    let address = hub.url.trim_start_matches("http://").to_owned();
    for exit in 0..3 {
        let job = host.submit(&["--name", "<b>'x"], &format!("sleep 0.1; exit {exit}"));
        host.until(job, JobState::Exited);
    }
    let running = host.submit(&[], "until [ -e go ]; do sleep 0.02; done");
    host.until(running, JobState::Running);
    good(&pinfold(&host, &format!("hub join {} --token {token} --no-start", hub.url)));
    // Killed at odd moments, both: what is there at the end is there once.
    for round in 0..6u32 {
        let half = pinfold(
            &host,
            &format!("hub push & sleep 0.{}; kill -9 $!; wait $! 2>/dev/null; true", 1 + round * 13 % 9),
        );
        good(&half);
        drop(hub);
        hub = Hub::serve(dir.path(), &address);
    }
    good(&pinfold(&host, "hub push --once"));
    good(&pinfold(&host, &format!("hub reader {} --token {reader}", hub.url)));

    let told = good(&pinfold(&host, "--host alpha report --last 100 --json --series"));
    let told: Vec<ReportView> =
        told.lines().map(|line| serde_json::from_str(line).expect("a report")).collect();
    let here = good(&host.pinfold(["report", "--since", "1h", "--json", "--series"]));
    let here = here.lines().map(|line| serde_json::from_str::<ReportView>(line).expect("a report"));
    let here: Vec<ReportView> = here.filter(|report| report.state == JobState::Exited).collect();
    let key = |report: &ReportView| (report.job, report.exit_code, report.command.clone(), report.wall_s);
    assert_eq!(told.iter().map(key).collect::<Vec<_>>(), here.iter().map(key).collect::<Vec<_>>());
    let points = |report: &ReportView| report.series.as_ref().map_or(0, Vec::len);
    assert!(here.iter().zip(&told).all(|(here, told)| points(here) == points(told)), "{told:?}");

    let status = good(&pinfold(&host, "--all-hosts status --json"));
    let status: StatusView = serde_json::from_str(&status).expect("a status");
    assert_eq!(status.host, "alpha");
    assert_eq!(status.jobs.iter().map(|job| job.job).collect::<Vec<_>>(), [running]);
    assert!(good(&pinfold(&host, &format!("--host alpha why {}", told[0].job))).contains("start as"));
    assert!(good(&pinfold(&host, "hub login")).starts_with(&format!("{}/login?code=", hub.url)));

    // Screens, pictures and tables of elsewhere.
    assert!(good(&pinfold(&host, "--host alpha top --once")).contains("alpha"));
    let now = good(&pinfold(&host, "--host alpha top --json"));
    assert_eq!(serde_json::from_str::<StatusView>(&now).expect("a status").host, "alpha");
    assert!(!good(&pinfold(&host, &format!("--host alpha plot {}", told[0].job))).is_empty());
    let svg = good(&pinfold(&host, &format!("--all-hosts plot {} -o job.svg && cat job.svg", told[0].job)));
    assert!(svg.contains("<svg") && svg.contains("on alpha"), "{svg}");
    let csv = good(&pinfold(&host, "--all-hosts export --last 100"));
    assert!(csv.starts_with("host,job,name"), "{csv}");
    assert_eq!(csv.lines().skip(1).filter(|line| line.starts_with("alpha,")).count(), told.len(), "{csv}");
    let samples = good(&pinfold(&host, "--host alpha export --last 100 --what samples --format jsonl"));
    let all: usize = told.iter().map(points).sum();
    assert_eq!(samples.lines().filter(|line| line.contains("\"host\":\"alpha\"")).count(), all, "{samples}");
    good(&pinfold(&host, "--host alpha export --last 100 --format parquet -o jobs.parquet"));

    // One that is started by `join` ends by itself after `leave`.
    good(&pinfold(&host, &format!("hub join {} --token {token}", hub.url)));
    host.make("go");
    host.until(running, JobState::Exited);
    // How it is, until it is over, and then its report.
    let told = good(&pinfold(&host, &format!("--host alpha report {running} --every 1s --json")));
    let last = told.lines().last().expect("a line");
    assert_eq!(serde_json::from_str::<ReportView>(last).expect("a report").job, running);
    good(&pinfold(&host, "hub leave"));
    eventually("the pusher ends", || {
        let left = crate::host::processes_with(&host.work("push").display().to_string());
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

fn what_cannot_be_is_said(kind: Kind) {
    let host = Host::new(kind);
    let dir = tempfile::tempdir().expect("a directory for the hub");
    let hub = Hub::serve(dir.path(), "127.0.0.1:0");
    let check = |arguments: &str, code: ExitCode, words: &str| {
        let done = pinfold(&host, arguments);
        assert!(
            done.code == Some(i32::from(code.code())) && done.err.contains(words),
            "{arguments}: {done:?}"
        );
    };
    let (url, reader) = (&hub.url, hub.token("--reader", "ops"));
    check("hub push", ExitCode::Failed, "has joined no hub");
    check("hub leave", ExitCode::Failed, "has joined no hub");
    check("--host alpha status", ExitCode::Usage, "hub reader URL");
    check("--host alpha cancel 1", ExitCode::Usage, "status, report, why, top");
    check("--all-hosts top", ExitCode::Usage, "top is of one host");
    check("--host alpha top --at 2h", ExitCode::Usage, "for this host");
    check("--host alpha plot --host", ExitCode::Usage, "for this host");
    check("--host alpha export --last 1 --what files", ExitCode::Usage, "--what samples");
    check("hub join http://hub.example --token x", ExitCode::Usage, "plain HTTP");
    check(&format!("hub join {url} --token x"), ExitCode::Permission, "unknown or revoked");
    check(&format!("hub join {url} --token {reader}"), ExitCode::Usage, "a host's is wanted");
    check(&format!("hub join {url} --token {reader} --ca /nowhere"), ExitCode::Usage, "--ca /nowhere");
    good(&pinfold(&host, &format!("hub reader {url} --token {reader}")));
    check("--host alpha status", ExitCode::Failed, "no host alpha");
    check("--all-hosts why 1", ExitCode::Usage, "--host NAME");
    assert!(good(&pinfold(&host, "hub status")).contains("has joined no hub"));
}

/// `pinfold` as nobody, with the hub's address that root keeps for all.
fn as_nobody(host: &Host, arguments: &[&str]) -> Done {
    let mut command = host.command(host.programs().join("pinfold"));
    command.args(arguments).env("PINFOLD_HUB_READER_DIR", host.work("reader"));
    command.stdin(Stdio::null()).current_dir("/");
    become_nobody(&mut command);
    host.spawn(command).wait()
}

#[test]
fn users_see_their_own_jobs_by_the_daemon_s_word() {
    let Some(host) = shared(&["profile.interval=50ms"]) else { return };
    let dir = tempfile::tempdir().expect("a directory for the hub");
    let hub = Hub::serve(dir.path(), "127.0.0.1:0");
    let (url, token) = (&hub.url, hub.token("--host", "alpha"));
    let theirs = host.submit(&["--name", "s3cr3t"], "exit 3");
    host.until(theirs, JobState::Exited);
    let own = as_nobody(&host, &["submit", "-o", "/dev/null", "-e", "/dev/null", "--", "true"]);
    let own: u64 = good(&own).trim().parse().expect("a job's number");
    host.until(own, JobState::Exited);

    // Before the host has joined, its word is worth nothing.
    let early = pinfold(&host, &format!("hub use {url}"));
    assert!(early.code == Some(3) && early.err.contains("no host of this hub"), "{early:?}");
    good(&pinfold(&host, &format!("hub join {url} --token {token} --no-start")));
    good(&pinfold(&host, "hub push --once"));
    let said = pinfold(&host, &format!("hub use {url}"));
    assert!(said.code == Some(0) && said.err.contains("operator of alpha"), "{said:?}");
    // As another address than the hub's own, for which the daemon signs as it is asked to.
    let other = url.replace("127.0.0.1", "localhost");
    let wrong = pinfold(&host, &format!("hub use {other}"));
    assert!(wrong.code == Some(3) && wrong.err.contains("another address"), "{wrong:?}");

    let jobs = |done: &Done| -> Vec<u64> {
        let reports = good(done);
        reports.lines().map(|line| serde_json::from_str::<ReportView>(line).expect("a report").job).collect()
    };
    let report = ["--host", "alpha", "report", "--last", "10", "--json"];
    assert_eq!(jobs(&pinfold(&host, "--host alpha report --last 10 --json")), [theirs, own]);
    assert_eq!(jobs(&as_nobody(&host, &report)), [own]);
    for arguments in
        [["--host", "alpha", "report", &theirs.to_string()], ["--host", "alpha", "why", &theirs.to_string()]]
    {
        let done = as_nobody(&host, &arguments);
        assert!(done.code == Some(1) && done.out.is_empty() && !done.err.contains("s3cr3t"), "{done:?}");
    }
    good(&as_nobody(&host, &["--host", "alpha", "why", &own.to_string()]));
    let link = good(&as_nobody(&host, &["hub", "login"]));
    assert!(link.starts_with(&format!("{url}/login?code=")), "{link}");
}
