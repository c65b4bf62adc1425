//! A listening Unix socket whose clients pass no descriptors to this process.
//!
//! A client may send descriptors along with its bytes (`SCM_RIGHTS`) and close its own copies. The kernel then closes
//! them for good as their bytes are read, or as the connection is closed. A close may wait: for a TCP socket with
//! `SO_LINGER` as long as the client chose. From Linux 6.16 on the kernel refuses to pass descriptors
//! (`SO_PASSRIGHTS`). On an older kernel a peek, which closes nothing, precedes each read, and a [`Closer`] closes a
//! connection with descriptors. Absent here: descriptors that are wanted (`ancillary`).

use std::io::{self, IoSliceMut, Read as _};
use std::mem::ManuallyDrop;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, ReturnFlags, SocketAddrUnix, SocketFlags, SocketType,
    recvmsg, sockopt,
};

/// `include/uapi/asm-generic/socket.h`.
const SO_PASSRIGHTS: i32 = 83;

/// The size of the pieces in which received data is inspected when a connection is closed, in bytes,
const PIECE: usize = 64 * 1024;

/// and the most pieces. Usually there is none.
const PIECES_MAX: usize = 4;

/// The pause before another attempt to start a thread.
const PAUSE: Duration = Duration::from_secs(1);

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    /// There until this is dropped.
    inner: Option<UnixListener>,
    /// Whether the kernel refuses to pass descriptors to its connections.
    refuses: bool,
}

/// A connection with a client. Dropped where descriptors may wait in it, it stays open until this process ends.
#[derive(Debug)]
pub struct Incoming {
    /// There until this is closed.
    stream: Option<UnixStream>,
    refuses: bool,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    /// The number of bytes; 0: the client sends no more.
    Bytes(usize),
    /// Descriptors come with the next bytes, or right behind them; nothing was read.
    Passed,
}

/// A connection in which descriptors may wait. Dropped, it stays open until this process ends.
#[derive(Debug)]
pub struct Held(ManuallyDrop<UnixStream>);

impl Listener {
    /// Listens at `path`, without blocking.
    ///
    /// # Errors
    /// A system error; a path of more than 107 bytes (`ENAMETOOLONG`).
    pub fn bind(path: &Path) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Before any client can connect: connections inherit the listener's setting.
        let refuses = refuse(&socket);
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        // The kernel's largest backlog.
        rustix::net::listen(&socket, -1)?;
        Ok(Self { inner: Some(UnixListener::from(socket)), refuses })
    }

    /// From now on accepts connections as on a kernel that passes descriptors. For tests.
    ///
    /// # Errors
    /// A system error.
    pub fn admit(&mut self) -> io::Result<()> {
        self.refuses = false;
        match set_pass_rights(&self.as_fd(), true) {
            Err(error) if error.raw_os_error() != Some(libc::ENOPROTOOPT) => Err(error),
            _ => Ok(()),
        }
    }

    /// The next connection, which does not block either.
    ///
    /// # Errors
    /// A system error; `WouldBlock`: no client waits.
    pub fn accept(&self) -> io::Result<Incoming> {
        let listener = self.inner.as_ref().expect("there until it is dropped");
        let (stream, _) = listener.accept()?;
        let incoming = Incoming { stream: Some(stream), refuses: self.refuses };
        incoming.stream().set_nonblocking(true)?;
        if !self.refuses {
            // Otherwise a read drops an out-of-band byte together with its descriptors.
            sockopt::set_socket_oobinline(incoming.stream(), true)?;
        }
        Ok(incoming)
    }

    /// Closes a listener that no client can reach by its path any more.
    ///
    /// # Errors
    /// The listener: connections still wait to be accepted, possibly with descriptors.
    pub fn close(mut self) -> Result<(), Self> {
        match crate::ready::readable(&self, Some(Duration::ZERO)) {
            Ok(false) => {
                drop(self.inner.take());
                Ok(())
            }
            _ => Err(self),
        }
    }
}

/// Whether a process listens on this path, or may; does not wait.
#[must_use]
pub fn has_listener(path: &Path) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let tried = socket.and_then(|socket| rustix::net::connect(&socket, &SocketAddrUnix::new(path)?));
    !matches!(tried, Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT))
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_ref().expect("there until it is dropped").as_fd()
    }
}

impl Drop for Listener {
    /// Unaccepted connections may have descriptors; the end of the process waits for none of them.
    fn drop(&mut self) {
        if !self.refuses {
            std::mem::forget(self.inner.take());
        }
    }
}

impl Incoming {
    /// The connection, for writes and polls. Reading without [`Self::read`] closes passed descriptors.
    #[must_use]
    pub fn stream(&self) -> &UnixStream {
        self.stream.as_ref().expect("there until it is closed")
    }

    /// Reads received bytes.
    ///
    /// # Errors
    /// A system error; `WouldBlock`: nothing has arrived.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Got> {
        let mut stream = self.stream();
        if self.refuses {
            return stream.read(buffer).map(Got::Bytes);
        }
        match look(stream, buffer)? {
            // Exactly the inspected bytes: later bytes are not inspected.
            Got::Bytes(count) if count > 0 => stream.read(&mut buffer[..count]).map(Got::Bytes),
            other => Ok(other),
        }
    }

    /// Ends the connection. Returns it where descriptors may wait in it, for a [`Closer`].
    #[must_use]
    pub fn close(mut self) -> Option<Held> {
        self.take()
    }

    fn take(&mut self) -> Option<Held> {
        let stream = self.stream.take()?;
        let holds = !self.refuses && may_hold(&stream);
        holds.then(|| Held(ManuallyDrop::new(stream)))
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let _ = self.take();
    }
}

impl Held {
    fn close(self) {
        drop(ManuallyDrop::into_inner(self.0));
    }
}

/// The result of a read. Closes nothing: the bytes and their descriptors stay.
fn look(stream: &UnixStream, buffer: &mut [u8]) -> io::Result<Got> {
    let mut no_room = RecvAncillaryBuffer::default();
    let seen = recvmsg(stream, &mut [IoSliceMut::new(buffer)], &mut no_room, RecvFlags::PEEK)?;
    let passed = seen.flags.contains(ReturnFlags::CTRUNC);
    Ok(if passed { Got::Passed } else { Got::Bytes(seen.bytes) })
}

/// Ends a connection and drains it; returns whether it may have descriptors.
fn may_hold(stream: &UnixStream) -> bool {
    // The client sends no more from here on, and sees the end.
    if stream.shutdown(Shutdown::Both).is_err() {
        return true;
    }
    let mut buffer = [0; PIECE];
    for _ in 0..PIECES_MAX {
        match look(stream, &mut buffer) {
            Ok(Got::Bytes(0)) => return false,
            Ok(Got::Bytes(count)) => {
                let mut stream = stream;
                let _ = stream.read(&mut buffer[..count]);
            }
            Ok(Got::Passed) => return true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Err(_) => {}
        }
    }
    true
}

/// Closes connections in which descriptors may wait, so that no caller waits.
///
/// A thread that ends closes the descriptors of its private table. The kernel waits for no lingering socket then.
/// Should the kernel wait all the same, only this thread waits, without any other descriptor of this process.
#[derive(Debug, Default)]
pub struct Closer {
    orders: Option<Sender<Held>>,
    /// No thread could be had for these so far.
    waiting: Vec<Held>,
}

impl Closer {
    /// Queues a connection to be closed. If no thread can be started, it is closed with a later one.
    pub fn close(&mut self, held: Held) {
        self.waiting.push(held);
        if self.orders.is_none() {
            let (orders, received) = channel();
            let thread = std::thread::Builder::new().name("closing".to_owned());
            if thread.spawn(move || obey(&received)).is_err() {
                return;
            }
            self.orders = Some(orders);
        }
        let Some(orders) = &self.orders else { return };
        self.waiting.drain(..).for_each(|held| drop(orders.send(held)));
    }
}

/// The life of the thread that hands them on.
fn obey(orders: &Receiver<Held>) {
    while let Ok(first) = orders.recv() {
        let mut held: Vec<Held> = std::iter::once(first).chain(orders.try_iter()).collect();
        while let Err(back) = close_apart(held) {
            held = back;
            std::thread::sleep(PAUSE);
        }
    }
}

/// Closes connections in a thread that ends; returns them if no thread can be started.
fn close_apart(held: Vec<Held>) -> Result<(), Vec<Held>> {
    let mut kept: Vec<RawFd> = held.iter().map(|held| held.0.as_raw_fd()).collect();
    kept.sort_unstable();
    let ((tell, told), (hand, handed)) = (channel(), channel::<Vec<Held>>());
    let thread = std::thread::Builder::new().name("closes".to_owned());
    let spawned = thread.spawn(move || {
        let _ = tell.send(own_table(&kept).is_ok());
        // The thread ends once it alone has them, or closes them itself.
        handed.into_iter().flatten().for_each(Held::close);
    });
    if spawned.is_err() {
        return Err(held);
    }
    if told.recv() == Ok(true) {
        held.into_iter().for_each(Held::close);
    } else {
        let _ = hand.send(held);
    }
    Ok(())
}

/// Gives this thread a private table of descriptors with `kept` (ascending) alone. They are closed as it ends.
fn own_table(kept: &[RawFd]) -> io::Result<()> {
    #[expect(unsafe_code, reason = "no safe binding")]
    // SAFETY: the call takes a number only. From here on this thread uses descriptors by number only.
    if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut first = 0;
    for &fd in kept {
        if first < fd {
            close_range(first, fd - 1);
        }
        first = fd + 1;
    }
    close_range(first, RawFd::MAX);
    Ok(())
}

/// Closes descriptors of this thread's table. A kernel before 5.9 lacks the call; they are closed as the thread ends.
fn close_range(first: RawFd, last: RawFd) {
    #[expect(unsafe_code, reason = "no safe binding")]
    // SAFETY: the caller has made the table this thread's own, and nothing in this thread uses the closed descriptors.
    unsafe {
        libc::syscall(libc::SYS_close_range, first, last, 0);
    }
}

/// Makes the kernel refuse to pass descriptors to this socket; returns whether it can.
fn refuse(socket: &OwnedFd) -> bool {
    set_pass_rights(&socket.as_fd(), false).is_ok()
}

fn set_pass_rights(socket: &BorrowedFd<'_>, on: bool) -> io::Result<()> {
    let (value, length) = (i32::from(on), libc::socklen_t::try_from(size_of::<i32>()).expect("it is four"));
    #[expect(unsafe_code, reason = "no safe binding for this option")]
    // SAFETY: the kernel reads `length` bytes of `value`, which outlives the call.
    let result = unsafe {
        let from = (&raw const value).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, SO_PASSRIGHTS, from, length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests;
