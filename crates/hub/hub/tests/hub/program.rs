//! The program itself: killed while hosts push, and refusing what it must not do.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pinfold_hub::store::{Kind, Store, now_us};
use pinfold_hub::weekly::Week;
use pinfold_hubclient::HubClient;
use pinfold_hubwire::bundle;
use pinfold_hubwire::disk::RealDisk;
use pinfold_hubwire::push::Pusher;
use pinfold_testkit::free_address;
use rand_core::{RngCore as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{MadeUp, bundle_of, report};

const PROGRAM: &str = env!("CARGO_BIN_EXE_pinfold-hub");

fn run(args: &[&str]) -> Output {
    Command::new(PROGRAM).args(args).output().unwrap()
}

#[track_caller]
fn check(args: &[&str], code: i32, words: &str) {
    let output = run(args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(said.contains(words), "{args:?}: {said}");
}

/// The program, serving; killed when it is dropped.
pub(crate) struct Serving {
    child: Child,
    url: String,
}

impl Serving {
    pub(crate) fn start(database: &str, listen: &str) -> Self {
        Self::start_with(database, listen, &[])
    }

    pub(crate) fn start_with(database: &str, listen: &str, more: &[&str]) -> Self {
        let mut child = Command::new(PROGRAM)
            .args(["serve", "--database", database, "--listen", listen])
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let url = line.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(url.starts_with("http"), "{line}");
        // So that it never waits for a reader of what it says.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self { child, url }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn address(&self) -> String {
        self.url.trim_start_matches("http://").to_owned()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn token(database: &str, kind: &str, name: &str) -> String {
    let output = run(&["token", "--database", database, kind, name]);
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn database(dir: &Path) -> String {
    format!("sqlite:{}", dir.join("hub.db").display())
}

#[test]
fn a_hub_that_is_killed_has_all_that_it_said_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let database = database(dir.path());
    let token = token(&database, "--host", "alpha");
    let mut hub = Serving::start(&database, &free_address());
    let address = hub.address();
    let mut client = HubClient::new(&hub.url, None).unwrap().with_token(&token);
    let mut source = MadeUp { points: 50, told: 1_000, ..MadeUp::default() };
    let mut pusher = Pusher::open(RealDisk, dir.path(), 1 << 24, "boot").unwrap();
    let mut dice = Pcg64Mcg::seed_from_u64(7);
    let (mut now, mut kills) = (Duration::ZERO, 0);
    let deadline = Instant::now() + Duration::from_secs(300);
    let mut job = 0;
    while kills < 8 || !pusher.is_idle() {
        assert!(Instant::now() < deadline, "it takes too long: {kills} kills, {:?}", pusher.figures());
        if kills < 8 {
            for _ in 0..20 {
                job += 1;
                source.jobs.insert(job, true);
            }
        }
        // Past each wait: the pusher's clock is the test's.
        now += Duration::from_secs(300);
        let _ = pusher.collect(&mut source, now_us()).unwrap();
        let kill = kills < 8 && dice.next_u32().is_multiple_of(3);
        let killer = kill.then(|| {
            let (pid, after) = (hub.child.id(), Duration::from_millis(u64::from(dice.next_u32() % 30)));
            std::thread::spawn(move || {
                std::thread::sleep(after);
                let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
                let _ = kill_process(pid, Signal::KILL);
            })
        });
        pusher.send(&mut client, now, 1).unwrap();
        if let Some(killer) = killer {
            killer.join().unwrap();
            hub.child.wait().unwrap();
            hub = Serving::start(&database, &address);
            kills += 1;
        }
    }
    drop(hub);
    let store = Store::open_file(&dir.path().join("hub.db"), None).unwrap();
    assert_eq!(store.totals().unwrap(), (job, 7.0 * f64::from(u32::try_from(job).unwrap())));
}

#[test]
fn of_two_hubs_with_one_database_either_may_be_killed() {
    let Some(server) = crate::server::Server::start() else { return };
    let (dir, database) = (tempfile::tempdir().unwrap(), server.url());
    let token = token(&database, "--host", "alpha");
    let reader = token_of_reader(&database);
    let mut hubs = [(); 2].map(|()| Serving::start(&database, &free_address()));
    let addresses = [hubs[0].address(), hubs[1].address()];
    let client = |at: usize| HubClient::new(&format!("http://{}", addresses[at]), None).unwrap();
    let mut uplink = client(0).with_token(&token).or(client(1));
    let mut source = MadeUp { points: 20, told: 1_000, ..MadeUp::default() };
    let mut pusher = Pusher::open(RealDisk, dir.path(), 1 << 24, "boot").unwrap();
    let (mut now, mut job, mut dice) = (Duration::ZERO, 0, Pcg64Mcg::seed_from_u64(11));
    for round in 0..8usize {
        for _ in 0..20 {
            job += 1;
            source.jobs.insert(job, true);
        }
        now += Duration::from_secs(300);
        let _ = pusher.collect(&mut source, now_us()).unwrap();
        // One of them is killed while something is sent, and the other goes on.
        let killed = round % 2;
        let (pid, after) = (hubs[killed].child.id(), Duration::from_millis(u64::from(dice.next_u32() % 30)));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(after);
            let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        });
        // In one go, without any wait for a hub that is killed: what one does not answer the other does.
        while !pusher.is_idle() {
            let sent = pusher.send(&mut uplink, now, 1).unwrap();
            assert!(sent.failed.is_none(), "{:?}", sent.failed);
        }
        killer.join().unwrap();
        let _ = hubs[killed].child.wait();
        let left = &addresses[1 - killed];
        let known = get(left, "/api/v1/hosts", &reader);
        assert!(
            known.contains("alpha") && !known.contains("\"seen_s\":null"),
            "the other one knows it as well: {known}"
        );
        hubs[killed] = Serving::start(&database, &addresses[killed]);
    }
    drop(hubs);
    let store = Store::open(&server.at(), None).unwrap();
    assert_eq!(store.totals().unwrap(), (job, 7.0 * f64::from(u32::try_from(job).unwrap())));
}

fn token_of_reader(database: &str) -> String {
    token(database, "--reader", "ops")
}

fn get(address: &str, path: &str, token: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {token}"
    );
    stream.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn what_cannot_be_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let database = database(dir.path());
    check(&["serve", "--database", "postgres://db/hub"], 2, "sslmode=verify-full&sslrootcert=FILE");
    check(
        &["serve", "--database", "postgres://db/hub?sslmode=require"],
        2,
        "sslmode=require: that does not show",
    );
    check(&["serve", "--database", "postgres://db/hub?sslcert=/x"], 2, "sslcert");
    check(&["serve", "--database", "mysql://db/hub"], 2, "postgres://");
    check(&["backup", "--database", "postgres:///hub", "x"], 2, "pg_dump");
    check(&["restore", "--database", "postgres:///hub", "x"], 2, "pg_restore");
    check(&["check", "--database", "postgres:///hub"], 2, "pg_amcheck");
    check(&["tokens", "--database", "postgres:///hub?host=/nowhere"], 1, "not there now");
    check(&["serve", "--database", &database, "--listen", "0.0.0.0:0"], 2, "--cert and --key");
    check(&["serve", "--database", &database, "--url", "hub"], 2, "https://HOST");
    check(&["serve", "--database", &database, "--listen", "nonsense"], 2, "ADDRESS:PORT");
    check(&["serve", "--database", &database, "--cert", "x"], 2, "--key");
    check(
        &["serve", "--database", &database, "--listen", "127.0.0.1:0", "--cert", "/x", "--key", "/y"],
        1,
        "/x",
    );
    check(&["serve", "--database", &database, "--config", "/x"], 2, "/x");
    check(&["token", "--database", &database], 2, "--host");
    check(&["token", "--database", &database, "--host", "../x"], 1, "is no name");
    check(&["token", "--database", &database, "--host", "<b>"], 1, "is no name");
    // As it is served: the commands below only read and change what is there.
    Store::open_file(&dir.path().join("hub.db"), None).unwrap();
    check(&["revoke", "--database", &database, "--host", "nobody"], 1, "no such token");
    check(&["login", "--database", &database], 1, "--url");
    check(&["check", "--database", "sqlite:/nowhere/x"], 1, "/nowhere/x");
    check(&["weekly", "--database", &database, "--week", "2026-W60"], 2, "2026-W47");
    check(&["weekly", "--database", &database, "--to", "ann@x\nBcc: all@x"], 2, "no address of a mailbox");
    check(&["weekly", "--database", &database, "--user", "ann", "--project", "web"], 2, "--project");
    check(&["weekly", "--database", &database, "--list", "--to", "ann@x"], 2, "--to");
}

#[test]
fn a_database_that_is_not_there_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let (typo, copy) = (dir.path().join("typo.db"), dir.path().join("copy.db").display().to_string());
    let named = format!("sqlite:{}", typo.display());
    let commands: [&[&str]; 10] = [
        &["tokens"],
        &["revoke", "--token", "1"],
        &["rename", "a", "b"],
        &["login", "--url", "http://127.0.0.1:1"],
        &["backup", &copy],
        &["resend"],
        &["weekly"],
        &["weekly", "--list"],
        &["resum"],
        &["check"],
    ];
    for command in commands {
        let words = [&command[..1], &["--database", &named], &command[1..]].concat();
        check(&words, 1, "typo.db: no hub's database is there");
        check(&words, 1, "`pinfold-hub serve` makes one");
        assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "{command:?}");
    }
    check(&["restore", "--database", &named, &copy], 1, "copy.db: No such file");
    // One that is empty is no hub's either.
    std::fs::write(&typo, "").unwrap();
    check(&["tokens", "--database", &named], 1, "typo.db: no hub's database is there");
    // As a first token may be made before a hub serves, it makes the database, and says so.
    std::fs::remove_file(&typo).unwrap();
    check(&["token", "--database", &named, "--host", "alpha"], 0, "typo.db: there was no database");
    check(&["tokens", "--database", &named], 0, "");
}

#[test]
fn what_cannot_be_written_is_no_success() {
    let dir = tempfile::tempdir().unwrap();
    let database = database(dir.path());
    let store = Store::open_file(&dir.path().join("hub.db"), None).unwrap();
    let ended = |args: &[&str], out: Stdio| {
        let with_database = match args {
            [option] if option.starts_with("--") => args.to_vec(),
            _ => [&args[..1], &["--database", &database], &args[1..]].concat(),
        };
        let output = Command::new(PROGRAM).args(with_database).stdout(out).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let unread = || Stdio::from(std::io::pipe().unwrap().1);
    let token: &[&str] = &["token", "--host", "lost"];
    for out in [full(), unread()] {
        let (code, said) = ended(token, out);
        assert!(code == Some(1) && said.contains("which nobody has seen, is revoked"), "{code:?}: {said}");
        assert!(store.tokens().unwrap().iter().all(|token| token.revoked_us.is_some()));
    }
    let answers: [&[&str]; 7] = [
        &["tokens"],
        &["tokens", "--json"],
        &["weekly"],
        &["weekly", "--json"],
        &["login", "--url", "http://127.0.0.1:1"],
        &["--help"],
        &["--version"],
    ];
    for args in answers {
        let (code, said) = ended(args, full());
        assert!(
            code == Some(1) && said.contains("standard output: No space left"),
            "{args:?}: {code:?}: {said}"
        );
        assert_eq!(ended(args, unread()), (Some(0), String::new()), "{args:?}");
        // Closed, as by `>&-`.
        let shell = format!("exec \"$0\" {} --database '{database}' >&-", args.join(" "));
        if !args[0].starts_with("--") {
            let output = Command::new("sh").args(["-c", &shell, PROGRAM]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() == Some(1) && said.contains("it is closed"), "{args:?}: {said}");
        }
    }
}

#[test]
fn a_week_is_the_text_of_a_mail() {
    let dir = tempfile::tempdir().unwrap();
    let database = database(dir.path());
    let store = Store::open_file(&dir.path().join("hub.db"), None).unwrap();
    store.add_token(Kind::Host, "alpha", &[1; 32], "test", 1).unwrap();
    let host = store.holder(&[1; 32]).unwrap().unwrap().host;
    let jobs = (1..=6).map(|job| {
        let mut one = report(job, if job == 6 { "x\r\nBcc: all@example.org" } else { "align" }, 1);
        one.user = if job == 5 { "bea, cyn".to_owned() } else { "ann".to_owned() };
        one.exit_code = Some(i32::from(job == 4));
        one
    });
    store.ingest(host, &bundle_of(jobs.collect()), now_us()).unwrap();
    let week = Week::of(bundle::microseconds(report(1, "x", 0).ended_s.unwrap())).to_string();
    let said = |more: &[&str]| {
        let output = run(&[&["weekly", "--database", &database, "--week", &week][..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{more:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let mail = said(&["--user", "ann", "--to", "ann@example.org"]);
    let (head, text) = mail.split_once("\n\n").unwrap();
    assert!(
        head.starts_with(&format!("To: ann@example.org\nSubject: pinfold: week {week} of jobs of ann\n")),
        "{head}"
    );
    assert!(!mail.contains("\nBcc"), "{mail}");
    for words in [
        "Jobs                        5   1 failed",
        "align (3 jobs of ann): held 1.00 GiB at most, claimed 4.00 GiB",
        "--mem 1280MiB",
        "align: 1 of 4 jobs",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(said(&["--user", "nobody"]).contains("No job ended in this week"));
    // A name that is more than a word is no word for a script; JSON has it.
    assert_eq!(said(&["--list"]), "ann\n");
    assert!(said(&["--list", "--json"]).contains(r#""users":["ann","bea, cyn"]"#));
    let json: serde_json::Value = serde_json::from_str(&said(&["--json"])).unwrap();
    assert_eq!((&json["sums"]["jobs"], &json["user"]), (&6.into(), &serde_json::Value::Null));
    drop(store);
    check(&["resum", "--database", &database], 0, "made anew");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&said(&["--json"])).unwrap(), json);
}

#[test]
fn two_hubs_do_not_serve_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let database = database(dir.path());
    let hub = Serving::start(&database, "127.0.0.1:0");
    check(&["serve", "--database", &database, "--listen", "127.0.0.1:0"], 1, "stop it first");
    let copy = dir.path().join("copy.db").display().to_string();
    check(&["backup", "--database", &database, &copy], 0, "copied and verified");
    check(&["backup", "--database", &database, &copy], 1, "copy.db is there already");
    check(&["restore", "--database", &database, &copy], 1, "stop it first");
    drop(hub);
    check(&["restore", "--database", &database, &copy], 0, "restored");
    check(&["check", "--database", &database], 0, "no damage");
    check(&["resend", "--database", &database], 0, "send again");
}

#[test]
fn what_a_copy_lacks_is_said_as_it_is_put_back() {
    let dir = tempfile::tempdir().unwrap();
    let database = database(dir.path());
    let copy = dir.path().join("copy.db").display().to_string();
    token(&database, "--host", "alpha");
    check(&["backup", "--database", &database, &copy], 0, "copied and verified");
    check(&["revoke", "--database", &database, "--host", "alpha"], 0, "is revoked");
    token(&database, "--host", "beta");
    check(&["rename", "--database", &database, "beta", "gamma"], 0, "host beta is gamma now");
    check(&["rename", "--database", &database, "beta", "gamma"], 1, "no host beta is known");
    let output = run(&["restore", "--database", &database, &copy]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    for (name, words) in [("alpha", "is revoked in it now"), ("gamma", "is not in the copy")] {
        let line = said.lines().find(|line| line.contains(&format!("of host {name}")));
        assert!(line.is_some_and(|line| line.contains(words)), "{said}");
    }
    check(&["revoke", "--database", &database, "--host", "alpha"], 1, "no such token that is valid");
}

/// Whoever reads the address may ask the hub to end at once, and it ends in order. Nobody reads it here.
#[test]
fn signals_are_heard_before_the_address_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    for size in [4096, 1] {
        while writer.write(&[b'.'; 4096][..size]).is_ok() {}
    }
    fcntl_setfl(&writer, flags).unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--database", &database(dir.path()), "--listen", "127.0.0.1:0"]).stderr(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    let heard = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
        [Signal::TERM, Signal::INT].iter().all(|signal| mask >> (signal.as_raw() - 1) & 1 == 1)
    };
    let deadline = Instant::now() + Duration::from_secs(180);
    let mut found = heard(child.id());
    while !found && Instant::now() < deadline {
        std::thread::park_timeout(Duration::from_millis(10));
        found = heard(child.id());
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, if found { Signal::TERM } else { Signal::KILL }).unwrap();
    let mut said = Vec::new();
    reader.read_to_end(&mut said).unwrap();
    let status = child.wait().unwrap();
    assert!(found, "no handler while nobody reads what it says");
    let said = String::from_utf8_lossy(&said).trim_start_matches('.').to_owned();
    assert!(status.success() && said.contains(" on http://127.0.0.1:"), "{status}: {said}");
}
