//! Which PUs a job gets and where its tasks run.
//!
//! [`layout`] answers Slurm's layout options as Slurm does; [`pack`] finds the cores of a job that names no
//! cores; [`chunk`] says how many NUMA nodes share their memory. Pure: the same hosts and the same request
//! give the same answer. Absent here: files, clocks, threads, random numbers, hash order.

pub mod chunk;
pub mod layout;
pub mod pack;
