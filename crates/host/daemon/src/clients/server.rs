//! The socket: takes connections, cuts bytes into requests, sends replies. Bounded in everything that a
//! client can make it hold. Absent here: what a request means, what it costs (`cost`), and the bounds of a user
//! (`quota`).

mod budget;
mod heard;
mod listen;
mod outbox;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use pinfold_proto::row::ProcessId;
use pinfold_proto::wire::{Decoder, ErrorCode, REQUEST_MAX_BYTES, Reply, Request, WIRE_VERSION};
use pinfold_sys::container::Doors;
use pinfold_sys::passed::{Closer, Got, Incoming};
use pinfold_sys::peer::{self, Peer};
use pinfold_sys::procfs::Proc;

use crate::clients::cost::Load;
use crate::clients::quota::{self, Book, UNHEARD_OF_USER_MAX, UNREAD_MAX, UNREAD_OF_USER_MAX};
use crate::core::ConnectionId;
use crate::core::poller::Watch;

use budget::Budget;
use heard::take_requests;
use listen::Place;
use outbox::Outbox;

/// So many connections are taken in a turn of the loop, of all that wait.
const ACCEPTED_AT_ONCE: usize = 64;

/// How often a connection's 64 KiB are read before others have their turn.
const READS_AT_ONCE: usize = 4;

/// The listening socket and its connections.
#[derive(Debug)]
pub(crate) struct Server {
    place: Place,
    connections: BTreeMap<ConnectionId, Connection>,
    /// Closes those of clients that passed descriptors.
    closer: Closer,
    /// Connections of each user,
    open: Book,
    /// those of them that keep jobs,
    keeping: Book,
    /// bytes of replies that they have not read,
    unread: Book,
    /// and bytes of requests that are not whole, or not heard yet.
    unheard: Book,
    /// What users may ask in this turn.
    budget: Budget,
    load: Load,
    /// Connections that were read or have something to be sent.
    unflushed: BTreeSet<ConnectionId>,
    next: u64,
    connections_max: usize,
}

#[derive(Debug)]
struct Connection {
    stream: Incoming,
    peer: Peer,
    /// What connected, if it still lived when it was taken.
    process: Option<ProcessId>,
    decoder: Decoder,
    out: Outbox,
    /// Answers that are made and wait for the disk, in bytes.
    held_back: usize,
    /// So many bytes of `out` and of those are in the book of its user,
    unread: usize,
    /// and so many of `decoder`.
    unheard: usize,
    /// What the loop was told to watch for.
    watched: Watch,
    /// It leaves too much unread; nothing is heard of it before it reads.
    blocked: bool,
    /// Nobody reads at its other end any more.
    deaf: bool,
    greeted: bool,
    /// It keeps jobs, or did.
    keeps: bool,
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
        Ok(Self {
            place: Place::take(path)?,
            connections: BTreeMap::new(),
            closer: Closer::default(),
            open: Book::default(),
            keeping: Book::default(),
            unread: Book::default(),
            unheard: Book::default(),
            budget: Budget::new(peer::own_uid()),
            load: Load::default(),
            unflushed: BTreeSet::new(),
            next: 1,
            connections_max,
        })
    }

    /// Takes connections that wait, some at a time; gives their numbers.
    pub(crate) fn accept(&mut self, proc: &Proc) -> Vec<ConnectionId> {
        let mut accepted = Vec::new();
        while accepted.len() < ACCEPTED_AT_ONCE
            && let Ok(stream) = self.place.accept()
        {
            let Ok(peer) = peer::of(stream.stream()) else { continue };
            let process = peer::process(stream.stream(), proc);
            let process = process.map(|stat| ProcessId { pid: stat.pid, start_ticks: stat.start_ticks });
            let id = ConnectionId(self.next);
            self.next += 1;
            let decoder = Decoder::new(REQUEST_MAX_BYTES);
            let connection = Connection {
                stream,
                peer,
                process,
                decoder,
                out: Outbox::default(),
                held_back: 0,
                unread: 0,
                unheard: 0,
                watched: Watch { input: true, output: false },
                blocked: false,
                deaf: false,
                greeted: false,
                keeps: false,
                older: None,
                backlog: false,
                ended: false,
                closing: false,
            };
            let has_room = self.has_room(peer.uid);
            self.connections.insert(id, connection);
            self.open.add(peer.uid, 1);
            if !has_room {
                self.cut_off(id, ErrorCode::Refused, quota::TOO_MANY.to_owned());
            }
            accepted.push(id);
        }
        accepted
    }

    /// Whether a user may have one more connection, so that another always gets one.
    fn has_room(&self, uid: u32) -> bool {
        let most = self.connections_max as u64;
        quota::has_connection(self.open.own(uid), self.open.all(), most, most / 8, quota::is_trusted(uid))
    }

    /// Whether a connection may keep jobs beside those of its user that do, so that a few are left to cancel some.
    pub(crate) fn may_keep(&self, id: ConnectionId) -> bool {
        let Some(connection) = self.connections.get(&id) else { return false };
        let (uid, most) = (connection.peer.uid, self.connections_max as u64);
        let (keeping, own, all) = (self.keeping.own(uid), self.open.own(uid), self.open.all());
        connection.keeps || quota::may_keep(keeping, own, all, most, most / 8, quota::is_trusted(uid))
    }

    /// A connection keeps jobs.
    pub(crate) fn keeps(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id)
            && !std::mem::replace(&mut connection.keeps, true)
        {
            self.keeping.add(connection.peer.uid, 1);
        }
    }

    /// A turn of the loop begins: every user may ask again, who is not in debt from turns before.
    pub(crate) fn begin_turn(&mut self, load: Load) {
        self.load = load;
        self.budget.begin_turn();
    }

    /// Reads what a connection has to say, as far as its user may be heard in this turn. A client that says something
    /// not understood is told so and cut off.
    pub(crate) fn read(&mut self, id: ConnectionId) -> Heard {
        self.unflushed.insert(id);
        let mut heard = Heard { requests: Vec::new(), more: false, closed: false };
        let Some(connection) = self.connections.get_mut(&id) else { return Heard { closed: true, ..heard } };
        let uid = connection.peer.uid;
        if connection.closing {
            // Nothing more is heard of it, however long it leaves the last reply unread.
            heard.closed = connection.ended;
            return heard;
        }
        // Whose connections leave much unread between them gets nothing more into a queue that has something.
        let bound = if self.unread.own(uid) > UNREAD_OF_USER_MAX { 0 } else { UNREAD_MAX };
        connection.blocked = connection.out.len() > bound;
        if connection.blocked {
            return heard;
        }
        if !connection.backlog && self.budget.may_ask(uid) && connection.fill() {
            let text = "open files came along with your requests; none is taken here";
            self.cut_off(id, ErrorCode::Refused, text.to_owned());
            return heard;
        }
        // A question that is refused for what is unread costs next to nothing.
        let load = Load { refuses: self.unread.own(uid) > UNREAD_OF_USER_MAX, ..self.load };
        let taken = take_requests(connection, &mut self.budget, load, &mut heard.requests);
        let unheard = connection.decoder.pending();
        let before = std::mem::replace(&mut connection.unheard, unheard);
        let (more, closed) = (connection.backlog, connection.ended && !connection.backlog);
        self.unheard.take(uid, before as u64);
        self.unheard.add(uid, unheard as u64);
        if let Err((code, message)) = taken {
            self.cut_off(id, code, message);
            return heard;
        }
        (heard.more, heard.closed) = (more, closed);
        if unheard > before && self.unheard.own(uid) > UNHEARD_OF_USER_MAX {
            let text =
                "too much of your requests waits to be sent whole, or to be heard; use fewer connections";
            self.cut_off(id, ErrorCode::Refused, text.to_owned());
        }
        heard
    }

    /// Says why nothing more is heard of a connection, and closes it then.
    pub(crate) fn cut_off(&mut self, id: ConnectionId, code: ErrorCode, message: String) {
        self.send(id, &Reply::Error { code, message });
        self.close_after_sending(id);
    }

    /// Why a user's question is not answered, if the answer would only be one more that is not read.
    pub(crate) fn leaves_unread(&self, uid: u32) -> Option<String> {
        let own = self.unread.own(uid);
        (own > UNREAD_OF_USER_MAX).then(|| quota::unread(own))
    }

    /// Puts a reply into a connection's queue; one that is gone needs none.
    pub(crate) fn send(&mut self, id: ConnectionId, reply: &Reply) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.out.push(reply);
        self.unflushed.insert(id);
        self.note_unread(id);
    }

    /// As [`Self::send`], with a frame that is made already.
    pub(crate) fn send_frame(&mut self, id: ConnectionId, frame: &[u8]) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.out.push_frame(frame);
        self.unflushed.insert(id);
        self.note_unread(id);
    }

    /// An answer of so many bytes is made, and waits for the disk: to its user it counts as unread.
    pub(crate) fn hold_back(&mut self, id: ConnectionId, bytes: usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.held_back += bytes;
        self.note_unread(id);
    }

    /// It waits no more, and is sent in this turn.
    pub(crate) fn let_go(&mut self, id: ConnectionId, bytes: usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.held_back = connection.held_back.saturating_sub(bytes);
        self.note_unread(id);
    }

    /// As [`Self::send`], with files that the client gets along with the reply.
    pub(crate) fn send_with(&mut self, id: ConnectionId, reply: &Reply, files: Doors) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.out.push_files(files);
        }
        self.send(id, reply);
    }

    /// Keeps the book of what users have not read.
    fn note_unread(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let unread = connection.out.len() + connection.held_back;
        let before = std::mem::replace(&mut connection.unread, unread);
        self.unread.take(connection.peer.uid, before as u64);
        self.unread.add(connection.peer.uid, unread as u64);
    }

    /// The connections to be flushed since the last time, in order.
    pub(crate) fn unflushed(&mut self) -> BTreeSet<ConnectionId> {
        std::mem::take(&mut self.unflushed)
    }

    /// Sends what can be sent now; says whether the connection is at its end.
    pub(crate) fn flush(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return true };
        let mut finished = connection.closing;
        while !connection.out.is_empty() {
            match connection.out.write_some(connection.stream.stream()) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    finished = false;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It does not listen any more. What it told before is still to be heard, and then its end.
                Err(_) => {
                    connection.deaf = true;
                    connection.out.clear();
                }
            }
        }
        self.note_unread(id);
        finished
    }

    /// What to watch it for, where that is another answer than the last time.
    pub(crate) fn watch_changed(&mut self, id: ConnectionId) -> Option<Watch> {
        let connection = self.connections.get_mut(&id)?;
        let input = !connection.blocked && !connection.closing;
        let watch = Watch { input, output: !connection.out.is_empty() };
        (std::mem::replace(&mut connection.watched, watch) != watch).then_some(watch)
    }

    /// Whether it has read so much that it is to be heard again, which was put off for that.
    pub(crate) fn unblocked(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else { return false };
        let read = connection.blocked
            && (connection.out.is_empty()
                || connection.out.len() <= UNREAD_MAX / 2
                    && self.unread.own(connection.peer.uid) <= UNREAD_OF_USER_MAX);
        connection.blocked &= !read;
        read
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

    /// Whether it is told its last replies.
    pub(crate) fn is_closing(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_none_or(|connection| connection.closing)
    }

    /// Closes a connection once its replies are sent. What it sent and was not heard goes now.
    pub(crate) fn close_after_sending(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        connection.closing = true;
        connection.backlog = false;
        connection.decoder = Decoder::new(REQUEST_MAX_BYTES);
        let unheard = std::mem::take(&mut connection.unheard);
        self.unheard.take(connection.peer.uid, unheard as u64);
    }

    /// Forgets a connection.
    pub(crate) fn close(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.remove(&id) {
            let uid = connection.peer.uid;
            self.open.take(uid, 1);
            self.keeping.take(uid, u64::from(connection.keeps));
            self.unread.take(uid, connection.unread as u64);
            self.unheard.take(uid, connection.unheard as u64);
            connection.stream.close().into_iter().for_each(|held| self.closer.close(held));
        }
    }

    /// What connected, if it still lived a moment later.
    pub(crate) fn process(&self, id: ConnectionId) -> Option<ProcessId> {
        self.connections.get(&id)?.process
    }

    /// The user at the other end, by the kernel's word.
    pub(crate) fn peer(&self, id: ConnectionId) -> Option<Peer> {
        self.connections.get(&id).map(|connection| connection.peer)
    }

    /// The connection's descriptor, to be watched.
    pub(crate) fn descriptor(&self, id: ConnectionId) -> Option<BorrowedFd<'_>> {
        self.connections.get(&id).map(|connection| connection.stream.stream().as_fd())
    }

    /// Whether nobody is connected.
    pub(crate) fn is_idle(&self) -> bool {
        self.connections.is_empty()
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> &Path {
        self.place.path()
    }

    /// Notes beside the socket where this daemon keeps its state. Whoever starts the next one needs it.
    pub(crate) fn note_whereabouts(&mut self, state: &Path, private: bool) {
        self.place.note(state, private);
    }

    /// Whether the socket is still where it was wanted.
    pub(crate) fn is_in_place(&mut self) -> bool {
        self.place.is_in_place()
    }

    /// Listens anew where the socket was wanted, or else at the place for `meanwhile`, if nobody does there; connections
    /// stay. Says whether it did: whoever watches the socket is to watch the new one, too.
    pub(crate) fn listens_anew(&mut self, meanwhile: Option<&Path>, state: &Path) -> bool {
        self.place.take_anew(meanwhile, state)
    }

    /// Removes the socket, if it is still this server's own, and what is noted beside it, unless jobs are left there.
    pub(crate) fn remove_socket(&self, state: &Path, jobs_left: bool) {
        self.place.leave(state, jobs_left);
    }
}

impl Connection {
    /// Reads what has arrived, up to a bound: a client that says more than can be read keeps no other waiting. Says
    /// whether it passes descriptors, before it reads these.
    fn fill(&mut self) -> bool {
        let mut buffer = [0; 64 * 1024];
        for _ in 0..READS_AT_ONCE {
            match self.stream.read(&mut buffer) {
                Ok(Got::Passed) => return true,
                Ok(Got::Bytes(0)) => self.ended = true,
                Ok(Got::Bytes(count)) => {
                    self.decoder.push(&buffer[..count]);
                    if count == buffer.len() {
                        continue;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => self.ended = true,
            }
            break;
        }
        false
    }
}

impl AsFd for Server {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.place.as_fd()
    }
}

#[cfg(test)]
mod tests;
