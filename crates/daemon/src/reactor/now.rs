//! `pinfold status` of jobs that are named: those that are over are read from the store, a part at a time (`clients/looks`), and
//! the others in the turn in which all is told.

use std::collections::{BTreeSet, VecDeque};

use pinfold_policy::JobId;
use pinfold_profile::report;
use pinfold_proto::wire::Reply;
use pinfold_sys::peer::Peer;

use crate::clients::doctor::too_long;
use crate::clients::looks::{Look, Now, Views, What};
use crate::clients::rights;
use crate::core::{ConnectionId, Refusal};
use crate::reactor::Daemon;
use crate::reactor::looks::{BYTES_A_PART, JOBS_A_PART};

impl Daemon {
    /// Begins to answer what the host is like, and jobs that are named.
    pub(super) fn asked_about_named(&mut self, id: ConnectionId, user: Peer, jobs: Vec<u64>) {
        let untold: BTreeSet<u64> = jobs.into_iter().collect();
        let what = What::Now(Now { open: untold.iter().copied().collect(), untold, told: Views::default() });
        self.look(Look { id, user, what });
    }

    /// Reads some of those that are over; gives what is left to do.
    pub(super) fn look_at_named(
        &mut self,
        id: ConnectionId,
        user: Peer,
        mut now: Now,
    ) -> Result<Option<What>, Refusal> {
        let (mut jobs, mut bytes) = (JOBS_A_PART, if now.is_short() { u64::MAX } else { BYTES_A_PART });
        while let Some(job) = self.next_named(&mut now) {
            let config = &self.ctx.configured.config;
            if let Some(live) = self.jobs.table.get(&JobId(job)) {
                if !rights::may_touch(config, user, &live.row) {
                    return Err(self.no_such_job(user, JobId(job)));
                }
                // How it is then is told with all others.
                continue;
            }
            if jobs == 0 || bytes == 0 {
                now.open.push_front(job);
                return Ok(Some(What::Now(now)));
            }
            let row = self.outbox.journal.stored_row(JobId(job));
            let Some(row) = row.filter(|row| rights::may_touch(config, user, row)) else {
                return Err(self.no_such_job(user, JobId(job)));
            };
            now.untold.remove(&job);
            let view = report::job_view(&row, None, None, Vec::new());
            (jobs, bytes) = (jobs - 1, bytes.saturating_sub(now.told.push(view)));
            if now.told.are_too_long() {
                return Err(too_long());
            }
        }
        let view = self.status(user, Some(now.untold), now.told.jobs)?;
        self.outbox.reply(id, Reply::Status(view));
        Ok(None)
    }

    /// The next one that is to be looked at: in the end those that are over since they were.
    fn next_named(&self, now: &mut Now) -> Option<u64> {
        if now.open.is_empty() {
            let over = now.untold.iter().copied().filter(|&job| !self.jobs.table.contains_key(&JobId(job)));
            now.open = over.collect::<VecDeque<u64>>();
        }
        now.open.pop_front()
    }
}
