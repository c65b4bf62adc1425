//! Task-spooler as a peer: a server of our own, by its command `tsp`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// A task-spooler server of our own.
#[derive(Debug)]
pub(crate) struct Spooler {
    scratch: PathBuf,
}

impl Spooler {
    /// Starts a server with `slots` slots and its files in `scratch`.
    pub(crate) fn start(scratch: &Path, slots: usize) -> anyhow::Result<Self> {
        let spooler = Self { scratch: scratch.to_owned() };
        spooler.ask(&["-S", &slots.to_string()])?;
        Ok(spooler)
    }

    /// A `tsp` command for this server.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new("tsp");
        command.env("TS_SOCKET", self.scratch.join("tsp")).env("TMPDIR", &self.scratch);
        command.env("TS_MAXFINISHED", "100").stdin(Stdio::null());
        command
    }

    /// Queues a command and gives its number.
    pub(crate) fn queue(&self, command: &[&str]) -> anyhow::Result<String> {
        // -n: no output file; -f would wait.
        let mut words = vec!["-n"];
        words.extend(command);
        Ok(self.ask(&words)?.trim().to_owned())
    }

    /// Waits for job `number`. Its exit status is `tsp`'s and is not looked at.
    pub(crate) fn wait(&self, number: &str) -> anyhow::Result<()> {
        let mut command = self.command();
        command.args(["-w", number]).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().context("failed to run tsp -w").map(|_| ())
    }

    fn ask(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.command().args(arguments).output().context("failed to run tsp")?;
        if !output.status.success() {
            bail!("tsp {} ended with {}", arguments.join(" "), output.status);
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Spooler {
    fn drop(&mut self) {
        // Ends the server of this socket; nothing else can be done when it is already gone.
        let _answer = self.command().arg("-K").stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}
