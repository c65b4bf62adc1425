//! Moves pages of single processes from NUMA nodes to others, by migrate_pages(2), and lists the processes without a job.
//!
//! Later allocations of the process are unaffected. Safe to call with any number: a vanished process is a valid answer.
//! Owns no state. Absent here: the choice of processes, and an operator's permission.

use rustix::io::Errno;

use crate::housekeeping;
use crate::procfs::Proc;

/// The largest kernels number 1,024 nodes.
const WORDS: usize = 1024 / u64::BITS as usize;

/// Moves a process's pages from some nodes to others; returns the number of pages that stayed. `None`: it has ended.
///
/// # Errors
/// `PERM` when it is another user's and this process lacks `CAP_SYS_NICE`, `INVAL` when this process may use none of
/// the `others`, `NOSYS` on a kernel without several nodes.
#[expect(unsafe_code, reason = "no safe binding for migrate_pages")]
pub fn move_pages(pid: u32, nodes: &[u32], others: &[u32]) -> Result<Option<u64>, Errno> {
    let Ok(pid) = i32::try_from(pid) else { return Ok(None) };
    let (from, to) = (mask(nodes), mask(others));
    // The kernel subtracts one from the count of bits (get_nodes in its mempolicy.c).
    let bits = WORDS * 64 + 1;
    // SAFETY: the kernel reads one bit less than announced from each pointer, which is the size of the arrays.
    let stayed = unsafe { libc::syscall(libc::SYS_migrate_pages, pid, bits, from.as_ptr(), to.as_ptr()) };
    match u64::try_from(stayed) {
        Ok(stayed) => Ok(Some(stayed)),
        Err(_) => match Errno::from_io_error(&std::io::Error::last_os_error()) {
            Some(Errno::SRCH) => Ok(None),
            errno => Err(errno.expect("a failed system call sets errno")),
        },
    }
}

/// The kernel's mask: bit i of the whole is node i.
fn mask(nodes: &[u32]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    for &node in nodes {
        let index = usize::try_from(node / 64).expect("a node number has 32 bits");
        if let Some(word) = words.get_mut(index) {
            *word |= 1 << (node % 64);
        }
    }
    words
}

/// The processes that no instance of pinfold has in a job, but for the kernel's own, ascending.
#[must_use]
pub fn of_no_job(proc: &Proc) -> Vec<u32> {
    let is_none = |pid: &u32| {
        let groups = proc.text(&format!("{pid}/cgroup")).ok().flatten();
        groups.is_some_and(|text| !is_in_a_job(&text)) && !housekeeping::is_kernel_thread(proc, *pid)
    };
    proc.pids().unwrap_or_default().into_iter().filter(is_none).collect()
}

/// Whether a line of `/proc/PID/cgroup` leads below `pinfold/INSTANCE/job-N`.
fn is_in_a_job(groups: &str) -> bool {
    let is_job = |name: &str| {
        name.strip_prefix("job-").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    groups.lines().any(|line| {
        let names: Vec<&str> = line.split('/').collect();
        names.windows(3).any(|names| names[0] == "pinfold" && is_job(names[2]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_bits() {
        assert_eq!(mask(&[0, 3])[0], 0b1001);
        assert_eq!(mask(&[64])[..2], [0, 1]);
        assert_eq!(mask(&[1023])[WORDS - 1], 1 << 63);
        // A number that no kernel has says nothing.
        assert_eq!(mask(&[1024, u32::MAX]), [0; WORDS]);
    }

    #[test]
    fn groups_of_jobs_are_recognized() {
        for (groups, want) in [
            ("0::/pinfold/i1/job-7\n", true),
            ("0::/system.slice/pinfoldd.service/pinfold/i1/job-7/below\n", true),
            ("5:cpuset:/\n4:memory:/pinfold/i1/job-12\n0::/\n", true),
            ("0::/pinfold/i1\n", false),
            ("0::/pinfold/job-7\n", false),
            ("0::/pinfold/i1/job-x\n", false),
            ("0::/user.slice\n", false),
            ("", false),
        ] {
            assert_eq!(is_in_a_job(groups), want, "{groups:?}");
        }
    }

    #[test]
    fn a_process_that_is_gone_is_an_answer() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        match move_pages(pid, &[0], &[0]) {
            Ok(None) => {}
            Err(Errno::NOSYS | Errno::PERM) => {}
            other => panic!("{other:?}"),
        }
        // Nowhere to go but where they are.
        match move_pages(std::process::id(), &[0], &[0]) {
            Ok(Some(0)) => {}
            Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => {}
            other => panic!("{other:?}"),
        }
    }
}
