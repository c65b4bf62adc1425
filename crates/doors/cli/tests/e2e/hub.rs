//! A host that joins a hub: what its jobs used is there once, whichever side is killed, and is asked for from elsewhere.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pinfold_proto::ExitCode;
use pinfold_proto::JobState;
use pinfold_proto::view::{ReportView, StatusView};

use crate::host::Host;
use crate::kind::{Kind, become_nobody, tests};
use crate::process::{Done, Running};
use crate::users::shared;
use crate::wait::eventually;

tests! {
    Best: jobs_are_told_once, looks_go_on_over_a_restart, what_cannot_be_is_said,
        estimates_come_from_other_hosts, a_directory_is_one_daemon_s;
    Once: users_see_their_own_jobs_by_the_daemon_s_word;
}

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
        Self::serve_with(dir, listen, "")
    }

    /// The same with this configuration.
    fn serve_with(dir: &Path, listen: &str, config: &str) -> Self {
        let database = format!("sqlite:{}", dir.join("hub.db").display());
        let file = dir.join("hub.toml");
        std::fs::write(&file, config).expect("a configuration");
        let mut command = Command::new(program());
        command.args(["serve", "--database", &database, "--listen", listen, "--config"]).arg(file);
        command.stderr(Stdio::piped());
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
    // It comes back there, so that the kernel must not give the port away meanwhile.
    let mut hub = Hub::serve(dir.path(), &pinfold_testkit::free_address());
    let (token, reader) = (hub.token("--host", "alpha"), hub.token("--reader", "ops"));
    let address = hub.url.trim_start_matches("http://").to_owned();
    for exit in 0..3 {
        let job = host.submit(&["--name", "<b>'x"], &format!("sleep 0.1; exit {exit}"));
        host.until(job, JobState::Exited);
    }
    let running = host.submit(&[], "until [ -e go ]; do sleep 0.02; done");
    host.until(running, JobState::Running);
    good(&pinfold(&host, &format!("hub join {} --token {token} --no-start", hub.url)));
    who_looks_makes_nothing(&host);
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

    reports_are_lines(&host, &told);
    let status = good(&pinfold(&host, "--all-hosts status --json"));
    let status: StatusView = serde_json::from_str(&status).expect("a status");
    assert_eq!(status.host, "alpha");
    assert_eq!(status.jobs.iter().map(|job| job.job).collect::<Vec<_>>(), [running]);
    assert!(good(&pinfold(&host, &format!("--host alpha why {}", told[0].job))).contains("start as"));
    assert!(good(&pinfold(&host, "hub login")).starts_with(&format!("{}/login?code=", hub.url)));

    // Screens, pictures and tables of elsewhere.
    assert!(good(&pinfold(&host, "--host alpha top --once")).contains("alpha"));
    maps_are_as_on_the_host(&host, running);
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

    looks_end_with_their_reader(&host, told[0].job);

    // One that is started by `join` ends by itself after `leave`.
    good(&pinfold(&host, &format!("hub join {} --token {token}", hub.url)));
    host.make("go");
    host.until(running, JobState::Exited);
    // How it is, until it is over, and then its report.
    let told = good(&pinfold(&host, &format!("--host alpha report {running} --every 1s --json")));
    let last = told.lines().last().expect("a line");
    assert_eq!(serde_json::from_str::<ReportView>(last).expect("a report").job, running);
    another_hub_is_told_of_all_jobs(&host, here.len() + 1);
    good(&pinfold(&host, "hub leave"));
    eventually("the pusher ends", || {
        let left = crate::host::processes_with(&host.work("push").display().to_string());
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
}

/// With `--every` it asks again, about this job and the host, until nobody reads.
fn looks_end_with_their_reader(host: &Host, job: u64) {
    let (why, plot) = (format!("why {job} --json"), format!("plot {job}"));
    for command in ["status --json", &why, "map --json", "export --last 1", &plot] {
        let told = good(&pinfold(host, &format!("--host alpha {command} --every 1s | head -n 2")));
        assert_eq!(told.lines().count(), 2, "{command}: {told}");
    }
}

/// With `--every` a command that was answered once asks on while the hub is away, and ends when its token holds no more.
fn looks_go_on_over_a_restart(kind: Kind) {
    let host = Host::new(kind);
    let dir = tempfile::tempdir().expect("a directory for the hub");
    let mut hub = Hub::serve(dir.path(), &pinfold_testkit::free_address());
    let (token, reader) = (hub.token("--host", "alpha"), hub.token("--reader", "ops"));
    let address = hub.url.trim_start_matches("http://").to_owned();
    let job = host.submit(&[], "until [ -e go ]; do sleep 0.02; done");
    host.until(job, JobState::Running);
    good(&pinfold(&host, &format!("hub join {} --token {token} --no-start", hub.url)));
    good(&pinfold(&host, &format!("hub reader {} --token {reader}", hub.url)));
    good(&pinfold(&host, "hub push --once"));
    let watch = |words: &str| {
        let mut command = host.command(host.programs().join("pinfold"));
        command.env("PINFOLD_HUB_DIR", host.work("push")).env("PINFOLD_HUB_READER_DIR", host.work("reader"));
        command.args(words.split(' ')).args(["--every", "1s", "--json"]).stdin(Stdio::null());
        host.spawn(command)
    };
    let [report, status] =
        [format!("--host alpha report {job}"), "--all-hosts status".to_owned()].map(|it| watch(&it));
    let lines = |looks: &Running| looks.said("out").lines().count();
    let looked_after = |looks: &Running, before: usize| {
        eventually("it looked", || if lines(looks) > before { Ok(()) } else { Err(looks.said("err")) });
    };
    [&report, &status].into_iter().for_each(|looks| looked_after(looks, 0));
    drop(hub);
    for looks in [&report, &status] {
        eventually("it says that no hub answers", || match looks.said("err") {
            said if said.contains("the hub") => Ok(()),
            said => Err(said),
        });
    }
    let before = [&report, &status].map(lines);
    hub = Hub::serve(dir.path(), &address);
    good(&pinfold(&host, "hub push --once"));
    looked_after(&report, before[0]);
    looked_after(&status, before[1]);
    host.make("go");
    host.until(job, JobState::Exited);
    good(&pinfold(&host, "hub push --once"));
    let told = good(&report.wait());
    let last = told.lines().last().expect("a line");
    assert_eq!(serde_json::from_str::<ReportView>(last).expect("a report").job, job);
    let mut revoke = Command::new(program());
    revoke.args(["revoke", "--database", &hub.database, "--reader", "ops"]);
    assert!(revoke.output().expect("the hub's program runs").status.success());
    let done = status.wait();
    let denied = i32::from(ExitCode::Permission.code());
    assert!(done.code == Some(denied) && done.err.contains("revoked"), "{done:?}");
}

/// What is made would be another user's than the pusher that is started next.
fn who_looks_makes_nothing(host: &Host) {
    assert!(good(&pinfold(host, "hub status")).contains("no pusher runs"));
    let files = std::fs::read_dir(host.work("push")).expect("the pusher's directory").flatten();
    assert_eq!(files.map(|file| file.file_name()).collect::<Vec<_>>(), ["hub.json"]);
}

/// Another hub, at once after the first: it is told of all jobs, also of those that the first has.
fn another_hub_is_told_of_all_jobs(host: &Host, jobs: usize) {
    let elsewhere = tempfile::tempdir().expect("a directory for the hub");
    let other = Hub::serve(elsewhere.path(), "127.0.0.1:0");
    let (token, reader) = (other.token("--host", "alpha"), other.token("--reader", "ops"));
    let rejoin = format!("pinfold hub join {} --token {token}", other.url);
    good(&pinfold(host, &format!("hub leave && PINFOLD_HUB_DIR=$PWD/push {rejoin}")));
    good(&pinfold(host, &format!("hub reader {} --token {reader}", other.url)));
    eventually("the other hub has all jobs", || {
        let told = pinfold(host, "--host alpha report --last 100 --json");
        if told.out.lines().count() == jobs { Ok(()) } else { Err(format!("{told:?}")) }
    });
}

/// A line a job, each with its host; all figures for a single one.
fn reports_are_lines(host: &Host, told: &[ReportView]) {
    let lines = good(&pinfold(host, "--all-hosts report"));
    assert!(lines.starts_with("HOST") && lines.lines().count() == told.len() + 1, "{lines}");
    assert!(lines.lines().skip(1).all(|line| line.starts_with("alpha ")), "{lines}");
    let none = pinfold(host, "--host alpha report --name nothing");
    assert!(good(&none).contains("no jobs"), "{none:?}");
    let words = format!(
        "none of {} jobs fits --name nothing; --last N and --since WHEN look further back",
        told.len()
    );
    assert!(none.err.contains(&words), "{none:?}");
    let one = good(&pinfold(host, &format!("--all-hosts report {}", told[0].job)));
    assert!(one.starts_with("host alpha\n"), "{one}");
    let full = good(&pinfold(host, "--all-hosts report --full"));
    assert_eq!(full.matches("host alpha\n").count(), told.len(), "{full}");
}

/// Which core belongs to what, told by the hub and by the host itself; this job runs.
fn maps_are_as_on_the_host(host: &Host, running: u64) {
    let map = good(&pinfold(host, "--host alpha map"));
    assert!(map.starts_with("alpha: ") && map.contains(&format!("job {running} ")), "{map}");
    let json = |arguments: &str| -> serde_json::Value {
        serde_json::from_str(&good(&pinfold(host, arguments))).expect("one object")
    };
    let (there, here) = (json("--all-hosts map --json"), json("map --json"));
    assert_eq!((&there["host"], &there["pu"]), (&"alpha".into(), &here["pu"]));
    // Its processes come and go.
    let of = |map: &serde_json::Value| {
        let set = &map["sets"][0];
        let has_some = set["pids"].as_array().is_some_and(|pids| !pids.is_empty());
        (set["job"].clone(), set["cpus"].clone(), set["name"].clone(), has_some)
    };
    assert_eq!(of(&there), of(&here));
    assert!(good(&pinfold(host, "--host alpha map -o map.svg && cat map.svg")).contains("<svg"));
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
    check("--host alpha cancel 1", ExitCode::Usage, "status, report, why, map, top");
    for command in ["report", "advise", "export --last 1"] {
        check(&format!("--all-hosts {command} --all"), ExitCode::Usage, "leave it out");
    }
    check("--all-hosts top", ExitCode::Usage, "top is of one host");
    check("--host alpha map --from synthetic:1", ExitCode::Usage, "without jobs");
    check("--all-hosts map -o map.svg", ExitCode::Usage, "a picture is of one host");
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

fn a_directory_is_one_daemon_s(kind: Kind) {
    let (one, other) = (Host::new(kind), Host::new(kind));
    let dir = tempfile::tempdir().expect("a directory for the hub");
    let hub = Hub::serve(dir.path(), "127.0.0.1:0");
    let [alpha, beta] = ["alpha", "beta"].map(|name| hub.token("--host", name));
    // By a socket that is there for this directory alone: the pusher works elsewhere.
    let join = format!("--socket ../pinfold.sock hub join {} --token {alpha}", hub.url);
    good(&pinfold(&one, &join));
    eventually("the pusher reaches the hub", || {
        let status = good(&pinfold(&one, "hub status"));
        if status.contains("reached the hub at") { Ok(()) } else { Err(status) }
    });
    let push = one.work("push");
    let kept = std::fs::read(push.join("hub.json")).expect("the settings");
    let join_there =
        format!("PINFOLD_HUB_DIR={} pinfold hub join {} --token {beta} --no-start", push.display(), hub.url);
    let refused = other.shell(&join_there);
    assert_eq!(refused.code, Some(i32::from(ExitCode::Refused.code())), "{refused:?}");
    let socket = one.socket();
    for words in [
        "which is alpha to http://",
        "pinfold hub leave",
        &socket.file_name().expect("a name").to_string_lossy(),
    ] {
        assert!(refused.err.contains(words), "{refused:?}");
    }
    assert_eq!(std::fs::read(push.join("hub.json")).expect("the settings"), kept);
    // The same one may join anew, and the other one once that has left.
    good(&pinfold(&one, &format!("hub join {} --token {alpha}", hub.url)));
    good(&pinfold(&one, "hub leave"));
    good(&other.shell(&join_there));
}

fn estimates_come_from_other_hosts(kind: Kind) {
    const LEARNING: &str = "learning = \"users\"\ntrusted_hosts = [\"*\"]\n";
    let (here, there) = (Host::new(kind), Host::with(kind, &["profile.interval=50ms"]));
    let dir = tempfile::tempdir().expect("a directory for the hub");
    let mut hub = Hub::serve(dir.path(), &pinfold_testkit::free_address());
    let address = hub.url.trim_start_matches("http://").to_owned();
    let tokens = [hub.token("--host", "alpha"), hub.token("--host", "beta")];
    for _ in 0..4 {
        let job = there.submit(&["--name", "cls"], "true hold; sleep 0.3");
        there.until(job, JobState::Exited);
    }
    good(&pinfold(&there, &format!("hub join {} --token {} --no-start", hub.url, tokens[0])));
    good(&pinfold(&there, "hub push --once"));
    // What is told of it by the hub is advised on for all hosts.
    let reader = hub.token("--reader", "ops");
    good(&pinfold(&here, &format!("hub reader {} --token {reader}", hub.url)));
    let advice = good(&pinfold(&here, "--all-hosts advise --json"));
    let advice: serde_json::Value = serde_json::from_str(&advice).expect("one object");
    assert_eq!((&advice["classes"][0]["class"], &advice["classes"][0]["jobs"]), (&"cls".into(), &4.into()));
    let table = "--host alpha advise --since 1d --format slurm --apply fill --to tables";
    good(&pinfold(&here, table));
    assert!(here.work("tables").join("job_submit.lua").is_file(), "the table for the manager is there");
    // The hub makes its table when it starts, and every hour.
    drop(hub);
    hub = Hub::serve_with(dir.path(), &address, LEARNING);
    let joined = pinfold(&here, &format!("hub join {} --token {} --no-start", hub.url, tokens[1]));
    assert_eq!(joined.code, Some(0), "{joined:?}");
    let change = joined.err.lines().find_map(|line| line.split("config set ").nth(1)).expect("the hub's key");
    let expected = || -> Option<String> {
        let job = here.submit(&["--hold", "--name", "cls"], "true hold; sleep 0.3");
        let why = good(&here.pinfold(["why", &job.to_string(), "--json"]));
        let why: serde_json::Value = serde_json::from_str(&why).expect("one object");
        let numbers = why["numbers"].as_array().expect("a list");
        let found = numbers.iter().find(|number| number["name"] == "runs of its class on other hosts");
        good(&here.pinfold(["cancel", &job.to_string()]));
        found.map(|found| found.to_string())
    };
    good(&pinfold(&here, "hub push --once"));
    assert_eq!(expected(), None, "it is off");
    good(&here.pinfold(["config", "set", change]));
    let mut told = None;
    eventually("the hub's table is taken", || {
        good(&pinfold(&here, "hub push --once"));
        told = expected();
        if told.is_some() { Ok(()) } else { Err("not yet".to_owned()) }
    });
    let told = told.expect("it is told");
    assert!(told.contains("4 on 1 host, by table ") && told.contains(&hub.url), "{told}");
    // With a key of another hub nothing is taken, and that is said.
    let other = format!("learning.from_hub={}", "0".repeat(64));
    good(&here.pinfold(["config", "set", &other]));
    let refused = pinfold(&here, "hub push --once");
    assert!(refused.err.contains("its signature is not of the key"), "{refused:?}");
    assert_eq!(expected(), None);
}

/// `pinfold` as nobody, with the hub's address that root keeps for all.
fn as_nobody(host: &Host, arguments: &[&str]) -> Done {
    let mut command = host.command(host.programs().join("pinfold"));
    command.args(arguments).env("PINFOLD_HUB_READER_DIR", host.work("reader"));
    command.stdin(Stdio::null()).current_dir("/");
    become_nobody(&mut command);
    host.spawn(command).wait()
}

fn users_see_their_own_jobs_by_the_daemon_s_word() {
    let host = shared(&["profile.interval=50ms"]);
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
