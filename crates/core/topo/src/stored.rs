//! Serialization: sets as the kernel's lists; a machine is read only if its PUs are consistent.

use std::fmt;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::cpuset::{CpuSet, PU_OS_MAX};
use crate::index::PuOs;
use crate::topology::{NODES_MAX, NumaNode, Pu, Topology, TopologyError};

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
        // A set panics at a larger index, so a number from outside is checked here.
        match u32::deserialize(deserializer)? {
            number @ 0..=PU_OS_MAX => Ok(Self(number)),
            number => Err(serde::de::Error::custom(format!("PU {number} is above {PU_OS_MAX}"))),
        }
    }
}

/// The serialized form of a [`Topology`], checked for consistency on reading.
#[derive(Serialize, Deserialize)]
pub(crate) struct Stored {
    pus: Vec<Pu>,
    #[serde(deserialize_with = "some_nodes")]
    numa: Vec<NumaNode>,
    offline: CpuSet,
}

/// Reads at most [`NODES_MAX`] nodes, so that hostile input cannot fill the memory.
fn some_nodes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<NumaNode>, D::Error> {
    struct Few;
    impl<'de> Visitor<'de> for Few {
        type Value = Vec<NumaNode>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(out, "up to {NODES_MAX} NUMA nodes")
        }

        fn visit_seq<S: SeqAccess<'de>>(self, mut all: S) -> Result<Vec<NumaNode>, S::Error> {
            let mut nodes = Vec::new();
            while let Some(node) = all.next_element()? {
                if nodes.len() == NODES_MAX {
                    return Err(S::Error::custom(TopologyError::TooManyNodes));
                }
                nodes.push(node);
            }
            Ok(nodes)
        }
    }
    from.deserialize_seq(Few)
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

    /// Each node has PUs of its own to be read: those beyond the bound are not.
    #[test]
    fn a_machine_has_as_many_nodes_as_a_kernel_may_have() {
        let stored = |nodes: usize, last: &str| {
            let mut machine = Stored::from(machine("pack:1 core:2 pu:1"));
            machine.numa = vec![machine.numa[0].clone(); nodes];
            let text = serde_json::to_string(&machine).expect("it can be stored");
            serde_json::from_str::<Topology>(&text.replace("],\"offline\"", &format!("{last}],\"offline\"")))
        };
        assert_eq!(stored(NODES_MAX, "").expect("it is read").numa().len(), NODES_MAX);
        let too_many = |told: &str| told.starts_with("the machine has more than 1024 NUMA nodes");
        let further = r#",{"os":1,"memory_bytes":null,"pus":""},"what is behind is not looked at""#;
        let refused = stored(NODES_MAX, further).expect_err("one more").to_string();
        assert!(too_many(&refused), "{refused}");
        let numa = vec![NumaNode { os: 0, memory_bytes: None, pus: CpuSet::new() }; NODES_MAX + 1];
        let made = Topology::with_numa(machine("pu:1").pus().to_vec(), numa, CpuSet::new());
        assert_eq!(made, Err(TopologyError::TooManyNodes));
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
