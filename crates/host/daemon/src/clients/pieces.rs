//! Long answers, a piece at a time: many jobs, and series of any length, all as they were when the answer began.
//!
//! What is told comes out of a snapshot of the store; what only the loop knows (jobs that are not over, and rows that are
//! not on disk yet) is put aside at the same moment, but for the lists of their processes, which are made when their turn
//! comes. The next piece is made when the client has taken most of those
//! before, one in each turn of the loop, so that neither a slow reader nor a fast one holds up other clients. Only so many
//! answers are under way at a time, for each keeps the store's log from being cut; others wait their turn. A client that does
//! not read for a minute, or reads for ten, is told so and cut short.
//!
//! Owner of state: the answers under way. Absent here: who may ask what ([`crate::clients::rights`]), and how a job is told of
//! ([`crate::clients::doctor`]).

use std::collections::{BTreeMap, VecDeque};

use pinfold_profile::report::Points;
use pinfold_profile::store::{Place, Snapshot, Store, StoreError, Whose};
use pinfold_proto::row::{JobRow, SampleRow};
use pinfold_proto::view::{PointView, ReportView};
use pinfold_proto::wire::{ErrorCode, Select};
use pinfold_sys::peer::Peer;

use crate::clients::quota::is_trusted;
use crate::core::event::{Asked, Wanted};
use crate::core::{ConnectionId, Refusal};

/// The next piece follows when less than this is still to be sent.
const UNSENT_MAX_BYTES: usize = 512 * 1024;
/// Points of a piece: the same.
const POINTS_A_PIECE: usize = 1_000;
/// Answers under way at a time, those beyond that for root and the daemon's own user, and those of one user.
const UNDER_WAY_MAX: usize = 8;
const RESERVED: usize = 2;
const OF_A_USER_MAX: usize = 4;
/// Jobs of an answer: 8 MiB of numbers.
const JOBS_MAX: u32 = 1_000_000;
/// So many of them are listed in a turn of the loop: a few milliseconds.
const LISTED_A_TURN: u32 = 4_096;
/// So many answers of one user wait for others at most: each may have named thousands of jobs.
const WAITING_OF_A_USER_MAX: usize = 100;
/// How long a client may take nothing, and how long an answer may take in all, in microseconds.
const STALLED_US: u64 = 60_000_000;
const LONGEST_US: u64 = 600_000_000;

/// The long answers, under way and waiting.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    under_way: BTreeMap<ConnectionId, Answer>,
    waiting: VecDeque<(ConnectionId, Peer, Asked)>,
    /// Those whose next piece may be made, each once.
    due: VecDeque<ConnectionId>,
    /// The store gave rows up whose room its file still has.
    room: bool,
}

/// An answer under way.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) uid: u32,
    pub(crate) wanted: Wanted,
    pub(crate) snapshot: Snapshot,
    /// Jobs that are not listed yet.
    pub(crate) listing: Option<Listing>,
    /// Jobs that are listed and still to be told.
    pub(crate) jobs: VecDeque<u64>,
    /// Those of all of them that only the loop knew in full, as they were.
    pub(crate) live: BTreeMap<u64, Known>,
    /// The series that is being told.
    pub(crate) series: Option<Series>,
    pub(crate) begun_us: u64,
    pub(crate) moved_us: u64,
}

/// Which jobs are still to be listed: there may be a million.
#[derive(Debug)]
pub(crate) struct Listing {
    whose: Whose,
    /// No more than so many, and of these are still to be listed so many.
    most: u32,
    left: u32,
    rest: Rest,
}

/// Where the list goes on.
#[derive(Debug)]
enum Rest {
    /// The last ones before this number. They are told from the first one on, so all are listed before one is told.
    Before(u64),
    /// Those from this number on that were asked for at or after a moment, in microseconds since the Unix epoch.
    From(u64, u64),
}

impl Listing {
    /// Of jobs that are not named.
    pub(crate) fn of(select: &Select, whose: Whose, snapshot: &Snapshot) -> Result<Option<Self>, StoreError> {
        Ok(match *select {
            Select::Jobs(_) => None,
            Select::Last(count) => {
                let most = count.min(JOBS_MAX);
                Some(Self { whose, most, left: most, rest: Rest::Before(u64::MAX) })
            }
            Select::Since(since_us) => {
                let rest = Rest::From(snapshot.first_since(since_us)?, since_us);
                Some(Self { whose, most: JOBS_MAX, left: JOBS_MAX, rest })
            }
        })
    }

    /// Lists some more; says whether these are all.
    fn go_on(&mut self, store: &Store, jobs: &mut VecDeque<u64>) -> Result<bool, StoreError> {
        let count = self.left.min(LISTED_A_TURN);
        let found = match &mut self.rest {
            Rest::Before(before) => {
                let found = store.numbers_before(&self.whose, *before, count)?;
                *before = found.last().copied().unwrap_or(0);
                found.iter().for_each(|&job| jobs.push_front(job));
                found
            }
            Rest::From(first, since_us) => {
                let found = store.numbers_since_from(&self.whose, *first, *since_us, count)?;
                *first = found.last().map_or(*first, |last| last + 1);
                jobs.extend(&found);
                found
            }
        };
        let listed = u32::try_from(found.len()).unwrap_or(u32::MAX);
        self.left = self.left.saturating_sub(listed);
        Ok(listed < count || self.left == 0)
    }
}

/// What only the loop knew of a job when the answer began.
#[derive(Debug)]
pub(crate) enum Known {
    /// It has no process: what is told of it follows from its row, once its turn comes.
    Waits(Box<JobRow>),
    /// What is told of it, and when it started, in microseconds since the Unix epoch.
    Told(Box<ReportView>, Option<u64>),
}

/// What of a series is told already.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) place: Place,
    pub(crate) points: Points,
    /// Samples that were read and are not told yet.
    pub(crate) read: VecDeque<SampleRow>,
}

impl Series {
    /// The next points; `None`: there are no more.
    pub(crate) fn next(&mut self, snapshot: &Snapshot) -> Result<Option<Vec<PointView>>, StoreError> {
        while self.read.is_empty() {
            match snapshot.next_samples(&mut self.place, POINTS_A_PIECE)? {
                Some(samples) => self.read = samples.into(),
                None => return Ok(None),
            }
        }
        let count = self.read.len().min(POINTS_A_PIECE);
        Ok(Some(self.read.drain(..count).map(|sample| self.points.next(&sample)).collect()))
    }
}

impl Answer {
    /// Lists some more of its jobs, if that is due; says whether jobs may be told in this turn.
    pub(crate) fn list(&mut self) -> Result<bool, StoreError> {
        let Some(listing) = &mut self.listing else { return Ok(true) };
        let as_it_goes = matches!(listing.rest, Rest::From(..));
        if as_it_goes && !self.jobs.is_empty() {
            return Ok(true);
        }
        let is_all = listing.go_on(&self.snapshot, &mut self.jobs)?;
        let most = listing.most as usize;
        if is_all {
            self.listing = None;
            self.list_unwritten(u64::MAX, most);
        } else if as_it_goes && let Some(&last) = self.jobs.back() {
            // These are told before more are listed, and all are told in the order of their numbers.
            self.list_unwritten(last, most);
        }
        Ok(is_all || as_it_goes)
    }

    /// Lists what the store does not have up to this number, as the disk is full, among the last ones that are listed.
    fn list_unwritten(&mut self, up_to: u64, most: usize) {
        let jobs = self.jobs.make_contiguous();
        let live = self.live.range(..=up_to).map(|(job, _)| *job);
        let lacking: Vec<u64> = live.filter(|job| jobs.binary_search(job).is_err()).collect();
        if !lacking.is_empty() {
            self.jobs.extend(lacking);
            self.jobs.make_contiguous().sort_unstable();
        }
        self.jobs.drain(..self.jobs.len().saturating_sub(most));
    }

    /// Why it goes no further, if it took too long.
    fn late(&self, now_us: u64) -> Option<&'static str> {
        if now_us >= self.moved_us.saturating_add(STALLED_US) {
            Some("the answer was not read for a minute, and is given up: ask again, and read on")
        } else if now_us >= self.begun_us.saturating_add(LONGEST_US) {
            Some("the answer took ten minutes, and is given up: ask for fewer jobs, or read faster")
        } else {
            None
        }
    }
}

impl Pieces {
    /// When something is to be done: a piece to be made, at once, or an answer to be given up.
    pub(crate) fn due_us(&self) -> Option<u64> {
        if self.has_due() { Some(0) } else { self.late_us() }
    }

    /// Whether a piece can be made at once, or one that waits can begin.
    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty() || self.waiting.iter().any(|(_, user, _)| self.may_begin(user.uid))
    }

    /// When the first answer is to be given up unless it goes on.
    fn late_us(&self) -> Option<u64> {
        let late = |answer: &Answer| {
            answer.moved_us.saturating_add(STALLED_US).min(answer.begun_us.saturating_add(LONGEST_US))
        };
        self.under_way.values().map(late).min()
    }

    /// The store gave rows up, whose room is to be given back.
    pub(crate) fn keep_room(&mut self) {
        self.room = true;
    }

    /// Whether there is room to be given back now: no answer keeps the store's log.
    pub(crate) fn take_room(&mut self) -> bool {
        self.under_way.is_empty() && std::mem::take(&mut self.room)
    }

    /// A connection has so much to be sent: there may be room for the next piece.
    pub(crate) fn room(&mut self, id: ConnectionId, unsent_bytes: usize) {
        if unsent_bytes < UNSENT_MAX_BYTES && self.under_way.contains_key(&id) && !self.due.contains(&id) {
            self.due.push_back(id);
        }
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.under_way.remove(&id);
        self.waiting.retain(|(waits, ..)| *waits != id);
        self.due.retain(|due| *due != id);
    }

    /// Whether one is under way, or waits, on this connection.
    pub(crate) fn has(&self, id: ConnectionId) -> bool {
        self.under_way.contains_key(&id) || self.waiting.iter().any(|(waits, ..)| *waits == id)
    }

    /// Whether a user may have one more.
    pub(crate) fn may_begin(&self, uid: u32) -> bool {
        let most = UNDER_WAY_MAX + if is_trusted(uid) { RESERVED } else { 0 };
        self.under_way.len() < most && self.own(uid) < OF_A_USER_MAX
    }

    fn own(&self, uid: u32) -> usize {
        self.under_way.values().filter(|answer| answer.uid == uid).count()
    }

    /// One waits its turn, unless too many of its user do.
    pub(crate) fn wait(&mut self, id: ConnectionId, user: Peer, asked: Asked) -> Result<(), Refusal> {
        if self.waiting.iter().filter(|(_, other, _)| other.uid == user.uid).count() >= WAITING_OF_A_USER_MAX
        {
            let text = format!("{WAITING_OF_A_USER_MAX} answers in pieces to you wait for others already");
            return Err((ErrorCode::Refused, format!("{text}; ask again when one is told")));
        }
        self.waiting.push_back((id, user, asked));
        Ok(())
    }

    /// One begins.
    pub(crate) fn begin(&mut self, id: ConnectionId, answer: Answer) {
        self.under_way.insert(id, answer);
        self.due.push_back(id);
    }

    /// The next of which a piece may be made.
    pub(crate) fn next(&mut self) -> Option<(ConnectionId, Answer)> {
        let id = self.due.pop_front()?;
        Some((id, self.under_way.remove(&id)?))
    }

    /// It goes on; its next piece is due once this one is sent, or has begun to be.
    pub(crate) fn goes_on(&mut self, id: ConnectionId, answer: Answer) {
        self.under_way.insert(id, answer);
    }

    /// It goes on at once: nothing of it was told in this turn.
    pub(crate) fn goes_on_at_once(&mut self, id: ConnectionId, answer: Answer) {
        self.begin(id, answer);
    }

    /// The one of those that wait that may begin now: the first of the users that have the fewest under way, so that none whose
    /// questions are many is always before the others.
    pub(crate) fn take_waiting(&mut self) -> Option<(ConnectionId, Peer, Asked)> {
        let waiting = self.waiting.iter().enumerate().filter(|(_, (_, user, _))| self.may_begin(user.uid));
        let (at, _) = waiting.min_by_key(|(_, (_, user, _))| self.own(user.uid))?;
        self.waiting.remove(at)
    }

    /// Those that took too long, and why they are given up.
    pub(crate) fn take_late(&mut self, now_us: u64) -> Vec<(ConnectionId, &'static str)> {
        let late = self.under_way.iter().filter_map(|(id, answer)| Some((*id, answer.late(now_us)?)));
        let late: Vec<_> = late.collect();
        late.iter().for_each(|(id, _)| self.forget(*id));
        late
    }
}

#[cfg(test)]
mod tests;
