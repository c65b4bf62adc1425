//! What stands around a job: a directory in memory, and a `/tmp` of its own. Both are gone when the job is, however it
//! ended.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pinfold_proto::JobState;
use pinfold_proto::view::WhyView;
use pinfold_testkit::ignore;

use crate::host::{Host, copy_program};
use crate::kind::{Kind, become_nobody, tests};
use crate::wait::{eventually, no_rescue};

tests! {
    Each: a_directory_in_memory, a_tmp_of_its_own, no_network_but_loopback;
    Best: gone_however_the_job_ends, the_daemon_dies_and_comes_back, all_of_them_are_bounded,
        a_tmp_of_its_own_in_the_directory, lists_and_tasks;
    Once: the_daemon_seen_from_a_tmp_of_its_own, another_users_job_under_roots_daemon;
}

const WAIT: &str = "until [ -e go ]; do sleep 0.05; done";

/// Whether this kind's daemon can mount.
fn mounts(kind: Kind) -> bool {
    let facts = pinfold_sys::mode::probe(&pinfold_sys::mode::Roots::default());
    kind != Kind::Nobody && facts.user == 0 && facts.may_mount
}

/// Ends a test as ignored where jobs of this kind cannot have a `/tmp` of their own.
fn private(host: &Host) {
    let done = host.pinfold(["run", "--private-tmp", "true"]);
    if done.code == Some(5) {
        assert!(done.err.contains("doctor"), "{done:?}");
        ignore!("{}", done.err);
    }
    assert_eq!(done.code, Some(0), "{done:?}");
}

/// Starts a job that notes where its directory is; gives that.
fn with_directory(host: &Host, options: &[&str], script: &str) -> (u64, PathBuf) {
    let note = format!("echo x >$TMPDIR/file && echo $TMPDIR >where.new && mv where.new where; {script}");
    let job = host.submit(options, &note);
    let path = eventually("the job says where its directory is", || {
        std::fs::read_to_string(host.work("where")).map(|text| PathBuf::from(text.trim()))
    });
    std::fs::remove_file(host.work("where")).expect("it was just read");
    assert!(path.join("file").exists(), "{}", path.display());
    (job, path)
}

fn is_gone(path: &Path) {
    eventually(&format!("{} is gone", path.display()), || {
        if path.exists() { Err("it is there") } else { Ok(()) }
    });
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("what is mounted");
    assert!(!mounts.contains(&path.display().to_string()), "it is not mounted");
}

fn a_directory_in_memory(kind: Kind) {
    let host = Host::new(kind);
    let script = "cd $TMPDIR && stat -c '%a %u' . && id -u && head -c 8388608 /dev/zero >large; \
                  echo $? $(stat -c %s large); echo $TMPDIR";
    let done = host.pinfold(["run", "--tmp", "4MiB", "--", "/bin/sh", "-c", script]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!(lines[0], format!("700 {}", lines[1]), "{done:?}");
    let size = if mounts(kind) { "1 4194304" } else { "0 8388608" };
    assert_eq!(lines[2], size, "{done:?}");
    is_gone(Path::new(lines[3]));
    let done = host.pinfold(["doctor"]);
    assert_eq!(done.out.contains("nothing keeps a job to the size"), !mounts(kind), "{done:?}");
    // Who does not ask keeps what the environment says, which is nothing on most hosts.
    let own = std::env::var("TMPDIR").unwrap_or_else(|_| "none".to_owned());
    let done = host.pinfold(["run", "--", "/bin/sh", "-c", "echo ${TMPDIR-none}"]);
    assert_eq!(done.out, format!("{own}\n"), "who does not ask has none of ours");
}

fn gone_however_the_job_ends(kind: Kind) {
    let host = Host::new(kind);
    let (job, path) = with_directory(
        &host,
        &["--tmp", "1MiB"],
        "mkdir -p $TMPDIR/a/b; until [ -e first ]; do sleep 0.05; done; exit 3",
    );
    host.make("first");
    host.until_exit_code(job, 3);
    is_gone(&path);
    let (job, path) = with_directory(&host, &["--tmp", "1MiB"], WAIT);
    host.succeeds(["cancel", &job.to_string()]);
    host.until(job, JobState::Exited);
    is_gone(&path);
    let (job, path) =
        with_directory(&host, &["--tmp", "1MiB"], "until [ -e second ]; do sleep 0.05; done; kill -KILL $$");
    host.make("second");
    assert_eq!(host.until(job, JobState::Exited).signal, Some(9));
    is_gone(&path);
}

/// Of the jobs that a daemon that died left, one ended before the next came, and one runs on.
fn the_daemon_dies_and_comes_back(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = Host::new(kind);
    let (lives, kept) = with_directory(&host, &["--tmp", "1MiB"], WAIT);
    let (_, left) =
        with_directory(&host, &["--tmp", "1MiB"], "until [ -e first ]; do sleep 0.05; done; : >ended");
    host.crash();
    host.make("first");
    eventually("the job ends", || std::fs::metadata(host.work("ended")).map(drop));
    assert!(left.exists(), "nobody is there to remove it");
    host.start_daemon();
    is_gone(&left);
    assert!(kept.join("file").exists(), "that of a job that runs stays");
    host.until(lives, JobState::Running);
    assert_eq!(host.stop(), Some(0));
    assert!(kept.join("file").exists());
    host.start_daemon();
    host.make("go");
    host.until_exit_code(lives, 0);
    is_gone(&kept);
}

fn all_of_them_are_bounded(kind: Kind) {
    let host = Host::with(kind, &["tmp.total=10MiB", "slots.factor=4"]);
    let done = host.pinfold(["run", "--tmp", "11MiB", "true"]);
    assert_eq!(done.code, Some(5), "{done:?}");
    assert!(done.err.contains("tmp.total"), "{done:?}");
    let (first, _) = with_directory(&host, &["--tmp", "6MiB"], WAIT);
    let second = host.submit(&["--tmp", "5MiB"], "exit 4");
    let third = host.submit(&["--tmp", "4MiB"], "exit 5");
    host.until_exit_code(third, 5);
    host.until_exit_code(host.submit(&[], "exit 6"), 6);
    // What the third had may be on its way out still.
    let why = eventually("it waits for the first alone", || {
        let done = host.pinfold(["why", "--json", &second.to_string()]);
        let why: WhyView = serde_json::from_str(&done.out).expect("why is JSON");
        if why.change.contains(&format!("job {first} must end")) { Ok(why) } else { Err(format!("{why:?}")) }
    });
    assert!(why.state == JobState::Queued && why.cause.contains("tmp.total"), "{why:?}");
    host.make("go");
    host.until_exit_code(second, 4);
}

fn a_tmp_of_its_own(kind: Kind) {
    let _frozen = no_rescue();
    let host = Host::new(kind);
    private(&host);
    let name = host.path(".").file_name().map(|_| host.instance()).expect("a name of this test's own");
    // The host's directory is below /tmp as a rule: inside, neither it nor anything else of /tmp is there.
    let script = format!(
        "echo $TMPDIR $(ls -A /tmp /var/tmp | grep -v : | wc -w); echo x >/tmp/{name}; echo x >/var/tmp/{name}; \
         id -u; exit 7"
    );
    let done = host.pinfold(["run", "--private-tmp", "--", "/bin/sh", "-c", &script]);
    assert_eq!(done.code, Some(7), "{done:?}");
    let mut lines = done.out.lines();
    assert_eq!(lines.next(), Some("/tmp 0"), "{done:?}");
    let own = if kind == Kind::Nobody { 65534 } else { rustix::process::geteuid().as_raw() };
    assert_eq!(lines.next(), Some(own.to_string().as_str()), "{done:?}");
    for place in ["/tmp", "/var/tmp"] {
        assert!(!Path::new(place).join(&name).exists(), "nothing comes out to {place}");
    }
    // It is frozen, thawed and cancelled as any other.
    let job = host.submit(&["--private-tmp"], WAIT);
    host.until(job, JobState::Running);
    host.succeeds(["suspend", &job.to_string()]);
    host.until(job, JobState::Frozen);
    host.succeeds(["resume", &job.to_string()]);
    host.succeeds(["cancel", &job.to_string()]);
    host.until(job, JobState::Exited);
}

fn a_tmp_of_its_own_in_the_directory(kind: Kind) {
    let host = Host::new(kind);
    private(&host);
    let script = "echo $TMPDIR; head -c 8388608 /dev/zero >/tmp/large; echo $?; : >/var/tmp/x";
    let done = host.pinfold(["run", "--private-tmp", "--tmp", "4MiB", "--", "/bin/sh", "-c", script]);
    let full = i32::from(mounts(kind));
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!(lines, ["/tmp".to_owned(), full.to_string()], "{done:?}");
    let base = if mounts(kind) { "/run/pinfold/tmp" } else { "/dev/shm" };
    let left = || {
        let names = std::fs::read_dir(base).expect("the base").filter_map(Result::ok);
        names.map(|entry| entry.path()).find(|path| path.to_string_lossy().contains(&host.instance()))
    };
    eventually("no job has a directory", || {
        match left().map(|dir| std::fs::read_dir(dir).map(Iterator::count)) {
            None | Some(Ok(0)) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

fn lists_and_tasks(kind: Kind) {
    let host = Host::new(kind);
    std::fs::write(host.work("list"), "echo x >$TMPDIR/x\n[ $(ls $TMPDIR | wc -l) = 0 ]\n").expect("a list");
    kind.give(&host.work("list"));
    let done = host.pinfold(["batch", "--tmp", "1MiB", "list"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    private(&host);
    let done = host.pinfold(["batch", "--private-tmp", "list"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let script = "mkdir /tmp/$PINFOLD_TASK_ID; until [ $(ls /tmp | wc -l) = 2 ]; do sleep 0.05; done";
    let done = host.pinfold(["run", "--private-tmp", "-n", "2", "--", "/bin/sh", "-c", script]);
    assert_eq!(done.code, Some(0), "tasks share theirs: {done:?}");
}

/// Inside, the one device is loopback, which is up; a server of the host's is not there, and the daemon is.
fn no_network_but_loopback(kind: Kind) {
    let host = Host::new(kind);
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a server on loopback");
    let port = server.local_addr().expect("its address").port();
    let devices = "sed -n 's/^ *\\([a-z0-9]*\\):.*/\\1/p' /proc/net/dev";
    let done = host.pinfold(["run", "--no-network", "--", "/bin/sh", "-c", devices]);
    if done.code == Some(5) {
        assert!(done.err.contains("--no-network") && done.err.contains("doctor"), "{done:?}");
        ignore!("{}", done.err);
    }
    assert_eq!((done.code, done.out.as_str()), (Some(0), "lo\n"), "{done:?}");
    // The kernel has the address in its table only while the device is up.
    let up = "grep -c 'host LOCAL' /proc/net/fib_trie; id -u; exit 7";
    let done = host.pinfold(["run", "--no-network", "--", "/bin/sh", "-c", up]);
    assert_eq!(done.code, Some(7), "{done:?}");
    let own = if kind == Kind::Nobody { 65534 } else { rustix::process::geteuid().as_raw() };
    let lines: Vec<&str> = done.out.lines().collect();
    assert!(lines[0] != "0" && lines[1] == own.to_string(), "{done:?}");
    let instance = "pinfold --no-autostart status --json >/dev/null && echo $PINFOLD_INSTANCE";
    let done =
        host.pinfold(["run", "--no-network", "--private-tmp", "--", "/bin/sh", "-c", "ls -A /tmp; echo"]);
    assert_eq!(done.out, "\n", "both at once: {done:?}");
    let done = host.pinfold(["run", "--no-network", "--", "/bin/sh", "-c", instance]);
    assert_eq!(done.out.trim(), host.instance(), "its socket is a file: {done:?}");
    if !Path::new("/bin/bash").exists() {
        ignore!("a connection is tried with bash");
    }
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let try_it =
        |options: &[&str]| host.pinfold([&["run"], options, &["--", "/bin/bash", "-c", &connect]].concat());
    assert_eq!(try_it(&[]).code, Some(0), "with the host's network");
    let done = try_it(&["--no-network"]);
    assert!(done.code != Some(0) && done.err.contains("refused"), "nobody listens inside: {done:?}");
    // A part of a job may have less than the job.
    let step = host.shell(&format!(
        "pinfold run -- /bin/sh -c 'pinfold run --no-network -- /bin/sh -c \"{}\"'",
        "grep -c : /proc/net/dev"
    ));
    assert_eq!(step.out, "1\n", "{step:?}");
}

/// Where nobody's private daemon has its socket without `$XDG_RUNTIME_DIR`, made for one test at a time.
pub(crate) struct NobodysPlace {
    path: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl NobodysPlace {
    /// A test is ignored where it is there already.
    pub(crate) fn take() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let path = PathBuf::from("/tmp/pinfold-65534");
        if std::fs::create_dir(&path).is_err() {
            ignore!("{} is there already", path.display());
        }
        Kind::Nobody.give(&path);
        Self { path, _alone: alone }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path.join("pinfold.sock")
    }
}

impl Drop for NobodysPlace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A private daemon whose socket lies below `/tmp` is there in a `/tmp` of a job's own, alone; one that somebody named there is
/// not, and no other is started in its place.
fn the_daemon_seen_from_a_tmp_of_its_own() {
    Kind::Nobody.or_ignored();
    let _place = NobodysPlace::take();
    let host = Host::without_daemon(Kind::Nobody, &[]);
    // Where they have a path inside, too, wherever they were built.
    let programs =
        tempfile::Builder::new().prefix("pinfold-e2e-").tempdir_in("/dev/shm").expect("a directory");
    for name in ["pinfold", "pinfoldd"] {
        copy_program(&host.programs().join(name), programs.path());
    }
    Kind::Nobody.give(programs.path());
    let run = |named: Option<PathBuf>, script: &str| {
        let mut command = host.command(programs.path().join("pinfold"));
        command.env("PATH", format!("{}:/usr/bin:/bin", programs.path().display()));
        command.env_remove("PINFOLD_SOCKET").env_remove("XDG_RUNTIME_DIR").env_remove("XDG_STATE_HOME");
        // It is not to end before who started it is connected, on a busy machine; it is killed with the host.
        command.env("HOME", host.work("")).env("PINFOLD_PRIVATE_IDLE", "30s");
        command.stdin(std::process::Stdio::null());
        command.envs(named.map(|socket| ("PINFOLD_SOCKET", socket)));
        command.args(["run", "--private-tmp", "--", "/bin/sh", "-c", script]);
        host.spawn(command).wait()
    };
    let inside = "ls -A /tmp; pinfold --no-autostart status --json | grep -c '\"jobs\"'; \
                  pinfold run -- sh -c 'echo $PINFOLD_JOB_ID $PINFOLD_INSTANCE'; echo $PINFOLD_JOB_ID $PINFOLD_INSTANCE";
    let done = run(None, inside);
    if done.code == Some(5) {
        ignore!("{}", done.err);
    }
    let lines: Vec<&str> = done.out.lines().collect();
    assert!(lines.len() == 4 && lines[..2] == ["pinfold-65534", "1"] && lines[2] == lines[3], "{done:?}");
    let socket = host.path("named").join("pinfold.sock");
    if !socket.starts_with("/tmp") {
        ignore!("this host's directory is not below /tmp");
    }
    let done = run(Some(socket), "pinfold status");
    assert_eq!(done.code, Some(4), "{done:?}");
    assert!(done.err.contains("--private-tmp") && done.err.contains("PINFOLD_SOCKET"), "{done:?}");
}

/// Root's daemon gives another user's job what is that user's, and nobody else's.
fn another_users_job_under_roots_daemon() {
    if !mounts(Kind::Rootless) {
        ignore!("only root can be two users and mount");
    }
    let host = Host::with(Kind::Rootless, &[]);
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(host.path("."), PermissionsExt::from_mode(0o755)).expect("an open directory");
    for private in [&[][..], &["--private-tmp"]] {
        let mut command = host.command(host.programs().join("pinfold"));
        command.args(["run", "--tmp", "4MiB"]).args(private);
        let script =
            "stat -c '%a %u' $TMPDIR; echo x >$TMPDIR/x; head -c 8388608 /dev/zero >$TMPDIR/y; echo $?";
        command.args(["--", "/bin/sh", "-c", script]).stdin(std::process::Stdio::null()).current_dir("/");
        become_nobody(&mut command);
        let done = host.spawn(command).wait();
        if done.code == Some(5) {
            ignore!("{}", done.err);
        }
        assert_eq!(done.out, "700 65534\n1\n", "{private:?}: {done:?}");
    }
}
