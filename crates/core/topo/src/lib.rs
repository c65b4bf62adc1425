//! The machine as data: PUs, cores, caches, NUMA nodes and sockets, and sets of PUs in the kernel's list
//! syntax.
//!
//! Reading order: [`index`] (the two numberings of a PU), [`cpuset`] and [`mask`] (sets of PUs), [`topology`]
//! (how PUs share cores, caches, memory and sockets), [`facts`] (a topology from a machine's report),
//! [`hwloc_xml`] (facts from hwloc's XML), [`synthetic`] (facts from a line of text), [`spec`] (a user's name
//! of a machine), `stored` (serialization). Apart from these: [`backoff`] (retry delays, for every crate).
//! Files and system calls are absent: `sys` discovers the real machine and passes [`facts::Facts`].

pub mod backoff;
pub mod cpuset;
pub mod facts;
pub mod hwloc_xml;
pub mod index;
pub mod mask;
pub mod spec;
mod stored;
pub mod synthetic;
pub mod topology;

pub use cpuset::{CpuSet, ParseCpuSetError};
pub use index::{PuLogical, PuOs};
pub use topology::{NumaNode, Pu, Topology, TopologyError};
