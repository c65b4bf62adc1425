//! What is on disk: the journal of the job store, the numbers of jobs, the room for rows on a full disk, kept starts, recorded events, and the state directory.
//!
//! `journal` (rows), `numbers` (of jobs), `spare` (rows while the disk is full), `starts` (how to keep a job
//! again), `events` (recordings), `state_dir`.

pub(crate) mod events;
pub(crate) mod journal;
pub(crate) mod numbers;
pub(crate) mod spare;
pub(crate) mod starts;
pub(crate) mod state_dir;
