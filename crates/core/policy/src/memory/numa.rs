//! On which NUMA nodes the memory of jobs lies.

pub(crate) mod bind;
pub(crate) mod groups;
mod join;
pub(crate) mod placement;
pub(crate) mod survey;
