//! What `report` is told: jobs that run, of what is read now, and jobs that are over, of what the store has.

use std::collections::BTreeMap;

use pinfold_policy::JobId;
use pinfold_profile::report;
use pinfold_profile::store::{Store, StoreError, Whose};
use pinfold_proto::row::JobRow;
use pinfold_proto::view::ReportView;
use pinfold_proto::wire::{ErrorCode, Reply, Select, json_bytes};
use pinfold_sys::container::Detail;
use pinfold_sys::peer::Peer;

use crate::clients::cost::ANSWER_MAX_BYTES;
use crate::clients::doctor::too_long;
use crate::clients::rights;
use crate::core::event::Wanted;
use crate::core::{ConnectionId, Refusal, denied, store_failed};
use crate::meters::{numa, processes};
use crate::reactor::Daemon;

/// How many jobs that are over `status --all` shows, and one report at most covers.
pub(super) const OVER_SHOWN: u32 = 1000;

/// How many jobs, and how many samples of them in all, one answer holds that does not come in pieces.
const JOBS_AT_ONCE: u32 = 10_000;
const SAMPLES_AT_ONCE: u64 = 100_000;

impl Daemon {
    pub(super) fn reports(
        &mut self,
        user: Peer,
        select: &Select,
        all: bool,
        wanted: Wanted,
    ) -> Result<Vec<ReportView>, Refusal> {
        let whose = self.whose(user, all)?;
        let rows = match select {
            Select::Jobs(jobs) => self.rows_for(user, jobs)?,
            Select::Last(_) | Select::Since(_) => {
                let rows = self.selected(select, &whose);
                rows.map_err(|error| store_failed(&error))?
            }
        };
        let samples: u64 = rows.iter().map(|row| row.usage.samples).sum();
        let is_long = rows.len() > JOBS_AT_ONCE as usize || (wanted.series && samples > SAMPLES_AT_ONCE);
        if is_long {
            let text = format!("{} jobs with {samples} samples are too much for one answer", rows.len());
            return Err((ErrorCode::Refused, format!("{text}: ask for it in pieces")));
        }
        Ok(rows.into_iter().map(|row| self.report_of_row(row, wanted)).collect())
    }

    /// The rows of jobs that are named, each of which this user may see; refused when they are long.
    pub(super) fn rows_for(&mut self, user: Peer, jobs: &[u64]) -> Result<Vec<JobRow>, Refusal> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for &job in jobs {
            let row = self.row_for(user, JobId(job))?;
            bytes += json_bytes(&row.spec);
            if bytes > ANSWER_MAX_BYTES {
                return Err(too_long());
            }
            rows.push(row);
        }
        Ok(rows)
    }

    /// Jobs that are not named, by number; one more than an answer may have at most, and no more than it holds.
    pub(super) fn selected(&mut self, select: &Select, whose: &Whose) -> Result<Vec<JobRow>, StoreError> {
        let store = self.outbox.journal.store();
        let jobs = match select {
            Select::Jobs(_) => Vec::new(),
            Select::Last(count) => store.last_numbers(whose, (*count).min(OVER_SHOWN))?,
            Select::Since(since_us) => store.numbers_since(whose, *since_us, JOBS_AT_ONCE + 1)?,
        };
        let (mut rows, mut bytes) = (Vec::new(), 0);
        // The last ones, if not all fit.
        for job in jobs.into_iter().rev() {
            let Some(row) = store.job(job)? else { continue };
            bytes += json_bytes(&row.spec);
            if bytes > ANSWER_MAX_BYTES {
                break;
            }
            rows.push(row);
        }
        rows.reverse();
        Ok(rows.into_iter().map(|row| self.newest(row)).collect())
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

    /// The row as it is now, where the one on disk is behind.
    pub(super) fn newest(&self, row: JobRow) -> JobRow {
        match self.jobs.table.get(&JobId(row.job)) {
            Some(live) => live.row.clone(),
            None => self.outbox.journal.unwritten(JobId(row.job)).cloned().unwrap_or(row),
        }
    }

    /// The row of a job that this user may see.
    pub(super) fn row_for(&mut self, user: Peer, job: JobId) -> Result<JobRow, Refusal> {
        let row = self.row_of(job).ok_or_else(|| (ErrorCode::Failed, format!("there is no job {job}")))?;
        if !rights::may_touch(&self.ctx.configured.config, user, &row) {
            return Err(denied(&format!("job {job} belongs to another user")));
        }
        Ok(row)
    }

    pub(super) fn row_of(&mut self, job: JobId) -> Option<JobRow> {
        match self.jobs.table.get(&job) {
            Some(live) => Some(live.row.clone()),
            None => self.outbox.journal.stored_row(job),
        }
    }

    /// The report of one job, running or over.
    pub(super) fn report_of(&mut self, job: JobId, wanted: Wanted) -> Option<ReportView> {
        let row = self.row_of(job)?;
        Some(self.report_of_row(row, wanted))
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
                    .processes
                    .process_rows(
                        &self.ctx,
                        &mut self.outbox.journal,
                        &mut self.jobs,
                        &mut self.meters.shares,
                        job,
                    )
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
            view.threads = Some(processes::threads(&self.ctx, &self.jobs.table, job));
        }
    }

    /// The report of a job that was over at an earlier moment, without its series, of what the store had then.
    pub(super) fn report_then(
        &self,
        store: &Store,
        row: &JobRow,
        wanted: Wanted,
    ) -> Result<ReportView, StoreError> {
        let job = row.job;
        let mut view = report::report_view(row, None, self.ctx.clock.now_us());
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

    /// Registers a client that waits until jobs are over.
    pub(super) fn wait_for(&mut self, id: ConnectionId, user: Peer, wanted: Vec<u64>) -> Result<(), Refusal> {
        self.clients.waiters.has_room(&self.clients.server, id, user.uid, wanted.len())?;
        // Each is looked at once: a thousand may be named, and the same one a thousand times. It is told as often.
        let mut times: BTreeMap<u64, u64> = BTreeMap::new();
        wanted.iter().for_each(|&job| *times.entry(job).or_default() += 1);
        let mut bytes = 0;
        for (job, times) in times {
            bytes += json_bytes(&self.row_for(user, JobId(job))?.spec) * times;
        }
        if bytes > ANSWER_MAX_BYTES {
            return Err(too_long());
        }
        let open =
            wanted.iter().map(|&job| JobId(job)).filter(|job| self.jobs.table.contains_key(job)).collect();
        self.clients.waiters.add(id, open, wanted);
        // It may ask for one that was over just before.
        self.answer_waiters(self.outbox.durable.is_behind());
        Ok(())
    }

    /// Answers those that wait for nothing any more; if `lasting`, once that is on disk.
    pub(super) fn answer_waiters(&mut self, lasting: bool) {
        for (id, wanted) in self.clients.waiters.done() {
            let mut told = BTreeMap::new();
            for &job in &wanted {
                told.entry(job).or_insert_with(|| self.report_of(JobId(job), Wanted::default()));
            }
            let reports = wanted.iter().filter_map(|job| told.get(job)?.clone()).collect();
            self.outbox.reply_lasting(id, Reply::Report(reports), lasting);
        }
    }
}
