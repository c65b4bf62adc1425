//! Readings of a running job become samples and figures. Pure: no clock, no file.
//!
//! Totals (CPU, I/O) never decrease here: a counter that goes backwards (version 1 scales user and system time anew
//! at each reading; without cgroups the totals of a process disappear with it) keeps its largest value, a missing
//! counter keeps its last.
//!
//! # The peak of memory
//!
//! Wanted is P, the peak of anonymous and shared memory of the job. No kernel keeps that figure. The kernel keeps K,
//! the peak of *all* memory charged to the container, including page cache and kernel memory, and R, the largest
//! resident size of any single process. Each source below gives a lower bound of P under the stated condition; the
//! result is the largest bound.
//!
//! - **Sampled**, S: the largest reading. Always right, but misses peaks between two readings.
//! - **Container**, A = K - C, where C is the largest page cache plus kernel memory in any reading. At the moment of
//!   K the job held K less the cache and kernel memory of that moment; A is not above P if these were at most C.
//!   Cache stays charged until it is reclaimed or its file is deleted, so the reading after the end shows most of the
//!   cache. A spike of 50 ms in a job with little I/O is seen whole.
//! - **Process**, B = R - M, where M is the largest mapped part of the container's page cache. A resident size is
//!   anonymous, shared and mapped file pages; without the file pages it is memory of a process, hence of the job. B
//!   sees the spike of a job that *later* reads 10 GiB of files, where A is zero. Libraries are mapped file pages
//!   that are often charged to the job that touched them first; R counts them and M does not: B replaces the other
//!   bounds only where it is larger by more than [`LIBRARIES_BYTES`]. Where no group counts memory, M is instead the
//!   most file pages in the resident size of any single process: they include R's libraries, so B needs no margin and
//!   counts whenever it is the largest. Without any M, B = R, the only figure of a job that ended before its first
//!   reading.
//!
//! A can be too large in a remaining case: files written and deleted between two readings. A is doubted when the
//! job's I/O is enough to explain all of A - S as cache, and the largest process times the most processes ever seen
//! is clearly less than A. A is then cut to that product. A job with little I/O keeps A: many short processes at
//! once, unseen between readings, are memory and not cache.

use pinfold_proto::row::{Counts, ProcessesFrom, SampleRow, Stalls, Usage};
use pinfold_proto::{Ending, JobState};

/// Most bytes that the libraries of ordinary programs add to a resident size.
pub const LIBRARIES_BYTES: u64 = 16 << 20;

/// A reading of a job's container, or of its processes together. Totals count from the job's start. Unknown figures
/// are `None`, never 0.
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
    /// Its anonymous part.
    pub anonymous_bytes: Option<u64>,
    /// Its shared part.
    pub shared_bytes: Option<u64>,
    /// The kernel's peak of all memory charged to the container.
    pub memory_peak_kernel_bytes: Option<u64>,
    /// Page cache charged to the container, without shared memory.
    pub cache_bytes: Option<u64>,
    /// The part of that cache mapped by processes.
    pub mapped_bytes: Option<u64>,
    /// The most file pages, including libraries, in the resident size of a single process; where no container counts
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
    /// Its stall times since its start.
    pub stalls: Option<Stalls>,
    /// Its event counts.
    pub counts: Counts,
}

impl Reading {
    /// Threads now. Threads are counted after processes; a process that ended in between counts as a thread.
    fn threads(&self) -> u32 {
        self.threads.max(self.processes)
    }
}

/// The usage of a running job so far.
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
    /// `None` until the kernel has reported a peak.
    charged: Option<u64>,
    /// Largest sum of page cache and kernel memory in a reading.
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
            // A clock set back gives an empty interval, not a negative one.
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

    /// A meter that continues from stored figures after a restart of the daemon: the stored mean of `usage` counts
    /// for the time from `started_us` to `until_us`, the last sample. Earlier figures are kept.
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

    /// Notes how the job's processes are found; a change of sources counts as gaps.
    pub fn processes_from(&mut self, from: ProcessesFrom) {
        let known = self.usage.processes_from;
        if known == ProcessesFrom::Unknown {
            self.usage.processes_from = from;
        } else if known != from {
            self.usage.processes_from = ProcessesFrom::Gaps;
        }
    }

    /// Sets the total number of processes, where each is followed. Without this total, the most concurrent processes
    /// stand for it.
    pub fn processes_total(&mut self, total: u64) {
        self.usage.processes_total = self.usage.processes_total.max(total);
    }

    /// Adds event counts of all processes, where each is followed.
    pub fn counts(&mut self, counts: Counts) {
        self.usage.counts = self.usage.counts.raised(counts);
    }

    /// The job's usage so far.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.figures(None)
    }

    /// The job's total usage. `last` is a reading of its container after its end, for the totals, the kernel's peak
    /// and the remaining cache; `ending` has the keeper's figures.
    #[must_use]
    pub fn finish(mut self, last: Option<&Reading>, ending: Option<&Ending>) -> Usage {
        if let Some(last) = last {
            self.count(last);
        }
        self.figures(ending)
    }

    /// The memory peak from readings alone, without the keeper's figures; 0 without readings. `last`: the reading
    /// after the end.
    #[must_use]
    pub fn measured_peak_bytes(&self, last: Option<&Reading>) -> u64 {
        let mut meter = self.clone();
        last.into_iter().for_each(|last| meter.count(last));
        meter.figures(None).memory_peak_bytes
    }

    /// Updates totals and peaks, also from a reading after the end.
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
            // Takes both times from the source with the larger sum: mixing the sources would give a sum that neither
            // measured.
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
        // A job without a reading has no better mean than its peak.
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
        // Memory that no file explains may be page tables, stacks and library pages.
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
