//! A socket whose last close waits.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// A connected socket with unsent data, whose last close waits for an hour; and what it is connected to.
///
/// # Panics
/// If loopback has no sockets.
#[must_use]
pub fn lingers() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let mut one = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
    let (other, _) = listener.accept().expect("connected");
    one.set_nonblocking(true).expect("nonblocking");
    while one.write(&[0; 64 * 1024]).is_ok() {}
    rustix::net::sockopt::set_socket_linger(&one, Some(Duration::from_secs(3600))).expect("set");
    (one, other)
}
