//! The site's own programs, which stand around jobs: whose they must be, and how one is called, heard and ended in time.
//!
//! A program that the daemon starts with its own rights must be nobody else's to write: neither the file nor a directory
//! on the way to it. Each call stands for itself; its caller's thread waits for it, and the kernel ends it when that
//! thread does. Absent here: which programs there are, when they are called, and what their words mean.

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

/// How much of what a program says is kept, of each of its two streams.
const KEPT_BYTES: usize = 64 * 1024;

/// How much of its words goes into an error.
const WORDS_MAX_CHARS: usize = 500;

/// The search path of a program of the site's.
const SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A call of one program.
#[derive(Debug, Clone)]
pub struct Call {
    /// The file.
    pub program: PathBuf,
    /// Its arguments, its own name not among them.
    pub arguments: Vec<String>,
    /// Its environment, beside `PATH`; nothing is inherited.
    pub variables: Vec<(String, String)>,
    /// What it can read on its standard input.
    pub input: Vec<u8>,
    /// How long it may take.
    pub limit: Duration,
}

/// Why a program of the site's was not run, or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// It is somebody else's, or others can write to it, or it is no program.
    #[error("{} is not run: {} {why}", .program.display(), .at.display())]
    Untrusted {
        /// The file as it was named.
        program: PathBuf,
        /// What is wrong: the file, or a directory on the way.
        at: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It cannot be found or started: it did not run.
    #[error("failed to {operation} {}", .program.display())]
    Failed {
        /// What was done.
        operation: &'static str,
        /// The file.
        program: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// It was started, and killed as it could not be waited for.
    #[error("failed to wait for {}", .program.display())]
    Unheard {
        /// The file.
        program: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// It says no.
    #[error("{} {how}{said}", .program.display())]
    Refused {
        /// The file.
        program: PathBuf,
        /// How it ended.
        how: String,
        /// What it said, after a colon; empty: nothing.
        said: String,
    },
    /// It took too long and was killed.
    #[error("{} did not end within {limit:?}{said}", .program.display())]
    TooLong {
        /// The file.
        program: PathBuf,
        /// How long it had.
        limit: Duration,
        /// What it said until then.
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
/// Unless it is an executable file that only root and this user can write, as all directories on the way to it are; in a
/// directory that all may write to but where nobody can rename what is another's (`/tmp`), it must be one of these two's
/// that lies there.
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

/// What keeps a file or directory from being trusted.
fn fault(found: &Metadata) -> Option<&'static str> {
    let (owner, mode) = (found.uid(), found.mode());
    let is_ours = owner == 0 || owner == peer::own_uid() || peer::is_unmapped(owner);
    // Others may write into `/tmp`, but not rename what is not theirs there.
    let sticky = found.is_dir() && mode & 0o1000 != 0;
    match () {
        () if !is_ours => Some("belongs to another user"),
        () if mode & 0o022 != 0 && !sticky => Some("can be written by others"),
        () => None,
    }
}

/// Calls a program and waits for its end; gives what it wrote to its standard output.
///
/// # Errors
/// When it is not [`trusted`], cannot be started, ends in any other way than with exit code 0, or not in time. Whatever it
/// started in its process group is killed with it then.
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
            // Nobody would wait for it, and the next daemon calls it again.
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
        // A wait that was interrupted is a short one.
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

/// Takes what a stream has now, and keeps the beginning of it; `false`: that was its end.
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

/// What a program said, for people: its standard error, or else its output, in one line and not too long.
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
