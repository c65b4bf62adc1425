//! Reads hwloc's synthetic descriptions, like `pack:2 numa:1 core:4 pu:2`, as [`Facts`].
//!
//! Syntax of hwloc's manual ("Synthetic topologies"): levels from the largest to the smallest, each
//! `KIND:COUNT` within the level before, or bare counts throughout; NUMA nodes as a level, or attached to a
//! level in brackets (`pack:2 [numa(memory=64GB)] core:8 pu:2`); attributes in parentheses behind a count:
//! `memory=` and `size=` (bytes, or with a unit), and `indexes=`, the OS indexes as a list or by
//! interleaving. Unusable indexes are an error here; hwloc ignores them. Levels that [`crate::Topology`] does
//! not hold, like L1 caches and groups, only multiply the counts.

mod indexes;
mod words;

use crate::cpuset::{CpuSet, PU_OS_MAX};
use crate::facts::Facts;
use crate::index::PuOs;
use crate::topology::NumaNode;

use words::Words;

/// Most objects of a level, PUs included: twice the largest CPU count of Linux. Each core has its set of PUs,
/// so time and memory grow with the square.
const WIDTH_MAX: usize = 16_384;

/// How many levels a description may have, as in hwloc.
const LEVELS_MAX: usize = 127;
/// Bytes of memory of a NUMA level without `memory=`: hwloc's default.
const NODE_BYTES: u64 = 1 << 30;

/// Why a text describes no machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SyntheticError {
    /// The description has no level.
    #[error("there is no level in it")]
    Empty,
    /// A word names no kind of object.
    #[error("`{0}` is no kind of object; there are pack, die, numa, group, l1 to l5, core and pu")]
    Kind(String),
    /// A kind of object without its count.
    #[error("`{0}` has no count of at least 1 behind it, as in `core:4`")]
    Count(String),
    /// The opening bracket without its closing bracket.
    #[error("`{0}` is not closed")]
    Unclosed(char),
    /// An attribute is unknown for the object, or unreadable.
    #[error("`{0}` is no attribute here; there are memory=, size= and indexes=")]
    Attribute(String),
    /// The attached object is not a NUMA node.
    #[error("`[{0}]` is not a NUMA node, and only those can be attached")]
    Attached(String),
    /// The last level is not PUs.
    #[error("the last level must be of PUs")]
    Last,
    /// A kind of object that cannot nest in its own kind appears twice.
    #[error("there are several levels of {0}")]
    Several(&'static str),
    /// NUMA nodes are a level and attached.
    #[error("NUMA nodes are both a level and attached to one")]
    NumaTwice,
    /// Only some levels have a kind.
    #[error("either every level has a kind or none has")]
    Mixed,
    /// The indexes do not fit the level.
    #[error("`indexes={text}` does not give {total} different indexes of at most {PU_OS_MAX}")]
    Indexes {
        /// The indexes.
        text: String,
        /// Number of objects that need an index.
        total: usize,
    },
    /// More PUs or NUMA nodes than any machine has.
    #[error("it has more than {WIDTH_MAX} PUs or NUMA nodes")]
    TooMany,
    /// More levels than any machine has.
    #[error("it has more than {LEVELS_MAX} levels")]
    TooDeep,
}

/// The kinds of object that a topology distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Machine,
    Package,
    Die,
    Numa,
    L3,
    L2,
    Core,
    Pu,
    /// Groups and other caches.
    Other,
}

/// A level; `width` counts its objects in the whole machine.
#[derive(Debug, Clone)]
struct Level {
    kind: Option<Kind>,
    width: usize,
    memory_bytes: Option<u64>,
    indexes: Option<String>,
    /// Bytes of memory of each NUMA node attached to every object of this level.
    attached: Vec<u64>,
}

impl Level {
    fn new(kind: Option<Kind>, width: usize) -> Self {
        Self { kind, width, memory_bytes: None, indexes: None, attached: Vec::new() }
    }
}

/// A parsed description.
#[derive(Debug)]
struct Description {
    /// The machine itself first, PUs last.
    levels: Vec<Level>,
    /// The indexes of attached NUMA nodes, which are numbered together.
    attached_indexes: Option<String>,
}

/// Reads a synthetic description.
///
/// # Errors
/// When the text describes no machine; see [`SyntheticError`].
pub fn facts_of(text: &str) -> Result<Facts, SyntheticError> {
    let mut description = Description::read(text)?;
    description.give_kinds()?;
    description.check()?;
    description.facts()
}

impl Description {
    fn read(text: &str) -> Result<Self, SyntheticError> {
        let mut words = Words::new(text);
        let mut description =
            Self { levels: vec![Level::new(Some(Kind::Machine), 1)], attached_indexes: None };
        if let Some(attributes) = words.group('(', ')')? {
            words::attributes(attributes, Kind::Machine)?;
        }
        loop {
            words.skip_spaces();
            if let Some(inside) = words.group('[', ']')? {
                description.attach(inside)?;
                continue;
            }
            if words.is_at_end() {
                return Ok(description);
            }
            let (kind, count) = words.level()?;
            let above = description.levels.last().map_or(1, |level| level.width);
            let width = count.checked_mul(above).filter(|&width| width <= WIDTH_MAX);
            let mut level = Level::new(kind, width.ok_or(SyntheticError::TooMany)?);
            if let Some(attributes) = words.group('(', ')')? {
                let found = words::attributes(attributes, kind.unwrap_or(Kind::Other))?;
                (level.memory_bytes, level.indexes) = (found.bytes, found.indexes);
            }
            description.levels.push(level);
            if description.levels.len() > LEVELS_MAX + 1 {
                return Err(SyntheticError::TooDeep);
            }
        }
    }

    /// Adds `numa(memory=1GB)`, attached to the last level.
    fn attach(&mut self, inside: &str) -> Result<(), SyntheticError> {
        let (kind, rest) = words::kind(inside).ok_or_else(|| SyntheticError::Attached(inside.to_owned()))?;
        let mut words = Words::new(rest);
        let attributes = words.group('(', ')')?.unwrap_or_default();
        if kind != Kind::Numa || !words.is_at_end() {
            return Err(SyntheticError::Attached(inside.to_owned()));
        }
        let found = words::attributes(attributes, kind)?;
        self.attached_indexes = found.indexes.or(self.attached_indexes.take());
        let level = self.levels.last_mut().expect("the machine is always there");
        level.attached.push(found.bytes.unwrap_or(0));
        if self.levels.iter().map(|level| level.width * level.attached.len()).sum::<usize>() > WIDTH_MAX {
            return Err(SyntheticError::TooMany);
        }
        Ok(())
    }

    /// Gives bare counts their kinds. Order: groups, a socket, a NUMA node, up to four caches, a core, PUs;
    /// the most needed kinds come first when there are fewer counts.
    fn give_kinds(&mut self) -> Result<(), SyntheticError> {
        let attached = self.has_attached();
        let Some((last, levels)) = self.levels[1..].split_last_mut() else {
            return Err(SyntheticError::Empty);
        };
        match last.kind {
            None | Some(Kind::Pu) => last.kind = Some(Kind::Pu),
            Some(_) => return Err(SyntheticError::Last),
        }
        let bare = levels.iter().filter(|level| level.kind.is_none()).count();
        if bare == 0 {
            return Ok(());
        }
        if bare != levels.len() {
            return Err(SyntheticError::Mixed);
        }
        let mut left = bare;
        let mut take = |most: usize| {
            let taken = most.min(left);
            left -= taken;
            taken
        };
        let (numa, package, core) = (take(usize::from(!attached)), take(1), take(1));
        let caches = take(4);
        let caches: &[Kind] = match caches {
            0 => &[],
            1 => &[Kind::L2],
            2 => &[Kind::L2, Kind::Other],
            3 => &[Kind::L3, Kind::L2, Kind::Other],
            _ => &[Kind::L3, Kind::L2, Kind::Other, Kind::Other],
        };
        let kinds = std::iter::repeat_n(Kind::Other, left)
            .chain(std::iter::repeat_n(Kind::Package, package))
            .chain(std::iter::repeat_n(Kind::Numa, numa))
            .chain(caches.iter().copied())
            .chain(std::iter::repeat_n(Kind::Core, core));
        for (level, kind) in levels.iter_mut().zip(kinds) {
            level.kind = Some(kind);
        }
        Ok(())
    }

    fn has_attached(&self) -> bool {
        self.levels.iter().any(|level| !level.attached.is_empty())
    }

    fn check(&self) -> Result<(), SyntheticError> {
        let once = [
            (Kind::Package, "sockets"),
            (Kind::Die, "dies"),
            (Kind::Numa, "NUMA nodes"),
            (Kind::Core, "cores"),
        ];
        for (kind, name) in once.into_iter().chain([(Kind::Pu, "PUs"), (Kind::L2, "L2"), (Kind::L3, "L3")]) {
            if self.levels.iter().filter(|level| level.kind == Some(kind)).count() > 1 {
                return Err(SyntheticError::Several(name));
            }
        }
        if self.has_attached() && self.level(Kind::Numa).is_some() {
            return Err(SyntheticError::NumaTwice);
        }
        Ok(())
    }

    fn level(&self, kind: Kind) -> Option<&Level> {
        self.levels.iter().find(|level| level.kind == Some(kind))
    }

    fn facts(&self) -> Result<Facts, SyntheticError> {
        let leaves = self.levels.last().expect("the machine is always there");
        let order = self.indexes(self.levels.len() - 1)?.unwrap_or_else(|| (0..leaves.width).collect());
        let order: Vec<PuOs> = order
            .into_iter()
            .map(|os| PuOs(u32::try_from(os).expect("indexes are at most PU_OS_MAX")))
            .collect();
        let sets = |level: &Level| {
            order.chunks(order.len() / level.width).map(|pus| pus.iter().copied().collect::<CpuSet>())
        };
        let of = |kind| self.level(kind).map(|level| sets(level).collect::<Vec<_>>()).unwrap_or_default();
        let sockets = of(Kind::Package);
        let mut dies = of(Kind::Die);
        dies.retain(|die| !sockets.contains(die));
        Ok(Facts {
            pus: order.iter().copied().collect(),
            offline: CpuSet::new(),
            allowed: None,
            sockets,
            dies,
            l3: of(Kind::L3),
            l2: of(Kind::L2),
            cores: of(Kind::Core),
            numa: self.nodes(&order)?,
            kinds: Vec::new(),
        })
    }

    /// The NUMA nodes; a description without NUMA nodes gets a single node.
    fn nodes(&self, order: &[PuOs]) -> Result<Vec<NumaNode>, SyntheticError> {
        // Attached nodes are numbered in post-order: by the end of their object, smaller objects first.
        let mut nodes: Vec<(usize, std::cmp::Reverse<usize>, usize, u64)> = Vec::new();
        let mut indexes = None;
        for (depth, level) in self.levels.iter().enumerate() {
            let span = order.len() / level.width;
            let bytes = match level.kind {
                Some(Kind::Numa) => {
                    indexes = self.indexes(depth)?;
                    vec![level.memory_bytes.unwrap_or(NODE_BYTES)]
                }
                _ => level.attached.clone(),
            };
            for object in 0..level.width {
                let end = (object + 1) * span;
                nodes.extend(bytes.iter().map(|&bytes| (end, std::cmp::Reverse(depth), span, bytes)));
            }
        }
        if nodes.is_empty() {
            nodes.push((order.len(), std::cmp::Reverse(0), order.len(), NODE_BYTES));
        }
        nodes.sort_by_key(|&(end, depth, ..)| (end, depth));
        if let Some(text) = &self.attached_indexes {
            indexes = Some(indexes::list(text, nodes.len())?);
        }
        let node = |(number, (end, _, span, bytes)): (usize, (usize, _, usize, u64))| NumaNode {
            os: indexes
                .as_ref()
                .map_or(number, |indexes| indexes[number])
                .try_into()
                .expect("bounded when it was read"),
            memory_bytes: Some(bytes),
            pus: order[end - span..end].iter().copied().collect(),
        };
        Ok(nodes.into_iter().enumerate().map(node).collect())
    }

    /// The OS indexes of the level at `depth`, if the description gives them.
    fn indexes(&self, depth: usize) -> Result<Option<Vec<usize>>, SyntheticError> {
        let Some(text) = &self.levels[depth].indexes else { return Ok(None) };
        let above = |name: &str| {
            let (kind, rest) = words::kind(name)?;
            let found = self.levels[..depth].iter().find(|level| level.kind == Some(kind));
            found.filter(|_| rest.is_empty()).map(|level| level.width)
        };
        indexes::of(text, self.levels[depth].width, above).map(Some)
    }
}

#[cfg(test)]
mod tests;
