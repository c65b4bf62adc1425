//! What a power cut must not take: effects that wait until their cause is on the disk itself, not only in the kernel's
//! memory of it.
//!
//! A commit of the store outlives this process, but not the host, until its log is flushed. That takes as long as the
//! disk takes, so a thread does it, once for all that a turn of the loop wrote; what waits for it is given back as an
//! event, and the loop goes on meanwhile. Which effects wait is in docs/store.md; those of jobs that would not come back
//! after a restart of the host are none of them.
//!
//! Owns what waits, and the thread. Absent: writing (the journal and the kept starts do that), and a disk that refuses:
//! then nothing waits any more, jobs go on, and users are told.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use pinfold_policy::JobId;
use pinfold_proto::start::Start;
use pinfold_proto::wire::Reply;

use crate::core::event::ConnectionId;

/// What follows once all that was written before it is on disk.
#[derive(Debug)]
pub(crate) enum After {
    /// A job begins.
    Begin(JobId),
    /// An answer.
    Reply(ConnectionId, Box<Reply>),
    /// An answer that is made already.
    Frame(ConnectionId, Vec<u8>),
    /// The start of a job of this user is kept.
    KeepStart(JobId, u32, Box<Start>),
    /// A job, or a member of an array, is over, and needs its start no more.
    EndStart(JobId),
}

/// What is to be flushed.
#[derive(Debug, Default)]
struct Order {
    number: u64,
    /// Files that are flushed right behind the store's log: what waits follows only then.
    with_log: Vec<PathBuf>,
    /// Files behind that, on which nothing waits; with the directory in which each lies.
    files: Vec<PathBuf>,
}

/// What came of it.
#[derive(Debug)]
struct Outcome {
    number: u64,
    error: Option<String>,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Durable {
    log: PathBuf,
    /// Since the last order.
    wanted: bool,
    after: Vec<After>,
    with_log: Vec<PathBuf>,
    files: Vec<PathBuf>,
    /// Under way, by the number of the order, oldest first.
    sent: VecDeque<(u64, Vec<After>)>,
    last_order: u64,
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    tell: Sender<Outcome>,
    outcomes: Receiver<Outcome>,
    wake: UnixStream,
    waker: UnixStream,
    trouble: Option<String>,
}

impl Durable {
    /// For the store whose log this is.
    pub(crate) fn new(log: PathBuf) -> io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        let (tell, outcomes) = channel();
        Ok(Self {
            log,
            wanted: false,
            after: Vec::new(),
            with_log: Vec::new(),
            files: Vec::new(),
            sent: VecDeque::new(),
            last_order: 0,
            orders: None,
            thread: None,
            tell,
            outcomes,
            wake,
            waker,
            trouble: None,
        })
    }

    /// Lets something follow once all is on disk that is written by the end of this turn.
    pub(crate) fn after(&mut self, after: After) {
        self.after.push(after);
        self.wanted = true;
    }

    /// Has all that is written by the end of this turn brought to disk, though nothing waits for it.
    pub(crate) fn soon(&mut self) {
        self.wanted = true;
    }

    /// Whether something that waits for the disk is not there yet: what is read from the store may be that.
    pub(crate) fn is_behind(&self) -> bool {
        self.wanted || !self.sent.is_empty()
    }

    /// Has a file brought to disk, behind the store.
    pub(crate) fn file(&mut self, path: PathBuf) {
        self.files.push(path);
        self.wanted = true;
    }

    /// Has a file brought to disk right behind the store's log, before anything follows that waits for that.
    pub(crate) fn with_log(&mut self, path: PathBuf) {
        self.with_log.push(path);
        self.wanted = true;
    }

    /// What users should know of it, in words.
    pub(crate) fn warning(&self) -> Option<String> {
        self.trouble.as_ref().map(|why| format!("what is written cannot be brought to disk: {why}"))
    }

    /// The turn is over and written: hands over what is wanted. Gives what follows at once, because the store was not
    /// written, or nobody can flush it.
    pub(crate) fn turn_over(&mut self, written: bool) -> Vec<After> {
        if !std::mem::take(&mut self.wanted) {
            return Vec::new();
        }
        let (after, files) = (std::mem::take(&mut self.after), std::mem::take(&mut self.files));
        let with_log = std::mem::take(&mut self.with_log);
        if !written {
            return after;
        }
        self.last_order += 1;
        match self.hand_over(Order { number: self.last_order, with_log, files }) {
            Ok(()) => {
                self.sent.push_back((self.last_order, after));
                Vec::new()
            }
            Err(error) => {
                self.failed(&format!("no thread can be started: {error}"));
                after
            }
        }
    }

    fn hand_over(&mut self, order: Order) -> io::Result<()> {
        if self.orders.is_none() {
            let (orders, received) = channel();
            let (tell, waker, log) = (self.tell.clone(), self.waker.try_clone()?, self.log.clone());
            let life = move || obey(&Disk, &log, &received, &tell, &waker);
            self.thread = Some(std::thread::Builder::new().name("flush".to_owned()).spawn(life)?);
            self.orders = Some(orders);
        }
        let sent = self.orders.as_ref().map(|orders| orders.send(order));
        sent.and_then(Result::ok).ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    /// What follows now.
    pub(crate) fn done(&mut self) -> Vec<After> {
        let mut buffer = [0; 64];
        while matches!((&self.wake).read(&mut buffer), Ok(count) if count > 0) {}
        let mut follows = Vec::new();
        while let Ok(outcome) = self.outcomes.try_recv() {
            match &outcome.error {
                Some(error) => self.failed(error),
                None => self.trouble = None,
            }
            while self.sent.front().is_some_and(|&(number, _)| number <= outcome.number) {
                follows.extend(self.sent.pop_front().into_iter().flat_map(|(_, after)| after));
            }
        }
        follows
    }

    fn failed(&mut self, error: &str) {
        if self.trouble.as_deref() != Some(error) {
            tracing::error!(
                error,
                "what is written cannot be brought to disk; jobs go on, a power cut may undo it"
            );
        }
        self.trouble = Some(error.to_owned());
    }

    /// Waits for what is under way: the daemon ends.
    pub(crate) fn close(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl AsFd for Durable {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// What is flushed; one that remembers in tests.
trait Flush {
    /// The content of a file, with its length. One that is gone needs it no more.
    fn file(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory.
    fn directory(&self, path: &Path) -> io::Result<()>;
}

/// The kernel's.
struct Disk;

impl Flush for Disk {
    fn file(&self, path: &Path) -> io::Result<()> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        let bytes = file.metadata()?.len();
        file.sync_data()?;
        tracing::debug!(target: "pinfoldd::durable", path = %path.display(), bytes, "on disk");
        Ok(())
    }

    fn directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// How many files are flushed at most before the store's log is again: others wait for that.
const FILES_AT_ONCE: usize = 16;

/// The thread's life.
fn obey(disk: &impl Flush, log: &Path, orders: &Receiver<Order>, tell: &Sender<Outcome>, waker: &UnixStream) {
    let mut files: VecDeque<PathBuf> = VecDeque::new();
    loop {
        // With files left to flush it only looks for what else is wanted.
        let first = if files.is_empty() { orders.recv().ok() } else { orders.try_recv().ok() };
        if first.is_none() && files.is_empty() {
            return;
        }
        let (mut number, mut with_log) = (None, Vec::new());
        for order in first.into_iter().chain(std::iter::from_fn(|| orders.try_recv().ok())) {
            number = Some(order.number);
            with_log.extend(order.with_log);
            files.extend(order.files);
        }
        if let Some(number) = number {
            // All that was written before these orders were given. The log comes first.
            let flushed =
                |path: &Path| disk.file(path).map_err(|error| format!("{}: {error}", path.display()));
            let error = flushed(log).and_then(|()| with_log.iter().try_for_each(|path| flushed(path))).err();
            if tell.send(Outcome { number, error }).is_err() {
                return;
            }
            let mut waker = waker;
            let _ = waker.write_all(b"f");
        }
        let some: Vec<PathBuf> = files.drain(..files.len().min(FILES_AT_ONCE)).collect();
        flush_files(disk, &some);
    }
}

/// Nothing waits for these.
fn flush_files(disk: &impl Flush, files: &[PathBuf]) {
    let mut directories: Vec<&Path> = files.iter().filter_map(|path| path.parent()).collect();
    directories.dedup();
    let done = files.iter().try_for_each(|path| disk.file(path));
    if let Err(error) = done.and_then(|()| directories.iter().try_for_each(|path| disk.directory(path))) {
        tracing::warn!(%error, "what jobs were handed over with may not outlive a power cut");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Remembers what was flushed.
    #[derive(Default)]
    struct Remembers(RefCell<Vec<String>>);

    impl Flush for Remembers {
        fn file(&self, path: &Path) -> io::Result<()> {
            self.0.borrow_mut().push(path.display().to_string());
            if path.ends_with("broken") { Err(io::Error::other("no medium")) } else { Ok(()) }
        }

        fn directory(&self, path: &Path) -> io::Result<()> {
            self.0.borrow_mut().push(format!("{}/", path.display()));
            Ok(())
        }
    }

    /// What the thread does with these files of so many orders that were given before it looked.
    fn obeyed(log: &str, orders: &[&[&str]]) -> (Vec<String>, Vec<Outcome>) {
        let (send, received) = channel();
        let (tell, outcomes) = channel();
        let (_wake, waker) = UnixStream::pair().expect("sockets");
        for (number, files) in (1..).zip(orders) {
            // What begins with `spare` goes with the log.
            let (with_log, files) =
                files.iter().map(PathBuf::from).partition(|path| path.starts_with("spare"));
            send.send(Order { number, with_log, files }).expect("it is heard");
        }
        drop(send);
        let disk = Remembers::default();
        obey(&disk, Path::new(log), &received, &tell, &waker);
        drop(tell);
        (disk.0.into_inner(), outcomes.iter().collect())
    }

    #[test]
    fn what_was_ordered_meanwhile_is_flushed_at_once_and_the_store_first() {
        let (flushed, outcomes) = obeyed("wal", &[&[], &["s/1"], &["s/2"]]);
        assert_eq!(flushed, ["wal", "s/1", "s/2", "s/"]);
        assert!(matches!(outcomes[..], [Outcome { number: 3, error: None }]), "{outcomes:?}");
        let (_, outcomes) = obeyed("broken", &[&[]]);
        let error = outcomes[0].error.as_deref().expect("it failed");
        assert!(error.contains("broken: no medium"), "{error}");
    }

    /// The store's log has all that was kept elsewhere before that is given up, and what waits follows behind both.
    #[test]
    fn what_goes_with_the_log_is_flushed_behind_it_before_anything_follows() {
        let (flushed, outcomes) = obeyed("wal", &[&["s/1"], &["spare"]]);
        assert_eq!(flushed, ["wal", "spare", "s/1", "s/"]);
        assert!(matches!(outcomes[..], [Outcome { number: 2, error: None }]), "{outcomes:?}");
        let (_, outcomes) = obeyed("wal", &[&["spare/broken"]]);
        let error = outcomes[0].error.as_deref().expect("it is told with what waits");
        assert!(error.contains("spare/broken: no medium"), "{error}");
        assert_eq!(obeyed("broken", &[&["spare"]]).0, ["broken"], "the store may need it yet");
    }

    #[test]
    fn nothing_waits_for_a_disk_that_refuses() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut durable = Durable::new(dir.path().join("wal")).expect("sockets");
        assert!(!durable.is_behind());
        durable.after(After::Begin(JobId(1)));
        assert!(durable.is_behind());
        let follows = durable.turn_over(false);
        assert!(matches!(follows[..], [After::Begin(JobId(1))]) && !durable.is_behind(), "{follows:?}");
    }

    #[test]
    fn what_waits_follows_in_order() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut durable = Durable::new(dir.path().join("wal")).expect("sockets");
        for job in 1..=3 {
            durable.after(After::Begin(JobId(job)));
            assert!(durable.turn_over(true).is_empty(), "it waits");
        }
        durable.close();
        let follows: Vec<u64> = durable
            .done()
            .into_iter()
            .map(|after| match after {
                After::Begin(job) => job.0,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!((follows, durable.is_behind()), (vec![1, 2, 3], false));
    }
}
