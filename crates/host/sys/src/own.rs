//! Attributes that a process sets for itself: its umask, limits, session, priority, name, and whether its memory may be
//! swapped. Absent here: starting other processes ([`crate::spawn`]), and another user's rights ([`crate::peer`]).

use std::ffi::CStr;
use std::sync::OnceLock;

use rustix::fs::Mode;
use rustix::mm::{MlockAllFlags, mlockall};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use rustix::time::ClockId;

/// `linux/ioprio.h`.
pub(crate) const IOPRIO_WHO_PROCESS: libc::c_int = 1;

/// Bytes of a page of memory.
#[must_use]
pub fn page_bytes() -> u64 {
    u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

/// The process's effective group.
#[must_use]
pub fn group() -> u32 {
    rustix::process::getegid().as_raw()
}

/// Sets the umask; returns the earlier mask.
pub fn set_umask(mask: u32) -> u32 {
    rustix::process::umask(Mode::from_raw_mode(mask)).as_raw_mode()
}

/// The umask. Between the two system calls new files of other threads are accessible to this user alone.
#[must_use]
pub fn umask() -> u32 {
    let mask = set_umask(0o077);
    set_umask(mask);
    mask
}

/// Leads a session of its own from now on, without a terminal. The leader of a group stays in its session.
pub fn leave_session() {
    let _ = rustix::process::setsid();
}

/// Names the calling thread, as `ps` and `top` show it.
pub fn name_thread(name: &CStr) {
    let _ = rustix::thread::set_name(name);
}

/// Sets the nice value of the calling thread, -20 to 19; without the right to lower it, it stays.
pub fn nice_thread(nice: i32) {
    // On Linux this call affects the calling thread only.
    let _ = rustix::process::setpriority_process(None, nice);
}

/// The nice value of the calling thread; `None`: unknown.
#[must_use]
pub fn nice() -> Option<i32> {
    rustix::process::getpriority_process(None).ok()
}

/// The I/O priority of the calling thread, as in `ioprio_set(2)`; 0: none of its own.
#[must_use]
pub fn io_priority() -> u32 {
    #[expect(unsafe_code, reason = "no safe binding for I/O priorities")]
    // SAFETY: takes numbers and touches no memory.
    let found = unsafe { libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0) };
    u32::try_from(found).unwrap_or(0)
}

/// The scheduling class of the calling thread (`sched(7)`).
#[must_use]
pub fn scheduling() -> i32 {
    #[expect(unsafe_code, reason = "no safe binding for scheduling classes")]
    // SAFETY: takes a number and touches no memory.
    unsafe {
        libc::sched_getscheduler(0)
    }
}

/// Sets both for the calling thread. A class or priority that wants rights stays as it is without.
pub fn set_scheduling(class: i32, io_priority: u32) {
    let parameter = libc::sched_param { sched_priority: 0 };
    #[expect(unsafe_code, reason = "no safe binding for scheduling classes and I/O priorities")]
    // SAFETY: the calls take numbers, and one `sched_param` that outlives its call.
    unsafe {
        libc::sched_setscheduler(0, class, &raw const parameter);
        libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, io_priority);
    }
}

/// Processor time of the calling thread so far, in microseconds.
#[must_use]
pub fn thread_cpu_us() -> u64 {
    clock_us(ClockId::ThreadCPUTime)
}

/// The largest size of a file that this process may write, in bytes (`RLIMIT_FSIZE`).
#[must_use]
pub fn file_size_max() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

/// The original soft limit of open files, if [`raise_file_limit`] raised it.
static FILES_BEFORE: OnceLock<Option<u64>> = OnceLock::new();

/// Raises the limit of open files to the hard limit; returns the new limit. Programs that [`crate::spawn`] starts get
/// the original limit.
pub fn raise_file_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    FILES_BEFORE.get_or_init(|| limit.current);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Sets the limit of open files as it was before it was raised, in a child that is about to execute a program.
pub(crate) fn restore_file_limit() {
    if let Some(&current) = FILES_BEFORE.get() {
        let _ = setrlimit(Resource::Nofile, Rlimit { current, ..getrlimit(Resource::Nofile) });
    }
}

/// Locks this process's pages in RAM as it touches them, if no limit applies; `false`: the kernel may swap them. A
/// forked child does not inherit the lock.
///
/// Under a limit (`RLIMIT_MEMLOCK`, 8 MiB for users as a rule) the kernel counts all mapped memory, and would refuse
/// the first mapping beyond it: then nothing is locked.
#[must_use]
pub fn stay_in_ram() -> bool {
    let may = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK));
    let unbounded = getrlimit(Resource::Memlock).current.is_none();
    let flags = MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT;
    (may || unbounded) && mlockall(flags).is_ok()
}

/// The resource limits that go with a job from its submission to its run, by name.
const LIMITS: [(&str, Resource); 16] = [
    ("as", Resource::As),
    ("core", Resource::Core),
    ("cpu", Resource::Cpu),
    ("data", Resource::Data),
    ("fsize", Resource::Fsize),
    ("locks", Resource::Locks),
    ("memlock", Resource::Memlock),
    ("msgqueue", Resource::Msgqueue),
    ("nice", Resource::Nice),
    ("nofile", Resource::Nofile),
    ("nproc", Resource::Nproc),
    ("rss", Resource::Rss),
    ("rtprio", Resource::Rtprio),
    ("rttime", Resource::Rttime),
    ("sigpending", Resource::Sigpending),
    ("stack", Resource::Stack),
];

/// A limit of this process: its name, the soft and the hard value; `None`: none.
pub type Limit = (String, Option<u64>, Option<u64>);

/// This process's limits, with the original limit of open files.
#[must_use]
pub fn limits() -> Vec<Limit> {
    let limit = |(name, resource): (&str, Resource)| {
        let Rlimit { current, maximum } = getrlimit(resource);
        let before = FILES_BEFORE.get().filter(|_| resource == Resource::Nofile);
        (name.to_owned(), before.copied().unwrap_or(current), maximum)
    };
    LIMITS.into_iter().map(limit).collect()
}

/// Sets limits of another process; where this process may have less, as much as it may. Unknown names are left out.
pub fn set_limits(limits: &[Limit]) {
    // No limit is more than any.
    let less = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
    for (name, soft, hard) in limits {
        let Some((_, resource)) = LIMITS.iter().find(|(known, _)| known == name) else { continue };
        if setrlimit(*resource, Rlimit { current: *soft, maximum: *hard }).is_err() {
            let maximum = less(*hard, getrlimit(*resource).maximum);
            let _ = setrlimit(*resource, Rlimit { current: less(*soft, maximum), maximum });
        }
    }
}

/// Asks the kernel to move memory of this process to swap, as far as there is room; touched pages come back. The kernel
/// may finish later.
///
/// # Errors
/// `INVAL` where the kernel is older than Linux 5.4.
#[expect(unsafe_code, reason = "advice on memory takes a pointer")]
pub fn page_out(memory: &mut [u8]) -> Result<(), rustix::io::Errno> {
    let page = rustix::param::page_size();
    let skip = memory.as_ptr().align_offset(page).min(memory.len());
    let whole = &mut memory[skip..];
    let length = whole.len() / page * page;
    // SAFETY: the range is whole pages within the slice, which this process owns; the advice keeps their contents.
    unsafe { rustix::mm::madvise(whole.as_mut_ptr().cast(), length, rustix::mm::Advice::LinuxPageOut) }
}

/// The clock that no program sets and that stops while the host sleeps, in microseconds since the boot. All processes
/// of one boot read the same.
#[must_use]
pub fn monotonic_us() -> u64 {
    clock_us(ClockId::Monotonic)
}

/// Processor time of this process so far, in microseconds.
#[must_use]
pub fn process_cpu_us() -> u64 {
    clock_us(ClockId::ProcessCPUTime)
}

fn clock_us(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    let (whole, rest) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    whole.unwrap_or(0).saturating_mul(1_000_000).saturating_add(rest.unwrap_or(0) / 1000)
}
