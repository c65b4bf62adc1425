//! The jobs that are not over: what is known of each, and when each is looked at next.
//!
//! `table` and `record` (the state), `arrays`, `namesakes`, `called`, `external` (names), `described` and `bounds`
//! (requests).
//! What keeps a job waiting: `gates`, `waits`, `starting`. Its processes: `child`, `taken`, `lingering`,
//! `finished`. Its keeper: `unheard`.
//! Its end: `timeouts`, `cpu_limits`, `endings`; `verbs` (words of users).

pub(crate) mod arrays;
pub(crate) mod bounds;
pub(crate) mod called;
pub(crate) mod child;
pub(crate) mod cpu_limits;
pub(crate) mod described;
pub(crate) mod endings;
pub(crate) mod external;
pub(crate) mod finished;
pub(crate) mod gates;
pub(crate) mod lingering;
pub(crate) mod namesakes;
pub(crate) mod record;
pub(crate) mod starting;
pub(crate) mod table;
pub(crate) mod taken;
pub(crate) mod timeouts;
pub(crate) mod unheard;
pub(crate) mod verbs;
pub(crate) mod waits;

use std::collections::{BTreeSet, VecDeque};

use pinfold_policy::JobId;

use crate::core::ConnectionId;
use crate::jobs::child::Children;
use crate::jobs::finished::Finished;
use crate::jobs::gates::Gates;
use crate::jobs::lingering::Lingering;
use crate::jobs::timeouts::Timeouts;
use crate::jobs::unheard::Unheard;
use crate::store::journal::Journal;
use crate::store::starts::Starts;

pub(crate) use record::JobRecord;
pub(crate) use table::JobTable;

/// Of so many jobs it is written in a turn of the loop since when they wait.
pub(crate) const WAITS_A_TURN: usize = 256;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Jobs {
    /// All of them, by number.
    pub(crate) table: JobTable,
    /// Those that have a container.
    pub(crate) running: BTreeSet<JobId>,
    /// What another keeper of them needs.
    pub(crate) starts: Starts,
    /// Descriptors of children that wait to become jobs, and of keepers that are watched.
    pub(crate) children: Children,
    /// Jobs whose keepers are to be watched once there are descriptors for that.
    pub(crate) unwatched: BTreeSet<JobId>,
    /// From which of them on they are tried next.
    unwatched_from: JobId,
    /// Keepers that are to say something.
    pub(crate) unheard: Unheard,
    /// Jobs of which only processes are left.
    pub(crate) lingering: Lingering,
    /// Containers of jobs that are over.
    pub(crate) finished: Finished,
    /// When to kill which cancelled job.
    pub(crate) kills: BTreeSet<(u64, JobId)>,
    /// What waiting jobs wait for beside the queue.
    pub(crate) gates: Gates,
    /// When running jobs reach their timeouts.
    pub(crate) timeouts: Timeouts,
    /// When to look whether they have used the CPU time that they may.
    pub(crate) cpu_looks: Timeouts,
    /// When to close the self-attach files of which job, in order.
    pub(crate) self_attach_due: VecDeque<(u64, JobId)>,
    /// Jobs whose connections are gone, which are to be seen to, by connection.
    pub(crate) left: VecDeque<(ConnectionId, VecDeque<JobId>)>,
    /// Those of which it is still to be written since when they wait. If the daemon dies before, they wait from then on.
    pub(crate) waits_noted: BTreeSet<JobId>,
}

impl Jobs {
    /// Those that this state directory keeps starts of; `children`: how many descriptors of children and keepers may
    /// be kept.
    pub(crate) fn new(starts: Starts, children: usize) -> Self {
        Self {
            table: JobTable::new(),
            running: BTreeSet::new(),
            starts,
            children: Children::new(children),
            unwatched: BTreeSet::new(),
            unwatched_from: JobId(0),
            unheard: Unheard::default(),
            lingering: Lingering::default(),
            finished: Finished::default(),
            kills: BTreeSet::new(),
            gates: Gates::default(),
            timeouts: Timeouts::default(),
            cpu_looks: Timeouts::default(),
            self_attach_due: VecDeque::new(),
            left: VecDeque::new(),
            waits_noted: BTreeSet::new(),
        }
    }

    /// The next of those whose connection is gone, of each connection one in turn.
    pub(crate) fn next_left(&mut self) -> Option<(ConnectionId, JobId)> {
        let (id, mut jobs) = self.left.pop_front()?;
        let job = jobs.pop_front()?;
        if !jobs.is_empty() {
            self.left.push_back((id, jobs));
        }
        Some((id, job))
    }

    /// Takes the next of those whose keepers are to be watched, so many at most.
    pub(crate) fn next_unwatched(&mut self, most: usize) -> Vec<JobId> {
        next_of(&mut self.unwatched, &mut self.unwatched_from, most)
    }

    /// Has since when some jobs wait be written, as many as may be in a turn. Those that are over since have their last rows.
    pub(crate) fn write_waits(&mut self, journal: &mut Journal) {
        let some = some_waits(&mut self.waits_noted);
        some.into_iter().filter(|job| self.table.contains_key(job)).for_each(|job| journal.touch(job));
    }

    /// A job has no process any more.
    pub(crate) fn run_over(&mut self, job: JobId) {
        self.running.remove(&job);
        self.lingering.forget(job);
        self.timeouts.forget(job);
        self.cpu_looks.forget(job);
        self.kills.retain(|&(_, killed)| killed != job);
    }

    /// Says why a job is as it is.
    pub(crate) fn set_reason(&mut self, journal: &mut Journal, job: JobId, reason: String) {
        if let Some(live) = self.table.get_mut(&job) {
            live.row.reason = Some(reason);
            journal.touch(job);
        }
    }

    /// The next cancelled job that had its time to end by itself.
    pub(crate) fn next_to_kill(&mut self, now_us: u64) -> Option<JobId> {
        let &(at_us, job) = self.kills.first()?;
        (at_us <= now_us).then(|| self.kills.pop_first()).map(|_| job)
    }
}

/// Takes as many as may be in a turn.
fn some_waits(waits: &mut BTreeSet<JobId>) -> Vec<JobId> {
    std::iter::from_fn(|| waits.pop_first()).take(WAITS_A_TURN).collect()
}

/// Takes the next of these, so many at most, from the one on at which it stopped; what comes in again waits its turn.
fn next_of(all: &mut BTreeSet<JobId>, from: &mut JobId, most: usize) -> Vec<JobId> {
    let next: Vec<JobId> = all.range(*from..).chain(all.range(..*from)).take(most).copied().collect();
    for job in &next {
        all.remove(job);
    }
    *from = next.last().map_or(JobId(0), |last| JobId(last.0.saturating_add(1)));
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_come_in_again_wait_their_turn() {
        let mut all: BTreeSet<JobId> = (1..=5).map(JobId).collect();
        let mut from = JobId(0);
        let turns: Vec<Vec<u64>> = (0..4)
            .map(|_| {
                let next = next_of(&mut all, &mut from, 2);
                all.extend(next.iter().copied());
                next.into_iter().map(|job| job.0).collect()
            })
            .collect();
        assert_eq!(turns, [[1, 2], [3, 4], [5, 1], [2, 3]]);
        assert_eq!(next_of(&mut BTreeSet::new(), &mut from, 2), []);
    }

    #[test]
    fn since_when_thousands_wait_is_written_of_some_in_a_turn() {
        let mut waits: BTreeSet<JobId> = (1..=1_000).map(JobId).collect();
        let mut written = Vec::new();
        while !waits.is_empty() {
            let some = some_waits(&mut waits);
            assert_eq!(some.len(), WAITS_A_TURN.min(1_000 - written.len()));
            written.extend(some);
        }
        assert_eq!(written, (1..=1_000).map(JobId).collect::<Vec<_>>(), "each once");
    }
}
