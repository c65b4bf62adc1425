//! A listening Unix socket whose clients pass no descriptors to this process.
//!
//! A client may send descriptors along with its bytes (`SCM_RIGHTS`) and close its own copies. The kernel then closes
//! them for good as their bytes are read, or as the connection is closed. Such a close may wait: that of a TCP socket
//! with `SO_LINGER` for as long as the client chose. From Linux 6.16 on the kernel refuses to pass them
//! (`SO_PASSRIGHTS`). On an older one each read is preceded by a look, which closes nothing, and a [`Closer`] closes a
//! connection that has some. Absent here: descriptors that are wanted (`ancillary`).

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

/// What a client has sent is looked at in pieces of this size when its connection is closed, in bytes,
const PIECE: usize = 64 * 1024;

/// and in so many pieces. Usually there is nothing.
const PIECES_MAX: usize = 4;

/// How long it takes until a thread is asked for again that cannot be had.
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

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Got {
    /// So many bytes; 0: the client sends no more.
    Bytes(usize),
    /// Descriptors come with the next bytes, or with those right behind them; nothing was read.
    Passed,
}

/// A connection in which descriptors may wait. Dropped, it stays open until this process ends.
#[derive(Debug)]
pub struct Held(ManuallyDrop<UnixStream>);

impl Listener {
    /// Listens at `path`, without blocking.
    ///
    /// # Errors
    /// What the kernel says; a path of more than 107 bytes (`ENAMETOOLONG`).
    pub fn bind(path: &Path) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Before anyone can connect: connections have what the listener has at that time.
        let refuses = refuse(&socket);
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        // As many as the kernel lets wait.
        rustix::net::listen(&socket, -1)?;
        Ok(Self { inner: Some(UnixListener::from(socket)), refuses })
    }

    /// From now on it has connections as on a kernel that passes descriptors to everyone. For tests.
    ///
    /// # Errors
    /// What the kernel says.
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
    /// What the kernel says; `WouldBlock`: none waits.
    pub fn accept(&self) -> io::Result<Incoming> {
        let listener = self.inner.as_ref().expect("there until it is dropped");
        let (stream, _) = listener.accept()?;
        let incoming = Incoming { stream: Some(stream), refuses: self.refuses };
        incoming.stream().set_nonblocking(true)?;
        if !self.refuses {
            // Else a read drops a byte that is out of band, with what came along.
            sockopt::set_socket_oobinline(incoming.stream(), true)?;
        }
        Ok(incoming)
    }

    /// Closes one at whose path nobody can connect any more.
    ///
    /// # Errors
    /// Itself: connections still wait to be taken, with what may have been passed.
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

/// Whether somebody listens on this path, or may; nobody is waited for.
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
    /// Connections that nobody took may have descriptors; a process that ends waits for none of them.
    fn drop(&mut self) {
        if !self.refuses {
            std::mem::forget(self.inner.take());
        }
    }
}

impl Incoming {
    /// The connection, to be written to and watched. A read by other means than [`Self::read`] closes what is passed.
    #[must_use]
    pub fn stream(&self) -> &UnixStream {
        self.stream.as_ref().expect("there until it is closed")
    }

    /// Reads what has arrived.
    ///
    /// # Errors
    /// What the kernel says; `WouldBlock`: nothing is there.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Got> {
        let mut stream = self.stream();
        if self.refuses {
            return stream.read(buffer).map(Got::Bytes);
        }
        match look(stream, buffer)? {
            // No more than that: what arrives meanwhile is not looked at.
            Got::Bytes(count) if count > 0 => stream.read(&mut buffer[..count]).map(Got::Bytes),
            other => Ok(other),
        }
    }

    /// Ends the connection. Gives it back where descriptors may wait in it, so that the close is a [`Closer`]'s.
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

/// What a read would get. Closes nothing: the bytes, and what came with them, stay where they are.
fn look(stream: &UnixStream, buffer: &mut [u8]) -> io::Result<Got> {
    let mut no_room = RecvAncillaryBuffer::default();
    let seen = recvmsg(stream, &mut [IoSliceMut::new(buffer)], &mut no_room, RecvFlags::PEEK)?;
    let passed = seen.flags.contains(ReturnFlags::CTRUNC);
    Ok(if passed { Got::Passed } else { Got::Bytes(seen.bytes) })
}

/// Ends a connection and reads what is left in it; says whether descriptors may be there.
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

/// Closes connections in which descriptors may wait, so that whoever has it do so does not wait.
///
/// A thread that ends closes what it has in a table of its own. The kernel waits for no lingering socket then. Should
/// it wait for something else, this thread alone waits, and takes none of this process's descriptors.
#[derive(Debug, Default)]
pub struct Closer {
    orders: Option<Sender<Held>>,
    /// No thread could be had for these so far.
    waiting: Vec<Held>,
}

impl Closer {
    /// Has a connection closed. Where no thread can be had, it is closed with a later one.
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

/// Closes these in a thread that ends; gives them back where there is none to be had.
fn close_apart(held: Vec<Held>) -> Result<(), Vec<Held>> {
    let mut kept: Vec<RawFd> = held.iter().map(|held| held.0.as_raw_fd()).collect();
    kept.sort_unstable();
    let ((tell, told), (hand, handed)) = (channel(), channel::<Vec<Held>>());
    let thread = std::thread::Builder::new().name("closes".to_owned());
    let spawned = thread.spawn(move || {
        let _ = tell.send(own_table(&kept).is_ok());
        // It ends once it alone has them, or closes them itself.
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

/// Gives this thread a table of descriptors of its own, with these alone, ascending. They are closed as it ends.
fn own_table(kept: &[RawFd]) -> io::Result<()> {
    #[expect(unsafe_code, reason = "no safe binding")]
    // SAFETY: the call takes a number only. Nothing in this thread uses a descriptor from here on but by number.
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

/// Closes these of this thread's own. A kernel before 5.9 cannot; they are closed as the thread ends.
fn close_range(first: RawFd, last: RawFd) {
    #[expect(unsafe_code, reason = "no safe binding")]
    // SAFETY: the caller has made the table this thread's own, and nothing in this thread uses what it closes.
    unsafe {
        libc::syscall(libc::SYS_close_range, first, last, 0);
    }
}

/// Has the kernel refuse to pass descriptors to this socket; says whether it will.
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
