//! Figures for a monitoring system, over HTTP: a thread that holds the connections, and the loop's part, which
//! makes the text when the thread asks for it.
//!
//! Whatever clients do, the loop is not held up: it is asked at most every [`FRESH`], and never waits for the
//! thread. The thread is bounded in all that a client can make it hold. Owner of state: connections are the
//! thread's alone. Absent here: the text's form (`pinfold_profile::metrics`), and any answer but to `GET /metrics`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Moment};

use pinfold_profile::metrics::{self};
use pinfold_proto::row::JobRow;
use pinfold_sys::ready::{self, Wanted};

mod who;

/// Connections at once; a further one waits in the kernel's queue.
const CONNECTIONS_MAX: usize = 16;
/// A request is a line and some headers.
const REQUEST_BYTES_MAX: usize = 8 * 1024;
/// How long a connection may take, from its first moment to its last byte.
const CONNECTION_MAX: Duration = Duration::from_secs(5);
/// How long a text is good for.
const FRESH: Duration = Duration::from_millis(500);

/// The loop's end of the thread. Dropping it ends the thread and closes the address.
#[derive(Debug)]
pub(crate) struct Metrics {
    address: SocketAddr,
    /// A byte each way says "wanted" and "there it is".
    wake: UnixStream,
    texts: Sender<Texts>,
    thread: JoinHandle<()>,
}

/// What is served, by the user who asks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Texts {
    /// With the jobs.
    pub(crate) jobs: String,
    /// Without.
    pub(crate) host: String,
    /// Who gets which.
    pub(crate) see_jobs: SeeJobs,
}

/// Who is told of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SeeJobs {
    /// Every client that may connect.
    All,
    /// These users of this host.
    Users(Vec<u32>),
}

impl Default for SeeJobs {
    fn default() -> Self {
        Self::Users(Vec::new())
    }
}

impl Texts {
    /// For the user at the other end of a connection.
    fn of(&self, stream: &TcpStream) -> &str {
        let known = || who::user_of(stream.peer_addr().ok()?, stream.local_addr().ok()?);
        let sees = match &self.see_jobs {
            SeeJobs::All => true,
            SeeJobs::Users(users) => known().is_some_and(|user| users.contains(&user)),
        };
        if sees { &self.jobs } else { &self.host }
    }
}

impl Metrics {
    /// Serves on `address` from now on.
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let (wake, other) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        let (texts, received) = channel();
        let thread = std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || Serving::new(listener, other, received, CONNECTION_MAX).run())?;
        Ok(Self { address, wake, texts, thread })
    }

    /// Ends the thread; its address is free when this returns. The thread never waits for a client, so that is soon.
    pub(crate) fn close(self) {
        drop(self.wake);
        // One that panicked has let go of its address as well.
        let _ = self.thread.join();
    }

    /// The address that was asked for.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether a text is wanted; forgets that it was.
    pub(crate) fn take_wanted(&mut self) -> bool {
        let mut bytes = [0; 64];
        matches!(self.wake.read(&mut bytes), Ok(1..))
    }

    /// Gives the texts.
    pub(crate) fn give(&mut self, texts: Texts) {
        // A thread that is gone needs none; one that is there has room for a byte, as it asks once at a time.
        let _ = self.texts.send(texts);
        let _ = self.wake.write(b"t");
    }
}

impl AsFd for Metrics {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// The thread's part.
struct Serving {
    listener: TcpListener,
    wake: UnixStream,
    texts: Receiver<Texts>,
    connections: Vec<Connection>,
    text: Option<(Moment, Texts)>,
    asked: bool,
    /// How long a connection may take.
    connection_max: Duration,
}

struct Connection {
    stream: TcpStream,
    until: Moment,
    stage: Stage,
}

enum Stage {
    /// The request as far as it has come.
    Reading(Vec<u8>),
    /// For the loop's text; without its body if only the head is wanted.
    Waiting {
        head_only: bool,
    },
    /// What is left to be sent.
    Writing(Vec<u8>),
    Over,
}

/// What a request is answered with.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    More,
    Figures { head_only: bool },
    Other { status: &'static str, text: &'static str },
}

impl Serving {
    fn new(
        listener: TcpListener,
        wake: UnixStream,
        texts: Receiver<Texts>,
        connection_max: Duration,
    ) -> Self {
        Self { listener, wake, texts, connections: Vec::new(), text: None, asked: false, connection_max }
    }

    fn run(mut self) {
        while self.wait() {
            if !self.hear_loop() {
                return;
            }
            for _ in 0..CONNECTIONS_MAX {
                if !self.make_room() {
                    break;
                }
                let Ok((stream, _)) = self.listener.accept() else { break };
                if stream.set_nonblocking(true).is_ok() {
                    let until = Moment::now() + self.connection_max;
                    self.connections.push(Connection { stream, until, stage: Stage::Reading(Vec::new()) });
                }
            }
            self.serve();
        }
    }

    /// Makes room for one more connection, if there is none, at the cost of the first that has not asked for anything yet;
    /// `false`: all of them have.
    fn make_room(&mut self) -> bool {
        if self.connections.len() < CONNECTIONS_MAX {
            return true;
        }
        // What it said meanwhile counts.
        self.connections.iter_mut().for_each(Connection::read);
        let silent = |connection: &Connection| matches!(connection.stage, Stage::Reading(_));
        let first = self.connections.iter().position(silent);
        first.map(|first| self.connections.remove(first)).is_some()
    }

    /// Waits until something can be done; `false`: the poll itself fails.
    fn wait(&self) -> bool {
        let now = Moment::now();
        let next = self.connections.iter().map(|connection| connection.until.saturating_duration_since(now));
        let limit = next.min().map(|limit| limit + Duration::from_millis(1));
        let mut wanted = vec![Wanted::input(&self.wake)];
        let silent = |connection: &Connection| matches!(connection.stage, Stage::Reading(_));
        if self.connections.len() < CONNECTIONS_MAX || self.connections.iter().any(silent) {
            wanted.push(Wanted::input(&self.listener));
        }
        for connection in &self.connections {
            wanted.push(match connection.stage {
                Stage::Reading(_) => Wanted::input(&connection.stream),
                Stage::Writing(_) => Wanted::output(&connection.stream),
                // Only its end is of interest.
                Stage::Waiting { .. } | Stage::Over => Wanted::end(&connection.stream),
            });
        }
        !ready::wait(wanted, limit).is_err_and(|error| error.kind() != std::io::ErrorKind::Interrupted)
    }

    /// Takes the loop's text; `false`: the loop has let go of the other end.
    fn hear_loop(&mut self) -> bool {
        let mut bytes = [0; 64];
        match self.wake.read(&mut bytes) {
            Ok(0) => return false,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return false,
            _ => {}
        }
        while let Ok(text) = self.texts.try_recv() {
            self.text = Some((Moment::now(), text));
            self.asked = false;
        }
        true
    }

    fn serve(&mut self) {
        let now = Moment::now();
        for connection in &mut self.connections {
            connection.read();
        }
        let waits = |connection: &Connection| matches!(connection.stage, Stage::Waiting { .. });
        if self.connections.iter().any(waits) {
            match &self.text {
                Some((made, texts)) if now.saturating_duration_since(*made) < FRESH => {
                    for connection in &mut self.connections {
                        if let Stage::Waiting { head_only } = connection.stage {
                            let text = texts.of(&connection.stream);
                            let answer = answer("200 OK", metrics::CONTENT_TYPE, text, head_only);
                            connection.stage = Stage::Writing(answer);
                        }
                    }
                }
                _ if self.asked => {}
                _ => self.asked = self.wake.write(b"w").is_ok(),
            }
        }
        for connection in &mut self.connections {
            connection.write();
        }
        self.connections
            .retain(|connection| !matches!(connection.stage, Stage::Over) && connection.until > now);
    }
}

impl Connection {
    fn read(&mut self) {
        let Stage::Reading(request) = &mut self.stage else { return };
        let mut buffer = [0; 2048];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return self.stage = Stage::Over,
                Ok(count) => request.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return self.stage = Stage::Over,
            }
            match asked(request) {
                Asked::More => {}
                Asked::Figures { head_only } => return self.stage = Stage::Waiting { head_only },
                Asked::Other { status, text } => {
                    return self.stage = Stage::Writing(answer(status, "text/plain", text, false));
                }
            }
        }
    }

    fn write(&mut self) {
        let Stage::Writing(rest) = &mut self.stage else { return };
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(sent) => drop(rest.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.stage = Stage::Over;
    }
}

/// What a request asks for, once it is whole.
fn asked(request: &[u8]) -> Asked {
    let other = |status, text| Asked::Other { status, text };
    let whole =
        request.windows(4).any(|end| end == b"\r\n\r\n") || request.windows(2).any(|end| end == b"\n\n");
    if !whole {
        return match request.len() {
            0..REQUEST_BYTES_MAX => Asked::More,
            _ => other("431 Request Header Fields Too Large", "the request is too long\n"),
        };
    }
    let line = request.split(|&byte| byte == b'\n').next().unwrap_or(&[]);
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let (method, target, version) = (words.next(), words.next(), words.next());
    let path = target.map(|target| target.split('?').next().unwrap_or(target));
    match (method, path, version) {
        (Some(method @ ("GET" | "HEAD")), Some("/metrics"), Some(version))
            if version.starts_with("HTTP/1.") =>
        {
            Asked::Figures { head_only: method == "HEAD" }
        }
        (Some("GET" | "HEAD"), Some(_), Some(_)) => other("404 Not Found", "the figures are at /metrics\n"),
        (Some(_), Some(_), Some(_)) => other("405 Method Not Allowed", "only GET is answered\n"),
        _ => other("400 Bad Request", "not a request in HTTP/1.1\n"),
    }
}

fn answer(status: &str, kind: &str, text: &str, head_only: bool) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    let mut answer = head.into_bytes();
    if !head_only {
        answer.extend_from_slice(text.as_bytes());
    }
    answer
}

/// How jobs end, as it is counted and told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    Succeeded,
    Failed,
    Killed,
    NotStarted,
}

impl How {
    /// Each with its name.
    const ALL: [(Self, &'static str); 4] = [
        (Self::Succeeded, "succeeded"),
        (Self::Failed, "failed"),
        (Self::Killed, "killed"),
        (Self::NotStarted, "not_started"),
    ];

    fn of(row: &JobRow) -> Self {
        match row.ending {
            _ if row.started_us.is_none() => Self::NotStarted,
            Some(ending) if ending.signal.is_some() => Self::Killed,
            Some(_) if row.ended_well() => Self::Succeeded,
            _ => Self::Failed,
        }
    }
}

/// Jobs that ended, by how.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ended([u64; How::ALL.len()]);

impl Ended {
    /// One more.
    pub(crate) fn count(&mut self, row: &JobRow) {
        self.0[How::of(row) as usize] += 1;
    }

    /// How many, by name.
    pub(crate) fn by_name(self) -> [(&'static str, u64); How::ALL.len()] {
        How::ALL.map(|(how, name)| (name, self.0[how as usize]))
    }
}

#[cfg(test)]
mod tests;
