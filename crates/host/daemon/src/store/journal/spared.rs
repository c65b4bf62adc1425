//! Rows of jobs that the store cannot take, in the room that was kept for them (`store::spare`): what was accepted is
//! on disk before its number is told, and is found again by the next daemon.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use pinfold_policy::JobId;
use pinfold_profile::store::StoreError;
use pinfold_proto::row::JobRow;
use pinfold_proto::view::FindingView;
use pinfold_proto::{JobSpec, JobState};

use super::Journal;
use super::promised::{Asker, Promised, place_bytes};
use crate::core::words::leads_to_a_start;
use crate::jobs::table::JobTable;
use crate::store::spare::{Kept, Spare};

/// How many jobs a line of the log names.
const NAMED_MAX: usize = 8;

/// Where less than this is left of the room, in bytes, no row is tried any more: none is as short.
const ROW_LEAST: usize = 256;

/// What is in the spare room, and what is to be.
#[derive(Debug, Default)]
pub(super) struct Spared {
    /// The room; `None`: there is none (in tests).
    pub(super) spare: Option<Spare>,
    /// Jobs that an earlier daemon kept there, and that are not over, until they are asked for.
    found: BTreeMap<JobId, JobRow>,
    /// Those of which the store has no row,
    unstored: BTreeSet<JobId>,
    /// and what was decided about those that the store does not know: when they were to start.
    granted_us: BTreeMap<JobId, Option<u64>>,
    /// What changed since the last time.
    pub(super) changed: BTreeSet<JobId>,
    /// Whether the room has less than it should: all is to be kept anew.
    anew: bool,
    /// What each user has in it, and in memory.
    pub(super) promised: Promised,
    /// Jobs for which there was no room, which is told once.
    without: BTreeSet<JobId>,
    /// The file, since it was cleared and until somebody has that brought to disk.
    cleared: Option<PathBuf>,
}

/// Why a row is kept; those that come first are kept first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    /// The job was accepted, the store has no row of it, and it has a place.
    Accepted,
    /// The same without a place: it was accepted before it was known that the store cannot be written.
    Placeless,
    /// It was decided to start, it runs or is over: without that it might run twice.
    Act,
    /// Something else about a job that the store has.
    Change,
    /// It is over, and the store never had it: if nothing is kept of it, nothing runs either.
    Over,
}

impl Why {
    /// How much of a room may be taken once such a row is in it. An eighth at least is left for what changes then: only
    /// when that is used up all is written anew.
    fn most(self, room: usize) -> usize {
        match self {
            Self::Accepted => room,
            Self::Placeless | Self::Over => room / 4 * 3,
            Self::Act | Self::Change => room / 8 * 7,
        }
    }
}

/// Decisions that the store does not know, by job: what, and when.
type Decided<'a> = BTreeMap<JobId, Vec<(&'a str, u64)>>;

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
        kept.into_iter().for_each(|kept| self.found(kept));
        self
    }

    fn found(&mut self, kept: Kept) {
        let (job, stored) = (JobId(kept.row.job), self.store.job(kept.row.job).ok().flatten());
        self.store.numbers_from(job.0.saturating_add(1));
        let Kept { row, decided, granted_us, is_brief } = match &stored {
            Some(stored) => kept.completed(stored, false),
            None => kept,
        };
        if is_brief {
            let path = self.store.path().display();
            tracing::error!(%job, %path, "the store has lost this job, of which only changes were kept beside it");
        } else if row.state == JobState::Exited {
            self.over.insert(job, (row, stored.is_some()));
        } else if stored.as_ref().is_none_or(|stored| stored.state != JobState::Exited) {
            if stored.is_none() {
                self.spared.unstored.insert(job);
                self.spared.promised.give(job, row.uid, place_bytes(&row.spec));
            }
            if decided {
                self.spared.granted_us.insert(job, granted_us);
            }
            self.spared.found.insert(job, row);
        }
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

    /// As [`Self::next_number`], for a job of this user's that asks for this: what its user is told is to be on disk by then.
    ///
    /// # Errors
    /// Also when neither the store nor the room kept for such times can take it, or this user has enough in there.
    pub(crate) fn number_for(&mut self, spec: &JobSpec, asker: Asker) -> Result<u64, String> {
        let Some(trouble) = &self.trouble else { return self.next_number() };
        let refused = |why: String| {
            Err(format!(
                "the job store cannot be written, and {why}, so no further job is taken until there is room on the disk; \
                 the job store: {trouble}"
            ))
        };
        if let Err(why) = self.spared.promised.admit_end(asker, spec) {
            return refused(why);
        }
        let Some(spare) = &self.spared.spare else { return self.next_number() };
        if let Some((path, error)) = spare.missing() {
            let path = path.display();
            return Err(format!(
                "the job store cannot be written, and no room could be kept for such times in {path} ({error}), so no \
                 job is taken until it can be; the job store: {trouble}"
            ));
        }
        let bytes = place_bytes(spec);
        if let Err(why) = self.spared.promised.admit(asker, bytes, spare.room() as u64) {
            return refused(why);
        }
        let job = self.next_number()?;
        self.spared.promised.give_fresh(JobId(job), asker.uid, bytes);
        Ok(job)
    }

    /// Whether there is no room for rows that the store cannot take, since the disk has none: it is tried again.
    pub(crate) fn lacks_spare(&self) -> bool {
        self.spared.spare.as_ref().is_some_and(Spare::lacks_room)
    }

    /// Makes the room for rows that the store cannot take, if there was none on the disk and is by now.
    pub(crate) fn make_spare(&mut self) {
        if let Some(spare) = self.spared.spare.as_mut().filter(|spare| spare.lacks_room()) {
            self.spared.cleared = spare.have_again().or(self.spared.cleared.take());
            if spare.missing().is_none() {
                self.spared.anew = true;
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
        spared.promised = Promised::default();
        spared.anew = false;
        if let Some(spare) = &mut spared.spare {
            spared.cleared = spare.clear().or(spared.cleared.take());
            if was_trouble {
                spared.cleared = spare.have_again().or(spared.cleared.take());
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
        self.spared.promised.settle(|job| jobs.contains_key(&job));
        let changed = std::mem::take(&mut self.spared.changed);
        if let Err(error) = self.keep(&mut spare, jobs, &changed) {
            tracing::error!(%error, "changes of jobs are on no disk, nor can they be in the room kept for them");
            self.spared.changed = changed;
        }
        self.spared.spare = Some(spare);
    }

    fn keep(&mut self, spare: &mut Spare, jobs: &JobTable, changed: &BTreeSet<JobId>) -> io::Result<()> {
        if changed.is_empty() && !self.spared.anew {
            return Ok(());
        }
        self.give_places(spare, jobs, changed);
        if !self.spared.anew {
            let decided = self.decided_about(|job| changed.contains(&job));
            let mut all_fit = true;
            for &job in changed {
                let Some((row, stored)) = self.row_of(jobs, job) else { continue };
                let is_brief = stored || spare.has_whole(job.0);
                all_fit = all_fit && spare.add(&self.as_kept(row, &decided, is_brief))?;
            }
            if all_fit {
                return Ok(());
            }
        }
        self.spared.anew = true;
        self.keep_anew(spare, jobs)?;
        self.spared.anew = false;
        Ok(())
    }

    /// Jobs that were accepted before it was known that the store cannot be written have places as far as they may.
    fn give_places(&mut self, spare: &Spare, jobs: &JobTable, changed: &BTreeSet<JobId>) {
        for &job in changed {
            let Some(live) = jobs.get(&job).filter(|live| !live.stored) else { continue };
            let (asker, bytes) =
                (Asker { uid: live.row.uid, is_trusted: false }, place_bytes(&live.row.spec));
            let promised = &mut self.spared.promised;
            if promised.of(job).is_none() && promised.admit(asker, bytes, spare.room() as u64).is_ok() {
                promised.give(job, asker.uid, bytes);
            }
        }
    }

    /// Keeps all that the store does not know, as far as there is room: [`Why`] has the order.
    fn keep_anew(&mut self, spare: &mut Spare, jobs: &JobTable) -> io::Result<()> {
        let decided = self.decided_about(|_| true);
        let (room, mut anew, mut without) = (spare.room(), spare.anew(), BTreeSet::new());
        let (accepted, mut rest) = self.in_order(jobs, &decided);
        let mut shortened = Vec::new();
        for job in accepted {
            let Some((row, _)) = self.row_of(jobs, job) else { continue };
            let place = usize::try_from(self.spared.promised.of(job).unwrap_or(0)).unwrap_or(0);
            let most = (anew.bytes() + place).min(Why::Accepted.most(room));
            let kept = self.as_kept(row, &decided, false);
            if anew.add(&kept, most) {
                continue;
            }
            // What made it grow is what its user may change: that takes no other's place.
            if anew.add(&without_comments(kept), most) {
                shortened.push((Why::Change, job));
            } else {
                rest.insert(0, (Why::Placeless, job));
            }
        }
        rest.append(&mut shortened);
        let mut full = BTreeSet::new();
        for (why, job) in rest {
            let Some((row, stored)) = self.row_of(jobs, job) else { continue };
            let most = why.most(room);
            // A user's row that finds no room ends the search for all of that user's: there may be thousands.
            let is_tried = anew.bytes() + ROW_LEAST <= most && !full.contains(&(why, row.uid));
            let is_brief = stored || why == Why::Change;
            if !is_tried || !anew.add(&self.as_kept(row, &decided, is_brief), most) {
                full.insert((why, row.uid));
                if why != Why::Over {
                    without.insert(job);
                }
            }
        }
        spare.replace(anew)?;
        self.tell_of_those(without);
        Ok(())
    }

    /// Accepted jobs that have places; and all others of which something is to be kept, by what it is, and in turns of their
    /// users: however many one has, those of others are kept first.
    fn in_order(&self, jobs: &JobTable, decided: &Decided<'_>) -> (Vec<JobId>, Vec<(Why, JobId)>) {
        let (mut accepted, mut rest) = (Vec::new(), Vec::new());
        let mut counts: BTreeMap<(Why, u32), usize> = BTreeMap::new();
        let live: BTreeSet<JobId> =
            self.dirty.iter().chain(&self.later).chain(decided.keys()).copied().collect();
        let live = live.into_iter().filter(|job| !self.over.contains_key(job));
        for job in live.chain(self.over.keys().rev().copied()) {
            let Some((row, stored)) = self.row_of(jobs, job) else { continue };
            let why = self.why(row, stored, decided);
            if why == Why::Accepted {
                accepted.push(job);
                continue;
            }
            let count = counts.entry((why, row.uid)).or_default();
            rest.push((why, *count, job));
            *count += 1;
        }
        // Those of one user stay in their order.
        rest.sort_by_key(|&(why, count, _)| (why, count));
        (accepted, rest.into_iter().map(|(why, _, job)| (why, job)).collect())
    }

    fn why(&self, row: &JobRow, stored: bool, decided: &Decided<'_>) -> Why {
        let job = JobId(row.job);
        let is_decided = decided.contains_key(&job) || self.spared.granted_us.contains_key(&job);
        match (stored, row.state == JobState::Exited) {
            (false, true) => Why::Over,
            (false, false) if self.spared.promised.of(job).is_some() => Why::Accepted,
            (false, false) => Why::Placeless,
            (true, false) if row.started_us.is_none() && !is_decided => Why::Change,
            (true, _) => Why::Act,
        }
    }

    fn tell_of_those(&mut self, without: BTreeSet<JobId>) {
        if !without.is_subset(&self.spared.without) {
            let jobs: Vec<u64> = without.iter().take(NAMED_MAX).map(|job| job.0).collect();
            tracing::error!(
                ?jobs,
                in_all = without.len(),
                "changes of these jobs are on no disk: the room kept for such times is used up"
            );
        }
        self.spared.without = without;
    }

    fn decided_about(&self, which: impl Fn(JobId) -> bool) -> Decided<'_> {
        let mut decided = Decided::new();
        for row in self.decisions.iter().filter(|row| which(JobId(row.job))) {
            decided.entry(JobId(row.job)).or_default().push((&row.action, row.time_us));
        }
        decided
    }

    /// A job's row as it is to be kept, and whether the store has one of it.
    fn row_of<'a>(&'a self, jobs: &'a JobTable, job: JobId) -> Option<(&'a JobRow, bool)> {
        let over = self.over.get(&job).map(|(row, stored)| (row, *stored));
        over.or_else(|| jobs.get(&job).map(|live| (&live.row, live.stored)))
    }

    fn as_kept(&self, row: &JobRow, decided: &Decided<'_>, is_brief: bool) -> Kept {
        let job = JobId(row.job);
        // What an earlier daemon decided comes first.
        let (before, decided) = (self.spared.granted_us.get(&job), decided.get(&job));
        let start = before.copied().flatten().map(|at_us| ("start as ", at_us));
        let granted_us = leads_to_a_start(start.into_iter().chain(decided.into_iter().flatten().copied()));
        let decided = decided.is_some() || before.is_some();
        let kept = Kept { row: row.clone(), decided, granted_us, is_brief: false };
        if is_brief { kept.in_brief() } else { kept }
    }
}

fn without_comments(mut kept: Kept) -> Kept {
    (kept.row.spec.terms.comment, kept.row.reason) = (None, None);
    kept
}
