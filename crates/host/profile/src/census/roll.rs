//! The processes of one job: how many there were, which rows are kept, and what is added up.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_proto::row::{ProcessRow, ProcessSource, ProcessUsage};

use super::{COMMANDS_KEPT, LONG_KEPT, OTHERS, SHORT_KEPT, SHORT_US, Seen};

/// So many samples of its job must not have listed a process that is over, before it is forgotten. The kernel
/// tells of an end before it takes the process off the lists, and on a busy host it may stay there for long; the
/// first sample may be from before its birth.
const ABSENT_MAX: u8 = 2;

/// By so much the start of a process, counted from the host's, and the time of a word may differ.
const CLOCKS_APART_US: u64 = 1_000_000;

/// A process that was counted and is over.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) at_us: u64,
    /// Samples in a row that did not list it.
    pub(super) absent: u8,
}

/// The processes of one job.
#[derive(Debug, Default)]
pub(super) struct Roll {
    /// Those of its trees of which processes live.
    pub(super) trees: BTreeSet<u64>,
    /// Those that the last sample saw and nobody knew.
    pub(super) unknown: BTreeSet<u32>,
    /// Those that were over lately, by number: a sample may still list them, and a word of them may come late.
    pub(super) over: BTreeMap<u32, Over>,
    pub(super) total: u64,
    pub(super) next_number: u64,
    pub(super) short_kept: u64,
    pub(super) long_kept: u64,
    /// Rows that are complete and not handed out yet.
    pub(super) ready: Vec<ProcessRow>,
    /// Those that are added up, by command, and whether that changed since they were handed out.
    pub(super) folds: BTreeMap<String, (ProcessRow, bool)>,
    /// What those that are over did, together, and how many they are.
    pub(super) sum: ProcessUsage,
    pub(super) ended: u64,
    /// Processes that are over of which waits and switches are not known to their end.
    pub(super) uncounted: u64,
}

impl Roll {
    /// Counts one more process and gives its number.
    pub(super) fn enter(&mut self) -> u64 {
        self.total += 1;
        self.next_number += 1;
        self.next_number
    }

    /// Forgets those that are over and off the lists, or whose number another process has by now. Where births
    /// are not reported for sure, a process that is listed is taken at its word.
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

    /// Keeps the row of a process that is over, or adds it up.
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

    /// Adds up what several processes did of which no rows were kept.
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

/// What processes are added up by: the last part of the command's path, without arguments.
fn short_name(command: &str) -> String {
    let program = command.split_whitespace().next().unwrap_or("");
    program.rsplit('/').next().unwrap_or(program).to_owned()
}

/// Adds a row to that of its command.
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
