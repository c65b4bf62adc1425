//! Sockets that clients pass and whose last close would wait. A program of their own has these tests: a child of another
//! test has copies until it executes its program, and would be the last to close them.

use std::io::Read as _;
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use pinfold_sys::ancillary;
use pinfold_sys::passed::{Closer, Got, Held, Listener};
use pinfold_testkit::lingers;

/// A connection, as an older kernel gives it, with a lingering socket; and the socket's peer.
fn holds_one_that_lingers() -> (Held, TcpStream) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("s");
    let mut listener = Listener::bind(&path).expect("a socket");
    listener.admit().expect("it passes descriptors");
    let client = UnixStream::connect(&path).expect("it listens");
    let incoming = listener.accept().expect("one waits");
    let (one, other) = lingers();
    ancillary::send(&client, b"x", &[one.as_fd()]).expect("passed");
    drop(one);
    assert_eq!(incoming.read(&mut [0; 8]).expect("it looks"), Got::Passed);
    (incoming.close().expect("it has one"), other)
}

/// Returns when the other end of a connection has been closed for good, after all data.
fn await_close(mut other: TcpStream) {
    let mut buffer = vec![0; 1 << 20];
    // All that was unsent arrives, and then the end.
    while other.read(&mut buffer).expect("no reset") > 0 {}
}

/// The peers of the others are never read, so that a closer that waits for them never reaches the last.
#[test]
fn lingering_sockets_are_closed_without_waiting() {
    let mut closer = Closer::default();
    let (held, mut others): (Vec<Held>, Vec<TcpStream>) = (0..8).map(|_| holds_one_that_lingers()).unzip();
    held.into_iter().for_each(|held| closer.close(held));
    await_close(others.pop().expect("eight"));
}

#[test]
fn a_closer_closes_what_it_is_given() {
    let mut closer = Closer::default();
    for _ in 0..3 {
        let (held, other) = holds_one_that_lingers();
        closer.close(held);
        await_close(other);
    }
}
