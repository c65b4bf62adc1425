//! HyperQueue as a peer, by its Python interface: the wheel brings server and worker, and no command.
//!
//! Owns the process that runs `bench/peers/hq.py`. Absent here: installing it (`scripts/setup.sh --bench`).

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};

const SCRIPT: &str = include_str!("../peers/hq.py");

/// How the lines of a file become tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Each is a command of the shell.
    Shell,
    /// Each is a program and its arguments, between blanks.
    Plain,
}

/// A server with one worker.
#[derive(Debug)]
pub(crate) struct HyperQueue {
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl HyperQueue {
    /// A Python that knows HyperQueue: that of the peers' environment beside the build, or the system's.
    pub(crate) fn python() -> Option<PathBuf> {
        let own = std::env::current_exe().ok()?;
        let peers = own.parent()?.parent()?.join("peers/bin/python");
        [peers, PathBuf::from("python3")].into_iter().find(|python| {
            let mut command = Command::new(python);
            command.args(["-c", "import hyperqueue"]).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        })
    }

    /// Its version.
    pub(crate) fn version() -> Option<String> {
        let show = "import importlib.metadata as m; print(m.version('hyperqueue'))";
        let output = Command::new(Self::python()?).args(["-c", show]).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
    }

    /// The process that is server, worker and client in one.
    pub(crate) fn pid(&self) -> Option<rustix::process::Pid> {
        rustix::process::Pid::from_raw(i32::try_from(self.child.id()).ok()?)
    }

    /// Starts a server whose files lie in `scratch`, and waits until its worker, of as many cores as `slots`, is up.
    pub(crate) fn start(scratch: &Path, slots: usize) -> anyhow::Result<Self> {
        let python = Self::python().context("HyperQueue is not installed")?;
        let directory = tempfile::Builder::new().prefix("hq-").tempdir_in(scratch)?.keep();
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT, &slots.to_string()]).arg(&directory).current_dir(&directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("failed to run HyperQueue")?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let mut started = Self { child, orders, answers };
        started.hear("ready")?;
        Ok(started)
    }

    /// Runs the lines of `file` and returns when all have ended.
    pub(crate) fn run(&mut self, file: &Path, lines: Lines) -> anyhow::Result<()> {
        let how = match lines {
            Lines::Shell => "shell",
            Lines::Plain => "plain",
        };
        let orders = self.orders.as_mut().context("HyperQueue was told to stop")?;
        writeln!(orders, "{how} {}", file.display()).context("failed to give HyperQueue its tasks")?;
        self.hear("done")
    }

    fn hear(&mut self, want: &str) -> anyhow::Result<()> {
        let mut line = String::new();
        while line.trim_end() != want {
            line.clear();
            // The server prints a table about itself as well.
            if self.answers.read_line(&mut line).context("failed to hear HyperQueue")? == 0 {
                bail!("HyperQueue ended before it was `{want}`");
            }
        }
        Ok(())
    }
}

impl Drop for HyperQueue {
    fn drop(&mut self) {
        // The end of its input ends it and with it server and worker; one that does not heed that is killed.
        drop(self.orders.take());
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while std::time::Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
