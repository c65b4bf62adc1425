//! Rows that the store refuses for what they hold: kept in memory, bounded, and told of once each.
//!
//! Owns them. Absent: which they are (the module above), and any second try: the next change of a job is one.

use std::collections::{BTreeMap, VecDeque};

use pinfold_policy::JobId;
use pinfold_proto::row::JobRow;

use super::Refusal;

/// How many rows of jobs that are over are kept.
const ROWS_MAX: usize = 64;
/// How many jobs are remembered of which something was refused; a refusal of others is counted.
const JOBS_MAX: usize = 256;
/// How many of them a warning names.
const NAMED_MAX: usize = 8;

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Refused {
    /// Last rows, and whether the store has an earlier one of the job.
    rows: VecDeque<(JobRow, bool)>,
    /// What was refused of which job, and why.
    jobs: BTreeMap<JobId, (&'static str, String)>,
    others: u64,
}

impl Refused {
    /// The last row of a job that is over.
    pub(super) fn keep(&mut self, row: JobRow, stored: bool) {
        self.rows.retain(|(kept, _)| kept.job != row.job);
        if self.rows.len() == ROWS_MAX {
            self.rows.pop_front();
        }
        self.rows.push_back((row, stored));
    }

    /// Something of a job was refused.
    pub(super) fn told(&mut self, refusal: Refusal) {
        let Refusal { job, what, why } = refusal;
        if self.jobs.contains_key(&job) && what != "row" {
            return;
        }
        if self.jobs.len() >= JOBS_MAX && !self.jobs.contains_key(&job) {
            self.others = self.others.saturating_add(1);
            return;
        }
        let known = self.jobs.insert(job, (what, why.clone()));
        if known.is_none_or(|(before, _)| before != what) {
            tracing::error!(job = job.0, what, error = %why, "the store refuses this; it is kept in memory");
        }
    }

    /// The row of a job was written after all.
    pub(super) fn written(&mut self, job: JobId) {
        if self.jobs.is_empty() && self.rows.is_empty() {
            return;
        }
        self.rows.retain(|(kept, _)| kept.job != job.0);
        if self.jobs.get(&job).is_some_and(|&(what, _)| what == "row") {
            self.jobs.remove(&job);
        }
    }

    /// The last row of a job, and whether the store has an earlier one.
    pub(super) fn row(&self, job: JobId) -> Option<&(JobRow, bool)> {
        self.rows.iter().find(|(kept, _)| kept.job == job.0)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &JobRow> {
        self.rows.iter().map(|(row, _)| row)
    }

    /// What users should know of it.
    pub(super) fn words(&self) -> Option<String> {
        let (first, (what, why)) = self.jobs.first_key_value()?;
        let named: Vec<String> = self.jobs.keys().take(NAMED_MAX).map(|job| job.0.to_string()).collect();
        let more = self.jobs.len().saturating_sub(NAMED_MAX) as u64 + self.others;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = named.join(", ");
        Some(format!(
            "the job store refuses what is to be written of jobs {named}{more}, which is kept in memory alone \
             (job {}, {what}: {why})",
            first.0
        ))
    }
}
