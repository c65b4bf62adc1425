//! The files that a group has, and the description of a capable host.

use std::fs;
use std::io;
use std::path::Path;

/// The files of every group of the unified hierarchy but the top.
pub(super) const V2_GROUP: &[(&str, &str)] = &[
    ("cgroup.controllers", ""),
    ("cgroup.events", "populated 0\nfrozen 0\n"),
    ("cgroup.freeze", "0\n"),
    ("cgroup.kill", ""),
    ("cgroup.procs", ""),
    ("cgroup.subtree_control", ""),
    ("cpu.stat", "usage_usec 0\nuser_usec 0\nsystem_usec 0\n"),
    ("cpu.pressure", PRESSURE),
    ("io.pressure", PRESSURE),
    ("memory.pressure", PRESSURE),
];

/// The files of its top, which has neither events nor freezer.
pub(super) const V2_TOP: &[(&str, &str)] = &[
    ("cgroup.controllers", ""),
    ("cgroup.procs", ""),
    ("cgroup.subtree_control", ""),
    ("cpu.stat", "usage_usec 0\n"),
];

const PRESSURE: &str =
    "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";

/// The largest number of whole pages in 63 bits: how the first generation says `no bound`.
pub(super) const NO_BOUND: &str = "9223372036854771712\n";

/// The files that a controller of the unified hierarchy adds to the groups that it is handed down to.
pub(super) fn v2_controller(controller: &str) -> &'static [(&'static str, &'static str)] {
    match controller {
        "cpu" => &[("cpu.weight", "100\n"), ("cpu.idle", "0\n"), ("cpu.max", "max 100000\n")],
        "cpuset" => &[
            ("cpuset.cpus", "\n"),
            ("cpuset.cpus.effective", "\n"),
            ("cpuset.mems", "\n"),
            ("cpuset.mems.effective", "\n"),
        ],
        "memory" => &[
            ("memory.current", "0\n"),
            ("memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n"),
            ("memory.high", "max\n"),
            ("memory.low", "0\n"),
            ("memory.max", "max\n"),
            ("memory.numa_stat", "anon N0=0\nfile N0=0\nshmem N0=0\n"),
            ("memory.peak", "0\n"),
            ("memory.reclaim", ""),
            ("memory.stat", "anon 0\nfile 0\nshmem 0\n"),
            ("memory.swap.current", "0\n"),
            ("memory.swap.max", "max\n"),
        ],
        "io" => &[("io.stat", ""), ("io.max", "")],
        "pids" => &[("pids.current", "0\n"), ("pids.max", "max\n")],
        _ => &[],
    }
}

/// The files of a group in a first-generation hierarchy.
pub(super) fn v1_controller(controller: &str) -> &'static [(&'static str, &'static str)] {
    match controller {
        "cpu" => &[
            ("cpu.shares", "1024\n"),
            ("cpu.idle", "0\n"),
            ("cpu.cfs_quota_us", "-1\n"),
            ("cpu.cfs_period_us", "100000\n"),
        ],
        "pids" => &[("pids.current", "0\n"), ("pids.max", "max\n")],
        "cpuset" => &[("cpuset.cpus", "\n"), ("cpuset.mems", "\n")],
        "memory" => &[
            ("memory.force_empty", ""),
            ("memory.limit_in_bytes", NO_BOUND),
            ("memory.max_usage_in_bytes", "0\n"),
            ("memory.memsw.limit_in_bytes", NO_BOUND),
            ("memory.numa_stat", "anon=0 N0=0\nhierarchical_anon=0 N0=0\n"),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n"),
            ("memory.stat", "total_cache 0\ntotal_rss 0\ntotal_shmem 0\ntotal_swap 0\n"),
            ("memory.usage_in_bytes", "0\n"),
        ],
        "freezer" => &[("freezer.state", "THAWED\n"), ("freezer.self_freezing", "0\n")],
        "cpuacct" => &[("cpuacct.usage_user", "0\n"), ("cpuacct.usage_sys", "0\n")],
        _ => &[],
    }
}

/// The files of every first-generation group.
pub(super) const V1_GROUP: &[(&str, &str)] =
    &[("cgroup.procs", ""), ("cgroup.clone_children", "0\n"), ("tasks", "")];

/// Describes a capable host: a recent kernel, root, swap as large as the memory, pressure.
pub(super) fn write_proc(proc: &Path, mountinfo: &str, own: &str) -> io::Result<()> {
    let thread = proc.join(format!("{0}/task/{0}", std::process::id()));
    for folder in
        [&proc.join("self"), &proc.join("sys/kernel"), &proc.join("pressure"), &proc.join("1"), &thread]
    {
        fs::create_dir_all(folder)?;
    }
    let files = [
        ("self/mountinfo", mountinfo),
        ("self/cgroup", own),
        ("self/status", "Name:\tpinfoldd\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n"),
        ("self/limits", "Max open files            524288               524288               files     \n"),
        ("sys/kernel/osrelease", "6.12.9\n"),
        ("pressure/memory", PRESSURE),
        (
            "meminfo",
            "MemTotal: 8388608 kB\nMemFree: 8388608 kB\nMemAvailable: 8388608 kB\nSwapTotal: 8388608 kB\n",
        ),
        ("stat", "cpu  1 0 1 9 0 0 0 0 0 0\ncpu0 1 0 1 9 0 0 0 0 0 0\ncpu1 1 0 1 9 0 0 0 0 0 0\n"),
        ("cpuinfo", "siblings\t: 2\ncpu cores\t: 2\n"),
        ("1/comm", "init\n"),
    ];
    for (file, text) in files {
        fs::write(proc.join(file), text)?;
    }
    fs::write(thread.join("children"), "")
}
