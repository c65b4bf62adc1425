//! The two numberings of a PU, as two types, so that one cannot be taken for the other.

use std::fmt;

/// A PU as the kernel numbers it: what cpu lists and cpuset files hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct PuOs(pub u32);

/// A PU by its place in the topology, socket by socket, core by core: what placement walks.
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
