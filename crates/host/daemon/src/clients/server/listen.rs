//! The place of the socket: its directory, what lies there already, and the rights of users. Absent here: what is heard on
//! it.

use std::fs::Metadata;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, bail};
use pinfold_proto::wire::{self, Decoder, REPLY_MAX_BYTES, Reply, Request, WIRE_VERSION};
use pinfold_sys::passed::{Incoming, Listener, has_listener};
use pinfold_sys::whereabouts::{self, Whereabouts};
use pinfold_sys::{files, peer};

/// How long another daemon may take to say where its state is.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Which file a socket is. Its number may be another's once it is gone, and its time of change is changed by an operator
/// who narrows its rights.
type FileId = (u64, u64, Option<SystemTime>);

/// The socket as a file, and what is noted beside it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) listener: Listener,
    path: PathBuf,
    /// So that another daemon's is not removed at the end.
    id: FileId,
    /// Where it is to be.
    wanted: PathBuf,
    /// Sockets that were there before, in which connections may wait.
    former: Vec<Listener>,
    /// What was noted beside it of a daemon on another state.
    before: Option<Whereabouts>,
    /// That it is gone was told.
    told: bool,
}

impl Place {
    /// Listens on `path`. A socket that a dead daemon left is replaced.
    pub(super) fn take(path: &Path) -> anyhow::Result<Self> {
        let ((listener, id), path) = (listen(path)?, path.to_owned());
        let (wanted, former) = (path.clone(), Vec::new());
        Ok(Self { listener, path, id, wanted, former, before: None, told: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn accept(&self) -> io::Result<Incoming> {
        self.former.iter().find_map(|former| former.accept().ok()).map_or_else(|| self.listener.accept(), Ok)
    }

    /// Whether the file is still this socket.
    fn is_there(&self) -> bool {
        std::fs::symlink_metadata(&self.path).is_ok_and(|found| id_of(&found) == self.id)
    }

    /// See [`super::Server::is_in_place`].
    pub(super) fn is_in_place(&mut self) -> bool {
        let former = std::mem::take(&mut self.former);
        self.former = former.into_iter().filter_map(|former| former.close().err()).collect();
        self.path == self.wanted && self.is_there()
    }

    /// See [`super::Server::listens_anew`].
    pub(super) fn take_anew(&mut self, meanwhile: Option<&Path>, state: &Path) -> bool {
        let tried = match (self.move_to(&self.wanted.clone(), state), meanwhile) {
            (Err(_), Some(other)) if self.path == other && self.is_there() => return false,
            (Err(_), Some(other)) => self.move_to(other, state),
            (tried, _) => tried,
        };
        let Err(error) = tried else {
            tracing::warn!(socket = %self.path.display(), "the socket was gone: the daemon listens anew");
            self.told = false;
            return true;
        };
        if !std::mem::replace(&mut self.told, true) {
            let error = format!("{error:#}");
            tracing::error!(
                error,
                "the socket is gone, and cannot be made anew: no command reaches this daemon"
            );
        }
        false
    }

    /// Listens where nobody does.
    fn move_to(&mut self, path: &Path, state: &Path) -> anyhow::Result<()> {
        let (listener, id) = listen_anew(path)?;
        if path != self.path {
            self.leave(state, false);
            (self.path, self.before) = (path.to_owned(), None);
        }
        self.id = id;
        self.former.push(std::mem::replace(&mut self.listener, listener));
        Ok(())
    }

    /// See [`super::Server::note_whereabouts`].
    pub(super) fn note(&mut self, state: &Path, private: bool) {
        let noted = whereabouts::noted(&self.path).filter(|noted| !whereabouts::is_same(&noted.state, state));
        self.before = noted.or(self.before.take());
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

/// Listens on `path`; tells which file that is. A socket that a dead daemon left is replaced.
fn listen(path: &Path) -> anyhow::Result<(Listener, FileId)> {
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
    bind(path)
}

/// The same while the daemon runs: it waits for nobody, and as nobody looks on, what others could exchange is not touched.
fn listen_anew(path: &Path) -> anyhow::Result<(Listener, FileId)> {
    let absolute = std::path::absolute(path)?;
    let above = absolute.ancestors().skip(1).find(|above| above.exists());
    let Some(above) = above else { bail!("{} is no file's name", path.display()) };
    // By the path without links, which nobody can turn meanwhile.
    let there = only_ours(above)?.join(absolute.strip_prefix(above)?);
    make_directory(&there)?;
    there.parent().map(only_ours).transpose()?;
    if let Ok(found) = std::fs::symlink_metadata(&there) {
        let is_left =
            found.file_type().is_socket() && found.uid() == peer::own_uid() && !has_listener(&there);
        if !is_left {
            bail!("{} is there already", path.display());
        }
        std::fs::remove_file(&there).with_context(|| format!("failed to replace {}", path.display()))?;
    }
    bind(path)
}

/// The directory without links on the way to it, in whose place nobody else can put another.
fn only_ours(directory: &Path) -> anyhow::Result<PathBuf> {
    let directory = directory.canonicalize()?;
    match files::exchangeable(&directory)? {
        Some((at, why)) => bail!("{} {why}", at.display()),
        None => Ok(directory),
    }
}

fn bind(path: &Path) -> anyhow::Result<(Listener, FileId)> {
    let listener = Listener::bind(path).with_context(|| format!("failed to listen on {}", path.display()))?;
    let opened = open_to_all(path).with_context(|| format!("failed to open {} to users", path.display()))?;
    Ok((listener, opened))
}

/// Everybody may connect; what each may do depends on who the kernel says it is. Tells which file the socket is.
fn open_to_all(path: &Path) -> io::Result<FileId> {
    let socket = files::look_at(path)?;
    let found = socket.metadata()?;
    if !found.file_type().is_socket() || found.uid() != peer::own_uid() {
        return Err(io::Error::other("something else is in its place"));
    }
    let very_one = PathBuf::from(format!("/proc/self/fd/{}", socket.as_raw_fd()));
    std::fs::set_permissions(very_one, std::fs::Permissions::from_mode(0o666))?;
    Ok(id_of(&found))
}

fn id_of(found: &Metadata) -> FileId {
    (found.dev(), found.ino(), found.created().ok())
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
    make_directory(directory)?;
    let mode = if peer::own_uid() == 0 { 0o755 } else { 0o700 };
    match std::fs::DirBuilder::new().mode(mode).create(directory) {
        Ok(()) => {}
        // Another was faster, whose rights it has.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => return Ok(()),
        Err(error) => {
            return Err(error).with_context(|| format!("failed to make {}", directory.display()));
        }
    }
    // The daemon's file mask took from it what others need to reach the socket.
    let opened = std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode));
    opened.with_context(|| format!("failed to open {} to all users", directory.display()))
}
