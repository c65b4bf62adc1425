//! Arrays of jobs: which are members of which, and what a name of members means.
//!
//! A client submits the members of an array one by one, over one connection; the first of them gives the array its
//! number, so that nobody can put a job into an array of somebody else's. Absent here: how many members may have started
//! (`policy`), and what is done to each, which is done to jobs.

mod read;
#[cfg(test)]
mod tests;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use pinfold_policy::JobId;
use pinfold_proto::JobSpec;
use pinfold_proto::array::{INDEX_MAX, JobName, MEMBERS_MAX};
use pinfold_proto::row::JobRow;
use pinfold_proto::wire::{ErrorCode, Member, Members};
use pinfold_proto::{After, AfterEnd};
use pinfold_sys::peer::Peer;

use crate::clients::cost::NAMED_MAX;
use crate::clients::rights;
use crate::core::{ConnectionId, Ctx, Refusal, denied};
use crate::jobs::gates::Condition;
use crate::jobs::table::JobTable;
use crate::store::journal::Journal;

pub(crate) use read::ArraysRead;

use read::is_first;

/// The most names that a question, or the list of those that a job is to start after, may have.
pub(crate) const NAMES_MAX: usize = 4096;

/// How many members an array may have: a few more than a command asks for, for a daemon that died may have taken some that
/// are then asked for once more.
const ARRAY_MAX: usize = MEMBERS_MAX + MEMBERS_MAX / 8;

/// The array whose members come over each connection, and how many it has.
pub(crate) type Arriving = BTreeMap<ConnectionId, (u64, usize)>;

/// What several names say of one number: the job or all of its array, and members by their indexes. Each index is there
/// once, however often it is named.
#[derive(Debug, Default)]
struct Named {
    whole: bool,
    indexes: BTreeSet<u32>,
}

/// Names by number. Their indexes are counted before, for here they are listed.
fn by_number<'a>(names: impl IntoIterator<Item = &'a JobName>) -> BTreeMap<u64, Named> {
    let mut all: BTreeMap<u64, Named> = BTreeMap::new();
    for name in names {
        let named = all.entry(name.job).or_default();
        match &name.indexes {
            None => named.whole = true,
            Some(indexes) => named.indexes.extend(indexes.iter()),
        }
    }
    all
}

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

impl JobTable {
    /// A keeper has presented a member again: more of its array may come over this connection.
    pub(crate) fn goes_on_with_array(
        &mut self,
        journal: &mut Journal,
        arriving: &mut Arriving,
        id: ConnectionId,
        array: u64,
    ) {
        arriving.entry(id).or_insert_with(|| (array, self.count_members(journal, array)));
    }

    /// How many members an array has. They are counted and not read, for each connection may ask for it.
    fn count_members(&self, journal: &mut Journal, array: u64) -> usize {
        // What the store does not have yet is younger than what it has.
        let (stored, last) = journal.store().count_members(array).unwrap_or_default();
        let living = self.members(array).filter(|(job, _)| job.0 > last).count();
        let of_array = |row: &&JobRow| row.spec.array.is_some_and(|place| place.array == Some(array));
        let over = journal.all_unwritten().filter(|row| row.job > last).filter(of_array).count();
        stored + living + over
    }

    /// Whether any member of an array is not over.
    pub(crate) fn has_members(&self, array: u64) -> bool {
        self.members(array).next().is_some()
    }

    /// The jobs whose end a job which is to start after these names must wait for, however they end; each once.
    pub(crate) fn predecessors(&self, names: &[After]) -> Vec<JobId> {
        let mut all = BTreeSet::new();
        let unconditional = names.iter().filter(|after| after.end == AfterEnd::Any).flat_map(After::jobs);
        for (number, Named { whole, indexes }) in by_number(unconditional) {
            if whole && self.has_members(number) {
                all.extend(self.members(number).map(|(job, _)| job));
                continue;
            }
            all.extend(whole.then_some(JobId(number)));
            all.extend(indexes.into_iter().flat_map(|index| self.members_with(number, index)));
        }
        all.into_iter().collect()
    }

    /// The first of these names that means something there never was; an error if it takes too much to find out.
    pub(crate) fn unheard_of<'a>(
        &self,
        journal: &mut Journal,
        read: &mut ArraysRead,
        names: &'a [After],
    ) -> Result<Option<&'a JobName>, Refusal> {
        let mut unknown = BTreeMap::new();
        for (number, Named { whole, mut indexes }) in by_number(names.iter().flat_map(After::jobs)) {
            let known = !whole || self.contains_key(&JobId(number)) || read.job(journal, number)?.is_some();
            indexes.retain(|&index| self.members_with(number, index).next().is_none());
            if !indexes.is_empty() {
                // Some are over, or were never there.
                let members = read.members(journal, number)?;
                indexes.retain(|&index| members.range((index, 0)..=(index, u64::MAX)).next().is_none());
                read.refusal()?;
            }
            if !known || !indexes.is_empty() {
                unknown.insert(number, (!known, indexes));
            }
        }
        let is_unknown = |name: &&JobName| match (unknown.get(&name.job), &name.indexes) {
            (None, _) => false,
            (Some((whole, _)), None) => *whole,
            (Some((_, missing)), Some(indexes)) => missing.iter().any(|&index| indexes.contains(index)),
        };
        Ok(names.iter().flat_map(After::jobs).find(is_unknown))
    }

    /// How the jobs of a condition stand.
    ///
    /// # Errors
    /// If it takes too much to find out, with those before it is about too many, or the store cannot be read.
    pub(crate) fn condition(
        &self,
        journal: &mut Journal,
        read: &mut ArraysRead,
        after: &After,
    ) -> Result<Condition, Refusal> {
        let mut condition = Condition { after: after.clone(), left: BTreeSet::new(), failed: None };
        for (number, named) in by_number(after.jobs()) {
            let count = self.stand(journal, read, number, &named, &mut condition)?;
            read.names_jobs(count);
            read.refusal()?;
        }
        Ok(condition)
    }

    /// Adds to a condition how the jobs of this number stand; gives how many they are.
    fn stand(
        &self,
        journal: &mut Journal,
        read: &mut ArraysRead,
        number: u64,
        named: &Named,
        condition: &mut Condition,
    ) -> Result<usize, Refusal> {
        let Named { mut whole, ref indexes } = *named;
        let mut count = 0;
        if whole {
            let lives = self.get(&JobId(number)).map(|live| is_first(&live.row));
            let over = if lives.is_none() { read.job(journal, number)? } else { None };
            if lives.or(over.map(|over| over.is_first)) != Some(true) {
                // It is a job alone.
                (whole, count) = (false, 1);
                if lives.is_some() {
                    condition.left.insert(JobId(number));
                } else if !over.is_some_and(|over| over.ended_well) {
                    condition.failed.get_or_insert(JobId(number));
                }
            }
        }
        if !whole && indexes.is_empty() {
            return Ok(count);
        }
        let members = read.members(journal, number)?;
        let ended = |(&(_, job), well): (&(u32, u64), &Option<bool>)| Some((JobId(job), (*well)?));
        let (left, mut over): (BTreeSet<JobId>, BTreeMap<JobId, bool>) = if whole {
            (self.members(number).map(|(job, _)| job).collect(), members.iter().filter_map(ended).collect())
        } else {
            let with = |&index: &u32| members.range((index, 0)..=(index, u64::MAX)).filter_map(ended);
            let living = indexes.iter().flat_map(|&index| self.members_with(number, index));
            (living.collect(), indexes.iter().flat_map(with).collect())
        };
        over.retain(|job, _| !left.contains(job));
        condition.failed = condition.failed.or(over.iter().find(|(_, well)| !**well).map(|(job, _)| *job));
        count += left.len() + over.len();
        condition.left.extend(left);
        Ok(count)
    }

    /// All members of an array that are known, by index.
    fn all_members(
        &self,
        journal: &mut Journal,
        read: &mut ArraysRead,
        array: u64,
    ) -> Result<BTreeMap<u32, u64>, Refusal> {
        let members = read.members(journal, array)?.keys().copied();
        // What the store does not have yet lives, or is about to be written.
        Ok(members.chain(self.members(array).map(|(job, index)| (index, job.0))).collect())
    }

    /// The jobs that each name means.
    pub(crate) fn members_named(
        &mut self,
        ctx: &Ctx,
        journal: &mut Journal,
        user: Peer,
        names: &[JobName],
    ) -> Result<Vec<Members>, Refusal> {
        let too_many = |what: &str, most: usize| {
            (ErrorCode::Usage, format!("more than {most} {what} are named at once; name fewer"))
        };
        if names.len() > NAMES_MAX {
            return Err(too_many("names", NAMES_MAX));
        }
        if names.iter().map(JobName::count).sum::<usize>() > NAMED_MAX {
            return Err(too_many("jobs", NAMED_MAX));
        }
        let (mut all, mut count) = (Vec::new(), 0);
        let mut known = Known { read: ArraysRead::for_request(), ..Known::default() };
        for name in names {
            let found = self.members_of(ctx, journal, user, name, &mut known)?;
            count += found.jobs.len();
            if count > NAMED_MAX {
                return Err(too_many("jobs", NAMED_MAX));
            }
            all.push(found);
        }
        Ok(all)
    }

    fn members_of(
        &mut self,
        ctx: &Ctx,
        journal: &mut Journal,
        user: Peer,
        name: &JobName,
        known: &mut Known,
    ) -> Result<Members, Refusal> {
        let job = JobId(name.job);
        let over = !self.contains_key(&job);
        let Seen { is_there, mine, is_first } = self.seen(ctx, journal, &mut known.read, user, job)?;
        match (&name.indexes, is_there) {
            (None, _) if !(mine && is_first) => {
                // What there is to say of it is said when it is asked for.
                return Ok(Members { array: false, jobs: vec![Member { job: job.0, index: None, over }] });
            }
            (None, _) => {}
            (Some(_), false) => return Err((ErrorCode::Failed, format!("there is no array {job}"))),
            (Some(_), true) if !mine => {
                return Err(denied(&format!("job {job} belongs to another user")));
            }
            (Some(_), true) if !is_first => {
                return Err((ErrorCode::Failed, format!("job {job} is no array, and has no members")));
            }
            (Some(_), true) => {}
        }
        let Known { arrays, read, .. } = known;
        let members = match arrays.entry(name.job) {
            Entry::Occupied(members) => members.into_mut(),
            Entry::Vacant(place) => place.insert(self.all_members(journal, read, name.job)?),
        };
        read.refusal()?;
        let Some(indexes) = &name.indexes else {
            return Ok(self.found(true, members.iter().map(|(index, job)| (*index, *job))));
        };
        let wanted: BTreeSet<u32> = indexes.iter().collect();
        if let Some(missing) = wanted.iter().find(|index| !members.contains_key(index)) {
            return Err((ErrorCode::Failed, format!("array {job} has no member {missing}")));
        }
        Ok(self.found(false, wanted.into_iter().filter_map(|index| Some((index, *members.get(&index)?)))))
    }

    /// What a question needs to know of a job that it names.
    fn seen(
        &self,
        ctx: &Ctx,
        journal: &mut Journal,
        read: &mut ArraysRead,
        user: Peer,
        job: JobId,
    ) -> Result<Seen, Refusal> {
        let config = &ctx.configured.config;
        if let Some(live) = self.get(&job) {
            let (mine, is_first) = (rights::may_touch(config, user, &live.row), is_first(&live.row));
            return Ok(Seen { is_there: true, mine, is_first });
        }
        let Some(over) = read.job(journal, job.0)? else { return Ok(Seen::default()) };
        let mine = rights::may_touch_jobs_of(config, user, over.uid, over.project.as_ref());
        Ok(Seen { is_there: true, mine, is_first: over.is_first })
    }

    fn found(&self, array: bool, members: impl Iterator<Item = (u32, u64)>) -> Members {
        let member = |(index, job): (u32, u64)| {
            let over = !self.contains_key(&JobId(job));
            Member { job, index: Some(index), over }
        };
        Members { array, jobs: members.map(member).collect() }
    }
}

/// Gives a new job its place: in the array whose members come over this connection, or as the first of a new one.
pub(crate) fn place_in_array(arriving: &mut Arriving, id: ConnectionId, job: u64, spec: &mut JobSpec) {
    if let Some(place) = &mut spec.array {
        let (array, members) = arriving.entry(id).or_insert((job, 0));
        place.array = Some(*array);
        *members += 1;
    }
}

/// Checks whether the array whose members come over this connection may have one more.
pub(crate) fn has_room_in_array(
    arriving: &Arriving,
    id: ConnectionId,
    spec: &JobSpec,
) -> Result<(), Refusal> {
    match arriving.get(&id) {
        Some((array, members)) if spec.array.is_some() && *members >= ARRAY_MAX => {
            let text = format!("array {array} has {members} members, and no array may have more");
            Err((ErrorCode::Usage, text))
        }
        _ => Ok(()),
    }
}

/// What one question has found out so far: it may name the same job or array many times.
#[derive(Debug, Default)]
struct Known {
    arrays: BTreeMap<u64, BTreeMap<u32, u64>>,
    read: ArraysRead,
}

/// What a question needs to know of a job: by default, one that is not there.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    is_there: bool,
    /// The user who asks may see it.
    mine: bool,
    /// An array has its number from it.
    is_first: bool,
}
