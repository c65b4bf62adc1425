use std::io::Write as _;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::*;
use crate::ancillary;

/// An end of a pipe that shows whether the other end is still open anywhere.
fn pipe() -> (io::PipeReader, io::PipeWriter) {
    let (from, to) = io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&from, true).unwrap();
    (from, to)
}

fn is_open(mut pipe: &io::PipeReader) -> bool {
    pipe.read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// A connection as an older kernel gives it, and the client's end.
fn admitted() -> (Incoming, UnixStream) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut listener = Listener::bind(&path).unwrap();
    listener.admit().unwrap();
    let client = UnixStream::connect(&path).unwrap();
    (listener.accept().unwrap(), client)
}

#[test]
fn the_kernel_refuses_where_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = Listener::bind(&path).unwrap();
    let client = UnixStream::connect(&path).unwrap();
    let sent = ancillary::send(&client, b"x", &[client.as_fd()]);
    assert_eq!(sent.is_err(), listener.refuses, "{sent:?}");
    let incoming = listener.accept().unwrap();
    (&client).write_all(b"y").unwrap();
    let got = incoming.read(&mut [0; 8]).unwrap();
    assert_eq!(got, if listener.refuses { Got::Bytes(1) } else { Got::Passed });
}

/// Bytes before the descriptors are read; descriptors and later bytes are not, and no descriptor is closed.
#[test]
fn passed_descriptors_are_seen_and_not_read() {
    let (incoming, mut client) = admitted();
    let buffer = &mut [0; 64];
    assert_eq!(incoming.read(buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    client.write_all(b"before").unwrap();
    assert_eq!((incoming.read(buffer).unwrap(), &buffer[..6]), (Got::Bytes(6), &b"before"[..]));
    let (from, to) = pipe();
    client.write_all(b"more").unwrap();
    ancillary::send(&client, b"with", &[to.as_fd()]).unwrap();
    drop(to);
    for _ in 0..3 {
        assert_eq!(incoming.read(buffer).unwrap(), Got::Passed);
        assert!(is_open(&from));
    }
    assert!(incoming.close().is_some(), "it has one");
    assert_eq!(client.read(buffer).unwrap_or(0), 0, "the client sees the end");
    assert!(is_open(&from), "whoever drops it closes nothing");
}

/// A read that reaches an out-of-band byte drops it, together with its descriptors.
#[test]
#[ignore = "needs a kernel with bytes out of band on Unix sockets"]
fn descriptors_with_out_of_band_bytes_are_seen() {
    let (incoming, client) = admitted();
    let (from, to) = pipe();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut along = SendAncillaryBuffer::new(&mut space);
    let files = [to.as_fd()];
    assert!(along.push(SendAncillaryMessage::ScmRights(&files)));
    sendmsg(&client, &[io::IoSlice::new(b"x")], &mut along, SendFlags::OOB).unwrap();
    drop(to);
    assert_eq!(incoming.read(&mut [0; 8]).unwrap(), Got::Passed);
    assert!(incoming.close().is_some() && is_open(&from));
}

/// A close inspects unread data.
#[test]
fn a_connection_without_any_is_closed_at_once() {
    let (incoming, client) = admitted();
    assert!(incoming.close().is_none(), "nothing was sent");
    drop(client);
    let (incoming, mut client) = admitted();
    client.write_all(&[0; 100_000]).unwrap();
    drop(client);
    assert!(incoming.close().is_none(), "bytes alone");
}
