//! Waiting, on a thread of its own, for the end of a requested freeze.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::cgroup::{Group, keyed};

/// A group's own word on whether it is frozen.
#[derive(Debug)]
pub struct FreezeWatch(OwnedFd);

impl FreezeWatch {
    pub(super) fn of(group: &Group) -> Option<Self> {
        if group.is_fake() {
            return None;
        }
        // A file of its own: the kernel reports each change once to each open file.
        group.open_file("cgroup.events").ok().map(Self)
    }

    /// Waits until the job is frozen or the time is over; returns whether the job is frozen. The kernel reports a
    /// change at once unless it reported another change within the last 10 ms.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        loop {
            let mut buffer = [0u8; 256];
            let Ok(read) = rustix::io::pread(&self.0, &mut buffer, 0) else { return false };
            let text = String::from_utf8_lossy(&buffer[..read]);
            if keyed(&text, "frozen") == Some(1) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(left) = Timespec::try_from(left) else { return false };
            if left.tv_sec == 0 && left.tv_nsec == 0 {
                return false;
            }
            let mut files = [PollFd::new(&self.0, PollFlags::PRI)];
            // An interrupted wait counts as a short wait.
            let _ = poll(&mut files, Some(&left));
        }
    }
}
