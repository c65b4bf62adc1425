//! Archived machines: counts, a second opinion for every PU, libhwloc's view of the same trees, and hostile
//! copies of the files.

use super::super::*;
use bzip2::read::BzDecoder;
use pinfold_topo::Pu;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use super::libhwloc::{Lstopo, shape};

pub(super) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fixtures/topology")
}

/// Whether discovery, ours or libhwloc's, looks at a file: a tree has up to 14,000.
fn wanted(path: &str) -> bool {
    let any = |parts: &[&str]| parts.iter().any(|part| path.contains(part));
    let leave =
        ["/power/", "/hugepages/", "/thermal", "/cpuidle", "/crash", "/vulnerab", "/hotplug", "/microcode"];
    if any(&["/system/cpu/"]) {
        let cache = !path.contains("/cache/index") || any(&["/level", "/type", "/shared_cpu"]);
        let frequency = !path.contains("/cpufreq/") || path.ends_with("base_frequency");
        return cache && frequency && !any(&leave);
    }
    (path.contains("/system/node/") && !any(&leave) && !any(&["vmstat", "numastat"]))
        || any(&["/proc/", "/dev/cpuset", "/dev/cgroup", "fs/cgroup"])
}

/// Unpacks the archived tree `name`, only the files that discovery reads.
fn unpacked(name: &str) -> tempfile::TempDir {
    // Thousands of small files: in memory if possible.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let packed = File::open(fixtures().join(format!("linux/{name}.tar.bz2"))).unwrap();
    let mut archive = tar::Archive::new(BzDecoder::new(packed));
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_string_lossy().into_owned();
        if wanted(&path) {
            entry.unpack_in(dir.path()).unwrap();
        }
    }
    dir
}

fn names() -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(fixtures().join("linux"))
        .unwrap()
        .filter_map(|entry| {
            Some(entry.unwrap().file_name().to_str().unwrap().strip_suffix(".tar.bz2")?.to_owned())
        })
        .collect();
    names.sort();
    names
}

/// A line for a machine, as in `expected.tsv`.
pub(super) fn counts(name: &str, topology: &Topology) -> String {
    format!(
        "{name}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n",
        topology.sockets(),
        topology.dies(),
        topology.numa_nodes(),
        topology.l3(),
        topology.l2(),
        topology.cores(),
        topology.pus().len(),
        topology.usable()
    )
}

/// Each tree is unpacked once, for all that is asked of it.
#[test]
fn archived_machines() {
    let expected = fs::read_to_string(fixtures().join("expected.tsv")).unwrap();
    let mut found = expected.lines().next().unwrap().to_owned() + "\n";
    let mut compared = 0;
    let lstopo = Lstopo::find();
    for name in names() {
        let dir = unpacked(&name);
        let topology = sysfs_at(dir.path()).unwrap().topology;
        found += &counts(&name, &topology);
        compared += every_pu_lies_where_a_second_opinion_puts_it(&name, &topology);
        if let Some(lstopo) = &lstopo {
            let tree = sysfs::Tree::find(dir.path()).unwrap();
            assert_eq!(shape(&topology), shape(&lstopo.linux(tree.root.as_deref())), "{name}");
        }
    }
    assert!(compared > 3000, "only {compared} places were compared");
    let mut files: Vec<PathBuf> =
        fs::read_dir(fixtures().join("xml")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for path in files {
        let topology = xml(&path).unwrap().topology;
        found += &counts(path.file_name().unwrap().to_str().unwrap(), &topology);
    }
    assert_eq!(found, expected);
}

/// The sets of PUs at a level, by the lowest PU of each.
fn lowest(topology: &Topology, of: impl Fn(&Pu) -> Option<u32>) -> BTreeMap<u32, Option<u32>> {
    let mut first: BTreeMap<u32, u32> = BTreeMap::new();
    for pu in topology.pus() {
        if let Some(object) = of(pu) {
            let first = first.entry(object).or_insert(pu.os.0);
            *first = pu.os.0.min(*first);
        }
    }
    topology.pus().iter().map(|pu| (pu.os.0, of(pu).map(|object| first[&object]))).collect()
}

/// Compares with `pu_map.tsv`; says how many places it compared.
fn every_pu_lies_where_a_second_opinion_puts_it(name: &str, topology: &Topology) -> usize {
    let mut compared = 0;
    let map = fs::read_to_string(fixtures().join(format!("linux/{name}.pu_map.tsv"))).unwrap();
    let rows: BTreeMap<u32, Vec<&str>> = map
        .lines()
        .skip(1)
        .map(|line| line.split('\t').collect::<Vec<&str>>())
        .map(|row| (row[0].parse().unwrap(), row))
        .collect();
    let found: BTreeSet<u32> = topology.pus().iter().map(|pu| pu.os.0).collect();
    assert_eq!(found, rows.keys().copied().collect(), "{name}");
    let [core, l2, l3] =
        [lowest(topology, |pu| Some(pu.core)), lowest(topology, |pu| pu.l2), lowest(topology, |pu| pu.l3)];
    for pu in topology.pus() {
        let row = &rows[&pu.os.0];
        let place = format!("{name}, PU {}", pu.os);
        assert_eq!(pu.usable, row[1] == "1", "{place}");
        // A machine without cores has a core per PU here.
        for (column, level) in [(2, &core), (3, &l2), (4, &l3)] {
            if let Ok(want) = row[column].parse::<u32>() {
                assert_eq!(level[&pu.os.0], Some(want), "{place}, column {column}");
                compared += 1;
            }
        }
        let nodes: Vec<u32> = row[7].split(',').filter_map(|os| os.parse().ok()).collect();
        if !nodes.is_empty() {
            let os = topology.numa()[pu.numa as usize].os;
            assert!(nodes.contains(&os), "{place}: NUMA node {os} is not among {nodes:?}");
            compared += 1;
        }
    }
    compared
}

#[test]
fn a_synthetic_machine_is_found_or_refused_with_the_cause() {
    let found = from_source(&Source::Synthetic("pack:2 core:2 pu:2".into())).unwrap().topology;
    assert_eq!((found.sockets(), found.cores(), found.pus().len()), (2, 4, 8));
    let error = synthetic("nonsense:2").unwrap_err();
    assert_eq!(error.to_string(), "failed to understand the synthetic description `nonsense:2`");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.starts_with("`nonsense` is no kind of object"), "{cause}");
}

#[test]
fn a_file_larger_than_any_topology_is_refused() {
    let mut file = tempfile::Builder::new().suffix(".xml").tempfile().unwrap();
    file.write_all(b"<topology>").unwrap();
    file.as_file().set_len(100 << 20).unwrap();
    let error = xml(file.path()).unwrap_err().to_string();
    assert!(error.ends_with("has 104857600 bytes, more than the 33554432 that are read"), "{error}");
    let gone = xml(Path::new("/nonexistent/machine.xml")).unwrap_err().to_string();
    assert_eq!(gone, "failed to read /nonexistent/machine.xml");
}

/// A file with some bytes replaced and its end cut off.
fn mutated(text: &[u8], edits: &[(usize, u8)], keep: usize) -> Vec<u8> {
    let mut bytes = text[..text.len() - keep % text.len()].to_vec();
    let len = bytes.len();
    for &(at, byte) in edits {
        bytes[at % len] = byte;
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn mutated_xml_never_panics(
        which in 0usize..3,
        edits in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..12),
        keep in prop_oneof![Just(0usize), any::<usize>()],
    ) {
        let name = ["8intel64-4n2t-memattrs", "16em64t-4s2c2t", "fakeheterodistances"][which];
        let text = fs::read(fixtures().join(format!("xml/{name}.xml"))).unwrap();
        let bytes = mutated(&text, &edits, keep);
        if let Ok(facts) = pinfold_topo::hwloc_xml::facts_of(&String::from_utf8_lossy(&bytes)) {
            let _ = facts.assemble();
        }
    }

    #[test]
    fn mutated_sysfs_never_panics(
        edits in proptest::collection::vec((any::<usize>(), "[0-9a-f,\n-]{0,12}"), 1..12),
    ) {
        let files = [
            "cpu/online", "cpu/cpu0/topology/core_cpus_list", "cpu/cpu1/topology/core_cpus",
            "cpu/cpu2/topology/package_cpus_list", "cpu/cpu3/topology/package_cpus",
            "cpu/cpu1/cache/index2/shared_cpu_list", "cpu/cpu1/cache/index2/level", "node/node0/cpulist",
            "node/node1/cpumap", "node/node1/meminfo", "cpu/cpu0/cpu_capacity", "cpu/cpu1/topology/core_id",
        ];
        let made: Vec<(&str, &str)> =
            edits.iter().map(|(file, text)| (files[file % files.len()], text.as_str())).collect();
        let dir = super::tree(&made);
        let _ = sysfs_at(dir.path());
    }
}
