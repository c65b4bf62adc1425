//! Slowdown of jobs on the same host beside time on cores and memory: they share caches and memory bandwidth, and a disk.
//!
//! All models are lines through calibrated points. Cores: a job's speed falls linearly with the part of the other cores
//! that compute, from full speed to its speed beside computing cores only. Disk, in bytes: up to the disk's rate no job
//! waits; beyond it each job gets the same part of its demand. Disk, in requests: a job that waits for its requests in turn
//! waits longer by a part of its wait for each of other jobs' requests under way, on average (mean value analysis of a
//! closed queue, Reiser and Lavenberg 1980, with the jobs' means for the queue that a new request finds: Bard 1979).
//! Absent: each job's use of a cache, sizes of requests, reading ahead.

use pinfold_cluster::{Micros, SECOND};

/// See the module's page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contention {
    /// The speed at which a job computes while all other cores compute, in thousandths of its speed beside idle cores: 1
    /// to 1000.
    pub full_milli: u16,
    /// The disk's rate for all jobs together, in bytes a second, at least 1; `None`: not modelled.
    pub disk_rate: Option<u64>,
    /// The disk's service of jobs that wait for each of their requests; `None`: not modelled.
    pub requests: Option<Requests>,
}

/// See [`Contention::requests`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Requests {
    /// Requests of [`REQUEST_BYTES`] that a job alone gets in a second, at least 1.
    pub one: u64,
    /// The delay of a request by each of other jobs' requests under way, in thousandths of its time alone: 0 on a disk that
    /// serves all at once, 1000 on a disk that serves in turn, more if other jobs' requests are larger.
    pub beside_milli: u16,
}

impl Requests {
    fn customer(&self, job: &Doing) -> Customer {
        let requests = u128::from(job.io_rate / REQUEST_BYTES) * 1000 / u128::from(self.one.max(1));
        let waits_milli =
            u64::try_from(requests).unwrap_or(1000).min(1000 - u64::from(job.busy_milli.min(1000)));
        // A stopped job has no request under way.
        let waits_milli = if job.speed_milli > 0 { waits_milli } else { 0 };
        Customer { waits_milli, speed_milli: job.speed_milli.max(1), longer_milli: 1000 }
    }
}

/// A job as the disk has it.
#[derive(Debug, Clone, Copy)]
struct Customer {
    /// The part of its time in which it waits for its requests by itself, in thousandths.
    waits_milli: u64,
    /// Its speed without the waits of others, in thousandths: at least 1.
    speed_milli: u64,
    /// The time of its requests, in thousandths of their time alone: at least 1000.
    longer_milli: u64,
}

impl Customer {
    /// The time now for a second's work alone, in milliseconds: at least 1.
    fn takes_milli(&self) -> u64 {
        1_000_000 / self.speed_milli + self.waits_milli * (self.longer_milli - 1000) / 1000
    }

    /// Its requests that are under way, on average, in thousandths.
    fn under_way_milli(&self) -> u64 {
        self.waits_milli * self.longer_milli / self.takes_milli()
    }
}

/// A small request to a disk, in bytes: a page.
pub const REQUEST_BYTES: u64 = 4096;
/// The most iterations of the mutual waits: they converge in far fewer.
const TURNS: u32 = 32;

/// A job's present activity on a host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doing {
    /// Cores that it computes on, in thousandths.
    pub rate_milli: u64,
    /// Cores that it has at most.
    pub processors: u32,
    /// The part of its time in which it computes, in thousandths.
    pub busy_milli: u16,
    /// Its reads and writes in a second at full speed, in bytes.
    pub io_rate: u64,
    /// Its speed before, in thousandths.
    pub speed_milli: u64,
}

impl Contention {
    /// Slows the jobs of a host down by their contention.
    pub(crate) fn apply(&self, cores: u32, jobs: &mut [Doing]) {
        let all: u64 = jobs.iter().map(|job| job.rate_milli).sum();
        for job in jobs.iter_mut() {
            let others = u64::from(cores.saturating_sub(job.processors)) * 1000;
            // If it has all cores, other jobs compute while it does not.
            let beside = ((all - job.rate_milli) * 1000).checked_div(others).unwrap_or(0);
            let slower = job.speed_milli * self.speed_milli(job.busy_milli, beside) / 1000;
            // A slow job never comes to a full stop.
            job.speed_milli = slower.max(job.speed_milli.min(1));
        }
        self.wait_for_bytes(jobs);
        self.wait_for_requests(jobs);
    }

    fn wait_for_bytes(&self, jobs: &mut [Doing]) {
        let Some(disk_rate) = self.disk_rate else { return };
        let wanted = |job: &Doing| u128::from(job.io_rate) * u128::from(job.speed_milli) / 1000;
        let all: u128 = jobs.iter().map(wanted).sum();
        if all <= u128::from(disk_rate) {
            return;
        }
        for job in jobs.iter_mut().filter(|job| job.io_rate > 0 && job.speed_milli > 0) {
            let slower = u128::from(job.speed_milli) * u128::from(disk_rate) / all;
            job.speed_milli = u64::try_from(slower).unwrap_or(job.speed_milli).max(1);
        }
    }

    fn wait_for_requests(&self, jobs: &mut [Doing]) {
        let Some(requests) = &self.requests else { return };
        let mut queue: Vec<Customer> = jobs.iter().map(|job| requests.customer(job)).collect();
        if queue.iter().filter(|customer| customer.waits_milli > 0).count() < 2 {
            return;
        }
        for _ in 0..TURNS {
            let all_milli: u64 = queue.iter().map(Customer::under_way_milli).sum();
            let mut changed = false;
            for customer in &mut queue {
                let others_milli = all_milli - customer.under_way_milli();
                let longer_milli = 1000 + others_milli * u64::from(requests.beside_milli) / 1000;
                changed |= longer_milli != customer.longer_milli;
                customer.longer_milli = longer_milli;
            }
            if !changed {
                break;
            }
        }
        for (job, customer) in jobs.iter_mut().zip(&queue).filter(|(_, customer)| customer.waits_milli > 0) {
            job.speed_milli = (1_000_000 / customer.takes_milli()).clamp(1, job.speed_milli);
        }
    }

    /// The speed of a job that computes for `busy_milli` of its time, beside other cores that compute for `beside_milli`,
    /// in thousandths: only its computing takes longer, not its waits.
    fn speed_milli(&self, busy_milli: u16, beside_milli: u64) -> u64 {
        let lost = (1000 - u64::from(self.full_milli.clamp(1, 1000))) * beside_milli.min(1000) / 1000;
        let computes = 1000 - lost.min(999);
        let busy = u64::from(busy_milli.min(1000));
        1_000_000 / (busy * 1000 / computes + (1000 - busy)).max(1)
    }

    /// The run time of each job beside idle cores, from overlapping runs on a host. Computing of other programs meanwhile
    /// is unknown.
    #[must_use]
    pub fn alone_us(&self, cores: u32, runs: &[Run]) -> Vec<Micros> {
        let computed = Computed::of(runs);
        let alone = |run: &Run| {
            let wall_us = run.end_us.saturating_sub(run.start_us);
            let all = computed.between(run.start_us, run.end_us);
            let others = u64::from(cores.saturating_sub(run.cores)).saturating_mul(wall_us) / 1000;
            let beside = all.saturating_sub(run.cpu_us).checked_div(others).unwrap_or(0);
            let full_us = u64::from(run.cores.max(1)).saturating_mul(wall_us).max(1);
            let busy = u16::try_from((run.cpu_us.saturating_mul(1000) / full_us).min(1000)).unwrap_or(1000);
            // The measured computing time is already slowed down.
            let lost = (1000 - u64::from(self.full_milli.clamp(1, 1000))) * beside.min(1000) / 1000;
            let shorter = 1000 - u64::from(busy) * lost.min(999) / 1000;
            u64::try_from(u128::from(wall_us) * u128::from(shorter) / 1000).unwrap_or(wall_us)
        };
        runs.iter().map(alone).collect()
    }
}

/// A job that ran on a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The start.
    pub start_us: Micros,
    /// The end.
    pub end_us: Micros,
    /// Processor time of all its cores.
    pub cpu_us: Micros,
    /// Cores that it had.
    pub cores: u32,
}

/// Processor time of all runs over time: a line that bends where a run starts or ends.
struct Computed {
    /// A moment, the processor time of all runs up to it in microseconds, and the rate per second from it on.
    bends: Vec<(Micros, u64, u64)>,
}

impl Computed {
    fn of(runs: &[Run]) -> Self {
        let rate = |run: &Run| {
            let wall_us = run.end_us.saturating_sub(run.start_us).max(1);
            u64::try_from(u128::from(run.cpu_us) * u128::from(SECOND) / u128::from(wall_us)).unwrap_or(0)
        };
        let mut changes: Vec<(Micros, bool, u64)> = runs
            .iter()
            .flat_map(|run| [(run.start_us, true, rate(run)), (run.end_us, false, rate(run))])
            .collect();
        // At equal times starts come first: a run without length adds and subtracts.
        changes.sort_unstable_by_key(|&(at_us, starts, _)| (at_us, !starts));
        let (mut sum, mut rate, mut last_us) = (0_u64, 0_u64, 0);
        let mut bends = Vec::with_capacity(changes.len());
        for (at_us, starts, change) in changes {
            sum = sum.saturating_add(grown(rate, at_us - last_us));
            last_us = at_us;
            rate = if starts { rate.saturating_add(change) } else { rate.saturating_sub(change) };
            bends.push((at_us, sum, rate));
        }
        Self { bends }
    }

    fn between(&self, start_us: Micros, end_us: Micros) -> u64 {
        self.until(end_us).saturating_sub(self.until(start_us))
    }

    fn until(&self, at_us: Micros) -> u64 {
        let next = self.bends.partition_point(|&(bend_us, ..)| bend_us <= at_us);
        let bend = next.checked_sub(1).map(|last| self.bends[last]);
        bend.map_or(0, |(bend_us, sum, rate)| sum.saturating_add(grown(rate, at_us - bend_us)))
    }
}

fn grown(rate: u64, elapsed_us: Micros) -> u64 {
    u64::try_from(u128::from(rate) * u128::from(elapsed_us) / u128::from(SECOND)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPUTES: Doing =
        Doing { rate_milli: 1000, processors: 1, busy_milli: 1000, io_rate: 0, speed_milli: 1000 };

    #[track_caller]
    fn check(contention: Contention, cores: u32, jobs: &[Doing], want: &[u64]) {
        let mut jobs = jobs.to_vec();
        contention.apply(cores, &mut jobs);
        let speeds: Vec<u64> = jobs.iter().map(|job| job.speed_milli).collect();
        assert_eq!(speeds, want, "{jobs:?}");
    }

    #[test]
    fn cores_that_compute_slow_each_other_down() {
        let contention = Contention { full_milli: 800, disk_rate: None, requests: None };
        check(contention, 2, &[COMPUTES], &[1000]);
        check(contention, 2, &[COMPUTES; 2], &[800; 2]);
        // A third of the other cores computes: a third of the loss.
        check(contention, 4, &[COMPUTES; 2], &[934; 2]);
        let half = Doing { rate_milli: 500, busy_milli: 500, ..COMPUTES };
        // It computes for half of its time, and that takes a quarter longer.
        check(contention, 2, &[COMPUTES, half], &[900, 888]);
        check(contention, 1, &[COMPUTES, half], &[1000; 2]);
        let stands = Doing { rate_milli: 0, speed_milli: 0, ..COMPUTES };
        check(contention, 2, &[COMPUTES, stands], &[1000, 0]);
        let crawls = Doing { speed_milli: 1, ..COMPUTES };
        check(contention, 2, &[COMPUTES, crawls], &[800, 1]);
    }

    #[test]
    fn a_disk_is_shared_by_what_each_wants() {
        let contention = Contention { full_milli: 1000, disk_rate: Some(100), requests: None };
        let io = |io_rate| Doing { io_rate, ..COMPUTES };
        check(contention, 4, &[io(60), io(40), io(0)], &[1000; 3]);
        check(contention, 4, &[io(150), io(50), io(0)], &[500, 500, 1000]);
        check(contention, 4, &[io(u64::MAX), io(1)], &[1, 1]);
    }

    #[test]
    fn requests_wait_for_those_of_others() {
        let serves = |beside_milli| Contention {
            full_milli: 1000,
            disk_rate: None,
            requests: Some(Requests { one: 100, beside_milli }),
        };
        let io =
            |requests: u64, busy_milli| Doing { io_rate: requests * REQUEST_BYTES, busy_milli, ..COMPUTES };
        let waits = io(100, 0);
        // Alone, beside jobs without disk use, and beside a stopped job, no job waits longer.
        check(serves(1000), 8, &[waits, io(0, 0), COMPUTES], &[1000; 3]);
        check(serves(1000), 8, &[waits, Doing { speed_milli: 0, ..waits }], &[1000, 0]);
        check(serves(0), 8, &[waits; 4], &[1000; 4]);
        // In turn: jobs that only wait get the same part of the disk each.
        check(serves(1000), 8, &[waits; 2], &[500; 2]);
        check(serves(1000), 8, &[waits; 4], &[250; 4]);
        check(serves(500), 8, &[waits; 2], &[666; 2]);
        // By its bytes it would wait longer than it waits at all.
        check(serves(1000), 8, &[io(u64::MAX / REQUEST_BYTES, 1000); 4], &[1000; 4]);
        // The job that computes beside its waits loses less, and takes less from the other.
        let mut jobs = [waits, io(50, 500)];
        serves(1000).apply(8, &mut jobs);
        let [first, second] = jobs.map(|job| job.speed_milli);
        assert!((600..700).contains(&first) && (650..750).contains(&second), "{first} {second}");
        // However many wait, each goes on.
        let mut jobs = vec![waits; 10_000];
        serves(u16::MAX).apply(8, &mut jobs);
        assert!(jobs.iter().all(|job| job.speed_milli == 1));
    }

    #[test]
    fn contention_of_runs_is_taken_out() {
        let contention = Contention { full_milli: 800, disk_rate: None, requests: None };
        let run = |start_s: u64, end_s: u64, cpu_s: u64| Run {
            start_us: start_s * SECOND,
            end_us: end_s * SECOND,
            cpu_us: cpu_s * SECOND,
            cores: 1,
        };
        assert_eq!(contention.alone_us(2, &[run(5, 15, 10)]), [10 * SECOND]);
        assert_eq!(contention.alone_us(2, &[run(5, 15, 10), run(5, 15, 10)]), [8 * SECOND; 2]);
        // Half of the first was beside the second.
        let two = contention.alone_us(2, &[run(0, 20, 20), run(10, 20, 10)]);
        assert_eq!(two, [18 * SECOND, 8 * SECOND]);
        // Beside a job that only waits there is no slowdown to take out, and a job without length has none.
        let three = contention.alone_us(2, &[run(0, 20, 20), run(0, 20, 0), run(7, 7, 0)]);
        assert_eq!(three, [20 * SECOND, 20 * SECOND, 0]);
    }
}
