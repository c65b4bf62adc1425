//! Attributes that a process inherits from its starter beyond its environment: limits, priorities, affinity, signals,
//! memory policy. [`reset`] restores the system's defaults, so that a private daemon does not depend on the command
//! that started it; [`bounds`] names the rest. Absent here: attributes that a job inherits from its caller.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::CapabilitySet;

use crate::{affinity, fork, own, signals};

/// Limits that restrict a daemon: the shell's option and the value below which the limit is reported.
const LIMITS: [(Resource, &str, u64); 7] = [
    (Resource::Cpu, "ulimit -t", u64::MAX),
    (Resource::Fsize, "ulimit -f", u64::MAX),
    (Resource::As, "ulimit -v", u64::MAX),
    (Resource::Data, "ulimit -d", u64::MAX),
    (Resource::Rss, "ulimit -m", u64::MAX),
    (Resource::Nofile, "ulimit -n", 256),
    (Resource::Nproc, "ulimit -u", 256),
];

/// Variables that name descriptors, locks or sockets of the process that set them: useless in a process started later
/// by another. From systemd (`sd_listen_fds`, `sd_notify`, `systemd.exec`), bash, dpkg, git, GNU make, Cargo, Node.js
/// and MPI launchers (PMI).
pub const OF_ONE_PROCESS: [&str; 21] = [
    "BASH_XTRACEFD",
    "CARGO_MAKEFLAGS",
    "DPKG_FRONTEND_LOCKED",
    "GIT_INDEX_FILE",
    "JOURNAL_STREAM",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "MAINPID",
    "MAKELEVEL",
    "MANAGERPID",
    "MEMORY_PRESSURE_WATCH",
    "MFLAGS",
    "NODE_CHANNEL_FD",
    "NODE_CHANNEL_SERIALIZATION_MODE",
    "NOTIFY_SOCKET",
    "PMI_FD",
    "PMI_PORT",
    "SYSTEMD_EXEC_PID",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// The kernel's default, in nanoseconds.
const TIMER_SLACK_NS: libc::c_ulong = 50_000;

/// Raises the limits of this process as far as its rights allow, and blocks no signal. A write beyond the file size
/// limit is then an error, as on a full disk, and does not kill the process.
pub fn raise_limits() {
    let unbounded = Rlimit { current: None, maximum: None };
    for (resource, _, told_below) in LIMITS {
        if told_below < u64::MAX || setrlimit(resource, unbounded).is_err() {
            let maximum = getrlimit(resource).maximum;
            let _ = setrlimit(resource, Rlimit { current: maximum, maximum });
        }
    }
    signals::catch_file_limit();
}

/// Resets all inherited attributes that this process may change, its session, directory and open files included.
pub fn reset() {
    own::leave_session();
    fork::drop_inherited_files();
    signals::ignore_none();
    signals::block_none();
    let _ = std::env::set_current_dir("/");
    raise_limits();
    // An empty set: all PUs that the cpuset has.
    let _ = affinity::set(0, &pinfold_topo::CpuSet::new());
    let _ = std::fs::write("/proc/self/oom_score_adj", "0");
    let _ = std::fs::write("/proc/self/coredump_filter", "0x33");
    reset_memory_and_timers();
    // No I/O priority of its own: the nice value decides.
    own::set_scheduling(libc::SCHED_OTHER, 0);
    own::nice_thread(0);
}

#[expect(unsafe_code, reason = "no safe bindings for memory policy, timer slack and personality")]
fn reset_memory_and_timers() {
    // SAFETY: the calls take numbers, and a null mask of length 0. A refused call changes nothing.
    unsafe {
        libc::syscall(libc::SYS_set_mempolicy, libc::MPOL_DEFAULT, std::ptr::null::<libc::c_ulong>(), 0);
        libc::prctl(libc::PR_SET_TIMERSLACK, TIMER_SLACK_NS);
        libc::personality(0);
    }
}

/// The attributes that still bound this process and that it has no right to reset, in a shell's words.
#[must_use]
pub fn bounds() -> Vec<String> {
    if rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE))
    {
        return Vec::new();
    }
    let limit = |(resource, option, told_below): (Resource, &str, u64)| {
        let maximum = getrlimit(resource).maximum.filter(|maximum| *maximum < told_below)?;
        // Shells count files and memory in KiB.
        let unit = if matches!(option, "ulimit -t" | "ulimit -n" | "ulimit -u") { 1 } else { 1024 };
        Some(format!("{option} {}", maximum / unit))
    };
    let nice = own::nice().filter(|nice| *nice > 0).map(|nice| format!("nice {nice}"));
    LIMITS.into_iter().filter_map(limit).chain(nice).collect()
}
