//! What a worker thread has to say to the loop: a queue, and a descriptor that becomes readable when something is in it.
//! The loop never waits for it. Absent here: what is said, and how workers get their orders.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The loop's end.
#[derive(Debug)]
pub(crate) struct Reports<T> {
    received: Receiver<T>,
    tell: Sender<T>,
    /// A byte for what is there.
    wake: UnixStream,
    waker: Arc<UnixStream>,
}

/// A worker's end.
#[derive(Debug)]
pub(crate) struct Reporter<T> {
    tell: Sender<T>,
    waker: Arc<UnixStream>,
}

impl<T> Reports<T> {
    /// A queue with nothing in it.
    ///
    /// # Errors
    /// When no pair of sockets can be made.
    pub(crate) fn new() -> io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        // Bytes that are not read yet wake the loop as well as one more would.
        waker.set_nonblocking(true)?;
        let (tell, received) = channel();
        Ok(Self { received, tell, wake, waker: Arc::new(waker) })
    }

    /// An end for a worker.
    pub(crate) fn reporter(&self) -> Reporter<T> {
        Reporter { tell: self.tell.clone(), waker: Arc::clone(&self.waker) }
    }

    /// All that was said since the last time.
    pub(crate) fn take(&mut self) -> Vec<T> {
        let mut bytes = [0; 64];
        while matches!(self.wake.read(&mut bytes), Ok(1..)) {}
        self.received.try_iter().collect()
    }

    /// The next word, for a daemon that ends and has no loop any more; `None`: there is none within `limit`.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<T> {
        self.received.recv_timeout(limit).ok()
    }
}

impl<T> AsFd for Reports<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl<T> Reporter<T> {
    /// Says something; `false`: nobody is left to hear it.
    pub(crate) fn say(&self, word: T) -> bool {
        let heard = self.tell.send(word).is_ok();
        let _ = (&*self.waker).write(b"r");
        heard
    }
}
