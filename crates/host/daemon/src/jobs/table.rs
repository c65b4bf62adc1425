//! The jobs that are not over, by number, and what is looked up of them as well: the members of each array, and which
//! connection may keep which. Every look-up costs as much as it finds, however many jobs there are.
//!
//! Owns which jobs are in; what a job is stays in its [`JobRecord`]. Absent here: jobs that are over (`journal`), and what a name
//! means (`arrays`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use pinfold_policy::{Action, JobId};

use crate::clients::quota::{self, Book};
use crate::core::event::ConnectionId;
use crate::jobs::called;
use crate::jobs::record::{JobRecord, to_policy};

/// The jobs by number.
///
/// Thousands may wait: each is apart, as the map's nodes are half empty where numbers only grow.
#[derive(Debug, Default)]
pub(crate) struct JobTable {
    all: BTreeMap<JobId, Box<JobRecord>>,
    /// Of each array its members, by index.
    members: BTreeMap<u64, BTreeSet<(u32, JobId)>>,
    /// What the jobs of each user take, in bytes.
    sizes: Book,
    /// Those whose processes ran before.
    adopted: BTreeSet<JobId>,
    /// The jobs that each connection keeps.
    came_over: BTreeMap<ConnectionId, BTreeSet<JobId>>,
}

impl JobTable {
    /// None.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A job comes in, with the place in an array that it keeps. It counts for its user with the jobs that it is to start
    /// after, of which those that are not over must be in already.
    pub(crate) fn insert(&mut self, job: JobId, mut live: Box<JobRecord>) {
        self.remove(job);
        let predecessors = self.predecessors(&live.row.spec.after).len();
        live.size_bytes = quota::job_bytes(&live.row.spec, predecessors);
        if let Some((array, index)) = place(&live) {
            self.members.entry(array).or_default().insert((index, job));
        }
        if let Some(id) = live.keeper {
            self.came_over.entry(id).or_default().insert(job);
        }
        self.sizes.add(live.row.uid, live.size_bytes);
        if live.row.spec.adopted.is_some() {
            self.adopted.insert(job);
        }
        self.all.insert(job, live);
    }

    /// A text in which members of arrays that are here go by their names.
    pub(crate) fn by_name(&self, text: &str) -> String {
        called::by_name(text, |job| called::member(&self.all.get(&JobId(job))?.row))
    }

    /// A job is over.
    pub(crate) fn remove(&mut self, job: JobId) -> Option<Box<JobRecord>> {
        let live = self.all.remove(&job)?;
        self.adopted.remove(&job);
        self.sizes.take(live.row.uid, live.size_bytes);
        if let Some((array, index)) = place(&live)
            && let Some(members) = self.members.get_mut(&array)
        {
            members.remove(&(index, job));
            if members.is_empty() {
                self.members.remove(&array);
            }
        }
        if let Some(id) = live.keeper
            && let Some(came) = self.came_over.get_mut(&id)
        {
            came.remove(&job);
        }
        Some(live)
    }

    /// As of the map.
    pub(crate) fn get_mut(&mut self, job: &JobId) -> Option<&mut Box<JobRecord>> {
        self.all.get_mut(job)
    }

    /// As of the map.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Box<JobRecord>> {
        self.all.values_mut()
    }

    /// What the jobs of each user take.
    pub(crate) fn sizes(&self) -> &Book {
        &self.sizes
    }

    /// Those whose processes ran before they were a job.
    pub(crate) fn adopted(&self) -> impl Iterator<Item = (JobId, &JobRecord)> {
        self.adopted.iter().filter_map(|job| Some((*job, self.all.get(job)?.as_ref())))
    }

    /// The members of an array that are not over, in the order of their indexes.
    pub(crate) fn members(&self, array: u64) -> impl Iterator<Item = (JobId, u32)> + '_ {
        self.members.get(&array).into_iter().flatten().map(|&(index, job)| (job, index))
    }

    /// Those that have one index, as a rule one.
    pub(crate) fn members_with(&self, array: u64, index: u32) -> impl Iterator<Item = JobId> + '_ {
        let found =
            self.members.get(&array).map(|all| all.range((index, JobId(0))..=(index, JobId(u64::MAX))));
        found.into_iter().flatten().map(|&(_, job)| job)
    }

    /// A connection keeps a job from now on, and the one before it no more.
    pub(crate) fn comes_over(&mut self, id: ConnectionId, job: JobId) {
        let Some(live) = self.all.get_mut(&job) else { return };
        let before = live.keeper.replace(id).filter(|before| *before != id);
        if let Some(came) = before.and_then(|before| self.came_over.get_mut(&before)) {
            came.remove(&job);
        }
        self.came_over.entry(id).or_default().insert(job);
    }

    /// A connection is gone: the jobs that it kept.
    pub(crate) fn kept_by_gone(&mut self, id: ConnectionId) -> Vec<JobId> {
        let came = self.came_over.remove(&id).unwrap_or_default();
        came.into_iter().filter(|job| self.all.get(job).is_some_and(|live| live.keeper == Some(id))).collect()
    }

    /// Whether this connection keeps that job.
    pub(crate) fn keeps(&self, id: ConnectionId, job: JobId) -> bool {
        self.get(&job).is_some_and(|live| live.keeper == Some(id))
    }

    /// The start that a job was granted, to be tried again now that its child or keeper is there.
    pub(crate) fn start_action(&self, job: JobId) -> Action {
        let live = self.get(&job).expect("asked for a known job");
        Action::Start {
            class: to_policy(live.row.class),
            cpus: live.row.cpus.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default(),
            priority: live.row.priority,
        }
    }
}

impl Deref for JobTable {
    type Target = BTreeMap<JobId, Box<JobRecord>>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

/// A job's array and its index there.
fn place(live: &JobRecord) -> Option<(u64, u32)> {
    let place = live.row.spec.array?;
    Some((place.array?, place.index))
}

#[cfg(test)]
mod tests {
    use pinfold_proto::row::JobRow;
    use pinfold_proto::{JobArray, JobSpec};

    use super::*;

    fn live(job: u64, array: Option<(u64, u32)>, keeper: Option<u64>) -> Box<JobRecord> {
        let array = array.map(|(array, index)| JobArray { array: Some(array), index, at_most: None });
        let spec = JobSpec { array, ..JobSpec::default() };
        let mut live = JobRecord::new(JobRow::asked_for(job, 7, String::new(), spec, 0), false);
        live.keeper = keeper.map(ConnectionId);
        Box::new(live)
    }

    #[test]
    fn members_and_keepers_are_found_as_long_as_they_are_there() {
        let mut jobs = JobTable::new();
        for (job, array, keeper) in
            [(1, Some((1, 5)), 1), (2, Some((1, 3)), 1), (3, Some((1, 5)), 2), (4, None, 1)]
        {
            jobs.insert(JobId(job), live(job, array, Some(keeper)));
        }
        let members =
            |jobs: &JobTable| jobs.members(1).map(|(job, index)| (job.0, index)).collect::<Vec<_>>();
        assert_eq!(members(&jobs), [(2, 3), (1, 5), (3, 5)]);
        assert_eq!(jobs.members_with(1, 5).collect::<Vec<_>>(), [JobId(1), JobId(3)]);
        assert_eq!((jobs.members_with(1, 4).count(), jobs.members_with(2, 5).count()), (0, 0));
        jobs.insert(JobId(3), live(3, None, Some(2)));
        assert_eq!(members(&jobs), [(2, 3), (1, 5)], "the one in its place is none");
        assert!(jobs.remove(JobId(1)).is_some() && jobs.remove(JobId(1)).is_none());
        assert_eq!(members(&jobs), [(2, 3)]);
        jobs.comes_over(ConnectionId(2), JobId(2));
        assert!(jobs.keeps(ConnectionId(2), JobId(2)));
        assert_eq!(
            jobs.came_over[&ConnectionId(1)].iter().collect::<Vec<_>>(),
            [&JobId(4)],
            "nothing is kept"
        );
        assert_eq!(jobs.kept_by_gone(ConnectionId(1)), [JobId(4)], "one is over, one has another keeper");
        assert_eq!(jobs.kept_by_gone(ConnectionId(1)), []);
        assert_eq!(jobs.kept_by_gone(ConnectionId(2)), [JobId(2), JobId(3)]);
        jobs.remove(JobId(2));
        assert!(jobs.members.is_empty());
        assert!(jobs.sizes().own(7) > 2 * 1024 && jobs.sizes().own(7) == jobs.sizes().all());
        jobs.remove(JobId(3));
        jobs.remove(JobId(4));
        assert_eq!(jobs.sizes().all(), 0);
    }

    /// However a job comes in, those that it is to start after count with it, as far as they are there.
    #[test]
    fn predecessors_count_for_their_followers_user() {
        let own = |members: u64| {
            let mut jobs = JobTable::new();
            (1..=members).for_each(|job| jobs.insert(JobId(job), live(job, Some((1, 0)), None)));
            let before = jobs.sizes().own(7);
            let mut follower = live(1000, None, None);
            follower.row.spec.after = vec!["any:1".parse().expect("a name")];
            jobs.insert(JobId(1000), follower);
            let all = jobs.sizes().own(7);
            jobs.remove(JobId(1000));
            assert_eq!(jobs.sizes().own(7), before, "as it is over they do not");
            all - before
        };
        assert_eq!(own(100) - own(1), 99 * 32);
    }
}
