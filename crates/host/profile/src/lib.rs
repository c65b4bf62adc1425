//! What jobs used, from the reading to the picture.
//!
//! Reading order: [`meter`] (readings of a running job become samples and figures), [`census`] (whose each process
//! is, and what it used), [`files`] (what it had open), [`store`] (rows on disk, in SQLite), [`report`] (rows become views, views become text),
//! [`plot`] (series become pictures), [`map`] (which core belongs to what), [`export`] (views become tables for other
//! programs) over [`csv`] (cells), [`metrics`] (figures for a monitoring system). Absent here: `/proc`,
//! cgroups, sockets, and any decision on what a job should get.

pub mod census;
pub mod csv;
pub mod export;
pub mod files;
pub mod map;
pub mod meter;
pub mod metrics;
pub mod numa;
pub mod plot;
pub mod report;
pub mod store;
