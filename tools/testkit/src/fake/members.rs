//! The real processes in fake groups: who is there, what they use, and what is done to them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pinfold_sys::procfs::{Proc, ProcessStat};
use pinfold_topo::CpuSet;
use rustix::process::{Pid, Signal, kill_process};

/// A look at the real processes.
#[derive(Debug)]
pub(super) struct Processes {
    proc: Proc,
}

impl Processes {
    pub(super) fn open() -> Result<Self, pinfold_sys::procfs::ProcError> {
        Ok(Self { proc: Proc::open(Path::new("/proc"))? })
    }

    pub(super) fn stat(&self, pid: u32) -> Option<ProcessStat> {
        self.proc.stat(pid).ok().flatten().filter(|stat| !stat.is_ended())
    }

    /// Everything that descends from these, themselves included.
    pub(super) fn with_descendants(&self, pids: &BTreeSet<u32>) -> BTreeSet<u32> {
        let mut found = BTreeSet::new();
        let mut waiting: Vec<u32> = pids.iter().copied().collect();
        while let Some(pid) = waiting.pop() {
            if self.stat(pid).is_some() && found.insert(pid) {
                waiting.extend(self.proc.children(pid).ok().flatten().unwrap_or_default());
            }
        }
        found
    }

    /// Anonymous and shared memory, in bytes.
    pub(super) fn memory(&self, pids: &BTreeSet<u32>) -> (u64, u64) {
        let of = |pid: &u32| self.proc.status(*pid).ok().flatten();
        pids.iter().filter_map(of).fold((0, 0), |sum, one| (sum.0 + one.anon_bytes, sum.1 + one.shmem_bytes))
    }

    pub(super) fn threads(&self, pids: &BTreeSet<u32>) -> u64 {
        pids.iter().filter_map(|pid| self.stat(*pid)).map(|stat| stat.threads).sum()
    }

    /// User and system time in microseconds. A tick is 10 ms on every kernel that tests meet.
    pub(super) fn times(&self, pids: &BTreeSet<u32>) -> BTreeMap<u32, (u64, u64)> {
        let of = |pid: &u32| {
            self.stat(*pid).map(|stat| (*pid, (stat.user_ticks * 10_000, stat.system_ticks * 10_000)))
        };
        pids.iter().filter_map(of).collect()
    }

    pub(super) fn are_stopped(&self, pids: &BTreeSet<u32>) -> bool {
        pids.iter().filter_map(|pid| self.stat(*pid)).all(|stat| stat.is_at_rest())
    }

    pub(super) fn bind(&self, pids: &BTreeSet<u32>, cpus: &CpuSet) {
        let mut mask = rustix::thread::CpuSet::new();
        for pu in cpus.iter().filter_map(|pu| usize::try_from(pu.0).ok()) {
            if pu < rustix::thread::CpuSet::MAX_CPU {
                mask.set(pu);
            }
        }
        let threads = pids.iter().filter_map(|pid| self.proc.threads(*pid).ok().flatten()).flatten();
        for thread in threads.filter_map(as_pid) {
            // One that ended meanwhile needs no binding.
            let _ = rustix::thread::sched_setaffinity(Some(thread), &mask);
        }
    }
}

pub(super) fn signal(pids: &BTreeSet<u32>, signal: Signal) {
    for pid in pids.iter().copied().filter_map(as_pid) {
        // One that ended meanwhile needs no signal.
        let _ = kill_process(pid, signal);
    }
}

fn as_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}
