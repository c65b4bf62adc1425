//! What is set up around a job and taken down after it: directories, and the hooks.
//!
//! `setup` (the order), `hooks`, `scratch` and `clearing` (directories in memory), `disk`, `unready` (why a step
//! failed).

pub(crate) mod clearing;
pub(crate) mod disk;
pub(crate) mod hooks;
pub(crate) mod scratch;
pub(crate) mod setup;
pub(crate) mod unready;

use std::collections::BTreeSet;

use anyhow::Context as _;
use pinfold_policy::JobId;
use pinfold_sys::mode::Facts;
use pinfold_sys::scratch::Scratch;

use crate::store::state_dir::StateDir;
use crate::surroundings::clearing::Clearer;
use crate::surroundings::disk::Disks;
use crate::surroundings::hooks::Hooks;
use crate::surroundings::scratch::Scratches;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Surroundings {
    /// Directories in memory,
    pub(crate) scratches: Scratches,
    /// on disks,
    pub(crate) disks: Disks,
    /// and those of jobs that are over.
    pub(crate) clearing: Clearer,
    /// How far each job is set up.
    pub(crate) hooks: Hooks,
    /// Jobs that the store does not know and of which processes run: what stands around them stays until those are gone.
    pub(crate) unknown: BTreeSet<JobId>,
}

impl Surroundings {
    /// Those that an earlier daemon left are known.
    pub(crate) fn open(state: &StateDir, facts: &Facts) -> anyhow::Result<Self> {
        Ok(Self {
            scratches: Scratches::new(Scratch::new(facts, state.instance())),
            disks: Disks::open(state.path(), facts, state.instance()),
            clearing: Clearer::new().context("failed to make a pair of sockets")?,
            hooks: Hooks::open(state.path())?,
            unknown: BTreeSet::new(),
        })
    }
}
