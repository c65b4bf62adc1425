//! Keeps interrupts and kernel threads off given PUs, and lets them come back.
//!
//! Each move is recorded before it is made, in a file that outlives the daemon: a process that finds the file (the next
//! daemon, `pinfold rescue`) undoes the moves, except where another program has changed the setting since. Interrupts
//! and threads that the kernel binds to a PU stay. Owner of state: that file. Absent here: an operator's permission.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pinfold_topo::CpuSet;

use crate::affinity;
use crate::procfs::Proc;

/// The parent of all kernel threads.
const KTHREADD: u32 = 2;
/// The directory for the records of root's daemons.
const RECORDS: &str = "/run/pinfold";
const PREFIX: &str = "moved-";

/// An object that was moved off PUs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Moved {
    /// An interrupt, by its number.
    Interrupt(u32),
    /// A thread, by its number and its start in clock ticks.
    Thread(u32, u64),
}

/// The state of a daemon's moves.
#[derive(Debug)]
pub struct Housekeeping {
    record: PathBuf,
    interrupts: PathBuf,
    now: CpuSet,
}

/// The numbers of moved objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleared {
    /// Interrupts.
    pub interrupts: usize,
    /// Threads.
    pub threads: usize,
}

impl Housekeeping {
    /// The moves of this instance.
    #[must_use]
    pub fn new(instance: &str) -> Self {
        Self::at(Path::new(RECORDS), Path::new("/proc/irq"), instance)
    }

    fn at(records: &Path, interrupts: &Path, instance: &str) -> Self {
        let record = records.join(format!("{PREFIX}{instance}"));
        Self { record, interrupts: interrupts.to_owned(), now: CpuSet::new() }
    }

    /// The PUs that are kept clear.
    #[must_use]
    pub fn cpus(&self) -> &CpuSet {
        &self.now
    }

    /// From now on keeps exactly these PUs clear of interrupts and of the threads that `may_move` permits; `all` are
    /// the host's. Empty: undoes all moves.
    ///
    /// # Errors
    /// When a move cannot be recorded; then nothing more is moved.
    pub fn keep_clear(
        &mut self,
        cpus: &CpuSet,
        all: &CpuSet,
        proc: &Proc,
        may_move: impl Fn(u32) -> bool,
    ) -> io::Result<Cleared> {
        self.put_back(proc)?;
        self.now = cpus.clone();
        let mut cleared = Cleared::default();
        if cpus.is_empty() || all.difference(cpus).is_empty() {
            return Ok(cleared);
        }
        let mut record = self.open_record()?;
        let mut note = |moved: &Moved, had: &CpuSet, gets: &CpuSet| {
            let (kind, number, start) = match moved {
                Moved::Interrupt(number) => ("irq", *number, 0),
                Moved::Thread(number, start) => ("thread", *number, *start),
            };
            writeln!(record, "{kind} {number} {start} {had} {gets}")
        };
        for number in numbers(&self.interrupts) {
            let Some(had) = interrupt(&self.interrupts, number) else { continue };
            let gets = had.difference(cpus);
            let gets = if gets.is_empty() { all.difference(cpus) } else { gets };
            if had.is_disjoint(cpus) {
                continue;
            }
            note(&Moved::Interrupt(number), &had, &gets)?;
            cleared.interrupts += usize::from(set_interrupt(&self.interrupts, number, &gets).is_ok());
        }
        for pid in proc.pids().map_err(io::Error::other)?.into_iter().filter(|&pid| may_move(pid)) {
            for thread in proc.threads(pid).ok().flatten().unwrap_or_default() {
                let Ok(Some(had)) = affinity::of(thread) else { continue };
                let gets = had.difference(cpus);
                // An object bound to these PUs alone was bound on purpose, by the kernel or a user.
                if had.is_disjoint(cpus) || gets.is_empty() {
                    continue;
                }
                let Ok(Some(stat)) = proc.stat(thread) else { continue };
                note(&Moved::Thread(thread, stat.start_ticks), &had, &gets)?;
                cleared.threads += usize::from(affinity::set(thread, &gets) == Ok(true));
            }
        }
        Ok(cleared)
    }

    /// Undoes the moves of this daemon or an earlier one.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn put_back(&mut self, proc: &Proc) -> io::Result<usize> {
        self.now = CpuSet::new();
        put_back(&self.record, &self.interrupts, proc)
    }

    fn open_record(&self) -> io::Result<fs::File> {
        if let Some(directory) = self.record.parent() {
            match DirBuilder::new().mode(0o755).create(directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        OpenOptions::new().append(true).create_new(true).mode(0o600).open(&self.record)
    }
}

/// Whether a process is a kernel thread.
#[must_use]
pub fn is_kernel_thread(proc: &Proc, pid: u32) -> bool {
    pid == KTHREADD || proc.stat(pid).ok().flatten().is_some_and(|stat| stat.parent == KTHREADD)
}

/// Undoes the moves of all daemons of root's; returns the number of interrupts and threads.
#[must_use]
pub fn put_back_all(proc: &Proc) -> usize {
    let records = fs::read_dir(RECORDS).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_record = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(PREFIX))
    };
    records.filter(is_record).filter_map(|path| put_back(&path, Path::new("/proc/irq"), proc).ok()).sum()
}

fn put_back(record: &Path, interrupts: &Path, proc: &Proc) -> io::Result<usize> {
    let text = match fs::read_to_string(record) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        other => other?,
    };
    // No other user's record is trusted for the host's interrupts.
    if fs::symlink_metadata(record)?.uid() != crate::peer::own_uid() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the record is somebody else's"));
    }
    let mut back = 0;
    // The last first: the first record of an object has its original place.
    for (moved, had, gets) in text.lines().rev().filter_map(parse) {
        let done = match moved {
            Moved::Interrupt(number) => {
                let is_as_left = interrupt(interrupts, number).is_some_and(|now| now == gets);
                is_as_left && set_interrupt(interrupts, number, &had).is_ok()
            }
            Moved::Thread(number, start) => {
                let same = proc.stat(number).ok().flatten().is_some_and(|stat| stat.start_ticks == start);
                let is_as_left = || affinity::of(number).is_ok_and(|now| now.as_ref() == Some(&gets));
                same && is_as_left() && affinity::set(number, &had) == Ok(true)
            }
        };
        back += usize::from(done);
    }
    fs::remove_file(record)?;
    Ok(back)
}

fn parse(line: &str) -> Option<(Moved, CpuSet, CpuSet)> {
    let words: Vec<&str> = line.split(' ').collect();
    let [kind, number, start, had, gets] = words[..] else { return None };
    let number = number.parse().ok()?;
    let moved = match kind {
        "irq" => Moved::Interrupt(number),
        "thread" => Moved::Thread(number, start.parse().ok()?),
        _ => return None,
    };
    Some((moved, had.parse().ok()?, gets.parse().ok()?))
}

fn numbers(directory: &Path) -> Vec<u32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

fn interrupt(directory: &Path, number: u32) -> Option<CpuSet> {
    fs::read_to_string(directory.join(number.to_string()).join("smp_affinity_list")).ok()?.trim().parse().ok()
}

fn set_interrupt(directory: &Path, number: u32, cpus: &CpuSet) -> io::Result<()> {
    let path = directory.join(number.to_string()).join("smp_affinity_list");
    OpenOptions::new().write(true).truncate(true).open(path)?.write_all(cpus.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        dir: tempfile::TempDir,
        proc: Proc,
    }

    impl World {
        fn new(interrupts: &[(u32, &str)]) -> Self {
            let dir = tempfile::tempdir().unwrap();
            for (number, cpus) in interrupts {
                let path = dir.path().join("irq").join(number.to_string());
                fs::create_dir_all(&path).unwrap();
                fs::write(path.join("smp_affinity_list"), format!("{cpus}\n")).unwrap();
            }
            Self { dir, proc: Proc::open(Path::new("/proc")).unwrap() }
        }

        fn housekeeping(&self) -> Housekeeping {
            Housekeeping::at(&self.dir.path().join("records"), &self.dir.path().join("irq"), "i1")
        }

        fn at(&self, number: u32) -> String {
            interrupt(&self.dir.path().join("irq"), number).unwrap().to_string()
        }
    }

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    #[test]
    fn interrupts_go_and_come_back() {
        let world = World::new(&[(1, "0-3"), (2, "3"), (3, "0-1")]);
        let mut first = world.housekeeping();
        let cleared = first.keep_clear(&set("2-3"), &set("0-3"), &world.proc, |_| false).unwrap();
        assert_eq!(cleared, Cleared { interrupts: 2, threads: 0 });
        assert_eq!([world.at(1), world.at(2), world.at(3)], ["0-1", "0-1", "0-1"]);
        // Other PUs: as if it had begun with these.
        first.keep_clear(&set("3"), &set("0-3"), &world.proc, |_| false).unwrap();
        assert_eq!([world.at(1), world.at(2)], ["0-2", "0-2"]);
        // The daemon dies, a user changes a binding by hand, and the next daemon comes.
        drop(first);
        fs::write(world.dir.path().join("irq/2/smp_affinity_list"), "1\n").unwrap();
        assert_eq!(world.housekeeping().put_back(&world.proc).unwrap(), 1);
        assert_eq!([world.at(1), world.at(2), world.at(3)], ["0-3", "1", "0-1"]);
        assert_eq!(world.housekeeping().put_back(&world.proc).unwrap(), 0, "once is enough");
    }

    #[test]
    #[ignore = "needs two PUs"]
    fn threads_go_and_come_back() {
        let world = World::new(&[]);
        let all = affinity::of(0).unwrap().unwrap();
        let last = all.iter().last().unwrap();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let mut housekeeping = world.housekeeping();
        let one = CpuSet::single(last);
        let cleared = housekeeping.keep_clear(&one, &all, &world.proc, |pid| pid == child.id()).unwrap();
        assert_eq!(cleared.threads, 1);
        assert_eq!(affinity::of(child.id()).unwrap().unwrap(), all.difference(&one));
        housekeeping.keep_clear(&CpuSet::new(), &all, &world.proc, |_| true).unwrap();
        assert_eq!(affinity::of(child.id()).unwrap().unwrap(), all);
        // A thread bound to the PU alone stays.
        affinity::set(child.id(), &one).unwrap();
        let cleared = housekeeping.keep_clear(&one, &all, &world.proc, |pid| pid == child.id()).unwrap();
        assert_eq!(cleared.threads, 0);
        housekeeping.put_back(&world.proc).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn nothing_is_left_to_run_on() {
        let world = World::new(&[(1, "0-1")]);
        let cleared =
            world.housekeeping().keep_clear(&set("0-1"), &set("0-1"), &world.proc, |_| true).unwrap();
        assert_eq!((cleared, world.at(1)), (Cleared::default(), "0-1".to_owned()));
    }
}
