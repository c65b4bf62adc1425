//! Descriptions and the machines they are of.

use super::*;
use crate::Topology;
use proptest::prelude::*;

#[track_caller]
fn machine(text: &str) -> Topology {
    let facts = facts_of(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    facts.assemble().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Sockets, NUMA nodes, L3, L2, cores and PUs.
#[track_caller]
fn check(text: &str, want: [u32; 6]) -> Topology {
    let found = machine(text);
    let pus = u32::try_from(found.pus().len()).unwrap();
    let counts = [found.sockets(), found.numa_nodes(), found.l3(), found.l2(), found.cores(), pus];
    assert_eq!(counts, want, "{text}");
    found
}

#[track_caller]
fn order(text: &str, want: &[u32]) {
    let facts = facts_of(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    // Every PU is a core of its own here, so the cores stand in the order of the description.
    let cores: Vec<u32> = facts.cores.iter().map(|core| core.first().unwrap().0).collect();
    assert_eq!(cores, want, "{text}");
}

#[test]
fn levels() {
    check("pack:2 numa:1 core:4 pu:2", [2, 2, 0, 0, 8, 16]);
    check("Package:2 NUMANode:2 L3Cache:1 Core:4 PU:1", [2, 4, 4, 0, 16, 16]);
    check("pack:2 [numa] l3:2 core:2 pu:1", [2, 2, 4, 0, 8, 8]);
    check("  core:3   pu:2  ", [1, 1, 0, 0, 3, 6]);
    check("pack:8 core:64 pu:2", [8, 1, 0, 0, 512, 1024]);
    check("(memory=4GB) l3:2(size=16MB) l2:2 core:1 pu:2", [1, 1, 2, 4, 4, 8]);
    check("pack:0x2 die:2 group1:1 l1d:1 core:010 pu:1", [2, 1, 0, 0, 32, 32]);
    check("pu:3", [1, 1, 0, 0, 3, 3]);
}

#[test]
fn bare_counts() {
    check("4", [1, 1, 0, 0, 4, 4]);
    check("2 4", [1, 2, 0, 0, 8, 8]);
    check("2 3 4", [2, 6, 0, 0, 24, 24]);
    check("2 2 2 2", [2, 4, 0, 0, 8, 16]);
    check("2 2 2 2 2 2 2", [2, 4, 8, 16, 64, 128]);
    check("2 2 2 2 2 2 2 2 2", [4, 8, 16, 32, 256, 512]);
    check("2 [numa] 2 2", [2, 2, 0, 0, 4, 8]);
}

#[test]
fn indexes() {
    order("core:4(indexes=9,9,9,9) pu:1(indexes=0,2,1,3)", &[0, 2, 1, 3]);
    order("pack:2 core:2 pu:1(indexes=pack:core)", &[0, 2, 1, 3]);
    order("pack:2 core:2 pu:1(indexes=1*4)", &[0, 1, 2, 3]);
    order("core:4 pu:1(indexes=2*2)", &[0, 2, 1, 3]);
    let split = machine("pack:1 core:2 pu:2(indexes=core:machine)");
    let place: Vec<(u32, u32)> = split.pus().iter().map(|pu| (pu.os.0, pu.core)).collect();
    assert_eq!(place, [(0, 0), (2, 0), (1, 1), (3, 1)]);
    let nodes = machine("numa:2(indexes=1,0 memory=2GiB) pu:2");
    let found: Vec<(u32, Option<u64>, String)> =
        nodes.numa().iter().map(|node| (node.os, node.memory_bytes, node.pus.to_string())).collect();
    assert_eq!(found, [(1, Some(2 << 30), "0-1".into()), (0, Some(2 << 30), "2-3".into())]);
}

#[test]
fn attached_nodes_are_numbered_from_the_inside() {
    let facts = facts_of("pack:2 [numa(memory=3)] core:1 [numa(memory=1)] [numa(memory=2)] pu:1").unwrap();
    let found: Vec<(u32, Option<u64>, String)> =
        facts.numa.iter().map(|node| (node.os, node.memory_bytes, node.pus.to_string())).collect();
    let want = [(0, 1, "0"), (1, 2, "0"), (2, 3, "0"), (3, 1, "1"), (4, 2, "1"), (5, 3, "1")];
    assert_eq!(found, want.map(|(os, bytes, pus): (u32, u64, &str)| (os, Some(bytes), pus.to_owned())));
    let numbered = facts_of("pack:2 [numa(indexes=7,3)] pu:2").unwrap();
    assert_eq!(numbered.numa.iter().map(|node| node.os).collect::<Vec<u32>>(), [7, 3]);
}

#[test]
fn invalid_descriptions_are_refused() {
    let long = "1 ".repeat(200);
    for (text, want) in [
        ("", "there is no level in it"),
        ("[numa]", "there is no level in it"),
        (
            "nonsense:2",
            "`nonsense` is no kind of object; there are pack, die, numa, group, l1 to l5, core and pu",
        ),
        (
            "machine:2 pu:1",
            "`machine` is no kind of object; there are pack, die, numa, group, l1 to l5, core and pu",
        ),
        ("core:0 pu:1", "`core:0` has no count of at least 1 behind it, as in `core:4`"),
        ("core pu:1", "`core` has no count of at least 1 behind it, as in `core:4`"),
        ("pu:2(indexes=0,1", "`(` is not closed"),
        ("pack:2 [numa", "`[` is not closed"),
        ("pu:2(colour=red)", "`colour=red` is no attribute here; there are memory=, size= and indexes="),
        ("pack:2 [core] pu:2", "`[core]` is not a NUMA node, and only those can be attached"),
        ("pack:2 core:3", "the last level must be of PUs"),
        ("pack:2 pack:2 pu:1", "there are several levels of sockets"),
        ("pu:2 pu:2", "there are several levels of PUs"),
        ("numa:2 [numa] pu:2", "NUMA nodes are both a level and attached to one"),
        ("2 core:2 pu:2", "either every level has a kind or none has"),
        ("pu:2(indexes=0)", "`indexes=0` does not give 2 different indexes of at most 65535"),
        ("pu:2(indexes=1,1)", "`indexes=1,1` does not give 2 different indexes of at most 65535"),
        ("pu:2(indexes=0,99999)", "`indexes=0,99999` does not give 2 different indexes of at most 65535"),
        (
            "core:2 pu:2(indexes=pack:core)",
            "`indexes=pack:core` does not give 4 different indexes of at most 65535",
        ),
        ("core:2 pu:2(indexes=3*2)", "`indexes=3*2` does not give 4 different indexes of at most 65535"),
        ("pack:70000 pu:70000", "it has more than 16384 PUs or NUMA nodes"),
        (&long, "it has more than 127 levels"),
    ] {
        assert_eq!(facts_of(text).map_err(|error| error.to_string()), Err(want.to_owned()), "{text}");
    }
}

proptest! {
    #[test]
    fn hostile_text_never_panics(text in "[a-z0-9:*,=()\\[\\] ]{0,60}") {
        if let Ok(facts) = facts_of(&text) {
            let _ = facts.assemble();
        }
    }

    #[test]
    fn counts_multiply(package in 1usize..4, core in 1usize..5, pu in 1usize..4) {
        let found = machine(&format!("pack:{package} core:{core} pu:{pu}"));
        prop_assert_eq!(found.pus().len(), package * core * pu);
        prop_assert_eq!(found.cores() as usize, package * core);
        prop_assert!(found.pus().iter().all(|one| one.usable));
    }
}
