//! A round of samples: every job that runs is read, and with it all that is kept of each sample.

use pinfold_policy::JobId;
use pinfold_profile::meter::Reading;
use pinfold_proto::row::{ProcessRow, Stalls};
use pinfold_sys::container::{Container, ContainerError, Measure};

use crate::core::{Ctx, Effect, Outbox};
use crate::jobs::{JobTable, Jobs};
use crate::meters::Meters;
use crate::meters::readers::Due;
use crate::meters::sample::{SAMPLES_LOOSE, reading, stalls_row};
use crate::store::journal::Journal;

/// A job as its container tells of it.
struct Found {
    job: JobId,
    measure: Measure,
    pids: Vec<u32>,
    stalls: Option<Stalls>,
}

impl Meters {
    /// Hears a portion of what the kernel told of processes since the last time.
    pub(crate) fn read_records(&mut self, ctx: &Ctx, jobs: &mut Jobs) {
        self.processes.read_records(ctx, jobs, &mut self.shares);
    }

    /// Hears all that the kernel told before now, for a job of which no process is left.
    pub(crate) fn catch_up(&mut self, ctx: &Ctx, jobs: &mut Jobs, job: JobId) {
        self.processes.catch_up(ctx, jobs, &mut self.shares, job);
    }

    /// The processes of a job, over and alive, by number.
    pub(crate) fn process_rows(
        &mut self,
        ctx: &Ctx,
        journal: &mut Journal,
        jobs: &mut Jobs,
        job: JobId,
    ) -> Vec<ProcessRow> {
        if jobs.table.contains_key(&job) {
            self.catch_up(ctx, jobs, job);
            if let Some((_, pids)) = self.read_now(ctx, &mut jobs.table, job) {
                self.take_sampled(ctx, journal, &jobs.table, (job, &pids), ctx.clock.now_us());
                self.processes.take_turns_asked(ctx, &pids);
            }
        }
        self.processes.process_rows(journal, job)
    }

    /// Reads a job, and its processes unless they hold that up: then theirs are the last figures.
    pub(crate) fn read_now(
        &mut self,
        ctx: &Ctx,
        table: &mut JobTable,
        job: JobId,
    ) -> Option<(Measure, Vec<u32>)> {
        let (mut measure, pids) = table.get(&job)?.container.as_ref()?.sample().ok()?;
        let due = Due::new(job, &measure, &pids);
        self.readers.read(&ctx.proc, table, vec![due], ctx.clock.now_us());
        measure.take_sums(&table.get(&job)?.members.sums());
        Some((measure, pids))
    }

    /// Reads every running job.
    pub(crate) fn on_sample_due(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &mut Jobs) {
        self.processes.read_records(ctx, jobs, &mut self.shares);
        let now_us = ctx.clock.now_us();
        self.sampler.round_begins();
        let found = self.read_all(ctx, out, jobs, now_us);
        for Found { job, mut measure, pids, stalls } in found {
            self.take_sampled(ctx, &mut out.journal, &jobs.table, (job, &pids), now_us);
            let Some(live) = jobs.table.get_mut(&job) else { continue };
            let Some(meter) = &mut live.meter else { continue };
            if self.processes.enabled() {
                meter.processes_total(self.processes.total(job));
                meter.counts(self.processes.counts(job));
            }
            measure.take_sums(&live.members.sums());
            let row = meter.reading(&Reading { stalls, ..reading(&measure, now_us, live.row.state) });
            live.row.usage = meter.usage();
            out.journal.sampled(row);
            if live.row.usage.samples.is_multiple_of(SAMPLES_LOOSE as u64) {
                self.sampler.pack_later(job);
            }
            out.journal.touch(job);
            self.jobs_nodes.look_at_nodes(ctx, &mut out.journal, &jobs.table, job, now_us);
        }
        self.readings.read_host(ctx, &mut out.journal, now_us);
        self.shares.divide_shared(ctx, jobs, now_us);
        self.processes.round_done();
        out.extend(jobs.finished.all().into_iter().map(Effect::Remove));
    }

    /// What all jobs use now; their processes are read, as far as they let themselves be.
    fn read_all(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &mut Jobs, now_us: u64) -> Vec<Found> {
        let (mut found, mut due) = (Vec::new(), Vec::new());
        for &job in &jobs.running {
            let Some(live) = jobs.table.get(&job).filter(|live| live.meter.is_some()) else { continue };
            let Some(container) = &live.container else { continue };
            match read_job(container) {
                Ok((measure, pids, stalls)) => {
                    let files_of = self.files.next_looked_at(ctx, &mut out.journal, job, &pids, now_us);
                    due.push(Due { files_of, ..Due::new(job, &measure, &pids) });
                    found.push(Found { job, measure, pids, stalls });
                }
                Err(error) => tracing::debug!(job = job.0, %error, "a job cannot be read"),
            }
        }
        self.readers.read(&ctx.proc, &mut jobs.table, due, now_us);
        found
    }

    /// Takes in which processes of a job are alive, and what was read of them.
    fn take_sampled(
        &mut self,
        ctx: &Ctx,
        journal: &mut Journal,
        table: &JobTable,
        (job, pids): (JobId, &[u32]),
        now_us: u64,
    ) {
        let Some(live) = table.get(&job) else { return };
        let looked = self.readers.take(job);
        let changed = if looked.is_some() { live.members.changed() } else { &[] };
        let rows = if self.processes.enabled() {
            let rows = self.processes.sampled(job, pids, changed, now_us);
            self.processes.take_turns(&ctx.proc, changed);
            rows
        } else {
            self.processes.changed(job)
        };
        rows.into_iter().for_each(|row| journal.process(row));
        if let Some(looked) = looked {
            let rows = self.files.look_at_files(job, pids, looked, now_us);
            rows.into_iter().for_each(|row| journal.file(row));
        }
    }
}

/// What one job uses now, without what only its processes tell.
fn read_job(container: &Container) -> Result<(Measure, Vec<u32>, Option<Stalls>), ContainerError> {
    let (measure, pids) = container.sample()?;
    let stalls = container.stalls()?.map(stalls_row);
    Ok((measure, pids, stalls))
}
