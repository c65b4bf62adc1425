//! System calls on single processes and threads. Small, and safe to call with any number: a process that vanished
//! is the answer `Gone`. Absent here: which process belongs to a job.

use pinfold_topo::CpuSet;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpriority_process, pidfd_open, setpriority_process};

use crate::affinity::checked;

/// The result of a call on a process or thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    /// The call took effect.
    Yes,
    /// The process or thread has ended.
    Gone,
    /// The kernel forbids it to us.
    Forbidden,
}

fn reached(result: Result<(), Errno>) -> Result<Reached, Errno> {
    match result {
        Ok(()) => Ok(Reached::Yes),
        Err(Errno::SRCH) => Ok(Reached::Gone),
        Err(Errno::PERM | Errno::ACCESS) => Ok(Reached::Forbidden),
        Err(errno) => Err(errno),
    }
}

fn raw(pid: u32) -> Option<i32> {
    // Zero would mean ourselves to most of these calls, and negative numbers groups of processes.
    i32::try_from(pid).ok().filter(|pid| *pid > 0)
}

/// Opens a handle on a process, which stays valid when its number is reused; `None`: it has ended.
pub(super) fn open(pid: u32) -> Result<Option<OwnedFd>, Errno> {
    let Some(pid) = raw(pid).and_then(Pid::from_raw) else { return Ok(None) };
    match pidfd_open(pid, PidfdFlags::empty()) {
        Ok(handle) => Ok(Some(handle)),
        // EINVAL: the number is that of a thread which is not the first of its process; no process of ours.
        Err(Errno::SRCH | Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Sends a signal through a handle.
#[expect(unsafe_code, reason = "rustix has no way to send a signal of any number, realtime ones included")]
pub(super) fn signal(handle: BorrowedFd<'_>, signal: i32) -> Result<Reached, Errno> {
    let info: *const libc::siginfo_t = std::ptr::null();
    // SAFETY: the call reads no memory of ours, as the information pointer is null; the descriptor is open for the
    // duration of the borrow; an unknown signal number is answered with EINVAL.
    let result = unsafe {
        libc::syscall(libc::SYS_pidfd_send_signal, handle.as_raw_fd(), signal, info, 0 as libc::c_uint)
    };
    reached(checked(result).map(|_| ()))
}

/// Binds a thread to PUs; empty: to all PUs of its cpuset.
pub(super) fn bind(thread: u32, cpus: &CpuSet) -> Result<Reached, Errno> {
    // Zero would mean ourselves.
    if thread == 0 {
        return Ok(Reached::Gone);
    }
    match crate::affinity::set(thread, cpus) {
        Ok(true) => Ok(Reached::Yes),
        Ok(false) => Ok(Reached::Gone),
        Err(errno) => reached(Err(errno)),
    }
}

/// Puts a thread into the idle class, or back into the normal class. Realtime threads stay: the job set their class.
#[expect(unsafe_code, reason = "rustix does not cover scheduling classes")]
pub(super) fn set_idle_class(thread: u32, idle: bool) -> Result<Reached, Errno> {
    let Some(thread) = raw(thread) else { return Ok(Reached::Gone) };
    // SAFETY: takes a number and touches no memory.
    let class = match checked(unsafe { libc::syscall(libc::SYS_sched_getscheduler, thread) }) {
        Ok(class) => class & !i64::from(libc::SCHED_RESET_ON_FORK),
        Err(errno) => return reached(Err(errno)),
    };
    let is_idle = class == i64::from(libc::SCHED_IDLE);
    let is_normal = class == i64::from(libc::SCHED_OTHER) || class == i64::from(libc::SCHED_BATCH);
    if is_idle == idle || !(is_idle || is_normal) {
        return Ok(Reached::Yes);
    }
    let class = if idle { libc::SCHED_IDLE } else { libc::SCHED_OTHER };
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads one `sched_param`, which lives until the call returns.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, class, std::ptr::from_ref(&parameter)) };
    reached(checked(result).map(|_| ()))
}

/// Puts a thread's I/O into the idle class, or back to normal (`ioprio_set(2)`). A class that the job set itself stays;
/// threads inherit the class. Among the disk schedulers, bfq and mq-deadline honour it.
#[expect(unsafe_code, reason = "rustix does not cover I/O classes")]
pub(super) fn set_io_idle(thread: u32, idle: bool) -> Result<Reached, Errno> {
    // linux/ioprio.h
    const WHO_PROCESS: libc::c_int = 1;
    const CLASS_SHIFT: u32 = 13;
    const CLASS_NONE: i64 = 0;
    const CLASS_IDLE: i64 = 3;
    let Some(thread) = raw(thread) else { return Ok(Reached::Gone) };
    // SAFETY: takes numbers and touches no memory.
    let class = match checked(unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, thread) }) {
        Ok(priority) => priority >> CLASS_SHIFT,
        Err(errno) => return reached(Err(errno)),
    };
    let (from, to) = if idle { (CLASS_NONE, CLASS_IDLE) } else { (CLASS_IDLE, CLASS_NONE) };
    if class != from {
        return Ok(Reached::Yes);
    }
    // SAFETY: as above.
    let set = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, thread, to << CLASS_SHIFT) };
    reached(checked(set).map(|_| ()))
}

/// Sets the nice value of a thread.
pub(super) fn set_nice(thread: u32, nice: i32) -> Result<Reached, Errno> {
    let Some(thread) = raw(thread).and_then(Pid::from_raw) else { return Ok(Reached::Gone) };
    reached(setpriority_process(Some(thread), nice))
}

/// The nice value of a thread; `None`: it has ended.
pub(super) fn nice(thread: u32) -> Option<i32> {
    let pid = raw(thread).and_then(Pid::from_raw)?;
    getpriority_process(Some(pid)).ok()
}

/// The nice value with the nearest weight in the kernel: each step is a factor of 1.25.
pub(super) fn nice_of_weight(weight: u32) -> i32 {
    let steps = (f64::from(weight.max(1)) / 100.0).ln() / 1.25f64.ln();
    #[expect(clippy::cast_possible_truncation, reason = "clamped to -20..=19 before")]
    let nice = (-steps).round().clamp(-20.0, 19.0) as i32;
    nice
}

/// The advice on another process's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advice {
    /// Move it to swap.
    PageOut,
    /// Read it back from swap, many pages at a time, where page faults would read single pages.
    Fetch,
}

/// Advises the kernel on ranges of another process's memory; returns the number of processed bytes.
#[expect(unsafe_code, reason = "neither rustix nor libc wraps process_madvise")]
pub(super) fn advise(handle: BorrowedFd<'_>, ranges: &[(u64, u64)], advice: Advice) -> Result<u64, Errno> {
    let vectors: Vec<libc::iovec> = ranges
        .iter()
        .filter_map(|(start, end)| {
            let length = usize::try_from(end.checked_sub(*start)?).ok()?;
            let start = usize::try_from(*start).ok()?;
            Some(libc::iovec { iov_base: std::ptr::without_provenance_mut(start), iov_len: length })
        })
        .collect();
    // SAFETY: the kernel reads `vectors.len()` entries at the pointer. Their addresses belong to the other process and
    // are never touched here; neither advice changes the contents of memory.
    let result = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            handle.as_raw_fd(),
            vectors.as_ptr(),
            vectors.len(),
            match advice {
                Advice::PageOut => libc::MADV_PAGEOUT,
                Advice::Fetch => libc::MADV_WILLNEED,
            },
            0 as libc::c_uint,
        )
    };
    checked(result).map(|bytes| u64::try_from(bytes).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_become_nice_values() {
        for (weight, nice) in [(100, 0), (125, -1), (80, 1), (1, 19), (10_000, -20), (0, 19), (200, -3)] {
            assert_eq!(nice_of_weight(weight), nice, "weight {weight}");
        }
    }

    #[test]
    fn calls_on_an_unused_number_report_gone() {
        assert_eq!(bind(0, &CpuSet::new()), Ok(Reached::Gone));
        assert_eq!(set_nice(u32::MAX, 0), Ok(Reached::Gone));
        assert_eq!(set_idle_class(i32::MAX as u32, true), Ok(Reached::Gone));
        assert!(matches!(open(i32::MAX as u32), Ok(None)));
    }
}
