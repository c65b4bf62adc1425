//! How a machine and sets of its PUs are stored: sets as the kernel's lists, a machine only if its PUs fit each other.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cpuset::{CpuSet, PU_OS_MAX};
use crate::index::PuOs;
use crate::topology::{NumaNode, Pu, Topology, TopologyError};

impl Serialize for CpuSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for PuOs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Sets hold no others: a number from elsewhere would end the process that puts it into one.
        match u32::deserialize(deserializer)? {
            number @ 0..=PU_OS_MAX => Ok(Self(number)),
            number => Err(serde::de::Error::custom(format!("PU {number} is above {PU_OS_MAX}"))),
        }
    }
}

/// A machine as it is stored; [`Topology`] is made of it after a look at whether its PUs fit each other.
#[derive(Serialize, Deserialize)]
pub(crate) struct Stored {
    pus: Vec<Pu>,
    numa: Vec<NumaNode>,
    offline: CpuSet,
}

impl From<Topology> for Stored {
    fn from(topology: Topology) -> Self {
        let (pus, numa, offline) = topology.into_parts();
        Self { pus, numa, offline }
    }
}

impl TryFrom<Stored> for Topology {
    type Error = TopologyError;

    fn try_from(stored: Stored) -> Result<Self, TopologyError> {
        Self::with_numa(stored.pus, stored.numa, stored.offline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(text: &str) -> Topology {
        crate::synthetic::facts_of(text).expect("a description").assemble().expect("a machine")
    }

    #[test]
    fn a_machine_comes_back_as_it_was() {
        let machine = machine("pack:2 numa:2 core:4 pu:2");
        let stored = serde_json::to_string(&machine).expect("it can be stored");
        assert_eq!(serde_json::from_str::<Topology>(&stored).expect("it can be read"), machine);
    }

    #[test]
    fn sets_are_stored_as_lists() {
        let set: CpuSet = "0-3,8".parse().expect("a set");
        assert_eq!(serde_json::to_string(&set).expect("it can be stored"), "\"0-3,8\"");
        assert!(serde_json::from_str::<CpuSet>("\"0-4294967295\"").is_err());
    }

    #[test]
    fn a_pu_whose_number_no_set_holds_is_refused() {
        let text = serde_json::to_string(&machine("pack:1 core:2 pu:1")).expect("it can be stored");
        let far = text.replacen("\"os\":1", "\"os\":65536", 1);
        assert_ne!(far, text);
        assert!(serde_json::from_str::<Topology>(&far).is_err());
        assert!(serde_json::from_str::<PuOs>("65535").is_ok());
    }

    #[test]
    fn pus_that_contradict_each_other_are_no_machine() {
        let machine = machine("pack:1 core:2 pu:1");
        let mut stored = Stored::from(machine);
        stored.pus[1].os = stored.pus[0].os;
        let text = serde_json::to_string(&stored).expect("it can be stored");
        assert!(serde_json::from_str::<Topology>(&text).is_err());
    }
}
