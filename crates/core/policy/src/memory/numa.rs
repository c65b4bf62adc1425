//! On which NUMA nodes the memory of jobs lies.
//!
//! `survey` (groups and nodes at one moment), `join` (groups that fit a job together), `placement` (groups with
//! room), `bind` (changes), `groups` (the state).

pub(crate) mod bind;
pub(crate) mod groups;
mod join;
pub(crate) mod placement;
pub(crate) mod survey;
