//! Operations on each member of a job: signals to processes, settings of threads. Each is repeated until no new member
//! appears. Absent here: operations of a group on all of its members at once (`grouped`).

use std::collections::BTreeSet;

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

use super::family::Family;
use super::process::{self, Reached};
use super::{Container, ContainerError};

/// The most rounds of a walk over processes or threads while new ones keep appearing. Each round finds only processes
/// that an unreached process started during the round before, so a handful is the rule; the bound keeps a fork storm
/// from holding the caller for ever.
pub(super) const ROUNDS_MAX: usize = 64;
/// The most rounds of a walk over many threads: threads started by then inherit the setting.
const ROUNDS_OVER_MANY: usize = 4;
/// More are many.
const FEW: usize = 4_096;
/// The most open handles at a time: a job may have as many processes as the host.
const HANDLES_MAX: usize = 2_048;

impl Container {
    /// Signals every member, again until no new member appears; returns the number of signalled processes.
    pub(super) fn signal_all(&self, signal: i32) -> Result<usize, ContainerError> {
        let mut sending = Sending::new(signal);
        for _ in 0..ROUNDS_MAX {
            let changed = match self.family() {
                Some(mut family) => self.signal_family(&mut family, &mut sending)?,
                None => self.signal_group(&mut sending)?,
            };
            if !changed {
                break;
            }
        }
        sending.finish()
    }

    /// One round over the members of a group; returns whether any was new.
    fn signal_group(&self, sending: &mut Sending) -> Result<bool, ContainerError> {
        let new: Vec<u32> =
            self.group_pids()?.into_iter().filter(|pid| !sending.done.contains(pid)).collect();
        for some in new.chunks(HANDLES_MAX) {
            let opened = open_members(some, || self.group_pids(), |pid, errno| sending.failed(pid, errno))?;
            for (pid, handle) in &opened {
                sending.send(*pid, handle)?;
            }
        }
        sending.done.extend(&new);
        Ok(!new.is_empty())
    }

    /// One round over the members of a job without a group; returns whether the members changed.
    fn signal_family(&self, family: &mut Family, sending: &mut Sending) -> Result<bool, ContainerError> {
        let proc = &self.shared.proc;
        let mut changed = family.scan_once(proc)?;
        for stat in family.living() {
            let pid = stat.pid;
            if sending.done.contains(&pid) {
                continue;
            }
            changed = true;
            let Some(handle) = process::open(pid).map_err(|errno| sending.failed(pid, errno))? else {
                continue;
            };
            // Another process may have got the number since the scan; its start shows that.
            if proc.stat(pid)?.is_some_and(|now| now.start_ticks == stat.start_ticks) {
                sending.send(pid, &handle)?;
            }
            sending.done.insert(pid);
        }
        Ok(changed)
    }

    /// Calls `apply` on every thread of every member.
    pub(super) fn each_thread(
        &self,
        operation: &'static str,
        apply: impl Fn(u32) -> Result<Reached, Errno>,
    ) -> Result<Reached, ContainerError> {
        self.each_thread_of(operation, usize::MAX, || self.pids(), apply)
    }

    /// Calls `apply` on every thread of these processes, on `most` at most, again until two rounds find no new thread:
    /// a thread may start another, with its old setting, before it is reached, and the new thread is listed a moment
    /// later. `Forbidden` if the kernel forbade it for any thread.
    pub(super) fn each_thread_of(
        &self,
        operation: &'static str,
        most: usize,
        pids: impl Fn() -> Result<Vec<u32>, ContainerError>,
        apply: impl Fn(u32) -> Result<Reached, Errno>,
    ) -> Result<Reached, ContainerError> {
        let mut overall = Reached::Yes;
        let threads =
            |pid, most| Ok(self.shared.proc.some_threads(pid, most)?.map_or(Vec::new(), |(some, _)| some));
        each_listed(most, pids, threads, |thread| {
            let failed =
                |errno: Errno| ContainerError::Process { operation, pid: thread, source: errno.into() };
            if apply(thread).map_err(failed)? == Reached::Forbidden {
                overall = Reached::Forbidden;
            }
            Ok(())
        })?;
        Ok(overall)
    }
}

/// Calls `apply` once for every thread of these processes, for `most` threads at most; `threads` lists the threads of a
/// process, up to a given number.
fn each_listed<E>(
    most: usize,
    pids: impl Fn() -> Result<Vec<u32>, E>,
    threads: impl Fn(u32, usize) -> Result<Vec<u32>, E>,
    mut apply: impl FnMut(u32) -> Result<(), E>,
) -> Result<(), E> {
    let mut done = BTreeSet::new();
    let mut without = 0;
    for round in 1..=ROUNDS_MAX {
        let before = done.len();
        for pid in pids()? {
            if done.len() >= most {
                return Ok(());
            }
            for thread in threads(pid, most - done.len())? {
                if done.insert(thread) {
                    apply(thread)?;
                }
            }
        }
        without = if done.len() == before { without + 1 } else { 0 };
        if without == 2 || round >= ROUNDS_OVER_MANY && done.len() > FEW {
            break;
        }
    }
    Ok(())
}

/// Handles on the members among these processes. Another process may have got a number between the listing and the
/// opening; a number that is still listed afterwards (ascending) belonged to the job when its handle was opened.
pub(super) fn open_members(
    pids: &[u32],
    listed: impl FnOnce() -> Result<Vec<u32>, ContainerError>,
    failed: impl Fn(u32, Errno) -> ContainerError,
) -> Result<Vec<(u32, OwnedFd)>, ContainerError> {
    let mut opened = Vec::new();
    for &pid in pids {
        if let Some(handle) = process::open(pid).map_err(|errno| failed(pid, errno))? {
            opened.push((pid, handle));
        }
    }
    if opened.is_empty() {
        return Ok(opened);
    }
    let still = listed()?;
    opened.retain(|(pid, _)| still.binary_search(pid).is_ok());
    Ok(opened)
}

/// A signal on its way to the members of a job.
struct Sending {
    signal: i32,
    done: BTreeSet<u32>,
    sent: usize,
    forbidden: Option<u32>,
}

impl Sending {
    fn new(signal: i32) -> Self {
        Self { signal, done: BTreeSet::new(), sent: 0, forbidden: None }
    }

    fn send(&mut self, pid: u32, handle: &OwnedFd) -> Result<(), ContainerError> {
        match process::signal(handle.as_fd(), self.signal) {
            Ok(Reached::Yes) => self.sent += 1,
            Ok(Reached::Gone) => {}
            Ok(Reached::Forbidden) => self.forbidden = self.forbidden.or(Some(pid)),
            Err(errno) => return Err(self.failed(pid, errno)),
        }
        Ok(())
    }

    /// The number of signalled processes. A forbidden signal is an error, but only after all others have their signal.
    fn finish(self) -> Result<usize, ContainerError> {
        self.forbidden.map_or(Ok(self.sent), |pid| Err(self.failed(pid, Errno::PERM)))
    }

    fn failed(&self, pid: u32, errno: Errno) -> ContainerError {
        ContainerError::Process { operation: "send a signal to", pid, source: errno.into() }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;

    /// The numbers of listed and met threads of two processes: each has `each` threads, and the first a further thread in
    /// each round.
    fn walk(each: u32, most: usize) -> (usize, usize) {
        let (round, listed, met) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let pids = || {
            round.set(round.get() + 1);
            Ok::<_, Infallible>(vec![1, 2])
        };
        let threads = |pid: u32, most: usize| {
            let count = if pid == 1 { each + round.get() } else { each };
            let all: Vec<u32> = (0..count).map(|thread| pid * 1_000_000 + thread).take(most).collect();
            listed.set(listed.get() + all.len());
            Ok(all)
        };
        each_listed(most, pids, threads, |_| {
            met.set(met.get() + 1);
            Ok(())
        })
        .unwrap();
        (listed.get(), met.get())
    }

    #[test]
    fn a_stream_of_new_threads_does_not_prolong_a_walk_over_many() {
        assert_eq!(walk(50_000, usize::MAX), (400_010, 100_004));
        assert_eq!(walk(10, usize::MAX).1, 20 + ROUNDS_MAX, "of a few each round is tried");
        assert_eq!(walk(50_000, 1_000), (1_000, 1_000));
        assert_eq!(walk(600, 1_000).1, 1_000, "over processes");
    }
}
