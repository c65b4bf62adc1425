//! Replays of the same jobs at slightly other times of submission: how much of a figure is chance.
//!
//! Source: Tsafrir, Ouaknine and Feitelson, "Reducing performance evaluation sensitivity and variability by input
//! shaking", MASCOTS 2007.

use pinfold_cluster::swf::Record;
use pinfold_whatif::list::List;

/// A job is submitted up to this many seconds later.
const SHAKEN_S: u64 = 60;

/// By how much each job of a replay is submitted later.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shake {
    /// `None`: as it was.
    seed: Option<u64>,
}

impl Shake {
    /// The so-many-th replay of a seed; the first is the jobs as they were.
    pub(super) fn new(seed: u64, replay: u64) -> Self {
        Self { seed: (replay > 0).then(|| mixed(seed ^ mixed(replay))) }
    }

    pub(super) fn record(self, record: Record) -> Record {
        let later_s = self.later_s(record.job);
        Record { submit_s: record.submit_s.map(|at_s| at_s.saturating_add(later_s)), ..record }
    }

    /// The shaken list; `None`: unchanged.
    pub(super) fn list(self, list: &List) -> Option<List> {
        self.seed?;
        let mut shaken = List::default();
        for entry in list.entries() {
            let later_s = self.later_s(entry.job.unwrap_or(0)) as f64;
            let mut entry = entry.clone();
            entry.submit_s += later_s;
            shaken.add(entry);
        }
        Some(shaken)
    }

    fn later_s(self, job: u64) -> u64 {
        self.seed.map_or(0, |seed| mixed(seed ^ job) % (SHAKEN_S + 1))
    }
}

/// A number in which each bit depends on all bits of the input (`SplitMix64`; Steele, Lea and Flood, OOPSLA 2014).
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
