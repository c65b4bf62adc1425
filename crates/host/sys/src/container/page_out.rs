//! Moving a job's memory to swap, by the means of each kind of host. Absent here: the pace, and whether swap has room.

use std::time::Duration;

use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

use super::members::open_members;
use super::process::{self, Advice};
use super::{Container, ContainerError};
use crate::aside::{self, Asked, Purpose};
use crate::cgroup::{CgroupError, Group};
use crate::procfs::{Proc, ProcError};

/// The most bytes that one lowering of a bound moves: a running process that asks for a page meanwhile waits for that
/// long, and cannot be frozen before it has the page.
const SQUEEZED_MAX: u64 = 8 << 20;
/// The most ranges that one system call takes (IOV_MAX).
const RANGES_MAX: usize = 1024;
/// The most processes of a job that are held by handles at a time.
const HELD_MAX: usize = 64;
/// The limit for moving the memory of a process, which takes as long as the swap device does. A longer call counts as
/// delayed by the process.
const ADVISED_WITHIN: Duration = Duration::from_secs(30);

impl Container {
    pub(super) fn page_out_v2(&self, bytes: u64) -> Result<u64, ContainerError> {
        self.group(self.shared.roles.memory).map_or(Ok(0), |group| page_out_v2(group, bytes))
    }

    pub(super) fn page_out_v1(&self, bytes: u64) -> Result<u64, ContainerError> {
        self.group(self.shared.roles.memory).map_or(Ok(0), |group| page_out_v1(group, bytes))
    }

    /// `user`: the user of the job, if known.
    pub(super) fn page_out_processes(&self, bytes: u64, user: Option<u32>) -> Result<u64, ContainerError> {
        if bytes == 0 {
            return Ok(0);
        }
        let mut out = 0u64;
        let proc = &self.shared.proc;
        let moved = |pid, handle| {
            let before = anon_bytes(proc, pid)?;
            advise_process(proc, (pid, handle, user), bytes - out, Advice::PageOut)?;
            out = out.saturating_add(before.saturating_sub(anon_bytes(proc, pid)?));
            Ok(out < bytes)
        };
        each_member(|| self.pids(), moved)?;
        Ok(out)
    }
}

/// Calls `act` with each process of the first listing until it returns `false`. A call may take long, and the number of
/// an ended process may be given to a stranger: the handle was opened while the process was a member.
pub(super) fn each_member(
    listed: impl Fn() -> Result<Vec<u32>, ContainerError>,
    mut act: impl FnMut(u32, OwnedFd) -> Result<bool, ContainerError>,
) -> Result<(), ContainerError> {
    for some in listed()?.chunks(HELD_MAX) {
        for (pid, handle) in open_members(some, &listed, failed)? {
            if !act(pid, handle)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn anon_bytes(proc: &Proc, pid: u32) -> Result<u64, ProcError> {
    Ok(proc.status(pid)?.map_or(0, |status| status.anon_bytes))
}

fn failed(pid: u32, errno: Errno) -> ContainerError {
    ContainerError::Process { operation: "advise the kernel on the memory of", pid, source: errno.into() }
}

/// Gives the kernel an advice on the first `bytes` of a process's private memory, by a thread aside: a process can delay it
/// for any time. `user`: the user of its job, if known; else the thread serves the user that the process acts as.
pub(super) fn advise_process(
    proc: &Proc,
    (pid, handle, user): (u32, OwnedFd, Option<u32>),
    bytes: u64,
    advice: Advice,
) -> Result<(), ContainerError> {
    let Some(owner) = user.or_else(|| proc.owner(pid)) else { return Ok(()) };
    let proc = proc.clone();
    let place = aside::place_within((Purpose::Pages, owner), ADVISED_WITHIN);
    let advised = place.and_then(|place| place.read(move || advise(&proc, (pid, &handle), bytes, advice)));
    match advised.map(|advised| advised.within(ADVISED_WITHIN)) {
        Some(Asked::Read(advised)) => advised,
        _ => Err(failed(pid, Errno::TIMEDOUT)),
    }
}

fn advise(
    proc: &Proc,
    (pid, handle): (u32, &OwnedFd),
    bytes: u64,
    advice: Advice,
) -> Result<(), ContainerError> {
    // The maps of a stranger with a reused number do no harm: the handle is that of an ended process.
    let Some(maps) = proc.maps(pid)? else { return Ok(()) };
    let ranges = first_bytes(&private_ranges(&maps), bytes);
    for some in ranges.chunks(RANGES_MAX) {
        match process::advise(handle.as_fd(), some, advice) {
            Ok(_) => {}
            // Ended, changed its mappings meanwhile, or not ours to advise on: best effort.
            Err(Errno::SRCH | Errno::NOMEM | Errno::INVAL | Errno::PERM | Errno::ACCESS) => {}
            Err(errno) => return Err(failed(pid, errno)),
        }
    }
    Ok(())
}

pub(super) fn page_out_v2(group: &Group, bytes: u64) -> Result<u64, ContainerError> {
    let before = group.read_number("memory.current")?.unwrap_or(0);
    let amount = bytes.min(before);
    if amount == 0 {
        return Ok(0);
    }
    match group.write("memory.reclaim", &amount.to_string()) {
        Ok(()) => {}
        // EAGAIN: the kernel reclaimed less than requested, which counts.
        Err(error) if error.errno() == Some(Errno::AGAIN) => {}
        Err(error) if error.errno() == Some(Errno::NOENT) => {
            return Ok(squeeze(group, "memory.high", "memory.current", amount)?);
        }
        Err(error) => return Err(error.into()),
    }
    let after = group.read_number("memory.current")?.unwrap_or(before);
    Ok(before.saturating_sub(after))
}

pub(super) fn page_out_v1(group: &Group, bytes: u64) -> Result<u64, ContainerError> {
    let before = group.read_number("memory.usage_in_bytes")?.unwrap_or(0);
    if bytes < before {
        let mut out = 0u64;
        while out < bytes {
            let piece = (bytes - out).min(SQUEEZED_MAX);
            match squeeze(group, "memory.limit_in_bytes", "memory.usage_in_bytes", piece)? {
                0 => break,
                moved => out = out.saturating_add(moved),
            }
        }
        return Ok(out);
    }
    // For all memory the kernel has a file of its own, which leaves no bound behind if this process dies meanwhile.
    match group.write("memory.force_empty", "0") {
        Ok(()) => {}
        Err(error) if matches!(error.errno(), Some(Errno::BUSY | Errno::AGAIN)) => {}
        Err(error) => return Err(error.into()),
    }
    let after = group.read_number("memory.usage_in_bytes")?.unwrap_or(before);
    Ok(before.saturating_sub(after))
}

/// Lowers a bound to `amount` below the present use and restores it. The kernel reclaims during the write; the first
/// generation refuses a bound that it cannot reach, and then never sets it.
fn squeeze(group: &Group, bound: &str, held: &str, amount: u64) -> Result<u64, CgroupError> {
    let Some(usual) = group.read(bound)? else { return Ok(0) };
    let before = group.read_number(held)?.unwrap_or(0);
    let lowered = group.write(bound, &before.saturating_sub(amount).to_string());
    // Restored at once, whatever the outcome: a bound left behind would throttle or kill the job.
    group.write(bound, usual.trim())?;
    match lowered {
        Ok(()) => {}
        Err(error) if matches!(error.errno(), Some(Errno::BUSY | Errno::AGAIN)) => {}
        Err(error) => return Err(error),
    }
    let after = group.read_number(held)?.unwrap_or(before);
    Ok(before.saturating_sub(after))
}

/// The writable private ranges in `/proc/PID/maps`: memory without a file.
fn private_ranges(maps: &str) -> Vec<(u64, u64)> {
    let range = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let flags = words.next()?;
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = (number(start)?, number(end)?);
        (flags.starts_with("rw") && flags.ends_with('p') && start < end).then_some((start, end))
    };
    maps.lines().filter_map(range).collect()
}

/// As many ranges from the front as hold `bytes`, the last cut to whole pages.
fn first_bytes(ranges: &[(u64, u64)], bytes: u64) -> Vec<(u64, u64)> {
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(4096).max(1);
    let mut left = bytes.div_ceil(page).saturating_mul(page);
    let mut taken = Vec::new();
    for (start, end) in ranges {
        if left == 0 {
            break;
        }
        let length = (end - start).min(left);
        taken.push((*start, start + length));
        left -= length;
    }
    taken
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_private_writable_ranges_are_taken() {
        let maps = "1000-3000 rw-p 00000000 00:00 0 [heap]\n4000-5000 r-xp 0 08:01 9 /bin/x\n\
                    6000-7000 rw-s 0 00:01 2 /dev/shm/y\n8000-a000 rw-p 0 00:00 0\nffff-fffe rw-p 0 0 0\n";
        assert_eq!(private_ranges(maps), [(0x1000, 0x3000), (0x8000, 0xa000)]);
    }

    #[test]
    fn the_last_range_is_cut_to_whole_pages() {
        let page = u64::try_from(rustix::param::page_size()).unwrap();
        let ranges = [(0, page), (10 * page, 20 * page)];
        assert_eq!(first_bytes(&ranges, page + 1), [(0, page), (10 * page, 11 * page)]);
        assert_eq!(first_bytes(&ranges, 0), []);
        assert_eq!(first_bytes(&ranges, 100 * page), ranges);
    }

    #[test]
    fn a_process_is_meant_by_its_number_while_it_is_listed() {
        let mut children: Vec<_> =
            (0..3).map(|_| std::process::Command::new("sleep").arg("600").spawn().unwrap()).collect();
        let mut pids: Vec<u32> = children.iter().map(std::process::Child::id).collect();
        pids.sort_unstable();
        // The second is listed at first; once its number is opened it is a stranger's, which is not.
        let listings = std::cell::Cell::new(0);
        let listed = || {
            listings.set(listings.get() + 1);
            Ok(if listings.get() == 1 { pids.clone() } else { vec![pids[0], pids[2]] })
        };
        let mut met = Vec::new();
        let all = |pid, _| {
            met.push(pid);
            Ok(true)
        };
        each_member(listed, all).unwrap();
        assert_eq!(met, [pids[0], pids[2]]);
        let mut calls = 0;
        let first = |_, _| {
            calls += 1;
            Ok(false)
        };
        each_member(|| Ok(pids.clone()), first).unwrap();
        assert_eq!(calls, 1, "the first was enough");
        children.iter_mut().for_each(|child| {
            child.kill().unwrap();
            child.wait().unwrap();
        });
    }

    proptest! {
        #[test]
        fn hostile_text_never_panics(text in any::<String>(), near in "[0-9a-f]{1,20}-[0-9a-f]{1,20} rw-p", bytes in any::<u64>()) {
            for text in [&text, &near] {
                let ranges = private_ranges(text);
                let _ = first_bytes(&ranges, bytes % (1 << 60));
            }
        }
    }
}
