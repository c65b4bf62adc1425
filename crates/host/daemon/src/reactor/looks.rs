//! Thousands of jobs that are named are looked at and told a part at a time (`clients/looks`). A few are answered in the turn in
//! which they are asked for. What else is looked at so: `now`, `then`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pinfold_policy::JobId;
use pinfold_proto::wire::{ErrorCode, Reply, ReportsFrame, Select, json_bytes};
use pinfold_sys::peer::Peer;

use crate::clients::cost::ANSWER_MAX_BYTES;
use crate::clients::doctor::too_long;
use crate::clients::looks::{Check, Checked, Look, Tell, What};
use crate::core::event::{Asked, Wanted};
use crate::core::{ConnectionId, Effect, Refusal, in_full, store_failed};
use crate::reactor::Daemon;
use crate::reactor::reports::OVER_SHOWN;

/// So many of the jobs that are named are looked at in a turn of the loop: what all users together may ask for in one.
pub(super) const JOBS_A_PART: usize = 256;
/// Fewer, if their requests, or what is told of them, are longer than this.
pub(super) const BYTES_A_PART: u64 = 1 << 20;
/// How many jobs, and how many samples of them in all, one answer holds that does not come in pieces.
const JOBS_AT_ONCE: u32 = 10_000;
const SAMPLES_AT_ONCE: u64 = 100_000;

impl Daemon {
    /// A client waits until jobs are over.
    pub(super) fn asked_to_wait(&mut self, id: ConnectionId, user: Peer, jobs: Vec<u64>) {
        match self.clients.waiters.has_room(&self.clients.server, id, user.uid, jobs.len()) {
            // Each is looked at once: a thousand may be named, and the same one a thousand times. It is told as often.
            Ok(()) => self.check(id, user, &jobs.clone(), Checked::Wait(jobs)),
            Err(refusal) => self.outbox.refuse(id, refusal),
        }
    }

    /// A client asks for reports, all in one answer.
    pub(super) fn asked_for_reports(&mut self, id: ConnectionId, user: Peer, asked: Asked) {
        let Asked { select, all, wanted } = asked;
        let found = self.whose(user, all).and_then(|whose| {
            let store = self.outbox.journal.store();
            let (stored, most, since_us) = match select {
                Select::Jobs(jobs) => return Ok((jobs, true)),
                Select::Last(count) => {
                    let most = count.min(OVER_SHOWN);
                    (store.last_numbers(&whose, most), most as usize, 0)
                }
                // One more than an answer may have at most.
                Select::Since(since_us) => {
                    let most = JOBS_AT_ONCE + 1;
                    (store.numbers_since(&whose, since_us, most), most as usize, since_us)
                }
            };
            let stored = stored.map_err(|error| store_failed(&error))?;
            let mut found = self.with_those_here(stored, &whose, since_us);
            found.reverse();
            found.truncate(most);
            Ok((found, false))
        });
        match found {
            Ok((jobs, true)) => {
                self.check(id, user, &jobs.clone(), Checked::Report { jobs, named: true, wanted })
            }
            Ok((found, false)) => {
                self.check(id, user, &found, Checked::Report { jobs: Vec::new(), named: false, wanted });
            }
            Err(refusal) => self.outbox.refuse(id, refusal),
        }
    }

    /// Checks jobs, and does what follows.
    pub(super) fn check(&mut self, id: ConnectionId, user: Peer, jobs: &[u64], then: Checked) {
        let mut times: BTreeMap<u64, u64> = BTreeMap::new();
        jobs.iter().for_each(|&job| *times.entry(job).or_default() += 1);
        let open = jobs.iter().filter_map(|job| Some((*job, times.remove(job)?))).collect();
        let what = What::Check(Check { open, bytes: 0, samples: 0, then });
        self.look(Look { id, user, what });
    }

    /// Begins a look. If it is a short one, that is all, and the answer follows at once.
    pub(super) fn look(&mut self, look: Look) {
        if let Err(refusal) = self.clients.looks.may_begin(look.user.uid, &look.what) {
            self.outbox.refuse(look.id, refusal);
        } else if self.clients.looks.has(look.user.uid, look.id) {
            self.clients.looks.begin(look);
        } else if let Some(rest) = self.look_on(look) {
            self.clients.looks.begin(rest);
        }
    }

    /// Whether a part is due. Nothing more is made for a user that leaves too much unread.
    pub(super) fn has_look_due(&self) -> bool {
        self.clients.looks.has_due(|uid| self.clients.server.leaves_unread(uid).is_none())
    }

    /// Does the next part of one of them.
    pub(super) fn on_look_due(&mut self) {
        let server = &self.clients.server;
        let next = self.clients.looks.next(|uid| server.leaves_unread(uid).is_none());
        if let Some(rest) = next.and_then(|look| self.look_on(look)) {
            self.clients.looks.goes_on(rest);
        }
    }

    /// Does a part of a look; gives what is left to do.
    fn look_on(&mut self, look: Look) -> Option<Look> {
        let Look { id, user, what } = look;
        match self.part_of_look(id, user, what) {
            Ok(rest) => rest.map(|what| Look { id, user, what }),
            Err(refusal) => {
                self.outbox.refuse(id, refusal);
                None
            }
        }
    }

    /// The same of what it is for. An answer is not begun while another one to its user is under way.
    pub(super) fn part_of_look(
        &mut self,
        id: ConnectionId,
        user: Peer,
        what: What,
    ) -> Result<Option<What>, Refusal> {
        if self.clients.looks.waits(user.uid, &what) {
            return Ok(Some(what));
        }
        match what {
            What::Moment(moment) => self.look_at_moment(id, user, moment),
            What::Then(then) => self.tell_moment(id, user, then),
            What::Now(now) => self.look_at_named(id, user, now),
            What::Names(names) => self.look_for_names(id, user, names),
            What::Check(check) => self.check_on(id, user, check),
            What::Tell(tell) => self.tell_on(id, tell),
        }
    }

    /// Checks some jobs; gives what is left to do.
    fn check_on(&mut self, id: ConnectionId, user: Peer, mut check: Check) -> Result<Option<What>, Refusal> {
        let mut left = BYTES_A_PART;
        for _ in 0..JOBS_A_PART {
            let Some((job, times)) = check.open.pop_front() else { break };
            let row = if let Checked::Report { named: false, .. } = check.then {
                // It may have been struck off since it was found.
                let Some(row) = self.newest(job).map_err(|error| store_failed(&error))? else { continue };
                row
            } else {
                self.row_for(user, JobId(job))?
            };
            let bytes = json_bytes(&row.spec);
            check.bytes += bytes * times;
            match &mut check.then {
                Checked::Pieces(_) => {}
                Checked::Report { named: false, .. } if check.bytes > ANSWER_MAX_BYTES => {
                    // The last ones, if not all fit.
                    check.open.clear();
                    break;
                }
                _ if check.bytes > ANSWER_MAX_BYTES => return Err(too_long()),
                Checked::Report { jobs, named: false, .. } => jobs.push(job),
                Checked::Report { .. } | Checked::Wait(_) => {}
            }
            check.samples += row.usage.samples * times;
            left = left.saturating_sub(bytes);
            if left == 0 {
                break;
            }
        }
        if !check.open.is_empty() {
            return Ok(Some(What::Check(check)));
        }
        match check.then {
            Checked::Wait(jobs) => self.waits(id, user, jobs).map(|()| None),
            Checked::Pieces(asked) => {
                self.outbox.push(Effect::Tell(id, asked));
                Ok(None)
            }
            Checked::Report { mut jobs, named, wanted } => {
                if jobs.len() > JOBS_AT_ONCE as usize || (wanted.series && check.samples > SAMPLES_AT_ONCE) {
                    let text = format!("{} jobs with {} samples", jobs.len(), check.samples);
                    let text = format!("{text} are too much for one answer: ask for it in pieces");
                    return Err((ErrorCode::Refused, text));
                }
                if !named {
                    jobs.reverse();
                }
                self.part_of_look(id, user, What::Tell(tell(jobs, wanted)))
            }
        }
    }

    /// Registers a client that waits for jobs, each of which it may see. Those that are over by now are not waited for.
    fn waits(&mut self, id: ConnectionId, user: Peer, wanted: Vec<u64>) -> Result<(), Refusal> {
        self.clients.waiters.has_room(&self.clients.server, id, user.uid, wanted.len())?;
        let open =
            wanted.iter().map(|&job| JobId(job)).filter(|job| self.jobs.table.contains_key(job)).collect();
        self.clients.waiters.add(id, open, wanted);
        // It may ask for one that was over just before.
        self.answer_waiters(self.outbox.durable.is_behind());
        Ok(())
    }

    /// Answers those that wait for nothing any more; if `lasting`, once that is on disk. One job may be the last that thousands
    /// wait for, each together with others: in a turn no more are told than in a part of a look, and the rest in later turns.
    pub(super) fn answer_waiters(&mut self, lasting: bool) {
        for (id, wanted) in self.clients.waiters.done() {
            let Some(user) = self.clients.server.peer(id) else { continue };
            let may = self.clients.server.leaves_unread(user.uid).is_none();
            if !may || !self.clients.looks.may_tell_at_once(wanted.len()) {
                // By then it is written, and whether that may be lost is seen when all are told.
                let what = What::Tell(tell(wanted, Wanted::default()));
                self.clients.looks.begin(Look { id, user, what });
                continue;
            }
            let distinct: BTreeSet<u64> = wanted.iter().copied().collect();
            let told =
                distinct.into_iter().map(|job| Ok((job, self.report_of(JobId(job), Wanted::default())?)));
            match told.collect::<Result<BTreeMap<_, _>, Refusal>>() {
                Ok(told) => {
                    let reports = wanted.iter().filter_map(|job| told.get(job)?.clone()).collect();
                    self.outbox.reply_lasting(id, Reply::Report(reports), lasting);
                }
                Err(refusal) => self.outbox.refuse(id, refusal),
            }
        }
    }

    /// Tells of some jobs; gives what is left to do. One that was struck off meanwhile is left out.
    fn tell_on(&mut self, id: ConnectionId, mut tell: Tell) -> Result<Option<What>, Refusal> {
        let (before, most) = (tell.frame.size(), if tell.is_short() { u64::MAX } else { BYTES_A_PART });
        for _ in 0..JOBS_A_PART {
            let Some(job) = tell.open.pop_front() else { break };
            let told = match tell.frame.repeat(job) {
                Some(repeated) => repeated,
                None => match self.report_of(JobId(job), tell.wanted)? {
                    Some(view) => tell.frame.push(job, &view),
                    None => Ok(()),
                },
            };
            told.map_err(|error| {
                (
                    ErrorCode::Refused,
                    format!("the answer cannot be sent: {}; ask for less at once", in_full(&error)),
                )
            })?;
            if (tell.frame.size() - before) as u64 > most {
                break;
            }
        }
        if !tell.open.is_empty() {
            return Ok(Some(What::Tell(tell)));
        }
        let (lasting, frame) = (self.outbox.durable.is_behind(), tell.frame.finish());
        if lasting {
            self.clients.server.hold_back(id, frame.len());
        }
        self.outbox.frame_lasting(id, frame, lasting);
        Ok(None)
    }
}

/// Reports of jobs, of which none is made yet.
fn tell(jobs: Vec<u64>, wanted: Wanted) -> Tell {
    Tell { open: VecDeque::from(jobs), wanted, frame: ReportsFrame::default() }
}
