//! What each user may have wait for a store that cannot be written: places in the spare room, which are promised to jobs
//! as they are accepted, and rows of jobs that are over, in memory.
//!
//! Owns the books of both. Absent: the rows themselves, and the room.

use std::collections::BTreeMap;

use pinfold_policy::JobId;
use pinfold_profile::report::size;
use pinfold_proto::JobSpec;
use pinfold_proto::row::JobRow;
use pinfold_proto::wire::json_bytes;

use crate::clients::quota::{self, Book};

/// What a row takes beside what was asked for, in bytes, with room for what is learned of it later.
const ROW_BYTES: u64 = 2048;

/// So many parts of the room are promised to accepted jobs at most, of so many; the rest is for what becomes of jobs.
const PROMISED_PARTS: (u64, u64) = (3, 4);
/// The part of that which is for root, the daemon's own user and operators.
const RESERVE_PART: u64 = 8;

/// Whose job is to be accepted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asker {
    /// The user whose job it becomes.
    pub uid: u32,
    /// Whether root, the daemon's own user or an operator asks: for them there is a reserve.
    pub is_trusted: bool,
}

/// See the module's page. Sizes are in bytes.
#[derive(Debug, Default)]
pub(super) struct Promised {
    /// The place of each accepted job that the store does not have and that is not over, and whose it is.
    places: BTreeMap<JobId, (u32, u64)>,
    of_users: Book,
    /// Those whose numbers were given last: some become no job.
    fresh: Vec<JobId>,
    /// What is over and waits.
    ends: Book,
}

/// What the place of such a job is to be.
pub(super) fn place_bytes(spec: &JobSpec) -> u64 {
    json_bytes(spec) + ROW_BYTES
}

impl Promised {
    /// Whether such a place is there in a room of so many bytes.
    ///
    /// # Errors
    /// In words, when all is promised, or all that this user may have.
    pub(super) fn admit(&self, asker: Asker, bytes: u64, room: u64) -> Result<(), String> {
        let most = room / PROMISED_PARTS.1 * PROMISED_PARTS.0;
        let (own, all) = (self.of_users.own(asker.uid), self.of_users.all());
        if quota::has_place(own, bytes, all, most, most / RESERVE_PART, asker.is_trusted) {
            return Ok(());
        }
        if own > 0 && !asker.is_trusted {
            return Err(format!(
                "of the room that is kept for such times, jobs that you submitted since take {}, and the rest is for other \
                 users",
                size(own)
            ));
        }
        let (all, most) = (size(all), size(most));
        Err(format!("too little is left of the room that is kept for such times ({all} of {most} are taken)"))
    }

    /// Whether a job of this user may be taken, though its end will wait in memory.
    ///
    /// # Errors
    /// In words, when too much of the user's waits already.
    pub(super) fn admit_end(&self, asker: Asker, spec: &JobSpec) -> Result<(), String> {
        let (most, bytes) = (quota::ENDS_OF_USER_MAX, quota::job_bytes(spec, 0));
        if asker.is_trusted || self.ends.has_room(asker.uid, bytes, most) {
            return Ok(());
        }
        let own = size(self.ends.own(asker.uid));
        Err(format!("jobs of yours that are over take {own} of memory until they can be written"))
    }

    /// A job has a place from now on.
    pub(super) fn give(&mut self, job: JobId, uid: u32, bytes: u64) {
        self.take_back(job);
        self.places.insert(job, (uid, bytes));
        self.of_users.add(uid, bytes);
    }

    /// A job whose number was just given has a place, unless it becomes none.
    pub(super) fn give_fresh(&mut self, job: JobId, uid: u32, bytes: u64) {
        self.give(job, uid, bytes);
        self.fresh.push(job);
    }

    /// A job needs its place no more.
    pub(super) fn take_back(&mut self, job: JobId) {
        if let Some((uid, bytes)) = self.places.remove(&job) {
            self.of_users.take(uid, bytes);
        }
    }

    /// Numbers that were given and became no job have no place any more.
    pub(super) fn settle(&mut self, is_there: impl Fn(JobId) -> bool) {
        for job in std::mem::take(&mut self.fresh).into_iter().filter(|&job| !is_there(job)) {
            self.take_back(job);
        }
    }

    /// How large the place of a job is, if it has one.
    pub(super) fn of(&self, job: JobId) -> Option<u64> {
        self.places.get(&job).map(|&(_, bytes)| bytes)
    }

    /// These wait in memory, and no others.
    pub(super) fn count_ends<'a>(&mut self, rows: impl Iterator<Item = &'a JobRow>) {
        self.ends = Book::default();
        rows.for_each(|row| self.ends(row));
    }

    /// The last row of a job waits in memory.
    pub(super) fn ends(&mut self, row: &JobRow) {
        self.ends.add(row.uid, quota::job_bytes(&row.spec, 0));
    }

    /// Another takes its place.
    pub(super) fn ends_otherwise(&mut self, row: &JobRow) {
        self.ends.take(row.uid, quota::job_bytes(&row.spec, 0));
    }

    /// What the rows take that wait so.
    pub(super) fn ends_bytes(&self) -> u64 {
        self.ends.all()
    }
}
