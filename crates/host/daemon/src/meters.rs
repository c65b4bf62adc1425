//! What jobs and the host use: read at intervals, while there are jobs.
//!
//! When: `round`, `sample`, `readings` (the host). Of jobs: `processes` with `readers`, `workers`, `memory`,
//! `shares` (PSS), `numa`, `files`.
//! Of the host: `others` (processes that are no jobs), `witness` (reaction times), `metrics` (for monitoring).
//! Memory moves: `pager`.
//! Learning: `learn`, `elsewhere` (from a hub).

pub(crate) mod elsewhere;
pub(crate) mod files;
pub(crate) mod learn;
pub(crate) mod memory;
pub(crate) mod metrics;
pub(crate) mod numa;
pub(crate) mod others;
mod pager;
pub(crate) mod processes;
pub(crate) mod readers;
pub(crate) mod readings;
mod round;
pub(crate) mod sample;
pub(crate) mod shares;
pub(crate) mod witness;
mod workers;

use std::path::Path;

use pinfold_policy::JobId;
use pinfold_proto::config::Config;
use pinfold_proto::row::JobRow;
use pinfold_sys::container::Containers;

use crate::core::{Ctx, Outbox};
use crate::jobs::Jobs;
use crate::meters::elsewhere::Elsewhere;
use crate::meters::files::JobFiles;
use crate::meters::learn::Learned;
use crate::meters::memory::MemorySampler;
use crate::meters::metrics::{Ended, Metrics};
use crate::meters::numa::JobNodes;
use crate::meters::others::Others;
use crate::meters::processes::Processes;
use crate::meters::readers::Readers;
use crate::meters::readings::HostReadings;
use crate::meters::sample::Sampler;
use crate::meters::shares::Shares;
use crate::store::journal::Journal;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Meters {
    pub(crate) sampler: Sampler,
    /// When the host as a whole was read.
    pub(crate) readings: HostReadings,
    pub(crate) processes: Processes,
    pub(crate) files: JobFiles,
    pub(crate) shares: Shares,
    pub(crate) readers: Readers,
    pub(crate) jobs_nodes: JobNodes,
    pub(crate) memory: MemorySampler,
    /// What processes use that are no jobs.
    pub(crate) others: Others,
    pub(crate) learned: Learned,
    /// What jobs held on other hosts.
    pub(crate) elsewhere: Elsewhere,
    /// The thread that serves figures to a monitoring system, where one does.
    pub(crate) metrics: Option<Metrics>,
    /// Jobs that ended since the start.
    pub(crate) ended: Ended,
}

impl Meters {
    /// Of jobs in these containers.
    pub(crate) fn new(state: &Path, config: &Config, containers: &Containers) -> std::io::Result<Self> {
        Ok(Self {
            sampler: Sampler::new(config.profile_interval),
            readings: HostReadings::default(),
            processes: Processes::new(config.profile_processes),
            files: JobFiles::default(),
            shares: Shares::default(),
            readers: Readers::default(),
            jobs_nodes: JobNodes::default(),
            memory: MemorySampler::new(containers)?,
            others: Others::default(),
            learned: Learned::default(),
            elsewhere: Elsewhere::open(state, config),
            metrics: None,
            ended: Ended::default(),
        })
    }

    /// A job ended: without a name of its own it is called after the program that did its work.
    pub(crate) fn name_after_work(&mut self, journal: &mut Journal, row: &mut JobRow) {
        let (processes, job) = (&self.processes, JobId(row.job));
        self.learned.workers.ended(row, || processes.process_rows(journal, job));
    }

    /// Reads how idle the cores are, and which other processes use them.
    pub(crate) fn on_idle_due(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &Jobs) {
        self.sampler.on_idle_due(ctx, out, jobs);
        self.others.on_idle_due(ctx, out, jobs);
    }

    /// Reads what jobs hold and what the host has, for the scheduler; and so what others hold.
    pub(crate) fn on_memory_due(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &mut Jobs) {
        if let Some((unavailable_bytes, jobs_bytes)) = self.memory.on_memory_due(ctx, out, jobs) {
            self.others.memory_read(unavailable_bytes, jobs_bytes);
        }
    }

    /// Forgets a job; the last rows of its files and nodes go to the journal.
    pub(crate) fn job_over(&mut self, job: JobId, journal: &mut Journal, now_us: u64) {
        // Of one that ran and ended these are in the journal; one that its keeper took back may have had some as well.
        let _ = self.processes.finish(job, now_us);
        self.files.finish(job).into_iter().for_each(|row| journal.file(row));
        self.jobs_nodes.finish(job).into_iter().for_each(|row| journal.node(row));
    }
}
