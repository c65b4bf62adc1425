//! The state on disk: what changed in a turn of the loop is written in one transaction, before the effects
//! that it explains (but for freezes as memory runs short). When the disk refuses (full, failing), jobs go on, what is to be written is kept, bounded,
//! and tried again; rows of jobs are kept in a file that has room for them (`spared`). The daemon says so in `status`. A single row that the store refuses for what it holds, while the
//! disk is well, is set aside and told of; all others are written.
//!
//! Owns the store, what is still to be written to it, and whether a job that is over has a row there.

mod promised;
mod refused;
mod spared;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use pinfold_policy::JobId;
use pinfold_profile::store::{Store, StoreError};
use pinfold_proto::host::HostRow;
use pinfold_proto::row::{DecisionRow, FileRow, JobRow, NodeRow, ProcessRow, SampleRow};

use crate::core::crash;
use crate::core::error::in_full;
use crate::jobs::table::JobTable;
use crate::store::numbers::Numbers;

pub(crate) use promised::Asker;
use refused::Refused;
use spared::Spared;
pub(crate) use spared::way_out;

/// How many decisions and samples are kept while the store cannot be written.
const KEPT_MAX: usize = 10_000;

/// Once the last rows of so many jobs wait for the store, no number is given to a new one: none of these may be lost, and
/// all of them are in memory.
const OVER_MAX: usize = 20_000;

/// While the store cannot be written, a try is made once in so many turns as this is contained in the rows that wait: each
/// try goes through all of them, and the loop must not come to a stop.
const ROWS_A_TURN: usize = 256;
/// The same for what the rows take, in bytes.
const BYTES_A_TURN: u64 = 512 << 10;
/// A try that failed is followed by a rest of so many times what it took,
const REST_FACTOR: u32 = 20;
/// and of this at most: the disk may have room again.
const REST_MAX: Duration = Duration::from_secs(2);

/// The store and what is still to be written to it.
#[derive(Debug)]
pub(crate) struct Journal {
    store: Store,
    dirty: BTreeSet<JobId>,
    later: BTreeSet<JobId>,
    numbers: Numbers,
    /// Jobs that are over, until their last row is written; says whether a row is there already.
    over: BTreeMap<JobId, (JobRow, bool)>,
    refused: Refused,
    spared: Spared,
    decisions: VecDeque<DecisionRow>,
    samples: VecDeque<SampleRow>,
    processes: VecDeque<ProcessRow>,
    files: VecDeque<FileRow>,
    nodes: VecDeque<NodeRow>,
    host: VecDeque<HostRow>,
    /// Why the store cannot be written, while it cannot.
    trouble: Option<String>,
    /// Whether that is since the disk has no room.
    is_full: bool,
    /// For so many turns nothing is tried then,
    rests: usize,
    /// nor before this.
    rests_until: Option<Instant>,
}

impl Journal {
    /// A journal on an open store, which counts on from behind all numbers that were ever told; `is_behind`: the store may
    /// have lost jobs that it knew.
    pub(crate) fn new(mut store: Store, numbers: Numbers, is_behind: bool) -> Self {
        store.numbers_from(numbers.first_free(is_behind));
        let mut journal = Self {
            store,
            numbers,
            refused: Refused::default(),
            spared: Spared::default(),
            dirty: BTreeSet::new(),
            later: BTreeSet::new(),
            over: BTreeMap::new(),
            decisions: VecDeque::new(),
            samples: VecDeque::new(),
            processes: VecDeque::new(),
            files: VecDeque::new(),
            nodes: VecDeque::new(),
            host: VecDeque::new(),
            trouble: None,
            is_full: false,
            rests: 0,
            rests_until: None,
        };
        // Now, not when the first job is asked for.
        journal.keep_ahead();
        journal
    }

    /// A number for a new job, never given before.
    ///
    /// # Errors
    /// In words, when the store cannot be written and the number cannot be kept elsewhere either, or too much waits to be
    /// written.
    pub(crate) fn next_number(&mut self) -> Result<u64, String> {
        if let Some(trouble) = &self.trouble {
            if self.over.len() >= OVER_MAX {
                return Err(format!(
                    "the ends of {} jobs wait to be written, so no further job is taken; the job store: {trouble}",
                    self.over.len()
                ));
            }
            let next = self.store.upcoming_job().saturating_add(1);
            self.numbers.keep(next).map_err(|error| {
                format!(
                    "no job's number can be kept, so none is given: {error}; and the job store: {trouble}"
                )
            })?;
        }
        self.keep_ahead();
        Ok(self.store.next_job())
    }

    /// A job of this number was found beside the store: it was given.
    pub(crate) fn was_given(&mut self, job: u64) {
        self.store.numbers_from(job.saturating_add(1));
        self.keep_ahead();
    }

    fn keep_ahead(&mut self) {
        if let Err(error) = self.numbers.keep_ahead(self.store.upcoming_job().saturating_add(1)) {
            tracing::warn!(%error, "a power cut may have numbers of jobs given again");
        }
    }

    /// The log of the store, to be flushed.
    pub(crate) fn log(&self) -> std::path::PathBuf {
        self.store.log()
    }

    /// The daemon ends in order, and all is written.
    pub(crate) fn close_numbers(&mut self) {
        self.numbers.close(self.store.upcoming_job());
    }

    /// The store, to read from.
    pub(crate) fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    /// The job's row changed.
    pub(crate) fn touch(&mut self, job: JobId) {
        self.dirty.insert(job);
        self.spared.changed.insert(job);
    }

    /// The job's row changed, in a way that may wait until something else is written.
    pub(crate) fn touch_later(&mut self, job: JobId) {
        self.later.insert(job);
    }

    /// What may wait has waited long enough.
    pub(crate) fn write_waiting(&mut self) {
        self.spared.changed.extend(&self.later);
        self.dirty.append(&mut self.later);
    }

    /// The job is over; this is its last row. Says whether the store has one already.
    pub(crate) fn close(&mut self, row: JobRow, stored: bool) {
        self.dirty.remove(&JobId(row.job));
        self.later.remove(&JobId(row.job));
        self.spared.promised.take_back(JobId(row.job));
        self.ends(row, stored);
    }

    fn ends(&mut self, row: JobRow, stored: bool) {
        let job = JobId(row.job);
        self.spared.changed.insert(job);
        if self.trouble.is_none() {
            // It is written at once, as a rule.
            self.over.insert(job, (row, stored));
            return;
        }
        self.spared.promised.ends(&row);
        if let Some((before, _)) = self.over.insert(job, (row, stored)) {
            self.spared.promised.ends_otherwise(&before);
        }
    }

    /// More is known of a job that is over: its last row, as it is to stand from now on.
    pub(crate) fn amend(&mut self, row: JobRow) {
        let job = JobId(row.job);
        // One that is yet to be written for the first time stays so.
        let stored = self.over.get(&job).or_else(|| self.refused.row(job)).is_none_or(|&(_, stored)| stored);
        self.ends(row, stored);
    }

    /// A decision was taken.
    pub(crate) fn decided(&mut self, row: DecisionRow) {
        self.spared.changed.insert(JobId(row.job));
        push_bounded(&mut self.decisions, row);
    }

    /// A sample was taken.
    pub(crate) fn sampled(&mut self, row: SampleRow) {
        push_bounded(&mut self.samples, row);
    }

    /// A process is over, or several that are added up changed.
    pub(crate) fn process(&mut self, row: ProcessRow) {
        push_bounded(&mut self.processes, row);
    }

    /// What is known of a file that a job had open.
    pub(crate) fn file(&mut self, row: FileRow) {
        push_bounded(&mut self.files, row);
    }

    /// What a job holds on a NUMA node.
    pub(crate) fn node(&mut self, row: NodeRow) {
        push_bounded(&mut self.nodes, row);
    }

    /// A reading of the host.
    pub(crate) fn host(&mut self, row: HostRow) {
        push_bounded(&mut self.host, row);
    }

    /// Those rows of a job's NUMA nodes that are still to be written, oldest first.
    pub(crate) fn nodes_of(&self, job: JobId) -> impl Iterator<Item = &NodeRow> {
        self.nodes.iter().filter(move |row| row.job == job.0)
    }

    /// Those rows of a job's files that are still to be written, oldest first.
    pub(crate) fn files_of(&self, job: JobId) -> impl Iterator<Item = &FileRow> {
        self.files.iter().filter(move |row| row.job == job.0)
    }

    /// Those rows of a job's processes that are still to be written, oldest first.
    pub(crate) fn processes_of(&self, job: JobId) -> impl Iterator<Item = &ProcessRow> {
        self.processes.iter().filter(move |row| row.job == job.0)
    }

    /// The last row of a job that is over and not yet on disk.
    pub(crate) fn unwritten(&self, job: JobId) -> Option<&JobRow> {
        self.over.get(&job).or_else(|| self.refused.row(job)).map(|(row, _)| row)
    }

    /// The last rows of all such jobs.
    pub(crate) fn all_unwritten(&self) -> impl Iterator<Item = &JobRow> {
        self.over.values().map(|(row, _)| row).chain(self.refused.rows())
    }

    /// How many jobs the store does not have as they are, though a write was tried: those that a full disk keeps from it, and
    /// those whose rows it refused.
    pub(crate) fn count_unwritten(&self) -> u64 {
        let waits = || self.over.keys().chain(&self.dirty).collect::<BTreeSet<_>>().len();
        let waiting = self.trouble.as_ref().map_or(0, |_| waits());
        (waiting + self.refused.rows().count()) as u64
    }

    /// Why the store cannot be written, while it cannot.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// What users should know of the store, in words.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let trouble = self.trouble.as_ref().map(|why| format!("the job store cannot be written: {why}"));
        trouble.into_iter().chain(self.spare_words()).chain(self.refused.words())
    }

    /// The next write is tried whatever failed before.
    pub(crate) fn tries_again(&mut self) {
        (self.rests, self.rests_until) = (0, None);
    }

    /// Writes all that changed, in one transaction. On failure all of it is kept for the next time.
    pub(crate) fn write(&mut self, jobs: &mut JobTable) {
        self.numbers.tell(self.store.upcoming_job());
        if self.rests > 0 || self.rests_until.is_some_and(|until| Instant::now() < until) {
            self.rests = self.rests.saturating_sub(1);
            self.spare_rows(jobs);
            return;
        }
        if self.dirty.is_empty()
            && self.over.is_empty()
            && self.decisions.is_empty()
            && self.samples.is_empty()
            && self.processes.is_empty()
            && self.files.is_empty()
            && self.nodes.is_empty()
            && self.host.is_empty()
        {
            return;
        }
        self.write_waiting();
        crash::point("before the journal is written");
        let began = Instant::now();
        match self.write_all(jobs) {
            Ok(refused) => self.written(jobs, refused),
            Err(error) => {
                self.store.rollback();
                self.failed(&error, jobs);
                self.rests_until = Some(Instant::now() + (began.elapsed() * REST_FACTOR).min(REST_MAX));
                self.spare_rows(jobs);
            }
        }
        crash::point("after the journal was written");
    }

    /// Gives the jobs of which the store refused a row, and why.
    fn write_all(&mut self, jobs: &JobTable) -> Result<Vec<Refusal>, StoreError> {
        let mut refused = Vec::new();
        let store = &mut self.store;
        store.begin()?;
        for job in &self.dirty {
            if let Some(live) = jobs.get(job) {
                unless_refused(put(store, &live.row, live.stored), *job, "row", &mut refused)?;
            }
        }
        for (job, (row, stored)) in &self.over {
            unless_refused(put(store, row, *stored), *job, "row", &mut refused)?;
        }
        for row in &self.decisions {
            unless_refused(store.add_decision(row), JobId(row.job), "decisions", &mut refused)?;
        }
        for row in &self.samples {
            unless_refused(store.add_sample(row), JobId(row.job), "samples", &mut refused)?;
        }
        for row in &self.processes {
            unless_refused(store.put_process(row), JobId(row.job), "processes", &mut refused)?;
        }
        for row in &self.files {
            unless_refused(store.put_file(row), JobId(row.job), "files", &mut refused)?;
        }
        for row in &self.nodes {
            unless_refused(store.put_node(row), JobId(row.job), "NUMA nodes", &mut refused)?;
        }
        for reading in &self.host {
            unless_refused(store.add_host(reading), JobId(0), "host readings", &mut refused)?;
        }
        if !refused.is_empty() {
            // The number of a job without a row must not be given again.
            store.keep_numbers()?;
        }
        store.commit().map(|()| refused)
    }

    fn written(&mut self, jobs: &mut JobTable, refused: Vec<Refusal>) {
        let no_row: BTreeSet<JobId> =
            refused.iter().filter(|refusal| refusal.what == "row").map(|refusal| refusal.job).collect();
        for job in std::mem::take(&mut self.dirty).into_iter().filter(|job| !no_row.contains(job)) {
            if let Some(live) = jobs.get_mut(&job) {
                live.stored = true;
            }
            self.refused.written(job);
        }
        for (job, (row, stored)) in std::mem::take(&mut self.over) {
            if no_row.contains(&job) { self.refused.keep(row, stored) } else { self.refused.written(job) }
        }
        refused.into_iter().for_each(|refusal| self.refused.told(refusal));
        self.decisions.clear();
        self.samples.clear();
        self.processes.clear();
        self.files.clear();
        self.nodes.clear();
        self.host.clear();
        self.numbers.all_written();
        let was_trouble = self.trouble.take().is_some();
        (self.is_full, self.rests_until) = (false, None);
        self.spare_is_over(was_trouble);
        if was_trouble {
            tracing::info!("the store can be written again; nothing is missing that was kept");
        }
    }

    fn failed(&mut self, error: &StoreError, jobs: &JobTable) {
        let mut text = in_full(error);
        if error.is_damaged() {
            text.push_str("; restart the daemon: it replaces a damaged store, and jobs go on meanwhile");
        }
        self.is_full = error.is_full();
        if self.is_full {
            let path = self.store.path();
            text.push_str(&format!("; {}", way_out(path.parent().unwrap_or(path))));
        }
        if self.trouble.as_deref() != Some(&text) {
            tracing::error!(error = %text, "the store cannot be written; jobs go on, unrecorded for now");
        }
        // Numbers of this turn are about to be told.
        if let Err(error) = self.numbers.keep(self.store.upcoming_job()) {
            tracing::error!(%error, "numbers of jobs cannot be kept; none is given until the store can be written");
        }
        if self.trouble.replace(text).is_none() {
            self.spared.promised.count_ends(self.over.values().map(|(row, _)| row));
        }
        let rows = (self.over.len() + self.dirty.len()) / ROWS_A_TURN;
        let bytes: u64 = self.dirty.iter().filter_map(|job| jobs.get(job)).map(|live| live.size_bytes).sum();
        let bytes = (bytes + self.spared.promised.ends_bytes()) / BYTES_A_TURN;
        self.rests = rows.max(usize::try_from(bytes).unwrap_or(usize::MAX));
    }

    /// The last row of a job that is over; `None`: there is no such job any more.
    ///
    /// # Errors
    /// When the store cannot be read: of such a job nobody may say that there is none.
    pub(crate) fn row_if_over(&mut self, job: JobId) -> Result<Option<JobRow>, StoreError> {
        match self.unwritten(job) {
            Some(row) => Ok(Some(row.clone())),
            None => self.store.job(job.0),
        }
    }

    /// The same for words that are told without it, too: where the store cannot be read, there is none.
    pub(crate) fn stored_row(&mut self, job: JobId) -> Option<JobRow> {
        let found = self.row_if_over(job);
        let warn = |error: &StoreError| tracing::warn!(%job, error = %in_full(error), "a job cannot be read");
        found.inspect_err(warn).ok().flatten()
    }
}

/// A row that the store refuses, for itself alone.
#[derive(Debug)]
struct Refusal {
    job: JobId,
    /// What it is of the job; `row`: its own.
    what: &'static str,
    why: String,
}

/// Notes a row that is refused for what it holds; every other error is that of the disk.
fn unless_refused(
    done: Result<(), StoreError>,
    job: JobId,
    what: &'static str,
    refused: &mut Vec<Refusal>,
) -> Result<(), StoreError> {
    match done {
        Err(error) if error.is_about_the_row() => {
            refused.push(Refusal { job, what, why: in_full(&error) });
            Ok(())
        }
        done => done,
    }
}

fn put(store: &mut Store, row: &JobRow, stored: bool) -> Result<(), StoreError> {
    if !stored {
        return store.insert_job(row);
    }
    match store.update_job(row) {
        // It was struck off meanwhile, for its age or for want of room: what is known later counts.
        Err(StoreError::NoSuchJob { .. }) => store.insert_job(row),
        done => done,
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, value: T) {
    if queue.len() == KEPT_MAX {
        queue.pop_front();
    }
    queue.push_back(value);
}
