//! A host of its own for one test: a private directory with socket and state, a daemon started in it, and the
//! command to talk to it. When the test is over, the daemon, the jobs and the kernel groups of the instance are
//! gone, or the test fails. Absent here: any expectation about jobs.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pinfold_proto::JobState;
use pinfold_proto::view::{JobView, ReportView, StatusView};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::kind::{self, Kind};
use crate::process::{Done, Running, ended_within};
use crate::wait::{eventually, within};

/// Where the kernel's control groups are.
const CGROUPS: &str = "/sys/fs/cgroup";

/// Names a host's directories, so that parallel tests write into files of their own.
static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

pub(crate) struct Host {
    kind: Kind,
    dir: TempDir,
    programs: PathBuf,
    settings: Vec<String>,
    daemon: Option<Child>,
    /// Where its daemon meets those of other users: not in the host's own directory.
    neighbours: PathBuf,
    /// Started by a wrapper: a command line before the daemon's own.
    wrapper: Vec<OsString>,
    /// The control group that its daemon is in, delegated to the user.
    group: Option<PathBuf>,
}

impl Host {
    /// A host with a daemon on the default settings.
    pub(crate) fn new(kind: Kind) -> Self {
        Self::with(kind, &[])
    }

    /// A host with a daemon on these settings.
    pub(crate) fn with(kind: Kind, settings: &[&str]) -> Self {
        let mut host = Self::without_daemon(kind, settings);
        host.start_daemon();
        host
    }

    /// A host whose daemon is not started yet.
    pub(crate) fn without_daemon(kind: Kind, settings: &[&str]) -> Self {
        let dir = tempfile::Builder::new().prefix("pinfold-e2e-").tempdir().expect("a private directory");
        let programs = programs(dir.path(), kind);
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let neighbours = dir.path().join("neighbours");
        let host = Self {
            kind,
            dir,
            programs,
            settings,
            daemon: None,
            neighbours,
            wrapper: Vec::new(),
            group: None,
        };
        meeting_place(&host.neighbours);
        fs::create_dir(host.path("work")).expect("a working directory");
        fs::create_dir(host.path("said")).expect("a directory for what commands say");
        // A user without rights owns everything; what root's commands write into it is root's own.
        for path in [host.dir.path().to_owned(), host.path("work")] {
            kind.give(&path);
        }
        host
    }

    /// Starts the daemon by this command line: `unshare -m sh -c '...; exec "$@"' sh`.
    pub(crate) fn wrap_daemon(&mut self, wrapper: &[&str]) {
        self.wrapper = wrapper.iter().map(OsString::from).collect();
    }

    /// Starts the daemon in this control group, which is its user's, in the mode that it chooses itself.
    pub(crate) fn delegate(&mut self, group: &Path) {
        self.group = Some(group.to_owned());
    }

    /// Has the next daemon meet those of another host.
    pub(crate) fn meet(&mut self, other: &Self) {
        self.neighbours.clone_from(&other.neighbours);
    }

    /// Settings for the next start of the daemon.
    pub(crate) fn set(&mut self, settings: &[&str]) {
        self.settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
    }

    /// Starts the daemon and waits until it says that it is ready.
    pub(crate) fn start_daemon(&mut self) {
        let mut child = self.daemon_command(&self.path("daemon.log")).spawn().expect("the daemon starts");
        let ready = within(crate::wait::PATIENCE, || {
            let said = self.daemon_said();
            match child.try_wait().expect("the daemon is a child") {
                Some(status) => panic!("the daemon ended ({status}): {said}"),
                None => said.lines().any(|line| line.contains("ready on")).then_some(()),
            }
        });
        if ready.is_none() {
            let place =
                |file: &str| fs::read_to_string(format!("/proc/{}/{file}", child.id())).unwrap_or_default();
            panic!("the daemon is not ready: {} {} {}", self.daemon_said(), place("status"), place("stack"));
        }
        self.daemon = Some(child);
    }

    /// The daemon's command line, which says what it says into `log`.
    pub(crate) fn daemon_command(&self, log: &Path) -> Command {
        let log = File::create(log).expect("the daemon's log");
        let program = self.programs.join("pinfoldd");
        let mut command = match (&self.group, self.wrapper.split_first()) {
            (Some(group), _) => kind::enter_as_nobody(group, &program),
            (None, Some((wrapper, rest))) => {
                let mut command = Command::new(wrapper);
                command.args(rest).arg(program);
                command
            }
            (None, None) => Command::new(program),
        };
        command.arg("--socket").arg(self.socket()).arg("--state-dir").arg(self.state());
        if self.group.is_none() {
            command.args(self.kind.daemon_options());
        }
        // Other tests run beside this one; what they use is no matter here, unless a test says so.
        let quiet = "host.other_load=off".to_owned();
        for setting in std::iter::once(&quiet).chain(&self.settings) {
            command.args(["--set", setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).current_dir(self.dir.path());
        scrub(&mut command);
        command.env("PINFOLD_NEIGHBOURS_DIR", &self.neighbours);
        command.env("PINFOLD_GPUS_BELOW", self.path("gpus"));
        // A session of its own, as a service has: signals for the test's terminal are not the daemon's.
        command.process_group(0);
        if self.group.is_none() {
            self.kind.become_user(&mut command);
        }
        command
    }

    /// Starts the daemon, which may end at this point of its life, and waits until it is ready.
    ///
    /// # Errors
    /// What it said, if it ended before that.
    pub(crate) fn try_start_daemon(&mut self, ends_at: Option<u64>) -> Result<(), String> {
        let mut command = self.daemon_command(&self.path("daemon.log"));
        command.envs(ends_at.map(|point| ("PINFOLD_CRASH_AT", point.to_string())));
        let mut child = command.spawn().expect("the daemon starts");
        let ready =
            within(crate::wait::PATIENCE, || match child.try_wait().expect("the daemon is a child") {
                Some(_) => Some(false),
                None => self.daemon_said().contains("ready on").then_some(true),
            });
        self.daemon = Some(child);
        match ready.unwrap_or_else(|| panic!("the daemon is not ready: {}", self.daemon_said())) {
            true => Ok(()),
            false => Err(self.daemon_said()),
        }
    }

    /// Whether the daemon ended.
    pub(crate) fn daemon_is_gone(&mut self) -> bool {
        self.daemon.as_mut().is_none_or(|daemon| daemon.try_wait().expect("the daemon is a child").is_some())
    }

    /// What the daemon has said on standard error since its last start.
    pub(crate) fn daemon_said(&self) -> String {
        let text = fs::read(self.path("daemon.log")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    /// The daemon's process.
    pub(crate) fn daemon_pid(&self) -> u32 {
        self.daemon.as_ref().expect("a daemon was started").id()
    }

    /// Kills the daemon as a crash would.
    pub(crate) fn crash(&mut self) {
        let mut daemon = self.daemon.take().expect("a daemon was started");
        daemon.kill().expect("the daemon is killed");
        daemon.wait().expect("the daemon is a child");
    }

    /// Has the daemon decide nothing more, as if the machine were busy.
    pub(crate) fn hold_daemon(&self) {
        send(self.daemon.as_ref().expect("a daemon was started").id(), Signal::STOP);
    }

    /// Stops the daemon as a service manager would; gives its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        let mut daemon = self.daemon.take().expect("a daemon was started");
        send(daemon.id(), Signal::TERM);
        match ended_within(&mut daemon, crate::wait::PATIENCE) {
            Some(status) => status.code(),
            None => {
                let _ = daemon.kill();
                let _ = daemon.wait();
                panic!("the daemon does not stop: {}", self.daemon_said());
            }
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// A path in the host's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A path in the directory where commands run.
    pub(crate) fn work(&self, name: &str) -> PathBuf {
        self.path("work").join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("pinfold.sock")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path("state")
    }

    /// Where `pinfold` and `pinfoldd` are.
    pub(crate) fn programs(&self) -> &Path {
        &self.programs
    }

    /// The name of the daemon's groups in the kernel.
    pub(crate) fn instance(&self) -> String {
        fs::read_to_string(self.state().join("instance")).expect("the instance's name").trim().to_owned()
    }

    /// A command that knows this host's socket, as this host's user, in its working directory.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        self.prepare(&mut command);
        self.kind.become_user(&mut command);
        command
    }

    /// `pinfold` with these arguments in the control group that its daemon is in, until it ends.
    pub(crate) fn inside(&self, arguments: &[&str]) -> Done {
        let group = self.group.as_ref().expect("a group was delegated");
        let mut command = kind::enter_as_nobody(group, &self.programs.join("pinfold"));
        self.prepare(&mut command);
        command.args(arguments).stdin(Stdio::null());
        self.spawn(command).wait()
    }

    fn prepare(&self, command: &mut Command) {
        scrub(command);
        command.env("PINFOLD_NEIGHBOURS_DIR", &self.neighbours);
        command.env("PINFOLD_GPUS_BELOW", self.path("gpus"));
        // Not the tester's own, which may name directories that this host's user cannot enter.
        command
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", self.programs.display()));
        command.env("PINFOLD_SHELL", "/bin/sh").env("TZ", "UTC");
        command.env("PINFOLD_SOCKET", self.socket()).current_dir(self.path("work"));
        command.env("XDG_STATE_HOME", self.path("work").join(".state"));
        command.env("XDG_CONFIG_HOME", self.path("work").join(".config"));
    }

    /// `pinfold` with these arguments, started and left alone.
    pub(crate) fn start<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Running {
        let mut command = self.command(self.programs.join("pinfold"));
        command.args(arguments).stdin(Stdio::null());
        self.spawn(command)
    }

    /// A command, started with its output going to files.
    pub(crate) fn spawn(&self, command: Command) -> Running {
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Running::spawn(command, &self.path("said").join(number.to_string()))
    }

    /// `pinfold` with these arguments, until it ends.
    pub(crate) fn pinfold<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Done {
        self.start(arguments).wait()
    }

    /// A `pinfold` command that must end well; fails with all that it said.
    #[track_caller]
    pub(crate) fn succeeds<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Done {
        let done = self.pinfold(arguments);
        done.ended_with(0);
        done
    }

    /// A shell script that may call `pinfold`, until it ends.
    pub(crate) fn shell(&self, script: &str) -> Done {
        let mut command = self.command("/bin/sh");
        command.args(["-c", script]).stdin(Stdio::null());
        self.spawn(command).wait()
    }

    /// Submits a shell script under these options; gives its number.
    pub(crate) fn submit(&self, options: &[&str], script: &str) -> u64 {
        let done = self.pinfold(
            [
                &["--no-autostart", "submit"],
                options,
                &["-o", "/dev/null", "-e", "/dev/null", "--", "/bin/sh", "-c", script],
            ]
            .concat(),
        );
        assert_eq!(done.code, Some(0), "submit {options:?} {script}: {done:?}");
        done.out.trim().parse().unwrap_or_else(|_| panic!("submit prints the job's number: {done:?}"))
    }

    /// `status --json` of these jobs; none: all that are not over.
    pub(crate) fn status(&self, jobs: &[u64]) -> StatusView {
        let jobs = jobs.iter().map(u64::to_string);
        let done = self.pinfold(["status".to_owned(), "--json".to_owned()].into_iter().chain(jobs));
        assert_eq!(done.code, Some(0), "status: {done:?}");
        serde_json::from_str(&done.out).expect("status is JSON")
    }

    /// One job, as `status` has it.
    pub(crate) fn job(&self, job: u64) -> JobView {
        self.status(&[job]).jobs.remove(0)
    }

    /// One job, as `report` has it.
    pub(crate) fn report(&self, job: u64) -> ReportView {
        let done = self.pinfold(["report", "--json", &job.to_string()]);
        assert_eq!(done.code, Some(0), "report {job}: {done:?}");
        serde_json::from_str(&done.out).expect("report is JSON")
    }

    /// Waits until a job is in this state; gives it as it is then.
    pub(crate) fn until(&self, job: u64, state: JobState) -> JobView {
        eventually(&format!("job {job} is {state:?}"), || {
            // It may not have been asked for yet, and the daemon may be just coming back.
            let done = self.pinfold(["--no-autostart", "status", "--json", &job.to_string()]);
            let view =
                serde_json::from_str::<StatusView>(&done.out).ok().and_then(|mut view| view.jobs.pop());
            view.filter(|view| view.state == state).ok_or_else(|| format!("{done:?}"))
        })
    }

    /// Waits until a job is known to have ended with this code. After the death of a daemon that may be later than
    /// its end, as the keeper has to find the next daemon first.
    pub(crate) fn until_exit_code(&self, job: u64, code: i32) {
        eventually(&format!("job {job} has exit code {code}"), || {
            let view = self.until(job, JobState::Exited);
            if view.exit_code == Some(code) { Ok(()) } else { Err(format!("{view:?}")) }
        });
    }

    /// Waits until a job's script has made this file in the working directory.
    pub(crate) fn until_made(&self, name: &str) {
        eventually(&format!("{name} is made"), || self.work(name).exists().then_some(()).ok_or("not there"));
    }

    /// Makes an empty file in the working directory, which scripts wait for.
    pub(crate) fn make(&self, name: &str) {
        File::create(self.work(name)).expect("a file in the working directory");
    }

    /// What a script wrote into this file of the working directory.
    pub(crate) fn wrote(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.work(name)).unwrap_or_default()).into_owned()
    }

    /// The directories of this host's instances in the kernel: its daemon's, and a private one's.
    pub(crate) fn groups(&self) -> Vec<PathBuf> {
        let states = [self.state(), self.socket().with_extension("state")];
        let instances = states.iter().filter_map(|state| fs::read_to_string(state.join("instance")).ok());
        let hierarchies = fs::read_dir(CGROUPS).into_iter().flatten().flatten().map(|entry| entry.path());
        let tops: Vec<PathBuf> = hierarchies.chain([PathBuf::from(CGROUPS)]).collect();
        let below = |name: String| tops.iter().map(move |top| top.join("pinfold").join(name.trim()));
        instances.flat_map(below).filter(|group| group.is_dir()).collect()
    }

    /// The groups of single jobs that are left in the kernel.
    pub(crate) fn job_groups(&self) -> Vec<PathBuf> {
        let below =
            |group: PathBuf| fs::read_dir(group).into_iter().flatten().flatten().map(|entry| entry.path());
        self.groups().into_iter().flat_map(below).filter(|path| path.is_dir()).collect()
    }

    fn kill_jobs(&self) {
        let Some(status) =
            self.start(["--no-autostart", "status", "--json"]).wait_at_most(Duration::from_secs(10))
        else {
            return;
        };
        let Ok(view) = serde_json::from_str::<StatusView>(&status.out) else { return };
        let jobs: Vec<String> = view.jobs.iter().map(|job| job.job.to_string()).collect();
        if !jobs.is_empty() {
            let cancel = ["cancel", "--signal", "KILL"].map(str::to_owned);
            let _ = self.start(cancel.into_iter().chain(jobs)).wait_at_most(Duration::from_secs(10));
        }
        within(Duration::from_secs(10), || {
            let status =
                self.start(["--no-autostart", "status", "--json"]).wait_at_most(Duration::from_secs(10))?;
            serde_json::from_str::<StatusView>(&status.out).ok()?.jobs.is_empty().then_some(())
        });
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.daemon.is_some() {
            self.kill_jobs();
            if std::thread::panicking() {
                if pinfold_testkit::trial::fails() {
                    eprintln!("the daemon said: {}", self.daemon_said());
                }
                self.crash();
            } else {
                assert_eq!(self.stop(), Some(0), "the daemon's exit code; it said: {}", self.daemon_said());
            }
        }
        // Whatever still runs with this directory in its command line or environment was started by this test: private
        // daemons, and clients and jobs where the daemon that knew them is gone.
        for pid in processes_with(&self.dir.path().display().to_string()) {
            send(pid, Signal::KILL);
        }
        // The groups of a daemon that was killed for good are this test's to remove.
        let patience = if std::thread::panicking() { Duration::from_secs(10) } else { crate::wait::PATIENCE };
        let left = within(patience, || {
            let jobs = self.job_groups();
            jobs.iter().for_each(|group| drop(fs::remove_dir(group)));
            self.groups().iter().for_each(|group| drop(fs::remove_dir(group)));
            self.groups().is_empty().then_some(())
        });
        // And so is its mark, which says nothing any more.
        if let Ok(instance) = fs::read_to_string(self.state().join("instance")) {
            let _ = fs::remove_file(format!("/run/pinfold/alive-{}", instance.trim()));
        }
        if !std::thread::panicking() {
            assert!(left.is_some(), "left in the kernel: {:?} {:?}", self.job_groups(), self.groups());
        }
    }
}

/// Sends a signal to a process by its number.
pub(crate) fn send(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process number");
    let _ = kill_process(pid, signal);
}

/// A directory in which daemons of several users find each other.
fn meeting_place(path: &Path) {
    fs::create_dir(path).expect("a directory for daemons");
    fs::set_permissions(path, PermissionsExt::from_mode(0o1777)).expect("open to all");
}

/// Takes pinfold's own variables out of a command's environment, in case the tests run as somebody's job.
fn scrub(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PINFOLD_") {
            command.env_remove(name);
        }
    }
}

/// Where the programs are that this host's user can execute: where they were built, or a copy of them.
fn programs(host: &Path, kind: Kind) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_pinfold")).parent().expect("a path to the program");
    for other in ["pinfoldd", "pinfold-slurm"].map(|name| built.join(name)) {
        assert!(
            other.is_file(),
            "{} is missing: build it first by `cargo build --workspace`",
            other.display()
        );
    }
    let passable = |dir: &Path| fs::metadata(dir).is_ok_and(|found| found.permissions().mode() & 0o001 != 0);
    if !kind.is_other_user() || built.ancestors().all(passable) {
        return built.to_owned();
    }
    let copies = host.join("bin");
    fs::create_dir(&copies).expect("a directory for the programs");
    for name in ["pinfold", "pinfoldd", "pinfold-slurm"] {
        copy_program(&built.join(name), &copies);
    }
    kind.give(&copies);
    copies
}

/// Copies a program into a directory, by a process of its own: what another test starts in the meantime must not hold
/// the copy open for writing, as it could not be executed then.
pub(crate) fn copy_program(program: &Path, into: &Path) {
    let copied = std::process::Command::new("cp").arg(program).arg(into).status().expect("cp");
    assert!(copied.success(), "{} into {}", program.display(), into.display());
}

/// The numbers of all processes that have `text` in their command line or environment.
pub(crate) fn processes_with(text: &str) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let read = |pid: u32, file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let has = |pid: u32, file| String::from_utf8_lossy(&read(pid, file)).contains(text);
    numbers.filter(|&pid| has(pid, "cmdline") || has(pid, "environ")).collect()
}

/// A field of `/proc/PID/status`; `None` when the process is gone.
pub(crate) fn status_field(pid: u32, field: &str) -> Option<String> {
    let file = File::open(format!("/proc/{pid}/status")).ok()?;
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    lines
        .filter_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(|rest| rest.trim().to_owned()))
        .next()
}

/// The process of a job that the others descend from. Not the lowest number: numbers begin anew at the kernel's
/// highest.
pub(crate) fn root_process(pids: &[u32]) -> Option<u32> {
    let parent = |pid: u32| status_field(pid, "PPid")?.parse::<u32>().ok();
    pids.iter().copied().find(|&pid| parent(pid).is_some_and(|parent| !pids.contains(&parent)))
}

/// All that a command says, which ends with this status.
#[track_caller]
pub(crate) fn said(host: &Host, args: &[&str], code: i32) -> String {
    let done = host.pinfold(args);
    assert_eq!(done.code, Some(code), "{args:?}: {done:?}");
    done.out + &done.err
}

/// Fails unless a text contains this.
#[track_caller]
pub(crate) fn has(text: &str, what: &str) {
    assert!(text.contains(what), "`{what}` in {text}");
}
