//! Starts of jobs that are over, kept for a while for `pinfold again`: files `JOB.UID.END` in `STATE/ended`, with the end in
//! Unix seconds. They count for their user's quota of starts, and give way to the starts of jobs that are not over.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use pinfold_policy::JobId;
use pinfold_proto::row::JobRow;
use pinfold_proto::start::Start;

use super::{Kept, Starts, kept_as, read};
use crate::core::crash;

/// The most starts of one user, and how long each is kept. Both stand in docs/jobs.md and in a refusal.
pub(crate) const ENDED_MAX: usize = 100;
pub(crate) const ENDED_DAYS: u64 = 7;

/// The start of a job that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended {
    pub(super) kept: Kept,
    end_s: u64,
}

/// The files that an earlier daemon left, by the numbers of jobs and arrays.
pub(super) fn open(directory: &Path) -> BTreeMap<u64, Ended> {
    let read = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let numbers: Option<Vec<u64>> = name.split('.').map(|number| number.parse().ok()).collect();
        let [job, uid, end_s] = numbers?[..] else { return None };
        let bytes = entry.metadata().map_or(0, |found| found.len());
        Some((job, Ended { kept: Kept { uid: u32::try_from(uid).ok()?, bytes }, end_s }))
    };
    fs::read_dir(directory).into_iter().flatten().flatten().filter_map(read).collect()
}

impl Starts {
    /// The start of a job, waiting, running or over; `None`: it is not kept, or not any more.
    pub(crate) fn of(&self, row: &JobRow) -> io::Result<Option<Start>> {
        let job = kept_as(row);
        match self.ended.get(&job.0).filter(|ended| ended.kept.uid == row.uid) {
            Some(&ended) => read(&self.ended_path(job.0, ended)),
            None => self.read(job),
        }
    }

    /// A job, or an array as a whole, is over.
    pub(super) fn end(&mut self, job: JobId, now_us: u64) {
        crash::point("before a start is forgotten");
        let Some(kept) = self.kept.remove(&job.0) else { return };
        let ended = Ended { kept, end_s: now_us / 1_000_000 };
        self.ended.insert(job.0, ended);
        let directory = self.directory.with_file_name("ended");
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        let kept_on = made.and_then(|()| fs::rename(self.path(job), self.ended_path(job.0, ended)));
        if let Err(error) = kept_on {
            tracing::warn!(job = job.0, %error, "cannot keep the start of a job that is over");
            let _ = fs::remove_file(self.path(job));
            self.drop_ended([job.0]);
        }
        if self.ended_of(kept.uid).count() > ENDED_MAX {
            self.drop_oldest(kept.uid);
        }
    }

    /// Drops the oldest start of a user's jobs that are over; says whether there was one.
    pub(super) fn drop_oldest(&mut self, uid: u32) -> bool {
        let oldest = self.ended_of(uid).next();
        self.drop_ended(oldest);
        oldest.is_some()
    }

    /// Drops the starts of jobs that ended too long ago.
    pub(crate) fn drop_old(&mut self, now_us: u64) {
        let since_s = (now_us / 1_000_000).saturating_sub(ENDED_DAYS * 86_400);
        let old = self.ended.iter().filter(|(_, ended)| ended.end_s < since_s).map(|(&job, _)| job);
        let old: Vec<u64> = old.collect();
        self.drop_ended(old);
    }

    fn drop_ended(&mut self, jobs: impl IntoIterator<Item = u64>) {
        for job in jobs {
            let Some(ended) = self.ended.remove(&job) else { continue };
            self.sizes.take(ended.kept.uid, ended.kept.bytes);
            let _ = fs::remove_file(self.ended_path(job, ended));
        }
    }

    fn ended_of(&self, uid: u32) -> impl Iterator<Item = u64> + '_ {
        self.ended.iter().filter(move |(_, ended)| ended.kept.uid == uid).map(|(&job, _)| job)
    }

    fn ended_path(&self, job: u64, Ended { kept, end_s }: Ended) -> PathBuf {
        self.directory.with_file_name("ended").join(format!("{job}.{}.{end_s}", kept.uid))
    }
}
