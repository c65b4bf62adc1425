//! The only crate that touches Linux.

pub mod cgroup;
pub mod container;
pub mod discover;
pub mod doctor;
pub mod mode;
pub mod peer;
pub mod procfs;
pub mod signals;
pub mod spawn;
