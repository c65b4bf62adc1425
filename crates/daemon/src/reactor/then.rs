//! `pinfold status --at`: the jobs of an earlier moment are looked for, a part of the store at a time (`clients/looks`), and
//! told when all are found.

use pinfold_proto::wire::Reply;
use pinfold_sys::peer::Peer;

use crate::clients::looks::{Look, Moment, What};
use crate::core::{ConnectionId, Refusal, store_failed};
use crate::reactor::Daemon;
use crate::reactor::reports::OVER_SHOWN;

/// So many jobs are looked at in a turn of the loop: a millisecond at most, unless the disk is slow.
const JOBS_A_PART: u32 = 2_048;

impl Daemon {
    /// Begins to look for the jobs of a moment.
    pub(super) fn asked_about_then(&mut self, id: ConnectionId, user: Peer, at_us: u64) {
        let before = self.outbox.journal.store().upcoming_job();
        self.look(Look { id, user, what: What::Moment(Moment { at_us, before, found: Vec::new() }) });
    }

    /// Looks at some of the jobs for those of a moment; gives what is left to do.
    pub(super) fn look_at_moment(
        &mut self,
        id: ConnectionId,
        user: Peer,
        moment: Moment,
    ) -> Result<Option<Moment>, Refusal> {
        let Moment { at_us, before, mut found } = moment;
        let left = OVER_SHOWN.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
        let part = self.outbox.journal.store().numbers_at(at_us, before, JOBS_A_PART, left);
        let (more, before) = part.map_err(|error| store_failed(&error))?;
        found.extend(more);
        if let Some(before) = before.filter(|_| found.len() < OVER_SHOWN as usize) {
            return Ok(Some(Moment { at_us, before, found }));
        }
        found.reverse();
        let view = self.status_then(user, at_us, &found)?;
        self.outbox.reply(id, Reply::Status(view));
        Ok(None)
    }
}
