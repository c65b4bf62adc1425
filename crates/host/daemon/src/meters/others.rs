//! What processes that are no jobs use of the host: cores, from the kernel's count of busy time less what jobs used, and
//! memory, from what is not available less what jobs hold. Time at a nice value above 0 is no use of others': whoever runs
//! so gives way to jobs.
//!
//! What a job used is what the kernel says of its container. A keeper's word on it counts only where there is no such figure,
//! and for no more than its PUs had time for: a job that says more would hide what others use.
//!
//! Owns the last reading, and what jobs had used by then, so that what a job used between two readings counts as its own
//! even where it began or ended in between. Absent: what follows of it, which is the scheduler's.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_policy::{Event as SchedulerEvent, JobId};
use pinfold_proto::config::Config;
use pinfold_proto::view::OtherLoadView;
use pinfold_sys::container::Detail;
use pinfold_sys::peer;
use pinfold_sys::procfs::{HostCpu, PuTimes, ticks_to_us};
use pinfold_topo::{CpuSet, PuOs};

use crate::core::{Ctx, Outbox};
use crate::jobs::Jobs;

/// The host is read no more often than this, in microseconds.
const EVERY_US: u64 = 1_900_000;
/// A reading from before says nothing any more.
const STALE_US: u64 = 15_000_000;

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Others {
    /// When the cores were read, and how busy each had been by then.
    read: Option<(u64, BTreeMap<PuOs, Busy>)>,
    /// What each job had used by then.
    counted: BTreeMap<JobId, Used>,
    /// What jobs used since that ended since.
    ended: Busy,
    memory_bytes: Option<u64>,
    /// Whether the scheduler was told that it counts.
    told: bool,
}

/// Processor time, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Busy {
    all_us: u64,
    /// Of that, at a nice value above 0.
    nice_us: u64,
}

impl Busy {
    fn plus(self, other: Self) -> Self {
        Self {
            all_us: self.all_us.saturating_add(other.all_us),
            nice_us: self.nice_us.saturating_add(other.nice_us),
        }
    }

    fn since(self, then: Self) -> Self {
        Self {
            all_us: self.all_us.saturating_sub(then.all_us),
            nice_us: self.nice_us.saturating_sub(then.nice_us),
        }
    }

    fn ordinary_us(self) -> u64 {
        self.all_us.saturating_sub(self.nice_us)
    }
}

/// A job that runs, as far as it matters here.
#[derive(Debug, Clone, Copy)]
struct Used {
    job: JobId,
    started_us: u64,
    cpu_us: u64,
    /// Whether its first process runs at a nice value above 0, and so all that it starts.
    is_nice: bool,
}

impl Used {
    fn busy(self, cpu_us: u64) -> Busy {
        Busy { all_us: cpu_us, nice_us: if self.is_nice { cpu_us } else { 0 } }
    }
}

/// A run of a job that is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Over {
    /// The job.
    pub job: JobId,
    /// When the run began, and when it was over.
    pub started_us: u64,
    pub ended_us: u64,
    /// How many PUs it could use at once.
    pub pus: u64,
    /// The CPU time that it used.
    pub cpu_us: u64,
}

/// Whether it counts at all: with root's daemon it does not, unless it is told to.
pub(crate) fn is_wanted(config: &Config) -> bool {
    config.host_other_load.unwrap_or(peer::own_uid() != 0)
}

impl Others {
    /// Reads the cores, if that is due, and tells the scheduler.
    pub(crate) fn on_idle_due(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &Jobs) {
        if !self.is_on(ctx, out) {
            return;
        }
        let now_us = ctx.clock.now_us();
        if self.read.as_ref().is_some_and(|(then_us, _)| now_us.saturating_sub(*then_us) < EVERY_US) {
            return;
        }
        let Ok(cpu) = ctx.proc.host_cpu() else { return };
        let used = |job: &JobId| {
            let live = jobs.table.get(job)?;
            let measure = live.container.as_ref()?.measure(Detail::Totals).ok()?;
            let cpu_us = measure.cpu_user_us.saturating_add(measure.cpu_system_us);
            let nice = live.row.main.and_then(|main| ctx.proc.nice(main.pid).ok().flatten());
            let started_us = live.row.started_us.unwrap_or(0);
            Some(Used { job: *job, started_us, cpu_us, is_nice: nice.is_some_and(|nice| nice > 0) })
        };
        let used: Vec<Used> = jobs.running.iter().filter_map(used).collect();
        if let Some(milli) = self.between(now_us, busy(&cpu, &pus(ctx)), &used) {
            out.step(SchedulerEvent::Others(Some(milli)));
        }
    }

    /// A job comes where none runs: what the host did since the last one is not known, and how many threads want to run
    /// at this moment and did so in the last minute has to do.
    pub(crate) fn on_arrival(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &Jobs) {
        if !self.is_on(ctx, out) || !jobs.running.is_empty() {
            return;
        }
        let now_us = ctx.clock.now_us();
        if self.read.as_ref().is_some_and(|(then_us, _)| now_us.saturating_sub(*then_us) < STALE_US) {
            return;
        }
        let (Ok(cpu), Ok(load)) = (ctx.proc.host_cpu(), ctx.proc.load()) else { return };
        self.begin(now_us, busy(&cpu, &pus(ctx)));
        // This thread is one of them.
        let now_milli = load.running.saturating_sub(1).saturating_mul(1000);
        let most = u32::try_from(pus(ctx).len()).unwrap_or(u32::MAX).saturating_mul(1000);
        out.step(SchedulerEvent::Others(Some(now_milli.min(load.minute_milli).min(most))));
    }

    /// A run of a job is over.
    pub(crate) fn run_over(&mut self, over: Over) {
        let before = self.counted.remove(&over.job);
        let Some((then_us, _)) = self.read else { return };
        let since_us = over.ended_us.saturating_sub(then_us.max(over.started_us));
        let most_us = since_us.saturating_mul(over.pus.max(1));
        let used_us = over.cpu_us.saturating_sub(before.map_or(0, |before| before.cpu_us)).min(most_us);
        let nice_us = before.filter(|before| before.is_nice).map_or(0, |_| used_us);
        self.ended = self.ended.plus(Busy { all_us: used_us, nice_us });
    }

    /// Memory was read: what of the host's is not available, and what jobs hold.
    pub(crate) fn memory_read(&mut self, unavailable_bytes: u64, jobs_bytes: u64) {
        let now = unavailable_bytes.saturating_sub(jobs_bytes);
        // Smoothed: two counters that are read one after the other differ by what changed in between.
        self.memory_bytes = Some(self.memory_bytes.map_or(now, |before| before / 4 * 3 + now / 4));
    }

    /// What users are told; `None`: it does not count, or was not read yet.
    pub(crate) fn view(&self, ctx: &Ctx) -> Option<OtherLoadView> {
        let (milli, slots_withheld) = ctx.policy.others().filter(|_| is_wanted(&ctx.configured.config))?;
        let milli = u32::try_from(milli).unwrap_or(u32::MAX);
        Some(OtherLoadView {
            cores: f64::from(milli) / 1000.0,
            slots_withheld: slots_withheld as u64,
            memory_bytes: self.memory_bytes,
        })
    }

    fn is_on(&mut self, ctx: &Ctx, out: &mut Outbox) -> bool {
        let wanted = is_wanted(&ctx.configured.config);
        if !wanted && self.told {
            *self = Self::default();
            out.step(SchedulerEvent::Others(None));
        }
        self.told = wanted;
        wanted
    }

    fn begin(&mut self, now_us: u64, busy: BTreeMap<PuOs, Busy>) {
        (self.read, self.ended) = (Some((now_us, busy)), Busy::default());
        self.counted.clear();
    }

    /// What others used since the last reading, in thousandths of a core; `None`: there was none that says anything.
    fn between(&mut self, now_us: u64, busy: BTreeMap<PuOs, Busy>, jobs: &[Used]) -> Option<u32> {
        let before = self.read.take();
        let counted = std::mem::take(&mut self.counted);
        let ended = std::mem::take(&mut self.ended);
        self.counted = jobs.iter().map(|used| (used.job, *used)).collect();
        self.read = Some((now_us, busy));
        let (then_us, busy_then) = before?;
        let elapsed_us = now_us.saturating_sub(then_us);
        if elapsed_us == 0 || elapsed_us > STALE_US {
            return None;
        }
        let (_, busy_now) = self.read.as_ref()?;
        // A PU that went off line or came back counts from its second reading.
        let of =
            |(pu, now): (&PuOs, &Busy)| busy_then.get(pu).map(|then| now.since(*then)).unwrap_or_default();
        let host = busy_now.iter().map(of).fold(Busy::default(), Busy::plus);
        let by_job = |used: &Used| match counted.get(&used.job) {
            Some(before) => used.busy(used.cpu_us.saturating_sub(before.cpu_us)),
            None if used.started_us >= then_us => used.busy(used.cpu_us),
            // It ran before, and how much of it was since is not known: no more than all of the time.
            None => used.busy(used.cpu_us.min(host.all_us)),
        };
        let jobs = jobs.iter().map(by_job).fold(ended, Busy::plus);
        // What is not nice and no job's; never more than what is no job's at all.
        let others_us = host.ordinary_us().saturating_sub(jobs.ordinary_us());
        let others_us = others_us.min(host.all_us.saturating_sub(jobs.all_us));
        Some(u32::try_from(others_us.saturating_mul(1000) / elapsed_us).unwrap_or(u32::MAX))
    }
}

/// The PUs that jobs may be on.
fn pus(ctx: &Ctx) -> CpuSet {
    let machine = ctx.policy.machine();
    let in_sets = machine.asides.iter().flat_map(|set| &set.cores);
    machine.cores.iter().chain(in_sets).fold(CpuSet::new(), |all, core| all.union(core))
}

fn busy(cpu: &HostCpu, pus: &CpuSet) -> BTreeMap<PuOs, Busy> {
    let pus: BTreeSet<PuOs> = pus.iter().collect();
    let counts = cpu.pus.iter().filter(|times| pus.contains(&times.pu));
    let busy = |times: &PuTimes| Busy {
        all_us: ticks_to_us(times.busy_ticks),
        nice_us: ticks_to_us(times.nice_ticks),
    };
    counts.map(|times| (times.pu, busy(times))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;

    fn busy_s(pus: &[u64]) -> BTreeMap<PuOs, Busy> {
        nice_s(&pus.iter().map(|&seconds| (seconds, 0)).collect::<Vec<_>>())
    }

    /// How long each PU was busy, and how much of that at a nice value.
    fn nice_s(pus: &[(u64, u64)]) -> BTreeMap<PuOs, Busy> {
        let busy = |&(all, nice): &(u64, u64)| Busy { all_us: all * S, nice_us: nice * S };
        (0..).map(PuOs).zip(pus.iter().map(busy)).collect()
    }

    fn used(job: u64, started_s: u64, cpu_s: u64) -> Used {
        Used { job: JobId(job), started_us: started_s * S, cpu_us: cpu_s * S, is_nice: false }
    }

    /// A run on two PUs.
    fn over(job: u64, started_s: u64, ended_s: u64, cpu_s: u64) -> Over {
        let (started_us, ended_us) = (started_s * S, ended_s * S);
        Over { job: JobId(job), started_us, ended_us, pus: 2, cpu_us: cpu_s.saturating_mul(S) }
    }

    #[test]
    fn what_jobs_use_is_not_others() {
        let mut others = Others::default();
        assert_eq!(others.between(100 * S, busy_s(&[50, 50]), &[]), None, "the first reading says nothing");
        // Both PUs were busy for 10 s, by a job that began then and one that has run for long.
        let jobs = [used(1, 100, 9), used(2, 20, 70)];
        assert_eq!(
            others.between(110 * S, busy_s(&[60, 60]), &jobs),
            Some(0),
            "more than that cannot be others'"
        );
        let jobs = [used(1, 100, 14), used(2, 20, 77)];
        assert_eq!(others.between(120 * S, busy_s(&[70, 70]), &jobs), Some(800));
        // One ends, and another came and went in between.
        others.run_over(over(1, 100, 126, 20));
        others.run_over(over(3, 122, 125, 3));
        assert_eq!(others.between(130 * S, busy_s(&[80, 80]), &[used(2, 20, 78)]), Some(1000));
        // What was told of ends counts once.
        assert_eq!(others.between(140 * S, busy_s(&[81, 80]), &[used(2, 20, 78)]), Some(100));
    }

    #[test]
    fn nice_processes_are_no_load() {
        let mut others = Others::default();
        let job = |cpu_s| [used(1, 50, cpu_s)];
        others.between(100 * S, nice_s(&[(10, 0), (10, 0)]), &job(5));
        // 10 s of the job, and 10 s of processes that give way to it.
        assert_eq!(others.between(110 * S, nice_s(&[(20, 0), (20, 10)]), &job(15)), Some(0));
        // 5 s of the job; of the rest 8 s give way and 7 s do not.
        assert_eq!(others.between(120 * S, nice_s(&[(30, 3), (30, 15)]), &job(20)), Some(700));
        // A job that is nice itself is none of those that do not give way.
        let nice = |cpu_s| [Used { is_nice: true, ..used(2, 130, cpu_s) }];
        others.between(130 * S, nice_s(&[(40, 3), (30, 15)]), &nice(0));
        assert_eq!(others.between(140 * S, nice_s(&[(50, 3), (40, 25)]), &nice(10)), Some(1000));
    }

    #[test]
    fn a_keeper_s_word_hides_no_load() {
        let mut others = Others::default();
        others.between(100 * S, busy_s(&[10, 10]), &[]);
        // Both PUs are busy for 10 s. A job that slept for 2 s on one of them says that it used all that there is.
        others.run_over(Over { pus: 1, ..over(1, 105, 107, u64::MAX) });
        assert_eq!(others.between(110 * S, busy_s(&[20, 20]), &[]), Some(1800));
        // One that ran from before the last reading has used nothing of the time before it.
        others.run_over(Over { pus: 1, ..over(2, 50, 111, u64::MAX) });
        assert_eq!(others.between(120 * S, busy_s(&[30, 30]), &[]), Some(1900));
    }

    #[test]
    fn odd_readings_say_nothing_or_little() {
        let mut others = Others::default();
        others.run_over(over(1, 0, 90, 5));
        others.between(100 * S, busy_s(&[50]), &[used(1, 90, 9)]);
        assert_eq!(others.between(100 * S, busy_s(&[50]), &[]), None, "no time went by");
        // A counter went back, a job's as well; a PU came.
        assert_eq!(others.between(110 * S, busy_s(&[40, 90]), &[used(1, 90, 8)]), Some(0));
        assert_eq!(others.between(120 * S, busy_s(&[40, 95]), &[used(1, 90, 8)]), Some(500));
        assert_eq!(others.between(200 * S, busy_s(&[90, 95]), &[]), None, "too long ago");
        others.begin(300 * S, busy_s(&[90, 95]));
        assert_eq!(others.between(302 * S, busy_s(&[92, 96]), &[used(9, 301, 1)]), Some(1000));
    }

    #[test]
    fn memory_of_others_is_smoothed() {
        let mut others = Others::default();
        others.memory_read(10 << 30, 4 << 30);
        assert_eq!(others.memory_bytes, Some(6 << 30));
        others.memory_read(3 << 30, 4 << 30);
        assert!(others.memory_bytes.unwrap() > 4 << 30);
        for _ in 0..100 {
            others.memory_read(3 << 30, 4 << 30);
        }
        assert_eq!(others.memory_bytes.unwrap() >> 20, 0);
    }
}
