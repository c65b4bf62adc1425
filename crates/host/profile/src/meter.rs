//! Readings of one running job become samples and figures. Pure: no clock, no file.
//!
//! Totals (CPU, I/O) only ever grow here, whatever the source does: a counter that goes backwards (version 1
//! scales user and system time anew at each reading; without cgroups the totals of a process disappear with it)
//! keeps its largest value, one that is missing keeps its last.
//!
//! # The peak of memory
//!
//! Wanted is P, the most anonymous and shared memory the job held at once. No kernel keeps that figure. It
//! keeps K, the peak of *all* that is charged to the container, page cache and kernel memory included, and R,
//! the largest resident size of any one process. Each source below gives a value that P cannot be under, as far
//! as what is said with it holds; the answer is the largest of them.
//!
//! - **Sampled**, S: the largest reading. Always right, and blind to what happens between two readings.
//! - **Container**, A = K - C, where C is the largest page cache plus kernel memory in any reading. At the
//!   moment of K the job held K less what cache and kernel memory were then; A is not above P when that was at
//!   most C. Cache stays charged until it is reclaimed or its file is deleted, so that the reading after the
//!   end shows most of what there ever was. A spike of 50 ms in a job with little I/O is seen whole.
//! - **Process**, B = R - M, where M is the largest part of the container's page cache that was mapped. A
//!   resident size is anonymous, shared and mapped file pages; take the last away, and what is left is memory
//!   of one process, hence of the job. This sees the spike of a job that *later* reads 10 GiB of files, where A
//!   is nothing. Libraries are mapped file pages that are often charged to the job that touched them first, which R
//!   counts and M does not: B replaces the others only where it is larger by more than
//!   [`LIBRARIES_BYTES`]. Where no group counts memory, M is instead the most file pages in the resident size of
//!   any one process: R's libraries are among those, so that B needs no such margin and counts whenever it is
//!   the largest. Without any M, B = R, the only figure there is for a job that ended before its first reading.
//!
//! One case is left where A is too large: files that were written and deleted again between two readings. A is
//! doubted when all of this holds: the job's I/O is enough to explain all of A - S as cache, and the largest
//! process times the most processes ever seen is clearly less than A. It is then cut to that product. A job
//! whose I/O is small keeps A: many short processes at once, unseen between readings, are memory and not cache.

use pinfold_proto::row::{Counts, ProcessesFrom, SampleRow, Stalls, Usage};
use pinfold_proto::{Ending, JobState};

/// What the libraries of ordinary programs add to a resident size, at most.
pub const LIBRARIES_BYTES: u64 = 16 << 20;

/// One reading of a job's container, or of its processes together. Totals count from the job's start. What the
/// host cannot tell is `None`, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// When, in microseconds since the Unix epoch.
    pub time_us: u64,
    /// The job's state.
    pub state: JobState,
    /// CPU time in user mode.
    pub cpu_user_us: u64,
    /// CPU time in the kernel.
    pub cpu_system_us: u64,
    /// Anonymous and shared memory, resident.
    pub memory_bytes: u64,
    /// The anonymous part of that.
    pub anonymous_bytes: Option<u64>,
    /// The shared part of that.
    pub shared_bytes: Option<u64>,
    /// The kernel's peak of all that is charged to the container.
    pub memory_peak_kernel_bytes: Option<u64>,
    /// Page cache charged to the container, without shared memory.
    pub cache_bytes: Option<u64>,
    /// The part of that cache that is mapped by processes.
    pub mapped_bytes: Option<u64>,
    /// The most file pages, libraries included, in the resident size of one process; where no container counts
    /// memory.
    pub process_file_bytes: Option<u64>,
    /// Memory of the kernel charged to the container: page tables, stacks, slab.
    pub kernel_bytes: Option<u64>,
    /// Swap.
    pub swap_bytes: u64,
    /// Address space of the processes together.
    pub virtual_bytes: u64,
    /// Bytes read from storage.
    pub io_read_bytes: Option<u64>,
    /// Bytes written to storage.
    pub io_write_bytes: Option<u64>,
    /// Processes now.
    pub processes: u32,
    /// Threads now.
    pub threads: u32,
    /// How long it was stalled since its start.
    pub stalls: Option<Stalls>,
    /// What was counted of it.
    pub counts: Counts,
}

impl Reading {
    /// Threads now. They are counted after the processes, some of which may have ended in between; each had one at least.
    fn threads(&self) -> u32 {
        self.threads.max(self.processes)
    }
}

/// What one running job has used so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    job: u64,
    usage: Usage,
    mean: Mean,
    peaks: Peaks,
}

/// The sources of the memory peak, each at its largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Peaks {
    sampled: u64,
    /// `None` until the kernel has told one.
    charged: Option<u64>,
    /// Page cache and kernel memory of one reading.
    not_the_jobs: u64,
    mapped: Option<u64>,
    process_file: Option<u64>,
}

/// A mean weighted with time: the area under the line through the readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mean {
    last: Option<(u64, u64)>,
    area: u128,
    span_us: u64,
}

impl Mean {
    fn add(&mut self, time_us: u64, bytes: u64) {
        if let Some((last_us, last_bytes)) = self.last {
            // A clock that was set back makes an interval of nothing, not a negative one.
            let step_us = time_us.saturating_sub(last_us);
            self.area = self
                .area
                .saturating_add((u128::from(last_bytes) + u128::from(bytes)) / 2 * u128::from(step_us));
            self.span_us = self.span_us.saturating_add(step_us);
        }
        self.last = Some((time_us, bytes));
    }

    fn bytes(&self) -> u64 {
        match self.area.checked_div(u128::from(self.span_us)) {
            Some(mean) => u64::try_from(mean).unwrap_or(u64::MAX),
            None => self.last.map_or(0, |(_, bytes)| bytes),
        }
    }
}

impl Meter {
    /// A meter for a job that just started.
    #[must_use]
    pub fn new(job: u64) -> Self {
        let mean = Mean { last: None, area: 0, span_us: 0 };
        Self { job, usage: Usage::default(), mean, peaks: Peaks::default() }
    }

    /// A meter that goes on from stored figures, after the daemon's restart: `usage` as it was stored, the mean
    /// in it standing for the time from `started_us` to `until_us`, the last sample. Nothing found before is
    /// lost.
    #[must_use]
    pub fn resume(job: u64, usage: Usage, started_us: u64, until_us: u64) -> Self {
        let span_us = if usage.samples == 0 { 0 } else { until_us.saturating_sub(started_us) };
        let area = u128::from(usage.memory_mean_bytes) * u128::from(span_us);
        let last = (usage.samples > 0).then_some((until_us, usage.memory_mean_bytes));
        let peaks = Peaks {
            sampled: usage.memory_peak_bytes,
            not_the_jobs: usage.cache_peak_bytes.unwrap_or(0),
            ..Peaks::default()
        };
        Self { job, usage, mean: Mean { last, area, span_us }, peaks }
    }

    /// Takes in a reading and gives the sample to store.
    pub fn reading(&mut self, reading: &Reading) -> SampleRow {
        self.count(reading);
        self.mean.add(reading.time_us, reading.memory_bytes);
        self.usage.samples += 1;
        SampleRow {
            job: self.job,
            time_us: reading.time_us,
            state: reading.state,
            cpu_user_us: self.usage.cpu_user_us,
            cpu_system_us: self.usage.cpu_system_us,
            memory_bytes: reading.memory_bytes,
            cache_bytes: reading.cache_bytes,
            swap_bytes: reading.swap_bytes,
            virtual_bytes: reading.virtual_bytes,
            io_read_bytes: self.usage.io_read_bytes,
            io_write_bytes: self.usage.io_write_bytes,
            processes: reading.processes,
            threads: reading.threads(),
            stalls: self.usage.stalls,
        }
    }

    /// Notes how the job's processes are found; what was worse before stays.
    pub fn processes_from(&mut self, from: ProcessesFrom) {
        let known = self.usage.processes_from;
        if known == ProcessesFrom::Unknown {
            self.usage.processes_from = from;
        } else if known != from {
            self.usage.processes_from = ProcessesFrom::Gaps;
        }
    }

    /// Tells how many processes were seen in all, where they are followed one by one. Without it the most at
    /// once stands for the total.
    pub fn processes_total(&mut self, total: u64) {
        self.usage.processes_total = self.usage.processes_total.max(total);
    }

    /// Tells what was counted of all its processes, where they are followed one by one.
    pub fn counts(&mut self, counts: Counts) {
        self.usage.counts = self.usage.counts.raised(counts);
    }

    /// What the job used so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.figures(None)
    }

    /// What the job used in all. `last` is a reading of its container after its end, for the totals, the
    /// kernel's peak and the cache it left; `ending` is what its keeper saw.
    #[must_use]
    pub fn finish(mut self, last: Option<&Reading>, ending: Option<&Ending>) -> Usage {
        if let Some(last) = last {
            self.count(last);
        }
        self.figures(ending)
    }

    /// The most memory that readings show, whatever the job's keeper will say; 0: there was none. `last`: the reading
    /// after its end.
    #[must_use]
    pub fn measured_peak_bytes(&self, last: Option<&Reading>) -> u64 {
        let mut meter = self.clone();
        last.into_iter().for_each(|last| meter.count(last));
        meter.figures(None).memory_peak_bytes
    }

    /// Totals and peaks; what a reading after the end may also change.
    fn count(&mut self, reading: &Reading) {
        let usage = &mut self.usage;
        usage.cpu_user_us = usage.cpu_user_us.max(reading.cpu_user_us);
        usage.cpu_system_us = usage.cpu_system_us.max(reading.cpu_system_us);
        usage.io_read_bytes = usage.io_read_bytes.max(reading.io_read_bytes.unwrap_or(0));
        usage.io_write_bytes = usage.io_write_bytes.max(reading.io_write_bytes.unwrap_or(0));
        usage.cache_peak_bytes = usage.cache_peak_bytes.max(reading.cache_bytes);
        usage.swap_peak_bytes = usage.swap_peak_bytes.max(reading.swap_bytes);
        usage.virtual_peak_bytes = usage.virtual_peak_bytes.max(reading.virtual_bytes);
        usage.processes_peak = usage.processes_peak.max(reading.processes.into());
        usage.threads_peak = usage.threads_peak.max(reading.threads().into());
        usage.processes_total = usage.processes_total.max(usage.processes_peak);
        usage.memory_peak_kernel_bytes = usage.memory_peak_kernel_bytes.max(reading.memory_peak_kernel_bytes);
        usage.stalls = match (usage.stalls, reading.stalls) {
            (Some(known), Some(new)) => Some(known.raised(new)),
            (known, new) => known.or(new),
        };
        usage.anonymous_peak_bytes = usage.anonymous_peak_bytes.max(reading.anonymous_bytes);
        usage.shared_peak_bytes = usage.shared_peak_bytes.max(reading.shared_bytes);
        usage.mapped_peak_bytes = usage.mapped_peak_bytes.max(reading.mapped_bytes);
        usage.counts = usage.counts.raised(reading.counts);
        let peaks = &mut self.peaks;
        peaks.sampled = peaks.sampled.max(reading.memory_bytes);
        peaks.charged = peaks.charged.max(reading.memory_peak_kernel_bytes);
        let not_the_jobs = reading.cache_bytes.unwrap_or(0).saturating_add(reading.kernel_bytes.unwrap_or(0));
        peaks.not_the_jobs = peaks.not_the_jobs.max(not_the_jobs);
        peaks.mapped = peaks.mapped.max(reading.mapped_bytes);
        peaks.process_file = peaks.process_file.max(reading.process_file_bytes);
    }

    fn figures(&self, ending: Option<&Ending>) -> Usage {
        let mut usage = self.usage;
        if let Some(ending) = ending {
            // One source or the other, whichever saw more: user time of the one beside system time of the
            // other would be a sum that neither measured.
            let seen = usage.cpu_user_us.saturating_add(usage.cpu_system_us);
            if ending.cpu_user_us.saturating_add(ending.cpu_system_us) > seen {
                (usage.cpu_user_us, usage.cpu_system_us) = (ending.cpu_user_us, ending.cpu_system_us);
            }
            usage.io_read_bytes = usage.io_read_bytes.max(ending.io_read_bytes);
            usage.io_write_bytes = usage.io_write_bytes.max(ending.io_write_bytes);
            usage.counts = usage.counts.raised(Counts {
                faults_minor: ending.faults_minor,
                faults_major: ending.faults_major,
                switches_voluntary: ending.switches_voluntary,
                switches_forced: ending.switches_forced,
                ..Counts::default()
            });
            usage.processes_peak = usage.processes_peak.max(1);
            usage.processes_total = usage.processes_total.max(1);
            usage.threads_peak = usage.threads_peak.max(1);
        }
        usage.memory_peak_bytes = self.peaks.memory(&usage, ending.map(|ending| ending.rss_peak_bytes));
        // A job without a reading held what its peak says for as long as anyone can tell.
        usage.memory_mean_bytes = match self.mean.last {
            Some(_) => self.mean.bytes().min(self.peaks.sampled),
            None => usage.memory_peak_bytes,
        };
        usage
    }
}

impl Peaks {
    /// The peak of memory; the argument stands above.
    fn memory(&self, usage: &Usage, rss_peak: Option<u64>) -> u64 {
        let container = self.charged.map_or(0, |charged| charged.saturating_sub(self.not_the_jobs));
        let container = match rss_peak {
            Some(rss_peak) => self.doubted(container, usage, rss_peak),
            None => container,
        };
        let known = self.sampled.max(container);
        if let Some(files) = self.process_file {
            return known.max(rss_peak.unwrap_or(0).saturating_sub(files));
        }
        let process = rss_peak.unwrap_or(0).min(self.charged.unwrap_or(u64::MAX));
        let process = process.saturating_sub(self.mapped.unwrap_or(0));
        if known == 0 || process > known.saturating_add(LIBRARIES_BYTES) { process } else { known }
    }

    fn doubted(&self, container: u64, usage: &Usage, rss_peak: u64) -> u64 {
        let excess = container.saturating_sub(self.sampled);
        let transferred = usage.io_read_bytes.saturating_add(usage.io_write_bytes);
        let processes = rss_peak.saturating_mul(usage.processes_peak.max(1));
        // What no file explains may be page tables, stacks and pages of libraries.
        let explained_by_cache = transferred > 0 && transferred.saturating_add(LIBRARIES_BYTES) >= excess;
        if explained_by_cache && container > processes.saturating_add(LIBRARIES_BYTES) {
            processes
        } else {
            container
        }
    }
}

#[cfg(test)]
mod tests;
