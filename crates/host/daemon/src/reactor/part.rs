//! Which job a client process is part of: the daemon's word, for a command that is started within a job.
//!
//! The process that opened the connection is meant (`SO_PEERCRED`), so everybody asks of itself alone and learns no more
//! than a number that it could read in `/proc`. What its environment says does not count: it is there after the job, and
//! anybody can write it. Absent here: what follows from the answer, which is the client's matter. Nothing is changed.

use pinfold_policy::JobId;
use pinfold_proto::row::ProcessId;
use pinfold_proto::wire::Reply;
use pinfold_sys::adoptee;

use crate::clients::cost::ANCESTORS_MAX;
use crate::core::{ConnectionId, is_alive};
use crate::reactor::Daemon;

impl Daemon {
    /// The answer to `Part`.
    pub(super) fn part_of(&self, id: ConnectionId) -> Reply {
        let job = self.clients.server.process(id).and_then(|process| {
            let job = self.by_group(process).or_else(|| self.by_descent(process));
            // What was read is about it only if its number is still its own.
            job.filter(|_| is_alive(&self.ctx.proc, process))
        });
        Reply::Part { job: job.map(|job| job.0) }
    }

    /// The running job in whose group a process is.
    fn by_group(&self, process: ProcessId) -> Option<JobId> {
        let groups = self.ctx.proc.text(&format!("{}/cgroup", process.pid)).ok().flatten()?;
        let runs = |job: &JobId| self.jobs.running.contains(job);
        let own = adoptee::groups_of_jobs(&groups).into_iter().filter(|(one, _)| *one == self.ctx.instance);
        own.map(|(_, job)| JobId(job)).find(runs)
    }

    /// The running job that a process descends from, where jobs are known by their processes: the nearest.
    fn by_descent(&self, process: ProcessId) -> Option<JobId> {
        let known = self.known_processes();
        // Where each job has a group, nothing above it needs to be read.
        let mut next = (!known.is_empty()).then_some(process);
        for _ in 0..ANCESTORS_MAX {
            let above = next?;
            if let Some(job) = known.get(&(above.pid, above.start_ticks)) {
                return Some(*job);
            }
            let parent = self.ctx.proc.stat(above.pid).ok().flatten()?.parent;
            // A parent is no younger than its child; one that is has got a number that was free again.
            next = self.ctx.process(parent).filter(|parent| parent.start_ticks <= above.start_ticks);
        }
        None
    }
}
