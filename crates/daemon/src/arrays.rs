//! Arrays of jobs: which are members of which, and what a name of members means.
//!
//! A client submits the members of an array one by one, over one connection; the first of them gives the array its
//! number, so that nobody can put a job into an array of somebody else's. Absent here: how many members may have started
//! (`policy`), and what is done to each, which is done to jobs.

use std::collections::BTreeMap;

use pinfold_policy::JobId;
use pinfold_proto::JobSpec;
use pinfold_proto::array::{INDEX_MAX, JobName};
use pinfold_proto::row::JobRow;
use pinfold_proto::wire::{ErrorCode, Member, Members};
use pinfold_sys::peer::Peer;

use crate::daemon::Daemon;
use crate::event::ConnectionId;
use crate::rights::{self, Refusal, denied};

/// The most jobs that one question may be about.
const NAMED_MAX: usize = 100_000;

/// The array whose members come over each connection.
pub(crate) type Arriving = BTreeMap<ConnectionId, u64>;

/// Checks what a client says of a job's place in an array.
pub(crate) fn within_bounds(spec: &JobSpec) -> Result<(), Refusal> {
    let Some(array) = spec.array else { return Ok(()) };
    if array.index > INDEX_MAX {
        let text = format!("--array: {} is too large for an index; {INDEX_MAX} is the largest", array.index);
        return Err((ErrorCode::Usage, text));
    }
    if array.at_most == Some(0) {
        let text = "--array: at least one member must be able to start (%1)";
        return Err((ErrorCode::Usage, text.to_owned()));
    }
    Ok(())
}

impl Daemon {
    /// Gives a new job its place: in the array whose members come over this connection, or as the first of a new one.
    pub(crate) fn place_in_array(&mut self, id: ConnectionId, job: u64, spec: &mut JobSpec) {
        if let Some(array) = &mut spec.array {
            array.array = Some(*self.arriving.entry(id).or_insert(job));
        }
    }

    /// The members of an array that are not over.
    pub(crate) fn live_members(&self, array: u64) -> impl Iterator<Item = (JobId, u32)> + '_ {
        // The array has its number from the first of them.
        self.jobs.range(JobId(array)..).filter_map(move |(&job, live)| {
            let place = live.row.spec.array.filter(|place| place.array == Some(array))?;
            Some((job, place.index))
        })
    }

    /// Whether any member of an array is not over.
    pub(crate) fn has_members(&self, array: u64) -> bool {
        self.live_members(array).next().is_some()
    }

    /// The jobs that a job which is to start after these names must wait for.
    pub(crate) fn predecessors(&self, names: &[JobName]) -> Vec<JobId> {
        let mut all = Vec::new();
        for name in names {
            let wanted = |index: u32| name.indexes.as_ref().is_none_or(|indexes| indexes.contains(&index));
            let before = all.len();
            all.extend(self.live_members(name.job).filter(|&(_, index)| wanted(index)).map(|(job, _)| job));
            if all.len() == before && name.indexes.is_none() {
                all.push(JobId(name.job));
            }
        }
        all
    }

    /// Whether there is or was all that a name means.
    pub(crate) fn was_asked_for(&mut self, name: &JobName) -> bool {
        let known = self.jobs.contains_key(&JobId(name.job)) || self.stored_row(JobId(name.job)).is_some();
        match &name.indexes {
            None => known,
            Some(indexes) => {
                let members = self.all_members(name.job);
                indexes.iter().all(|index| members.contains_key(index))
            }
        }
    }

    /// All members of an array that are known, by index.
    fn all_members(&mut self, array: u64) -> BTreeMap<u32, u64> {
        let stored = self.journal.store().members(array).unwrap_or_default();
        let mut all: BTreeMap<u32, u64> = stored.into_iter().collect();
        // What the store does not have yet lives, or is about to be written.
        all.extend(self.live_members(array).map(|(job, index)| (index, job.0)));
        for row in self.journal.all_unwritten() {
            if let Some(place) = row.spec.array.filter(|place| place.array == Some(array)) {
                all.insert(place.index, row.job);
            }
        }
        all
    }

    /// The jobs that each name means.
    pub(crate) fn members(&mut self, user: Peer, names: &[JobName]) -> Result<Vec<Members>, Refusal> {
        let (mut all, mut count) = (Vec::new(), 0);
        for name in names {
            let found = self.members_of(user, name)?;
            count += found.jobs.len();
            if count > NAMED_MAX {
                let text = format!("more than {NAMED_MAX} jobs are named at once; name fewer");
                return Err((ErrorCode::Usage, text));
            }
            all.push(found);
        }
        Ok(all)
    }

    fn members_of(&mut self, user: Peer, name: &JobName) -> Result<Members, Refusal> {
        let job = JobId(name.job);
        let row = self.jobs.get(&job).map(|live| live.row.clone()).or_else(|| self.stored_row(job));
        let over = !self.jobs.contains_key(&job);
        let Some(indexes) = &name.indexes else {
            let mine = row.filter(|row| rights::may_touch(&self.configured.config, user, row));
            if mine.is_some_and(|row| is_first(&row)) {
                let members = self.all_members(name.job);
                return Ok(self.found(true, members));
            }
            // What there is to say of it is said when it is asked for.
            return Ok(Members { array: false, jobs: vec![Member { job: job.0, index: None, over }] });
        };
        match row {
            None => return Err((ErrorCode::Failed, format!("there is no array {job}"))),
            Some(ref row) if !rights::may_touch(&self.configured.config, user, row) => {
                return Err(denied(&format!("job {job} belongs to another user")));
            }
            Some(ref row) if !is_first(row) => {
                return Err((ErrorCode::Failed, format!("job {job} is no array, and has no members")));
            }
            Some(_) => {}
        }
        let mut members = self.all_members(name.job);
        if let Some(missing) = indexes.iter().find(|index| !members.contains_key(index)) {
            return Err((ErrorCode::Failed, format!("array {job} has no member {missing}")));
        }
        members.retain(|index, _| indexes.contains(index));
        Ok(self.found(false, members))
    }

    fn found(&self, array: bool, members: BTreeMap<u32, u64>) -> Members {
        let member = |(index, job): (u32, u64)| {
            let over = !self.jobs.contains_key(&JobId(job));
            Member { job, index: Some(index), over }
        };
        Members { array, jobs: members.into_iter().map(member).collect() }
    }
}

/// Whether an array has its number from this job.
fn is_first(row: &JobRow) -> bool {
    row.spec.array.is_some_and(|place| place.array == Some(row.job))
}
