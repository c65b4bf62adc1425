//! On which NUMA nodes the memory of jobs lies.

pub(crate) mod bind;
pub(crate) mod groups;
pub(crate) mod placement;
