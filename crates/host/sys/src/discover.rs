//! The machine as [`Topology`]: sockets, dies, NUMA nodes, caches, cores and PUs.
//!
//! [`host`] reads this machine's `/sys`; [`sysfs_at`] an archived tree; [`from_source`] any source that a user names:
//! also hwloc's XML files and synthetic descriptions, read without libhwloc. Readers collect
//! [`pinfold_topo::facts::Facts`], which resolves contradictions. Owns no state.

mod allowed;
mod sysfs;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use pinfold_topo::hwloc_xml::XmlError;
use pinfold_topo::spec::Source;
use pinfold_topo::synthetic::SyntheticError;
use pinfold_topo::{CpuSet, ParseCpuSetError, Topology, TopologyError};

pub(crate) use sysfs::read_small;

/// The largest topology file that is read, in bytes. The largest known machines stay below 2 MiB.
pub const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// A machine, with warnings for an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The machine.
    pub topology: Topology,
    /// Facts that could not be read.
    pub warnings: Vec<Warning>,
}

/// A missing or contradictory fact.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Warning {
    /// Sysfs does not show the machine, as in some containers; each usable PU counts as a core.
    #[error("{} does not show the machine: each PU counts as a core of one socket", .0.display())]
    Hidden(PathBuf),
    /// A file with unexpected content.
    #[error("ignored {}: {reason}", .path.display())]
    Odd {
        /// The file.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// The number of further odd files, not named.
    #[error("ignored {0} more files")]
    More(usize),
    /// NUMA nodes that claim the same PUs; the later nodes are left out.
    #[error("NUMA node {0} claims PUs of an earlier one and is left out")]
    Overlapping(u32),
}

/// Why a machine could not be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoverError {
    /// A file could not be read.
    #[error("failed to read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file of the kernel does not hold a list of PUs.
    #[error("failed to read the list of PUs in {}", .path.display())]
    List {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ParseCpuSetError,
    },
    /// A file in place of a directory: an archive that is still packed, as a rule.
    #[error("{} is no directory; unpack it first (`tar -xf`) and name the directory", .0.display())]
    NoDirectory(PathBuf),
    /// A directory does not hold a copy of `/sys`.
    #[error("{} holds no sys/devices/system/cpu", .0.display())]
    NoTree(PathBuf),
    /// A file is larger than any topology.
    #[error("{} has {bytes} bytes, more than the {FILE_BYTES_MAX} that are read", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// The facts describe no machine.
    #[error("failed to make a topology of {what}")]
    Topology {
        /// The source.
        what: String,
        /// Why.
        source: TopologyError,
    },
    /// A file is no topology in hwloc's XML.
    #[error("failed to read the topology in {}", .path.display())]
    Xml {
        /// The file.
        path: PathBuf,
        /// Why.
        source: XmlError,
    },
    /// A text is no synthetic description of hwloc's kind.
    #[error("failed to understand the synthetic description `{text}`")]
    Synthetic {
        /// The text.
        text: String,
        /// Why.
        source: SyntheticError,
    },
}

/// This machine, by its own sysfs; PUs outside this process's affinity are not usable.
///
/// # Errors
/// When even the PUs of this process cannot be read.
pub fn host() -> Result<Topology, DiscoverError> {
    survey().map(|survey| survey.topology)
}

/// As [`host`], with the PUs in `within` usable, whatever this process may use itself.
///
/// # Errors
/// As [`host`].
pub fn host_within(within: &CpuSet) -> Result<Topology, DiscoverError> {
    survey_within(within.clone()).map(|survey| survey.topology)
}

/// As [`host`], with warnings.
///
/// # Errors
/// As [`host`].
pub fn survey() -> Result<Survey, DiscoverError> {
    survey_within(allowed::of_this_process(Path::new("/proc/self/status"))?)
}

/// As [`survey`], with the PUs in `allowed` usable, whatever this process may use itself.
///
/// # Errors
/// As [`host`].
pub fn survey_within(allowed: CpuSet) -> Result<Survey, DiscoverError> {
    let root = Path::new("/sys/devices/system");
    match sysfs::read(root) {
        Ok((mut facts, warnings)) if !facts.pus.is_disjoint(&allowed) => {
            facts.allowed = Some(allowed);
            assembled("this machine", &facts, warnings)
        }
        Ok(_) | Err(DiscoverError::NoTree(_)) => {
            let topology = Topology::flat(&allowed).map_err(|source| DiscoverError::Topology {
                what: "the PUs that this process may use".to_owned(),
                source,
            })?;
            Ok(Survey { topology, warnings: vec![Warning::Hidden(root.to_owned())] })
        }
        Err(error) => Err(error),
    }
}

/// The machine of the copy of `/sys` in `dir` (as `DIR/sys`, or one directory deeper, or `DIR` itself), possibly with
/// `/proc`, from which the cpuset of the copying process is taken.
///
/// # Errors
/// When `dir` has no copy of `/sys`; odd files in it are warnings.
pub fn sysfs_at(dir: &Path) -> Result<Survey, DiscoverError> {
    let tree = sysfs::Tree::find(dir)?;
    let (mut facts, warnings) = sysfs::read(&tree.system)?;
    facts.allowed = tree.root.as_deref().and_then(allowed::in_archive);
    if let Some(allowed) = facts.allowed.take_if(|allowed| facts.pus.is_disjoint(allowed)) {
        // A copy of the sysfs of a machine beside the cgroups of another restricts nothing.
        tracing::debug!(dir = %dir.display(), cpuset = %allowed, "ignored a cpuset without PUs of the tree");
    }
    assembled(&dir.display().to_string(), &facts, warnings)
}

/// The machine that a file in hwloc's XML format (2 or 3) describes.
///
/// # Errors
/// When the file cannot be read, is larger than [`FILE_BYTES_MAX`], or is no XML of hwloc.
pub fn xml(path: &Path) -> Result<Survey, DiscoverError> {
    let read = |source| DiscoverError::Read { path: path.to_owned(), source };
    let known = fs::metadata(path).map_err(read)?.len();
    let mut bytes = Vec::new();
    if known <= FILE_BYTES_MAX {
        let file = File::open(path).map_err(read)?;
        // A pipe has no size beforehand.
        file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(read)?;
    }
    let bytes_len = known.max(bytes.len() as u64);
    if bytes_len > FILE_BYTES_MAX {
        return Err(DiscoverError::TooLarge { path: path.to_owned(), bytes: bytes_len });
    }
    let facts = pinfold_topo::hwloc_xml::facts_of(&String::from_utf8_lossy(&bytes))
        .map_err(|source| DiscoverError::Xml { path: path.to_owned(), source })?;
    assembled(&path.display().to_string(), &facts, Vec::new())
}

/// The machine of hwloc's synthetic description `text`, for instance `pack:2 numa:1 core:4 pu:2`.
///
/// # Errors
/// When the text is no synthetic description, or has more PUs than any machine.
pub fn synthetic(text: &str) -> Result<Survey, DiscoverError> {
    let facts = pinfold_topo::synthetic::facts_of(text)
        .map_err(|source| DiscoverError::Synthetic { text: text.to_owned(), source })?;
    assembled(&format!("synthetic:{text}"), &facts, Vec::new())
}

/// The machine that a user named.
///
/// # Errors
/// When it cannot be read or describes no machine.
pub fn from_source(source: &Source) -> Result<Survey, DiscoverError> {
    match source {
        Source::Host => survey(),
        Source::Sysfs(dir) => sysfs_at(dir),
        Source::Xml(path) => xml(path),
        Source::Synthetic(text) => synthetic(text),
    }
}

/// The PUs that this process may use, by `/proc/self/status`.
///
/// # Errors
/// When the file cannot be read.
pub fn allowed() -> Result<CpuSet, DiscoverError> {
    allowed::of_this_process(Path::new("/proc/self/status"))
}

/// The PUs on line, by sysfs; else the PUs of this process.
///
/// # Errors
/// When neither can be read.
pub fn online() -> Result<CpuSet, DiscoverError> {
    let path = Path::new("/sys/devices/system/cpu/online");
    match sysfs::read_small(path) {
        Ok(text) => text.parse().map_err(|source| DiscoverError::List { path: path.to_owned(), source }),
        Err(_) => allowed(),
    }
}

/// The memory of each NUMA node of this machine that is available without paging out, in bytes, by the kernel's number.
#[must_use]
pub fn node_available() -> Vec<(u32, u64)> {
    sysfs::node_available(Path::new("/sys/devices/system/node"))
}

/// The memory of a NUMA node, and the part that only its users can free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeHeld {
    /// The kernel's number of the node.
    pub node: u32,
    /// All its memory, in bytes.
    pub total_bytes: u64,
    /// Memory held by processes without a file on a disk, and files in memory, in bytes.
    pub held_bytes: u64,
}

/// The memory of each NUMA node of this machine, by the kernel's number. A node without these figures is left out.
#[must_use]
pub fn node_held() -> Vec<NodeHeld> {
    sysfs::node_held(Path::new("/sys/devices/system/node"))
}

fn assembled(
    what: &str,
    facts: &pinfold_topo::facts::Facts,
    warnings: Vec<Warning>,
) -> Result<Survey, DiscoverError> {
    let topology =
        facts.assemble().map_err(|source| DiscoverError::Topology { what: what.to_owned(), source })?;
    Ok(Survey { topology, warnings })
}

#[cfg(test)]
mod tests;
