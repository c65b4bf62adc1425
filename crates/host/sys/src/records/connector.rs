//! The process connector: forks with parent and child and, without taskstats, the ends of processes
//! (`include/uapi/linux/cn_proc.h`). Absent here: figures; the connector has none.

use std::io;

use super::netlink::{Netlink, Portion, messages, u32_at, u64_at};
use super::{Birth, End, Taken};

/// `CN_IDX_PROC`: at once the connector's address and its multicast group.
const PROCESSES: u32 = 1;
/// `PROC_CN_MCAST_LISTEN`.
const LISTEN: u32 = 1;
/// `PROC_EVENT_FORK`.
const FORK: u32 = 1;
/// `PROC_EVENT_EXIT`.
const EXIT: u32 = 0x8000_0000;
/// The offset of an event in a message's body: behind the connector's own head.
const EVENT: usize = 20;
/// The offset of its time: nanoseconds of the monotonic clock.
const TIME: usize = EVENT + 8;
/// The offset of an event's own part.
const PART: usize = EVENT + 16;

/// An open connector.
#[derive(Debug)]
pub(super) struct Connector {
    netlink: Netlink,
    ends: bool,
}

impl Connector {
    /// Opens it for births and, if asked, ends.
    pub(super) fn open(ends: bool) -> io::Result<Self> {
        let netlink = Netlink::open(rustix::net::netlink::CONNECTOR, PROCESSES)?;
        let mut body = LISTEN.to_ne_bytes().to_vec();
        // Since 6.6 the kernel sends only the requested events; before, it does not understand the longer request.
        if kernel_is_at_least(6, 6) {
            let wanted = if ends { FORK | EXIT } else { FORK };
            body.extend_from_slice(&wanted.to_ne_bytes());
        }
        let mut request = Vec::new();
        for word in [PROCESSES, PROCESSES, 0, 0] {
            request.extend_from_slice(&word.to_ne_bytes());
        }
        request.extend_from_slice(&u16::try_from(body.len()).expect("8 bytes").to_ne_bytes());
        request.extend_from_slice(&[0; 2]);
        request.extend_from_slice(&body);
        // The connector's messages are of type NLMSG_DONE, which has no meaning here.
        netlink.send(3, 0, &request)?;
        Ok(Self { netlink, ends })
    }

    /// A connector on a socket that receives births already, and ends if `ends`.
    #[cfg(test)]
    pub(super) fn of(netlink: Netlink, ends: bool) -> Self {
        Self { netlink, ends }
    }

    /// Takes waiting records, up to `most` messages; and returns the moment, in nanoseconds of the monotonic clock, up to
    /// which all records are read: `u64::MAX` if none waits any more.
    pub(super) fn take(&mut self, most: usize, taken: &mut Taken) -> (Portion, u64) {
        let (now_ns, ends, mut until_ns) = (monotonic_ns(), self.ends, 0);
        let portion = self.netlink.hear_up_to(most, |bytes| {
            for (_, body) in messages(bytes) {
                // The kernel takes the time before it sends: all records sent before that moment stand before this record.
                until_ns = until_ns.max(u64_at(body, TIME).unwrap_or(0));
                note(body, now_ns, ends, taken);
            }
        });
        (portion, if portion.more { until_ns } else { u64::MAX })
    }
}

fn note(body: &[u8], now_ns: u64, ends: bool, taken: &mut Taken) {
    let word = |index: usize| u32_at(body, PART + 4 * index);
    match u32_at(body, EVENT) {
        Some(FORK) => {
            if let (Some(parent), Some(thread), Some(pid)) = (word(1), word(2), word(3))
                && thread == pid
            {
                let age_us = now_ns.saturating_sub(u64_at(body, TIME).unwrap_or(now_ns)) / 1000;
                taken.births.push(Birth { pid, parent, age_us });
            }
        }
        Some(EXIT) if ends => {
            if let (Some(thread), Some(process), Some(status)) = (word(0), word(1), word(2))
                && thread == process
            {
                let (exit_code, signal) = super::taskstats::ending(status);
                let parent = word(5).unwrap_or(0);
                taken.ends.push(End {
                    process,
                    thread,
                    parent,
                    is_last: true,
                    exit_code,
                    signal,
                    figures: None,
                });
            }
        }
        _ => {}
    }
}

/// Now, in nanoseconds of the monotonic clock.
pub(super) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanoseconds) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(nanoseconds.unwrap_or(0))
}

fn kernel_is_at_least(major: u32, minor: u32) -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|word| word.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
}
