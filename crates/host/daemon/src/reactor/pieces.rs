//! Long answers begin, go on a piece at a time, and end (`clients/pieces`).

use std::collections::{BTreeMap, VecDeque};

use pinfold_policy::JobId;
use pinfold_profile::report::Points;
use pinfold_profile::store::{Place, StoreError, Whose};
use pinfold_proto::wire::{ErrorCode, Piece, Reply, Select};
use pinfold_sys::peer::Peer;

use crate::clients::looks::Checked;
use crate::clients::pieces::{Answer, Known, Listing, Series};
use crate::core::event::{Asked, Wanted};
use crate::core::{ConnectionId, Effect, Refusal, store_failed};
use crate::reactor::Daemon;

/// Jobs of a piece: some 200 KiB, a few milliseconds.
const JOBS_A_PIECE: usize = 100;
/// A piece has no more jobs than take so many bytes, as far as their commands go.
const PIECE_BYTES: usize = 512 * 1024;

impl Daemon {
    /// Checks the question, and has the answer begin once all that is known is on disk.
    pub(super) fn asked_in_pieces(&mut self, id: ConnectionId, user: Peer, asked: Asked) {
        let refusal = match self.whose(user, asked.all) {
            Ok(_) if self.clients.pieces.has(id) => {
                (ErrorCode::Usage, "an answer in pieces is under way on this connection already".to_owned())
            }
            Ok(_) => {
                let jobs = if let Select::Jobs(jobs) = &asked.select { jobs.clone() } else { Vec::new() };
                return self.check(id, user, &jobs, Checked::Pieces(asked));
            }
            Err(refusal) => refusal,
        };
        self.outbox.refuse(id, refusal);
    }

    /// Begins an answer, or lets it wait its turn.
    pub(super) fn tell(&mut self, id: ConnectionId, asked: Asked) {
        let Some(user) = self.clients.server.peer(id) else { return };
        if self.clients.pieces.has(id) {
            // Two questions in one turn.
            let text = "an answer in pieces is under way on this connection already".to_owned();
            return self.outbox.refuse(id, (ErrorCode::Usage, text));
        }
        if !self.clients.pieces.may_begin(user.uid) {
            if let Err(refusal) = self.clients.pieces.wait(id, user, asked) {
                self.outbox.refuse(id, refusal);
            }
            return;
        }
        match self.begin_answer(user, &asked) {
            Ok(answer) => self.clients.pieces.begin(id, answer),
            Err(refusal) => self.outbox.refuse(id, refusal),
        }
    }

    fn begin_answer(&mut self, user: Peer, asked: &Asked) -> Result<Answer, Refusal> {
        let snapshot = self.outbox.journal.store().snapshot().map_err(|error| store_failed(&error))?;
        let whose = self.whose(user, asked.all)?;
        let mut live = BTreeMap::new();
        for job in self.only_here(&asked.select, &whose) {
            let Some(row) = self.newest(job).map_err(|error| store_failed(&error))? else { continue };
            let waits = self.jobs.table.get(&JobId(job)).is_some_and(|live| live.container.is_none());
            // There may be thousands that wait.
            let known = if waits {
                Known::Waits(Box::new(row))
            } else {
                let started_us = row.started_us;
                Known::Told(Box::new(self.report_of_row(row, Wanted::default())), started_us)
            };
            live.insert(job, known);
        }
        let listing = Listing::of(&asked.select, whose, &snapshot).map_err(|error| store_failed(&error))?;
        let jobs = if let Select::Jobs(jobs) = &asked.select { jobs.clone() } else { Vec::new() };
        let now_us = self.ctx.clock.now_us();
        Ok(Answer {
            uid: user.uid,
            wanted: asked.wanted,
            snapshot,
            listing,
            jobs: jobs.into(),
            live,
            series: None,
            begun_us: now_us,
            moved_us: now_us,
        })
    }

    /// Of the jobs that are asked for those of which only the loop knows all; perhaps some more.
    fn only_here(&self, select: &Select, whose: &Whose) -> Vec<u64> {
        let (table, journal) = (&self.jobs.table, &self.outbox.journal);
        let rows = self.here(whose);
        match select {
            Select::Jobs(jobs) => {
                let is_here = |job: JobId| table.contains_key(&job) || journal.unwritten(job).is_some();
                jobs.iter().copied().filter(|&job| is_here(JobId(job))).collect()
            }
            Select::Since(since_us) => {
                rows.filter(|row| row.submitted_us >= *since_us).map(|row| row.job).collect()
            }
            Select::Last(count) => {
                let mut jobs: Vec<u64> = rows.map(|row| row.job).collect();
                jobs.sort_unstable();
                jobs.split_off(jobs.len().saturating_sub(*count as usize))
            }
        }
    }

    /// Makes the next piece of one answer, gives up those that took too long, and begins those that waited for that.
    pub(super) fn on_piece_due(&mut self) {
        let now_us = self.ctx.clock.now_us();
        for (id, why) in self.clients.pieces.take_late(now_us) {
            tracing::debug!(why, "a long answer is given up");
            self.outbox.refuse(id, (ErrorCode::Failed, why.to_owned()));
        }
        if let Some((id, mut answer)) = self.clients.pieces.next() {
            match self.next_piece(&mut answer) {
                Ok(None) => {
                    answer.moved_us = now_us;
                    self.clients.pieces.goes_on_at_once(id, answer);
                }
                Ok(Some(piece)) => {
                    answer.moved_us = now_us;
                    if piece != Piece::Last {
                        self.clients.pieces.goes_on(id, answer);
                    }
                    self.outbox.push(Effect::Reply(id, Box::new(Reply::Piece(piece))));
                }
                Err(error) => self.outbox.refuse(id, store_failed(&error)),
            }
        }
        while let Some((id, _, asked)) = self.clients.pieces.take_waiting() {
            self.tell(id, asked);
        }
    }

    /// The next piece; `None`: first more of its jobs are to be listed.
    fn next_piece(&mut self, answer: &mut Answer) -> Result<Option<Piece>, StoreError> {
        if let Some(series) = &mut answer.series {
            if let Some(points) = series.next(&answer.snapshot)? {
                return Ok(Some(Piece::Points(points)));
            }
            answer.series = None;
        }
        if !answer.list()? {
            return Ok(None);
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
                Some(Known::Told(mut view, started_us)) => {
                    self.tell_lists(JobId(job), wanted, &mut view);
                    (*view, started_us)
                }
                Some(Known::Waits(row)) => {
                    let at_us = answer.begun_us;
                    let mut view = self.report_then(&answer.snapshot, &row, Wanted::default(), at_us)?;
                    self.tell_lists(JobId(job), wanted, &mut view);
                    (view, row.started_us)
                }
                // One that is over may have been struck off since it was listed.
                None => match answer.snapshot.job(job)? {
                    Some(row) => {
                        (self.report_then(&answer.snapshot, &row, wanted, answer.begun_us)?, row.started_us)
                    }
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
        let is_last = views.is_empty() && answer.listing.is_none();
        Ok(Some(if is_last { Piece::Last } else { Piece::Jobs(views) }))
    }
}
