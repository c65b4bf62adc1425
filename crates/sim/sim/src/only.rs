//! The part of an episode to play: all of it, or only some of its jobs, disturbances and kinds of faults. Written as a text
//! that plays the episode again.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

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
    /// Readings are reported late.
    OldReadings,
    /// Readings are lost.
    LostReadings,
    /// Readings are wrong.
    WrongReadings,
    /// Other load's memory swings.
    Others,
    /// The kernel can steer reclaim.
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

/// The part of an episode to play; the default is the whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Only {
    kept: Option<BTreeSet<Item>>,
    /// Kinds of faults that are left out of all there are.
    without: BTreeSet<Fault>,
}

/// A removable item of an episode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    /// The job of this number.
    Job(u64),
    /// The disturbance of this number, from 0.
    Upset(u64),
    Fault(Fault),
}

impl Only {
    /// Only these items.
    pub(crate) fn of(items: &[Item]) -> Self {
        Self { kept: Some(items.iter().copied().collect()), ..Self::default() }
    }

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

    /// The number of named items.
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

/// A text that names no part of an episode.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_read_as_it_is_written() {
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
