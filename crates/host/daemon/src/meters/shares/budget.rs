//! Whose memory is divided when, so that it costs 1 % of a core at most and holds nobody up; pure.
//!
//! Costs are foreseen by size, and learned. What is foreseen to take longer than [`READ_MAX_US`] is never read, what
//! held a process for longer than [`SHORT_US`] only after some hundred times that. Those come first of which the last
//! figure is most in doubt: their size changed, or something happened among the processes that they share with.

use std::collections::BTreeMap;

/// The part of a core, in thousandths.
const BUDGET_MILLI: u64 = 10;
/// What may be saved up while nothing is read.
const SAVED_MAX_US: u64 = 20_000;
/// A longer reading would hold a process up for too long.
const READ_MAX_US: u64 = 20_000;
/// What holds nobody up.
const SHORT_US: u64 = 5_000;
/// After a longer reading a process is left alone for so many times what that took of a processor,
const READ_RESTS: u64 = 1000;
/// and what it took besides.
const WAIT_RESTS: u64 = 200;
/// However long a reading was held up itself, it is tried again after this.
const REST_MAX_US: u64 = 600_000_000;
/// A reading without any memory, in microseconds (measured), and one MiB of small pages that are not in the cache.
const BASE_US: u64 = 9;
const MIB_US: u64 = 12;
/// How many processes are looked at, at most.
const PROCESSES_MAX: usize = 20_000;
/// Less than this is no reason to read, and neither is less than a hundredth of the process's size.
const DOUBT_MIN_BYTES: u64 = 64 << 10;
/// A process that has less in common with others is not concerned by what these do.
const SHARED_MIN_BYTES: u64 = 1 << 20;
/// What a figure of its own loses in worth with time: a hundredth each of these, a tenth at most.
const AGES_US: u64 = 60_000_000;

/// A process of a job, and its resident size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) job: u64,
    pub(super) pid: u32,
    pub(super) resident_bytes: u64,
}

/// What a reading took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cost {
    /// Of a processor.
    pub(super) cpu_us: u64,
    /// In all: so long the process may have been held up.
    pub(super) wall_us: u64,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Budget {
    saved_us: u64,
    /// What readings took beyond what was foreseen.
    owed_us: u64,
    refilled_us: Option<u64>,
    last: BTreeMap<u32, Last>,
    jobs: BTreeMap<u64, Together>,
}

/// The last reading of a process.
#[derive(Debug, Clone, Copy)]
struct Last {
    time_us: u64,
    resident_bytes: u64,
    shared_bytes: u64,
    cost: Cost,
}

/// What the processes of a job were when something last happened among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Together {
    processes: u64,
    resident_bytes: u64,
    changed_us: u64,
    /// The most that one of them has in common with others, as the newest readings found, and when that was.
    shared_bytes: u64,
    shared_us: u64,
}

impl Cost {
    /// How long a process is left alone after such a reading. That the reader was kept waiting says little of the next
    /// time.
    fn rest_us(self) -> u64 {
        let waited_us = self.wall_us.saturating_sub(self.cpu_us);
        let rest_us =
            self.cpu_us.saturating_mul(READ_RESTS).saturating_add(waited_us.saturating_mul(WAIT_RESTS));
        rest_us.min(REST_MAX_US)
    }
}

impl Budget {
    /// What to read now of these, which are all there are.
    pub(super) fn choose(&mut self, now_us: u64, sizes: &[Size]) -> Vec<Size> {
        self.refill(now_us);
        let sizes = &sizes[..sizes.len().min(PROCESSES_MAX)];
        let alive: std::collections::BTreeSet<u32> = sizes.iter().map(|size| size.pid).collect();
        self.last.retain(|pid, _| alive.contains(pid));
        self.look_at_jobs(now_us, sizes);
        if self.owed_us > 0 {
            return Vec::new();
        }
        let wanted = sizes.iter().filter_map(|&size| {
            let (cost_us, doubt) = (self.foreseen_us(size), self.doubt_bytes(size, now_us)?);
            (cost_us <= READ_MAX_US).then_some((doubt, size, cost_us))
        });
        let mut wanted: Vec<(u64, Size, u64)> = wanted.collect();
        wanted.sort_unstable_by(|one, other| other.0.cmp(&one.0).then(one.1.pid.cmp(&other.1.pid)));
        let mut chosen = Vec::new();
        for (_, size, cost_us) in wanted {
            // What does not fit may fit later; smaller ones behind it fit now.
            if cost_us <= self.saved_us {
                self.saved_us -= cost_us;
                chosen.push(size);
            }
        }
        chosen
    }

    /// Takes in what a reading took and found.
    pub(super) fn read(&mut self, size: Size, cost: Cost, shared_bytes: u64, now_us: u64) {
        let more_us = cost.cpu_us.saturating_sub(self.foreseen_us(size));
        let from_saved_us = more_us.min(self.saved_us);
        self.saved_us -= from_saved_us;
        self.owed_us = self.owed_us.saturating_add(more_us - from_saved_us);
        if let Some(job) = self.jobs.get_mut(&size.job) {
            let newest = if job.shared_us == now_us { job.shared_bytes } else { 0 };
            (job.shared_bytes, job.shared_us) = (shared_bytes.max(newest), now_us);
        }
        let last = Last { time_us: now_us, resident_bytes: size.resident_bytes, shared_bytes, cost };
        self.last.insert(size.pid, last);
    }

    fn refill(&mut self, now_us: u64) {
        let since_us = now_us.saturating_sub(self.refilled_us.replace(now_us).unwrap_or(now_us));
        let earned_us = since_us.saturating_mul(BUDGET_MILLI) / 1000;
        let paid_us = earned_us.min(self.owed_us);
        self.owed_us -= paid_us;
        self.saved_us = (self.saved_us + earned_us - paid_us).min(SAVED_MAX_US);
    }

    /// Notes of each job when something happened among its processes.
    fn look_at_jobs(&mut self, now_us: u64, sizes: &[Size]) {
        let mut jobs: BTreeMap<u64, Together> = BTreeMap::new();
        for size in sizes {
            let job = jobs.entry(size.job).or_default();
            job.processes += 1;
            job.resident_bytes = job.resident_bytes.saturating_add(size.resident_bytes);
        }
        for (number, job) in &mut jobs {
            let before = self.jobs.get(number).copied().unwrap_or_default();
            let moved = job.resident_bytes.abs_diff(before.resident_bytes);
            if job.processes == before.processes && moved < SHARED_MIN_BYTES {
                *job = before;
            } else {
                job.changed_us = now_us;
                (job.shared_bytes, job.shared_us) = (before.shared_bytes, before.shared_us);
            }
        }
        self.jobs = jobs;
    }

    /// What a reading will take: as the last one, by size; of one that was never read what small pages cost.
    fn foreseen_us(&self, size: Size) -> u64 {
        let mib = |bytes: u64| (bytes >> 20) + 1;
        match self.last.get(&size.pid) {
            Some(last) => {
                last.cost.cpu_us.saturating_mul(mib(size.resident_bytes)) / mib(last.resident_bytes)
            }
            None => BASE_US + mib(size.resident_bytes) * MIB_US,
        }
    }

    /// How far the last figure may be off; `None`: not by enough, or it is not to be read yet.
    fn doubt_bytes(&self, size: Size, now_us: u64) -> Option<u64> {
        let resident = size.resident_bytes;
        let Some(last) = self.last.get(&size.pid) else { return (resident > 0).then_some(resident) };
        let age_us = now_us.saturating_sub(last.time_us);
        let rest_us = if last.cost.wall_us > SHORT_US { last.cost.rest_us() } else { 0 };
        let job = self.jobs.get(&size.job).copied().unwrap_or_default();
        let happened = job.changed_us > last.time_us && last.shared_bytes >= SHARED_MIN_BYTES;
        // What was its own may be shared since it forked: then those that came with it have it in common.
        let others = if job.shared_us > last.time_us { job.shared_bytes.min(resident) } else { 0 };
        let newly = others.saturating_sub(last.shared_bytes);
        let newly = if newly >= SHARED_MIN_BYTES { newly } else { 0 };
        let common = if happened { last.shared_bytes } else { 0 }.saturating_add(newly);
        let aged = resident / 100 * (age_us / AGES_US).min(10);
        let doubt = resident.abs_diff(last.resident_bytes).saturating_add(common).saturating_add(aged);
        (age_us >= rest_us && doubt >= DOUBT_MIN_BYTES.max(resident / 100)).then_some(doubt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const SECOND: u64 = 1_000_000;

    fn size(pid: u32, resident_bytes: u64) -> Size {
        Size { job: 1, pid, resident_bytes }
    }

    fn took(cpu_us: u64) -> Cost {
        Cost { cpu_us, wall_us: cpu_us }
    }

    /// Lets an hour pass at a look a second; what was read, and what that took in all by the true cost.
    fn hour(sizes: impl Fn(u64) -> Vec<Size>, cost: impl Fn(Size) -> Cost) -> (Vec<u32>, u64) {
        let (mut budget, mut read, mut spent) = (Budget::default(), Vec::new(), 0);
        for second in 0..3600 {
            for size in budget.choose(second * SECOND, &sizes(second)) {
                let cost = cost(size);
                spent += cost.cpu_us;
                read.push(size.pid);
                budget.read(size, cost, 0, second * SECOND);
            }
        }
        (read, spent)
    }

    #[test]
    fn no_more_than_a_hundredth_of_a_core_is_spent_whatever_jobs_do() {
        let most = 3600 * SECOND / 100 + SAVED_MAX_US + READ_MAX_US;
        // A thousand processes that grow all the time, and cost ten times as much as was foreseen.
        let growing = |second: u64| (1..=1000).map(|pid| size(pid, (second + 1) * MIB)).collect();
        let dear = |size: Size| took(10 * (BASE_US + size.resident_bytes / MIB * MIB_US));
        let (read, spent) = hour(growing, dear);
        assert!(spent <= most, "{spent} of {most}");
        assert!(read.len() > 100);
        let (read, spent) = hour(|_| (1..=100).map(|pid| size(pid, MIB)).collect(), |_| took(30));
        assert!(spent < 3600 * SECOND / 10_000, "what does not change is hardly read: {spent}");
        assert!((1..=100).all(|pid| read.contains(&pid)), "and yet each is");
        let stirring = |second| (1..=100).map(|pid| size(pid, 9 * MIB + second % 3 * 4096)).collect();
        let (_, spent) = hour(stirring, |_| took(100));
        assert!(spent < 3600 * SECOND / 1000, "a page more or less is nothing: {spent}");
    }

    #[test]
    fn a_large_process_is_left_alone_or_read_seldom() {
        let (read, _) = hour(|_| vec![size(7, 16 << 30)], |_| took(200_000));
        assert_eq!(read, [0; 0], "a reading of 0.2 s would hold it up");
        let (read, _) = hour(|second| vec![size(7, (800 + second % 7 * 10) * MIB)], |_| took(10_000));
        assert!((1..=3600 / 10).contains(&read.len()), "{} readings", read.len());
    }

    #[test]
    fn a_reading_that_was_kept_waiting_is_tried_again_after_a_while() {
        let waited = |_| Cost { cpu_us: 300, wall_us: 2_800_000 };
        let (read, _) = hour(|second| vec![size(7, (20 + second % 7) * MIB)], waited);
        assert!((3..=7).contains(&read.len()), "{} readings", read.len());
    }

    #[test]
    fn what_changed_most_comes_first() {
        let mut budget = Budget { saved_us: 10_000, ..Budget::default() };
        let first = budget.choose(0, &[size(1, MIB), size(2, 9 * MIB), size(3, 4 * MIB)]);
        assert_eq!(first.iter().map(|size| size.pid).collect::<Vec<_>>(), [2, 3, 1]);
        first.iter().for_each(|&size| budget.read(size, took(20), 0, 0));
        let next = [size(1, MIB), size(2, 9 * MIB), size(3, 5 * MIB)];
        assert_eq!(budget.choose(1, &next), [size(3, 5 * MIB)]);
        assert!(budget.choose(2, &[]).is_empty());
        assert!(budget.last.is_empty() && budget.jobs.is_empty(), "those that are gone are forgotten");
    }

    #[test]
    fn who_forked_is_read_again_though_its_memory_was_its_own_before() {
        let mut budget = Budget { saved_us: 20_000, ..Budget::default() };
        let parent = size(1, 64 * MIB);
        assert_eq!(budget.choose(0, &[parent]), [parent]);
        budget.read(parent, took(500), 0, 0);
        let family = [parent, size(2, 64 * MIB), size(3, 64 * MIB)];
        for child in budget.choose(1, &family) {
            assert_ne!(child, parent, "nothing tells yet that they share with it");
            budget.read(child, took(500), 64 * MIB, 1);
        }
        assert_eq!(budget.choose(2, &family), [parent]);
        budget.read(parent, took(500), 64 * MIB, 2);
        assert!(budget.choose(3, &family).is_empty(), "all is known");
    }

    #[test]
    fn those_who_share_are_read_again_when_one_of_them_comes_or_goes() {
        let mut budget = Budget { saved_us: 20_000, ..Budget::default() };
        let two = [size(1, 64 * MIB), size(2, 64 * MIB)];
        for size in budget.choose(0, &two) {
            budget.read(size, took(500), 64 * MIB, 0);
        }
        assert!(budget.choose(1, &two).is_empty(), "nothing happened");
        let three = [two[0], two[1], size(3, 64 * MIB)];
        let other = Size { job: 2, ..size(4, 0) };
        assert_eq!(budget.choose(2, &[&three[..], &[other]].concat()).len(), 3, "one came");
        for size in three {
            budget.read(size, took(500), 64 * MIB, 2);
        }
        let with_other = [three[0], three[1], three[2], Size { resident_bytes: 9 << 20, ..other }];
        assert_eq!(budget.choose(3, &with_other), [with_other[3]], "another job's are no concern of theirs");
        assert_eq!(budget.choose(4, &two).len(), 2, "one went");
    }
}
