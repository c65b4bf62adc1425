//! The job that a process's environment names. A process can neither give its environment to another user's process nor
//! lose it by the end of its parent.
//!
//! Threads aside (`aside`) read environments: a process can delay a reader of its environment for any time. Each
//! environment is read on behalf of the process's user as of after its opening: a process may change its user
//! meanwhile. Absent here: the decision to trust a mark (`family`).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::time::{Duration, Instant};

use super::{HOOK_VARIABLE, INSTANCE_VARIABLE, JOB_VARIABLE};
use crate::aside::{self, Asked, Purpose};
use crate::peer;
use crate::procfs::{Proc, ProcError, ProcessStat};

/// The number of reads of a process without an environment, with a pause after each: it may be in the midst of
/// `execve`, which has no environment for some tenths of a millisecond.
const EXECVE_LOOKS: u32 = 3;
const EXECVE_TAKES: Duration = Duration::from_micros(500);
/// Not for a process that started this long before the newest process of the host, in clock ticks: some programs have
/// no environment.
const YOUNG_TICKS: u64 = 6_000;
/// The most processes that are read again, youngest first: a user with many empty environments cannot prolong a scan.
const BARE_MAX: usize = 64;

/// The part of an environment that is searched for a mark, in bytes. A longer part is searched only while a scan has read
/// fewer than `BEYOND_BYTES` beyond it in all, so that a user's long environments, common to many processes, stay cheap.
const MARK_WITHIN_BYTES: usize = 128 << 10;
pub(super) const BEYOND_BYTES: usize = 16 << 20;

/// The longest wait for the marks of our own user's processes.
const OWN_WAIT_MAX: Duration = Duration::from_secs(10);

/// The job that a process's environment names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) job: u64,
    pub(crate) instance: String,
}

impl Mark {
    pub(super) fn is(&self, job: u64, instance: &str) -> bool {
        self.job == job && self.instance == instance
    }
}

/// The jobs of an instance that any process is marked with, ascending.
pub(super) fn marked_jobs(proc: &Proc, instance: &str) -> Result<Vec<u64>, ProcError> {
    let marks = look_at_all(proc)?.into_iter().filter_map(|(_, mark)| mark);
    let jobs: BTreeSet<u64> = marks.filter(|mark| mark.instance == instance).map(|mark| mark.job).collect();
    Ok(jobs.into_iter().collect())
}

/// Reads a process's mark; `None`: it has none, is gone, or is not ours to look at.
pub(super) fn mark_of(proc: &Proc, pid: u32) -> Result<Option<Mark>, ProcError> {
    // A daemon inside a job of another daemon has the mark of that job, and must not count as its own member.
    if pid == std::process::id() {
        return Ok(None);
    }
    let Some(owner) = proc.owner(pid) else { return Ok(None) };
    let own = proc.clone();
    // A process can hold a reader of its environment up for as long as it likes.
    let place = aside::place_within((Purpose::Marks, owner), wait_max(owner));
    let read = place.and_then(|place| {
        place.read(move || own.environ_if(pid, usize::MAX, || own.owner(pid) == Some(owner)))
    });
    let Some(Asked::Read(environ)) = read.map(|read| read.within(wait_max(owner))) else { return Ok(None) };
    Ok(environ?.and_then(|(environ, _)| parse_mark(&environ)))
}

/// The limit of the wait for the marks of a user's processes: longer for this daemon's own user.
fn wait_max(owner: u32) -> Duration {
    if owner == peer::own_uid() { OWN_WAIT_MAX } else { aside::WAIT_MAX }
}

/// The entries of an environment; the last may lack its end.
fn entries(environ: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = environ;
    std::iter::from_fn(move || {
        // Environments are most of the bytes that a scan reads: ends of entries are searched by words, not by bytes.
        let entry = match CStr::from_bytes_until_nul(rest) {
            Ok(entry) => entry.to_bytes(),
            Err(_) if rest.is_empty() => return None,
            Err(_) => rest,
        };
        rest = rest.get(entry.len() + 1..).unwrap_or_default();
        Some(entry)
    })
}

pub(crate) fn parse_mark(environ: &[u8]) -> Option<Mark> {
    let value = |variable: &str| {
        entries(environ).find_map(|entry| {
            let text = entry.strip_prefix(variable.as_bytes())?.strip_prefix(b"=")?;
            std::str::from_utf8(text).ok()
        })
    };
    let job = value(JOB_VARIABLE)?;
    // Processes that hooks leave running may outlive the daemon and are not the job's.
    if value(HOOK_VARIABLE) == Some(job) {
        return None;
    }
    Some(Mark { job: job.parse().ok()?, instance: value(INSTANCE_VARIABLE)?.to_owned() })
}

/// The result of reading a process's environment.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// The process is gone, is not readable for this process, or has no mark.
    Nothing,
    /// The process belongs to another user by now.
    Anothers,
    /// The process has no environment.
    Bare,
    Marked(Mark),
}

impl Seen {
    fn mark(self) -> Option<Mark> {
        if let Self::Marked(mark) = self { Some(mark) } else { None }
    }
}

/// Looks for the mark of a process of this user. `beyond`: the bytes of long environments that may still be read.
fn seen_of(proc: &Proc, pid: u32, owner: u32, beyond: &mut usize) -> Result<Seen, ProcError> {
    let is_its = || proc.owner(pid).is_none_or(|now| now == owner || aside::whose(now) == owner);
    let Some((mut environ, more)) = proc.environ_if(pid, MARK_WITHIN_BYTES, is_its)? else {
        return Ok(if is_its() { Seen::Nothing } else { Seen::Anothers });
    };
    let mut mark = parse_mark(&environ);
    if mark.is_none() && more && *beyond > 0 {
        let whole = proc.environ_if(pid, MARK_WITHIN_BYTES + *beyond, is_its)?;
        environ = whole.map(|(environ, _)| environ).unwrap_or_default();
        *beyond = beyond.saturating_sub(environ.len());
        mark = parse_mark(&environ);
    }
    Ok(match mark {
        Some(mark) => Seen::Marked(mark),
        None if environ.is_empty() && !more => Seen::Bare,
        None => Seen::Nothing,
    })
}

/// Processes, each with its place among all that were found.
type These = Vec<(usize, ProcessStat)>;

/// Every process of the host but this process, with its mark. Threads aside read the environments, one for each user.
/// Processes of a user whose processes delay the thread count as unmarked.
pub(super) fn look_at_all(proc: &Proc) -> Result<Vec<(ProcessStat, Option<Mark>)>, ProcError> {
    // The first process and kernel threads (children of the second process) belong to no job.
    const KERNEL_THREADS: u32 = 2;
    let own = std::process::id();
    let (mut found, mut these) = (Vec::new(), BTreeMap::<u32, These>::new());
    // The youngest first: they are the likeliest to end soon.
    for pid in proc.pids()?.into_iter().rev().filter(|pid| *pid != own) {
        let Some(stat) = proc.stat(pid)? else { continue };
        let may_be_marked = pid > KERNEL_THREADS && stat.parent != KERNEL_THREADS && !stat.is_ended();
        if let Some(owner) = may_be_marked.then(|| proc.owner(pid)).flatten() {
            these.entry(aside::whose(owner)).or_default().push((found.len(), stat));
        }
        found.push((stat, None));
    }
    // Processes that changed their user meanwhile are read once more, for the new user.
    for _ in 0..2 {
        let mut moved = BTreeMap::<u32, These>::new();
        for (at, stat) in read_marks(proc, these, &mut found)? {
            if let Some(owner) = proc.owner(stat.pid) {
                moved.entry(aside::whose(owner)).or_default().push((at, stat));
            }
        }
        these = moved;
    }
    Ok(found)
}

/// Reads the marks of these processes, by user. Returns the processes that changed their user meanwhile.
fn read_marks(
    proc: &Proc,
    by_owner: BTreeMap<u32, These>,
    found: &mut [(ProcessStat, Option<Mark>)],
) -> Result<These, ProcError> {
    let newest_ticks = found.iter().map(|(stat, _)| stat.start_ticks).max().unwrap_or(0);
    let ordered: Vec<_> = by_owner
        .into_iter()
        .filter_map(|(owner, these)| {
            let proc = proc.clone();
            let place = aside::place_within((Purpose::Marks, owner), wait_max(owner))?;
            Some((owner, place.read(move || marks_of(&proc, &these, owner, newest_ticks))?))
        })
        .collect();
    let (began, mut moved) = (Instant::now(), Vec::new());
    for (owner, answer) in ordered {
        if let Asked::Read(read) = answer.within(wait_max(owner).saturating_sub(began.elapsed())) {
            let (marks, anothers) = read?;
            marks.into_iter().for_each(|(at, mark)| found[at].1 = Some(mark));
            moved.extend(anothers);
        }
    }
    Ok(moved)
}

/// The marks of a user's processes, each with its given place; and the processes that belong to another user by now.
fn marks_of(
    proc: &Proc,
    these: &[(usize, ProcessStat)],
    owner: u32,
    newest_ticks: u64,
) -> Result<(Vec<(usize, Mark)>, These), ProcError> {
    let (mut marks, mut moved, mut bare, mut beyond) = (Vec::new(), Vec::new(), Vec::new(), BEYOND_BYTES);
    let mut look = |&(at, stat): &(usize, ProcessStat), bare: &mut These| {
        match seen_of(proc, stat.pid, owner, &mut beyond)? {
            Seen::Bare => bare.push((at, stat)),
            Seen::Anothers => moved.push((at, stat)),
            seen => marks.extend(seen.mark().map(|mark| (at, mark))),
        }
        Ok::<(), ProcError>(())
    };
    these.iter().try_for_each(|one| look(one, &mut bare))?;
    // In the midst of `execve` a process has no environment.
    bare.retain(|(_, stat)| stat.start_ticks.saturating_add(YOUNG_TICKS) >= newest_ticks);
    bare.truncate(BARE_MAX);
    for _ in 0..EXECVE_LOOKS {
        if bare.is_empty() {
            break;
        }
        std::thread::sleep(EXECVE_TAKES);
        let mut still = Vec::new();
        bare.iter().try_for_each(|one| look(one, &mut still))?;
        bare = still;
    }
    Ok((marks, moved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs root"]
    fn as_root_a_process_that_holds_readers_up_counts_as_unmarked() {
        let root = tempfile::tempdir().unwrap();
        let add = |pid: u32, other: bool| {
            let dir = root.path().join(pid.to_string());
            std::fs::create_dir(&dir).unwrap();
            let stat = format!("{pid} (a) S 1 1 1 0 -1 0 5 0 0 0 1 2 0 0 20 0 1 0 7 0 0 {}", "0 ".repeat(28));
            std::fs::write(dir.join("stat"), stat).unwrap();
            if other {
                std::os::unix::fs::chown(&dir, Some(65_533), None).unwrap();
            }
            dir.join("environ")
        };
        let fifo = add(1_000_001, true);
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .unwrap();
        let other = add(1_000_000, false);
        std::fs::write(other, format!("{JOB_VARIABLE}=7\0{INSTANCE_VARIABLE}=a\0")).unwrap();
        let proc = Proc::open(root.path()).unwrap();
        let found = look_at_all(&proc).unwrap();
        let marks: Vec<bool> = found.iter().map(|(_, mark)| mark.is_some()).collect();
        // The younger process comes first. It is known as a process all the same.
        assert_eq!(marks, [false, true], "{found:?}");
        // The thread goes on.
        drop(std::fs::OpenOptions::new().write(true).open(&fifo).unwrap());
    }

    #[test]
    #[ignore = "needs root"]
    fn as_root_what_became_another_users_is_read_for_that_one() {
        const USER: u32 = 65_532;
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("1000000");
        std::fs::create_dir(&dir).unwrap();
        let stat = format!("1000000 (a) S 1 1 1 0 -1 0 5 0 0 0 1 2 0 0 20 0 1 0 7 0 0 {}", "0 ".repeat(28));
        std::fs::write(dir.join("stat"), stat).unwrap();
        std::fs::write(dir.join("environ"), format!("{JOB_VARIABLE}=7\0{INSTANCE_VARIABLE}=a\0")).unwrap();
        let proc = Proc::open(root.path()).unwrap();
        let stat = proc.stat(1_000_000).unwrap().unwrap();
        // It was root's as it was found, and is read by the thread for root's.
        std::os::unix::fs::chown(&dir, Some(USER), None).unwrap();
        let mut found = [(stat, None)];
        let moved = read_marks(&proc, BTreeMap::from([(0, vec![(0, stat)])]), &mut found).unwrap();
        assert_eq!((moved.len(), &found[0].1), (1, &None), "nothing is read of it");
        let mark = Some(Mark { job: 7, instance: "a".to_owned() });
        // Reads of another user's processes wait only shortly.
        let deadline = Instant::now() + Duration::from_secs(120);
        let until = |what: &str, is_so: &mut dyn FnMut() -> bool| {
            while !is_so() {
                assert!(Instant::now() < deadline, "{what}");
                std::thread::yield_now();
            }
        };
        until("it is read for that user", &mut || {
            let again = BTreeMap::from([(USER, moved.clone())]);
            assert!(read_marks(&proc, again, &mut found).unwrap().is_empty());
            found[0].1 == mark
        });
        until("it is found so", &mut || look_at_all(&proc).unwrap() == found);
    }
}
