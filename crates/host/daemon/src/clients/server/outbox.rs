//! What waits to be sent to one client: bytes of replies, and the files that go along with some of them.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use pinfold_proto::wire::{self, ErrorCode, Reply};
use pinfold_sys::ancillary;
use pinfold_sys::container::Doors;

/// Room that is kept for the next reply once all are sent, in bytes.
const KEPT_BYTES: usize = 16 * 1024;

/// What was sent is dropped once it is so much, in bytes, and no less than what is left: that is moved for it. A client may
/// read for as long as it likes without ever having read all.
const SENT_KEPT_BYTES: usize = 64 * 1024;

/// The replies that were not sent yet, in order.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// So many of `bytes` are sent.
    sent: usize,
    /// Files that go along with the byte at this place of `bytes`, or before it, ascending.
    files: VecDeque<(usize, Doors)>,
}

impl Outbox {
    /// How many bytes wait.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a reply behind the others. One that is longer than any client reads is an error in its place.
    pub(super) fn push(&mut self, reply: &Reply) {
        if let Err(error) = wire::encode(reply, &mut self.bytes) {
            tracing::warn!(%error, "a reply cannot be sent");
            let message = format!("the answer cannot be sent: {error}; ask for less at once");
            // A few words are never too long.
            let _ = wire::encode(&Reply::Error { code: ErrorCode::Refused, message }, &mut self.bytes);
        }
    }

    /// Puts a reply behind the others that is a frame already.
    pub(super) fn push_frame(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
    }

    /// Files that the client gets along with the next reply.
    pub(super) fn push_files(&mut self, files: Doors) {
        self.files.push_back((self.bytes.len(), files));
    }

    /// Nobody is there to read it.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Sends as much as goes in one call, so that a client is woken once: files leave with their reply or with those
    /// before it. A second lot of files has to wait for a call of its own.
    pub(super) fn write_some(&mut self, mut stream: &UnixStream) -> io::Result<()> {
        let until = self.files.get(1).map_or(self.bytes.len(), |(at, _)| *at);
        let bytes = &self.bytes[self.sent..until];
        let sent = match self.files.front() {
            Some((_, files)) => {
                let files: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
                let sent = ancillary::send(stream, bytes, &files)?;
                self.files.pop_front();
                sent
            }
            None => stream.write(bytes)?,
        };
        self.sent += sent;
        if self.is_empty() {
            // What one long reply took is not kept for as long as its client is there.
            if self.bytes.capacity() > KEPT_BYTES {
                self.bytes = Vec::new();
            }
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent >= self.len().max(SENT_KEPT_BYTES) {
            self.drop_sent();
        }
        Ok(())
    }

    fn drop_sent(&mut self) {
        self.bytes.drain(..self.sent);
        // Files before that place are on their way.
        self.files.iter_mut().for_each(|(at, _)| *at = at.saturating_sub(self.sent));
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::OwnedFd;

    use super::*;

    /// A reply of any length leaves whole, in as many calls as the client's reading takes, and leaves no room behind.
    #[test]
    fn a_long_reply_leaves_in_parts() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let reply = Reply::Where { state: "x".repeat(3 << 20), unwritten: 0 };
        let mut outbox = Outbox::default();
        outbox.push(&reply);
        outbox.push(&Reply::Done);
        let mut decoder = wire::Decoder::new(wire::REPLY_MAX_BYTES);
        let (mut heard, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
        while heard.len() < 2 {
            while !outbox.is_empty() && outbox.write_some(&near).is_ok() {}
            let count = far.read(&mut buffer).unwrap();
            decoder.push(&buffer[..count]);
            while let Some(one) = decoder.take::<Reply>().unwrap() {
                heard.push(one);
            }
        }
        assert_eq!(heard, [reply, Reply::Done]);
        assert!(outbox.is_empty() && outbox.bytes.capacity() <= KEPT_BYTES);
    }

    /// It has never read all, and is sent the next reply meanwhile.
    #[test]
    fn what_a_client_has_read_is_not_kept() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let reply = Reply::Where { state: "x".repeat(100_000), unwritten: 0 };
        let mut outbox = Outbox::default();
        let mut decoder = wire::Decoder::new(wire::REPLY_MAX_BYTES);
        let (mut heard, mut buffer) = (0, vec![0; 64 * 1024]);
        let (file, at_other_end) = UnixStream::pair().unwrap();
        let files: Doors = vec![OwnedFd::from(file)].into();
        for sent in 1..=400 {
            if sent == 200 {
                outbox.push_files(Doors::clone(&files));
            }
            outbox.push(&reply);
            // More than the kernel takes at once.
            while outbox.len() > 6_000_000 {
                let _ = outbox.write_some(&near);
                let count = far.read(&mut buffer).unwrap();
                decoder.push(&buffer[..count]);
                heard += std::iter::from_fn(|| decoder.take::<Reply>().unwrap())
                    .filter(|one| *one == reply)
                    .count();
            }
            assert!(!outbox.is_empty());
            assert!(
                outbox.bytes.len() <= 13_000_000,
                "{} bytes of which {} wait",
                outbox.bytes.len(),
                outbox.len()
            );
        }
        assert!(outbox.files.is_empty(), "they went with their reply");
        drop((files, at_other_end));
        while heard < 400 {
            while !outbox.is_empty() && outbox.write_some(&near).is_ok() {}
            let count = far.read(&mut buffer).unwrap();
            decoder.push(&buffer[..count]);
            heard +=
                std::iter::from_fn(|| decoder.take::<Reply>().unwrap()).filter(|one| *one == reply).count();
        }
    }

    #[test]
    fn a_reply_that_is_too_long_is_an_error() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut outbox = Outbox::default();
        outbox.push(&Reply::Where { state: "x".repeat(wire::REPLY_MAX_BYTES), unwritten: 0 });
        assert!(outbox.len() < 1024);
        outbox.write_some(&near).unwrap();
        let mut decoder = wire::Decoder::new(wire::REPLY_MAX_BYTES);
        let mut buffer = vec![0; 4096];
        let count = far.read(&mut buffer).unwrap();
        decoder.push(&buffer[..count]);
        let reply = decoder.take::<Reply>().unwrap();
        assert!(matches!(reply, Some(Reply::Error { code: ErrorCode::Refused, .. })), "{reply:?}");
    }
}
