//! Waiting until descriptors can be read or written: a few of them at once (`poll`), or a permanent set (`epoll`).
//! Absent here: the reads and writes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A descriptor to wait for, and the awaited event.
#[derive(Debug)]
pub struct Wanted<'a>(PollFd<'a>);

impl<'a> Wanted<'a> {
    /// Something to be read.
    pub fn input(descriptor: &'a impl AsFd) -> Self {
        Self(PollFd::new(descriptor, PollFlags::IN))
    }

    /// Room to write.
    pub fn output(descriptor: &'a impl AsFd) -> Self {
        Self(PollFd::new(descriptor, PollFlags::OUT))
    }

    /// Something to be read, or room to write.
    pub fn both(descriptor: &'a impl AsFd) -> Self {
        Self(PollFd::new(descriptor, PollFlags::IN | PollFlags::OUT))
    }

    /// The end of the other side alone, which is always reported.
    pub fn end(descriptor: &'a impl AsFd) -> Self {
        Self(PollFd::new(descriptor, PollFlags::empty()))
    }

    /// Input on a borrowed descriptor.
    #[must_use]
    pub fn borrowed(descriptor: BorrowedFd<'a>) -> Self {
        Self(PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
    }
}

/// Waits until a descriptor is ready, or at its end, or until `limit` is over (`None`: for ever). `false`: the time is
/// over.
///
/// # Errors
/// A signal (`Interrupted`), or a system error.
pub fn wait(wanted: Vec<Wanted<'_>>, limit: Option<Duration>) -> io::Result<bool> {
    let mut all: Vec<PollFd<'_>> = wanted.into_iter().map(|wanted| wanted.0).collect();
    // Longer than the kernel can count is for ever.
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    Ok(poll(&mut all, limit.as_ref())? > 0)
}

/// Waits as [`wait`] does until one descriptor can be read.
///
/// # Errors
/// As [`wait`].
pub fn readable(descriptor: &impl AsFd, limit: Option<Duration>) -> io::Result<bool> {
    wait(vec![Wanted::input(descriptor)], limit)
}

/// Whether the other end is closed.
pub fn is_hung_up(descriptor: &impl AsFd) -> bool {
    let mut all = [PollFd::new(descriptor, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut all, Some(&now)).is_ok() && all[0].revents().contains(PollFlags::HUP)
}

/// The changes of a descriptor that a [`Set`] reports. Errors and ends are always reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changes {
    /// Something can be read.
    Input,
    /// A file of the kernel's own changed (`EPOLLPRI`).
    Priority,
    /// Something can be read, room to write: each if so said.
    Of {
        /// Something can be read.
        input: bool,
        /// There is room to write.
        output: bool,
    },
}

impl Changes {
    fn flags(self) -> EventFlags {
        let (input, output) = match self {
            Self::Priority => return EventFlags::PRI,
            Self::Input => (true, false),
            Self::Of { input, output } => (input, output),
        };
        let mut flags = EventFlags::empty();
        flags.set(EventFlags::IN, input);
        flags.set(EventFlags::OUT, output);
        flags
    }
}

/// Descriptors that are watched until they are closed, each with a number of its owner's.
pub struct Set {
    epoll: OwnedFd,
    buffer: Vec<epoll::Event>,
}

impl std::fmt::Debug for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Set").field("epoll", &self.epoll).finish_non_exhaustive()
    }
}

impl Set {
    /// An empty set that reports up to `at_once` changes in a wait.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn new(at_once: usize) -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, buffer: Vec::with_capacity(at_once.max(1)) })
    }

    /// Watches a descriptor.
    ///
    /// # Errors
    /// When it is watched already, or cannot be.
    pub fn add(&self, number: u64, descriptor: impl AsFd, changes: Changes) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, descriptor, EventData::new_u64(number), changes.flags())?)
    }

    /// Watches a descriptor for other changes than before.
    ///
    /// # Errors
    /// When it is not watched.
    pub fn change(&self, number: u64, descriptor: impl AsFd, changes: Changes) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, descriptor, EventData::new_u64(number), changes.flags())?)
    }

    /// Waits until a descriptor changed or `limit` is over. Returns the numbers, each with whether its descriptor
    /// failed. A wait that a signal interrupts finds nothing.
    pub fn wait(&mut self, limit: Option<Duration>) -> impl Iterator<Item = (u64, bool)> + '_ {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        self.buffer.clear();
        let _ = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.buffer), limit.as_ref());
        self.buffer.iter().map(|event| (event.data.u64(), { event.flags }.contains(EventFlags::ERR)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_pipe_is_readable_once_written_and_hung_up_once_closed() {
        let (from, mut to) = io::pipe().unwrap();
        assert!(!readable(&from, Some(Duration::ZERO)).unwrap() && !is_hung_up(&from));
        assert!(wait(vec![Wanted::input(&from), Wanted::output(&to)], None).unwrap(), "it can be written");
        to.write_all(b"x").unwrap();
        assert!(readable(&from, None).unwrap());
        drop(to);
        // A child of another test, started at this moment, has the pipe open until it executes its program.
        assert!(wait(vec![Wanted::end(&from)], None).unwrap());
        assert!(is_hung_up(&from));
    }

    #[test]
    fn a_set_tells_what_was_asked_for_alone() {
        let (from, to) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut set = Set::new(4).unwrap();
        set.add(7, &from, Changes::Input).unwrap();
        assert_eq!(set.wait(Some(Duration::ZERO)).count(), 0);
        set.change(8, &from, Changes::Of { input: false, output: true }).unwrap();
        assert_eq!(set.wait(None).collect::<Vec<_>>(), [(8, false)]);
        set.change(9, &from, Changes::Of { input: false, output: false }).unwrap();
        assert_eq!(set.wait(Some(Duration::ZERO)).count(), 0);
        drop(to);
        assert_eq!(
            set.wait(None).map(|(number, _)| number).collect::<Vec<_>>(),
            [9],
            "its end is always told"
        );
    }
}
