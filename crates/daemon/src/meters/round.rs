//! A round of samples: every job that runs is read, and with it all that is kept of each sample.

use pinfold_policy::JobId;
use pinfold_profile::meter::Reading;
use pinfold_proto::row::{ProcessRow, Stalls};
use pinfold_sys::container::{Container, ContainerError, Measure};
use pinfold_sys::procfs::Members;

use crate::core::{Ctx, Effect, Outbox};
use crate::jobs::Jobs;
use crate::meters::Meters;
use crate::meters::sample::{SAMPLES_LOOSE, reading, stalls_row};
use crate::store::journal::Journal;

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
        self.processes.process_rows(ctx, journal, jobs, &mut self.shares, job)
    }

    /// Reads every running job.
    pub(crate) fn on_sample_due(&mut self, ctx: &Ctx, out: &mut Outbox, jobs: &mut Jobs) {
        self.processes.read_records(ctx, jobs, &mut self.shares);
        let now_us = ctx.clock.now_us();
        self.sampler.round_begins();
        let mut members = Vec::new();
        for job in &jobs.running {
            let Some(live) = jobs.table.get_mut(job) else { continue };
            let (Some(container), Some(meter)) = (&live.container, &mut live.meter) else { continue };
            let (measure, pids, stalls) = match read_job(container, &mut live.members) {
                Ok(read) => read,
                Err(error) => {
                    tracing::debug!(job = live.row.job, %error, "a job cannot be read");
                    continue;
                }
            };
            if self.processes.enabled() {
                let rows = self.processes.sampled(*job, &pids, &live.members, now_us);
                self.processes.take_turns(&ctx.proc, &live.members);
                rows.into_iter().for_each(|row| out.journal.process(row));
                meter.processes_total(self.processes.total(*job));
                meter.counts(self.processes.counts(*job));
            }
            let read = Reading { stalls, ..reading(&measure, now_us, live.row.state) };
            let row = meter.reading(&read);
            live.row.usage = meter.usage();
            out.journal.sampled(row);
            if live.row.usage.samples.is_multiple_of(SAMPLES_LOOSE as u64) {
                self.sampler.pack_later(*job);
            }
            out.journal.touch(JobId(live.row.job));
            members.push((*job, pids));
        }
        for (job, pids) in members {
            self.jobs_nodes.look_at_nodes(ctx, &mut out.journal, &jobs.table, job, now_us);
            self.files.look_at_files(ctx, &mut out.journal, job, &pids, now_us);
        }
        self.readings.read_host(ctx, &mut out.journal, now_us);
        self.shares.divide_shared(ctx, jobs, now_us);
        self.processes.round_done();
        out.extend(jobs.finished.all().into_iter().map(Effect::Remove));
    }
}

/// What one job uses now, read with all its processes.
fn read_job(
    container: &Container,
    members: &mut Members,
) -> Result<(Measure, Vec<u32>, Option<Stalls>), ContainerError> {
    let (measure, pids) = container.sample(members)?;
    let stalls = container.stalls()?.map(stalls_row);
    Ok((measure, pids, stalls))
}
