//! A living process: its known facts, and its row after its end.

use pinfold_proto::row::{ProcessRow, ProcessSource, ProcessUsage};

use super::{End, Seen};

/// A living process.
#[derive(Debug)]
pub(super) struct Member {
    /// Its tree.
    pub(super) tree: u64,
    pub(super) row: ProcessRow,
    /// Usage of its ended threads.
    pub(super) ended: ProcessUsage,
    pub(super) ended_threads: u64,
    /// Whether its birth was reported; a sample or a keeper may have named it first.
    pub(super) heard: bool,
    /// Whether its birth was reported without a loss since: the births of all its children were then reported too.
    pub(super) traced: bool,
    /// Consecutive samples that missed it.
    pub(super) missed: u8,
}

impl Member {
    /// Adds the usage of an ended thread.
    pub(super) fn thread_ended(&mut self, end: &End) {
        self.ended_threads += 1;
        if let Some(used) = &end.used {
            self.ended.add(used);
        }
    }

    /// Updates the row from a sample.
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

    /// The final row.
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
        // A sample's figures replace a lost record of a thread.
        self.ended.raise(&row.used);
        row.used = self.ended;
        row
    }
}
