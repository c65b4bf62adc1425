//! Long answers, a piece at a time: many jobs, and series of any length, all as they were when the answer began.
//!
//! What is told comes out of a snapshot of the store; what only the loop knows (jobs that are not over, and rows that are
//! not on disk yet) is put aside at the same moment, but for the lists of their processes, which are made when their turn
//! comes. The next piece is made when the client has taken most of those
//! before, one in each turn of the loop, so that neither a slow reader nor a fast one holds anybody up. Only so many
//! answers are under way at a time, for each keeps the store's log from being cut; others wait their turn. Whoever does
//! not read for a minute, or reads for ten, is told so and cut short.
//!
//! Owner of state: the answers under way. Absent here: who may ask what ([`crate::rights`]), and how a job is told of
//! ([`crate::answer`]).

use std::collections::{BTreeMap, VecDeque};

use pinfold_policy::JobId;
use pinfold_profile::report::Points;
use pinfold_profile::store::{Place, Snapshot, StoreError};
use pinfold_proto::row::SampleRow;
use pinfold_proto::view::{PointView, ReportView};
use pinfold_proto::wire::{ErrorCode, Piece, Reply, Select};
use pinfold_sys::peer::Peer;

use crate::answer::{OVER_SHOWN, Wanted, store_failed};
use crate::daemon::Daemon;
use crate::event::{ConnectionId, Effect};
use crate::rights::Refusal;

/// The next piece follows when less than this is still to be sent.
const UNSENT_MAX_BYTES: usize = 512 * 1024;
/// Jobs of a piece: some 200 KiB, a few milliseconds.
const JOBS_A_PIECE: usize = 100;
/// A piece has no more jobs than take so many bytes, as far as their commands go.
const PIECE_BYTES: usize = 512 * 1024;
/// Points of a piece: the same.
const POINTS_A_PIECE: usize = 1_000;
/// Jobs of an answer: 8 MiB of numbers.
const JOBS_MAX: u32 = 1_000_000;
/// Answers under way at a time, and of one user.
const UNDER_WAY_MAX: usize = 8;
const OF_A_USER_MAX: usize = 4;
/// How long a client may take nothing, and how long an answer may take in all, in microseconds.
const STALLED_US: u64 = 60_000_000;
const LONGEST_US: u64 = 600_000_000;

/// A question whose answer may be long.
#[derive(Debug)]
pub(crate) struct Asked {
    pub select: Select,
    pub all: bool,
    pub wanted: Wanted,
}

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

#[derive(Debug)]
struct Answer {
    uid: u32,
    wanted: Wanted,
    snapshot: Snapshot,
    /// Jobs that are still to be told.
    jobs: VecDeque<u64>,
    /// Those of them that only the loop knew in full, as they were, and when they started.
    live: BTreeMap<u64, (ReportView, Option<u64>)>,
    /// The series that is being told.
    series: Option<Series>,
    begun_us: u64,
    moved_us: u64,
}

/// What of a series is told already.
#[derive(Debug)]
struct Series {
    place: Place,
    points: Points,
    /// Samples that were read and are not told yet.
    read: VecDeque<SampleRow>,
}

impl Series {
    /// The next points; `None`: there are no more.
    fn next(&mut self, snapshot: &Snapshot) -> Result<Option<Vec<PointView>>, StoreError> {
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
    /// Whether something is to be done: a piece to be made, or an answer to be given up.
    pub(crate) fn is_due(&self, now_us: u64) -> bool {
        self.has_due() || self.late_us().is_some_and(|at_us| at_us <= now_us)
    }

    /// Whether a piece can be made at once.
    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// When the first answer is to be given up unless it goes on.
    pub(crate) fn late_us(&self) -> Option<u64> {
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

    fn has(&self, id: ConnectionId) -> bool {
        self.under_way.contains_key(&id) || self.waiting.iter().any(|(waits, ..)| *waits == id)
    }

    fn may_begin(&self, uid: u32) -> bool {
        let own = self.under_way.values().filter(|answer| answer.uid == uid).count();
        self.under_way.len() < UNDER_WAY_MAX && own < OF_A_USER_MAX
    }

    /// The first of those that wait and may begin now.
    fn take_waiting(&mut self) -> Option<(ConnectionId, Peer, Asked)> {
        let at = self.waiting.iter().position(|(_, user, _)| self.may_begin(user.uid))?;
        self.waiting.remove(at)
    }

    /// Those that took too long, and why they are given up.
    fn take_late(&mut self, now_us: u64) -> Vec<(ConnectionId, &'static str)> {
        let late = self.under_way.iter().filter_map(|(id, answer)| Some((*id, answer.late(now_us)?)));
        let late: Vec<_> = late.collect();
        late.iter().for_each(|(id, _)| self.forget(*id));
        late
    }
}

impl Daemon {
    /// Checks the question, and has the answer begin once all that is known is on disk.
    pub(crate) fn asked_in_pieces(&mut self, id: ConnectionId, user: Peer, asked: Asked) {
        let refusal = match self.may_ask(user, &asked) {
            Ok(()) if self.pieces.has(id) => {
                (ErrorCode::Usage, "an answer in pieces is under way on this connection already".to_owned())
            }
            Ok(()) => return self.effects.push(Effect::Tell(id, asked)),
            Err(refusal) => refusal,
        };
        self.refused(id, refusal);
    }

    fn may_ask(&mut self, user: Peer, asked: &Asked) -> Result<(), Refusal> {
        self.whose(user, asked.all)?;
        match &asked.select {
            Select::Jobs(jobs) => jobs.iter().try_for_each(|&job| self.row_for(user, JobId(job)).map(drop)),
            Select::Last(_) | Select::Since(_) => Ok(()),
        }
    }

    /// Begins an answer, or lets it wait its turn.
    pub(crate) fn tell(&mut self, id: ConnectionId, asked: Asked) {
        let Some(user) = self.server.peer(id) else { return };
        if self.pieces.has(id) {
            // Two questions in one turn.
            let text = "an answer in pieces is under way on this connection already".to_owned();
            return self.refused(id, (ErrorCode::Usage, text));
        }
        if !self.pieces.may_begin(user.uid) {
            return self.pieces.waiting.push_back((id, user, asked));
        }
        match self.begin_answer(user, &asked) {
            Ok(answer) => {
                self.pieces.under_way.insert(id, answer);
                self.pieces.due.push_back(id);
            }
            Err(refusal) => self.refused(id, refusal),
        }
    }

    fn begin_answer(&mut self, user: Peer, asked: &Asked) -> Result<Answer, Refusal> {
        let snapshot = self.journal.store().snapshot().map_err(|error| store_failed(&error))?;
        let whose = self.whose(user, asked.all)?;
        let jobs = match &asked.select {
            Select::Jobs(jobs) => Ok(jobs.clone()),
            Select::Last(count) => snapshot.last_numbers(&whose, (*count).min(OVER_SHOWN)),
            Select::Since(since_us) => snapshot.numbers_since(&whose, *since_us, JOBS_MAX),
        };
        let jobs: VecDeque<u64> = jobs.map_err(|error| store_failed(&error))?.into();
        let mut live = BTreeMap::new();
        for &job in &jobs {
            let only_here =
                self.jobs.contains_key(&JobId(job)) || self.journal.unwritten(JobId(job)).is_some();
            if only_here && let Some(row) = self.row_of(JobId(job)) {
                let started_us = row.started_us;
                live.insert(job, (self.report_of_row(row, Wanted::default()), started_us));
            }
        }
        let now_us = self.clock.now_us();
        Ok(Answer {
            uid: user.uid,
            wanted: asked.wanted,
            snapshot,
            jobs,
            live,
            series: None,
            begun_us: now_us,
            moved_us: now_us,
        })
    }

    /// Makes the next piece of one answer, gives up those that took too long, and begins those that waited for that.
    pub(crate) fn tell_more(&mut self) {
        let now_us = self.clock.now_us();
        for (id, why) in self.pieces.take_late(now_us) {
            tracing::debug!(why, "a long answer is given up");
            self.refused(id, (ErrorCode::Failed, why.to_owned()));
        }
        if let Some(id) = self.pieces.due.pop_front()
            && let Some(mut answer) = self.pieces.under_way.remove(&id)
        {
            match self.next_piece(&mut answer) {
                Ok(piece) => {
                    answer.moved_us = now_us;
                    if piece != Piece::Last {
                        self.pieces.under_way.insert(id, answer);
                    }
                    // When it is sent, or has begun to be, the next one is due.
                    self.effects.push(Effect::Reply(id, Reply::Piece(piece)));
                }
                Err(error) => self.refused(id, store_failed(&error)),
            }
        }
        while let Some((id, _, asked)) = self.pieces.take_waiting() {
            self.tell(id, asked);
        }
    }

    fn next_piece(&mut self, answer: &mut Answer) -> Result<Piece, StoreError> {
        if let Some(series) = &mut answer.series {
            if let Some(points) = series.next(&answer.snapshot)? {
                return Ok(Piece::Points(points));
            }
            answer.series = None;
        }
        let wanted = answer.wanted;
        let has_lists = wanted.series || wanted.processes || wanted.threads || wanted.files;
        let count = if has_lists { 1 } else { JOBS_A_PIECE };
        let mut views = Vec::new();
        let mut bytes = 0;
        while views.len() < count
            && bytes < PIECE_BYTES
            && let Some(job) = answer.jobs.pop_front()
        {
            let (mut view, started_us) = match answer.live.remove(&job) {
                Some((mut view, started_us)) => {
                    self.tell_lists(JobId(job), wanted, &mut view);
                    (view, started_us)
                }
                // One that was never written and is over is not there either.
                None => match answer.snapshot.job(job)? {
                    Some(row) => (self.report_then(&answer.snapshot, &row, wanted)?, row.started_us),
                    None => continue,
                },
            };
            if wanted.series {
                let (place, points) = (Place::first(job), Points::since(started_us));
                answer.series = Some(Series { place, points, read: VecDeque::new() });
                view.series = Some(Vec::new());
            }
            bytes += view.command.iter().map(|word| word.len() + 8).sum::<usize>();
            views.push(view);
        }
        Ok(if views.is_empty() { Piece::Last } else { Piece::Jobs(views) })
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
        Asked { select: Select::Last(1), all: false, wanted: Wanted::default() }
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
