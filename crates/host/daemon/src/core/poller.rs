//! What the loop waits for, as one set: the socket, its connections, signals, containers and keepers.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use pinfold_policy::JobId;
use pinfold_sys::ready::{Changes, Set};

use crate::core::event::ConnectionId;

/// Something that became ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    /// Connections wait to be taken.
    Listener,
    /// A signal arrived.
    Signals,
    /// A connection can be read, or written, or is at its end.
    Connection(ConnectionId),
    /// A job's container changed.
    Container(JobId),
    /// A job's keeper is gone.
    Keeper(JobId),
    /// Jobs stall for want of memory.
    MemoryAlarm,
    /// The kernel will not say so any more: the group that it watched is gone.
    MemoryAlarmGone,
    /// A monitoring system asks for figures.
    Metrics,
    /// Hooks ended.
    Site,
    /// NUMA nodes were cleared of foreign memory.
    Nodes,
    /// Directories of jobs that are over were cleared.
    Cleared,
    /// What was written is on disk.
    Flushed,
    /// Users were looked up.
    Names,
}

const KIND_BITS: u32 = 4;

impl Ready {
    fn token(self) -> u64 {
        let (kind, number) = match self {
            Self::Listener => (0, 0),
            Self::Signals => (1, 0),
            Self::Connection(id) => (2, id.0),
            Self::Container(job) => (3, job.0),
            Self::Keeper(job) => (4, job.0),
            Self::MemoryAlarm => (5, 0),
            Self::MemoryAlarmGone => (8, 0),
            Self::Metrics => (6, 0),
            Self::Site => (9, 0),
            Self::Nodes => (10, 0),
            Self::Cleared => (11, 0),
            Self::Flushed => (12, 0),
            Self::Names => (13, 0),
        };
        // Numbers count up from 1: 2^60 of them are never reached.
        number << KIND_BITS | kind
    }

    fn of(token: u64) -> Option<Self> {
        let number = token >> KIND_BITS;
        Some(match token & ((1 << KIND_BITS) - 1) {
            0 => Self::Listener,
            1 => Self::Signals,
            2 => Self::Connection(ConnectionId(number)),
            3 => Self::Container(JobId(number)),
            4 => Self::Keeper(JobId(number)),
            5 => Self::MemoryAlarm,
            8 => Self::MemoryAlarmGone,
            6 => Self::Metrics,
            9 => Self::Site,
            10 => Self::Nodes,
            11 => Self::Cleared,
            12 => Self::Flushed,
            13 => Self::Names,
            _ => return None,
        })
    }
}

/// What the loop is to watch a connection for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watch {
    /// Something to be read.
    pub input: bool,
    /// Room to send more.
    pub output: bool,
}

/// The set.
#[derive(Debug)]
pub(crate) struct Poller(Set);

impl Poller {
    /// An empty set.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Set::new(256)?))
    }

    /// Waits for `what` to become readable; for containers, for the kernel's word that its files changed.
    pub(crate) fn watch(&self, what: Ready, descriptor: impl AsFd) -> io::Result<()> {
        let changes = match what {
            Ready::Container(_) | Ready::MemoryAlarm => Changes::Priority,
            _ => Changes::Input,
        };
        self.0.add(what.token(), descriptor, changes)
    }

    /// Waits for a connection as is said, and no more for what it waited for before.
    pub(crate) fn watch_for(&self, what: Ready, descriptor: impl AsFd, watch: Watch) -> io::Result<()> {
        let Watch { input, output } = watch;
        self.0.change(what.token(), descriptor, Changes::Of { input, output })
    }

    /// Waits until something is ready or `timeout` is over.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> Vec<Ready> {
        let ready = |(token, failed)| match Ready::of(token)? {
            // A group's file that is gone stays ready for ever.
            Ready::MemoryAlarm if failed => Some(Ready::MemoryAlarmGone),
            ready => Some(ready),
        };
        // An interrupted wait finds nothing ready; the loop comes again.
        self.0.wait(timeout).filter_map(ready).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip() {
        let all = [
            Ready::Listener,
            Ready::Signals,
            Ready::Connection(ConnectionId(1)),
            Ready::Container(JobId(7)),
            Ready::Keeper(JobId(u64::MAX >> KIND_BITS)),
            Ready::MemoryAlarm,
            Ready::MemoryAlarmGone,
            Ready::Metrics,
            Ready::Site,
            Ready::Nodes,
            Ready::Cleared,
            Ready::Flushed,
            Ready::Names,
        ];
        for ready in all {
            assert_eq!(Ready::of(ready.token()), Some(ready));
        }
        assert_eq!(Ready::of(7), None);
    }
}
