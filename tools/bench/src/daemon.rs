//! A `pinfoldd` of our own for a measurement: private socket, private state directory, stopped afterwards.
//!
//! Owns the child process. Never contacts an existing daemon.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use pinfold_proto::view::{DoctorView, LoopView};
use pinfold_proto::wire::{self, Decoder, REPLY_MAX_BYTES, Reply, Request, WIRE_VERSION};
use rustix::process::{Pid, Signal, kill_process};

/// The longest time for a daemon to answer, and to stop.
const PATIENCE: Duration = Duration::from_secs(20);

/// The two binaries under test.
#[derive(Debug, Clone)]
pub(crate) struct Binaries {
    /// The command line.
    pub(crate) pinfold: PathBuf,
    /// The daemon.
    pub(crate) pinfoldd: PathBuf,
}

impl Binaries {
    /// The binaries in `directory`, or else beside this program, or `None` when they are not built.
    pub(crate) fn find(directory: Option<&Path>) -> Option<Self> {
        let own = std::env::current_exe().ok()?;
        let directory = directory.or(own.parent())?;
        let found = Self { pinfold: directory.join("pinfold"), pinfoldd: directory.join("pinfoldd") };
        (found.pinfold.is_file() && found.pinfoldd.is_file()).then_some(found)
    }
}

/// A running daemon.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Option<Child>,
    pinfold: PathBuf,
    socket: PathBuf,
    state: PathBuf,
    log: PathBuf,
}

impl Daemon {
    /// Starts a daemon with its files below `scratch`, except a given state directory, and waits until it answers.
    pub(crate) fn start(
        binaries: &Binaries,
        scratch: &Path,
        state: Option<&Path>,
        settings: &[String],
    ) -> anyhow::Result<Self> {
        let home = tempfile::Builder::new().prefix("daemon-").tempdir_in(scratch)?.keep();
        let (socket, log) = (home.join("socket"), home.join("log"));
        let state = state.map_or_else(|| home.join("state"), Path::to_owned);
        fs::create_dir_all(&state).with_context(|| format!("failed to create {}", state.display()))?;
        let stream = File::create(&log).with_context(|| format!("failed to create {}", log.display()))?;
        let mut command = Command::new(&binaries.pinfoldd);
        command.arg("--socket").arg(&socket).arg("--state-dir").arg(&state);
        for setting in settings {
            command.arg("--set").arg(setting);
        }
        // In a group of its own: an interrupt typed at the terminal must not end the daemon before its jobs.
        command.stdin(Stdio::null()).stdout(stream.try_clone()?).stderr(stream).process_group(0);
        // A line for each job that was frozen for memory.
        command.env("PINFOLD_LOG", "warn,pinfoldd::witness=debug");
        let child =
            command.spawn().with_context(|| format!("failed to start {}", binaries.pinfoldd.display()))?;
        let mut daemon = Self { child: Some(child), pinfold: binaries.pinfold.clone(), socket, state, log };
        daemon.await_answer()?;
        Ok(daemon)
    }

    /// A `pinfold` command that talks to this daemon and to no other.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.pinfold);
        command.env("PINFOLD_SOCKET", &self.socket).arg("--no-autostart");
        command
    }

    /// The daemon's pid.
    pub(crate) fn pid(&self) -> Option<i32> {
        i32::try_from(self.child.as_ref()?.id()).ok()
    }

    /// The command line of the same build.
    pub(crate) fn program(&self) -> &Path {
        &self.pinfold
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Lets other users reach its socket, whose directory is private otherwise.
    pub(crate) fn open_to_all(&self) -> anyhow::Result<()> {
        let home = self.socket.parent().context("the socket lies in a directory")?;
        fs::set_permissions(home, fs::Permissions::from_mode(0o755))
            .with_context(|| format!("failed to open {} to all", home.display()))
    }

    /// The durations of its loop's turns, as it reports them.
    pub(crate) fn turns(&self) -> anyhow::Result<LoopView> {
        let output = self.command().args(["doctor", "--json"]).output().context("failed to ask doctor")?;
        let view: DoctorView = serde_json::from_slice(&output.stdout).context("doctor's answer")?;
        view.turns.context("doctor says nothing of the loop")
    }

    /// A greeted connection of this user's.
    pub(crate) fn wire(&self) -> anyhow::Result<Wire> {
        let stream = UnixStream::connect(&self.socket).context("failed to connect to the daemon")?;
        let mut wire = Wire { stream, decoder: Decoder::new(REPLY_MAX_BYTES) };
        wire.ask(&Request::Hello { version: WIRE_VERSION })?;
        Ok(wire)
    }

    /// The jobs by `status`; empty on failure.
    fn jobs(&self) -> Vec<serde_json::Value> {
        let Ok(output) = self.command().args(["status", "--json"]).stderr(Stdio::null()).output() else {
            return Vec::new();
        };
        let mut view: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        match view["jobs"].take() {
            serde_json::Value::Array(jobs) => jobs,
            _ => Vec::new(),
        }
    }

    /// The number of jobs in a state, by `status`.
    pub(crate) fn count(&self, state: &str) -> usize {
        self.jobs().iter().filter(|job| job["state"] == state).count()
    }

    /// Waits until `count` jobs run; an error when they do not after a while.
    pub(crate) fn await_so_many(&self, count: usize) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let running = self.count("running");
            if running >= count {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{running} of {count} jobs run");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Cancels all jobs that have not ended. Best effort, at the end of an abandoned measurement.
    pub(crate) fn cancel_all(&self) {
        for job in self.jobs() {
            if job["state"] != "exited" {
                let number = job["job"].to_string();
                let mut command = self.command();
                command
                    .args(["cancel", "--signal", "KILL", &number])
                    .stdout(Stdio::null())
                    .stderr(Stdio::null());
                let _answer = command.status();
            }
        }
    }

    /// The freezes of jobs for memory.
    pub(crate) fn freezes(&self) -> Vec<Freeze> {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter_map(freeze).collect()
    }

    /// Asks the daemon to stop and waits for it. Returns the cgroups that it left behind; an error when it had to be
    /// killed.
    pub(crate) fn stop(mut self) -> anyhow::Result<Vec<PathBuf>> {
        let Some(mut child) = self.child.take() else { return Ok(Vec::new()) };
        let instance = fs::read_to_string(self.state.join("instance")).unwrap_or_default();
        signal(&child, Signal::TERM);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = child.try_wait().context("failed to wait for pinfoldd")? {
                if status.success() {
                    // Without a name there is nothing to look for, and the root itself is not left behind.
                    let instance = instance.trim();
                    return Ok(if instance.is_empty() { Vec::new() } else { groups(instance) });
                }
                bail!("pinfoldd ended with {status}: {}", self.last_words());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        signal(&child, Signal::KILL);
        child.wait().context("failed to wait for pinfoldd")?;
        bail!("pinfoldd did not stop within {} s and was killed: {}", PATIENCE.as_secs(), self.last_words())
    }

    fn await_answer(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if UnixStream::connect(&self.socket).is_ok() {
                return Ok(());
            }
            let child = self.child.as_mut().expect("a daemon that starts has a child");
            if let Some(status) = child.try_wait().context("failed to wait for pinfoldd")? {
                bail!("pinfoldd ended at once with {status}: {}", self.last_words());
            }
            if Instant::now() > deadline {
                bail!("pinfoldd did not answer within {} s: {}", PATIENCE.as_secs(), self.last_words());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The end of the daemon's log, for messages.
    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(3)..].join(" / ")
    }
}

/// A connection with a request at a time, without a process for each.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: UnixStream,
    decoder: Decoder,
}

impl Wire {
    /// The smallest question there is.
    pub(crate) fn where_is_it(&mut self) -> anyhow::Result<()> {
        self.ask(&Request::Where).map(drop)
    }

    fn ask(&mut self, request: &Request) -> anyhow::Result<Reply> {
        let mut frame = Vec::new();
        wire::encode(request, &mut frame)?;
        self.stream.write_all(&frame).context("failed to ask the daemon")?;
        let mut buffer = [0; 16 * 1024];
        loop {
            if let Some(reply) = self.decoder.take()? {
                return Ok(reply);
            }
            let count = self.stream.read(&mut buffer).context("failed to hear the daemon")?;
            ensure!(count > 0, "the daemon closed the connection");
            self.decoder.push(&buffer[..count]);
        }
    }
}

impl Drop for Daemon {
    /// Only on the way out of an error: `stop` has taken the child otherwise.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            signal(&child, Signal::KILL);
            let _gone = child.wait();
        }
    }
}

/// A freeze for memory, from the detection of the shortage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Freeze {
    /// Until the job stood still, in microseconds.
    pub(crate) took_us: u64,
    /// Until the kernel was asked for it, in microseconds; the rest is the kernel's.
    pub(crate) asked_us: u64,
}

/// The figures in a log line about a freeze.
fn freeze(line: &str) -> Option<Freeze> {
    let figure = |name: &str| {
        let (_, rest) = line.split_once(name)?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    Some(Freeze { took_us: figure("latency_us=")?, asked_us: figure("asked_us=")? })
}

fn signal(child: &Child, signal: Signal) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // The child is not reaped yet, so its pid is still its own; a failure means that it has just ended.
        let _answer = kill_process(pid, signal);
    }
}

/// The groups of `instance` in every cgroup hierarchy: after the daemon has stopped there should be none.
fn groups(instance: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let mut tops = vec![root.to_owned()];
    tops.extend(fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path()));
    tops.sort();
    let groups = tops.iter().map(|top| top.join("pinfold").join(instance));
    groups.filter(|group| group.is_dir()).collect()
}
