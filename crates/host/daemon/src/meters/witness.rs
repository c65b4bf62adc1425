//! How long it takes from the kernel's word that jobs stall, or from the moment at which memory was to be read, until a
//! job that was frozen for it is frozen by the kernel's own word (`cgroup.events`).
//!
//! A freeze is asked for and not waited for, so a thread that lives for that long sees to it. Owns the figures; absent
//! here: hosts without a unified hierarchy, where nobody tells of the moment.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant as Moment};

use pinfold_sys::container::FreezeWatch;

/// Of so many the distribution is known.
const KEPT_MAX: usize = 4096;
/// So many are watched at a time; of more nothing is known.
const WATCHED_MAX: usize = 8;
/// One that is not frozen within this time is not counted.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is known of freezes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Witness(Arc<Mutex<Figures>>);

#[derive(Debug, Default)]
struct Figures {
    recent_us: VecDeque<u64>,
    count: u64,
    sum_us: u64,
    watched: usize,
}

/// The distribution of what was seen last, and the sum of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Freezes {
    /// How many there were since the daemon started,
    pub count: u64,
    /// and how long they took together.
    pub sum_us: u64,
    /// Half of the last took at most so long,
    pub half_us: u64,
    /// and all but one in a thousand.
    pub most_us: u64,
}

impl Witness {
    /// Watches a job that is frozen for what was noticed at `since`, now that the kernel was asked for it.
    pub(crate) fn watch(&self, job: u64, since: Moment, watch: FreezeWatch) {
        let asked = since.elapsed();
        let mut figures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if figures.watched >= WATCHED_MAX {
            return;
        }
        let all = Self(Arc::clone(&self.0));
        let seen = std::thread::Builder::new().name("witness".to_owned()).spawn(move || {
            let stands = watch.wait(PATIENCE);
            all.saw(stands.then(|| since.elapsed()), asked, job);
        });
        figures.watched += usize::from(seen.is_ok());
    }

    fn saw(&self, took: Option<Duration>, asked: Duration, job: u64) {
        let mut figures = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        figures.watched -= 1;
        let Some(took) = took else { return };
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (latency_us, asked_us) = (micros(took), micros(asked));
        figures.note(latency_us);
        // The rest is the kernel's: a thread in it freezes only when it leaves it.
        tracing::debug!(target: "pinfoldd::witness", job, latency_us, asked_us, "frozen for memory");
    }

    /// What is known by now.
    pub(crate) fn freezes(&self) -> Freezes {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).freezes()
    }
}

impl Figures {
    fn note(&mut self, latency_us: u64) {
        if self.recent_us.len() >= KEPT_MAX {
            self.recent_us.pop_front();
        }
        self.recent_us.push_back(latency_us);
        self.count += 1;
        self.sum_us = self.sum_us.saturating_add(latency_us);
    }

    fn freezes(&self) -> Freezes {
        let mut all: Vec<u64> = self.recent_us.iter().copied().collect();
        all.sort_unstable();
        // The smallest that so many thousandths are not above.
        let at = |milli: usize| {
            let place = (all.len() * milli).div_ceil(1000).max(1) - 1;
            all.get(place).copied().unwrap_or(0)
        };
        Freezes { count: self.count, sum_us: self.sum_us, half_us: at(500), most_us: at(999) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_is_that_of_the_last() {
        let mut figures = Figures::default();
        assert_eq!(figures.freezes(), Freezes::default());
        figures.note(7);
        assert_eq!(figures.freezes(), Freezes { count: 1, sum_us: 7, half_us: 7, most_us: 7 });
        for latency_us in 1..=1000 {
            figures.note(latency_us);
        }
        let told = figures.freezes();
        assert_eq!((told.count, told.half_us, told.most_us), (1001, 500, 999));
        for _ in 0..KEPT_MAX {
            figures.note(3);
        }
        let told = figures.freezes();
        assert_eq!((told.count, told.half_us, told.most_us), (1001 + KEPT_MAX as u64, 3, 3));
    }
}
