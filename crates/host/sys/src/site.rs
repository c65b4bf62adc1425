//! Hooks, the site's own programs around jobs: the required owner, the call, the output, and the time limit.
//!
//! A program that the daemon starts with its own rights must not be writable for other users: neither the file nor a
//! directory on the way to it. Each call stands for itself; its caller's thread waits for it, and the kernel kills the
//! program when that thread ends. Absent here: the list of hooks, the moments of their calls, and the meaning of their
//! output.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, OFlags};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::{fork, peer};

/// The most bytes that are kept of each of a program's two streams.
const KEPT_BYTES: usize = 64 * 1024;

/// The most characters of its output in an error.
const WORDS_MAX_CHARS: usize = 500;

/// The search path of a program of the site's.
const SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A call of a program.
#[derive(Debug, Clone)]
pub struct Call {
    /// The file.
    pub program: PathBuf,
    /// Its arguments, its own name not among them.
    pub arguments: Vec<String>,
    /// Its environment, beside `PATH`; nothing is inherited.
    pub variables: Vec<(String, String)>,
    /// The bytes on its standard input.
    pub input: Vec<u8>,
    /// The time limit.
    pub limit: Duration,
}

/// Why a program of the site's was not run, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The program belongs to another user, is writable for others, or is no program.
    #[error("{} is not run: {} {why}", .program.display(), .at.display())]
    Untrusted {
        /// The file as it was named.
        program: PathBuf,
        /// The untrusted file or directory on the way.
        at: PathBuf,
        /// Its defect.
        why: &'static str,
    },
    /// The program cannot be found or started: it did not run.
    #[error("failed to {operation} {}", .program.display())]
    Failed {
        /// The operation.
        operation: &'static str,
        /// The file.
        program: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The program was started, and killed as waiting for it failed.
    #[error("failed to wait for {}", .program.display())]
    Unheard {
        /// The file.
        program: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The program refused.
    #[error("{} {how}{said}", .program.display())]
    Refused {
        /// The file.
        program: PathBuf,
        /// Its end.
        how: String,
        /// Its output, after a colon; empty: none.
        said: String,
    },
    /// The program exceeded the time limit and was killed.
    #[error("{} did not end within {limit:?}{said}", .program.display())]
    TooLong {
        /// The file.
        program: PathBuf,
        /// The time limit.
        limit: Duration,
        /// Its output until then.
        said: String,
    },
}

impl SiteError {
    /// Whether the program did not run at all, so that the call is still to be made.
    #[must_use]
    pub fn never_ran(&self) -> bool {
        matches!(self, Self::Untrusted { .. } | Self::Failed { .. })
    }
}

/// The file that is executed for `program`, links followed.
///
/// # Errors
/// Unless it is an executable file that only root and this user can write, with directories on the way that only they can
/// write; in a directory that all may write to, but without renaming others' files (`/tmp`), the next entry must belong to
/// root or this user.
pub fn trusted(program: &Path) -> Result<PathBuf, SiteError> {
    let wrong = |at: &Path, why| SiteError::Untrusted { program: program.to_owned(), at: at.to_owned(), why };
    let failed = |source| SiteError::Failed { operation: "look at", program: program.to_owned(), source };
    if !program.is_absolute() {
        return Err(wrong(program, "is no absolute path"));
    }
    let path = program.canonicalize().map_err(failed)?;
    let found = path.metadata().map_err(failed)?;
    if !found.is_file() || found.permissions().mode() & 0o111 == 0 {
        return Err(wrong(&path, "is not executable"));
    }
    for at in path.ancestors() {
        let found = at.symlink_metadata().map_err(failed)?;
        if let Some(why) = fault(&found) {
            return Err(wrong(at, why));
        }
    }
    Ok(path)
}

/// The reason not to trust a file or directory.
fn fault(found: &Metadata) -> Option<&'static str> {
    let (owner, mode) = (found.uid(), found.mode());
    let is_ours = owner == 0 || owner == peer::own_uid() || peer::is_unmapped(owner);
    // Other users may write into `/tmp`, but not rename files of others there.
    let sticky = found.is_dir() && mode & 0o1000 != 0;
    match () {
        () if !is_ours => Some("belongs to another user"),
        () if mode & 0o022 != 0 && !sticky => Some("can be written by others"),
        () => None,
    }
}

/// Calls a program and waits for its end; returns its standard output.
///
/// # Errors
/// When it is not [`trusted`], cannot be started, ends with another exit code than 0 or by a signal, or not in time. Then
/// its process group is killed too.
pub fn run(call: &Call) -> Result<String, SiteError> {
    let program = trusted(&call.program)?;
    let failed =
        |operation| move |source| SiteError::Failed { operation, program: call.program.clone(), source };
    let unheard = |source| SiteError::Unheard { program: call.program.clone(), source };
    let (mut out, to_out) = io::pipe().map_err(failed("hear"))?;
    let (mut err, to_err) = io::pipe().map_err(failed("hear"))?;
    let mut child = start(call, &program, to_out.into(), to_err.into()).map_err(failed("start"))?;
    let deadline = Instant::now() + call.limit;
    let (mut said, mut words) = (Vec::new(), Vec::new());
    let ended = until_ended(&mut child, deadline, (&mut out, &mut said), (&mut err, &mut words));
    let late = match ended {
        Ok(in_time) => !in_time,
        Err(source) => {
            end(&mut child);
            return Err(unheard(source));
        }
    };
    if late {
        end(&mut child);
        let said = in_words(&words, &said);
        return Err(SiteError::TooLong { program: call.program.clone(), limit: call.limit, said });
    }
    let status = child.wait().map_err(unheard)?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&said).into_owned());
    }
    let said = in_words(&words, &said);
    Err(SiteError::Refused { program: call.program.clone(), how: how(status), said })
}

fn start(call: &Call, program: &Path, out: OwnedFd, err: OwnedFd) -> io::Result<Child> {
    let mut input = File::from(rustix::fs::memfd_create("pinfold-site", MemfdFlags::CLOEXEC)?);
    input.write_all(&call.input)?;
    input.rewind()?;
    let mut command = Command::new(program);
    command.args(&call.arguments).env_clear().env("PATH", SEARCH);
    command.envs(call.variables.iter().map(|(name, value)| (name, value)));
    command.stdin(input).stdout(Stdio::from(out)).stderr(Stdio::from(err)).current_dir("/").process_group(0);
    #[expect(unsafe_code, reason = "what a child is to do before it executes has no safe form")]
    // SAFETY: two system calls that take numbers; neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(|| {
            // Without this daemon no process would wait for it, and the next daemon calls it again.
            fork::end_with_parent();
            let _ = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
            Ok(())
        });
    }
    command.spawn()
}

/// Hears a child until it ends; `false`: the deadline came first.
fn until_ended(
    child: &mut Child,
    deadline: Instant,
    (out, said): (&mut io::PipeReader, &mut Vec<u8>),
    (err, words): (&mut io::PipeReader, &mut Vec<u8>),
) -> io::Result<bool> {
    let pid = Pid::from_child(child);
    let ends = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    for stream in [out.as_fd(), err.as_fd()] {
        rustix::fs::fcntl_setfl(stream, OFlags::NONBLOCK)?;
    }
    // A stream at its end would be ready for ever.
    let (mut out_open, mut err_open) = (true, true);
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds = vec![PollFd::new(&ends, PollFlags::IN)];
        fds.extend(out_open.then(|| PollFd::from_borrowed_fd(out.as_fd(), PollFlags::IN)));
        fds.extend(err_open.then(|| PollFd::from_borrowed_fd(err.as_fd(), PollFlags::IN)));
        // An interrupted wait counts as a short wait.
        let _ = poll(&mut fds, Timespec::try_from(left).ok().as_ref());
        let ended = fds[0].revents().contains(PollFlags::IN);
        drop(fds);
        out_open = out_open && take(out, said);
        err_open = err_open && take(err, words);
        if ended || left.is_zero() {
            return Ok(ended);
        }
    }
}

/// Reads the present bytes of a stream, and keeps the beginning; `false`: the stream is at its end.
fn take(from: &mut impl Read, into: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => {
                let room = KEPT_BYTES - into.len();
                into.extend_from_slice(&buffer[..count.min(room)]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

/// Kills a child with its process group, and waits for it.
fn end(child: &mut Child) {
    // Not reaped yet, so its number is its own.
    let _ = rustix::process::kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
}

fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => {
            let name = crate::signals::name(signal).map_or_else(|| signal.to_string(), str::to_owned);
            format!("was ended by signal {name}")
        }
        (None, None) => "ended".to_owned(),
    }
}

/// A program's output for people: its standard error, or else its standard output, in one bounded line.
fn in_words(err: &[u8], out: &[u8]) -> String {
    let text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let words: Vec<&str> = text.split_whitespace().collect();
        let plain = words.join(" ").chars().filter(|sign| !sign.is_control()).collect::<String>();
        plain.chars().take(WORDS_MAX_CHARS).collect::<String>()
    };
    let said = Some(text(err)).filter(|text| !text.is_empty()).unwrap_or_else(|| text(out));
    if said.is_empty() { said } else { format!(": {said}") }
}

#[cfg(test)]
mod tests;
