//! Commands as a test runs them: output into files, so that nobody who holds them open is waited for, and an end
//! within a deadline.

use std::fs::{self, File};
use std::io::{PipeReader, PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use crate::wait::PATIENCE;

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Done {
    /// Its exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Its standard output, with what is not UTF-8 replaced.
    pub out: String,
    /// Its standard error.
    pub err: String,
    /// Its standard output, byte by byte.
    pub raw: Vec<u8>,
}

impl Done {
    /// It ended with this status; fails with all that it said.
    #[track_caller]
    pub(crate) fn ended_with(&self, status: i32) {
        assert_eq!(self.code, Some(status), "{self:?}");
    }
}

/// A command that runs. Dropped, it is killed.
pub(crate) struct Running {
    child: Child,
    said: PathBuf,
}

impl Running {
    /// Starts a command whose output goes into two files beside `said`.
    pub(crate) fn spawn(mut command: Command, said: &Path) -> Self {
        let file = |ending| File::create(said.with_extension(ending)).expect("a file for the output");
        command.stdout(file("out")).stderr(file("err"));
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Self { child, said: said.to_owned() }
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        crate::host::send(self.pid(), signal);
    }

    /// The descriptor to feed it by, when its input is a pipe.
    pub(crate) fn input(&mut self) -> std::process::ChildStdin {
        self.child.stdin.take().expect("its input is a pipe")
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn wait(mut self) -> Done {
        match ended_within(&mut self.child, PATIENCE) {
            Some(status) => self.done(status),
            None => {
                panic!("{} does not end; it said {:?} {:?}", self.pid(), self.said("out"), self.said("err"))
            }
        }
    }

    /// Waits for its end, but not for long.
    pub(crate) fn wait_at_most(mut self, limit: Duration) -> Option<Done> {
        ended_within(&mut self.child, limit).map(|status| self.done(status))
    }

    /// Whether it still runs.
    pub(crate) fn runs(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// What it has said so far, `out` or `err`.
    pub(crate) fn said(&self, stream: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.said.with_extension(stream)).unwrap_or_default()).into_owned()
    }

    fn done(&self, status: ExitStatus) -> Done {
        let raw = fs::read(self.said.with_extension("out")).expect("its output");
        Done { code: status.code(), out: self.said("out"), err: self.said("err"), raw }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A child that is killed when the test is over, however that ends.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A pipe that takes nothing more until it is read: whoever writes to it is held there.
pub(crate) fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let flags = fcntl_getfl(&writer).expect("its flags");
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("its flags");
    // Whole pages, and then what is left of the last.
    for size in [4096, 1] {
        while writer.write(&[b'.'; 4096][..size]).is_ok() {}
    }
    fcntl_setfl(&writer, flags).expect("its flags");
    (reader, writer)
}

/// Waits for a child's end, at most so long.
pub(crate) fn ended_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process number");
    if let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) {
        let limit = Timespec::try_from(limit).expect("a bounded wait");
        let _ = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&limit));
    }
    child.try_wait().expect("a child")
}
