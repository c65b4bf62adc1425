//! Directories in memory for jobs that ask for one: made before the job starts, gone when it is over, and bounded in
//! all. Owns which jobs have one; how they are made is `sys`'s.

use std::collections::BTreeMap;

use pinfold_policy::JobId;
use pinfold_proto::JobSpec;
use pinfold_proto::wire::ErrorCode;
use pinfold_sys::peer::Peer;
use pinfold_sys::scratch::{Scratch, ScratchError};

use crate::core::{Ctx, Refusal};
use crate::jobs::record::counted_bytes;

/// The jobs' directories in memory.
#[derive(Debug)]
pub(crate) struct Scratches {
    scratch: Scratch,
    /// What each counts for, in bytes; of one that an earlier daemon left that is known once it is looked up.
    jobs: BTreeMap<JobId, u64>,
}

impl Scratches {
    /// Those that an earlier daemon left are known.
    pub(crate) fn new(scratch: Scratch) -> Self {
        let jobs = scratch.list().into_iter().map(|job| (JobId(job), 0)).collect();
        Self { scratch, jobs }
    }

    /// Makes a job's, if it asks for one.
    pub(crate) fn make(&mut self, job: JobId, spec: &JobSpec, user: u32) -> Result<(), ScratchError> {
        let Some(bytes) = spec.tmp_bytes else { return Ok(()) };
        self.jobs.insert(job, counted_bytes(spec));
        self.scratch.make(job.0, bytes, user).map(drop)
    }

    /// What a job finds in `TMPDIR`. One with a `/tmp` of its own puts that in its place there.
    pub(crate) fn variable(&self, job: JobId, spec: &JobSpec) -> Option<String> {
        spec.tmp_bytes.map(|_| self.scratch.path(job.0).display().to_string())
    }

    /// Where a job's is, if it has one.
    pub(crate) fn of(&self, job: JobId) -> Option<&Scratch> {
        self.jobs.contains_key(&job).then_some(&self.scratch)
    }

    /// What a job's counts for, in bytes.
    pub(crate) fn bytes(&self, job: JobId) -> u64 {
        self.jobs.get(&job).copied().unwrap_or(0)
    }

    /// Those that have one.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.jobs.keys().copied()
    }

    /// What a job asked for whose directory an earlier daemon left.
    pub(crate) fn size_of(&mut self, job: JobId, spec: Option<&JobSpec>) {
        self.jobs.entry(job).and_modify(|bytes| *bytes = spec.map_or(0, counted_bytes));
    }

    /// A job's is gone.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }

    pub(crate) fn has(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job)
    }

    /// The daemon ends: those of jobs that run stay.
    pub(crate) fn close(&self) {
        self.scratch.close();
    }
}

impl Scratches {
    /// Checks a job's wish for a directory in memory against what there can be.
    pub(crate) fn admit_tmp(&self, ctx: &Ctx, user: Peer, spec: &JobSpec) -> Result<(), Refusal> {
        let Some(bytes) = spec.tmp_bytes else { return Ok(()) };
        let total = tmp_total_bytes(ctx);
        if bytes > total {
            let size = pinfold_proto::quantity::show_size;
            let text = format!(
                "--tmp {} is more than all jobs may have, {} (`tmp.total`)",
                size(bytes),
                size(total)
            );
            return Err((ErrorCode::Refused, text));
        }
        if !self.scratch.serves(user.uid) {
            let text = "--tmp for another user than the daemon's own needs a daemon of root's";
            return Err((ErrorCode::Refused, text.to_owned()));
        }
        Ok(())
    }
}

/// What all directories in memory may come to, in bytes.
pub(crate) fn tmp_total_bytes(ctx: &Ctx) -> u64 {
    let half = || ctx.proc.memory_info().map_or(u64::MAX, |info| info.total_bytes / 2);
    ctx.configured.config.tmp_total.unwrap_or_else(half)
}
