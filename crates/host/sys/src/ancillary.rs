//! Open files that go along with the bytes of a Unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// The most files that one call passes.
pub const FILES_MAX: usize = 16;

/// Sends bytes and files in one call; returns the number of bytes sent. The files go with the first byte.
///
/// # Errors
/// A system error, `WouldBlock` among them; more than [`FILES_MAX`] files (`InvalidInput`).
pub fn send(stream: &UnixStream, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut along = SendAncillaryBuffer::new(&mut space);
    if files.len() > FILES_MAX || !along.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many files for one call"));
    }
    Ok(sendmsg(stream, &[IoSlice::new(bytes)], &mut along, SendFlags::NOSIGNAL)?)
}

/// Reads bytes, and the files passed with them, up to [`FILES_MAX`]; returns the number of bytes, 0 at the end.
///
/// # Errors
/// A system error.
pub fn receive(
    stream: &UnixStream,
    buffer: &mut [u8],
    files: &mut impl Extend<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut along = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(stream, &mut [IoSliceMut::new(buffer)], &mut along, RecvFlags::CMSG_CLOEXEC)?;
    for message in along.drain() {
        if let RecvAncillaryMessage::ScmRights(arrived) = message {
            files.extend(arrived);
        }
    }
    Ok(got.bytes)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn files_arrive_with_the_bytes() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut from, to) = io::pipe().unwrap();
        assert_eq!(send(&one, b"hello", &[to.as_fd()]).unwrap(), 5);
        drop((one, to));
        let (mut buffer, mut files) = ([0; 16], Vec::new());
        assert_eq!(receive(&other, &mut buffer, &mut files).unwrap(), 5);
        assert_eq!((&buffer[..5], files.len()), (&b"hello"[..], 1));
        std::fs::File::from(files.remove(0)).write_all(b"through").unwrap();
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
        assert_eq!(receive(&other, &mut buffer, &mut files).unwrap(), 0, "the end");
    }

    #[test]
    fn too_many_files_are_refused() {
        let (one, _other) = UnixStream::pair().unwrap();
        let file = one.as_fd();
        let refused = send(&one, b"x", &[file; FILES_MAX + 1]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
