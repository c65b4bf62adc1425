//! The machine as data: PUs, cores, caches, NUMA nodes and sockets, and sets of PUs in the kernel's list
//! syntax.
//!
//! Reading order: [`index`] (the two numberings of a PU), [`cpuset`] (sets of PUs), [`topology`] (how PUs
//! share cores, caches, memory and sockets). Absent here: any file, any system call. Discovery of a real
//! machine lives in `sys`, which hands its findings over as plain data.

pub mod cpuset;
pub mod index;
pub mod topology;

pub use cpuset::{CpuSet, ParseCpuSetError};
pub use index::{PuLogical, PuOs};
pub use topology::{Pu, Topology, TopologyError};
