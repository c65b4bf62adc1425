//! A failing episode is cut down until each thing that is left in it is needed: of dozens of jobs, disturbances and kinds
//! of faults as a rule a handful. What is left is written as a text that plays it again.
//!
//! The search is Zeller's delta debugging (2002): halves are tried, then quarters, and so on, without each of them; it ends
//! when no single thing can be left out any more. Leaving one out changes all chance that comes after it, so what remains
//! is a smaller history that breaks the same promise, not a piece of the first one.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::checks::Violation;

/// Histories are played so often at most to find a small one.
const TRIES_MAX: u32 = 3_000;

/// A kind of fault that an episode may be played without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Actions fail.
    Failures,
    /// The daemon crashes between two actions.
    Crashes,
    /// A freeze takes its time.
    SlowFreezes,
    /// A start takes its time.
    SlowStarts,
    /// Cores are sampled, so that backfillers move.
    Samples,
    /// Readings are old when they are told.
    OldReadings,
    /// Readings are lost.
    LostReadings,
    /// Readings are wrong.
    WrongReadings,
    /// What others on the host hold swings.
    Others,
    /// The kernel is told whose memory to take.
    Steering,
    /// Jobs may be ended and begun anew.
    Requeues,
    /// Projects have memory of their own.
    Projects,
    /// Jobs are to have cores to themselves.
    Isolation,
    /// Other programs write to the groups of jobs.
    Meddling,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Failures,
        Self::Crashes,
        Self::SlowFreezes,
        Self::SlowStarts,
        Self::Samples,
        Self::OldReadings,
        Self::LostReadings,
        Self::WrongReadings,
        Self::Others,
        Self::Steering,
        Self::Requeues,
        Self::Projects,
        Self::Isolation,
        Self::Meddling,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Failures => "failures",
            Self::Crashes => "crashes",
            Self::SlowFreezes => "slow-freezes",
            Self::SlowStarts => "slow-starts",
            Self::Samples => "samples",
            Self::OldReadings => "old-readings",
            Self::LostReadings => "lost-readings",
            Self::WrongReadings => "wrong-readings",
            Self::Others => "others",
            Self::Steering => "steering",
            Self::Requeues => "requeues",
            Self::Projects => "projects",
            Self::Isolation => "isolation",
            Self::Meddling => "meddling",
        }
    }
}

/// What an episode is played with; all else is left out. The default leaves nothing out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Only {
    kept: Option<BTreeSet<Item>>,
    /// Kinds of faults that are left out of all there are.
    without: BTreeSet<Fault>,
}

/// Something that an episode can be played without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    /// The job of this number.
    Job(u64),
    /// The disturbance of this number, from 0.
    Upset(u64),
    Fault(Fault),
}

impl Only {
    fn has(&self, item: Item) -> bool {
        self.kept.as_ref().is_none_or(|kept| kept.contains(&item))
    }

    /// Whether this job is asked for.
    #[must_use]
    pub fn has_job(&self, number: u64) -> bool {
        self.has(Item::Job(number))
    }

    /// Whether the disturbance of this number, counted from 0 as they come, happens.
    #[must_use]
    pub fn has_upset(&self, number: u64) -> bool {
        self.has(Item::Upset(number))
    }

    /// Whether there are faults of this kind.
    #[must_use]
    pub fn has_fault(&self, fault: Fault) -> bool {
        self.has(Item::Fault(fault)) && !self.without.contains(&fault)
    }

    /// How many things it names.
    #[must_use]
    pub fn count(&self) -> usize {
        self.kept.as_ref().map_or(0, BTreeSet::len)
    }
}

impl fmt::Display for Only {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(kept) = &self.kept else {
            let names: Vec<&str> = self.without.iter().map(|fault| fault.name()).collect();
            return match names.is_empty() {
                true => f.write_str("all"),
                false => write!(f, "without={}", names.join(",")),
            };
        };
        let list =
            |pick: fn(&Item) -> Option<String>| kept.iter().filter_map(pick).collect::<Vec<_>>().join(",");
        let jobs = list(|item| if let Item::Job(number) = item { Some(number.to_string()) } else { None });
        let upsets =
            list(|item| if let Item::Upset(number) = item { Some(number.to_string()) } else { None });
        let faults =
            list(|item| if let Item::Fault(fault) = item { Some(fault.name().to_owned()) } else { None });
        write!(f, "jobs={jobs};upsets={upsets};faults={faults}")
    }
}

/// A text that says nothing of what an episode is to be played with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` does not say what is left, as `jobs=1,4;upsets=3;faults=failures` or `without=crashes` does")]
pub struct NotOnly(String);

impl FromStr for Only {
    type Err = NotOnly;

    fn from_str(text: &str) -> Result<Self, NotOnly> {
        if text == "all" {
            return Ok(Self::default());
        }
        let wrong = || NotOnly(text.to_owned());
        let fault = |word: &str| Fault::ALL.into_iter().find(|fault| fault.name() == word).ok_or_else(wrong);
        if let Some(list) = text.strip_prefix("without=") {
            let without = list.split(',').map(fault).collect::<Result<_, _>>()?;
            return Ok(Self { kept: None, without });
        }
        let mut kept = BTreeSet::new();
        for part in text.split(';') {
            let (key, list) = part.split_once('=').ok_or_else(wrong)?;
            for word in list.split(',').filter(|word| !word.is_empty()) {
                let number = || word.parse::<u64>().map_err(|_| wrong());
                kept.insert(match key {
                    "jobs" => Item::Job(number()?),
                    "upsets" => Item::Upset(number()?),
                    "faults" => Item::Fault(fault(word)?),
                    _ => return Err(wrong()),
                });
            }
        }
        Ok(Self { kept: Some(kept), without: BTreeSet::new() })
    }
}

/// Cuts down an episode of so many jobs and disturbances that broke `violation`'s promise: what is left breaks it too,
/// and would not without any one thing of it. `play` says what a smaller episode breaks.
pub fn shrink(
    jobs: u64,
    upsets: u64,
    violation: &Violation,
    mut play: impl FnMut(&Only) -> Option<Violation>,
) -> Only {
    let all: Vec<Item> = (1..=jobs)
        .map(Item::Job)
        .chain((0..upsets).map(Item::Upset))
        .chain(Fault::ALL.map(Item::Fault))
        .collect();
    let only = |items: &[Item]| Only { kept: Some(items.iter().copied().collect()), ..Only::default() };
    let mut tries = 0;
    let kept = minimal(all, |items| {
        tries += 1;
        tries <= TRIES_MAX && play(&only(items)).is_some_and(|found| found.rule == violation.rule)
    });
    only(&kept)
}

/// The smallest part of `all` that is found for which `fails` holds, as it does for all.
fn minimal<T: Copy>(mut all: Vec<T>, mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut pieces = 2;
    while !all.is_empty() {
        let size = all.len().div_ceil(pieces);
        let mut smaller = None;
        for start in (0..all.len()).step_by(size) {
            let rest: Vec<T> = all
                .iter()
                .enumerate()
                .filter(|(at, _)| !(start..start + size).contains(at))
                .map(|(_, &x)| x)
                .collect();
            if fails(&rest) {
                smaller = Some(rest);
                break;
            }
        }
        match smaller {
            Some(rest) => {
                all = rest;
                pieces = pieces.saturating_sub(1).max(2);
            }
            None if size == 1 => break,
            None => pieces = (pieces * 2).min(all.len()),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_left_and_nothing_else() {
        let mut tries = 0;
        let all: Vec<u32> = (0..500).collect();
        let left = minimal(all, |some| {
            tries += 1;
            [3, 77, 402].iter().all(|needed| some.contains(needed))
        });
        assert_eq!(left, [3, 77, 402]);
        assert!(tries < 150, "{tries}");
        assert_eq!(minimal(vec![1, 2, 3], |_| true), []);
        assert_eq!(minimal(vec![1, 2, 3], |some| some.len() == 3), [1, 2, 3]);
        // Of two that do, one is left.
        assert_eq!(minimal((0..10).collect(), |some| some.contains(&4) || some.contains(&8)), [8]);
    }

    #[test]
    fn what_is_left_reads_as_it_is_written() {
        for text in [
            "all",
            "jobs=1,4;upsets=3;faults=failures,old-readings",
            "jobs=;upsets=;faults=",
            "without=isolation,meddling",
        ] {
            assert_eq!(text.parse::<Only>().expect("it is one").to_string(), text);
        }
        let only: Only = "jobs=2;upsets=;faults=steering".parse().expect("it is one");
        assert!(only.has_job(2) && !only.has_job(1) && !only.has_upset(0) && only.has_fault(Fault::Steering));
        let only: Only = "without=crashes".parse().expect("it is one");
        assert!(only.has_job(2) && only.has_upset(0) && only.has_fault(Fault::Failures));
        assert!(!only.has_fault(Fault::Crashes));
        for text in ["", "jobs", "jobs=x", "faults=rain", "birds=1", "without=", "without=rain"] {
            assert!(text.parse::<Only>().is_err(), "{text}");
        }
    }
}
