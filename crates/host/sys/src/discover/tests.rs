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

/// Eight boards of two single-core processors each, with the same package number for both processors of a board: the
/// siblings decide which PUs share a package.
#[test]
fn packages_are_those_of_siblings_where_their_numbers_lie() {
    let mut files: Vec<(String, String)> = Vec::new();
    for pu in 0..16 {
        let topology = format!("cpu/cpu{pu}/topology");
        files.push((format!("{topology}/physical_package_id"), format!("{}\n", pu / 2 * 512)));
        files.push((format!("{topology}/core_siblings"), format!("{:08x}\n", 1u32 << pu)));
        files.push((format!("{topology}/core_id"), "0\n".to_owned()));
        files.push((format!("{topology}/thread_siblings"), format!("{:08x}\n", 1u32 << pu)));
    }
    for node in 0..8 {
        files.push((format!("node/node{node}/cpumap"), format!("{:08x}\n", 3u32 << (2 * node))));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let survey = sysfs_at(tree(&files).path()).unwrap();
    let topology = survey.topology;
    assert_eq!((topology.sockets(), topology.numa_nodes(), topology.cores()), (16, 8, 16));
}

/// A copy of a machine with nodes of memory alone, its PUs cut down to a few by its maker: the group's own file counts, as
/// the kernel's effective file was left unchanged.
#[test]
fn a_copied_cpuset_is_what_its_group_was_given() {
    let usable = |options: &str| {
        let dir = tree(&[
            ("cpu/online", "0-15,88-103\n"),
            ("node/node0/cpulist", "0-15\n"),
            ("node/node8/cpulist", "88-103\n"),
            ("node/node255/cpulist", "\n"),
            ("node/node255/meminfo", "Node 255 MemTotal: 16777216 kB\n"),
        ]);
        for pu in (0..16).chain(88..104) {
            fs::create_dir_all(dir.path().join(format!("sys/devices/system/cpu/cpu{pu}"))).unwrap();
        }
        let group = dir.path().join("sys/fs/cgroup/cpuset/batch");
        fs::create_dir_all(&group).unwrap();
        fs::write(group.join("cpuset.cpus"), "0-15,88-103\n").unwrap();
        fs::write(group.join("cpuset.effective_cpus"), "8-15,96-103\n").unwrap();
        fs::create_dir_all(dir.path().join("proc/self")).unwrap();
        fs::write(dir.path().join("proc/self/cgroup"), "4:cpuset:/batch\n").unwrap();
        let mount = format!("cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset{options} 0 0\n");
        fs::write(dir.path().join("proc/mounts"), mount).unwrap();
        let topology = sysfs_at(dir.path()).unwrap().topology;
        assert_eq!((topology.numa_nodes(), topology.pus().len()), (3, 32));
        topology.usable().to_string()
    };
    assert_eq!(usable(""), "0-15,88-103");
    assert_eq!(usable(",cpuset_v2_mode"), "8-15,96-103", "where the two may differ");
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
mod libhwloc;
