//! Who changed what: a file of records, each chained to the one before, so that a record that was changed, put in or
//! taken out in the middle shows.
//!
//! Owns `audit.jsonl` in the state directory and the files that were full before it (`audit/file.rs`). Each record's
//! `chain` is the SHA-256 of the chain before it and of the record's other fields. A process that may write the file can also
//! write a whole new chain, or cut its end off: what stood there last is therefore logged at each start.
//!
//! Two kinds of acts. What an operator does, and what anybody does to others' jobs, is written always, and flushed to disk
//! before it has an effect, once for all of a turn. What users do to their own jobs is not flushed, and only as much of it
//! is written one by one as a budget allows; the rest is counted (`audit/budget.rs`).
//!
//! A disk that refuses does not keep an operator from acting: records wait in memory, bounded, and are written in order
//! once there is room; how many were dropped is a record of its own.

use crate::clients::names::Names;
use crate::clients::rights;
use crate::core::Ctx;

mod budget;
mod chain;
mod file;
/// Whose concern an act on what is this user's own is: an operator acts for the host.
pub(crate) fn concern_of(ctx: &Ctx, user: Peer) -> Concern {
    if rights::is_operator(&ctx.configured.config, user) { Concern::Others } else { Concern::Own }
}

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::path::Path;

use pinfold_proto::view::{AuditView, VERSION};

use budget::Budget;
use file::Log;
use pinfold_sys::peer::Peer;

/// Records that are given to a client at most: the last ones.
const SHOWN_MAX: usize = 10_000;
/// Records that wait for room on the disk, at most.
const WAITING_MAX: usize = 1_000;
/// How long the words of a record may be, in bytes.
const DETAIL_MAX_BYTES: usize = 4_096;
/// And of what users do to their own jobs.
const OWN_DETAIL_MAX_BYTES: usize = 256;

/// Whose concern an act is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Concern {
    /// The host's, or another user's: always on record.
    Others,
    /// That of the acting user, alone.
    Own,
}

/// An act, before it is a record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Act {
    /// When, in Unix seconds.
    pub time_s: f64,
    /// Who, by the kernel's word,
    pub uid: u32,
    /// and that user's name.
    pub user: String,
    pub action: String,
    /// To what, and from what to what.
    pub detail: String,
}

impl Act {
    /// Something that nobody asked for.
    pub(crate) fn of_the_daemon(time_s: f64, action: &str, detail: String) -> Self {
        let uid = pinfold_sys::peer::own_uid();
        Self { time_s, uid, user: "pinfoldd".to_owned(), action: action.to_owned(), detail }
    }
}

/// The records of one state directory.
#[derive(Debug)]
pub(crate) struct Audit {
    log: Log,
    budget: Budget,
    /// Acts that could not be written yet, oldest first.
    waiting: VecDeque<Act>,
    /// Acts that nothing is left of but their count.
    dropped: u64,
    /// Something was written that is to be on disk before it has an effect.
    unflushed: bool,
}

impl Audit {
    /// Opens the records of a state directory and takes up their chain.
    pub(crate) fn open(state: &Path, time_s: f64) -> Self {
        let (log, interrupted) = Log::open(state);
        let (budget, waiting) = (Budget::new(time_s), VecDeque::new());
        let mut audit = Self { log, budget, waiting, dropped: 0, unflushed: false };
        if let Some(interrupted) = interrupted {
            audit.write(Act::of_the_daemon(time_s, "audit", interrupted), true);
        }
        audit
    }

    /// Notes an act.
    pub(crate) fn record(&mut self, concern: Concern, mut act: Act) {
        let most = if concern == Concern::Own { OWN_DETAIL_MAX_BYTES } else { DETAIL_MAX_BYTES };
        if act.detail.len() > most {
            act.detail.truncate(act.detail.floor_char_boundary(most));
            act.detail.push_str(" ...");
        }
        if concern == Concern::Own {
            for counted in self.budget.due(act.time_s) {
                self.write(counted, false);
            }
            if self.budget.take(&act) {
                self.write(act, false);
            }
            return;
        }
        self.write(act, true);
        self.unflushed = true;
    }

    /// Writes what waits for room, and what was only counted, as far as it is time for it.
    pub(crate) fn keep_up(&mut self, time_s: f64) {
        for counted in self.budget.due(time_s) {
            self.write(counted, false);
        }
        self.write_waiting(time_s);
    }

    /// Writes all that is left, the counts too: there will be no other time.
    pub(crate) fn close(&mut self, time_s: f64) {
        for counted in self.budget.rest(time_s) {
            self.write(counted, false);
        }
        self.write_waiting(time_s);
        self.unflushed = true;
        self.flush();
    }

    /// Whether there is something that [`Self::keep_up`] will have to do.
    pub(crate) fn lags(&self) -> bool {
        !self.waiting.is_empty() || self.dropped > 0 || self.budget.owes()
    }

    /// Brings to disk what must be there before it has an effect; nothing to do as a rule.
    pub(crate) fn flush(&mut self) {
        if std::mem::take(&mut self.unflushed)
            && let Err(error) = self.log.flush()
        {
            tracing::error!(%error, "the audit cannot be brought to disk");
        }
    }

    /// While others wait for room the disk is tried again for those only of which it is `certain` that they are few; for
    /// the rest by the clock.
    fn write(&mut self, act: Act, certain: bool) {
        let time_s = act.time_s;
        let first = self.waiting.is_empty();
        if self.waiting.len() == WAITING_MAX {
            tracing::error!(act.action, act.detail, act.uid, "an act is not recorded");
            self.dropped = self.dropped.saturating_add(1);
        } else {
            self.waiting.push_back(act);
        }
        if first || certain {
            self.write_waiting(time_s);
        }
    }

    fn write_waiting(&mut self, time_s: f64) {
        while let Some(act) = self.waiting.front() {
            if let Err(error) = self.log.append(act) {
                return self.failed(&error);
            }
            self.waiting.pop_front();
        }
        if self.dropped > 0 {
            let detail = format!("{} acts were not recorded for want of room on the disk", self.dropped);
            match self.log.append(&Act::of_the_daemon(time_s, "audit", detail)) {
                Ok(()) => self.dropped = 0,
                Err(error) => self.failed(&error),
            }
        }
    }

    fn failed(&self, error: &io::Error) {
        let Some(act) = self.waiting.front() else { return };
        tracing::error!(%error, act.action, act.detail, act.uid, "an act is not on record yet");
    }

    /// What users should know of it, in words.
    pub(crate) fn warning(&self) -> Option<String> {
        let (waiting, dropped) = (self.waiting.len(), self.dropped);
        (waiting > 0 || dropped > 0).then(|| {
            format!("the audit cannot be written: {waiting} records wait for room, {dropped} were dropped")
        })
    }

    /// The last records, and whether the chain of all holds if that is asked for.
    pub(crate) fn view(&self, verify: bool) -> AuditView {
        let walked = chain::walk(self.log.directory(), verify, SHOWN_MAX);
        let mut notes = walked.notes;
        notes.extend(self.warning());
        AuditView {
            version: VERSION,
            records: walked.records.into(),
            intact: verify.then_some(walked.broken.is_none()),
            broken: walked.broken.filter(|_| verify),
            notes,
        }
    }
}

impl Audit {
    /// Notes who changed what. It is on disk before an effect of this turn, if it concerns others.
    pub(crate) fn note(
        &mut self,
        ctx: &Ctx,
        names: &mut Names,
        user: Peer,
        concern: Concern,
        action: &str,
        detail: &str,
    ) {
        let time_s = pinfold_proto::view::seconds(ctx.clock.now_us());
        let (action, detail) = (action.to_owned(), detail.to_owned());
        let act = Act { time_s, uid: user.uid, user: names.name(user.uid), action, detail };
        self.record(concern, act);
    }
}
