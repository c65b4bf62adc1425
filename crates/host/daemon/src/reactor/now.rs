//! `pinfold status` of jobs that are named, or of the last ones: those that are over are read from the store, a part at a
//! time (`clients/looks`), and the others in the turn in which all is told.

use std::collections::{BTreeSet, VecDeque};

use pinfold_policy::JobId;
use pinfold_profile::report;
use pinfold_proto::wire::Reply;
use pinfold_sys::peer::Peer;

use crate::clients::doctor::too_long;
use crate::clients::looks::{Look, Now, Views, What};
use crate::clients::rights;
use crate::core::{ConnectionId, Refusal, store_failed};
use crate::reactor::Daemon;
use crate::reactor::looks::{BYTES_A_PART, JOBS_A_PART};
use crate::reactor::reports::OVER_SHOWN;

impl Daemon {
    /// Begins to answer what the host is like, and jobs that are named.
    pub(super) fn asked_about_named(&mut self, id: ConnectionId, user: Peer, jobs: Vec<u64>) {
        let untold: BTreeSet<u64> = jobs.into_iter().collect();
        let open = untold.iter().copied().collect();
        let what = What::Now(Now { all: false, open, untold, told: Views::default() });
        self.look(Look { id, user, what });
    }

    /// Begins to answer what the host is like, with all jobs that the user may see, and the last ones that are over.
    pub(super) fn asked_about_all(&mut self, id: ConnectionId, user: Peer) {
        let whose = rights::may_see(&self.ctx.configured.config, user, true);
        let stored = match self.outbox.journal.store().last_numbers(&whose, OVER_SHOWN) {
            Ok(stored) => stored,
            Err(error) => return self.outbox.refuse(id, store_failed(&error)),
        };
        // The last ones first: not all may fit.
        let last = self.with_those_here(stored, &whose, 0).into_iter().rev().take(OVER_SHOWN as usize);
        let open: VecDeque<u64> = last.collect();
        let untold = open.iter().copied().collect();
        self.look(Look {
            id,
            user,
            what: What::Now(Now { all: true, open, untold, told: Views::default() }),
        });
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
                if !now.all && !rights::may_touch(config, user, &live.row) {
                    return Err(self.no_such_job(user, JobId(job)));
                }
                // How it is then is told with all others.
                continue;
            }
            if jobs == 0 || bytes == 0 {
                now.open.push_front(job);
                return Ok(Some(What::Now(now)));
            }
            let row = self.newest(job).map_err(|error| store_failed(&error))?;
            let config = &self.ctx.configured.config;
            now.untold.remove(&job);
            let Some(row) = row.filter(|row| rights::may_touch(config, user, row)) else {
                if now.all {
                    // It was struck off since.
                    continue;
                }
                return Err(self.no_such_job(user, JobId(job)));
            };
            let view = report::job_view(&row, None, None, Vec::new());
            (jobs, bytes) = (jobs - 1, bytes.saturating_sub(now.told.push(view)));
            match now.told.are_too_long() {
                true if now.all => break,
                true => return Err(too_long()),
                false => {}
            }
        }
        let view = self.status(user, (!now.all).then_some(now.untold), now.told.jobs)?;
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
