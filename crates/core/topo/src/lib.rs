//! The machine as data: PUs, cores, caches, NUMA nodes and sockets, and sets of PUs in the kernel's list
//! syntax.
//!
//! Reading order: [`index`] (the two numberings of a PU), [`cpuset`] and [`mask`] (sets of PUs),
//! [`topology`] (how PUs share cores, caches, memory and sockets), [`facts`] (from what a machine says of
//! itself to a topology), [`hwloc_xml`] (a machine from a file of hwloc's), [`synthetic`] (one from a line of
//! text), [`spec`] (how a user names a machine), `stored` (how it is written down).
//! Apart from these: [`backoff`] (pauses between tries, for every crate). Absent here: any file, any system call.
//! Discovery of a real machine lives in `sys`, which hands its findings over as [`facts::Facts`].

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
