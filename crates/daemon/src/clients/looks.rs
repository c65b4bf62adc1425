//! Questions about the host at an earlier moment. No index finds the jobs of a moment, so the store is looked through: a
//! part in each turn of the loop, however many jobs there are and however many ask.
//!
//! Owner of state: the looks under way. Absent here: what is read, and what is answered (`reactor::then`).

use std::collections::VecDeque;

use pinfold_proto::wire::ErrorCode;
use pinfold_sys::peer::Peer;

use crate::core::{ConnectionId, Refusal};

/// Looks under way of one user.
const OF_A_USER_MAX: usize = 4;

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// The next part is of the first of them, which then goes behind the others.
    under_way: VecDeque<Look>,
}

/// A look under way.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) id: ConnectionId,
    pub(crate) user: Peer,
    /// The moment, in microseconds since the Unix epoch.
    pub(crate) at_us: u64,
    /// Jobs before this number are still to be looked at.
    pub(crate) before: u64,
    /// The numbers of those that were found, descending.
    pub(crate) found: Vec<u64>,
}

impl Looks {
    /// Checks whether a user may have one more.
    pub(crate) fn may_begin(&self, uid: u32) -> Result<(), Refusal> {
        if self.under_way.iter().filter(|look| look.user.uid == uid).count() < OF_A_USER_MAX {
            return Ok(());
        }
        let text = format!(
            "{OF_A_USER_MAX} questions of yours about earlier moments are not answered yet; ask again when one is"
        );
        Err((ErrorCode::Refused, text))
    }

    /// One goes on in a later turn.
    pub(crate) fn goes_on(&mut self, look: Look) {
        self.under_way.push_back(look);
    }

    /// The one of which the next part is due.
    pub(crate) fn next(&mut self) -> Option<Look> {
        self.under_way.pop_front()
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.under_way.retain(|look| look.id != id);
    }

    /// When the next part is due: at once, if there is one.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.has_due().then_some(0)
    }

    /// Whether a part is due.
    pub(crate) fn has_due(&self) -> bool {
        !self.under_way.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(id: u64, uid: u32) -> Look {
        Look { id: ConnectionId(id), user: Peer { pid: 1, uid }, at_us: 0, before: 1, found: Vec::new() }
    }

    #[test]
    fn each_has_its_turn_and_a_user_some() {
        let mut looks = Looks::default();
        assert!(looks.due_us().is_none() && looks.next().is_none());
        for id in 0..OF_A_USER_MAX as u64 {
            assert!(looks.may_begin(1).is_ok());
            looks.goes_on(look(id, 1));
        }
        assert!(looks.may_begin(1).is_err());
        assert!(looks.may_begin(2).is_ok(), "another user");
        looks.goes_on(look(9, 2));
        looks.forget(ConnectionId(1));
        let turns = (0..6).map(|_| {
            let look = looks.next().unwrap();
            let id = look.id.0;
            looks.goes_on(look);
            id
        });
        assert_eq!(turns.collect::<Vec<_>>(), [0, 2, 3, 9, 0, 2]);
        assert!(looks.may_begin(1).is_ok() && looks.due_us() == Some(0));
    }
}
