//! The machine by `/sys/devices/system`, in every form that kernels since 2.6.16 have written: lists or masks, old or new
//! names, with or without caches and NUMA nodes.
//!
//! A missing file is a valid answer; an odd file is a warning and counts as missing. No file outside the given directory is
//! opened (except through links in it).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use pinfold_topo::cpuset::PU_OS_MAX;
use pinfold_topo::facts::Facts;
use pinfold_topo::{CpuSet, NumaNode, PuOs};

use super::{DiscoverError, NodeHeld, Warning};

/// No file of sysfs is longer than a page, except lists of PUs; the lists of the largest kernels fit.
const FILE_BYTES_MAX: u64 = 128 * 1024;
/// The highest NUMA node number; the kernel's own bound is 1023.
const NODE_OS_MAX: u32 = 4095;
/// The most odd files that are named.
const WARNINGS_MAX: usize = 20;

/// An archived tree.
pub(super) struct Tree {
    /// The directory that stands for `/sys/devices/system`.
    pub(super) system: PathBuf,
    /// The directory that stands for `/`, if the tree has it.
    pub(super) root: Option<PathBuf>,
}

impl Tree {
    /// Looks for the tree in `dir`, as its root, one directory deeper or as a bare sysfs.
    pub(super) fn find(dir: &Path) -> Result<Self, DiscoverError> {
        if fs::metadata(dir).is_ok_and(|found| !found.is_dir()) {
            return Err(DiscoverError::NoDirectory(dir.to_owned()));
        }
        let here = |root: &Path| {
            let system = root.join("sys/devices/system");
            system.join("cpu").is_dir().then(|| Self { system, root: Some(root.to_owned()) })
        };
        if let Some(tree) = here(dir) {
            return Ok(tree);
        }
        for bare in [dir.join("devices/system"), dir.to_owned()] {
            if bare.join("cpu").is_dir() {
                return Ok(Self { system: bare, root: None });
            }
        }
        let entries =
            fs::read_dir(dir).map_err(|source| DiscoverError::Read { path: dir.to_owned(), source })?;
        let mut below: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        below.sort();
        let deeper = below.iter().flat_map(|path| [path.clone(), path.join("fsroot")]);
        deeper.filter_map(|path| here(&path)).next().ok_or_else(|| DiscoverError::NoTree(dir.to_owned()))
    }
}

/// Reads a file of bounded size; anything that is not a file (a pipe, a directory) is an error.
pub(crate) fn read_small(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    // Archived copies may be padded to the size that sysfs reports, a page.
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// Reads the tree below `system` (a `/sys/devices/system`).
///
/// # Errors
/// [`DiscoverError::NoTree`] when no PU can be found there.
pub(super) fn read(system: &Path) -> Result<(Facts, Vec<Warning>), DiscoverError> {
    let mut reader = Reader { cpu: system.join("cpu"), warnings: Vec::new() };
    let present = numbered(&reader.cpu, "cpu", PU_OS_MAX);
    let mut facts = Facts { pus: reader.online(&present), ..Facts::default() };
    if facts.pus.is_empty() {
        return Err(DiscoverError::NoTree(system.to_owned()));
    }
    facts.offline = present.iter().map(|&n| PuOs(n)).collect::<CpuSet>().difference(&facts.pus);
    facts.sockets = reader.shared(&facts.pus, "package_cpus", "core_siblings");
    let siblings = reader.shared(&facts.pus, "core_cpus", "thread_siblings");
    facts.cores = siblings.into_iter().flat_map(|set| reader.by_core_id(&set)).collect();
    facts.dies = reader.shared(&facts.pus, "die_cpus", "die_cpus");
    // The kernel calls a socket without dies a die, and some firmware each core; that level is then meaningless.
    let within_core = |die: &CpuSet| facts.cores.iter().any(|core| die.is_subset(core));
    facts.dies.retain(|die| !facts.sockets.contains(die) && !within_core(die));
    (facts.l2, facts.l3) = reader.caches(&facts.pus);
    facts.numa = reader.nodes(&system.join("node"), &facts.pus);
    facts.kinds = reader.kinds(&facts.pus);
    let mut warnings = reader.warnings;
    if warnings.len() > WARNINGS_MAX {
        let more = warnings.len() - WARNINGS_MAX;
        warnings.truncate(WARNINGS_MAX);
        warnings.push(Warning::More(more));
    }
    Ok((facts, warnings))
}

/// The numbers N of the entries `PREFIX N` of a directory, in order; a missing directory has none.
fn numbered(dir: &Path, prefix: &str, max: u32) -> BTreeSet<u32> {
    let Ok(entries) = fs::read_dir(dir) else { return BTreeSet::new() };
    entries
        .filter_map(|entry| {
            let name = entry.ok()?.file_name();
            let digits = name.to_str()?.strip_prefix(prefix)?;
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse().ok()).flatten().filter(|&number| number <= max)
        })
        .collect()
}

struct Reader {
    /// The directory `cpu`.
    cpu: PathBuf,
    warnings: Vec<Warning>,
}

impl Reader {
    /// A set of PUs from a file that may be missing.
    fn set(&mut self, path: &Path, parse: fn(&str) -> Result<CpuSet, String>) -> Option<CpuSet> {
        let text = read_small(path).ok()?;
        parse(&text).map_err(|reason| self.warnings.push(Warning::Odd { path: path.to_owned(), reason })).ok()
    }

    /// A set from the mask `DIR/NAME` or, if missing, from the list. Kernels have written masks for longer, and old kernels
    /// with fewer errors.
    fn mask_or_list(&mut self, dir: &Path, name: &str, list: &str) -> Option<CpuSet> {
        let as_list = |text: &str| text.parse::<CpuSet>().map_err(|error| error.to_string());
        let as_mask = |text: &str| CpuSet::from_mask(text).map_err(|error| error.to_string());
        self.set(&dir.join(name), as_mask).or_else(|| self.set(&dir.join(list), as_list))
    }

    fn list(&mut self, name: &str) -> Option<CpuSet> {
        let path = self.cpu.join(name);
        self.set(&path, |text| text.parse::<CpuSet>().map_err(|error| error.to_string()))
    }

    /// The PUs on line: PUs with a directory, less the PUs that `online` (of all, or their own) leaves out.
    fn online(&mut self, present: &BTreeSet<u32>) -> CpuSet {
        let online = self.list("online");
        let off = |pu: u32| {
            let own = read_small(&self.cpu.join(format!("cpu{pu}/online")));
            own.is_ok_and(|text| text.trim() == "0")
        };
        let all = present.iter().copied();
        match online {
            Some(online) => all.map(PuOs).filter(|&pu| online.contains(pu)).collect(),
            None => all.filter(|&pu| !off(pu)).map(PuOs).collect(),
        }
    }

    /// The distinct sets that PUs name in `topology/NEW` or, on kernels before 5.3, `topology/OLD`.
    fn shared(&mut self, pus: &CpuSet, new: &str, old: &str) -> Vec<CpuSet> {
        let mut sets = Distinct::default();
        for pu in pus.iter() {
            if sets.holds(pu) {
                continue;
            }
            let dir = self.cpu.join(format!("cpu{pu}/topology"));
            let set = self
                .mask_or_list(&dir, new, &format!("{new}_list"))
                .or_else(|| self.mask_or_list(&dir, old, &format!("{old}_list")));
            sets.add(pu, set, pus);
        }
        sets.sets
    }

    /// A core's PUs, split where the kernel gives them different cores: it calls the two integer cores of AMD's Bulldozer
    /// modules siblings, because they share the front end.
    fn by_core_id(&self, siblings: &CpuSet) -> Vec<CpuSet> {
        let mut cores: BTreeMap<String, CpuSet> = BTreeMap::new();
        for pu in siblings.iter() {
            let id = read_small(&self.cpu.join(format!("cpu{pu}/topology/core_id"))).unwrap_or_default();
            cores.entry(id).or_default().insert(pu);
        }
        cores.into_values().collect()
    }

    /// The sets of PUs behind level 2 and level 3 caches that hold data.
    fn caches(&mut self, pus: &CpuSet) -> (Vec<CpuSet>, Vec<CpuSet>) {
        let mut levels: [Distinct; 2] = Default::default();
        for pu in pus.iter() {
            let dir = self.cpu.join(format!("cpu{pu}/cache"));
            for index in numbered(&dir, "index", 15) {
                let cache = dir.join(format!("index{index}"));
                let level = match read_small(&cache.join("level")).as_deref().map(str::trim) {
                    Ok("2") => &mut levels[0],
                    Ok("3") => &mut levels[1],
                    _ => continue,
                };
                let instruction =
                    read_small(&cache.join("type")).is_ok_and(|kind| kind.trim() == "Instruction");
                if instruction || level.holds(pu) {
                    continue;
                }
                let set = self.mask_or_list(&cache, "shared_cpu_map", "shared_cpu_list");
                level.add(pu, set, pus);
            }
        }
        let [l2, l3] = levels;
        (l2.sets, l3.sets)
    }

    /// The NUMA nodes. A node without PUs belongs to the PUs that the firmware calls its initiators.
    fn nodes(&mut self, dir: &Path, pus: &CpuSet) -> Vec<NumaNode> {
        let mut nodes: BTreeMap<u32, NumaNode> = BTreeMap::new();
        let mut taken = CpuSet::new();
        for os in numbered(dir, "node", NODE_OS_MAX) {
            let node = dir.join(format!("node{os}"));
            let own = self.mask_or_list(&node, "cpumap", "cpulist").unwrap_or_default();
            let own = own.intersection(pus);
            if !own.is_disjoint(&taken) {
                self.warnings.push(Warning::Overlapping(os));
                continue;
            }
            taken = taken.union(&own);
            let memory_bytes = read_small(&node.join("meminfo")).ok().and_then(|text| memory_in(&text));
            nodes.insert(os, NumaNode { os, memory_bytes, pus: own });
        }
        let local: BTreeMap<u32, CpuSet> = nodes.iter().map(|(&os, node)| (os, node.pus.clone())).collect();
        for node in nodes.values_mut().filter(|node| node.pus.is_empty()) {
            // Class 1 holds initiators with PUs only, class 0 may name an accelerator.
            let initiators = ["access1", "access0"].iter().map(|class| {
                let dir = dir.join(format!("node{}/{class}/initiators", node.os));
                let named = numbered(&dir, "node", NODE_OS_MAX);
                named.iter().filter_map(|os| local.get(os)).fold(CpuSet::new(), |all, set| all.union(set))
            });
            node.pus = initiators.into_iter().find(|set| !set.is_empty()).unwrap_or_default();
        }
        nodes.into_values().collect()
    }

    /// The kinds of core, most frugal first; empty on a machine of a single kind. The kernel tells them by capacity (Arm),
    /// by a performance-counter device for each kind (Intel), or only by different base frequencies.
    fn kinds(&mut self, pus: &CpuSet) -> Vec<CpuSet> {
        let by_capacity = self.by_number(pus, "cpu_capacity");
        if by_capacity.len() > 1 {
            return by_capacity;
        }
        let devices = self.cpu.join("../..");
        let device = |kind: &str| {
            let text = read_small(&devices.join(kind).join("cpus")).ok()?;
            let set = text.parse::<CpuSet>().ok()?.intersection(pus);
            (!set.is_empty()).then_some(set)
        };
        let by_device: Vec<CpuSet> =
            ["cpu_lowpower", "cpu_atom", "cpu_core"].into_iter().filter_map(device).collect();
        if by_device.len() > 1 {
            return by_device;
        }
        let by_frequency = self.by_number(pus, "cpufreq/base_frequency");
        if by_frequency.len() > 1 { by_frequency } else { Vec::new() }
    }

    /// PUs by the number in a file of theirs, lowest first; empty unless every PU has the file.
    fn by_number(&self, pus: &CpuSet, file: &str) -> Vec<CpuSet> {
        let mut kinds: BTreeMap<u64, CpuSet> = BTreeMap::new();
        for pu in pus.iter() {
            let text = read_small(&self.cpu.join(format!("cpu{pu}")).join(file));
            let Some(number) = text.ok().and_then(|text| text.trim().parse().ok()) else {
                return Vec::new();
            };
            kinds.entry(number).or_default().insert(pu);
        }
        kinds.into_values().collect()
    }
}

/// Distinct sets of a level.
#[derive(Default)]
struct Distinct {
    sets: Vec<CpuSet>,
    union: CpuSet,
}

impl Distinct {
    fn holds(&self, pu: PuOs) -> bool {
        self.union.contains(pu)
    }

    /// Adds the set that `pu` names; PUs of an earlier set stay there.
    fn add(&mut self, pu: PuOs, set: Option<CpuSet>, pus: &CpuSet) {
        let Some(set) = set else { return };
        let set = set.union(&CpuSet::single(pu)).intersection(pus).difference(&self.union);
        self.union = self.union.union(&set);
        self.sets.push(set);
    }
}

/// The available memory of each NUMA node below `dir` without paging out, in bytes, by the kernel's number.
pub(super) fn node_available(dir: &Path) -> Vec<(u32, u64)> {
    let of =
        |node: u32| Some((node, available_in(&read_small(&dir.join(format!("node{node}/meminfo"))).ok()?)?));
    numbered(dir, "node", NODE_OS_MAX).into_iter().filter_map(of).collect()
}

/// Free pages and pages of files, which the kernel reclaims at need; in bytes.
fn available_in(text: &str) -> Option<u64> {
    let files = ["Active(file):", "Inactive(file):"].into_iter().filter_map(|name| kib_in(text, name));
    files.fold(kib_in(text, "MemFree:"), |sum, kib| sum?.checked_add(kib))?.checked_mul(1024)
}

fn kib_in(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.split_once(name).map(|(_, rest)| rest))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The size and the held memory of each NUMA node below `dir`.
pub(super) fn node_held(dir: &Path) -> Vec<NodeHeld> {
    let of = |node: u32| {
        let text = read_small(&dir.join(format!("node{node}/meminfo"))).ok()?;
        Some(NodeHeld { node, total_bytes: memory_in(&text)?, held_bytes: held_in(&text)? })
    };
    numbered(dir, "node", NODE_OS_MAX).into_iter().filter_map(of).collect()
}

/// Pages without a file on a disk, locked pages too; in bytes.
fn held_in(text: &str) -> Option<u64> {
    kib_in(text, " AnonPages:")?.checked_add(kib_in(text, " Shmem:")?)?.checked_mul(1024)
}

/// The memory of a NUMA node by its `meminfo`, in bytes.
fn memory_in(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("MemTotal:"))?;
    let kib: u64 = line.split("MemTotal:").nth(1)?.split_whitespace().next()?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_of_a_node_is_parsed() {
        let text = "Node 1 MemTotal:  1000 kB\nNode 1 MemFree:  100 kB\nNode 1 Active(file): 20 kB\n\
                    Node 1 Inactive(file): 3 kB\nNode 1 FilePages: 500 kB\n";
        assert_eq!(available_in(text), Some(123 * 1024));
        assert_eq!(memory_in(text), Some(1000 * 1024));
        assert_eq!(available_in("Node 0 MemFree: 7 kB\n"), Some(7 * 1024));
        for odd in [
            "",
            "Node 0 MemTotal: 5 kB\n",
            "Node 0 MemFree: x kB\n",
            "Node 0 MemFree: 99999999999999999999 kB",
        ] {
            assert_eq!(available_in(odd), None, "{odd}");
        }
        let dir = tempfile::tempdir().unwrap();
        for node in [0, 2] {
            fs::create_dir(dir.path().join(format!("node{node}"))).unwrap();
        }
        fs::write(dir.path().join("node2/meminfo"), text).unwrap();
        assert_eq!(node_available(dir.path()), [(2, 123 * 1024)]);
        assert_eq!(node_available(&dir.path().join("none")), []);
    }

    #[test]
    fn held_memory_of_a_node_is_parsed() {
        let dir = tempfile::tempdir().unwrap();
        let node = |number: u32, text: &str| {
            let path = dir.path().join(format!("node{number}"));
            fs::create_dir(&path).unwrap();
            fs::write(path.join("meminfo"), text).unwrap();
        };
        node(
            1,
            "Node 1 MemTotal:  1000 kB\nNode 1 Active(anon): 70 kB\nNode 1 AnonPages:  50 kB\n\
             Node 1 Shmem:  7 kB\nNode 1 AnonHugePages: 20 kB\nNode 1 ShmemHugePages: 4 kB\n",
        );
        // Old kernels, and copies of a machine, do not say so.
        node(2, "Node 2 MemTotal: 1000 kB\nNode 2 MemFree: 10 kB\n");
        node(3, "Node 3 MemTotal: 1000 kB\nNode 3 AnonPages: 99999999999999999999 kB\nNode 3 Shmem: 1 kB\n");
        let want = NodeHeld { node: 1, total_bytes: 1000 * 1024, held_bytes: 57 * 1024 };
        assert_eq!(node_held(dir.path()), [want]);
    }
}
