//! Starts a private daemon if no daemon runs. Absent here: requests.

use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pinfold_proto::ExitCode;
use pinfold_sys::{inherited, paths, peer, spawn, user_scope};

use super::{Dial, daemon_program, inside_any};
use crate::failure::Failure;
use crate::occupied;

/// Time limit for a started daemon to be ready. Opening the store and probing the host take well under a second, but
/// a swapping machine is slow, and the guard of a killed daemon may hold the lock for half a minute.
const READY_MAX: Duration = Duration::from_secs(60);

/// How long to wait for a daemon that no known client started.
const NOT_EXPECTED: Duration = Duration::from_secs(2);

/// How long to wait for a daemon that held the state before starting another: the first may be about to end.
const START_AGAIN: Duration = Duration::from_secs(3);

/// Variables with a meaning only for the calling command: its loader, allocator, temporary directory and language.
/// [`inherited::OF_ONE_PROCESS`] has further variables.
const CALLERS_OWN: [&str; 10] = [
    "GLIBC_TUNABLES",
    "LANG",
    "LC_ALL",
    "LD_AUDIT",
    "LD_DEBUG",
    "LD_DEBUG_OUTPUT",
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "TMPDIR",
    "TZ",
];

/// The state of the daemon that made the started daemon give way.
enum Other {
    /// It listens here.
    There,
    /// It holds or held the state, and does not listen yet.
    Comes,
    /// It does not come.
    None,
}

impl Dial {
    /// Starts a private daemon and waits until it is ready. If another client does so at the same moment, a daemon
    /// finds the state directory locked and gives way; both clients then use the remaining daemon.
    pub(super) fn start_daemon(&self) -> Result<(), Failure> {
        let no = |message: String| Failure::new(ExitCode::NoDaemon, message);
        if is_hidden(&self.places.socket) {
            return Err(no(format!(
                "no daemon on {}: this is a job with a /tmp of its own (--private-tmp), in which the host's has no path; \
                 have the daemon's socket elsewhere (PINFOLD_SOCKET)",
                self.places.socket.display()
            )));
        }
        private_directory(&self.places.socket).map_err(no)?;
        let (state, began) = (self.state_to_start_on()?, Instant::now());
        loop {
            let (mut child, said) = self.launch_somewhere(&state).map_err(no)?;
            if said.trim() == "ready" {
                return Ok(());
            }
            let ended = child.wait().ok().and_then(|status| status.code());
            match self.other(&said, &state, began)? {
                Other::There => return Ok(()),
                Other::Comes => {}
                Other::None => return Err(self.gave_up(&said, ended)),
            }
        }
    }

    /// The failure of a started daemon, from its message and exit code.
    fn gave_up(&self, said: &str, code: Option<i32>) -> Failure {
        // A faulty configuration, usually the user's own file.
        let is_usage = code == Some(i32::from(ExitCode::Usage.code()));
        let bounds = inherited::bounds();
        let bounded = match bounds.is_empty() {
            true => String::new(),
            false => format!(" (bounds of this shell, which hold the daemon too: {})", bounds.join(", ")),
        };
        let text = format!(
            "no daemon on {} and the one started gave up: {}{bounded}",
            self.places.socket.display(),
            if said.trim().is_empty() { "it said nothing" } else { said.trim() }
        );
        Failure::without_daemon(if is_usage { ExitCode::Usage } else { ExitCode::NoDaemon }, text)
    }

    /// Waits for another daemon after the started daemon gave way with the message `said`. The command has waited
    /// since `began`.
    ///
    /// # Errors
    /// When the other daemon listens elsewhere.
    fn other(&self, said: &str, state: &Path, began: Instant) -> Result<Other, Failure> {
        let (own, asked) = (&self.places.socket, Instant::now());
        let is_occupied = said.contains(paths::OCCUPIED);
        loop {
            if UnixStream::connect(own).is_ok() {
                return Ok(Other::There);
            }
            let elsewhere = if is_occupied { occupied::elsewhere(own, state) } else { None };
            // The earlier daemon may need as long to be ready as a started daemon, or to replace its lost socket; or
            // it may have ended. A daemon that listens elsewhere does not come here; a noted socket may briefly be
            // the previous daemon's.
            let comes = is_occupied && elsewhere.as_ref().is_none_or(|other| !other.exists());
            let patience = if comes { START_AGAIN } else { NOT_EXPECTED };
            if asked.elapsed() < patience {
                std::thread::sleep(Duration::from_millis(10));
            } else if comes && began.elapsed() < READY_MAX {
                return Ok(Other::Comes);
            } else {
                return elsewhere.map_or(Ok(Other::None), |other| Err(occupied::failure(own, &other, state)));
            }
        }
    }

    /// The user's service manager gives a daemon a control group; without a service manager the daemon runs in the
    /// present group.
    fn launch_somewhere(&self, state: &Path) -> Result<(Child, String), String> {
        let in_scope = user_scope::words().and_then(|words| self.launch(&words, state).ok());
        match in_scope.filter(|(_, said)| !said.trim().is_empty()) {
            Some(launched) => Ok(launched),
            None => self.launch(&[], state),
        }
    }

    /// Starts a private daemon on this state, with the words `before` in front of its command line, and returns its
    /// message: empty if it ended.
    fn launch(&self, before: &[&str], state: &Path) -> Result<(Child, String), String> {
        let program = daemon_program();
        let (mut ready, signal) = io::pipe().map_err(|error| format!("failed to make a pipe: {error}"))?;
        let mut command = match before {
            [] => Command::new(&program),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(&program);
                command
            }
        };
        command
            .args(["--private", "--ready-fd", "0"])
            .arg("--socket")
            .arg(&self.places.socket)
            .arg("--state-dir")
            .arg(state)
            .stdin(signal)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/");
        for name in CALLERS_OWN.iter().chain(&inherited::OF_ONE_PROCESS) {
            command.env_remove(name);
        }
        let mut child = command.spawn().map_err(|error| {
            let socket = self.places.socket.display();
            format!("no daemon on {socket} and none could be started: {}", spawn::refusal(&program, &error))
        })?;
        drop(command);
        let said =
            read_until(&mut ready, READY_MAX).map_err(|error| format!("the started daemon: {error}"))?;
        if said.is_empty() && !before.is_empty() {
            // The daemon or its launcher has ended.
            let _ = child.wait();
        }
        Ok((child, said))
    }
}

/// Whether this process runs in a job with a private `/tmp` that hides the socket: a daemon started there would serve
/// only that job, unknown to the host's daemon.
fn is_hidden(socket: &Path) -> bool {
    let hides = ["/tmp", "/var/tmp"].iter().any(|place| socket.starts_with(place));
    hides && inside_any() && socket.parent().is_some_and(|directory| !directory.exists())
}

/// Makes the socket's directory if missing, for this user alone, and refuses a directory below `/tmp` planted by
/// another user.
fn private_directory(socket: &Path) -> Result<(), String> {
    let Some(directory) = socket.parent().filter(|dir| !dir.as_os_str().is_empty()) else { return Ok(()) };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| {
        let unusable = paths::unusable(peer::own_uid(), |name| std::env::var_os(name));
        format!(
            "failed to make the directory {}: {error} ({unusable}); set PINFOLD_SOCKET to a path in a directory of yours",
            directory.display()
        )
    })?;
    let found = std::fs::symlink_metadata(directory)
        .map_err(|error| format!("failed to look at {}: {error}", directory.display()))?;
    if directory.starts_with("/tmp/") && (found.uid() != peer::own_uid() || found.is_symlink()) {
        return Err(format!(
            "{} belongs to someone else; set PINFOLD_SOCKET to a place of your own",
            directory.display()
        ));
    }
    Ok(())
}

/// Reads to the end or the first line's end; fails after `limit`.
fn read_until(from: &mut io::PipeReader, limit: Duration) -> io::Result<String> {
    let deadline = Instant::now() + limit;
    let mut said = Vec::new();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if !pinfold_sys::ready::readable(from, Some(left))? {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "not ready in time"));
        }
        let mut buffer = [0; 512];
        let count = from.read(&mut buffer)?;
        said.extend_from_slice(&buffer[..count]);
        if count == 0 || said.contains(&b'\n') {
            return Ok(String::from_utf8_lossy(&said).into_owned());
        }
    }
}
