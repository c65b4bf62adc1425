//! Discovery against this machine and against trees made here.

use super::*;
use std::fs;

/// Writes `files` below a new directory.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join("sys/devices/system").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

#[test]
fn this_machine_has_what_the_process_may_use() {
    let survey = survey().unwrap();
    let allowed = allowed().unwrap();
    assert_eq!(survey.topology.usable(), allowed.intersection(&survey.topology.usable()));
    assert!(!survey.topology.usable().is_empty());
    assert_eq!(host().unwrap(), survey.topology);
}

#[test]
fn siblings_numbered_apart_are_one_core() {
    let dir = tree(&[
        ("cpu/online", "0-3\n"),
        ("cpu/possible", "0-7\n"),
        ("cpu/cpu4/online", "0\n"),
        ("cpu/cpu0/topology/core_cpus_list", "0,2\n"),
        ("cpu/cpu1/topology/core_cpus_list", "1,3\n"),
        ("cpu/cpu2/topology/thread_siblings", "05\n"),
        ("cpu/cpu3/topology/core_cpus_list", "1,3\n"),
        ("cpu/cpu0/topology/package_cpus_list", "0-3\n"),
        ("node/node0/cpulist", "0-3\n"),
        ("node/node0/meminfo", "Node 0 MemTotal:       4096 kB\n"),
        ("node/node3/cpulist", "\n"),
        ("node/node3/meminfo", "Node 3 MemTotal:       8192 kB\n"),
    ]);
    let survey = sysfs_at(dir.path()).unwrap();
    let topology = survey.topology;
    assert_eq!(survey.warnings, []);
    let order: Vec<u32> = topology.pus().iter().map(|pu| pu.os.0).collect();
    assert_eq!(order, [0, 2, 1, 3]);
    let cores: Vec<u32> = topology.pus().iter().map(|pu| pu.core).collect();
    assert_eq!(cores, [0, 0, 1, 1]);
    assert_eq!((topology.sockets(), topology.numa_nodes(), topology.l3(), topology.cores()), (1, 2, 0, 2));
    assert_eq!(topology.offline().to_string(), "4");
    let nodes: Vec<(u32, Option<u64>, String)> =
        topology.numa().iter().map(|node| (node.os, node.memory_bytes, node.pus.to_string())).collect();
    assert_eq!(nodes, [(0, Some(4 << 20), "0-3".into()), (3, Some(8 << 20), String::new())]);
}

#[test]
fn an_odd_file_is_a_warning_and_no_tree_an_error() {
    let dir = tree(&[("cpu/cpu0/topology/core_cpus_list", "nonsense\n"), ("cpu/cpu1/online", "0\n")]);
    let survey = sysfs_at(dir.path()).unwrap();
    assert_eq!(survey.topology.pus().len(), 1);
    assert_eq!(survey.topology.offline().to_string(), "1");
    assert!(matches!(&survey.warnings[..], [Warning::Odd { path, .. }] if path.ends_with("core_cpus_list")));

    let empty = tempfile::tempdir().unwrap();
    let error = sysfs_at(empty.path()).unwrap_err().to_string();
    assert!(error.ends_with("holds no sys/devices/system/cpu"), "{error}");
    let packed = empty.path().join("tree.tar.bz2");
    fs::write(&packed, "BZh").unwrap();
    let error = sysfs_at(&packed).unwrap_err().to_string();
    assert!(error.contains("tree.tar.bz2 is no directory; unpack it first"), "{error}");
}

mod fixtures;
