//! A peer that is a script: it reports that it is ready, takes orders on its input, and reports the end of each. The end of
//! its input ends it and all its children.
//!
//! Owns the process. Absent here: the execution of an order (`tools/bench/peers`).

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// A script that was started and is ready.
#[derive(Debug)]
pub(crate) struct Ordered {
    name: &'static str,
    child: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The longest time for its end.
    patience: Duration,
}

impl Ordered {
    /// Starts `command` and waits until it prints `ready`.
    pub(crate) fn start(
        name: &'static str,
        mut command: Command,
        patience: Duration,
    ) -> anyhow::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("failed to run {name}"))?;
        let orders = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let mut started = Self { name, child, orders, answers, patience };
        started.hear("ready")?;
        Ok(started)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> Option<rustix::process::Pid> {
        rustix::process::Pid::from_raw(i32::try_from(self.child.id()).ok()?)
    }

    /// Sends an order, a line, and returns when it is done.
    pub(crate) fn order(&mut self, order: &str) -> anyhow::Result<()> {
        let name = self.name;
        let orders = self.orders.as_mut().with_context(|| format!("{name} was told to stop"))?;
        writeln!(orders, "{order}").with_context(|| format!("failed to give {name} its tasks"))?;
        self.hear("done")
    }

    fn hear(&mut self, want: &str) -> anyhow::Result<()> {
        let name = self.name;
        let mut line = String::new();
        while line.trim_end() != want {
            line.clear();
            // The script may print other lines as well.
            if self.answers.read_line(&mut line).with_context(|| format!("failed to hear {name}"))? == 0 {
                bail!("{name} ended before it was `{want}`");
            }
        }
        Ok(())
    }
}

impl Drop for Ordered {
    fn drop(&mut self) {
        // A script that ignores the end of its input is killed.
        drop(self.orders.take());
        let deadline = Instant::now() + self.patience;
        while Instant::now() < deadline {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
