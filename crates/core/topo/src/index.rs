//! The two numberings of a PU, as distinct types.

use std::fmt;

/// A PU by the kernel's number, as in CPU lists and cpuset files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct PuOs(pub u32);

/// A PU by its position in the topology, socket by socket, core by core: the order of placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct PuLogical(pub u32);

impl fmt::Display for PuOs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for PuLogical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
