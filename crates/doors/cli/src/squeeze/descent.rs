//! How far the memory of a running job can be taken from it: a little at a time, until the job misses some.
//!
//! After each step the job is watched for a window. A window with more memory stalls than allowed ends the search: the
//! knee is 1.05 times its memory at the end of the last good window. This is the rule of senpai (J. Weiner and others,
//! TMO: Transparent Memory Offloading in Datacenters, ASPLOS 2022), with steps and stalls of its own. No bound stays
//! behind, so a job that has to grow can grow. Pure: the caller takes readings and pages.

/// The knee is this multiple of the job's memory without a stall.
const ABOVE_GOOD: f64 = 1.05;
/// The stall, in seconds, that a returned page counts for where the kernel does not account stalls: about a flash
/// disk's read time.
const PAGE_S: f64 = 1e-4;
/// After this many steps that each freed less than a tenth of the asked amount, nothing more can be taken.
const STUCK_STEPS: u32 = 3;
const STUCK_SHARE: f64 = 0.1;
/// A job that stalls for this many windows without being squeezed is short of memory already.
const BUSY_WINDOWS: u32 = 3;
/// No job is squeezed below: a process and its libraries need that much.
const FLOOR_BYTES: u64 = 4 << 20;
/// Windows without a step after a stall while the knee is kept to.
const REST_WINDOWS: u32 = 5;

/// The job at the end of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    /// The job's RAM, page cache included, in bytes.
    pub(super) ram_bytes: u64,
    /// See `Reply::Squeezed`.
    pub(super) stalled_us: Option<u64>,
    pub(super) returned_pages: u64,
    pub(super) frozen: bool,
}

impl Reading {
    /// How long it stalled since an earlier reading, in seconds.
    pub(super) fn stalled_since(&self, before: &Self) -> f64 {
        match (self.stalled_us, before.stalled_us) {
            (Some(now), Some(then)) => now.saturating_sub(then) as f64 / 1e6,
            _ => self.returned_pages.saturating_sub(before.returned_pages) as f64 * PAGE_S,
        }
    }
}

/// Why the search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The job missed taken memory.
    Stalled,
    /// The kernel finds nothing more to take.
    Stuck,
    /// The job holds next to no memory.
    Floor,
    /// The job stalled before anything was taken.
    Busy,
}

/// The next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Take this many bytes away, and watch for a window.
    Take(u64),
    /// Watch for a window.
    Watch,
    /// The search is over.
    End(End),
}

/// The search.
#[derive(Debug)]
pub(super) struct Descent {
    /// The share of the job's memory that a step takes.
    step: f64,
    /// How long it may stall in a window, in seconds.
    allowed_s: f64,
    last: Option<Reading>,
    /// The job's memory at first.
    from_bytes: Option<u64>,
    /// The job's memory at the end of the last window without a stall.
    good_bytes: Option<u64>,
    /// The bytes that the last step was to take; 0: it took nothing.
    asked: u64,
    /// Whether anything was taken so far.
    taken: bool,
    stuck: u32,
    busy: u32,
}

impl Descent {
    pub(super) fn new(step: f64, allowed_s: f64) -> Self {
        let (last, from_bytes, good_bytes) = (None, None, None);
        Self { step, allowed_s, last, from_bytes, good_bytes, asked: 0, taken: false, stuck: 0, busy: 0 }
    }

    /// 1.05 times the job's memory without a stall, or its first memory if less, in bytes; `None`: nothing was taken,
    /// or the job stalled all the time.
    pub(super) fn knee_bytes(&self) -> Option<u64> {
        let from = self.from_bytes.unwrap_or(u64::MAX);
        // The job may have grown since.
        self.good_bytes.filter(|_| self.taken).map(|good| above(good).min(from.max(good)))
    }

    /// A window is over.
    pub(super) fn next(&mut self, now: Reading) -> Next {
        self.from_bytes.get_or_insert(now.ram_bytes);
        let before = self.last.replace(now);
        let asked = std::mem::take(&mut self.asked);
        // A window in which the job was frozen tells nothing.
        let Some(before) = before.filter(|before| !before.frozen && !now.frozen) else { return Next::Watch };
        if now.stalled_since(&before) > self.allowed_s {
            if self.taken {
                return Next::End(End::Stalled);
            }
            self.busy += 1;
            return if self.busy >= BUSY_WINDOWS { Next::End(End::Busy) } else { Next::Watch };
        }
        self.good_bytes = Some(now.ram_bytes);
        let went = before.ram_bytes.saturating_sub(now.ram_bytes);
        let moved = asked == 0 || went as f64 >= asked as f64 * STUCK_SHARE;
        self.stuck = if moved { 0 } else { self.stuck + 1 };
        if self.stuck >= STUCK_STEPS {
            return Next::End(End::Stuck);
        }
        if now.ram_bytes <= FLOOR_BYTES {
            return Next::End(End::Floor);
        }
        self.asked = share(now.ram_bytes, self.step);
        self.taken = true;
        Next::Take(self.asked)
    }
}

/// Keeps a job at its knee: memory beyond the knee is taken again, as long as the job does not miss it.
#[derive(Debug)]
pub(super) struct Keep {
    step: f64,
    allowed_s: f64,
    target_bytes: u64,
    last: Option<Reading>,
    rest: u32,
}

impl Keep {
    pub(super) fn new(step: f64, allowed_s: f64, knee_bytes: u64) -> Self {
        Self { step, allowed_s, target_bytes: knee_bytes, last: None, rest: REST_WINDOWS }
    }

    /// A window is over; how much is to be taken now, in bytes.
    pub(super) fn next(&mut self, now: Reading) -> u64 {
        let before = self.last.replace(now);
        let Some(before) = before.filter(|before| !before.frozen && !now.frozen) else { return 0 };
        if now.stalled_since(&before) > self.allowed_s {
            self.rest = REST_WINDOWS;
            self.target_bytes = self.target_bytes.max(above(now.ram_bytes));
        }
        if self.rest > 0 {
            self.rest -= 1;
            return 0;
        }
        now.ram_bytes.saturating_sub(self.target_bytes).min(share(now.ram_bytes, self.step))
    }
}

fn above(bytes: u64) -> u64 {
    share(bytes, ABOVE_GOOD).saturating_add(1)
}

/// A share, or a multiple, of `bytes`, rounded down.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats saturate")]
fn share(bytes: u64, of: f64) -> u64 {
    (bytes as f64 * of) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn reading(ram_bytes: u64, stalled_us: u64) -> Reading {
        Reading { ram_bytes, stalled_us: Some(stalled_us), returned_pages: 0, frozen: false }
    }

    /// Runs the search over a job that holds 200 MiB and needs `needs`; `gives`: the share of a step that goes. Gives the
    /// end, the knee and the number of windows.
    fn search(needs: u64, gives: f64) -> (End, Option<u64>, u32) {
        let mut descent = Descent::new(0.01, 0.01);
        let (mut ram, mut stalled_us) = (200 * MIB, 0);
        for windows in 0..2_000 {
            match descent.next(reading(ram, stalled_us)) {
                Next::End(end) => return (end, descent.knee_bytes(), windows),
                Next::Watch => {}
                Next::Take(bytes) => {
                    assert!(bytes as f64 <= ram as f64 * 0.01, "a step of {bytes}");
                    ram -= share(bytes, gives);
                    if ram < needs {
                        // It reads back what it needs, and waits for it.
                        (ram, stalled_us) = (needs, stalled_us + 20_000);
                    }
                }
            }
        }
        panic!("no end");
    }

    #[test]
    fn the_knee_is_a_little_above_what_is_needed() {
        for needs in [30 * MIB, 100 * MIB, 180 * MIB] {
            let (end, knee, windows) = search(needs, 1.0);
            let knee = knee.unwrap();
            assert_eq!(end, End::Stalled);
            assert!(
                knee as f64 >= needs as f64 * 1.05 && knee as f64 <= needs as f64 * 1.07,
                "{knee} of {needs}"
            );
            assert!(windows < 250, "{windows} windows");
        }
        assert_eq!(search(0, 1.0).0, End::Floor);
        let (end, knee, windows) = search(0, 0.0);
        assert_eq!((end, knee, windows), (End::Stuck, Some(200 * MIB), 4));
    }

    #[test]
    fn a_job_that_stalls_anyway_and_one_that_is_frozen() {
        let mut descent = Descent::new(0.01, 0.01);
        let mut busy = |at: u64| descent.next(reading(200 * MIB, at * 50_000));
        assert_eq!(
            [busy(0), busy(1), busy(2), busy(3)],
            [Next::Watch, Next::Watch, Next::Watch, Next::End(End::Busy)]
        );
        assert_eq!(descent.knee_bytes(), None);
        let mut descent = Descent::new(0.01, 0.01);
        for at in 0..9 {
            let frozen = Reading { frozen: true, ..reading(200 * MIB, at * 50_000) };
            assert_eq!(descent.next(frozen), Next::Watch);
        }
    }

    #[test]
    fn without_pressure_pages_that_come_back_count() {
        let at = |returned_pages| Reading { stalled_us: None, returned_pages, ..reading(MIB, 0) };
        assert!((at(150).stalled_since(&at(50)) - 0.01).abs() < 1e-9);
        assert!(at(50).stalled_since(&at(150)) < 1e-9, "counters that went back");
    }

    #[test]
    fn a_job_is_kept_at_its_knee_and_never_below() {
        let mut keep = Keep::new(0.01, 0.01, 100 * MIB);
        let grown = reading(120 * MIB, 0);
        let taken: Vec<u64> = (0..8).map(|_| keep.next(grown)).collect();
        assert_eq!(taken[..6], [0; 6]);
        assert!(taken[6] > MIB && taken[6] <= 120 * MIB / 100, "{taken:?}");
        assert_eq!(keep.next(reading(100 * MIB, 0)), 0);
        // It misses some: the target rises.
        assert_eq!(keep.next(reading(110 * MIB, 50_000)), 0);
        for _ in 0..9 {
            assert_eq!(keep.next(reading(115 * MIB, 50_000)), 0);
        }
        assert!(keep.next(reading(118 * MIB, 50_000)) > 0);
    }
}
