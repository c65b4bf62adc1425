//! The loss of idle-class jobs that compute in bursts: a core's free moments and the job's demand do not coincide.
//!
//! A burst takes longer in inverse proportion to the part of the time in which a core is free for the job, and the wait
//! after it is unchanged (the shadow server of Sevcik 1977, for queues with priorities). Cores are free independently of
//! each other, and a job of a single thread uses any free core of its own. Jobs of the idle class leave each other their
//! unused time, and a fair part at least.
//!
//! Absent: how long a burst is, which does not count here; the normal class, which is served as soon as it wants.

use super::{CORE_RATE, Place, World, left};

/// The most iterations of the mutual rates: each halves the error at least.
const TURNS: u32 = 16;
/// Rates are thousandths of a core, and here thousandths of a thousandth.
const FINE: u64 = 1000;
const CORE: u64 = CORE_RATE * FINE;

impl World {
    /// The same world, in which jobs that wait for a part of their time do so between bursts, at moments of their own.
    /// Without this, the rest of a core is available to a job at any moment.
    #[must_use]
    pub fn in_bursts(self) -> Self {
        Self { bursts: true, ..self }
    }

    /// Lowers the rates of the idle class accordingly.
    pub(super) fn collide(&mut self, places: &[Place], wanted: &[[u64; 2]]) {
        let free: Vec<u64> = wanted.iter().map(|wanted| left(wanted) * FINE).collect();
        let idle: Vec<(&Place, u64)> = places
            .iter()
            .filter(|place| place.idle == 1)
            .filter_map(|place| Some((place, self.containers.get(&place.job)?.work.threads.max(1))))
            .collect();
        if idle.is_empty() {
            return;
        }
        let mut crowd = vec![0; free.len()];
        for &(place, threads) in &idle {
            place.cores.iter().for_each(|&core| crowd[core] += per_core(place, threads));
        }
        let mut jobs: Vec<Job<'_>> =
            idle.iter().map(|&(place, threads)| Job::new(place, threads, &free, &crowd)).collect();
        let mut used = vec![0; free.len()];
        for _ in 0..TURNS {
            used.fill(0);
            jobs.iter().for_each(|job| job.spread(&free, |core, rate| used[core] += rate));
            for job in &mut jobs {
                let all: u64 = job.place.cores.iter().map(|&core| used[core]).sum();
                let aim = job.beside(all.saturating_sub(job.rate));
                // Each job moves by its part of the common change: otherwise all would rush to the free core, and away
                // again.
                job.rate = job.rate + aim / job.crowd - job.rate / job.crowd;
            }
        }
        used.fill(0);
        for job in &jobs {
            job.spread(&free, |core, rate| used[core] += rate / FINE);
            if let Some(container) = self.containers.get_mut(&job.place.job) {
                container.rate = ((job.rate + FINE / 2) / FINE).max(1);
            }
        }
        self.idle_class_rate = used.iter().sum();
        let all = wanted.iter().zip(&used).map(|(wanted, used)| (wanted[0] + used).min(CORE_RATE));
        self.core_rates = all.collect();
    }
}

/// Threads of a job for each of its cores, in thousandths, at least 1.
fn per_core(place: &Place, threads: u64) -> u64 {
    (threads * 1000 / place.cores.len().max(1) as u64).max(1)
}

/// A job of the idle class. Rates are in millionths of a core.
struct Job<'a> {
    place: &'a Place,
    threads: u64,
    /// Its rate.
    rate: u64,
    /// The free part of all its cores together,
    all: u64,
    /// the part of the time in which any of them is free; for several threads, the same as `all`,
    some: u64,
    /// and its least rate beside others of its class.
    fair: u64,
    /// The jobs with the same demand, itself included, at least 1.
    crowd: u64,
}

impl<'a> Job<'a> {
    fn new(place: &'a Place, threads: u64, free: &[u64], crowd: &[u64]) -> Self {
        let all: u64 = place.cores.iter().map(|&core| free[core]).sum();
        let none = place.cores.iter().fold(CORE, |none, &core| none * (CORE - free[core]) / CORE);
        let some = if threads == 1 { CORE - none } else { all };
        let own = per_core(place, threads);
        let fair =
            place.cores.iter().map(|&core| free[core] * own / crowd[core].max(own)).sum::<u64>().max(1);
        Self { place, threads, rate: fair, all, some, fair, crowd: (all / fair).max(1) }
    }

    /// Its rate while others of its class use `others` of its cores.
    fn beside(&self, others: u64) -> u64 {
        let wants = (self.place.each * self.place.cores.len() as u64 * FINE / self.threads).min(CORE);
        let free = self.all.saturating_sub(others).max(self.fair).min(self.some);
        let free = (free / self.threads).clamp(1, CORE);
        // The time now for a single thread's second of work alone.
        let takes = wants * CORE / free + (CORE - wants);
        self.threads * (wants * CORE / takes)
    }

    /// Calls `tell` with each of its cores and the part of its rate there.
    fn spread(&self, free: &[u64], mut tell: impl FnMut(usize, u64)) {
        self.place.cores.iter().for_each(|&core| tell(core, self.rate * free[core] / self.all.max(1)));
    }
}

#[cfg(test)]
mod tests {
    use pinfold_policy::{Class, JobId};
    use pinfold_topo::{CpuSet, PuOs};

    use super::super::{ENDLESS, Work, World};

    /// Jobs by class, PUs, part of the time that each of its threads computes, and threads; checks their rates.
    #[track_caller]
    fn check(jobs: &[(Class, &[u32], u64, u64)], want: &[u64]) {
        let mut world = World::new(2, 1).in_bursts();
        for (job, &(class, pus, duty_milli, threads)) in (1..).zip(jobs) {
            let cpus: CpuSet = pus.iter().copied().map(PuOs).collect();
            let work = Work { left: ENDLESS, duty_milli, threads, stubborn: false };
            world.spawn(JobId(job), work, class, 10, cpus);
        }
        let rates: Vec<u64> = (1..).take(jobs.len()).map(|job| world.rate(JobId(job))).collect();
        assert_eq!(rates, want);
    }

    const PRIMARY: Class = Class::Primary;
    const BACKFILL: Class = Class::Backfill;

    #[test]
    fn bursts_wait_for_a_free_core() {
        // Beside idle cores nothing is lost, and a job that only computes uses all the rest.
        check(&[(BACKFILL, &[0], 600, 1)], &[600]);
        check(&[(PRIMARY, &[0], 600, 1), (BACKFILL, &[0], 1000, 1)], &[600, 400]);
        // 600 of 1,000 take 1,500 while 400 are free, and the wait 400 as before.
        check(&[(PRIMARY, &[0], 600, 1), (BACKFILL, &[0], 600, 1)], &[600, 316]);
        // At least one of two cores of this kind is free for 640.
        let primaries = [(PRIMARY, &[0][..], 600, 1), (PRIMARY, &[1], 600, 1)];
        check(&[primaries[0], primaries[1], (BACKFILL, &[0, 1], 1000, 1)], &[600, 600, 640]);
        // Two threads use both.
        check(&[primaries[0], primaries[1], (BACKFILL, &[0, 1], 1000, 2)], &[600, 600, 800]);
    }

    #[test]
    fn the_idle_class_shares_what_is_left() {
        let two = [(BACKFILL, &[0][..], 1000, 1), (BACKFILL, &[0], 1000, 1)];
        check(&two, &[500, 500]);
        check(&[(PRIMARY, &[0], 600, 1), two[0], two[1]], &[600, 200, 200]);
        // A job with a small demand gets a fair part at any moment, and its unused time is there for the other.
        check(&[(BACKFILL, &[0], 100, 1), (BACKFILL, &[0], 1000, 1)], &[91, 909]);
        // However many there are, next to nothing is left unused.
        check(&[(BACKFILL, &[0, 1][..], 300, 1); 50], &[40; 50]);
        // Of busy cores there is something for the idle class.
        check(&[(PRIMARY, &[0], 1000, 1), (BACKFILL, &[0], 500, 1)], &[1000, 3]);
    }
}
