//! Which requests are heard in a turn of the loop, at first and again, and what they cost their users. Absent here: how much
//! users may ask in a turn (`budget`), and what a request costs (`cost`).

use pinfold_proto::wire::{ErrorCode, Request};

use super::budget::Budget;
use super::{Connection, Server};
use crate::clients::cost::{self, Load};
use crate::core::ConnectionId;

impl Server {
    /// Whether a request that was put off is tried again in this turn. Each try costs its user what the first one did, but
    /// for its frame, which is not read again. What a connection that is gone asked for costs nothing.
    pub(crate) fn may_try_again(&mut self, id: ConnectionId, request: &Request) -> bool {
        let Some(user) = self.peer(id) else { return true };
        let may = self.budget.may_ask(user.uid);
        if may {
            self.budget.spend(user.uid, cost::of(request, 0, self.load));
        }
        may
    }
}

/// Takes whole requests out of what has arrived, as far as their user may be heard; fails with the words for one that
/// is not understood.
pub(super) fn take_requests(
    connection: &mut Connection,
    budget: &mut Budget,
    load: Load,
    requests: &mut Vec<Request>,
) -> Result<(), (ErrorCode, String)> {
    connection.backlog = false;
    let uid = connection.peer.uid;
    while budget.may_ask(uid) {
        match connection.decoder.take_sized() {
            // Nobody would read the answer.
            Ok(Some((request, _))) if connection.deaf && cost::is_question(&request) => {
                budget.spend(uid, 1);
            }
            Ok(Some((request, bytes))) => {
                budget.spend(uid, cost::of(&request, bytes, load));
                requests.push(request);
            }
            Ok(None) => return Ok(()),
            Err(error) => {
                let cause =
                    std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                return Err((ErrorCode::Usage, format!("{error}{cause}")));
            }
        }
    }
    // Perhaps nothing is left; the next turn finds out.
    connection.backlog = true;
    Ok(())
}
