//! Rows of jobs that the store cannot take, in the room that was kept for them (`store::spare`): what was accepted is
//! on disk before its number is told, and is found again by the next daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pinfold_policy::JobId;
use pinfold_profile::store::StoreError;
use pinfold_proto::row::JobRow;
use pinfold_proto::view::FindingView;
use pinfold_proto::{JobSpec, JobState};

use super::Journal;
use crate::core::words::leads_to_a_start;
use crate::jobs::table::JobTable;
use crate::store::spare::{Kept, Spare};

/// What a row takes beside what was asked for, in bytes, with room for what is learned of it later.
const ROW_BYTES: usize = 2048;

/// What is in the spare room, and what is to be.
#[derive(Debug, Default)]
pub(super) struct Spared {
    /// The room; `None`: there is none (in tests).
    spare: Option<Spare>,
    /// Jobs that an earlier daemon kept there, and that are not over, until they are asked for.
    found: BTreeMap<JobId, JobRow>,
    /// Those of which the store has no row,
    unstored: BTreeSet<JobId>,
    /// and what was decided about those that the store does not know: when they were to start.
    granted_us: BTreeMap<JobId, Option<u64>>,
    /// What changed since the last time.
    pub(super) changed: BTreeSet<JobId>,
    /// What jobs will take that were accepted since then, in bytes.
    promised: usize,
    /// Jobs for which there was no room, which is told once.
    without: BTreeSet<JobId>,
    /// The file, since it was cleared and until somebody has that brought to disk.
    cleared: Option<PathBuf>,
}

/// What to do about a disk that is full, on which this state directory is.
pub(crate) fn way_out(state: &Path) -> String {
    let state = state.display();
    format!("free some space on the file system of {state} (`df {state}`)")
}

impl Journal {
    /// The same with room for rows that the store cannot take, and with what an earlier daemon kept there.
    pub(crate) fn with_spare(mut self, (spare, kept): (Spare, Vec<Kept>)) -> Self {
        self.spared.spare = Some(spare);
        if !kept.is_empty() {
            tracing::warn!(
                jobs = kept.len(),
                "found jobs that the store could not take, in the room kept for them"
            );
        }
        for Kept { row, decided, granted_us } in kept {
            let (job, stored) = (JobId(row.job), self.store.job(row.job).ok().flatten());
            self.store.numbers_from(row.job.saturating_add(1));
            if row.state == JobState::Exited {
                self.over.insert(job, (row, stored.is_some()));
            } else if stored.as_ref().is_none_or(|stored| stored.state != JobState::Exited) {
                if stored.is_none() {
                    self.spared.unstored.insert(job);
                }
                if decided {
                    self.spared.granted_us.insert(job, granted_us);
                }
                self.spared.found.insert(job, row);
            }
        }
        self
    }

    /// The jobs of an earlier life that are not over, by number. They are this daemon's to know from now on.
    ///
    /// # Errors
    /// As the store cannot be read.
    pub(crate) fn unfinished(&mut self) -> Result<Vec<JobRow>, StoreError> {
        let rows = self.store.unfinished()?;
        let rows = rows.into_iter().filter(|row| !self.over.contains_key(&JobId(row.job)));
        let mut all: BTreeMap<JobId, JobRow> = rows.map(|row| (JobId(row.job), row)).collect();
        all.append(&mut self.spared.found);
        Ok(all.into_values().collect())
    }

    /// Whether the store has a row of a job that was found.
    pub(crate) fn has_row_of(&self, job: JobId) -> bool {
        !self.spared.unstored.contains(&job)
    }

    /// When a job that was found was to start, if the store does not know the last that was decided about it.
    pub(crate) fn granted_unstored(&self, job: JobId) -> Option<Option<u64>> {
        self.spared.granted_us.get(&job).copied()
    }

    /// As [`Self::next_number`], for a job that asks for this: what its user is told is to be on disk by then.
    ///
    /// # Errors
    /// Also when neither the store nor the room kept for such times can take it.
    pub(crate) fn number_for(&mut self, spec: &JobSpec) -> Result<u64, String> {
        if let (Some(trouble), Some(spare)) = (&self.trouble, &self.spared.spare) {
            let asked = serde_json::to_vec(spec).map_or(0, |text| text.len());
            let bytes = asked + ROW_BYTES;
            let unfinished = spare.size_of(|job| !self.over.contains_key(&JobId(job)));
            if let Some((path, error)) = spare.missing() {
                let path = path.display();
                return Err(format!(
                    "the job store cannot be written, and no room could be kept for such times in {path} ({error}), so no \
                     job is taken until it can be; the job store: {trouble}"
                ));
            }
            if unfinished + self.spared.promised + bytes > spare.room() / 4 * 3 {
                return Err(format!(
                    "the job store cannot be written, and the room that is kept for such times is used up, so no \
                     further job is taken until there is room on the disk; the job store: {trouble}"
                ));
            }
            self.spared.promised += bytes;
        }
        self.next_number()
    }

    /// Whether there is no room for rows that the store cannot take, since the disk has none: it is tried again.
    pub(crate) fn lacks_spare(&self) -> bool {
        self.spared.spare.as_ref().is_some_and(Spare::lacks_room)
    }

    /// Makes the room for rows that the store cannot take, if there was none on the disk and is by now.
    pub(crate) fn make_spare(&mut self) {
        if let Some(spare) = self.spared.spare.as_mut().filter(|spare| spare.lacks_room()) {
            // What an earlier daemon kept there is older than what is known by now.
            drop(spare.open_again());
            if spare.missing().is_none() {
                tracing::info!("room is kept for jobs on a full disk from now on");
            }
        }
    }

    /// What users should know of that room.
    pub(super) fn spare_words(&self) -> Option<String> {
        let (path, error) = self.spared.spare.as_ref()?.missing()?;
        let path = path.display();
        Some(format!("no room for jobs is kept in {path} ({error}): on a full disk none would be accepted"))
    }

    /// What `doctor` tells of a store that cannot be written, and of that room.
    pub(crate) fn finding(&self) -> Option<FindingView> {
        let found = self.trouble.as_ref().map(|why| format!("the job store cannot be written: {why}"));
        let found: Vec<String> = found.into_iter().chain(self.spare_words()).collect();
        let path = self.store.path();
        let change = match self.is_full || self.lacks_spare() {
            true => {
                format!("{}; the daemon need not be started again", way_out(path.parent().unwrap_or(path)))
            }
            false => "mend what is said there, and start the daemon again".to_owned(),
        };
        (!found.is_empty()).then(|| FindingView {
            subject: "store".to_owned(),
            ok: false,
            found: found.join("; "),
            change: Some(change),
        })
    }

    /// All is in the store.
    pub(super) fn spare_is_over(&mut self, was_trouble: bool) {
        let spared = &mut self.spared;
        if !spared.found.is_empty() {
            return;
        }
        spared.changed.clear();
        spared.without.clear();
        spared.granted_us.clear();
        spared.promised = 0;
        if let Some(spare) = &mut spared.spare {
            spared.cleared = spare.clear().or(spared.cleared.take());
            if was_trouble {
                spare.open_again();
            }
        }
    }

    /// The file of the room, if it was cleared and is to be brought to disk behind the store's log; once.
    pub(crate) fn take_cleared(&mut self) -> Option<PathBuf> {
        self.spared.cleared.take()
    }

    /// Keeps what changed, while the store cannot be written.
    pub(super) fn spare_rows(&mut self, jobs: &JobTable) {
        if !self.spared.found.is_empty() {
            // Before those that were found are known, nothing of them changes.
            return;
        }
        let Some(mut spare) = self.spared.spare.take() else { return };
        self.spared.promised = 0;
        let changed = std::mem::take(&mut self.spared.changed);
        let kept = self.as_kept(jobs, changed.iter().copied());
        let all_fit =
            kept.iter().try_fold(true, |fit, kept| Ok::<_, std::io::Error>(fit && spare.add(kept)?));
        let done = match all_fit {
            Ok(false) => self.keep_anew(&mut spare, jobs),
            other => other.map(drop),
        };
        if let Err(error) = done {
            tracing::error!(%error, "changes of jobs are on no disk, nor can they be in the room kept for them");
            self.spared.changed = changed;
        }
        self.spared.spare = Some(spare);
    }

    /// Keeps all that the store does not know: first jobs that are not over, then the last of those that are.
    fn keep_anew(&mut self, spare: &mut Spare, jobs: &JobTable) -> std::io::Result<()> {
        let unfinished = self.as_kept(jobs, self.dirty.iter().chain(&self.later).copied());
        let over = self.as_kept(jobs, self.over.keys().rev().copied());
        let room = spare.room() / 4 * 3;
        let first = spare.rewrite(unfinished.iter())?;
        for kept in &over {
            if spare.size_of(|_| true) > room || !spare.add(kept)? {
                break;
            }
        }
        let without: BTreeSet<JobId> = unfinished[first..].iter().map(|kept| JobId(kept.row.job)).collect();
        if !without.is_subset(&self.spared.without) {
            let jobs: Vec<u64> = without.iter().map(|job| job.0).collect();
            tracing::error!(
                ?jobs,
                "changes of these jobs are on no disk: the room kept for such times is used up"
            );
        }
        self.spared.without = without;
        Ok(())
    }

    fn as_kept(&self, jobs: &JobTable, which: impl Iterator<Item = JobId>) -> Vec<Kept> {
        let which: BTreeSet<JobId> = which.collect();
        let mut decided: BTreeMap<JobId, Vec<(&str, u64)>> = BTreeMap::new();
        for row in self.decisions.iter().filter(|row| which.contains(&JobId(row.job))) {
            decided.entry(JobId(row.job)).or_default().push((&row.action, row.time_us));
        }
        let row_of = |job: &JobId| {
            let over = self.over.get(job).map(|(row, _)| row);
            over.or_else(|| jobs.get(job).map(|live| &live.row)).cloned()
        };
        let kept = |job: JobId| {
            let (row, decided) = (row_of(&job)?, decided.get(&job));
            // What an earlier daemon decided comes first.
            let before = self.spared.granted_us.get(&job);
            let start = before.copied().flatten().map(|at_us| ("start as ", at_us));
            let all = start.into_iter().chain(decided.into_iter().flatten().copied());
            let granted_us = leads_to_a_start(all);
            Some(Kept { row, decided: decided.is_some() || before.is_some(), granted_us })
        };
        which.into_iter().filter_map(kept).collect()
    }
}
