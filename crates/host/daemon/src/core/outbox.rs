//! What handlers want done: rows to be committed, steps of the scheduler, what follows them, and effects.
//!
//! Two rules of order hold here, and nowhere else. Steps are taken in the order in which they were asked for, and all of
//! them before the next event is handled. Effects follow the commit of what explains them; which of them also wait for the
//! disk itself is `durable`'s to know.

use std::collections::VecDeque;

use pinfold_policy::JobId;
use pinfold_proto::wire::{ErrorCode, Reply};

use crate::core::durable::{After, Durable};
use crate::core::event::{ConnectionId, Effect};
use crate::store::journal::Journal;

/// What the loop does next, before any other event.
#[derive(Debug)]
pub(crate) enum Next {
    /// The scheduler takes an event in.
    Step(Box<pinfold_policy::Event>),
    /// The same of the machine as it is then, if it changed.
    Machine,
    /// The same of the settings.
    Configure,
    /// Reservations came, went or changed.
    SetsChanged,
    /// The scheduler takes a job in that an earlier daemon had, or that lost its keeper; says whether it runs.
    Adopt(JobId, bool),
    /// A job is not started, and its client is told why.
    NotStarted(JobId, String, ErrorCode),
    /// Keepers are called for jobs that wait for one.
    CallKeepers,
    /// Nobody keeps a job that waits.
    Withdraw(JobId, &'static str),
    /// A job may have come to its end.
    LookForEnd(JobId),
    /// A job's row takes the state that the scheduler has of it: a command changed that without an action.
    Follow(JobId),
    /// Why a job waits, whatever was decided about it just now.
    Reason(JobId, String),
    /// Cores are looked for, for isolated jobs that wait.
    Isolate,
    /// The next of them gets a set.
    IsolateOne,
    /// The scheduler has taken a reading of memory in.
    MemoryRead,
    /// A job of processes that ran before was submitted: the client is answered.
    Adopted { asked: ConnectionId, job: JobId, processes: u64 },
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Outbox {
    next: VecDeque<Next>,
    effects: Vec<Effect>,
    /// Rows that changed, to be committed.
    pub(crate) journal: Journal,
    /// What waits until it is on disk.
    pub(crate) durable: Durable,
}

impl Outbox {
    /// With nothing in it.
    pub(crate) fn new(journal: Journal, durable: Durable) -> Self {
        Self { next: VecDeque::new(), effects: Vec::new(), journal, durable }
    }

    /// What was written is to be brought to disk, if anything waits for that: the turn is over, or the daemon. Gives what
    /// follows at once.
    pub(crate) fn flush(&mut self) -> Vec<After> {
        let written = self.journal.trouble().is_none();
        let cleared = if written { self.journal.take_cleared() } else { None };
        cleared.into_iter().for_each(|path| self.durable.with_log(path));
        self.durable.turn_over(written)
    }

    /// The scheduler is to take this in.
    pub(crate) fn step(&mut self, event: pinfold_policy::Event) {
        self.next.push_back(Next::Step(Box::new(event)));
    }

    /// This follows the steps that were asked for so far.
    pub(crate) fn then(&mut self, next: Next) {
        self.next.push_back(next);
    }

    /// Is to be done once what explains it is committed.
    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Several of them.
    pub(crate) fn extend(&mut self, effects: impl IntoIterator<Item = Effect>) {
        self.effects.extend(effects);
    }

    /// Answers, once the state is committed.
    pub(crate) fn reply(&mut self, id: ConnectionId, reply: Reply) {
        self.push(Effect::Reply(id, Box::new(reply)));
    }

    /// Answers that it is refused.
    pub(crate) fn refuse(&mut self, id: ConnectionId, (code, message): (ErrorCode, String)) {
        self.reply(id, Reply::Error { code, message });
    }

    /// Answers, if `lasting` once what is written by now cannot be lost by a power cut.
    pub(crate) fn reply_lasting(&mut self, id: ConnectionId, reply: Reply, lasting: bool) {
        if lasting {
            self.durable.after(After::Reply(id, Box::new(reply)));
        } else {
            self.reply(id, reply);
        }
    }

    /// As [`Self::reply_lasting`], with a frame that is made already.
    pub(crate) fn frame_lasting(&mut self, id: ConnectionId, frame: Vec<u8>, lasting: bool) {
        if lasting {
            self.durable.after(After::Frame(id, frame));
        } else {
            self.push(Effect::Frame(id, frame));
        }
    }

    /// The first thing that is to be done before any other event, and what was asked for after it.
    pub(crate) fn next(&mut self) -> Option<(Next, VecDeque<Next>)> {
        let first = self.next.pop_front()?;
        Some((first, std::mem::take(&mut self.next)))
    }

    /// That follows what the first one asked for in turn.
    pub(crate) fn behind(&mut self, mut rest: VecDeque<Next>) {
        self.next.append(&mut rest);
    }

    /// Hands the effects out.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether nothing is left to be done.
    pub(crate) fn is_empty(&self) -> bool {
        self.next.is_empty() && self.effects.is_empty()
    }
}
