//! The place of the socket: its directory, what lies there already, and the rights of users. Absent here: what is heard on
//! it.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use pinfold_proto::wire::{self, Decoder, REPLY_MAX_BYTES, Reply, Request, WIRE_VERSION};
use pinfold_sys::passed::{Incoming, Listener};
use pinfold_sys::peer;
use pinfold_sys::whereabouts::{self, Whereabouts};

/// How long another daemon may take to say where its state is.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The socket as a file, and what is noted beside it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) listener: Listener,
    path: PathBuf,
    /// Which file the socket is, so that another daemon's is not removed at the end.
    inode: u64,
    /// What was noted beside it of a daemon on another state.
    before: Option<Whereabouts>,
    /// That it is gone was told.
    told: bool,
}

impl Place {
    /// Listens on `path`. A socket that a dead daemon left is replaced.
    pub(super) fn take(path: &Path) -> anyhow::Result<Self> {
        let (listener, inode) = listen(path)?;
        Ok(Self { listener, path: path.to_owned(), inode, before: None, told: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn accept(&self) -> io::Result<Incoming> {
        self.listener.accept()
    }

    /// Whether the file is still this socket.
    fn is_there(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|found| found.ino() == self.inode)
    }

    pub(super) fn is_at(&self, path: &Path) -> bool {
        self.path == path && self.is_there()
    }

    /// See [`super::Server::listens_anew`].
    pub(super) fn take_anew(&mut self, wanted: &Path, meanwhile: Option<&Path>, state: &Path) -> bool {
        let tried = match (self.move_to(wanted, state), meanwhile) {
            (Err(_), Some(other)) if self.is_at(other) => return false,
            (Err(_), Some(other)) => self.move_to(other, state),
            (tried, _) => tried,
        };
        match tried {
            Ok(()) => tracing::warn!(socket = %self.path.display(), "the socket was gone, and is made anew"),
            Err(_) if self.told => {}
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(
                    error,
                    "the socket is gone, and cannot be made anew: no command reaches this daemon"
                );
                self.told = true;
            }
        }
        !self.told
    }

    /// Listens where nothing is.
    fn move_to(&mut self, path: &Path, state: &Path) -> anyhow::Result<()> {
        if std::fs::symlink_metadata(path).is_ok() {
            bail!("{} is there already", path.display());
        }
        let before = std::mem::replace(self, Self::take(path)?);
        before.leave(state, false);
        Ok(())
    }

    /// See [`super::Server::note_whereabouts`].
    pub(super) fn note(&mut self, state: &Path, private: bool) {
        self.before =
            whereabouts::noted(&self.path).filter(|noted| !whereabouts::is_same(&noted.state, state));
        if let Some(before) = &self.before {
            let (socket, before) = (self.path.display(), before.state.display());
            tracing::warn!(%socket, state = %before, "the daemon before this one may have left jobs in another state");
        }
        if let Err(error) = whereabouts::note(&self.path, state, private) {
            tracing::warn!(socket = %self.path.display(), %error, "where the state is cannot be noted beside the socket");
        }
    }

    /// See [`super::Server::remove_socket`].
    pub(super) fn leave(&self, state: &Path, jobs_left: bool) {
        if !self.is_there() {
            return;
        }
        if !jobs_left {
            whereabouts::forget(&self.path, state);
            // One that left jobs elsewhere is still to come back.
            if let Some(before) = self.before.as_ref().filter(|before| before.state.is_dir()) {
                let _ = whereabouts::note(&self.path, &before.state, before.private);
            }
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

impl AsFd for Place {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Listens on `path`; gives the file's inode as well. A socket that a dead daemon left is replaced.
fn listen(path: &Path) -> anyhow::Result<(Listener, u64)> {
    make_directory(path)?;
    if let Ok(other) = UnixStream::connect(path) {
        bail!("another daemon listens on {}{}; name another by --socket", path.display(), words_of(other));
    }
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => {
            std::fs::remove_file(path).with_context(|| format!("failed to replace {}", path.display()))?;
        }
        Ok(_) => bail!("{} is there and is not a socket", path.display()),
        Err(_) => {}
    }
    let listener = Listener::bind(path).with_context(|| format!("failed to listen on {}", path.display()))?;
    // Everybody may connect; what each may do depends on who the kernel says it is.
    let open = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666));
    open.with_context(|| format!("failed to open {} to users", path.display()))?;
    let inode = std::fs::metadata(path).map(|found| found.ino()).unwrap_or(0);
    Ok((listener, inode))
}

/// Which process has the socket, and where it keeps its state, as far as either is known.
fn words_of(other: UnixStream) -> String {
    let process = peer::of(&other).map(|peer| format!("process {}", peer.pid)).ok();
    let state = state_of(other).ok().map(|state| format!("with its state in {state}"));
    let known: Vec<String> = process.into_iter().chain(state).collect();
    if known.is_empty() { String::new() } else { format!(" ({})", known.join(", ")) }
}

/// Where another daemon keeps its state, by its own word.
fn state_of(mut other: UnixStream) -> io::Result<String> {
    let deadline = Instant::now() + ANSWER_MAX;
    let mut hello = Vec::new();
    wire::encode(&Request::Hello { version: WIRE_VERSION }, &mut hello).map_err(io::Error::other)?;
    other.set_write_timeout(Some(ANSWER_MAX))?;
    other.write_all(&hello)?;
    let (mut decoder, mut buffer) = (Decoder::new(REPLY_MAX_BYTES), [0; 4096]);
    loop {
        match decoder.take::<Reply>().map_err(io::Error::other)? {
            Some(Reply::Welcome { state, .. }) => return Ok(state),
            Some(_) => return Err(io::ErrorKind::InvalidData.into()),
            None => {}
        }
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        other.set_read_timeout(Some(left))?;
        match other.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => decoder.push(&buffer[..count]),
        }
    }
}

/// Makes the socket's directory: for root one that all may pass through, else one for the user alone.
fn make_directory(socket: &Path) -> anyhow::Result<()> {
    let Some(directory) = socket.parent().filter(|dir| !dir.as_os_str().is_empty()) else { return Ok(()) };
    if directory.is_dir() {
        return Ok(());
    }
    let mode = if peer::own_uid() == 0 { 0o755 } else { 0o700 };
    let made = std::fs::DirBuilder::new().recursive(true).mode(mode).create(directory);
    made.with_context(|| format!("failed to make {}", directory.display()))?;
    // The daemon's file mask took from it what others need to reach the socket.
    let opened = std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode));
    opened.with_context(|| format!("failed to open {} to all users", directory.display()))
}
