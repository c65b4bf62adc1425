//! The state on disk: what changed in a turn of the loop is written in one transaction, before the effects
//! that it explains (but for freezes as memory runs short). When the disk refuses (full, failing), jobs go on, what is to be written is kept, bounded,
//! and tried again; the daemon says so to whoever asks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pinfold_policy::JobId;
use pinfold_profile::store::{Store, StoreError};
use pinfold_proto::host::HostRow;
use pinfold_proto::row::{DecisionRow, FileRow, JobRow, NodeRow, ProcessRow, SampleRow};

use crate::act::in_full;
use crate::live::Jobs;

/// How many decisions and samples are kept while the store cannot be written.
const KEPT_MAX: usize = 10_000;

/// The store and what is still to be written to it.
#[derive(Debug)]
pub(crate) struct Journal {
    store: Store,
    dirty: BTreeSet<JobId>,
    later: BTreeSet<JobId>,
    /// Jobs that are over, until their last row is written; says whether a row is there already.
    over: BTreeMap<JobId, (JobRow, bool)>,
    decisions: VecDeque<DecisionRow>,
    samples: VecDeque<SampleRow>,
    processes: VecDeque<ProcessRow>,
    files: VecDeque<FileRow>,
    nodes: VecDeque<NodeRow>,
    host: VecDeque<HostRow>,
    /// Why the store cannot be written, while it cannot.
    trouble: Option<String>,
}

impl Journal {
    /// A journal on an open store.
    pub(crate) fn new(store: Store) -> Self {
        Self {
            store,
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
        }
    }

    /// The store, to read from and to take numbers from.
    pub(crate) fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    /// The job's row changed.
    pub(crate) fn touch(&mut self, job: JobId) {
        self.dirty.insert(job);
    }

    /// The job's row changed, in a way that may wait until something else is written.
    pub(crate) fn touch_later(&mut self, job: JobId) {
        self.later.insert(job);
    }

    /// What may wait has waited long enough.
    pub(crate) fn write_waiting(&mut self) {
        self.dirty.append(&mut self.later);
    }

    /// The job is over; this is its last row.
    pub(crate) fn close(&mut self, row: JobRow, stored: bool) {
        self.dirty.remove(&JobId(row.job));
        self.later.remove(&JobId(row.job));
        self.over.insert(JobId(row.job), (row, stored));
    }

    /// A decision was taken.
    pub(crate) fn decided(&mut self, row: DecisionRow) {
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
        self.over.get(&job).map(|(row, _)| row)
    }

    /// The last rows of all such jobs.
    pub(crate) fn all_unwritten(&self) -> impl Iterator<Item = &JobRow> {
        self.over.values().map(|(row, _)| row)
    }

    /// Why the store cannot be written, while it cannot.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Writes all that changed, in one transaction. On failure all of it is kept for the next time.
    pub(crate) fn write(&mut self, jobs: &mut Jobs) {
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
        match self.write_all(jobs) {
            Ok(()) => self.written(jobs),
            Err(error) => {
                self.store.rollback();
                self.failed(&error);
            }
        }
    }

    fn write_all(&mut self, jobs: &Jobs) -> Result<(), StoreError> {
        self.store.begin()?;
        for job in &self.dirty {
            if let Some(live) = jobs.get(job) {
                put(&mut self.store, &live.row, live.stored)?;
            }
        }
        for (row, stored) in self.over.values() {
            put(&mut self.store, row, *stored)?;
        }
        for decision in &self.decisions {
            self.store.add_decision(decision)?;
        }
        for sample in &self.samples {
            self.store.add_sample(sample)?;
        }
        for process in &self.processes {
            self.store.put_process(process)?;
        }
        for file in &self.files {
            self.store.put_file(file)?;
        }
        for node in &self.nodes {
            self.store.put_node(node)?;
        }
        for reading in &self.host {
            self.store.add_host(reading)?;
        }
        self.store.commit()
    }

    fn written(&mut self, jobs: &mut Jobs) {
        for job in std::mem::take(&mut self.dirty) {
            if let Some(live) = jobs.get_mut(&job) {
                live.stored = true;
            }
        }
        self.over.clear();
        self.decisions.clear();
        self.samples.clear();
        self.processes.clear();
        self.files.clear();
        self.nodes.clear();
        self.host.clear();
        if self.trouble.take().is_some() {
            tracing::info!("the store can be written again; nothing is missing that was kept");
        }
    }

    fn failed(&mut self, error: &StoreError) {
        let text = in_full(error);
        if self.trouble.as_deref() != Some(&text) {
            tracing::error!(error = %text, "the store cannot be written; jobs go on, unrecorded for now");
        }
        self.trouble = Some(text);
    }
}

fn put(store: &mut Store, row: &JobRow, stored: bool) -> Result<(), StoreError> {
    if stored { store.update_job(row) } else { store.insert_job(row) }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, value: T) {
    if queue.len() == KEPT_MAX {
        queue.pop_front();
    }
    queue.push_back(value);
}
