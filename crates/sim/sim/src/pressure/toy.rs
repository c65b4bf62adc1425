//! A model small enough to be tried in many orders: the worth of admission, prediction and suspension.
//!
//! Twelve jobs on two cores. Each grows to its peak in the first third of its length and keeps it. A suspended job's
//! memory is moved to swap at once and read back before it goes on. Makespans are given as ratios to the best
//! known: the best of many random orders and of all strategies. Nothing here uses the policy: it is the yardstick.
//!
//! Absent: page faults, thrashing, freeze delays, kills; with suspension no job is ever lost here.

use crate::dice::Dice;

/// RAM, in units.
const RAM: u64 = 1000;
/// The amount read back from swap in a step of a tenth of a second.
const SWAP_STEP: u64 = 10;
const CORES: usize = 2;
const JOBS: usize = 12;
/// Random orders that are tried for the best known.
const ORDERS: usize = 200;
/// `--memsuspend` suspends all but the oldest when less than twice this is free.
const MEMSUSPEND: u64 = RAM / 10;
/// An upper bound on the makespan of twelve jobs, in steps.
const STEPS_MAX: u64 = 100_000;

/// Twenty equally likely values of a log-normal factor, in thousandths, and its 99th percentile: of sigma 0.2,
const NARROW: ([u64; 20], u64) = (
    [
        676, 750, 795, 829, 860, 887, 913, 938, 963, 987, 1013, 1039, 1066, 1095, 1127, 1163, 1206, 1259,
        1334, 1480,
    ],
    1592,
);
/// and of sigma 0.5.
const WIDE: ([u64; 20], u64) = (
    [
        375, 487, 563, 627, 686, 742, 797, 853, 910, 969, 1032, 1099, 1173, 1255, 1349, 1459, 1596, 1777,
        2054, 2664,
    ],
    3200,
);

#[derive(Debug, Clone, Copy)]
struct Toy {
    length: u64,
    peak: u64,
    usual: u64,
    most: u64,
}

impl Toy {
    fn at(&self, done: u64) -> u64 {
        self.peak * (done * 3).min(self.length) / self.length
    }
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The strategy.
    pub strategy: &'static str,
    /// Makespan over the best known, in thousandths: the median,
    pub median_milli: u64,
    /// and the 90th percentile.
    pub p90_milli: u64,
}

/// The choice of jobs.
#[derive(Debug, Clone, Copy)]
enum Rule {
    /// As many jobs as their reservations permit; when a job exceeds its reservation, the youngest is suspended.
    Reserve,
    /// GNU parallel's `--memsuspend`: all start, and the youngest are suspended while little is free.
    MemSuspend,
}

/// Plays this many sets of jobs and compares the strategies.
#[must_use]
pub fn compare(sets: u64) -> Vec<Row> {
    let mut ratios: Vec<(&'static str, Vec<u64>)> = Vec::new();
    for seed in 0..sets {
        for (spread, exact) in [(&NARROW, true), (&WIDE, false)] {
            let jobs = draw(&mut Dice::new(seed), spread);
            for (name, ratio) in one_set(&jobs, &mut Dice::new(seed ^ 0xb0b), exact) {
                match ratios.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, all)) => all.push(ratio),
                    None => ratios.push((name, vec![ratio])),
                }
            }
        }
    }
    let row = |(strategy, mut all): (&'static str, Vec<u64>)| {
        all.sort_unstable();
        let at = |percent: usize| all[(all.len() * percent / 100).min(all.len() - 1)];
        Row { strategy, median_milli: at(50), p90_milli: at(90) }
    };
    ratios.into_iter().map(row).collect()
}

fn draw(dice: &mut Dice, (factors, most): &([u64; 20], u64)) -> Vec<Toy> {
    let job = |_| {
        let usual = dice.between(150, 600);
        let length = dice.between(100, 1000);
        let peak = (usual * dice.pick(factors) / 1000).clamp(1, RAM * 95 / 100);
        Toy { length, peak, usual, most: (usual * most / 1000).min(RAM) }
    };
    (0..JOBS).map(job).collect()
}

/// The strategies on a set of jobs, as ratios to the best known; `narrow`: peaks are predictable.
fn one_set(jobs: &[Toy], dice: &mut Dice, narrow: bool) -> Vec<(&'static str, u64)> {
    let peaks: Vec<u64> = jobs.iter().map(|job| job.peak).collect();
    let of = |reserved: &dyn Fn(&Toy) -> u64, rule: Rule, cores: usize| {
        let reserved: Vec<u64> = jobs.iter().map(|job| reserved(job).min(RAM)).collect();
        let order = largest_area_first(jobs, &reserved);
        makespan(jobs, &order, &reserved, rule, cores)
    };
    let mut all = Vec::new();
    if narrow {
        all.push(("exact peaks, largest area first", of(&|job| job.peak, Rule::Reserve, CORES)));
        all.push(("peaks over-predicted 1.3 times", of(&|job| job.peak * 13 / 10, Rule::Reserve, CORES)));
        all.push(("peaks over-predicted twice", of(&|job| job.peak * 2, Rule::Reserve, CORES)));
        all.push(("one after the other", of(&|job| job.peak, Rule::Reserve, 1)));
        all.push(("memsuspend's rule", of(&|job| job.usual, Rule::MemSuspend, CORES)));
        all.push(("median reserved, spread 0.2", of(&|job| job.usual, Rule::Reserve, CORES)));
        all.push(("99th percentile reserved, spread 0.2", of(&|job| job.most, Rule::Reserve, CORES)));
    } else {
        all.push(("median reserved, spread 0.5", of(&|job| job.usual, Rule::Reserve, CORES)));
        all.push(("99th percentile reserved, spread 0.5", of(&|job| job.most, Rule::Reserve, CORES)));
    }
    let mut best = all.iter().map(|&(_, length)| length).min().unwrap_or(1);
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    for _ in 0..ORDERS {
        for index in (1..order.len()).rev() {
            let other = usize::try_from(dice.below(index as u64 + 1)).unwrap_or(0);
            order.swap(index, other);
        }
        best = best.min(makespan(jobs, &order, &peaks, Rule::Reserve, CORES));
    }
    all.into_iter().map(|(name, length)| (name, length * 1000 / best.max(1))).collect()
}

fn largest_area_first(jobs: &[Toy], reserved: &[u64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&index| (std::cmp::Reverse(jobs[index].length * reserved[index]), index));
    order
}

/// A job that has begun.
#[derive(Debug, Clone, Copy)]
struct Begun {
    job: usize,
    done: u64,
    stands: bool,
    /// Steps until it is back from swap.
    returns: u64,
}

/// The end of the last job, in steps.
fn makespan(jobs: &[Toy], order: &[usize], reserved: &[u64], rule: Rule, cores: usize) -> u64 {
    let mut waiting: Vec<usize> = order.to_vec();
    // The oldest first: it is never suspended.
    let mut begun: Vec<Begun> = Vec::new();
    let holds = |b: &Begun| jobs[b.job].at(b.done);
    for step in 0..STEPS_MAX {
        begun.retain(|b| b.done < jobs[b.job].length);
        if begun.is_empty() && waiting.is_empty() {
            return step;
        }
        let counts = |b: &Begun| holds(b).max(reserved[b.job]);
        if let Some(oldest) = begun.first_mut().filter(|oldest| oldest.stands) {
            (oldest.stands, oldest.returns) = (false, jobs[oldest.job].at(oldest.done) / SWAP_STEP);
        }
        match rule {
            Rule::Reserve => {
                // A suspended job goes before a waiting job.
                while let Some(index) = begun.iter().position(|b| b.stands) {
                    let running = begun.iter().filter(|b| !b.stands);
                    let (count, taken) = running.fold((0, 0), |(n, sum), b| (n + 1, sum + counts(b)));
                    if count >= cores || taken + counts(&begun[index]) > RAM {
                        break;
                    }
                    begun[index].returns = holds(&begun[index]) / SWAP_STEP;
                    begun[index].stands = false;
                }
                if !begun.iter().any(|b| b.stands) {
                    start(&mut begun, &mut waiting, cores, |begun, job| {
                        begun.iter().map(counts).sum::<u64>() + reserved[job] <= RAM
                    });
                }
                while begun.iter().filter(|b| !b.stands).map(holds).sum::<u64>() > RAM {
                    match begun.iter_mut().skip(1).rev().find(|b| !b.stands) {
                        Some(youngest) => youngest.stands = true,
                        None => break,
                    }
                }
            }
            Rule::MemSuspend => {
                let free = RAM.saturating_sub(begun.iter().map(holds).sum());
                start(&mut begun, &mut waiting, cores, |_, _| free >= 2 * MEMSUSPEND);
                for b in begun.iter_mut().skip(1) {
                    let stands = free < 2 * MEMSUSPEND;
                    if b.stands && !stands {
                        b.returns = jobs[b.job].at(b.done) / SWAP_STEP;
                    }
                    b.stands = stands;
                }
            }
        }
        for b in begun.iter_mut().filter(|b| !b.stands) {
            if b.returns > 0 { b.returns -= 1 } else { b.done += 1 }
        }
    }
    STEPS_MAX
}

/// Starts jobs that may start, the first fitting job of the order first; a job always may start when none runs.
fn start(
    begun: &mut Vec<Begun>,
    waiting: &mut Vec<usize>,
    cores: usize,
    fits: impl Fn(&[Begun], usize) -> bool,
) {
    while begun.len() < cores {
        let next = waiting.iter().position(|&job| begun.is_empty() || fits(begun, job));
        let Some(next) = next else { return };
        let job = waiting.remove(next);
        begun.push(Begun { job, done: 0, stands: false, returns: 0 });
    }
}
