//! The socket: takes connections, cuts bytes into requests, sends replies. Bounded in everything that a
//! client can make it hold. Absent here: what a request means.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use pinfold_proto::row::ProcessId;
use pinfold_proto::wire::{self, Decoder, ErrorCode, REQUEST_MAX_BYTES, Reply, Request, WIRE_VERSION};
use pinfold_sys::container::Doors;
use pinfold_sys::peer::{self, Peer};
use pinfold_sys::procfs::Proc;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::event::ConnectionId;

/// How much may wait to be sent to a client that does not read: one long report, and then some.
const OUT_MAX_BYTES: usize = 2 * wire::REPLY_MAX_BYTES;

/// How often a connection's 64 KiB are read before others have their turn.
const READS_AT_ONCE: usize = 4;

/// What one user's requests may cost in a turn of the loop: so many cheap ones (a submission, a child, an end), and
/// fewer by these factors that look at all jobs or at the store, or at the whole host. The rest is heard in the next
/// turn, after everybody else's.
const COST_AT_ONCE: u32 = 1024;
const QUESTION_COST: u32 = 64;
const EXAMINATION_COST: u32 = 512;

/// The listening socket and its connections.
#[derive(Debug)]
pub(crate) struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// Which file the socket is, so that another daemon's is not removed at the end.
    inode: u64,
    connections: BTreeMap<ConnectionId, Connection>,
    by_user: BTreeMap<u32, usize>,
    /// What the requests of each user cost in this turn.
    spent: BTreeMap<u32, u32>,
    next: u64,
    connections_max: usize,
}

#[derive(Debug)]
struct Connection {
    stream: UnixStream,
    peer: Peer,
    /// What connected, if it still lived when it was taken.
    process: Option<ProcessId>,
    decoder: Decoder,
    out: Vec<u8>,
    /// Files that go along with the byte at this place of `out`, or before it, ascending.
    out_files: VecDeque<(usize, Doors)>,
    /// Whether the loop was told to watch for room to send more.
    watched_output: bool,
    greeted: bool,
    /// The version that it speaks, if that is an older one than the daemon's.
    older: Option<u32>,
    /// Requests may have arrived that are not heard yet; nothing more is read before they are.
    backlog: bool,
    /// The client says no more.
    ended: bool,
    /// Close it once `out` is sent.
    closing: bool,
}

/// What came of reading from a connection.
#[derive(Debug)]
pub(crate) struct Heard {
    /// Whole requests, in order.
    pub requests: Vec<Request>,
    /// Whether more of them wait for the next turn.
    pub more: bool,
    /// Whether the connection is at its end.
    pub closed: bool,
}

impl Server {
    /// Listens on `path`. A socket that a dead daemon left is replaced; the caller holds the lock of the state
    /// directory, so no live daemon of this state is there.
    pub(crate) fn listen(path: &Path, connections_max: usize) -> anyhow::Result<Self> {
        make_directory(path)?;
        if UnixStream::connect(path).is_ok() {
            bail!("another daemon listens on {}; name another by --socket", path.display());
        }
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.file_type().is_socket() => {
                std::fs::remove_file(path)
                    .with_context(|| format!("failed to replace {}", path.display()))?;
            }
            Ok(_) => bail!("{} is there and is not a socket", path.display()),
            Err(_) => {}
        }
        let listener =
            UnixListener::bind(path).with_context(|| format!("failed to listen on {}", path.display()))?;
        listener.set_nonblocking(true).context("failed to listen without waiting")?;
        // Everybody may connect; what each may do depends on who the kernel says it is.
        let open = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666));
        open.with_context(|| format!("failed to open {} to users", path.display()))?;
        let inode = std::fs::metadata(path).map(|found| found.ino()).unwrap_or(0);
        Ok(Self {
            listener,
            path: path.to_owned(),
            inode,
            connections: BTreeMap::new(),
            by_user: BTreeMap::new(),
            spent: BTreeMap::new(),
            next: 1,
            connections_max,
        })
    }

    /// Takes all connections that wait; gives their numbers.
    pub(crate) fn accept(&mut self, proc: &Proc) -> Vec<ConnectionId> {
        let mut accepted = Vec::new();
        while let Ok((stream, _)) = self.listener.accept() {
            let Ok(peer) = peer::of(&stream) else { continue };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let process = peer::process(&stream, proc);
            let process = process.map(|stat| ProcessId { pid: stat.pid, start_ticks: stat.start_ticks });
            let id = ConnectionId(self.next);
            self.next += 1;
            let decoder = Decoder::new(REQUEST_MAX_BYTES);
            let connection = Connection {
                stream,
                peer,
                process,
                decoder,
                out: Vec::new(),
                out_files: VecDeque::new(),
                watched_output: false,
                greeted: false,
                older: None,
                backlog: false,
                ended: false,
                closing: false,
            };
            self.connections.insert(id, connection);
            *self.by_user.entry(peer.uid).or_default() += 1;
            if self.too_many(peer.uid) {
                let message = "too many connections; wait for some jobs to end".to_owned();
                self.send(id, &Reply::Error { code: ErrorCode::Refused, message });
                self.close_after_sending(id);
            }
            accepted.push(id);
        }
        accepted
    }

    /// One user may have half of the connections, so that another always gets one.
    fn too_many(&self, uid: u32) -> bool {
        let own = self.by_user.get(&uid).copied().unwrap_or(0);
        self.connections.len() > self.connections_max || own > self.connections_max / 2
    }

    /// A turn of the loop begins: every user may ask again.
    pub(crate) fn begin_turn(&mut self) {
        self.spent.clear();
    }

    /// Reads what a connection has to say, as far as its user may be heard in this turn. A client that says something
    /// not understood is told so and cut off.
    pub(crate) fn read(&mut self, id: ConnectionId) -> Heard {
        let mut heard = Heard { requests: Vec::new(), more: false, closed: false };
        let Some(connection) = self.connections.get_mut(&id) else { return Heard { closed: true, ..heard } };
        let spent = self.spent.entry(connection.peer.uid).or_default();
        if !connection.backlog && *spent < COST_AT_ONCE {
            connection.fill();
        }
        match take_requests(connection, spent, &mut heard.requests) {
            Ok(()) => {
                heard.more = connection.backlog;
                heard.closed = connection.ended && !connection.backlog;
            }
            Err(message) => {
                self.send(id, &Reply::Error { code: ErrorCode::Usage, message });
                self.close_after_sending(id);
            }
        }
        heard
    }

    /// Puts a reply into a connection's queue; one that is gone needs none.
    pub(crate) fn send(&mut self, id: ConnectionId, reply: &Reply) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.out.len() > OUT_MAX_BYTES {
            // It asks and does not read; whatever is left in its queue is the end.
            connection.closing = true;
            return;
        }
        wire::encode(reply, &mut connection.out);
    }

    /// As [`Self::send`], with files that the client gets along with the reply.
    pub(crate) fn send_with(&mut self, id: ConnectionId, reply: &Reply, files: Doors) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.out_files.push_back((connection.out.len(), files));
        }
        self.send(id, reply);
    }

    /// Sends what can be sent now; says whether the connection is at its end.
    pub(crate) fn flush(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return true };
        while !connection.out.is_empty() {
            match connection.write_some() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    // It does not listen any more. What it said before is still to be heard, and then its end.
                    connection.out.clear();
                    connection.out_files.clear();
                }
            }
        }
        connection.closing
    }

    /// Whether something waits to be sent to it, where that is another answer than the last time.
    pub(crate) fn output_changed(&mut self, id: ConnectionId) -> Option<bool> {
        let connection = self.connections.get_mut(&id)?;
        let waiting = !connection.out.is_empty();
        let changed = waiting != connection.watched_output;
        connection.watched_output = waiting;
        changed.then_some(waiting)
    }

    /// How many bytes wait to be sent to it.
    pub(crate) fn unsent_bytes(&self, id: ConnectionId) -> usize {
        self.connections.get(&id).map_or(0, |connection| connection.out.len())
    }

    /// Marks a connection as one that has said hello.
    pub(crate) fn greet(&mut self, id: ConnectionId, version: u32) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.greeted = true;
            connection.older = (version < WIRE_VERSION).then_some(version);
        }
    }

    /// The version that it speaks, if that is an older one than this daemon's.
    pub(crate) fn older(&self, id: ConnectionId) -> Option<u32> {
        self.connections.get(&id)?.older
    }

    /// Whether it has said hello.
    pub(crate) fn is_greeted(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_some_and(|connection| connection.greeted)
    }

    /// Closes a connection once its replies are sent.
    pub(crate) fn close_after_sending(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.closing = true;
        }
    }

    /// Forgets a connection.
    pub(crate) fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id)
            && let Some(count) = self.by_user.get_mut(&connection.peer.uid)
        {
            *count -= 1;
            if *count == 0 {
                self.by_user.remove(&connection.peer.uid);
            }
        }
    }

    /// Who is at the other end.
    /// What connected, if it still lived a moment later.
    pub(crate) fn process(&self, id: ConnectionId) -> Option<ProcessId> {
        self.connections.get(&id)?.process
    }

    pub(crate) fn peer(&self, id: ConnectionId) -> Option<Peer> {
        self.connections.get(&id).map(|connection| connection.peer)
    }

    /// The connection's descriptor, to be watched.
    pub(crate) fn descriptor(&self, id: ConnectionId) -> Option<BorrowedFd<'_>> {
        self.connections.get(&id).map(|connection| connection.stream.as_fd())
    }

    /// Whether nobody is connected.
    pub(crate) fn is_idle(&self) -> bool {
        self.connections.is_empty()
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.path
    }

    /// Removes the socket, if it is still this server's own.
    pub(crate) fn remove_socket(&self) {
        if std::fs::metadata(&self.path).is_ok_and(|found| found.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Connection {
    /// Reads what has arrived, up to a bound: who says more than can be read keeps nobody else waiting.
    fn fill(&mut self) {
        let mut buffer = [0; 64 * 1024];
        for _ in 0..READS_AT_ONCE {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    self.decoder.push(&buffer[..count]);
                    if count == buffer.len() {
                        continue;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => self.ended = true,
            }
            return;
        }
    }

    /// Sends as much as goes in one call, so that a client is woken once: files leave with their reply or with those
    /// before it. A second lot of files has to wait for a call of its own.
    fn write_some(&mut self) -> io::Result<()> {
        let until = self.out_files.get(1).map_or(self.out.len(), |(at, _)| *at);
        let sent = match self.out_files.front() {
            Some((_, files)) => {
                let files: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
                let mut along = SendAncillaryBuffer::new(&mut space);
                along.push(SendAncillaryMessage::ScmRights(&files));
                let bytes = [IoSlice::new(&self.out[..until])];
                let sent = sendmsg(&self.stream, &bytes, &mut along, SendFlags::NOSIGNAL)?;
                self.out_files.pop_front();
                sent
            }
            None => self.stream.write(&self.out[..until])?,
        };
        self.out.drain(..sent);
        self.out_files.iter_mut().for_each(|(at, _)| *at -= sent);
        Ok(())
    }
}

impl AsFd for Server {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Takes whole requests out of what has arrived, as far as their user may be heard; fails with the words for one that
/// is not understood.
fn take_requests(
    connection: &mut Connection,
    spent: &mut u32,
    requests: &mut Vec<Request>,
) -> Result<(), String> {
    connection.backlog = false;
    if connection.closing {
        return Ok(());
    }
    while *spent < COST_AT_ONCE {
        match connection.decoder.take() {
            Ok(Some(request)) => {
                *spent += cost(&request);
                requests.push(request);
            }
            Ok(None) => return Ok(()),
            Err(error) => {
                let cause =
                    std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                return Err(format!("{error}{cause}"));
            }
        }
    }
    // Perhaps nothing is left; the next turn finds out.
    connection.backlog = true;
    Ok(())
}

/// What a request costs, as [`COST_AT_ONCE`] counts.
fn cost(request: &Request) -> u32 {
    match request {
        Request::Hello { .. }
        | Request::Submit { .. }
        | Request::Keep { .. }
        | Request::Checkpointed { .. }
        | Request::Child { .. }
        | Request::Attach { .. }
        | Request::Presented
        | Request::Ended { .. }
        | Request::Withdraw { .. }
        | Request::Interrupted { .. } => 1,
        Request::Doctor | Request::Audit { .. } => EXAMINATION_COST,
        _ => QUESTION_COST,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(requests: &[Request]) -> Vec<u8> {
        let mut bytes = Vec::new();
        requests.iter().for_each(|request| wire::encode(request, &mut bytes));
        bytes
    }

    /// However much one says at once, so much of it is heard in a turn, none of it is lost, and its end comes last.
    #[test]
    fn a_user_is_heard_in_turns() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let mut server = Server::listen(&path, 64).unwrap();
        let kinds =
            [(Request::Presented, 1), (Request::Map, QUESTION_COST), (Request::Doctor, EXAMINATION_COST)];
        let proc = Proc::open(Path::new("/proc")).unwrap();
        for (request, cost) in kinds {
            let at_once = COST_AT_ONCE / cost;
            let mut client = UnixStream::connect(&path).unwrap();
            client.write_all(&frames(&vec![request; 2500])).unwrap();
            drop(client);
            let mut other = UnixStream::connect(&path).unwrap();
            other.write_all(&frames(&[Request::Presented])).unwrap();
            let [talker, same_user] = server.accept(&proc)[..] else { panic!("two connections") };
            let (mut counts, mut closed) = (Vec::new(), false);
            while !closed {
                server.begin_turn();
                let heard = server.read(talker);
                closed = heard.closed;
                assert!(!(closed && heard.more), "its end comes after all it said");
                if heard.more {
                    assert!(server.read(same_user).requests.is_empty(), "the user's turn is over");
                }
                counts.push(heard.requests.len());
            }
            assert_eq!(counts.iter().sum::<usize>(), 2500, "{counts:?}");
            assert!(counts.iter().all(|&count| count <= at_once as usize), "{counts:?}");
            server.begin_turn();
            let first = server.read(same_user).requests.len();
            assert_eq!(first + server.read(same_user).requests.len(), 1, "the other connection's turn comes");
            server.close(talker);
            server.close(same_user);
            drop(other);
        }
    }
}
