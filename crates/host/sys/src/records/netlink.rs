//! Netlink sockets: opened, subscribed, and read without waiting. Absent here: the meaning of messages.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send};
use rustix::net::{socket_with, sockopt};

/// Room for unread messages of a socket: some 10,000 records of a process's end. The kernel takes memory for it only while
/// records wait.
const ROOM_BYTES: usize = 16 << 20;

/// Bytes of a message's head.
pub(super) const HEAD: usize = 16;

/// The kernel's answer that a request failed, or succeeded (code 0).
pub(super) const ERROR: u16 = 2;

/// A socket to one of netlink's protocols.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    buffer: Vec<u8>,
    /// Messages were dropped since the socket was last empty. The kernel reports it once, and drops further messages until
    /// all waiting messages are read.
    pub(super) drops: bool,
}

/// The result of a reading.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard<'a> {
    /// A datagram: one or several messages.
    Bytes(&'a [u8]),
    /// Some were dropped for want of room.
    Lost,
    /// Nothing waits.
    Nothing,
}

/// The result of reading up to a bound.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Portion {
    /// Datagrams read.
    pub messages: usize,
    /// Some were dropped, or the socket cannot be read any more.
    pub lost: bool,
    /// The bound was reached: more may wait.
    pub more: bool,
}

impl Netlink {
    /// Opens a socket that belongs to these multicast groups.
    pub(super) fn open(protocol: Protocol, groups: u32) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(protocol))?;
        // Beyond the host's usual bound only with rights; else up to the bound.
        if sockopt::set_socket_recv_buffer_size_force(&socket, ROOM_BYTES).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, ROOM_BYTES)?;
        }
        bind(&socket, &SocketAddrNetlink::new(0, groups))?;
        Ok(Self::of(socket))
    }

    /// A `Netlink` on an open socket.
    pub(super) fn of(socket: OwnedFd) -> Self {
        Self { socket, buffer: vec![0; 64 << 10], drops: false }
    }

    /// Sends a message of this type.
    pub(super) fn send(&self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        let length = u32::try_from(HEAD + body.len()).expect("requests are short");
        let mut message = Vec::with_capacity(HEAD + body.len());
        message.extend_from_slice(&length.to_ne_bytes());
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&flags.to_ne_bytes());
        message.extend_from_slice(&[0; 8]);
        message.extend_from_slice(body);
        send(&self.socket, &message, SendFlags::empty())?;
        Ok(())
    }

    /// The next datagram, without waiting for it.
    pub(super) fn hear(&mut self) -> io::Result<Heard<'_>> {
        loop {
            match recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, length)) => return Ok(Heard::Bytes(&self.buffer[..length.min(self.buffer.len())])),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(Heard::Nothing),
                Err(Errno::NOBUFS) => return Ok(Heard::Lost),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Passes up to `most` waiting datagrams on. Others may arrive as fast, so that without a bound the loop might never
    /// end.
    pub(super) fn hear_up_to(&mut self, most: usize, mut note: impl FnMut(&[u8])) -> Portion {
        let mut portion = Portion::default();
        while portion.messages < most {
            match self.hear() {
                Ok(Heard::Bytes(bytes)) => {
                    portion.messages += 1;
                    note(bytes);
                }
                Ok(Heard::Lost) => (self.drops, portion.lost) = (true, true),
                Ok(Heard::Nothing) => {
                    portion.lost |= std::mem::take(&mut self.drops);
                    return portion;
                }
                Err(_) => {
                    // A socket that cannot be read delivers nothing any more.
                    portion.lost = true;
                    return portion;
                }
            }
        }
        portion.more = true;
        portion
    }
}

/// The messages of a datagram: type and body.
pub(super) fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
        let kind = u16_at(bytes, 4)?;
        let body = bytes.get(HEAD..length)?;
        bytes = bytes.get(aligned(length)..).unwrap_or(&[]);
        Some((kind, body))
    })
}

/// The attributes in a message's body: type and value.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        // The two top bits describe the layout of the value, and are no part of the type.
        let kind = u16_at(bytes, 2)? & 0x3FFF;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(aligned(length)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// An attribute, padded to the alignment of the next attribute.
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = 4 + value.len();
    let mut bytes = Vec::with_capacity(aligned(length));
    bytes.extend_from_slice(&u16::try_from(length).expect("values are short").to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(aligned(length), 0);
    bytes
}

const fn aligned(length: usize) -> usize {
    (length + 3) & !3
}

/// A number of the host's byte order, if the bytes reach that far.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// See [`u16_at`].
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// See [`u16_at`].
pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}
