//! A keeper's connection to the daemon: messages, and the doors (passed files) with them.
//!
//! Absent here: when to connect, and the messages' content.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use pinfold_proto::wire::{self, Decoder, REPLY_MAX_BYTES, Reply, Request, WIRE_VERSION};
use pinfold_sys::ancillary;

use crate::print::say;
use pinfold_client::{Failure, Welcome, dial as client};

/// See the module's page.
pub(super) struct Link {
    pub(super) stream: UnixStream,
    pub(super) decoder: Decoder,
    pub(super) out: Vec<u8>,
    /// Files that came along with messages, for the messages that announce them.
    pub(super) doors: VecDeque<OwnedFd>,
}

impl Link {
    /// Greets the daemon, and sends with the greeting a request that need not wait for the answer.
    pub(super) fn greet(stream: UnixStream, first: Option<&Request>) -> io::Result<Self> {
        let decoder = Decoder::new(REPLY_MAX_BYTES);
        let mut link = Self { stream, decoder, out: Vec::new(), doors: VecDeque::new() };
        link.push(&Request::Hello { version: WIRE_VERSION });
        if let Some(first) = first {
            link.push(first);
        }
        match link.stream.write_all(&link.out) {
            // A daemon that hung up may have sent the reason before.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
            _ => link.out.clear(),
        }
        Ok(link)
    }

    /// Sends a request with the next flush.
    pub(super) fn push(&mut self, request: &Request) {
        // The daemon reads no request of this length, and would cut the keeper off.
        if let Err(error) = wire::encode(request, &mut self.out) {
            say(&format!("warning: the daemon is not told something: {error}"));
        }
    }

    /// Waits for the answer to the greeting.
    pub(super) fn welcome(&mut self) -> Result<Welcome, Failure> {
        let mut buffer = [0; 4096];
        loop {
            match self.decoder.take::<Reply>() {
                Ok(Some(reply)) => return Welcome::of(reply),
                Ok(None) => {}
                Err(error) => return Err(Failure::doing("the daemon's answer", &error)),
            }
            match self.read(&mut buffer) {
                Ok(0) => return Err(client::gone(&io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(client::gone(&error)),
            }
        }
    }

    /// Reads the arrived bytes and files; 0 at the end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = ancillary::receive(&self.stream, buffer, &mut self.doors)?;
        self.decoder.push(&buffer[..got]);
        Ok(got)
    }
}
