//! The processes of a job: their number, the rows kept, and the sums.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_proto::row::{ProcessRow, ProcessSource, ProcessUsage};

use super::{COMMANDS_KEPT, LONG_KEPT, OTHERS, SHORT_KEPT, SHORT_US, Seen};

/// Consecutive samples that must not list an ended process before it is forgotten. The kernel reports an end before
/// it unlists the process, which may take long on a busy host; the first sample may be from before its birth.
const ABSENT_MAX: u8 = 2;

/// By so much the start of a process, counted from the host's, and the time of a word may differ.
const CLOCKS_APART_US: u64 = 1_000_000;

/// A counted process that has ended.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) at_us: u64,
    /// Consecutive samples that did not list it.
    pub(super) absent: u8,
}

/// The processes of a job.
#[derive(Debug, Default)]
pub(super) struct Roll {
    /// Its trees with living processes.
    pub(super) trees: BTreeSet<u64>,
    /// Unknown processes of the last sample.
    pub(super) unknown: BTreeSet<u32>,
    /// Recently ended processes by number: a sample may still list them, and events may come late.
    pub(super) over: BTreeMap<u32, Over>,
    pub(super) total: u64,
    pub(super) next_number: u64,
    pub(super) short_kept: u64,
    pub(super) long_kept: u64,
    /// Complete rows, not yet returned.
    pub(super) ready: Vec<ProcessRow>,
    /// Sums by command, and whether each changed since it was last returned.
    pub(super) folds: BTreeMap<String, (ProcessRow, bool)>,
    /// Total usage of ended processes; `ended` is their number.
    pub(super) sum: ProcessUsage,
    pub(super) ended: u64,
    /// Ended processes without complete waits and context switches.
    pub(super) uncounted: u64,
}

impl Roll {
    /// Counts a new process and returns its number.
    pub(super) fn enter(&mut self) -> u64 {
        self.total += 1;
        self.next_number += 1;
        self.next_number
    }

    /// Forgets ended processes that are unlisted, or have a reused number. Unless births are reported reliably, a
    /// listed process counts as living.
    pub(super) fn still_listed(&mut self, alive: &[u32], seen: &[Seen], sure: bool) {
        if !sure {
            self.over.clear();
        }
        self.over.retain(|pid, over| {
            let is_listed = alive.binary_search(pid).is_ok();
            over.absent = if is_listed { 0 } else { over.absent + 1 };
            over.absent < ABSENT_MAX
        });
        for one in seen {
            if self.over.get(&one.pid).is_some_and(|over| one.started_us > over.at_us + CLOCKS_APART_US) {
                self.over.remove(&one.pid);
            }
        }
    }

    /// Keeps or adds up the row of an ended process.
    pub(super) fn keep(&mut self, mut row: ProcessRow, job: u64) {
        row.job = job;
        self.sum.add(&row.used);
        self.ended += 1;
        self.uncounted += u64::from(row.source != ProcessSource::Exit);
        if let Some(at_us) = row.ended_us {
            self.over.insert(row.pid, Over { at_us, absent: 0 });
        }
        let lived_us = row.ended_us.zip(row.started_us).map_or(0, |(to, from)| to.saturating_sub(from));
        let kept = if lived_us < SHORT_US { &mut self.short_kept } else { &mut self.long_kept };
        let kept_max = if lived_us < SHORT_US { SHORT_KEPT } else { LONG_KEPT };
        if *kept < kept_max {
            *kept += 1;
            self.ready.push(row);
            return;
        }
        let full = self.folds.len() >= COMMANDS_KEPT;
        let name = short_name(&row.command);
        let name = if full && !self.folds.contains_key(&name) { OTHERS.to_owned() } else { name };
        self.fold(name, row);
    }

    /// Adds the sum of several processes without rows.
    pub(super) fn keep_sum(&mut self, mut row: ProcessRow, job: u64) {
        row.job = job;
        self.sum.add(&row.used);
        self.ended += row.count;
        self.uncounted += if row.source == ProcessSource::Exit { 0 } else { row.count };
        self.fold(OTHERS.to_owned(), row);
    }

    fn fold(&mut self, name: String, mut row: ProcessRow) {
        match self.folds.get_mut(&name) {
            Some((fold, changed)) => {
                add(fold, &row);
                *changed = true;
            }
            None => {
                row.command.clone_from(&name);
                row.parent = None;
                self.folds.insert(name, (row, true));
            }
        }
    }
}

/// Key of the sums: the last part of the command's path, without arguments.
fn short_name(command: &str) -> String {
    let program = command.split_whitespace().next().unwrap_or("");
    program.rsplit('/').next().unwrap_or(program).to_owned()
}

/// Adds a row to its command's sum.
pub(super) fn add(fold: &mut ProcessRow, row: &ProcessRow) {
    fold.count += row.count;
    fold.failed += row.failed;
    fold.threads = fold.threads.max(row.threads);
    fold.started_us = fold.started_us.min(row.started_us.or(fold.started_us));
    fold.ended_us = fold.ended_us.max(row.ended_us);
    fold.exit_code = row.exit_code.or(fold.exit_code);
    fold.signal = row.signal.or(fold.signal);
    fold.used.add(&row.used);
    fold.counted &= row.counted;
    fold.share = [fold.share, row.share].into_iter().flatten().max_by_key(|share| share.peak_bytes);
    if row.source != ProcessSource::Exit {
        fold.source = row.source;
    }
}
