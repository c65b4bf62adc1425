//! The files that a job used, from periodic looks at its processes' open files.
//!
//! Bytes follow from how far positions moved between looks, and from the first position. A file that is open only
//! between two looks is missed; reading and writing at given offsets or through mappings moves no position. Inherited
//! descriptors share a position: equal moves count once. Bounded: files beyond [`FILES_MAX`] per job are only
//! counted.
//!
//! A seek moves a position as well. The kernel counts the transferred bytes of each process but not of each file, so
//! the sum over a job's files is capped at the bytes of its processes ([`Files::transferred`]). When positions moved
//! further, the longest move is cut first, as the most likely seek.
//!
//! Owner of state: the files of each running job. Absent here: `/proc`, and the store.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_proto::row::FileRow;

/// The most files of a job with rows of their own.
pub const FILES_MAX: usize = 1_000;

/// How a file was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// For reading.
    Read,
    /// For writing.
    Write,
    /// For both.
    Both,
}

/// An open file of a process, at a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// The process.
    pub pid: u32,
    /// Its file descriptor.
    pub descriptor: u32,
    /// The file's path.
    pub path: String,
    /// Device and inode.
    pub file: (u64, u64),
    /// How it was opened.
    pub how: Use,
    /// Whether the file is open for appending.
    pub append: bool,
    /// Where the next byte is read or written.
    pub position_bytes: u64,
    /// Its size.
    pub size_bytes: u64,
}

/// A descriptor of a process; a new file under a reused descriptor has another key.
type Key = (u32, u32, (u64, u64));

/// The files of a job.
#[derive(Debug, Default)]
pub struct Files {
    rows: BTreeMap<String, FileRow>,
    /// The position of each open descriptor at the last look.
    positions: BTreeMap<Key, (Use, u64)>,
    /// Files beyond [`FILES_MAX`], by device and inode.
    others: BTreeSet<(u64, u64)>,
    changed: BTreeSet<String>,
    read: Room,
    written: Room,
    /// Whether the two hold for the next look.
    bounded: bool,
}

/// Budget of bytes for files: the processes' transferred bytes by the kernel's count, less the bytes assigned to
/// files.
#[derive(Debug, Clone, Copy, Default)]
struct Room {
    /// Bytes of processes that ended without being waited for by others of the job.
    left_bytes: u64,
    /// Bytes of the living processes at the last look.
    last_bytes: u64,
    told_bytes: u64,
}

impl Room {
    /// Updates the bytes of the living processes.
    fn count(&mut self, bytes: u64) {
        self.left_bytes = self.left_bytes.saturating_add(self.last_bytes.saturating_sub(bytes));
        self.last_bytes = bytes;
    }

    /// Takes up to `bytes` from the budget, all of them if not `bounded`; returns the bytes taken.
    fn tell(&mut self, bytes: u64, bounded: bool) -> u64 {
        let all = self.left_bytes.saturating_add(self.last_bytes);
        let granted = if bounded { bytes.min(all.saturating_sub(self.told_bytes)) } else { bytes };
        self.told_bytes = self.told_bytes.saturating_add(granted);
        granted
    }
}

/// How far a position moved.
#[derive(Debug)]
struct Move {
    path: String,
    how: Use,
    bytes: u64,
}

impl Files {
    /// Continues from stored rows.
    #[must_use]
    pub fn resume(rows: Vec<FileRow>) -> Self {
        let told = |of: fn(&FileRow) -> u64| {
            let told_bytes = rows.iter().map(of).fold(0, u64::saturating_add);
            Room { told_bytes, ..Room::default() }
        };
        let (read, written) = (told(|row| row.read_bytes), told(|row| row.write_bytes));
        let rows = rows.into_iter().map(|row| (row.path.clone(), row)).collect();
        Self { rows, read, written, ..Self::default() }
    }

    /// Bytes read and written so far by the job's living processes and by the children that they waited for; to be
    /// read after the positions of the next look. A look without these figures is not bounded.
    pub fn transferred(&mut self, read_bytes: u64, write_bytes: u64) {
        self.read.count(read_bytes);
        self.written.count(write_bytes);
        self.bounded = true;
    }

    /// A look at all open files of the processes `looked_at` (ascending) of `job`. Other processes keep their known
    /// state.
    pub fn look(&mut self, job: u64, looked_at: &[u32], open: &[Open], now_us: u64) {
        let before = std::mem::take(&mut self.positions);
        let was = |one: &Open| before.get(&key(one)).map(|&(_, position)| position);
        // An inherited descriptor has the position of its origin.
        let known: BTreeSet<_> = open
            .iter()
            .filter(|one| was(one).is_some())
            .map(|one| (one.file, one.how, one.position_bytes))
            .collect();
        // Files also held by processes outside this look do not count: the opening may be the same.
        let elsewhere: BTreeSet<_> = before
            .iter()
            .filter(|(key, _)| looked_at.binary_search(&key.0).is_err())
            .map(|(key, (how, _))| (key.2, *how))
            .collect();
        let (mut seen, mut moves) = (BTreeSet::new(), Vec::new());
        for one in open {
            let was = was(one);
            self.positions.insert(key(one), (one.how, one.position_bytes));
            if !self.rows.contains_key(&one.path) && self.rows.len() >= FILES_MAX {
                // This set is bounded too; further files are not counted.
                if self.others.len() < 10 * FILES_MAX {
                    self.others.insert(one.file);
                }
                continue;
            }
            let inherited = was.is_none() && known.contains(&(one.file, one.how, one.position_bytes));
            let counts = !inherited
                && !elsewhere.contains(&(one.file, one.how))
                && seen.insert((one.file, one.how, was, one.position_bytes));
            self.take(job, one, was.is_none() && counts, now_us);
            let bytes = if counts { moved(one, was) } else { 0 };
            moves.extend((bytes > 0).then(|| Move { path: one.path.clone(), how: one.how, bytes }));
        }
        self.tell(moves);
        let others = before.into_iter().filter(|(key, _)| looked_at.binary_search(&key.0).is_err());
        self.positions.extend(others);
    }

    fn take(&mut self, job: u64, one: &Open, new: bool, now_us: u64) {
        let row = self.rows.entry(one.path.clone()).or_insert_with(|| FileRow {
            job,
            path: one.path.clone(),
            first_us: now_us,
            ..FileRow::default()
        });
        row.last_us = now_us;
        row.opened += u64::from(new);
        row.size_bytes = row.size_bytes.max(one.size_bytes);
        row.read |= one.how != Use::Write;
        row.written |= one.how != Use::Read;
        self.changed.insert(one.path.clone());
    }

    /// Adds the moves to the files' bytes, within the budget.
    fn tell(&mut self, mut moves: Vec<Move>) {
        let bounded = std::mem::take(&mut self.bounded);
        moves.sort_by_key(|one| one.bytes);
        for Move { path, how, bytes } in moves {
            let granted = match how {
                Use::Read => self.read.tell(bytes, bounded),
                Use::Write => self.written.tell(bytes, bounded),
                Use::Both => {
                    let written = self.written.tell(bytes, bounded);
                    written.saturating_add(self.read.tell(bytes - written, bounded))
                }
            };
            let Some(row) = self.rows.get_mut(&path) else { continue };
            let sum = match how {
                Use::Read => &mut row.read_bytes,
                Use::Write => &mut row.write_bytes,
                Use::Both => &mut row.either_bytes,
            };
            *sum = sum.saturating_add(granted);
        }
    }

    /// Forgets ended processes.
    pub fn keep_only(&mut self, alive: &[u32]) {
        self.positions.retain(|key, _| alive.binary_search(&key.0).is_ok());
    }

    /// All rows, by path.
    pub fn rows(&self) -> impl Iterator<Item = &FileRow> {
        self.rows.values()
    }

    /// The rows changed since the last call.
    pub fn take_changed(&mut self) -> Vec<FileRow> {
        let changed = std::mem::take(&mut self.changed);
        changed.iter().filter_map(|path| self.rows.get(path).cloned()).collect()
    }

    /// The number of further files, as far as counted.
    #[must_use]
    pub fn others(&self) -> u64 {
        self.others.len() as u64
    }
}

fn key(one: &Open) -> Key {
    (one.pid, one.descriptor, one.file)
}

/// How far the position moved forward since the last look.
fn moved(one: &Open, was: Option<u64>) -> u64 {
    match was {
        // A position that went back was set, so bytes before are unknown.
        Some(was) => one.position_bytes.saturating_sub(was),
        // Appending begins at the file's end, at an unknown position.
        None if one.append => 0,
        None => one.position_bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(pid: u32, descriptor: u32, path: &str, how: Use, position_bytes: u64) -> Open {
        let inode = path.bytes().map(u64::from).sum();
        let size_bytes = 1_000_000;
        Open {
            pid,
            descriptor,
            path: path.to_owned(),
            file: (1, inode),
            how,
            append: false,
            position_bytes,
            size_bytes,
        }
    }

    #[track_caller]
    fn check(files: &Files, path: &str, want: (u64, u64, u64, u64)) {
        let row = files.rows().find(|row| row.path == path).unwrap();
        assert_eq!((row.read_bytes, row.write_bytes, row.either_bytes, row.opened), want, "{path}");
    }

    #[test]
    fn bytes_follow_positions() {
        let mut files = Files::default();
        files.look(1, &[10], &[open(10, 3, "a", Use::Read, 100)], 5);
        files.look(1, &[10], &[open(10, 3, "a", Use::Read, 600), open(10, 4, "b", Use::Write, 50)], 6);
        // Set back to the beginning, and read again.
        files.look(1, &[10], &[open(10, 3, "a", Use::Read, 0), open(10, 4, "b", Use::Write, 80)], 7);
        files.look(1, &[10], &[open(10, 3, "a", Use::Read, 200)], 8);
        check(&files, "a", (800, 0, 0, 1));
        check(&files, "b", (0, 80, 0, 1));
        // Closed and opened anew.
        files.look(1, &[10], &[], 9);
        files.look(1, &[10], &[open(10, 3, "a", Use::Both, 10)], 10);
        check(&files, "a", (800, 0, 10, 2));
        let row = files.rows().next().unwrap();
        assert_eq!((row.first_us, row.last_us, row.read, row.written), (5, 10, true, true));
    }

    #[test]
    fn inherited_descriptors_count_once() {
        let mut files = Files::default();
        let both =
            |position| [open(10, 1, "out", Use::Write, position), open(11, 1, "out", Use::Write, position)];
        files.look(1, &[10], &both(100)[..1], 1);
        // A child that has the same opening.
        files.look(1, &[10, 11], &both(300), 2);
        files.look(1, &[10, 11], &both(500), 3);
        check(&files, "out", (0, 500, 0, 1));
        // Two that come at once.
        let mut files = Files::default();
        files.look(1, &[10, 11], &both(40), 1);
        check(&files, "out", (0, 40, 0, 1));
    }

    #[test]
    fn appending_does_not_count_earlier_bytes() {
        let mut files = Files::default();
        let log = |position| Open { append: true, ..open(10, 5, "log", Use::Write, position) };
        files.look(1, &[10], &[log(9_000)], 1);
        files.look(1, &[10], &[log(9_500)], 2);
        check(&files, "log", (0, 500, 0, 1));
    }

    #[test]
    fn processes_that_were_not_looked_at_keep_their_place() {
        let mut files = Files::default();
        files.look(1, &[10, 11], &[open(10, 3, "a", Use::Read, 10), open(11, 3, "b", Use::Read, 10)], 1);
        files.look(1, &[11], &[open(11, 3, "b", Use::Read, 30)], 2);
        files.look(1, &[10], &[open(10, 3, "a", Use::Read, 50)], 3);
        check(&files, "a", (50, 0, 0, 1));
        files.keep_only(&[11]);
        files.look(1, &[10], &[open(10, 3, "a", Use::Read, 60)], 4);
        check(&files, "a", (110, 0, 0, 2));
    }

    #[test]
    fn shared_descriptors_are_not_counted_twice() {
        let mut files = Files::default();
        let at = |pid, position| open(pid, 1, "out", Use::Write, position);
        files.look(1, &[10], &[at(10, 100)], 1);
        files.look(1, &[11], &[at(11, 400)], 2);
        files.look(1, &[10], &[at(10, 700)], 3);
        check(&files, "out", (0, 100, 0, 1));
    }

    #[test]
    fn bytes_skipped_by_a_seek_do_not_count() {
        let mut files = Files::default();
        // It read 100 bytes, then went a million further.
        files.transferred(100, 0);
        files.look(1, &[10], &[open(10, 3, "a", Use::Read, 1_000_100)], 1);
        check(&files, "a", (100, 0, 0, 1));
        files.transferred(400, 0);
        files.look(1, &[10], &[open(10, 3, "a", Use::Read, 1_000_400)], 2);
        check(&files, "a", (400, 0, 0, 1));
        // Of two that moved, the one that moved further is cut.
        files.transferred(900, 50);
        let three = [
            open(10, 3, "a", Use::Read, 5_000_000),
            open(10, 4, "b", Use::Read, 300),
            open(10, 5, "c", Use::Both, 90),
        ];
        files.look(1, &[10], &three, 3);
        check(&files, "b", (300, 0, 0, 1));
        check(&files, "c", (0, 0, 90, 1));
        check(&files, "a", (560, 0, 0, 1));
    }

    #[test]
    fn bytes_of_ended_processes_still_count() {
        let mut files = Files::default();
        files.transferred(1_000, 0);
        files.look(1, &[10, 11], &[open(10, 3, "a", Use::Read, 900), open(11, 3, "b", Use::Read, 50)], 1);
        // The first of them is gone, and the second read on.
        files.transferred(200, 0);
        files.look(1, &[11], &[open(11, 3, "b", Use::Read, 90)], 2);
        check(&files, "b", (90, 0, 0, 1));
        // After a restart positions are new, and what they were told for is known.
        let mut files = Files::resume(files.rows().cloned().collect());
        files.transferred(990, 0);
        files.look(1, &[11], &[open(11, 3, "b", Use::Read, 90)], 3);
        check(&files, "b", (90, 0, 0, 2));
    }

    #[test]
    fn files_are_bounded_and_the_others_counted() {
        let mut files = Files::default();
        for at in 0..FILES_MAX as u64 + 50 {
            let one = Open { file: (2, at), ..open(10, 3, &format!("f{at}"), Use::Read, 1) };
            files.look(1, &[10], &[one], at);
        }
        assert_eq!((files.rows().count(), files.others()), (FILES_MAX, 50));
        assert_eq!(files.take_changed().len(), FILES_MAX);
        assert!(files.take_changed().is_empty());
    }
}
