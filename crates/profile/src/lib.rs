//! What jobs used, from the reading to the picture.
//!
//! Reading order: [`meter`] (readings of a running job become samples and figures), [`store`] (rows on disk, in
//! SQLite), [`report`] (rows become views, views become text). Absent here: `/proc`, cgroups, clocks, sockets,
//! and any judgement of what a job should get.

pub mod meter;
pub mod store;
