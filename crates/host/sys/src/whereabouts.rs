//! The state directory of a socket's daemon, noted beside the socket as long as that matters: while the daemon lives,
//! after it was killed, and after an orderly end with jobs left. A daemon started on another state would know none of
//! the jobs. And the socket of a state's daemon, noted with its process in the state's lock.
//!
//! Absent here: the consequences (the client's and the daemon's rules).

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::peer;

/// No path is longer, and the first line is short.
const LENGTH_MAX: u64 = 8192;

/// The first line of a note of a private daemon, and of any other.
const PRIVATE: &[u8] = b"private";
const STARTED_BY_HAND: &[u8] = b"other";

/// The note about a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whereabouts {
    /// The directory that it keeps its state in.
    pub state: PathBuf,
    /// Whether a command started it, so that the next command may start it again.
    pub private: bool,
    /// The daemon's user: this user, or root.
    pub uid: u32,
}

/// The file beside a socket.
#[must_use]
pub fn file(socket: &Path) -> PathBuf {
    beside(socket, ".daemon")
}

fn beside(socket: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = socket.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Notes where the daemon that listens on `socket` keeps its state.
///
/// # Errors
/// As the file system refuses.
pub fn note(socket: &Path, state: &Path, private: bool) -> io::Result<()> {
    let new = beside(socket, &format!(".daemon.{}", std::process::id()));
    // Other users may write into the directory, as into `/tmp`: no existing file is opened.
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            std::fs::remove_file(&new)?;
            OpenOptions::new().write(true).create_new(true).mode(0o644).open(&new)?
        }
        opened => opened?,
    };
    let first = if private { PRIVATE } else { STARTED_BY_HAND };
    let text = [first, b"\n", state.as_os_str().as_bytes(), b"\n"].concat();
    // Clients of other users read it to name the state's place.
    let written = file
        .write_all(&text)
        .and_then(|()| file.set_permissions(PermissionsExt::from_mode(0o644)))
        .and_then(|()| std::fs::rename(&new, self::file(socket)));
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
    written
}

/// The note beside a socket, if this user or root wrote it; other users could write anything.
#[must_use]
pub fn noted(socket: &Path) -> Option<Whereabouts> {
    let (uid, text) = trusted(&file(socket))?;
    parse(&text).map(|(private, state)| Whereabouts { state, private, uid })
}

/// A file's owner and text, if this user or root owns it.
fn trusted(path: &Path) -> Option<(u32, Vec<u8>)> {
    // Neither a link is followed nor a pipe waited for.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let found = file.metadata().ok()?;
    let uid = found.uid();
    let trusted = uid == 0 || uid == peer::own_uid() || peer::is_unmapped(uid);
    if !found.is_file() || !trusted || found.mode() & 0o022 != 0 {
        return None;
    }
    Some((uid, read(file)?))
}

/// The lock of a state directory.
#[must_use]
pub fn lock(state: &Path) -> PathBuf {
    state.join("lock")
}

/// A daemon's text in its lock: its process, for people and for a waiting daemon, and its socket.
#[must_use]
pub fn signature(process: u32, socket: &Path) -> Vec<u8> {
    let socket = std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned());
    [process.to_string().as_bytes(), b"\n", socket.as_os_str().as_bytes(), b"\n"].concat()
}

/// The socket of the present or last daemon with the lock of this state, if this user or root wrote it. `None` also for
/// a note with a process alone.
#[must_use]
pub fn listens(state: &Path) -> Option<PathBuf> {
    let (_, text) = trusted(&lock(state))?;
    let split = text.iter().position(|&byte| byte == b'\n')?;
    let socket = PathBuf::from(OsString::from_vec(text[split + 1..].strip_suffix(b"\n")?.to_vec()));
    socket.is_absolute().then_some(socket)
}

fn read(file: File) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    file.take(LENGTH_MAX + 1).read_to_end(&mut text).ok()?;
    (text.len() as u64 <= LENGTH_MAX).then_some(text)
}

fn parse(text: &[u8]) -> Option<(bool, PathBuf)> {
    let split = text.iter().position(|&byte| byte == b'\n')?;
    let private = match &text[..split] {
        PRIVATE => true,
        STARTED_BY_HAND => false,
        _ => return None,
    };
    let state = PathBuf::from(OsString::from_vec(text[split + 1..].strip_suffix(b"\n")?.to_vec()));
    state.is_absolute().then_some((private, state))
}

/// Removes the note of the daemon on this state, if none other is noted since.
pub fn forget(socket: &Path, state: &Path) {
    if noted(socket).is_some_and(|noted| noted.state == state) {
        let _ = std::fs::remove_file(file(socket));
    }
}

/// Whether two paths lead to the same directory.
#[must_use]
pub fn is_same(one: &Path, other: &Path) -> bool {
    one == other || matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// The command that starts a daemon on this socket and state, as a shell reads it: without the state if it is the
/// socket's default.
#[must_use]
pub fn command(socket: &Path, state: &Path) -> String {
    let start = format!("pinfoldd --socket {}", word(socket.as_os_str()));
    match is_same(state, &crate::paths::beside(socket)) {
        true => start,
        false => format!("{start} --state-dir {}", word(state.as_os_str())),
    }
}

/// A word of a command, quoted: in a user namespace root's notes cannot be told from another user's, and the command
/// must execute nothing else.
fn word(path: &OsStr) -> String {
    let text = path.to_string_lossy();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-:=,+@%".contains(&byte);
    match text.bytes().all(plain) {
        true => text.into_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_found_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let (socket, state) = (dir.path().join("p.sock"), dir.path().join("a\nb"));
        assert_eq!(noted(&socket), None);
        let uid = peer::own_uid();
        for private in [true, false] {
            note(&socket, &state, private).expect("it is ours");
            assert_eq!(noted(&socket), Some(Whereabouts { state: state.clone(), private, uid }));
        }
        forget(&socket, dir.path());
        assert!(noted(&socket).is_some(), "that is another daemon's");
        forget(&socket, &state);
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0, "nothing is left");
    }

    #[test]
    fn a_note_writable_for_others_is_not_trusted() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("p.sock");
        note(&socket, Path::new("/s"), false).expect("it is ours");
        let open = |mode| std::fs::set_permissions(file(&socket), PermissionsExt::from_mode(mode));
        open(0o666).expect("it is ours");
        assert_eq!(noted(&socket), None, "all may write to it");
        open(0o644).expect("it is ours");
        assert!(noted(&socket).is_some());
        if peer::own_uid() == 0 {
            std::os::unix::fs::chown(file(&socket), Some(65_534), None).expect("root gives files away");
            assert_eq!(noted(&socket), None, "it is another user's");
        }
        std::fs::rename(file(&socket), dir.path().join("elsewhere")).expect("it is ours");
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), file(&socket)).expect("a link");
        assert_eq!(noted(&socket), None, "links are not followed");
        for text in ["", "other", "other\n", "other\nrelative\n", "else\n/s\n", "other\n/s"] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn the_lock_names_the_socket() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("a\nb.sock");
        assert_eq!(listens(dir.path()), None, "there is no lock");
        let says = |text: &[u8]| {
            std::fs::write(lock(dir.path()), text).expect("it is ours");
            std::fs::set_permissions(lock(dir.path()), PermissionsExt::from_mode(0o600)).expect("it is ours");
            listens(dir.path())
        };
        assert_eq!(says(&signature(7, &socket)), Some(socket.clone()));
        for text in ["", "7", "7\n", "guard 7\n", "7\nrelative\n", "7\n/cut"] {
            assert_eq!(says(text.as_bytes()), None, "{text:?}");
        }
        says(&signature(7, &socket));
        std::fs::set_permissions(lock(dir.path()), PermissionsExt::from_mode(0o666)).expect("it is ours");
        assert_eq!(listens(dir.path()), None, "all may write to it");
    }

    #[test]
    fn a_note_is_written_into_no_file_of_others() {
        let dir = tempfile::tempdir().expect("a directory");
        let (socket, precious) = (dir.path().join("p.sock"), dir.path().join("precious"));
        std::fs::write(&precious, "precious").expect("a file");
        for planted in [file(&socket), beside(&socket, &format!(".daemon.{}", std::process::id()))] {
            std::os::unix::fs::symlink(&precious, planted).expect("a link");
        }
        note(&socket, Path::new("/s"), false).expect("links are replaced");
        assert_eq!(std::fs::read_to_string(&precious).expect("it is there"), "precious");
        assert!(noted(&socket).is_some());
    }

    #[test]
    fn the_command_names_a_state_that_is_elsewhere() {
        let command = |state: &str| command(Path::new("/d/p.sock"), Path::new(state));
        assert_eq!(command("/d/p.state"), "pinfoldd --socket /d/p.sock");
        assert_eq!(command("/d/state"), "pinfoldd --socket /d/p.sock --state-dir /d/state");
        assert_eq!(command("/x; it's"), r"pinfoldd --socket /d/p.sock --state-dir '/x; it'\''s'");
    }
}
