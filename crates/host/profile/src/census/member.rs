//! A process that is not over: what is known of it, and its row once it is.

use pinfold_proto::row::{ProcessRow, ProcessSource, ProcessUsage};

use super::{End, Seen};

/// A process that is not over.
#[derive(Debug)]
pub(super) struct Member {
    /// The tree that it belongs to.
    pub(super) tree: u64,
    pub(super) row: ProcessRow,
    /// What its threads that ended used.
    pub(super) ended: ProcessUsage,
    pub(super) ended_threads: u64,
    /// Whether its birth was heard of; a sample or a keeper may have named it first.
    pub(super) heard: bool,
    /// Whether it was, and nothing was lost since: the births of all its children were heard of too.
    pub(super) traced: bool,
    /// Samples in a row that did not see it.
    pub(super) missed: u8,
}

impl Member {
    /// A thread of it ended.
    pub(super) fn thread_ended(&mut self, end: &End) {
        self.ended_threads += 1;
        if let Some(used) = &end.used {
            self.ended.add(used);
        }
    }

    /// A sample saw it.
    pub(super) fn see(&mut self, seen: &Seen) {
        if let Some(command) = &seen.command {
            self.row.command.clone_from(command);
        }
        self.row.parent = self.row.parent.or(Some(seen.parent));
        self.row.started_us = Some(seen.started_us);
        self.row.threads = self.row.threads.max(seen.threads);
        self.row.used.raise(&seen.used);
        self.row.source = ProcessSource::Running;
    }

    /// Its row, now that it is over.
    pub(super) fn over(mut self, end: &End, now_us: u64) -> ProcessRow {
        let mut row = self.row;
        if row.command.is_empty() {
            row.command.clone_from(&end.name);
        }
        row.parent = row.parent.or(Some(end.parent).filter(|&parent| parent != 0));
        row.exit_code = end.exit_code;
        row.signal = end.signal;
        let is_known = end.exit_code.is_some() || end.signal.is_some();
        row.failed = u64::from(is_known && end.exit_code != Some(0));
        let born_us = now_us.saturating_sub(end.lived_us);
        row.started_us = row.started_us.or(Some(born_us).filter(|_| end.lived_us > 0));
        let ended_us = row.started_us.filter(|_| end.lived_us > 0).map(|at| at.saturating_add(end.lived_us));
        row.ended_us = Some(ended_us.map_or(now_us, |at| at.min(now_us)));
        row.threads = row.threads.max(self.ended_threads).max(1);
        row.counted |= end.used.is_some();
        row.source = match (end.used, row.source) {
            (Some(_), _) => ProcessSource::Exit,
            (None, ProcessSource::Running) => ProcessSource::Sample,
            (None, other) => other,
        };
        // A thread's record that got lost is made up for by what a sample saw.
        self.ended.raise(&row.used);
        row.used = self.ended;
        row
    }
}
