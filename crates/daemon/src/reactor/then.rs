//! `pinfold status --at`: the jobs of an earlier moment are looked for, a part of the store at a time (`clients/looks`), and
//! told when all are found.

use pinfold_proto::wire::Reply;
use pinfold_sys::peer::Peer;

use crate::clients::looks::Look;
use crate::core::{ConnectionId, store_failed};
use crate::reactor::Daemon;
use crate::reactor::reports::OVER_SHOWN;
use crate::reactor::requests::error_reply;

/// So many jobs are looked at in a turn of the loop: a millisecond at most, unless the disk is slow.
const JOBS_A_PART: u32 = 2_048;

impl Daemon {
    /// Begins to look for the jobs of a moment. In a store of few jobs that is all, and the answer follows at once.
    pub(super) fn asked_about_then(&mut self, id: ConnectionId, user: Peer, at_us: u64) {
        if let Err(refusal) = self.clients.looks.may_begin(user.uid) {
            return self.outbox.refuse(id, refusal);
        }
        let before = self.outbox.journal.store().upcoming_job();
        self.look_on(Look { id, user, at_us, before, found: Vec::new() });
    }

    /// Looks at the next part for one that asked.
    pub(super) fn on_then_due(&mut self) {
        if let Some(look) = self.clients.looks.next() {
            self.look_on(look);
        }
    }

    fn look_on(&mut self, mut look: Look) {
        let left = OVER_SHOWN.saturating_sub(u32::try_from(look.found.len()).unwrap_or(u32::MAX));
        let found = self.outbox.journal.store().numbers_at(look.at_us, look.before, JOBS_A_PART, left);
        let (found, before) = match found {
            Ok(found) => found,
            Err(error) => return self.outbox.refuse(look.id, store_failed(&error)),
        };
        look.found.extend(found);
        match before.filter(|_| look.found.len() < OVER_SHOWN as usize) {
            Some(before) => self.clients.looks.goes_on(Look { before, ..look }),
            None => {
                look.found.reverse();
                let view = self.status_then(look.user, look.at_us, &look.found);
                self.outbox.reply(look.id, view.map_or_else(error_reply, Reply::Status));
            }
        }
    }
}
