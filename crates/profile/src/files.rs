//! Which files a job used, put together from looks at what its processes have open.
//!
//! Bytes follow from how far positions moved between looks, and from their place at the first one: they are *at
//! least* what was transferred. A file that was open only between two looks is not seen; reading and writing at given
//! places or through mappings moves no position. Descriptors that were inherited share one position: those that move
//! alike count once. Bounded: beyond [`FILES_MAX`] files a job, further ones are only counted.
//!
//! Owner of state: the files of each job that runs. Absent here: `/proc`, and the store.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_proto::row::FileRow;

/// The most files of a job that are told one by one.
pub const FILES_MAX: usize = 1_000;

/// How a file was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Use {
    /// To be read.
    Read,
    /// To be written.
    Write,
    /// For both.
    Both,
}

/// A file that a process has open, at one look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// The process.
    pub pid: u32,
    /// Its number for the file.
    pub descriptor: u32,
    /// The file's path.
    pub path: String,
    /// Device and inode.
    pub file: (u64, u64),
    /// How it was opened.
    pub how: Use,
    /// Whether all that is written goes to the end.
    pub append: bool,
    /// Where the next byte is read or written.
    pub position_bytes: u64,
    /// How large it is.
    pub size_bytes: u64,
}

/// A descriptor of a process; by a new file under an old number another one.
type Key = (u32, u32, (u64, u64));

/// The files of one job.
#[derive(Debug, Default)]
pub struct Files {
    rows: BTreeMap<String, FileRow>,
    /// The position of each open descriptor at the last look.
    positions: BTreeMap<Key, (Use, u64)>,
    /// Files beyond those that are told, by device and inode.
    others: BTreeSet<(u64, u64)>,
    changed: BTreeSet<String>,
}

impl Files {
    /// Goes on from what was known.
    #[must_use]
    pub fn resume(rows: Vec<FileRow>) -> Self {
        Self { rows: rows.into_iter().map(|row| (row.path.clone(), row)).collect(), ..Self::default() }
    }

    /// A look at processes of `job`: all that `looked_at`, ascending, have open. Of others what was known stays.
    pub fn look(&mut self, job: u64, looked_at: &[u32], open: &[Open], now_us: u64) {
        let before = std::mem::take(&mut self.positions);
        let was = |one: &Open| before.get(&key(one)).map(|&(_, position)| position);
        // What has come by inheritance stands where the one does that it was inherited from.
        let known: BTreeSet<_> = open
            .iter()
            .filter(|one| was(one).is_some())
            .map(|one| (one.file, one.how, one.position_bytes))
            .collect();
        // What others hold as well, who are not looked at now, is not counted: it may be the same opening.
        let elsewhere: BTreeSet<_> = before
            .iter()
            .filter(|(key, _)| looked_at.binary_search(&key.0).is_err())
            .map(|(key, (how, _))| (key.2, *how))
            .collect();
        let mut moves = BTreeSet::new();
        for one in open {
            let was = was(one);
            self.positions.insert(key(one), (one.how, one.position_bytes));
            if !self.rows.contains_key(&one.path) && self.rows.len() >= FILES_MAX {
                // The set is bounded too; beyond it the count stands still.
                if self.others.len() < 10 * FILES_MAX {
                    self.others.insert(one.file);
                }
                continue;
            }
            let inherited = was.is_none() && known.contains(&(one.file, one.how, one.position_bytes));
            let counts = !inherited
                && !elsewhere.contains(&(one.file, one.how))
                && moves.insert((one.file, one.how, was, one.position_bytes));
            let bytes = if counts { moved(one, was) } else { 0 };
            self.take(job, one, was.is_none() && counts, bytes, now_us);
        }
        let others = before.into_iter().filter(|(key, _)| looked_at.binary_search(&key.0).is_err());
        self.positions.extend(others);
    }

    fn take(&mut self, job: u64, one: &Open, new: bool, bytes: u64, now_us: u64) {
        let row = self.rows.entry(one.path.clone()).or_insert_with(|| FileRow {
            job,
            path: one.path.clone(),
            first_us: now_us,
            ..FileRow::default()
        });
        row.last_us = now_us;
        row.opened += u64::from(new);
        row.size_bytes = row.size_bytes.max(one.size_bytes);
        match one.how {
            Use::Read => {
                row.read = true;
                row.read_bytes = row.read_bytes.saturating_add(bytes);
            }
            Use::Write => {
                row.written = true;
                row.write_bytes = row.write_bytes.saturating_add(bytes);
            }
            Use::Both => {
                (row.read, row.written) = (true, true);
                row.either_bytes = row.either_bytes.saturating_add(bytes);
            }
        }
        self.changed.insert(one.path.clone());
    }

    /// Forgets processes that are gone.
    pub fn keep_only(&mut self, alive: &[u32]) {
        self.positions.retain(|key, _| alive.binary_search(&key.0).is_ok());
    }

    /// All that are told, by path.
    pub fn rows(&self) -> impl Iterator<Item = &FileRow> {
        self.rows.values()
    }

    /// Those that changed since the last call.
    pub fn take_changed(&mut self) -> Vec<FileRow> {
        let changed = std::mem::take(&mut self.changed);
        changed.iter().filter_map(|path| self.rows.get(path).cloned()).collect()
    }

    /// How many further files there were, as far as they were counted.
    #[must_use]
    pub fn others(&self) -> u64 {
        self.others.len() as u64
    }
}

fn key(one: &Open) -> Key {
    (one.pid, one.descriptor, one.file)
}

/// What was transferred since the last look, at least.
fn moved(one: &Open, was: Option<u64>) -> u64 {
    match was {
        // A position that went back was set: what came before is not known.
        Some(was) => one.position_bytes.saturating_sub(was),
        // What is appended begins at the file's end, wherever that was.
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
    fn what_is_inherited_counts_once() {
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
    fn what_is_appended_is_not_taken_for_written_before() {
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
    fn what_others_may_share_is_not_counted_twice() {
        let mut files = Files::default();
        let at = |pid, position| open(pid, 1, "out", Use::Write, position);
        files.look(1, &[10], &[at(10, 100)], 1);
        files.look(1, &[11], &[at(11, 400)], 2);
        files.look(1, &[10], &[at(10, 700)], 3);
        check(&files, "out", (0, 100, 0, 1));
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
