//! The processes of a job, read again and again at little cost: files are kept open, and an idle process is read less and
//! less often.
//!
//! A kept file is read with a single system call instead of three, and reports the end of its process even after its number
//! is reused. Costs (measured on a 2-core virtual machine, warm): 1.2 us for `stat` of a kept file, 3.3 us with opening and
//! closing it.
//!
//! Owner of state: the open files and the last figures of each process. Absent here: which process belongs to a job.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fd::OwnedFd;

use super::parse::{parse_process_io, parse_process_stat};
use super::types::{ProcessIo, ProcessStat};
use super::{Proc, ticks_to_us};

/// Files kept open by all of this process's [`Members`] together, at most. Beyond, files are opened each time.
const KEPT_MAX: usize = 4096;

/// Jobs of up to this many processes are read in full each time: there is little to save.
const FEW: usize = 32;

/// An idle process is still read every so many rounds.
const ROUNDS_MAX: u32 = 10;

/// The most bytes of a command line that are kept.
const COMMAND_BYTES_MAX: usize = 1024;

/// The period of reading a command line again, in readings of a busy process: it changes with each exec.
const COMMAND_EVERY: u32 = 32;

static KEPT: AtomicUsize = AtomicUsize::new(0);

/// A process as it was read. Times and counts are totals since its start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Member {
    /// The process.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// Its start, in microseconds since the Unix epoch,
    pub started_us: u64,
    /// and in clock ticks since the host came up: another process with its number started later.
    pub start_ticks: u64,
    /// Its command line, if read this time.
    pub command: Option<String>,
    /// Threads.
    pub threads: u64,
    /// User time, in microseconds.
    pub cpu_user_us: u64,
    /// System time, in microseconds.
    pub cpu_system_us: u64,
    /// Resident size now, in bytes.
    pub resident_bytes: u64,
    /// Page faults met from memory.
    pub faults_minor: u64,
    /// Page faults that waited for storage.
    pub faults_major: u64,
    /// Its own reads and writes, as far as known; `None`: not readable.
    pub io: Option<ProcessIo>,
    /// Address space, in bytes.
    pub virtual_bytes: u64,
}

/// Sums over all processes, with the last figures of processes not read this time; the use of ended children that were
/// waited for is included, except for address space and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// Address space, in bytes.
    pub virtual_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Bytes fetched from storage; `None`: no process's figures are readable.
    pub io_read_bytes: Option<u64>,
    /// Bytes sent to storage.
    pub io_write_bytes: Option<u64>,
    /// Calls that read, from anywhere.
    pub io_read_calls: Option<u64>,
    /// Calls that wrote, to anywhere.
    pub io_write_calls: Option<u64>,
    /// Page faults met from memory.
    pub faults_minor: u64,
    /// Page faults that waited for storage.
    pub faults_major: u64,
}

/// See the module's page.
#[derive(Debug, Default)]
pub struct Members {
    /// Boxed, for the nodes of a tree that grows at its end are half empty.
    kept: BTreeMap<u32, Box<Kept>>,
    /// Processes that were read in the last round and had changed.
    changed: Vec<Member>,
    cpu_us: Option<u64>,
    /// The process that the next reading begins with, if not all could be read.
    next: u32,
    /// The sums from before, while the processes are being read elsewhere.
    lent: Option<Sums>,
}

#[derive(Debug)]
struct Kept {
    stat: Option<KeptFile>,
    io: Option<KeptFile>,
    last: ProcessStat,
    last_io: Option<ProcessIo>,
    /// The process's own part of `last_io`; both are equal until it has waited for a child.
    own_io: Option<ProcessIo>,
    /// Readings with a change.
    readings: u32,
    /// Readings in a row without a change.
    still: u32,
    /// Rounds until it is read again.
    skip: u32,
}

/// A file that counts against [`KEPT_MAX`] as long as it is open.
#[derive(Debug)]
struct KeptFile(OwnedFd);

impl KeptFile {
    fn open(proc: &Proc, pid: u32, file: &str) -> Option<Self> {
        if KEPT.fetch_add(1, Ordering::Relaxed) >= KEPT_MAX {
            KEPT.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        match proc.keep(pid, file) {
            Some(file) => Some(Self(file)),
            None => {
                KEPT.fetch_sub(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// The text from its beginning; `None`: the process is gone.
    fn text<'a>(&self, buffer: &'a mut [u8; 2048]) -> Option<std::borrow::Cow<'a, str>> {
        let length = rustix::io::pread(&self.0, &mut buffer[..], 0).ok()?;
        (length > 0).then(|| String::from_utf8_lossy(&buffer[..length]))
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Members {
    /// Reads these processes, a complete list, ascending; `listed_ticks`: the time of the list, in clock ticks since the
    /// host's boot. A process that started later has a reused number, which can happen if a process delayed the reader.
    /// `cpu_us`: the processor time that all of them used so far, if known: if it has not grown, none of them has run, and
    /// none is read. `left`: the most processes to read, lowered by each; the next call begins with the processes that come
    /// next.
    pub fn read(
        &mut self,
        proc: &Proc,
        pids: &[u32],
        listed_ticks: u64,
        cpu_us: Option<u64>,
        left: &mut usize,
    ) {
        // All of a job change when they are met, few later: the room for all is not kept.
        let before = self.changed.len();
        self.changed.clear();
        self.changed.shrink_to(2 * before);
        self.kept.retain(|pid, _| pids.binary_search(pid).is_ok());
        let nobody_ran = cpu_us.is_some() && self.cpu_us == cpu_us;
        self.cpu_us = cpu_us;
        let boot_us = u64::try_from(crate::boot::began().as_micros()).unwrap_or(0);
        let few = pids.len() <= FEW;
        let (earlier, later) = pids.split_at(pids.partition_point(|&pid| pid < self.next));
        self.next = 0;
        for &pid in later.iter().chain(earlier) {
            let is_known = self.kept.contains_key(&pid);
            if nobody_ran && is_known {
                continue;
            }
            if *left == 0 {
                // Whether these ran is not known the next time either.
                (self.next, self.cpu_us) = (pid, None);
                break;
            }
            if !is_known && !self.meet(proc, pid, listed_ticks) {
                continue;
            }
            let Some(kept) = self.kept.get_mut(&pid) else { continue };
            if kept.skip > 0 && !few {
                kept.skip -= 1;
                continue;
            }
            *left -= 1;
            match kept.read(proc, pid) {
                Some(true) => self.changed.push(kept.member(proc, boot_us)),
                Some(false) => {}
                None => drop(self.kept.remove(&pid)),
            }
        }
    }

    /// Lends the processes to be read elsewhere; until they return, the sums are the earlier sums. `None`: they are lent
    /// already.
    pub fn lend(&mut self) -> Option<Self> {
        if self.lent.is_some() {
            return None;
        }
        let sums = self.sums();
        Some(std::mem::replace(self, Self { lent: Some(sums), ..Self::default() }))
    }

    /// Takes lent processes back; `false`: other processes took their place meanwhile.
    pub fn give_back(&mut self, read: Self) -> bool {
        let is_missed = self.lent.is_some();
        if is_missed {
            *self = read;
        }
        is_missed
    }

    /// Processes that had changed at their last reading.
    #[must_use]
    pub fn changed(&self) -> &[Member] {
        &self.changed
    }

    /// The resident size of each process, in bytes, with the last figures of processes not read this time.
    pub fn residents(&self) -> impl Iterator<Item = (u32, u64)> {
        self.kept.iter().map(|(pid, kept)| (*pid, kept.last.resident_pages.saturating_mul(page_bytes())))
    }

    /// Sums over all.
    #[must_use]
    pub fn sums(&self) -> Sums {
        if let Some(sums) = self.lent {
            return sums;
        }
        let mut sums = Sums::default();
        for kept in self.kept.values() {
            sums.virtual_bytes = sums.virtual_bytes.saturating_add(kept.last.virtual_bytes);
            sums.threads = sums.threads.saturating_add(kept.last.threads);
            let last = &kept.last;
            for (sum, own, children) in [
                (&mut sums.faults_minor, last.faults_minor, last.children_faults_minor),
                (&mut sums.faults_major, last.faults_major, last.children_faults_major),
            ] {
                *sum = sum.saturating_add(own).saturating_add(children);
            }
            if let Some(io) = kept.last_io {
                let add = |sum: Option<u64>, more| Some(sum.unwrap_or(0).saturating_add(more));
                sums.io_read_calls = add(sums.io_read_calls, io.read_calls);
                sums.io_write_calls = add(sums.io_write_calls, io.write_calls);
                sums.io_read_bytes = add(sums.io_read_bytes, io.read_bytes);
                sums.io_write_bytes = add(sums.io_write_bytes, io.write_bytes);
            }
        }
        sums
    }

    /// Adds a process; `false`: it is gone, and another process may have its number.
    fn meet(&mut self, proc: &Proc, pid: u32, listed_ticks: u64) -> bool {
        let last = proc.stat(pid).ok().flatten().filter(|stat| stat.start_ticks <= listed_ticks);
        let Some(last) = last else { return false };
        let stat = KeptFile::open(proc, pid, "stat");
        let kept = Kept { stat, io: None, last, last_io: None, own_io: None, readings: 0, still: 0, skip: 0 };
        self.kept.insert(pid, Box::new(kept));
        true
    }
}

impl Kept {
    /// Whether it was active since the last reading; `None`: it is gone.
    fn read(&mut self, proc: &Proc, pid: u32) -> Option<bool> {
        // Its I/O is read before the figures that show its children, so that no child comes in between. A process that was
        // active the last time mostly is again; for an idle process the read is saved.
        let expected = self.still == 0;
        let mut io = if expected { self.read_io(proc, pid) } else { None };
        let mut stat = self.read_stat(proc, pid)?;
        let first = self.readings == 0;
        // Its state is no part of its use.
        let before = self.last;
        let did = first || ProcessStat { state: stat.state, parent: stat.parent, ..before } != stat;
        if did && !expected {
            io = self.read_io(proc, pid);
            stat = self.read_stat(proc, pid)?;
        }
        self.last = stat;
        if did {
            (self.still, self.skip) = (0, 0);
            self.readings = self.readings.saturating_add(1);
            self.take_io(proc, pid, io);
        } else {
            self.still = self.still.saturating_add(1);
            self.skip = (1u32 << self.still.min(5)).min(ROUNDS_MAX) - 1;
        }
        Some(did)
    }

    /// `None`: it is gone, or another process has its number, where no file is kept.
    fn read_stat(&self, proc: &Proc, pid: u32) -> Option<ProcessStat> {
        let mut buffer = [0; 2048];
        let stat = match &self.stat {
            Some(file) => parse_process_stat(&file.text(&mut buffer)?)?,
            None => proc.stat(pid).ok().flatten()?,
        };
        (stat.start_ticks == self.last.start_ticks).then_some(stat)
    }

    fn read_io(&mut self, proc: &Proc, pid: u32) -> Option<ProcessIo> {
        if self.io.is_none() {
            self.io = KeptFile::open(proc, pid, "io");
        }
        let mut buffer = [0; 2048];
        match &self.io {
            Some(file) => file.text(&mut buffer).and_then(|text| parse_process_io(&text)),
            None => proc.io(pid).ok().flatten(),
        }
    }

    fn take_io(&mut self, proc: &Proc, pid: u32, io: Option<ProcessIo>) {
        self.last_io = io.or(self.last_io);
        // The kernel adds a child's use to a process when it waits for the child. No child ends without a page fault.
        self.own_io = match self.last.children_faults_minor {
            0 => self.last_io,
            _ => proc.own_io(pid).ok().flatten().or(self.own_io),
        };
    }

    fn member(&self, proc: &Proc, boot_us: u64) -> Member {
        let stat = &self.last;
        // The second reading is the first after the exec of a process that was added between fork and exec.
        let wanted = self.readings <= 2 || self.readings.is_multiple_of(COMMAND_EVERY);
        let command =
            if wanted { proc.command_line(stat.pid, COMMAND_BYTES_MAX).ok().flatten() } else { None };
        // It may have delayed the earlier reads, and another process may have its number by now.
        let command = command.filter(|_| self.read_stat(proc, stat.pid).is_some());
        Member {
            pid: stat.pid,
            parent: stat.parent,
            started_us: boot_us.saturating_add(ticks_to_us(stat.start_ticks)),
            start_ticks: stat.start_ticks,
            command,
            threads: stat.threads,
            cpu_user_us: ticks_to_us(stat.user_ticks),
            cpu_system_us: ticks_to_us(stat.system_ticks),
            resident_bytes: stat.resident_pages.saturating_mul(page_bytes()),
            faults_minor: stat.faults_minor,
            faults_major: stat.faults_major,
            io: self.own_io,
            virtual_bytes: stat.virtual_bytes,
        }
    }
}

fn page_bytes() -> u64 {
    u64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

#[cfg(test)]
mod tests;
