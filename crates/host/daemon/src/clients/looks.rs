//! Questions about many jobs, which are answered in parts: the jobs of an earlier moment, for which no index is there, so that
//! the store is looked through, and thousands of jobs that are named. A turn of the loop does one part of one question,
//! however many jobs there are and however many clients ask.
//!
//! Owner of state: the looks under way. Absent here: what is read, and what is answered (`reactor::looks`, `reactor::then`,
//! `reactor::now`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pinfold_profile::store::Namesake;
use pinfold_proto::view::JobView;
use pinfold_proto::wire::{ErrorCode, ReportsFrame, json_bytes};
use pinfold_sys::peer::Peer;

use crate::clients::cost::ANSWER_MAX_BYTES;
use crate::clients::quota::is_trusted;
use crate::core::event::{Asked, Wanted};
use crate::core::{ConnectionId, Refusal};
use crate::jobs::namesakes::Namesakes;

/// Questions of one user about earlier moments, under way.
const MOMENTS_OF_A_USER_MAX: usize = 4;
/// Jobs named in one user's questions under way, as many as one user's waits may name.
const NAMED_BY_A_USER_MAX: usize = 1_000_000;
/// A question counts as if it named so many at least: one that names few is kept as well while it waits behind another,
/// and all that are kept are looked at for each new one.
const NAMED_LEAST: usize = 4_096;

/// Of no more jobs all is told in one turn, whatever they take.
const FEW: usize = 16;

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// By user. The next part is of the first look of the first user, which then goes behind the others. Those of one user
    /// are done one after another: the answers of a connection keep the order of the questions, and however many connections
    /// a user has, one long answer is under way.
    under_way: VecDeque<(u32, VecDeque<Look>)>,
    /// The last part was of root's, or of the daemon's own user: the next one is of another user.
    was_trusted: bool,
    /// So many jobs may still be told at once in this turn, to those that waited for them.
    at_once: usize,
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
    /// What they were like.
    Then(Then),
    /// The host as it is, with jobs that are named, or the last ones.
    Now(Now),
    /// Which jobs names mean.
    Names(Names),
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

/// The host at an earlier moment, whose jobs are found.
#[derive(Debug, Default)]
pub(crate) struct Then {
    /// In microseconds since the Unix epoch.
    pub(crate) at_us: u64,
    /// Those that are still to be looked at, ascending.
    pub(crate) open: VecDeque<u64>,
    /// Those of them that the user may see.
    pub(crate) told: Views,
    /// What all had together: memory and swap, in bytes,
    pub(crate) held_bytes: u64,
    pub(crate) swap_bytes: u64,
    /// and how many of them ran and waited.
    pub(crate) running: u64,
    pub(crate) waiting: u64,
}

/// Jobs that are named, or the last ones, some of which are over.
#[derive(Debug)]
pub(crate) struct Now {
    /// They are the last ones, and told with all that are not over.
    pub(crate) all: bool,
    /// Those that are still to be looked at.
    pub(crate) open: VecDeque<u64>,
    /// Those that were not over when they were looked at, or were not looked at yet.
    pub(crate) untold: BTreeSet<u64>,
    /// Those that are over.
    pub(crate) told: Views,
}

/// Names of jobs, each of which several jobs may have.
#[derive(Debug)]
pub(crate) struct Names {
    /// As they were asked for: the same one may be named several times.
    pub(crate) names: Vec<String>,
    /// Those that are looked for, each once; the first one is under way.
    pub(crate) open: VecDeque<String>,
    /// The numbers among which it is looked for: from here on
    pub(crate) first: u64,
    /// up to here, where those before the next one are looked at already,
    pub(crate) end: u64,
    pub(crate) next: u64,
    /// and the first job found among them.
    pub(crate) oldest: Option<Namesake>,
    /// Among so many more jobs the lines of long batches may be looked for.
    pub(crate) further: u64,
    /// What was found so far, by name.
    pub(crate) found: BTreeMap<String, Namesakes>,
}

/// Jobs as `status` shows them.
#[derive(Debug, Default)]
pub(crate) struct Views {
    pub(crate) jobs: Vec<JobView>,
    /// How long they are as JSON.
    bytes: u64,
}

impl Views {
    /// One more; gives its length in bytes.
    pub(crate) fn push(&mut self, view: JobView) -> u64 {
        let bytes = json_bytes(&view);
        self.bytes += bytes;
        self.jobs.push(view);
        bytes
    }

    /// Whether they are more than one answer may have.
    pub(crate) fn are_too_long(&self) -> bool {
        self.bytes > ANSWER_MAX_BYTES
    }
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

impl Now {
    /// Whether all is told in one turn.
    pub(crate) fn is_short(&self) -> bool {
        self.told.jobs.is_empty() && self.open.len() <= FEW
    }
}

impl Tell {
    /// Whether all is told in one turn.
    pub(crate) fn is_short(&self) -> bool {
        let Wanted { series, processes, threads, files } = self.wanted;
        let has_lists = series || processes || threads || files;
        self.frame.size() == 0 && self.open.len() <= FEW && !has_lists
    }
}

impl Look {
    /// Whether its answer is begun.
    fn is_telling(&self) -> bool {
        self.what.is_telling()
    }
}

impl What {
    /// Whether its answer is begun, so that something of it is held.
    fn is_telling(&self) -> bool {
        match self {
            Self::Moment(_) | Self::Names(_) | Self::Check(_) => false,
            Self::Then(then) => !then.told.jobs.is_empty(),
            Self::Now(now) => !now.told.jobs.is_empty(),
            Self::Tell(tell) => tell.frame.size() > 0,
        }
    }

    /// Whether its next part begins an answer of which something is held then.
    fn begins_to_tell(&self) -> bool {
        match self {
            Self::Moment(_) | Self::Names(_) | Self::Check(_) => false,
            Self::Then(_) => !self.is_telling(),
            Self::Now(now) => !self.is_telling() && !now.is_short(),
            Self::Tell(tell) => !self.is_telling() && !tell.is_short(),
        }
    }

    fn is_of_a_moment(&self) -> bool {
        matches!(self, Self::Moment(_) | Self::Then(_))
    }

    /// How many jobs it counts for: those it names that are not looked at yet.
    fn named(&self) -> usize {
        match self {
            Self::Moment(_) | Self::Then(_) => 0,
            Self::Now(now) => now.open.len().max(NAMED_LEAST),
            Self::Names(_) => NAMED_LEAST,
            Self::Check(check) => check.open.len().max(NAMED_LEAST),
            Self::Tell(tell) => tell.open.len().max(NAMED_LEAST),
        }
    }
}

impl Looks {
    /// A turn of the loop begins, in which so many jobs may be told at once.
    pub(crate) fn begin_turn(&mut self, at_once: usize) {
        self.at_once = at_once;
    }

    /// Whether so many more jobs may be told in this turn, to one that waited for them.
    pub(crate) fn may_tell_at_once(&mut self, jobs: usize) -> bool {
        let left = self.at_once.checked_sub(jobs);
        self.at_once = left.unwrap_or(self.at_once);
        left.is_some()
    }

    /// Whether a part of this one has to wait for another answer to its user: however many connections ask, no more is held
    /// for a user than one.
    pub(crate) fn waits(&self, uid: u32, what: &What) -> bool {
        what.begins_to_tell() && self.is_telling(uid)
    }

    /// Checks whether a user may have one more.
    pub(crate) fn may_begin(&self, uid: u32, what: &What) -> Result<(), Refusal> {
        let own = || self.of_user(uid);
        let text = if what.is_of_a_moment() {
            if own().filter(|look| look.what.is_of_a_moment()).count() < MOMENTS_OF_A_USER_MAX {
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
    fn is_telling(&self, uid: u32) -> bool {
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

    /// The one of which the next part is due, of the users to whom more may be told. However many others ask, every second part
    /// is for root and the daemon's own user.
    pub(crate) fn next(&mut self, may: impl Fn(u32) -> bool) -> Option<Look> {
        let first = |trusted: bool| {
            self.under_way.iter().position(|(uid, _)| is_trusted(*uid) == trusted && may(*uid))
        };
        let at = first(!self.was_trusted).or_else(|| first(self.was_trusted))?;
        let (uid, mut looks) = self.under_way.remove(at)?;
        self.was_trusted = is_trusted(uid);
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
mod tests;
