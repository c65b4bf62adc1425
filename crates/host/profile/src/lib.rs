//! Jobs' resource usage, from readings to pictures.
//!
//! Reading order: [`meter`] (readings of a running job become samples and figures), [`census`] (processes of jobs and
//! their usage), [`files`] (open files), [`store`] (rows on disk, in SQLite), [`report`] (rows become views, views
//! become text), [`plot`] (series become pictures), [`map`] (allocation of cores), [`export`] (views become tables
//! for other programs) over [`csv`] (cells), [`metrics`] (figures for a monitoring system). Absent here: `/proc`,
//! cgroups, sockets, and decisions on a job's resources.

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
