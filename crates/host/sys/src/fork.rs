//! Processes that fork: parent and child, the files that a child closes, and its end.
//!
//! The caller of a fork must have one thread: the child goes on as ordinary code, which is only sound when no other
//! thread can have held the allocator's lock. Absent here: the child's program.

use std::io;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, RawFd};

/// The side of a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The process that called, with the number of its new child.
    Parent(u32),
    /// The new child.
    Child,
}

/// Forks this process, which must have one thread; the child goes on as ordinary code.
pub(crate) fn fork() -> io::Result<Side> {
    #[expect(unsafe_code, reason = "std cannot fork without also executing")]
    // SAFETY: the caller is single-threaded (contract of the module), so the child may run ordinary code.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child),
        _ => Ok(Side::Parent(pid.unsigned_abs())),
    }
}

/// Forks this process, which must have one thread; the child leads a session of its own, away from the terminal, and
/// goes on as ordinary code.
///
/// # Errors
/// When the system has no process left.
pub fn fork_away() -> io::Result<Side> {
    let side = fork()?;
    if side == Side::Child {
        lead_session();
    }
    Ok(side)
}

/// Makes this process the leader of a session of its own, away from the terminal. The leader of a process group stays
/// in its session; a new child never leads a group.
pub fn lead_session() {
    let _ = rustix::process::setsid();
}

/// Whether this process has just one thread, as [`crate::spawn::Held::fork`] requires.
#[must_use]
pub fn single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").map(|threads| threads.count() == 1).unwrap_or(false)
}

/// Ends this process at once, without the exit handlers that it shares with its parent.
pub(crate) fn leave(status: i32) -> ! {
    #[expect(unsafe_code, reason = "the parent's exit handlers must not run in the child")]
    // SAFETY: _exit takes any status and does not return.
    unsafe {
        libc::_exit(status)
    }
}

/// Has the kernel kill this process when its parent ends.
pub(crate) fn end_with_parent() {
    #[expect(
        unsafe_code,
        reason = "rustix sets it for the calling thread only by the same call, behind a feature"
    )]
    // SAFETY: takes a number and touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
}

/// Keeps this process from leaving a core dump.
pub(crate) fn leave_no_core() {
    #[expect(unsafe_code, reason = "rustix sets it only by the same call, behind a feature")]
    // SAFETY: takes a number and touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
    }
}

/// Puts a descriptor in the place of another; returns whether that worked.
pub(crate) fn duplicate(from: RawFd, to: RawFd) -> bool {
    #[expect(unsafe_code, reason = "rustix has dup2 only into descriptors it owns")]
    // SAFETY: dup2 on numbers; a bad number gives an error. It runs in the child, where no code relies on the earlier
    // 0, 1 and 2.
    unsafe {
        libc::dup2(from, to) == to
    }
}

/// Closes the caller's own files but `keep`, in a forked child that must not hold their locks. Values that own them
/// must not be used again.
pub fn drop_files_but(keep: impl AsFd) {
    drop_own_files(keep.as_fd().as_raw_fd());
}

/// Closes all descriptors that an exec would close, but `keep`: the child may wait for long, and must not hold the
/// caller's connection or another child's release pipe open meanwhile.
///
/// Descriptors are handed out lowest first, so after a run of unused numbers there are no more worth the calls.
pub(crate) fn drop_own_files(keep: RawFd) {
    const UNUSED_MAX: u32 = 64;
    let (mut fd, mut unused) = (3, 0);
    while unused < UNUSED_MAX {
        match close_on_exec(fd) {
            None => unused += 1,
            Some(true) if fd != keep => close(fd),
            Some(_) => unused = 0,
        }
        fd += 1;
    }
}

/// Closes inherited descriptors beyond the standard streams, for a detached process: it would hold a lock or a pipe of
/// the caller for its whole life. Its own descriptors are closed by an exec, and stay.
pub fn drop_inherited_files() {
    let numbers = |entry: io::Result<std::fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    let open: Vec<RawFd> =
        std::fs::read_dir("/proc/self/fd").into_iter().flatten().filter_map(numbers).collect();
    open.into_iter().filter(|&fd| fd > 2 && close_on_exec(fd) == Some(false)).for_each(close);
}

/// Whether an exec closes this descriptor; `None`: it is not open.
pub(crate) fn close_on_exec(fd: RawFd) -> Option<bool> {
    #[expect(unsafe_code, reason = "rustix asks flags only of descriptors it owns or borrows")]
    // SAFETY: F_GETFD reads the flags of any number, open or not, and changes nothing.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    (flags >= 0).then_some(flags & libc::FD_CLOEXEC != 0)
}

fn close(fd: RawFd) {
    #[expect(unsafe_code, reason = "the owner of this descriptor is the parent's copy of the program")]
    // SAFETY: no value of this process that is dropped owns the number: it runs in a child, or the number was
    // inherited, or is standard input, which is opened anew.
    unsafe {
        libc::close(fd);
    }
}

/// Undoes the changes of the runtime and the keeper: the limit of open files, SIGPIPE's default action, which Rust's
/// start-up ignores, and the signals that the keeper blocks to read them from a descriptor. Signals that the user's
/// shell ignores (`nohup`) stay ignored.
pub(crate) fn restore() {
    crate::own::restore_file_limit();
    #[expect(unsafe_code, reason = "no safe binding for dispositions and masks")]
    // SAFETY: plain calls on values on the stack; the child has one thread.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Puts `/dev/null` in the place of standard input, output and error, as a detached process wants.
///
/// # Errors
/// When `/dev/null` cannot be opened.
pub fn null_streams() -> io::Result<()> {
    let open = || std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
    let null = match open() {
        // The limit of open files is reached. Readers of these streams must not wait for a free descriptor.
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
            close(0);
            let null = open()?;
            if null.as_raw_fd() == 0 {
                rustix::stdio::dup2_stdout(&null)?;
                rustix::stdio::dup2_stderr(&null)?;
                // The descriptor is standard input from now on.
                let _ = null.into_raw_fd();
                return Ok(());
            }
            null
        }
        opened => opened?,
    };
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// The end of a child, and the kernel's figures for it and its descendants that were waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaped {
    /// Its process number.
    pub pid: u32,
    /// Its exit code, when it exited.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if any.
    pub signal: Option<i32>,
    /// CPU time in user mode, in microseconds.
    pub cpu_user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub cpu_system_us: u64,
    /// The largest resident size of any of these processes, in bytes.
    pub rss_peak_bytes: u64,
    /// Bytes read from storage.
    pub io_read_bytes: u64,
    /// Bytes written to storage.
    pub io_write_bytes: u64,
    /// Page faults met from memory.
    pub faults_minor: u64,
    /// Page faults that waited for storage.
    pub faults_major: u64,
    /// Times they gave a processor up.
    pub switches_voluntary: u64,
    /// Involuntary context switches.
    pub switches_forced: u64,
}

/// Reaps one child that has ended, if any.
#[must_use]
pub fn reap() -> Option<Reaped> {
    let mut status = 0;
    #[expect(unsafe_code, reason = "rustix has no wait4, and only that gives the figures of just this child")]
    // SAFETY: both out-parameters are valid for writing; a zeroed rusage is a valid value.
    let (pid, usage) = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        (libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage), usage)
    };
    if pid <= 0 {
        return None;
    }
    let microseconds = |time: libc::timeval| unsigned(time.tv_sec) * 1_000_000 + unsigned(time.tv_usec);
    Some(Reaped {
        pid: pid.unsigned_abs(),
        exit_code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        cpu_user_us: microseconds(usage.ru_utime),
        cpu_system_us: microseconds(usage.ru_stime),
        rss_peak_bytes: rss_peak_bytes(&usage, own_rss_peak_kib()),
        // getrusage(2): block operations in units of 512 bytes.
        io_read_bytes: unsigned(usage.ru_inblock) * 512,
        io_write_bytes: unsigned(usage.ru_oublock) * 512,
        faults_minor: unsigned(usage.ru_minflt),
        faults_major: unsigned(usage.ru_majflt),
        switches_voluntary: unsigned(usage.ru_nvcsw),
        switches_forced: unsigned(usage.ru_nivcsw),
    })
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

/// The peak of a child's memory. The kernel counts memory that the child shared with this process before the exec. A
/// peak not above this process's own is thus no evidence; then the child's page faults bound its memory, beside the
/// pages of its program.
fn rss_peak_bytes(usage: &libc::rusage, own_kib: u64) -> u64 {
    const PROGRAM_KIB: u64 = 1024;
    const PAGE_KIB: u64 = 4;
    let told_kib = unsigned(usage.ru_maxrss);
    let faults = unsigned(usage.ru_minflt).saturating_add(unsigned(usage.ru_majflt));
    let by_faults_kib = faults.saturating_mul(PAGE_KIB).saturating_add(PROGRAM_KIB);
    1024 * if told_kib > own_kib { told_kib } else { told_kib.min(by_faults_kib) }
}

/// The peak of this process's memory.
fn own_rss_peak_kib() -> u64 {
    #[expect(unsafe_code, reason = "rustix has no getrusage")]
    // SAFETY: the out-parameter is valid for writing; a zeroed rusage is a valid value.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    unsigned(usage.ru_maxrss)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_held_no_memory_of_its_parent() {
        let check = |told_kib, faults, own_kib, want_kib: u64| {
            #[expect(unsafe_code, reason = "the structure has no other constructor")]
            // SAFETY: a zeroed rusage is a valid value.
            let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
            (usage.ru_maxrss, usage.ru_minflt) = (told_kib, faults);
            assert_eq!(rss_peak_bytes(&usage, own_kib), want_kib << 10, "{told_kib} {faults} {own_kib}");
        };
        check(23_000, 70, 23_000, 1_304);
        check(22_900, 70, 23_000, 1_304);
        check(30_000, 70, 23_000, 30_000);
        check(20_000, 8_000, 23_000, 20_000);
        check(900, 70, 23_000, 900);
    }
}
