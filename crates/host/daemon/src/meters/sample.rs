//! Reading what jobs use and how idle the cores are, at intervals, and only while there are jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pinfold_policy::{Event as SchedulerEvent, JobId, Sample};
use pinfold_profile::meter::Reading;
use pinfold_proto::row::{Counts, Stalls};
use pinfold_proto::{JobClass, JobState};
use pinfold_sys::container::{Container, Detail, Measure};
use pinfold_sys::procfs::{HostCpu, PressureResource, Proc, PuTimes};

use crate::core::{Ctx, Outbox};
use crate::jobs::{JobRecord, Jobs};

/// The scheduler wants idleness over 1 s.
const IDLE_INTERVAL_US: u64 = 1_000_000;

/// An idle parent used a core, or waited for a core, for at most this part of the time: a fifth.
const IDLE_PART: u64 = 5;

/// So many of the last samples of a job that runs stay as rows, which other programs can read.
pub(crate) const SAMPLES_LOOSE: usize = 3_600;

/// The timers, and what one reading leaves for the next.
#[derive(Debug)]
pub(crate) struct Sampler {
    interval_us: u64,
    sample_due_us: Option<u64>,
    idle_due_us: Option<u64>,
    last_cpu: Option<HostCpu>,
    /// When it was read, and the CPU time of each backfiller then, in microseconds.
    last_backfill: (u64, BTreeMap<JobId, u64>),
    /// When it was read, and how long each primary had waited for a core then, in microseconds.
    last_stalled: (u64, BTreeMap<JobId, u64>),
    /// When it was read, and how long each parent of other jobs had used a core or waited for a core, in microseconds.
    last_parents: (u64, BTreeMap<JobId, u64>),
    /// Jobs that run and have many samples, to be packed.
    to_pack: BTreeSet<JobId>,
}

impl Sampler {
    /// A sampler that reads jobs at this interval.
    pub(crate) fn new(interval: Duration) -> Self {
        let interval_us = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX);
        Self {
            interval_us,
            sample_due_us: None,
            idle_due_us: None,
            last_cpu: None,
            last_backfill: (0, BTreeMap::new()),
            last_stalled: (0, BTreeMap::new()),
            last_parents: (0, BTreeMap::new()),
            to_pack: BTreeSet::new(),
        }
    }

    /// A round of samples begins.
    pub(super) fn round_begins(&mut self) {
        self.sample_due_us = None;
    }

    /// A job that runs has many samples, to be packed.
    pub(super) fn pack_later(&mut self, job: JobId) {
        self.to_pack.insert(job);
    }

    /// Changes the interval.
    pub(crate) fn set_interval(&mut self, interval: Duration) {
        self.interval_us = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX);
        self.sample_due_us = None;
    }

    /// When jobs are to be read next.
    pub(crate) fn sample_due_us(&self) -> Option<u64> {
        self.sample_due_us
    }

    /// When the cores' idleness is to be read next.
    pub(crate) fn idle_due_us(&self) -> Option<u64> {
        self.idle_due_us
    }

    /// Sets the timers while something runs, and stops them when nothing does: an idle host is not woken.
    pub(crate) fn schedule(&mut self, running: bool, now_us: u64) {
        if !running {
            self.sample_due_us = None;
            self.idle_due_us = None;
            self.last_cpu = None;
            return;
        }
        self.sample_due_us.get_or_insert(now_us + self.interval_us);
        self.idle_due_us.get_or_insert(now_us + IDLE_INTERVAL_US);
    }

    /// The jobs whose samples are to be packed; once.
    pub(crate) fn take_to_pack(&mut self) -> BTreeSet<JobId> {
        std::mem::take(&mut self.to_pack)
    }
}

/// A container's measure as the meter takes it.
pub(crate) fn reading(measure: &Measure, time_us: u64, state: JobState) -> Reading {
    Reading {
        time_us,
        state,
        cpu_user_us: measure.cpu_user_us,
        cpu_system_us: measure.cpu_system_us,
        memory_bytes: measure.memory_bytes,
        anonymous_bytes: measure.anonymous_bytes,
        shared_bytes: measure.shared_bytes,
        memory_peak_kernel_bytes: measure.memory_peak_kernel_bytes,
        cache_bytes: measure.cache_bytes,
        mapped_bytes: measure.mapped_bytes,
        process_file_bytes: measure.process_file_bytes,
        kernel_bytes: measure.kernel_bytes,
        swap_bytes: measure.swap_bytes,
        virtual_bytes: measure.virtual_bytes.unwrap_or(0),
        io_read_bytes: measure.io_read_bytes,
        io_write_bytes: measure.io_write_bytes,
        processes: u32::try_from(measure.processes).unwrap_or(u32::MAX),
        threads: measure.threads.map_or(0, |threads| u32::try_from(threads).unwrap_or(u32::MAX)),
        stalls: None,
        counts: Counts {
            io_read_calls: measure.io_read_calls,
            io_write_calls: measure.io_write_calls,
            faults_minor: measure.faults_minor,
            faults_major: measure.faults_major,
            ..Counts::default()
        },
    }
}

/// Stalls as they are kept.
pub(crate) fn stalls_row(stalls: pinfold_sys::container::Stalls) -> Stalls {
    Stalls {
        cpu_us: stalls.cpu_us,
        memory_us: stalls.memory_us,
        memory_full_us: stalls.memory_full_us,
        io_us: stalls.io_us,
        io_full_us: stalls.io_full_us,
    }
}

impl Sampler {
    /// Reads how idle each core was since the last time.
    pub(crate) fn on_idle_due(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &Jobs) {
        self.idle_due_us = None;
        self.look_at_parents(ctx, out, jobs);
        let Ok(cpu) = ctx.proc.host_cpu() else { return };
        let backfill_milli = self.backfill_milli(ctx, jobs);
        let stalled_milli = self.stalled_milli(ctx, jobs);
        if let Some(last) = self.last_cpu.replace(cpu.clone()) {
            let idle_milli =
                ctx.policy.machine().cores.iter().map(|pus| idle_milli(&last, &cpu, pus)).collect();
            out.step(SchedulerEvent::Sample(Sample { idle_milli, backfill_milli, stalled_milli }));
        }
    }

    /// Tells the scheduler which parents of other jobs are idle.
    fn look_at_parents(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &Jobs) {
        let parents = ctx.policy.parents();
        if parents.is_empty() && self.last_parents.1.is_empty() {
            return;
        }
        let used = |job: &JobId| {
            let container = jobs.table.get(job)?.container.as_ref()?;
            let waited_us = waited_us(container, &ctx.proc)?;
            Some((*job, cpu_us(&container.measure(Detail::Totals).ok()?).saturating_add(waited_us)))
        };
        let used: BTreeMap<JobId, u64> = parents.iter().filter_map(used).collect();
        let (elapsed_us, since) = since(&mut self.last_parents, ctx.clock.now_us(), used);
        let idle = since.into_iter().filter(|&(_, used_us)| used_us * IDLE_PART <= elapsed_us);
        out.step(SchedulerEvent::Idle(idle.map(|(job, _)| job).collect()));
    }

    /// The part of the time since the last look that each primary waited for a core, in thousandths; read only where it
    /// is asked for.
    fn stalled_milli(&mut self, ctx: &Ctx, jobs: &Jobs) -> Vec<(JobId, u16)> {
        if !ctx.configured.config.cpu_guard {
            self.last_stalled.1.clear();
            return Vec::new();
        }
        let runs =
            |live: &JobRecord| live.row.class == JobClass::Primary && live.row.state == JobState::Running;
        let waited = |job: &JobId| {
            let container = jobs.table.get(job).filter(|live| runs(live))?.container.as_ref()?;
            Some((*job, waited_us(container, &ctx.proc)?))
        };
        let waited: BTreeMap<JobId, u64> = jobs.running.iter().filter_map(waited).collect();
        let (elapsed_us, since) = since(&mut self.last_stalled, ctx.clock.now_us(), waited);
        let milli = |waited_us: u64| waited_us.saturating_mul(1000) / elapsed_us;
        let part = |milli: u64| u16::try_from(milli.min(1000)).expect("at most 1000");
        since.into_iter().map(|(job, waited_us)| (job, part(milli(waited_us)))).collect()
    }

    /// What backfillers used since the last time, in thousandths of a core; read only where it is asked for.
    fn backfill_milli(&mut self, ctx: &Ctx, jobs: &Jobs) -> u32 {
        if ctx.configured.config.cpu_protect_milli == 0 {
            self.last_backfill.1.clear();
            return 0;
        }
        let mut used = BTreeMap::new();
        for job in &jobs.running {
            let Some(live) = jobs.table.get(job).filter(|live| live.row.class == JobClass::Backfill) else {
                continue;
            };
            if let Some(measure) = live.container.as_ref().and_then(|c| c.measure(Detail::Totals).ok()) {
                used.insert(*job, cpu_us(&measure));
            }
        }
        let (elapsed_us, since) = since(&mut self.last_backfill, ctx.clock.now_us(), used);
        let sum: u64 = since.into_iter().map(|(_, used_us)| used_us).sum();
        u32::try_from(sum.saturating_mul(1000) / elapsed_us).unwrap_or(u32::MAX)
    }
}

/// The processor time of a job, in microseconds.
fn cpu_us(measure: &Measure) -> u64 {
    measure.cpu_user_us.saturating_add(measure.cpu_system_us)
}

/// Notes a figure of each job. Gives the time since the last look, in microseconds, and the growth of the figure of each job
/// that had a figure then.
fn since(
    last: &mut (u64, BTreeMap<JobId, u64>),
    now_us: u64,
    now: BTreeMap<JobId, u64>,
) -> (u64, Vec<(JobId, u64)>) {
    let (then_us, before) = std::mem::replace(last, (now_us, now));
    let grown = |(job, now): (&JobId, &u64)| Some((*job, now.saturating_sub(*before.get(job)?)));
    (now_us.saturating_sub(then_us).max(1), last.1.iter().filter_map(grown).collect())
}

/// So many threads of a job are asked how long each waited.
const THREADS_LOOKED_AT: usize = 1_024;

/// How long a job's threads were ready and waited for a processor: some of them, by the kernel's word on its group; where
/// there is none, all of those that live, added up. `None`: that is not known, or there are too many to look at each second.
fn waited_us(container: &Container, proc: &Proc) -> Option<u64> {
    if let Some(pressure) = container.pressure(PressureResource::Cpu).ok().flatten() {
        return Some(pressure.some.total_us);
    }
    let (mut sum, mut left) = (0_u64, THREADS_LOOKED_AT);
    for pid in container.pids().ok()? {
        let (threads, more) = proc.some_threads(pid, left).ok().flatten().unwrap_or_default();
        if more {
            return None;
        }
        left -= threads.len();
        for thread in threads {
            let waited = proc.thread(pid, thread).ok().flatten().and_then(|(_, waited_us)| waited_us);
            sum = sum.saturating_add(waited.unwrap_or(0));
        }
    }
    Some(sum)
}

/// The part of the time between two readings that the PUs of a core were idle, in thousandths.
fn idle_milli(last: &HostCpu, now: &HostCpu, pus: &pinfold_topo::CpuSet) -> u16 {
    let of = |cpu: &HostCpu, pu| cpu.pus.iter().find(|times| times.pu == pu).copied();
    let (mut idle, mut total) = (0u64, 0u64);
    for pu in pus.iter() {
        if let (Some(before), Some(after)) = (of(last, pu), of(now, pu)) {
            // Waiting for I/O is idle: another job could run.
            let rest = |times: &PuTimes| times.idle_ticks + times.iowait_ticks;
            let busy = |times: &PuTimes| times.busy_ticks + times.steal_ticks;
            let rested = rest(&after).saturating_sub(rest(&before));
            idle += rested;
            total += rested + busy(&after).saturating_sub(busy(&before));
        }
    }
    u16::try_from((idle * 1000).checked_div(total).unwrap_or(0).min(1000)).expect("at most 1000")
}
