//! The kernel's own records of starts and ends of processes, complete even for the shortest.
//!
//! Two sources, both by netlink. The *process connector* reports parent and child at the moment of a fork; with that a
//! process's job is known from its parent's. *Taskstats* reports, at the end of each thread, its use: processor time,
//! storage traffic, faults, switches, and the largest resident size of its process. Where taskstats is not allowed, the
//! connector also reports each process's end. [`Source`] names the open sources and the reason for a missing one.
//!
//! Owner of state: the two sockets, and ends that may precede the reading of their births. The sockets' buffers hold unread
//! records; when a buffer overflows, the kernel reports it once, and [`Taken::lost`] hands that on. Absent here: the jobs
//! of processes, and any thread.

mod connector;
mod netlink;
mod taskstats;

use std::io;

use connector::{Connector, monotonic_ns};
use taskstats::Taskstats;

/// A process was forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Birth {
    /// The new process.
    pub pid: u32,
    /// The process that forked it.
    pub parent: u32,
    /// The time since then, in microseconds.
    pub age_us: u64,
}

/// The end of a thread, by taskstats; or of a process, by the connector (`figures` is `None` then).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The process it belonged to.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// Its parent then; the first process for an orphan.
    pub parent: u32,
    /// Whether it was the last thread of its process.
    pub is_last: bool,
    /// Its exit code, when it exited.
    pub exit_code: Option<i32>,
    /// The signal that ended it, if any.
    pub signal: Option<i32>,
    /// Its use.
    pub figures: Option<Figures>,
}

/// A thread's use. Sizes and times of a process are the sums over its threads, but for the two peaks, which each thread
/// reports for the process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// The kernel's name of it: up to 15 bytes of the command's last part.
    pub name: String,
    /// Its lifetime, in microseconds.
    pub lived_us: u64,
    /// The lifetime of its process until then, in microseconds.
    pub process_lived_us: u64,
    /// Processor time in user mode, in microseconds, without the kernel's teardown of the process.
    pub cpu_user_us: u64,
    /// Processor time in the kernel, in microseconds.
    pub cpu_system_us: u64,
    /// The time it was ready and waited for a processor, in microseconds.
    pub waited_us: u64,
    /// The largest resident size of its process, in bytes.
    pub rss_peak_bytes: u64,
    /// The most address space of its process, in bytes.
    pub virtual_peak_bytes: u64,
    /// Bytes fetched from storage.
    pub io_read_bytes: u64,
    /// Bytes sent to storage, less bytes truncated away before they got there.
    pub io_write_bytes: u64,
    /// Calls that read. The kernel rounds both counts of calls down to a multiple of 1,024.
    pub io_read_calls: u64,
    /// Calls that wrote.
    pub io_write_calls: u64,
    /// Page faults met from memory.
    pub faults_minor: u64,
    /// Page faults that waited for storage.
    pub faults_major: u64,
    /// Times it gave the processor up.
    pub switches_voluntary: u64,
    /// Times it was taken off the processor.
    pub switches_forced: u64,
}

/// The open sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Every start and end is reported, with all figures.
    Full,
    /// Every start and end is reported; figures are the last sample's.
    Births,
    /// None: processes are seen when samples are taken.
    Samples,
}

impl Source {
    /// The word for it in views.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Full => "exit records",
            Self::Births => "fork and exit events",
            Self::Samples => "samples",
        }
    }

    /// The missing records, in words; empty: none.
    #[must_use]
    pub fn loss(self) -> &'static str {
        match self {
            Self::Full => "",
            Self::Births => {
                "a process that ends between two samples is counted, but not what it used in the meantime"
            }
            Self::Samples => "a process that starts and ends between two samples is not seen",
        }
    }
}

/// A portion of the waiting records.
#[derive(Debug, Default)]
pub struct Taken {
    /// Births, in order.
    pub births: Vec<Birth>,
    /// Ends, in order. The birth of every process among them was in `births` of this call or of an earlier call.
    pub ends: Vec<End>,
    /// Whether the kernel had to drop some: the reader must look for processes that live.
    pub lost: bool,
    /// Messages read, of both sources.
    pub messages: usize,
    /// More may wait: a source was not read to its end.
    pub more: bool,
}

/// Ends that were read, of which the births may not be.
#[derive(Debug)]
struct Ahead {
    ends: Vec<End>,
    /// All their births were sent before, in nanoseconds of the monotonic clock.
    read_ns: u64,
}

/// The open sources.
#[derive(Debug)]
pub struct Records {
    connector: Option<Connector>,
    taskstats: Option<Taskstats>,
    ahead: Option<Ahead>,
    why_not: Vec<String>,
}

impl Records {
    /// Opens the allowed sources. Until the first [`Records::take`] events gather in the kernel.
    #[must_use]
    pub fn open() -> Self {
        let mut why_not = Vec::new();
        if let Some(why) = outside_first_namespaces() {
            return Self { connector: None, taskstats: None, ahead: None, why_not: vec![why] };
        }
        let mut note = |what: &str, error: io::Error| why_not.push(format!("{what}: {error}"));
        let taskstats = Taskstats::open().map_err(|error| note("taskstats", error)).ok();
        let connector =
            Connector::open(taskstats.is_none()).map_err(|error| note("process connector", error)).ok();
        // Without births the job of an end is unknown.
        let taskstats = taskstats.filter(|_| connector.is_some());
        Self { connector, taskstats, ahead: None, why_not }
    }

    /// The open sources.
    #[must_use]
    pub fn source(&self) -> Source {
        match (&self.connector, &self.taskstats) {
            (Some(_), Some(_)) => Source::Full,
            (Some(_), None) => Source::Births,
            (None, _) => Source::Samples,
        }
    }

    /// Why not all of it is, in words; empty: all is.
    #[must_use]
    pub fn why_not(&self) -> String {
        self.why_not.join("; ")
    }

    /// Takes waiting records, up to `most` messages of each source, as processes may come and go as fast as they are
    /// read. Ends are read first: the births of their processes were sent before, and are found in the reading after.
    /// If the births cannot all be read, the ends are kept until they are, and no further ends are read before.
    pub fn take(&mut self, most: usize) -> Taken {
        let mut taken = Taken::default();
        let mut ahead = self.ahead.take();
        if let (None, Some(taskstats)) = (&ahead, &mut self.taskstats) {
            let mut ends = Vec::new();
            let portion = taskstats.take(most, &mut ends);
            (taken.messages, taken.lost, taken.more) = (portion.messages, portion.lost, portion.more);
            ahead = Some(Ahead { ends, read_ns: monotonic_ns() });
        } else if ahead.is_some() {
            // Records that came meanwhile.
            taken.more = true;
        }
        let mut until_ns = u64::MAX;
        if let Some(connector) = &mut self.connector {
            let portion;
            (portion, until_ns) = connector.take(most, &mut taken);
            taken.messages += portion.messages;
            taken.lost |= portion.lost;
            taken.more |= portion.more;
        }
        match ahead {
            Some(Ahead { ends, read_ns }) if until_ns > read_ns => taken.ends.extend(ends),
            ahead => self.ahead = ahead,
        }
        taken
    }
}

/// The kernel reports numbers of the first namespaces, and only to processes there.
fn outside_first_namespaces() -> Option<String> {
    // PROC_PID_INIT_INO and PROC_USER_INIT_INO of the kernel's proc_ns.h.
    for (name, first) in [("pid", 0xEFFF_FFFCu32), ("user", 0xEFFF_FFFD)] {
        let link = std::fs::read_link(format!("/proc/self/ns/{name}")).ok()?;
        if link.to_string_lossy() != format!("{name}:[{first}]") {
            return Some(format!("this is not the first {name} namespace"));
        }
    }
    None
}

#[cfg(test)]
mod tests;
