//! Clients that wait until jobs are over. Absent here: what they are told then.

use std::collections::BTreeSet;

use pinfold_policy::JobId;
use pinfold_proto::wire::ErrorCode;

use crate::clients::server::Server;
use crate::core::{ConnectionId, Refusal};

/// How many questions of one connection may wait for jobs to end.
const WAITS_MAX: usize = 16;
/// So many waits of one user are registered at a time, for so many jobs in all: each end of a job looks at each of them.
const WAITS_OF_USER_MAX: usize = 4096;
const WAITED_FOR_MAX: usize = 1_000_000;

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiters: Vec<Waiter>,
    /// Which connection waits for the start of which job.
    starts: Vec<(ConnectionId, JobId)>,
}

#[derive(Debug)]
struct Waiter {
    id: ConnectionId,
    /// Jobs that are not over.
    open: BTreeSet<JobId>,
    /// All that it named, in its order.
    wanted: Vec<u64>,
}

impl Waiters {
    /// Checks whether a user may wait for so many more jobs, over this connection.
    pub(crate) fn has_room(
        &self,
        server: &Server,
        id: ConnectionId,
        uid: u32,
        jobs: usize,
    ) -> Result<(), Refusal> {
        let refuse = |text: String| Err((ErrorCode::Refused, text));
        let starts = self.starts.iter().filter(|(waiting, _)| *waiting == id).count();
        if self.waiters.iter().filter(|waiter| waiter.id == id).count() + starts >= WAITS_MAX {
            return refuse(format!("{WAITS_MAX} waits on one connection are the most"));
        }
        let is_own = |waiter: &&Waiter| server.peer(waiter.id).is_some_and(|peer| peer.uid == uid);
        let own = self.waiters.iter().filter(is_own);
        let is_its =
            |(waiting, _): &&(ConnectionId, JobId)| server.peer(*waiting).is_some_and(|peer| peer.uid == uid);
        let starts = self.starts.iter().filter(is_its).count();
        let (waits, jobs) =
            own.fold((1 + starts, jobs), |(waits, jobs), own| (waits + 1, jobs + own.wanted.len()));
        if waits > WAITS_OF_USER_MAX || jobs > WAITED_FOR_MAX {
            let text =
                format!("{waits} waits of yours for {jobs} jobs are too many: {WAITS_OF_USER_MAX} for");
            return refuse(format!("{text} {WAITED_FOR_MAX} in all are the most"));
        }
        Ok(())
    }

    /// One waits for these jobs, of which `open` are not over.
    pub(crate) fn add(&mut self, id: ConnectionId, open: BTreeSet<JobId>, wanted: Vec<u64>) {
        self.waiters.push(Waiter { id, open, wanted });
    }

    /// One waits for the start of a job.
    pub(crate) fn waits_for_start(&mut self, id: ConnectionId, job: JobId) {
        self.starts.push((id, job));
    }

    /// A job has started, or is over: those that waited for its start; once.
    pub(crate) fn started(&mut self, job: JobId) -> Vec<ConnectionId> {
        self.starts.extract_if(.., |(_, waited)| *waited == job).map(|(id, _)| id).collect()
    }

    /// A job is over.
    pub(crate) fn job_over(&mut self, job: JobId) {
        for waiter in &mut self.waiters {
            waiter.open.remove(&job);
        }
    }

    /// Those that wait for nothing any more, and what they named; once.
    pub(crate) fn done(&mut self) -> Vec<(ConnectionId, Vec<u64>)> {
        let done = self.waiters.extract_if(.., |waiter| waiter.open.is_empty());
        done.map(|waiter| (waiter.id, waiter.wanted)).collect()
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.waiters.retain(|waiter| waiter.id != id);
        self.starts.retain(|(waiting, _)| *waiting != id);
    }
}
