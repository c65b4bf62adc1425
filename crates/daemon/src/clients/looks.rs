//! Questions about many jobs, which are answered in parts: the jobs of an earlier moment, for which no index is there, so that
//! the store is looked through, and thousands of jobs that are named. A turn of the loop does one part of one question,
//! however many jobs there are and however many clients ask.
//!
//! Owner of state: the looks under way. Absent here: what is read, and what is answered (`reactor::looks`, `reactor::then`).

use std::collections::VecDeque;

use pinfold_proto::wire::{ErrorCode, ReportsFrame};
use pinfold_sys::peer::Peer;

use crate::core::event::{Asked, Wanted};
use crate::core::{ConnectionId, Refusal};

/// Questions of one user about earlier moments, under way.
const MOMENTS_OF_A_USER_MAX: usize = 4;
/// Jobs named in one user's questions under way, as many as one user's waits may name.
const NAMED_BY_A_USER_MAX: usize = 1_000_000;
/// A question counts as if it named so many at least: one that names few is kept as well while it waits behind another.
const NAMED_LEAST: usize = 256;

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// The next part is of the first look of the first connection, which then goes behind the others. Those of one
    /// connection are done one after another, so that their answers keep the order of the questions.
    under_way: VecDeque<(ConnectionId, VecDeque<Look>)>,
}

/// A look under way.
#[derive(Debug)]
pub(crate) struct Look {
    pub(crate) id: ConnectionId,
    pub(crate) user: Peer,
    pub(crate) what: What,
}

/// What a look is for.
#[derive(Debug)]
pub(crate) enum What {
    /// Which jobs there were at a moment.
    Moment(Moment),
    /// Whether a user may see what is asked for, and whether it is not too much.
    Check(Check),
    /// Reports of jobs.
    Tell(Tell),
}

/// The jobs of a moment.
#[derive(Debug)]
pub(crate) struct Moment {
    /// In microseconds since the Unix epoch.
    pub(crate) at_us: u64,
    /// Jobs before this number are still to be looked at.
    pub(crate) before: u64,
    /// The numbers of those that were found, descending.
    pub(crate) found: Vec<u64>,
}

/// Jobs that are checked.
#[derive(Debug)]
pub(crate) struct Check {
    /// Those that are still to be looked at, each once, and how often it is named.
    pub(crate) open: VecDeque<(u64, u64)>,
    /// How long the requests of those before are, as JSON, in bytes.
    pub(crate) bytes: u64,
    /// How many samples those before have.
    pub(crate) samples: u64,
    pub(crate) then: Checked,
}

/// What follows once all jobs are checked; with the jobs as they are named.
#[derive(Debug)]
pub(crate) enum Checked {
    /// The client waits until they are over.
    Wait(Vec<u64>),
    /// Their reports. If they are not named, they are those that were checked so far, from the last one on.
    Report { jobs: Vec<u64>, named: bool, wanted: Wanted },
    /// Their reports in pieces.
    Pieces(Asked),
}

/// Jobs that are told.
#[derive(Debug)]
pub(crate) struct Tell {
    /// Those that are still to be told, in order.
    pub(crate) open: VecDeque<u64>,
    pub(crate) wanted: Wanted,
    /// The answer, as far as it is made.
    pub(crate) frame: ReportsFrame,
}

impl What {
    /// How many jobs it counts for: those it names that are not looked at yet.
    fn named(&self) -> usize {
        match self {
            Self::Moment(_) => 0,
            Self::Check(check) => check.open.len().max(NAMED_LEAST),
            Self::Tell(tell) => tell.open.len().max(NAMED_LEAST),
        }
    }
}

impl Looks {
    /// Checks whether a user may have one more.
    pub(crate) fn may_begin(&self, uid: u32, what: &What) -> Result<(), Refusal> {
        let own = || self.all().filter(|look| look.user.uid == uid);
        let text = if let What::Moment(_) = what {
            if own().filter(|look| matches!(look.what, What::Moment(_))).count() < MOMENTS_OF_A_USER_MAX {
                return Ok(());
            }
            format!("{MOMENTS_OF_A_USER_MAX} questions of yours about earlier moments are not answered yet")
        } else {
            let named = own().fold(what.named(), |sum, look| sum + look.what.named());
            if named <= NAMED_BY_A_USER_MAX {
                return Ok(());
            }
            format!(
                "questions of yours that are not answered yet name {named} jobs, {NAMED_BY_A_USER_MAX} are the most"
            )
        };
        Err((ErrorCode::Refused, format!("{text}; ask again when one is answered")))
    }

    fn all(&self) -> impl Iterator<Item = &Look> {
        self.under_way.iter().flat_map(|(_, looks)| looks)
    }

    /// Whether one is under way on this connection.
    pub(crate) fn has(&self, id: ConnectionId) -> bool {
        self.under_way.iter().any(|(asks, _)| *asks == id)
    }

    /// One begins in a later turn, behind those of its connection.
    pub(crate) fn begin(&mut self, look: Look) {
        match self.under_way.iter_mut().find(|(id, _)| *id == look.id) {
            Some((_, looks)) => looks.push_back(look),
            None => self.under_way.push_back((look.id, VecDeque::from([look]))),
        }
    }

    /// The one that was the next goes on in a later turn, before those of its connection.
    pub(crate) fn goes_on(&mut self, look: Look) {
        match self.under_way.iter_mut().find(|(id, _)| *id == look.id) {
            Some((_, looks)) => looks.push_front(look),
            None => self.under_way.push_back((look.id, VecDeque::from([look]))),
        }
    }

    /// The one of which the next part is due.
    pub(crate) fn next(&mut self) -> Option<Look> {
        let (id, mut looks) = self.under_way.pop_front()?;
        let look = looks.pop_front()?;
        if !looks.is_empty() {
            self.under_way.push_back((id, looks));
        }
        Some(look)
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.under_way.retain(|(asks, _)| *asks != id);
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

    fn look(id: u64, uid: u32, what: What) -> Look {
        Look { id: ConnectionId(id), user: Peer { pid: 1, uid }, what }
    }

    fn moment(at_us: u64) -> What {
        What::Moment(Moment { at_us, before: 1, found: Vec::new() })
    }

    fn named(jobs: u64) -> What {
        let open = (0..jobs).map(|job| (job, 1)).collect();
        What::Check(Check { open, bytes: 0, samples: 0, then: Checked::Wait(Vec::new()) })
    }

    #[test]
    fn each_connection_has_its_turn_and_a_user_some() {
        let mut looks = Looks::default();
        assert!(looks.due_us().is_none() && looks.next().is_none());
        for id in 0..MOMENTS_OF_A_USER_MAX as u64 {
            assert!(looks.may_begin(1, &moment(0)).is_ok());
            looks.begin(look(id, 1, moment(0)));
        }
        let (_, text) = looks.may_begin(1, &moment(0)).unwrap_err();
        assert!(text.contains("4 questions") && text.contains("ask again"), "{text}");
        assert!(looks.may_begin(1, &named(5)).is_ok(), "it names its jobs");
        assert!(looks.may_begin(2, &moment(0)).is_ok(), "another user");
        looks.begin(look(9, 2, moment(0)));
        looks.forget(ConnectionId(1));
        let turns = (0..6).map(|_| {
            let look = looks.next().unwrap();
            let id = look.id.0;
            looks.goes_on(look);
            id
        });
        assert_eq!(turns.collect::<Vec<_>>(), [0, 2, 3, 9, 0, 2]);
        assert!(looks.may_begin(1, &moment(0)).is_ok() && looks.due_us() == Some(0));
    }

    #[test]
    fn questions_of_a_connection_are_answered_in_their_order() {
        let mut looks = Looks::default();
        for (id, at_us) in [(1, 10), (2, 20), (1, 11), (1, 12)] {
            looks.begin(look(id, 1, moment(at_us)));
        }
        let mut at = |goes_on: bool| {
            let look = looks.next().unwrap();
            let What::Moment(Moment { at_us, .. }) = &look.what else { panic!("a moment") };
            let at_us = *at_us;
            if goes_on {
                looks.goes_on(look);
            }
            at_us
        };
        assert_eq!([at(true), at(true), at(true)], [10, 20, 10]);
        assert_eq!([at(false), at(false), at(false), at(false)], [20, 10, 11, 12]);
        assert!(!looks.has(ConnectionId(1)) && !looks.has_due());
    }

    #[test]
    fn a_user_names_so_many_jobs_at_a_time() {
        let mut looks = Looks::default();
        looks.begin(look(1, 1, named(600_000)));
        assert!(looks.may_begin(1, &named(400_000)).is_ok() && looks.may_begin(2, &named(400_001)).is_ok());
        let (_, text) = looks.may_begin(1, &named(400_001)).unwrap_err();
        assert!(text.contains("1000001 jobs, 1000000 are the most; ask again"), "{text}");
        looks.forget(ConnectionId(1));
        assert!(looks.may_begin(1, &named(400_001)).is_ok());
    }

    #[test]
    fn those_that_name_nothing_are_not_kept_without_end() {
        let mut looks = Looks::default();
        let kept = (0..).take_while(|_| {
            let may = looks.may_begin(1, &named(0)).is_ok();
            looks.begin(look(1, 1, named(0)));
            may
        });
        assert_eq!(kept.count(), NAMED_BY_A_USER_MAX / NAMED_LEAST);
    }
}
