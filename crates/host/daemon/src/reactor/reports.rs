//! What `report` is told: jobs that run, of what is read now, and jobs that are over, of what the store has.

use pinfold_policy::JobId;
use pinfold_profile::report;
use pinfold_profile::store::{Store, StoreError, Whose};
use pinfold_proto::row::JobRow;
use pinfold_proto::view::ReportView;
use pinfold_proto::wire::ErrorCode;
use pinfold_sys::container::Detail;
use pinfold_sys::peer::Peer;

use crate::clients::rights;
use crate::core::event::Wanted;
use crate::core::{Refusal, denied, store_failed};
use crate::meters::{numa, processes};
use crate::reactor::Daemon;

/// How many jobs that are over `status --all` shows, and one report at most covers.
pub(super) const OVER_SHOWN: u32 = 1000;

impl Daemon {
    /// Those of these jobs of which the loop knows all: jobs that are not over, and those whose last row is not written yet.
    pub(super) fn here<'a>(&'a self, whose: &'a Whose) -> impl Iterator<Item = &'a JobRow> {
        let is_meant = move |row: &&JobRow| match whose {
            Whose::Everybody => true,
            Whose::User { uid, projects } => {
                row.uid == *uid || row.spec.project.as_ref().is_some_and(|project| projects.contains(project))
            }
        };
        let live = self.jobs.table.values().map(|live| &live.row);
        live.chain(self.outbox.journal.all_unwritten()).filter(is_meant)
    }

    /// Adds to what the store lists of these jobs what it may not have, as the disk is full: those here that were asked for
    /// at or after `since_us`. Ascending.
    pub(super) fn with_those_here(&self, mut jobs: Vec<u64>, whose: &Whose, since_us: u64) -> Vec<u64> {
        jobs.extend(self.here(whose).filter(|row| row.submitted_us >= since_us).map(|row| row.job));
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// Whose jobs are told of where none are named; refuses a user who asks for all users' jobs and may not see any.
    pub(super) fn whose(&self, user: Peer, all: bool) -> Result<Whose, Refusal> {
        let whose = rights::may_see(&self.ctx.configured.config, user, all);
        match &whose {
            Whose::User { projects, .. } if all && projects.is_empty() => {
                let who = "`access.operators`, or of a project `projects.NAME.operators`";
                Err(denied(&format!("other users' jobs are for operators ({who})")))
            }
            _ => Ok(whose),
        }
    }

    /// The row as it is now, where the one on disk is behind or not there; `None`: there is no such job any more.
    pub(super) fn newest(&mut self, job: u64) -> Result<Option<JobRow>, StoreError> {
        match self.jobs.table.get(&JobId(job)) {
            Some(live) => Ok(Some(live.row.clone())),
            None => self.outbox.journal.row_if_over(JobId(job)),
        }
    }

    /// The row of a job that this user may see.
    pub(super) fn row_for(&mut self, user: Peer, job: JobId) -> Result<JobRow, Refusal> {
        let row = self.newest(job.0).map_err(|error| store_failed(&error))?;
        let row = row.ok_or_else(|| (ErrorCode::Failed, format!("there is no job {job}")))?;
        if !rights::may_touch(&self.ctx.configured.config, user, &row) {
            return Err(denied(&format!("job {job} belongs to another user")));
        }
        Ok(row)
    }

    /// The report of one job, running or over; `None`: there is no such job any more.
    pub(super) fn report_of(&mut self, job: JobId, wanted: Wanted) -> Result<Option<ReportView>, Refusal> {
        let row = self.newest(job.0).map_err(|error| store_failed(&error))?;
        Ok(row.map(|row| self.report_of_row(row, wanted)))
    }

    pub(super) fn report_of_row(&mut self, mut row: JobRow, wanted: Wanted) -> ReportView {
        let job = JobId(row.job);
        let now_us = self.ctx.clock.now_us();
        if let Some(live) = self.jobs.table.get(&job)
            && let (Some(container), Some(meter)) = (&live.container, &live.meter)
            && let Ok(measure) = container.measure(Detail::Totals)
        {
            // Figures of this moment rather than of the last sample.
            let read = crate::meters::sample::reading(&measure, now_us, row.state);
            row.usage = (**meter).clone().finish(Some(&read), None);
        }
        let samples = if wanted.series { self.outbox.journal.store().samples(job.0).ok() } else { None };
        let mut view = report::report_view(&row, samples.as_deref(), now_us);
        self.meters.jobs_nodes.tell_nodes(&self.ctx, &mut self.outbox.journal, &row, &mut view);
        self.tell_lists(job, wanted, &mut view);
        view
    }

    /// Adds what is listed of a job, as it is now.
    pub(super) fn tell_lists(&mut self, job: JobId, wanted: Wanted, view: &mut ReportView) {
        if wanted.processes {
            view.processes = Some(
                self.meters
                    .process_rows(&self.ctx, &mut self.outbox.journal, &mut self.jobs, job)
                    .iter()
                    .map(report::process_view)
                    .collect(),
            );
        }
        if wanted.files {
            let (rows, left_out) = self.meters.files.file_rows(&mut self.outbox.journal, job);
            let recorded = !rows.is_empty() || left_out.is_some();
            view.files = Some(rows.iter().map(report::file_view).collect());
            view.files_from = recorded.then(|| "samples".to_owned());
            view.files_left_out = left_out;
        }
        if wanted.threads {
            let (threads, left_out) = processes::threads(&self.ctx, &self.jobs.table, job);
            view.threads = Some(threads);
            view.threads_left_out = left_out;
        }
    }

    /// The report of a job that had no process at an earlier moment, without its series, of what the store had then.
    pub(super) fn report_then(
        &self,
        store: &Store,
        row: &JobRow,
        wanted: Wanted,
        at_us: u64,
    ) -> Result<ReportView, StoreError> {
        let job = row.job;
        let mut view = report::report_view(row, None, at_us);
        numa::tell_nodes_of(&self.ctx, row, &store.nodes(job)?, false, &mut view);
        if wanted.processes {
            view.processes = Some(store.processes(job)?.iter().map(report::process_view).collect());
        }
        if wanted.files {
            let rows = store.files(job)?;
            view.files_from = (!rows.is_empty()).then(|| "samples".to_owned());
            view.files = Some(rows.iter().map(report::file_view).collect());
        }
        view.threads = wanted.threads.then(Vec::new);
        Ok(view)
    }
}
