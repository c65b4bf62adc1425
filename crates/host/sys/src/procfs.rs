//! Readers of `/proc`, below a real or fake root.
//!
//! Purpose: processes, memory, processors and pressure as plain data. A process that vanished during the read gives
//! `None`, never an error. Owner of state: none but an open handle on the root. Absent here: any write, any decision,
//! any difference between two readings.

mod files;
mod hardware;
mod members;
mod parse;
mod types;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

pub use files::{Access, OpenFile};
pub use hardware::{frequency_khz, temperature_milli};
pub use members::{Member, Members, Sums};
pub use parse::{
    parse_host_cpu, parse_load, parse_memory_info, parse_pressure, parse_process_io, parse_process_stat,
    parse_process_status, parse_rollup, parse_switches, parse_thread_stat,
};
pub use types::{
    HostCpu, Load, MemoryInfo, Pressure, PressureLine, PressureResource, ProcessIo, ProcessStat,
    ProcessStatus, PuTimes, Rollup, ThreadStat, Turns,
};

/// The most threads over which figures of a process are summed: more would take milliseconds.
pub const THREADS_MAX: usize = 64;

/// The most bytes read of a file, unless stated otherwise: the kernel's longest own files have some hundred thousand.
/// The bound is needed, as a process can make its files as long as it likes.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// For files about the whole host: users may mount a thousand file systems (fusermount3(1)) at paths of 16 KiB each.
const LONG_TEXT_BYTES_MAX: usize = 256 << 20;
/// For an environment: the kernel starts no process with a longer environment (execve(2)); a process can lengthen its
/// own later.
const ENVIRON_BYTES_MAX: usize = 6 << 20;
/// For mapped ranges: as many as a process may have as a rule (65,530), but their files may have long names.
const MAPS_BYTES_MAX: usize = 8 << 20;
/// For children: the numbers of as many processes as a host can have.
const CHILDREN_BYTES_MAX: usize = 32 << 20;
/// For the description of an open file: locks, in any number, stand behind the fields that are read.
const FDINFO_BYTES_MAX: usize = 4 << 10;

/// A file below `/proc` could not be used.
#[derive(Debug, thiserror::Error)]
pub enum ProcError {
    /// The root itself could not be opened.
    #[error("failed to open the process file system at {}", .path.display())]
    Root {
        /// The root.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file that ought to be there could not be read.
    #[error("failed to read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file does not read as the kernel documents it.
    #[error("failed to understand {}", .path.display())]
    Parse {
        /// The file.
        path: PathBuf,
    },
}

/// An open `/proc`, real or fake.
#[derive(Debug, Clone)]
pub struct Proc {
    root: PathBuf,
    dir: Arc<OwnedFd>,
}

impl Proc {
    /// Opens the tree at `root`.
    pub fn open(root: &Path) -> Result<Self, ProcError> {
        let flags = OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC;
        match rustix::fs::open(root, flags, Mode::empty()) {
            Ok(dir) => Ok(Self { root: root.to_owned(), dir: Arc::new(dir) }),
            Err(errno) => Err(ProcError::Root { path: root.to_owned(), source: errno.into() }),
        }
    }

    /// The processes that are there now, ascending.
    pub fn pids(&self) -> Result<Vec<u32>, ProcError> {
        Ok(self.numbered(".")?.unwrap_or_default())
    }

    /// The threads of a process, ascending; `None`: it is gone.
    pub fn threads(&self, pid: u32) -> Result<Option<Vec<u32>>, ProcError> {
        self.numbered(&format!("{pid}/task"))
    }

    /// As [`Proc::threads`], at most `most` of them, and whether there are more, unlisted.
    pub fn some_threads(&self, pid: u32, most: usize) -> Result<Option<(Vec<u32>, bool)>, ProcError> {
        let numbers = self.some_numbered(&format!("{pid}/task"), most)?;
        Ok(numbers.map(|(mut numbers, more)| {
            numbers.sort_unstable();
            (numbers, more)
        }))
    }

    /// The threads of a process that has up to [`THREADS_MAX`]; `None`: it is gone, or has more.
    fn few_threads(&self, pid: u32) -> Result<Option<Vec<u32>>, ProcError> {
        let found = self.some_threads(pid, THREADS_MAX)?;
        Ok(found.and_then(|(threads, more)| (!more).then_some(threads)))
    }

    /// The children of a process, over all its threads, ascending; `None`: it is gone.
    pub fn children(&self, pid: u32) -> Result<Option<Vec<u32>>, ProcError> {
        let Some(threads) = self.threads(pid)? else { return Ok(None) };
        let mut children = Vec::new();
        for thread in threads {
            // A thread may end between the listing and the reading; its children move to another thread of the
            // process, which callers see by scanning until nothing new appears.
            let file = format!("{pid}/task/{thread}/children");
            let Some(text) = self.whole(&file, CHILDREN_BYTES_MAX)? else { continue };
            children.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok()));
        }
        children.sort_unstable();
        children.dedup();
        Ok(Some(children))
    }

    /// State, parent, times and start of a process; `None`: it is gone.
    pub fn stat(&self, pid: u32) -> Result<Option<ProcessStat>, ProcError> {
        self.parsed(&format!("{pid}/stat"), parse_process_stat)
    }

    /// The effective user of a process; `None`: it is gone.
    #[must_use]
    pub fn owner(&self, pid: u32) -> Option<u32> {
        let found = rustix::fs::statx(&self.dir, pid.to_string(), AtFlags::STATX_DONT_SYNC, StatxFlags::UID);
        Some(found.ok()?.stx_uid)
    }

    /// The nice value of a process; `None`: it is gone.
    pub fn nice(&self, pid: u32) -> Result<Option<i32>, ProcError> {
        self.parsed(&format!("{pid}/stat"), parse::parse_nice)
    }

    /// Memory by kind and the allowed PUs of a process; `None`: it is gone.
    pub fn status(&self, pid: u32) -> Result<Option<ProcessStatus>, ProcError> {
        self.parsed(&format!("{pid}/status"), parse_process_status)
    }

    /// Bytes moved to and from storage by a process and the children it waited for; `None`: it is gone, or its figures
    /// are not readable.
    pub fn io(&self, pid: u32) -> Result<Option<ProcessIo>, ProcError> {
        self.parsed(&format!("{pid}/io"), parse_process_io)
    }

    /// Reads and writes of the living threads of a process, without children; `None`: it is gone, not readable, or has
    /// more than [`THREADS_MAX`] threads.
    pub fn own_io(&self, pid: u32) -> Result<Option<ProcessIo>, ProcError> {
        let Some(threads) = self.few_threads(pid)? else { return Ok(None) };
        let mut sum: Option<ProcessIo> = None;
        for thread in threads {
            if let Some(io) = self.parsed(&format!("{pid}/task/{thread}/io"), parse_process_io)? {
                sum = Some(sum.unwrap_or_default().plus(io));
            }
        }
        Ok(sum)
    }

    /// Scheduling figures of the living threads of a process; `None`: it is gone, the kernel does not count them, or it
    /// has more than [`THREADS_MAX`] threads.
    pub fn turns(&self, pid: u32) -> Result<Option<Turns>, ProcError> {
        let Some(threads) = self.few_threads(pid)? else { return Ok(None) };
        let mut sum: Option<Turns> = None;
        for thread in threads {
            let folder = format!("{pid}/task/{thread}");
            let Some(status) = self.text(&format!("{folder}/status"))? else { continue };
            let Some((voluntary, forced)) = parse_switches(&status) else { continue };
            let Some(waited_us) = self.waited_us(&folder)? else { continue };
            let sum = sum.get_or_insert_default();
            sum.waited_us = sum.waited_us.saturating_add(waited_us);
            sum.voluntary = sum.voluntary.saturating_add(voluntary);
            sum.forced = sum.forced.saturating_add(forced);
        }
        Ok(sum)
    }

    /// The time that the thread of this directory was ready and waited for a processor.
    fn waited_us(&self, folder: &str) -> Result<Option<u64>, ProcError> {
        let text = self.text(&format!("{folder}/schedstat"))?;
        let waited_ns = text.and_then(|text| text.split_ascii_whitespace().nth(1)?.parse::<u64>().ok());
        Ok(waited_ns.map(|ns| ns / 1000))
    }

    /// Memory of a process with each shared page counted by its fraction; `None`: it is gone, or not readable. The
    /// kernel walks the page tables for it: milliseconds for each gibibyte.
    pub fn rollup(&self, pid: u32) -> Result<Option<Rollup>, ProcError> {
        self.parsed(&format!("{pid}/smaps_rollup"), parse_rollup)
    }

    /// A thread of a process, and the time it was ready and waited for a processor, in microseconds, where the kernel
    /// counts that; `None`: it is gone.
    pub fn thread(&self, pid: u32, thread: u32) -> Result<Option<(ThreadStat, Option<u64>)>, ProcError> {
        let folder = format!("{pid}/task/{thread}");
        let Some(text) = self.text(&format!("{folder}/stat"))? else { return Ok(None) };
        let Some(stat) = parse_thread_stat(&text) else { return Ok(None) };
        Ok(Some((stat, self.waited_us(&folder)?)))
    }

    /// The command line, arguments separated by blanks, at most `bytes_max` bytes; `None`: it is gone, or has none, as
    /// kernel threads and ended processes.
    pub fn command_line(&self, pid: u32, bytes_max: usize) -> Result<Option<String>, ProcError> {
        let file = format!("{pid}/cmdline");
        let Some((mut bytes, _)) = self.bytes(&file, bytes_max)? else { return Ok(None) };
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
        Ok((!text.is_empty()).then_some(text))
    }

    /// As [`Proc::command_line`], with the arguments separated by NULs.
    pub fn arguments(&self, pid: u32, bytes_max: usize) -> Result<Option<String>, ProcError> {
        self.beginning(&format!("{pid}/cmdline"), bytes_max)
    }

    /// Opens a file of a process to keep it open; `None`: the process is gone, or not readable.
    pub(crate) fn keep(&self, pid: u32, file: &str) -> Option<OwnedFd> {
        let path = format!("{pid}/{file}");
        rustix::fs::openat(&self.dir, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
    }

    /// The environment at the start of the process, as NUL-separated bytes, cut if too long; `None`: it is gone, or not
    /// readable.
    pub fn environ(&self, pid: u32) -> Result<Option<Vec<u8>>, ProcError> {
        Ok(self.environ_within(pid, usize::MAX)?.map(|(bytes, _)| bytes))
    }

    /// As [`Proc::environ`], at most `bytes_max` bytes, and whether there are more: for scans over many processes, as long
    /// environments cost their user nothing.
    pub fn environ_within(&self, pid: u32, bytes_max: usize) -> Result<Option<(Vec<u8>, bool)>, ProcError> {
        self.environ_if(pid, bytes_max, || true)
    }

    /// As [`Proc::environ_within`], if `is_it` holds once the file is open: the file then refers to that memory, while
    /// before another user's process, which can delay a reader, may have got the number or the user may have changed.
    pub fn environ_if(
        &self,
        pid: u32,
        bytes_max: usize,
        is_it: impl FnOnce() -> bool,
    ) -> Result<Option<(Vec<u8>, bool)>, ProcError> {
        let read = self.bytes_if(&format!("{pid}/environ"), bytes_max.min(ENVIRON_BYTES_MAX), is_it)?;
        Ok(read.map(|(bytes, more)| if more { (up_to_last(bytes, 0), true) } else { (bytes, false) }))
    }

    /// The mapped ranges of a process, as the kernel prints them, cut if very many; `None`: it is gone, or not readable.
    pub fn maps(&self, pid: u32) -> Result<Option<String>, ProcError> {
        let file = format!("{pid}/maps");
        let Some((bytes, more)) = self.bytes(&file, MAPS_BYTES_MAX)? else { return Ok(None) };
        let bytes = if more { up_to_last(bytes, b'\n') } else { bytes };
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The times of all PUs since boot.
    pub fn host_cpu(&self) -> Result<HostCpu, ProcError> {
        self.required("stat", parse_host_cpu)
    }

    /// Runnable threads.
    pub fn load(&self) -> Result<Load, ProcError> {
        self.required("loadavg", parse_load)
    }

    /// The memory and swap of the host.
    pub fn memory_info(&self) -> Result<MemoryInfo, ProcError> {
        self.required("meminfo", parse_memory_info)
    }

    /// The host's pressure on a resource; `None`: this kernel does not account it.
    pub fn pressure(&self, resource: PressureResource) -> Result<Option<Pressure>, ProcError> {
        self.parsed(&format!("pressure/{}", resource.as_str()), parse_pressure)
    }

    /// A file by its name below the root; `None`: it does not exist, its process is gone, or it is not readable. More
    /// than 4 MiB is an error.
    pub fn text(&self, file: &str) -> Result<Option<String>, ProcError> {
        self.whole(file, TEXT_BYTES_MAX)
    }

    /// As [`Proc::text`], for files with a line for each object of the host, for instance each mount: users who may
    /// mount determine the length, and each line counts.
    pub fn long_text(&self, file: &str) -> Result<Option<String>, ProcError> {
        self.whole(file, LONG_TEXT_BYTES_MAX)
    }

    /// A file of at most `bytes_max` bytes.
    fn whole(&self, file: &str, bytes_max: usize) -> Result<Option<String>, ProcError> {
        match self.bytes(file, bytes_max)? {
            // The beginning of a list, or of a number, would read as the whole.
            Some((_, true)) => {
                Err(ProcError::Read { path: self.root.join(file), source: Errno::FBIG.into() })
            }
            // Names and environments of processes are arbitrary bytes; the parsers need UTF-8 only.
            Some((bytes, false)) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            None => Ok(None),
        }
    }

    /// At most `bytes_max` bytes of a file.
    fn beginning(&self, file: &str, bytes_max: usize) -> Result<Option<String>, ProcError> {
        let read = self.bytes(file, bytes_max)?;
        Ok(read.map(|(bytes, _)| String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The target of a symbolic link; `None`: it does not exist, or is not readable.
    pub(crate) fn link(&self, file: &str) -> Option<PathBuf> {
        std::fs::read_link(self.root.join(file)).ok()
    }

    fn required<T>(&self, file: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<T, ProcError> {
        match self.parsed(file, parse)? {
            Some(value) => Ok(value),
            None => Err(ProcError::Read { path: self.root.join(file), source: Errno::NOENT.into() }),
        }
    }

    fn parsed<T>(&self, file: &str, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, ProcError> {
        match self.text(file)? {
            // The files of a process that ends during the read come up empty.
            Some(text) if text.is_empty() => Ok(None),
            Some(text) => match parse(&text) {
                Some(value) => Ok(Some(value)),
                None => Err(ProcError::Parse { path: self.root.join(file) }),
            },
            None => Ok(None),
        }
    }

    /// At most `bytes_max` bytes of a file, and whether there are more.
    fn bytes(&self, file: &str, bytes_max: usize) -> Result<Option<(Vec<u8>, bool)>, ProcError> {
        self.bytes_if(file, bytes_max, || true)
    }

    /// `None` also if this is not `wanted`, asked once the file is open.
    fn bytes_if(
        &self,
        file: &str,
        bytes_max: usize,
        wanted: impl FnOnce() -> bool,
    ) -> Result<Option<(Vec<u8>, bool)>, ProcError> {
        let read = rustix::fs::openat(&self.dir, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .and_then(|fd| wanted().then(|| read_at_most(&fd, bytes_max)).transpose());
        match read {
            Ok(read) => Ok(read),
            Err(errno) if is_answer(errno) => Ok(None),
            Err(errno) => Err(ProcError::Read { path: self.root.join(file), source: errno.into() }),
        }
    }

    fn numbered(&self, folder: &str) -> Result<Option<Vec<u32>>, ProcError> {
        let numbers = self.some_numbered(folder, usize::MAX)?;
        Ok(numbers.map(|(mut numbers, _)| {
            numbers.sort_unstable();
            numbers
        }))
    }

    /// The first `most` numbers in a folder, in no order, and whether there are more.
    fn some_numbered(&self, folder: &str, most: usize) -> Result<Option<(Vec<u32>, bool)>, ProcError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let failed = |errno: Errno| ProcError::Read { path: self.root.join(folder), source: errno.into() };
        let fd = match rustix::fs::openat(&self.dir, folder, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(errno) if is_answer(errno) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let mut numbers = Vec::new();
        for entry in Dir::new(fd).map_err(failed)? {
            let number = match entry {
                Ok(entry) => entry.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()),
                Err(errno) if is_answer(errno) => return Ok(None),
                Err(errno) => return Err(failed(errno)),
            };
            if number.is_some() && numbers.len() == most {
                return Ok(Some((numbers, true)));
            }
            numbers.extend(number);
        }
        Ok(Some((numbers, false)))
    }
}

/// Gone, never there, or another user's: answers about a process, not failures of the host.
fn is_answer(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::NOENT | Errno::SRCH | Errno::NODEV | Errno::ACCESS | Errno::PERM | Errno::OPNOTSUPP
    )
}

/// A cut text, without the part behind the last `end`, which may be incomplete; unchanged if it has no `end`.
fn up_to_last(mut bytes: Vec<u8>, end: u8) -> Vec<u8> {
    if let Some(at) = bytes.iter().rposition(|byte| *byte == end) {
        bytes.truncate(at + 1);
    }
    bytes
}

/// Reads an open file to its end: for files of a length that the kernel determines, and no process.
pub(crate) fn read_all(fd: &OwnedFd) -> Result<Vec<u8>, Errno> {
    Ok(read_at_most(fd, usize::MAX)?.0)
}

/// Reads at most `most` bytes of an open file, and whether there are more; kernel files state no length beforehand.
fn read_at_most(fd: &OwnedFd, most: usize) -> Result<(Vec<u8>, bool), Errno> {
    let mut bytes = Vec::with_capacity(4096);
    while bytes.len() <= most {
        if bytes.capacity() - bytes.len() < 1024 {
            // Twice as much, but no more room than the bound on the read.
            let left = (most - bytes.len()).saturating_add(1024);
            bytes.reserve_exact(bytes.capacity().min(left));
        }
        match rustix::io::read(fd, rustix::buffer::spare_capacity(&mut bytes)) {
            Ok(0) => return Ok((bytes, false)),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    bytes.truncate(most);
    Ok((bytes, true))
}

/// Ticks of `/proc/PID/stat` as microseconds.
pub fn ticks_to_us(ticks: u64) -> u64 {
    // 100 on every usual Linux; 0 would be a broken kernel, and the division by it must not panic.
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    u64::try_from(u128::from(ticks) * 1_000_000 / u128::from(per_second)).unwrap_or(u64::MAX)
}

/// The present, in clock ticks since the host's boot: processes that start later have a larger start in `/proc/PID/stat`.
#[must_use]
pub fn ticks_now() -> u64 {
    const NS: u128 = 1_000_000_000;
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let ns = u128::try_from(up.tv_sec).unwrap_or(0) * NS + u128::try_from(up.tv_nsec).unwrap_or(0);
    let per_second = u128::from(rustix::param::clock_ticks_per_second());
    u64::try_from(ns * per_second / NS).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
