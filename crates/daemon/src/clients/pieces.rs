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
use pinfold_profile::store::{Place, Snapshot, StoreError};
use pinfold_proto::row::{JobRow, SampleRow};
use pinfold_proto::view::{PointView, ReportView};
use pinfold_sys::peer::Peer;

use crate::core::ConnectionId;
use crate::core::event::{Asked, Wanted};

/// The next piece follows when less than this is still to be sent.
const UNSENT_MAX_BYTES: usize = 512 * 1024;
/// Points of a piece: the same.
const POINTS_A_PIECE: usize = 1_000;
/// Answers under way at a time, and of one user.
const UNDER_WAY_MAX: usize = 8;
const OF_A_USER_MAX: usize = 4;
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
    /// Jobs that are still to be told.
    pub(crate) jobs: VecDeque<u64>,
    /// Those of them that only the loop knew in full, as they were.
    pub(crate) live: BTreeMap<u64, Known>,
    /// The series that is being told.
    pub(crate) series: Option<Series>,
    pub(crate) begun_us: u64,
    pub(crate) moved_us: u64,
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

    /// Whether a piece can be made at once.
    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty()
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
        let own = self.under_way.values().filter(|answer| answer.uid == uid).count();
        self.under_way.len() < UNDER_WAY_MAX && own < OF_A_USER_MAX
    }

    /// One waits its turn.
    pub(crate) fn wait(&mut self, id: ConnectionId, user: Peer, asked: Asked) {
        self.waiting.push_back((id, user, asked));
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

    /// The first of those that wait and may begin now.
    pub(crate) fn take_waiting(&mut self) -> Option<(ConnectionId, Peer, Asked)> {
        let at = self.waiting.iter().position(|(_, user, _)| self.may_begin(user.uid))?;
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
mod tests {
    use pinfold_profile::store::Store;

    use super::*;

    fn answer(store: &Store, uid: u32, begun_us: u64) -> Answer {
        Answer {
            uid,
            wanted: Wanted::default(),
            snapshot: store.snapshot().unwrap(),
            jobs: VecDeque::new(),
            live: BTreeMap::new(),
            series: None,
            begun_us,
            moved_us: begun_us,
        }
    }

    fn asked() -> Asked {
        Asked { select: pinfold_proto::wire::Select::Last(1), all: false, wanted: Wanted::default() }
    }

    #[test]
    fn who_does_not_read_is_given_up_and_so_is_who_reads_for_too_long() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap().store;
        let mut pieces = Pieces::default();
        let (idle, slow) = (ConnectionId(1), ConnectionId(2));
        pieces.under_way.insert(idle, answer(&store, 1, 0));
        pieces.under_way.insert(slow, answer(&store, 1, 0));
        assert_eq!(pieces.late_us(), Some(STALLED_US));
        assert!(pieces.take_late(STALLED_US - 1).is_empty());
        pieces.under_way.get_mut(&slow).unwrap().moved_us = STALLED_US - 1;
        pieces.room(idle, 0);
        pieces.keep_room();
        assert!(!pieces.take_room(), "the log is kept");
        let late = pieces.take_late(STALLED_US);
        assert!(late.len() == 1 && late[0].0 == idle && late[0].1.contains("not read"), "{late:?}");
        assert!(!pieces.has_due(), "nothing of it is left");
        pieces.under_way.get_mut(&slow).unwrap().moved_us = LONGEST_US - 1;
        assert_eq!(pieces.late_us(), Some(LONGEST_US));
        let late = pieces.take_late(LONGEST_US);
        assert!(late.len() == 1 && late[0].1.contains("ten minutes"), "{late:?}");
        assert!(pieces.late_us().is_none() && pieces.take_room() && !pieces.take_room());
    }

    #[test]
    fn one_user_leaves_room_for_others() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap().store;
        let mut pieces = Pieces::default();
        for id in 0..OF_A_USER_MAX as u64 {
            assert!(pieces.may_begin(1));
            pieces.under_way.insert(ConnectionId(id), answer(&store, 1, 0));
        }
        assert!(!pieces.may_begin(1) && pieces.may_begin(2));
        for (id, uid) in [(10, 1), (11, 1), (12, 2)] {
            pieces.waiting.push_back((ConnectionId(id), Peer { pid: 1, uid }, asked()));
        }
        assert_eq!(pieces.take_waiting().map(|(id, ..)| id), Some(ConnectionId(12)), "the other user's");
        assert!(pieces.take_waiting().is_none());
        pieces.forget(ConnectionId(0));
        pieces.forget(ConnectionId(10));
        assert_eq!(pieces.take_waiting().map(|(id, ..)| id), Some(ConnectionId(11)), "10 has gone");
        assert!(pieces.has(ConnectionId(1)) && !pieces.has(ConnectionId(11)));
    }

    #[test]
    fn the_next_piece_waits_for_room() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap().store;
        let mut pieces = Pieces::default();
        pieces.under_way.insert(ConnectionId(1), answer(&store, 1, 0));
        pieces.room(ConnectionId(2), 0);
        pieces.room(ConnectionId(1), UNSENT_MAX_BYTES);
        assert!(!pieces.has_due());
        pieces.room(ConnectionId(1), UNSENT_MAX_BYTES - 1);
        pieces.room(ConnectionId(1), 0);
        assert_eq!(pieces.due, [ConnectionId(1)], "once");
    }
}
