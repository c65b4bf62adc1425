//! A keeper's line to a daemon: there, or lost and looked for.
//!
//! Absent here: the messages on it, and news of it.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pinfold_proto::wire::{Reply, Request};
use pinfold_sys::ready::Wanted;
use pinfold_sys::whereabouts;

use super::link::Link;
use pinfold_client::{Dial, Welcome};

/// The first interval of looking for a lost daemon; a look is a single `connect`.
const RETRY: Duration = Duration::from_millis(100);

/// The last interval of looks for a daemon: a daemon without room for more keepers must have time for others.
const RETRY_MAX: Duration = Duration::from_secs(1);

/// How long a daemon that is back may take to answer the greeting.
const WELCOME_MAX: Duration = Duration::from_secs(5);

/// Without a daemon for this time, a keeper may start a daemon itself.
const AUTOSTART_AFTER: Duration = Duration::from_millis(1500);

/// See the module's page.
pub(super) struct Line {
    dial: Dial,
    link: Option<Link>,
    lost_since: Instant,
    next_try: Instant,
    /// Whether the daemon's absence was reported.
    told_away: bool,
    /// The daemon that has the jobs, by the name of its groups
    instance: String,
    /// and by its state directory.
    state: PathBuf,
    /// Another daemon on its socket, if present.
    stranger: Option<Stranger>,
    /// Whether a daemon started from here would have the jobs of the lost daemon.
    replaceable: bool,
}

/// Which file a socket is: device, inode and the time of its last change. Each daemon makes its own.
type FileId = (u64, u64, i64, i64);

/// A daemon on the same socket that has another state. News of the jobs here would get them nowhere, and
/// their own daemon would never learn how they end.
struct Stranger {
    /// Its socket, and which file that was.
    socket: PathBuf,
    file: Option<FileId>,
    state: PathBuf,
}

/// The daemon is gone, or its words cannot be understood.
#[derive(Debug)]
pub(super) struct Gone;

/// The result of a look for a lost daemon.
pub(super) enum Looked {
    /// No daemon is lost, or the lost daemon is not back.
    NotYet,
    /// The daemon has been away for some time, and may not be started from here. Told once.
    Away,
    /// A daemon is there again.
    Found { welcome: Welcome, another: bool },
}

impl Line {
    /// A line on which the daemon has answered the greeting.
    pub(super) fn new(dial: Dial, link: Link, welcome: &Welcome) -> io::Result<Self> {
        link.stream.set_nonblocking(true)?;
        let now = Instant::now();
        Ok(Self {
            replaceable: dial.could_replace(&welcome.state),
            dial,
            link: Some(link),
            lost_since: now,
            next_try: now,
            told_away: false,
            instance: welcome.instance.clone(),
            state: welcome.state.clone(),
            stranger: None,
        })
    }

    /// Where the daemon is.
    pub(super) fn socket(&self) -> &Path {
        self.dial.socket()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.link.is_none()
    }

    /// How long no daemon has been there; `None`: a daemon is there.
    pub(super) fn alone_for(&self) -> Option<Duration> {
        self.is_lost().then(|| self.lost_since.elapsed())
    }

    /// Whether the state of the daemon was removed.
    pub(super) fn state_is_gone(&self) -> bool {
        std::fs::symlink_metadata(&self.state).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// When to look again for a daemon that is lost.
    pub(super) fn retry_in(&self) -> Option<Duration> {
        self.is_lost().then(|| self.next_try.saturating_duration_since(Instant::now()))
    }

    /// The events to wait for.
    pub(super) fn wanted(&self) -> Option<Wanted<'_>> {
        let link = self.link.as_ref()?;
        Some(if link.out.is_empty() { Wanted::input(&link.stream) } else { Wanted::both(&link.stream) })
    }

    /// Sends a request with the next flush. Without a daemon nothing is lost: every job is presented anew to the next
    /// daemon.
    pub(super) fn send(&mut self, request: &Request) {
        if let Some(link) = &mut self.link {
            link.push(request);
        }
    }

    /// Writes as much as the socket takes.
    pub(super) fn flush(&mut self) -> Result<(), Gone> {
        let Some(link) = &mut self.link else { return Ok(()) };
        while !link.out.is_empty() {
            match link.stream.write(&link.out) {
                Ok(count) => drop(link.out.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    link.out.clear();
                    return Err(Gone);
                }
            }
        }
        Ok(())
    }

    /// Reads once; says whether any message had arrived.
    pub(super) fn read(&mut self) -> Result<bool, Gone> {
        let mut buffer = [0; 16 * 1024];
        let Some(link) = &mut self.link else { return Ok(false) };
        loop {
            match link.read(&mut buffer) {
                Ok(0) => return Err(Gone),
                Ok(_) => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone),
            }
        }
    }

    /// The next reply that has arrived in full.
    pub(super) fn next(&mut self) -> Result<Option<Reply>, Gone> {
        let Some(link) = &mut self.link else { return Ok(None) };
        link.decoder.take::<Reply>().map_err(|_| Gone)
    }

    /// The next `count` files that came along with messages.
    pub(super) fn doors(&mut self, count: usize) -> Vec<OwnedFd> {
        match &mut self.link {
            Some(link) => link.doors.drain(..count.min(link.doors.len())).collect(),
            None => Vec::new(),
        }
    }

    /// Gives the daemon up; says whether there was a daemon.
    pub(super) fn lose(&mut self) -> bool {
        if self.link.take().is_none() {
            return false;
        }
        self.lost_since = Instant::now();
        self.next_try = self.lost_since;
        self.told_away = false;
        true
    }

    /// Looks for a lost daemon, if a look is due.
    pub(super) fn look(&mut self) -> Looked {
        let now = Instant::now();
        if !self.is_lost() || now < self.next_try {
            return Looked::NotYet;
        }
        self.next_try = now + pause_after(now.duration_since(self.lost_since));
        let Some((stream, socket, file)) = self.stream(now) else { return self.stays_away(now) };
        let Some((link, welcome)) = greeted(stream) else { return Looked::NotYet };
        let another = welcome.instance != self.instance;
        if another && !whereabouts::is_same(&welcome.state, &self.state) {
            // By its state before it was asked: another daemon may have taken its place since, and is looked at then.
            self.stranger = Some(Stranger { socket, file, state: welcome.state });
            self.told_away = false;
            return self.stays_away(now);
        }
        (self.link, self.stranger) = (Some(link), None);
        self.replaceable = self.dial.could_replace(&welcome.state);
        self.instance.clone_from(&welcome.instance);
        self.state.clone_from(&welcome.state);
        Looked::Found { welcome, another }
    }

    /// The daemon is not back; says once, after a while, that it stays away.
    fn stays_away(&mut self, now: Instant) -> Looked {
        let waits = self.stranger.is_some() || !self.replaceable;
        let stays_away = waits && now.duration_since(self.lost_since) >= AUTOSTART_AFTER;
        if stays_away && !std::mem::replace(&mut self.told_away, true) {
            Looked::Away
        } else {
            Looked::NotYet
        }
    }

    /// A connection to the daemon that was lost, if it is back, also where it listens elsewhere now; with the socket and
    /// which file that was before. After a while a private daemon takes its place, but only on the same state: a daemon that
    /// was started by hand elsewhere would find its socket taken when it comes back, and its jobs forgotten.
    fn stream(&self, now: Instant) -> Option<(UnixStream, PathBuf, Option<FileId>)> {
        let is_late = now.duration_since(self.lost_since) >= AUTOSTART_AFTER;
        let own = self.dial.socket().to_owned();
        let file = socket_file(&own);
        // A connection to another user's daemon would keep a private daemon from its end.
        let is_strangers = self.is_strangers(&own, file);
        if !is_strangers && let Some(stream) = self.dial.stream_if_there() {
            return Some((stream, own, file));
        }
        if let Some(other) = self.dial.elsewhere(&self.state) {
            let file = socket_file(&other);
            let stream = if self.is_strangers(&other, file) { None } else { self.dial.stream_on(&other) };
            if let Some(stream) = stream {
                return Some((stream, other, file));
            }
        }
        if !self.replaceable || !is_late || is_strangers {
            return None;
        }
        self.dial.stream().ok().map(|stream| (stream, own, file))
    }

    /// Whether the socket is known for that of a daemon on another state.
    fn is_strangers(&self, socket: &Path, file: Option<FileId>) -> bool {
        let is = |stranger: &Stranger| stranger.socket == socket && stranger.file == file && file.is_some();
        self.stranger.as_ref().is_some_and(is)
    }

    /// The words for a daemon that stays away.
    pub(super) fn away(&self) -> String {
        let socket = self.dial.socket();
        match &self.stranger {
            Some(stranger) => format!(
                "another daemon listens on {}, with its state in {}; stop it and start the one that has the job: `{}`",
                stranger.socket.display(),
                stranger.state.display(),
                whereabouts::command(socket, &self.state)
            ),
            None => format!(
                "the daemon on {} is still away, and only its owner can start it again; waiting for it",
                socket.display()
            ),
        }
    }
}

/// The pause between two looks for a daemon that has been away for this time.
fn pause_after(away: Duration) -> Duration {
    (away / 10).clamp(RETRY, RETRY_MAX)
}

/// See [`FileId`]; `None`: nothing is there.
fn socket_file(socket: &Path) -> Option<FileId> {
    let found = std::fs::symlink_metadata(socket).ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

/// A link on which a daemon that is back has answered. A daemon that does not answer in time is asked anew: signals and
/// children wait meanwhile.
fn greeted(stream: UnixStream) -> Option<(Link, Welcome)> {
    let mut link = Link::greet(stream, None).ok()?;
    link.stream.set_read_timeout(Some(WELCOME_MAX)).ok()?;
    let welcome = link.welcome().ok()?;
    link.stream.set_nonblocking(true).ok()?;
    Some((link, welcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_stays_away_is_looked_for_less_often() {
        let pauses = [0, 900, 2_000, 60_000].map(|away| pause_after(Duration::from_millis(away)).as_millis());
        assert_eq!(pauses, [100, 100, 200, 1_000]);
    }
}
