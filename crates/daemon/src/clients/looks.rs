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
/// A question counts as if it named so many at least: one that names few is kept as well while it waits behind another,
/// and all that are kept are looked at for each new one.
const NAMED_LEAST: usize = 4_096;

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// By user. The next part is of the first look of the first user, which then goes behind the others. Those of one user
    /// are done one after another: the answers of a connection keep the order of the questions, and however many connections
    /// a user has, one long answer is under way.
    under_way: VecDeque<(u32, VecDeque<Look>)>,
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

impl Look {
    /// Whether its answer is begun.
    fn is_telling(&self) -> bool {
        matches!(&self.what, What::Tell(tell) if tell.frame.size() > 0)
    }
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
        let own = || self.of_user(uid);
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
                "questions of yours that are not answered yet count as {named} jobs, {NAMED_BY_A_USER_MAX} are the most"
            )
        };
        Err((ErrorCode::Refused, format!("{text}; ask again when one is answered")))
    }

    fn of_user(&self, uid: u32) -> impl Iterator<Item = &Look> {
        self.under_way.iter().filter(move |(user, _)| *user == uid).flat_map(|(_, looks)| looks)
    }

    /// Whether one is under way on this connection of a user.
    pub(crate) fn has(&self, uid: u32, id: ConnectionId) -> bool {
        self.of_user(uid).any(|look| look.id == id)
    }

    /// Whether an answer to this user is begun: it is the next of the user's then.
    pub(crate) fn is_telling(&self, uid: u32) -> bool {
        self.of_user(uid).next().is_some_and(Look::is_telling)
    }

    /// One begins in a later turn, behind those of its user. An answer that is begun already goes on before them: what it
    /// holds is to go first.
    pub(crate) fn begin(&mut self, look: Look) {
        match self.under_way.iter_mut().find(|(uid, _)| *uid == look.user.uid) {
            Some((_, looks)) if look.is_telling() => looks.push_front(look),
            Some((_, looks)) => looks.push_back(look),
            None => self.under_way.push_back((look.user.uid, VecDeque::from([look]))),
        }
    }

    /// The one that was the next goes on in a later turn, before those of its user.
    pub(crate) fn goes_on(&mut self, look: Look) {
        match self.under_way.iter_mut().find(|(uid, _)| *uid == look.user.uid) {
            Some((_, looks)) => looks.push_front(look),
            None => self.under_way.push_back((look.user.uid, VecDeque::from([look]))),
        }
    }

    /// The one of which the next part is due, of the users to whom more may be told.
    pub(crate) fn next(&mut self, may: impl Fn(u32) -> bool) -> Option<Look> {
        let at = self.under_way.iter().position(|(uid, _)| may(*uid))?;
        let (uid, mut looks) = self.under_way.remove(at)?;
        let look = looks.pop_front()?;
        if !looks.is_empty() {
            self.under_way.push_back((uid, looks));
        }
        Some(look)
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.under_way.iter_mut().for_each(|(_, looks)| looks.retain(|look| look.id != id));
        self.under_way.retain(|(_, looks)| !looks.is_empty());
    }

    /// Whether a part is due: at once, if there is one, of the users to whom more may be told.
    pub(crate) fn has_due(&self, may: impl Fn(u32) -> bool) -> bool {
        self.under_way.iter().any(|(uid, _)| may(*uid))
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
    fn each_user_has_its_turn_and_some_moments() {
        let mut looks = Looks::default();
        assert!(!looks.has_due(|_| true) && looks.next(|_| true).is_none());
        for id in 0..MOMENTS_OF_A_USER_MAX as u64 {
            assert!(looks.may_begin(1, &moment(0)).is_ok());
            looks.begin(look(id, 1, moment(0)));
        }
        let (_, text) = looks.may_begin(1, &moment(0)).unwrap_err();
        assert!(text.contains("4 questions") && text.contains("ask again"), "{text}");
        assert!(looks.may_begin(1, &named(5)).is_ok(), "it names its jobs");
        assert!(looks.may_begin(2, &moment(0)).is_ok(), "another user");
        looks.begin(look(9, 2, moment(0)));
        looks.forget(ConnectionId(0));
        let mut turns = |goes_on: bool, may: fn(u32) -> bool| {
            let look = looks.next(may).unwrap();
            let id = look.id.0;
            if goes_on {
                looks.goes_on(look);
            }
            id
        };
        assert_eq!([turns(true, |_| true), turns(true, |_| true), turns(true, |_| true)], [1, 9, 1]);
        // To the second user no more may be told.
        assert_eq!([turns(false, |uid| uid != 2), turns(false, |uid| uid != 2)], [1, 2]);
        assert!(looks.may_begin(1, &moment(0)).is_ok() && looks.has_due(|uid| uid == 2));
        looks.forget(ConnectionId(3));
        assert!(!looks.has_due(|uid| uid != 2));
    }

    #[test]
    fn questions_of_a_connection_are_answered_in_their_order() {
        let mut looks = Looks::default();
        for (id, at_us) in [(1, 10), (2, 20), (1, 11), (1, 12)] {
            looks.begin(look(id, u32::try_from(id).unwrap(), moment(at_us)));
        }
        let mut at = |goes_on: bool| {
            let look = looks.next(|_| true).unwrap();
            let What::Moment(Moment { at_us, .. }) = &look.what else { panic!("a moment") };
            let at_us = *at_us;
            if goes_on {
                looks.goes_on(look);
            }
            at_us
        };
        assert_eq!([at(true), at(true), at(true)], [10, 20, 10]);
        assert_eq!([at(false), at(false), at(false), at(false)], [20, 10, 11, 12]);
        assert!(!looks.has(1, ConnectionId(1)) && !looks.has_due(|_| true));
    }

    #[test]
    fn one_answer_to_a_user_is_under_way() {
        let tell = |id: u64, told: u64| {
            let mut frame = ReportsFrame::default();
            (0..told).for_each(|job| frame.push(job, &job).unwrap());
            look(id, 1, What::Tell(Tell { open: VecDeque::from([9]), wanted: Wanted::default(), frame }))
        };
        let mut looks = Looks::default();
        looks.begin(look(1, 1, moment(0)));
        looks.begin(tell(2, 0));
        assert!(!looks.is_telling(1), "it is not begun");
        looks.begin(tell(3, 1));
        assert!(looks.is_telling(1) && !looks.is_telling(2) && looks.has(1, ConnectionId(2)));
        let order: Vec<u64> = std::iter::from_fn(|| looks.next(|_| true)).map(|look| look.id.0).collect();
        assert_eq!(order, [3, 1, 2]);
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
