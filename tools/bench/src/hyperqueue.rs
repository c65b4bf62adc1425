//! HyperQueue as a peer, by its Python interface: the wheel brings server and worker, and no command.
//!
//! Owns the process that runs `tools/bench/peers/hq.py`. Absent here: installing it (`scripts/setup.sh --bench`).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use crate::ordered::Ordered;

const SCRIPT: &str = include_str!("../peers/hq.py");

/// The way from a file's lines to tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Each is a command of the shell.
    Shell,
    /// Each is a program and its arguments, between blanks.
    Plain,
}

/// A server with a worker.
#[derive(Debug)]
pub(crate) struct HyperQueue(Ordered);

impl HyperQueue {
    /// A Python with HyperQueue: from the peers' environment beside the build, or the system's.
    pub(crate) fn python() -> Option<PathBuf> {
        let own = std::env::current_exe().ok()?;
        let peers = own.parent()?.parent()?.join("peers/bin/python");
        [peers, PathBuf::from("python3")].into_iter().find(|python| {
            let mut command = Command::new(python);
            command.args(["-c", "import hyperqueue"]).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        })
    }

    pub(crate) fn version() -> Option<String> {
        let show = "import importlib.metadata as m; print(m.version('hyperqueue'))";
        let output = Command::new(Self::python()?).args(["-c", show]).output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).lines().next()?.to_owned())
    }

    /// The process that is server, worker and client together.
    pub(crate) fn pid(&self) -> Option<rustix::process::Pid> {
        self.0.pid()
    }

    /// Starts a server with its files in `scratch`, and waits until its worker, of as many cores as `slots`, is up.
    pub(crate) fn start(scratch: &Path, slots: usize) -> anyhow::Result<Self> {
        let python = Self::python().context("HyperQueue is not installed")?;
        let directory = tempfile::Builder::new().prefix("hq-").tempdir_in(scratch)?.keep();
        let mut command = Command::new(python);
        command.args(["-c", SCRIPT, &slots.to_string()]).arg(&directory).current_dir(&directory);
        command.stderr(Stdio::null());
        Ordered::start("HyperQueue", command, Duration::from_secs(10)).map(Self)
    }

    /// Runs the lines of `file` and returns when all have ended.
    pub(crate) fn run(&mut self, file: &Path, lines: Lines) -> anyhow::Result<()> {
        let how = match lines {
            Lines::Shell => "shell",
            Lines::Plain => "plain",
        };
        self.0.order(&format!("{how} {}", file.display()))
    }
}
