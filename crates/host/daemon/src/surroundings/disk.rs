//! Directories on a disk for jobs that ask for one: made before the job starts, gone when it is over, each kept to its size
//! where the file system does that, and bounded in all. A job that has its slot and finds no room waits for it there, in the
//! order in which jobs were asked for. Owns which jobs have one, and which wait; how they are made is `sys`'s.
//!
//! Where they are is the site's to say, and may be said anew while jobs run: each place in which any was made is kept in a
//! file of the state directory until none is left in it, so that what a daemon leaves is found by the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use pinfold_policy::JobId;
use pinfold_proto::JobSpec;
use pinfold_proto::quantity::show_size;
use pinfold_proto::view::FindingView;
use pinfold_proto::wire::ErrorCode;
use pinfold_sys::mode::Facts;
use pinfold_sys::peer::Peer;
use pinfold_sys::scratch::{Scratch, ScratchError};

use crate::core::{Ctx, Outbox, Refusal, in_full};
use crate::jobs::{JobTable, starting};
use crate::store::journal::Journal;
use crate::store::state_dir::write_whole;
use crate::surroundings::unready::Unready;

const FILE: &str = "disks";

/// The jobs' directories on disks.
#[derive(Debug)]
pub(crate) struct Disks {
    /// Where any was made, or may be.
    places: Vec<Scratch>,
    noted: PathBuf,
    /// The place of each job that has one, and its size; of one that an earlier daemon left the size is not known.
    jobs: BTreeMap<JobId, (usize, u64)>,
    /// Jobs that may start and have no room.
    waiting: BTreeSet<JobId>,
}

impl Disks {
    /// Those that an earlier daemon left are known.
    pub(crate) fn open(state: &Path, facts: &Facts, instance: &str) -> Self {
        let noted = state.join(FILE);
        let text = pinfold_sys::files::read_regular(&noted).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let place = |line: &str| Scratch::on_disk(Path::new(line), facts, instance);
        let places: Vec<Scratch> = text.lines().map(place).collect();
        let mut jobs = BTreeMap::new();
        for (number, place) in places.iter().enumerate() {
            jobs.extend(place.list().into_iter().map(|job| (JobId(job), (number, 0))));
        }
        Self { places, noted, jobs, waiting: BTreeSet::new() }
    }

    /// The place that is this directory, noted before anything is made in it.
    fn place(&mut self, directory: &Path, facts: &Facts, instance: &str) -> std::io::Result<usize> {
        let found = Scratch::on_disk(directory, facts, instance);
        if let Some(number) = self.places.iter().position(|place| place.root() == directory) {
            // Quotas may have been switched on or off since.
            self.places[number] = found;
            return Ok(number);
        }
        self.places.push(found);
        // Whole or not at all: the file is all that tells of directories in earlier places.
        let written = write_whole(&self.noted, &self.places.iter().map(line).collect::<String>());
        if written.is_err() {
            self.places.pop();
        }
        written.map(|()| self.places.len() - 1)
    }

    /// Makes the instance's directory where the configuration says, before any job needs it: where all may make files,
    /// somebody else could take its name.
    pub(crate) fn claim(&mut self, ctx: &Ctx) {
        let Some(place) = disk_place(ctx) else { return };
        let noted = self.place(place.root(), &ctx.containers.plan().facts, &ctx.instance);
        if let Err(error) = noted {
            tracing::warn!(path = %self.noted.display(), %error, "a place for directories is not noted");
        }
        if let Err(error) = place.claim() {
            tracing::error!(error = %in_full(&error), "no job can have --disk");
        }
    }

    /// What a job finds in `PINFOLD_DISK_DIR`.
    pub(crate) fn variable(&self, job: JobId) -> Option<String> {
        let (place, _) = self.jobs.get(&job)?;
        Some(self.places[*place].path(job.0).display().to_string())
    }

    /// Whether a job has one.
    pub(crate) fn has(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job)
    }

    /// Whether a job waits for room; it does no more.
    pub(crate) fn stops_waiting(&mut self, job: JobId) -> bool {
        self.waiting.remove(&job)
    }

    /// Where a job's is, if it has one.
    pub(crate) fn of(&self, job: JobId) -> Option<&Scratch> {
        self.jobs.get(&job).and_then(|&(place, _)| self.places.get(place))
    }

    /// Those that have one.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.jobs.keys().copied()
    }

    /// What a job asked for whose directory an earlier daemon left.
    pub(crate) fn size_of(&mut self, job: JobId, spec: Option<&JobSpec>) {
        let bytes = spec.and_then(|spec| spec.disk_bytes).unwrap_or(0);
        self.jobs.entry(job).and_modify(|(_, size)| *size = bytes);
    }

    /// A job's is gone.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }

    /// The daemon ends: those of jobs that run stay, and where the next daemon is to make more, the instance's own.
    pub(crate) fn close(&self, ctx: &Ctx) {
        let configured = ctx.configured.config.modules_disk.as_deref().map(Path::new);
        self.close_but(configured.filter(|_| !ctx.options.private));
    }

    fn close_but(&self, kept: Option<&Path>) {
        let used: BTreeSet<usize> = self.jobs.values().map(|&(place, _)| place).collect();
        let (mut left, mut is_any_left) = (String::new(), false);
        for (number, place) in self.places.iter().enumerate() {
            let is_kept = kept == Some(place.root());
            if !is_kept {
                place.close();
            }
            if is_kept || used.contains(&number) {
                (left, is_any_left) = (left + &line(place), true);
            }
        }
        if !is_any_left {
            let _ = std::fs::remove_file(&self.noted);
        } else if let Err(error) = write_whole(&self.noted, &left) {
            tracing::debug!(%error, "places that are not used any more stay noted");
        }
    }
}

/// A place as it is noted.
fn line(place: &Scratch) -> String {
    format!("{}\n", place.root().display())
}

impl Disks {
    /// Makes a job's, if it asks for one. `None`: there is no room for it, and it waits.
    ///
    /// # Errors
    /// Why it cannot be made.
    pub(crate) fn make_disk(
        &mut self,
        ctx: &Ctx,
        journal: &mut Journal,
        table: &mut JobTable,
        job: JobId,
    ) -> Option<Result<(), Unready>> {
        let live = table.get(&job)?;
        let (Some(bytes), user) = (live.row.spec.disk_bytes, live.row.uid) else { return Some(Ok(())) };
        let Some(place) = disk_place(ctx) else {
            return Some(Err(Unready::Failed("`modules.disk` names no directory any more".to_owned())));
        };
        let taken = self.jobs.iter().filter(|(other, _)| **other != job);
        let taken = taken.map(|(_, (_, bytes))| *bytes).fold(0, u64::saturating_add);
        let left = disk_total_bytes(ctx, &place).saturating_sub(taken);
        let earlier = self.is_behind(table, job, user, left);
        // The last one to have it gets it however the configuration was changed since it was asked for.
        if taken > 0 && (bytes > left || earlier) {
            self.waiting.insert(job);
            let live = table.get_mut(&job)?;
            live.row.reason = Some(format!(
                "its --disk of {} does not fit beside those of other jobs: `modules.disk_total` leaves {}",
                show_size(bytes),
                show_size(left)
            ));
            journal.touch(job);
            return None;
        }
        self.waiting.remove(&job);
        let made = self.make_disk_in(ctx, job, place.root(), bytes, user);
        Some(made)
    }

    /// Whether one that waits since before a user's job is to have room first. One that would have room without the
    /// directories of its own user's jobs keeps back that user's jobs alone: that user decides how long this lasts.
    fn is_behind(&self, table: &JobTable, job: JobId, user: u32, left: u64) -> bool {
        let mut held_up = BTreeSet::new();
        for first in self.waiting.range(..job).filter_map(|first| table.get(first)) {
            let owner = first.row.uid;
            let waits = first.granted && first.container.is_none();
            if !waits || (owner != user && held_up.contains(&owner)) {
                continue;
            }
            let lacking = first.row.spec.disk_bytes.unwrap_or(0).saturating_sub(left);
            let is_own = |other: &JobId| table.get(other).is_some_and(|live| live.row.uid == owner);
            let own = self.jobs.iter().filter(|(other, _)| is_own(other)).map(|(_, &(_, bytes))| bytes);
            let is_held_up = lacking > 0 && lacking <= own.fold(0, u64::saturating_add);
            if owner == user || !is_held_up {
                return true;
            }
            held_up.insert(owner);
        }
        false
    }

    fn make_disk_in(
        &mut self,
        ctx: &Ctx,
        job: JobId,
        root: &Path,
        bytes: u64,
        user: u32,
    ) -> Result<(), Unready> {
        let facts = &ctx.containers.plan().facts;
        let place = self.place(root, facts, &ctx.instance);
        let not_now = |error| Unready::NotNow(format!("failed to note {}: {error}", root.display()));
        let place = place.map_err(not_now)?;
        self.jobs.insert(job, (place, bytes));
        Ok(self.places[place].make(job.0, bytes, user).map(drop)?)
    }

    /// There may be room again: jobs that wait for it are started in order.
    pub(crate) fn give_disk_room(&mut self, out: &mut Outbox, table: &JobTable) {
        let waiting: Vec<JobId> = self.waiting.iter().copied().collect();
        for job in waiting {
            if table.get(&job).is_some_and(|live| live.granted && live.container.is_none()) {
                starting::start_again(out, table, job);
            } else {
                self.waiting.remove(&job);
            }
        }
    }
}

/// The place that the configuration names, as it is now.
fn disk_place(ctx: &Ctx) -> Option<Scratch> {
    let directory = ctx.configured.config.modules_disk.as_deref()?;
    Some(Scratch::on_disk(Path::new(directory), &ctx.containers.plan().facts, &ctx.instance))
}

/// What all directories in a place may come to, in bytes.
fn disk_total_bytes(ctx: &Ctx, place: &Scratch) -> u64 {
    let half = || place.capacity_bytes().unwrap_or(0) / 2;
    ctx.configured.config.modules_disk_total.unwrap_or_else(half)
}

/// Checks a job's wish for a directory on a disk against what there can be.
pub(crate) fn admit_disk(ctx: &Ctx, user: Peer, spec: &JobSpec) -> Result<(), Refusal> {
    let Some(bytes) = spec.disk_bytes else { return Ok(()) };
    let refuse = |text: String| Err((ErrorCode::Refused, text));
    let Some(place) = disk_place(ctx) else {
        return refuse("--disk: this host has no place for it (`modules.disk` names a directory)".to_owned());
    };
    let root = place.root().display().to_string();
    if place.capacity_bytes().is_none() {
        return refuse(format!("--disk: {root} cannot be read (`modules.disk`)"));
    }
    if let Err(error) = place.look() {
        return refuse(format!("--disk: {} (`modules.disk`)", in_full(&error)));
    }
    if !place.is_enforced() && !ctx.configured.config.modules_disk_unbounded {
        return refuse(format!(
            "--disk: nothing would keep the job to its size in {root}: that takes a daemon of root's and a file system \
             with project quotas (mount option prjquota), or `modules.disk_unbounded=on`"
        ));
    }
    let total = disk_total_bytes(ctx, &place);
    if bytes > total {
        let (bytes, total) = (show_size(bytes), show_size(total));
        return refuse(format!(
            "--disk {bytes} is more than all jobs may have, {total} (`modules.disk_total`)"
        ));
    }
    if !place.serves(user.uid) {
        return refuse("--disk for another user than the daemon's own needs a daemon of root's".to_owned());
    }
    let hidden = ["/tmp", "/var/tmp"].into_iter().find(|hidden| place.root().starts_with(hidden));
    match hidden.filter(|_| spec.private_tmp) {
        Some(hidden) => {
            refuse(format!("--disk lies in {root}, and with --private-tmp a job does not see {hidden}"))
        }
        None => Ok(()),
    }
}

/// What doctor says of it.
pub(crate) fn disk_finding(ctx: &Ctx) -> FindingView {
    let subject = "disk".to_owned();
    let Some(place) = disk_place(ctx) else {
        let (found, change) = ("no job can have --disk: no directory is named for it", "set `modules.disk`");
        return FindingView { subject, ok: true, found: found.to_owned(), change: Some(change.to_owned()) };
    };
    if let Err(error) = place.look() {
        let found = format!("no job can have --disk: {}", in_full(&error));
        let change = match error {
            ScratchError::Foreign { .. } => {
                "remove it; pinfold makes its own when it starts, and when `modules.disk` is set"
            }
            _ => "set `modules.disk` to a directory that this daemon can use",
        };
        return FindingView { subject, ok: false, found, change: Some(change.to_owned()) };
    }
    let root = place.root().display();
    if place.is_enforced() {
        let found = format!("--disk is a directory in {root}, kept to its size by a project quota");
        return FindingView { subject, ok: true, found, change: None };
    }
    let found = format!("--disk is a directory in {root}, and nothing keeps a job to the size asked for");
    let change = "run the daemon as root, on a file system with project quotas (mount option prjquota)";
    FindingView { subject, ok: false, found, change: Some(change.to_owned()) }
}

#[cfg(test)]
mod tests;
