//! The numbers of jobs of which the store may know nothing: a number that a user was told is never given to another job.
//!
//! As a rule a job's row is written before its number is told, and the store counts on from its last row. Three things keep
//! a number from the store: it cannot be written (a full disk), the host goes down before the disk has what was
//! written, or an earlier copy is put in its place. For each one bound is kept in a small file of its own, `numbers` in the
//! state directory, which is as long from the start as it ever becomes: it is written in place, which needs no room.
//!
//! Owns that file. Absent: which number is next (the store counts).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use pinfold_sys::files;

/// How many numbers are taken at once while none can be told by rows: so many are left out at most after a crash then.
const BLOCK: u64 = 1024;
/// How many are brought to disk at once before any of them is told: so many are left out at most after a power cut.
const AHEAD: u64 = 256;

/// The bounds, each of which is above all numbers that it speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Bounds {
    /// Of jobs of which no row could be written; 0: there are none.
    unwritten: u64,
    /// Of all jobs, as it is certain to be found after a power cut.
    ahead: u64,
    /// Of all jobs, as they were told: another store knows nothing of them. It may not outlive a power cut.
    told: u64,
}

impl Bounds {
    /// Always as long: within a sector, which a disk writes whole or not at all.
    fn text(self) -> String {
        format!("{:020} {:020} {:020}\n", self.unwritten, self.ahead, self.told)
    }

    /// A bound that is missing or not whole says nothing.
    fn of(text: &str) -> Self {
        let mut words = text.split_ascii_whitespace();
        let mut next = || words.next().filter(|word| word.len() == 20)?.parse().ok();
        let mut bound = || next().unwrap_or(0);
        Self { unwritten: bound(), ahead: bound(), told: bound() }
    }

    fn max(self, other: Self) -> Self {
        Self {
            unwritten: self.unwritten.max(other.unwritten),
            ahead: self.ahead.max(other.ahead),
            told: self.told.max(other.told),
        }
    }
}

/// The file.
#[derive(Debug)]
pub(crate) struct Numbers {
    path: PathBuf,
    file: io::Result<File>,
    bounds: Bounds,
}

impl Numbers {
    /// Those of an earlier life. A file that cannot be had is an error only once it is needed.
    pub(crate) fn open(state: &Path) -> Self {
        let path = state.join("numbers");
        let mut numbers = Self { path, file: Err(io::ErrorKind::NotFound.into()), bounds: Bounds::default() };
        numbers.open_again();
        if let Err(error) = &numbers.file {
            tracing::warn!(path = %numbers.path.display(), %error, "numbers of jobs cannot be kept beside the store");
        }
        numbers
    }

    /// Opens the file, or makes it; one that could not be had may be by now: a disk has room again.
    fn open_again(&mut self) {
        let kept = match files::read_regular(&self.path) {
            Ok(bytes) => Ok(Bounds::of(&String::from_utf8_lossy(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Bounds::default()),
            Err(error) => Err(error),
        };
        // What cannot be read is not written over: the disk may give it back later.
        self.file = kept.and_then(|kept| {
            self.bounds = self.bounds.max(kept);
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600);
            let file = files::open_in_place(&mut options, &self.path)?;
            file.write_all_at(self.bounds.text().as_bytes(), 0)?;
            Ok(file)
        });
    }

    /// The first number that no job of an earlier life had, as far as this file tells; `is_behind`: the store may have lost
    /// rows, in a power cut or as it was damaged.
    pub(crate) fn first_free(&self, is_behind: bool) -> u64 {
        let Bounds { unwritten, ahead, told } = self.bounds;
        unwritten.max(told).max(if is_behind { ahead } else { 0 })
    }

    /// All numbers below `next` are about to be told.
    pub(crate) fn tell(&mut self, next: u64) {
        if next != self.bounds.told
            && let Err(error) = self.set(Bounds { told: next, ..self.bounds })
        {
            tracing::debug!(%error, "an earlier copy of the store may give numbers of jobs again");
        }
    }

    /// Keeps all numbers below `next`, of some of which the store has no row.
    ///
    /// # Errors
    /// As the disk refuses: then none of them may be told.
    pub(crate) fn keep(&mut self, next: u64) -> io::Result<()> {
        if next <= self.bounds.unwritten {
            return Ok(());
        }
        self.set(Bounds { unwritten: next.saturating_add(BLOCK), ..self.bounds })
    }

    /// Sees to it that a number below `next` is known after a power cut: brings it to disk, with many that follow.
    ///
    /// # Errors
    /// As the disk refuses.
    pub(crate) fn keep_ahead(&mut self, next: u64) -> io::Result<()> {
        if next <= self.bounds.ahead {
            return Ok(());
        }
        self.set(Bounds { ahead: next.saturating_add(AHEAD), ..self.bounds })?;
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }

    /// The daemon ends in order, and the store tells all numbers below `next`.
    pub(crate) fn close(&mut self, next: u64) {
        if self.bounds.unwritten == 0 {
            let _ = self.set(Bounds { ahead: next, told: next, ..self.bounds });
        }
    }

    /// The store has a row of each again, or knows of the last.
    pub(crate) fn all_written(&mut self) {
        if self.bounds.unwritten != 0
            && let Err(error) = self.set(Bounds { unwritten: 0, ..self.bounds })
        {
            tracing::debug!(%error, "some numbers of jobs are left out after a restart");
        }
    }

    fn set(&mut self, bounds: Bounds) -> io::Result<()> {
        if self.file.is_err() {
            self.open_again();
        }
        let file = self.file.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
        file.write_all_at(bounds.text().as_bytes(), 0)?;
        self.bounds = bounds;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_known_again() {
        let state = tempfile::tempdir().expect("a directory");
        let mut numbers = Numbers::open(state.path());
        assert_eq!(numbers.first_free(true), 0);
        numbers.keep(7).expect("there is room");
        numbers.keep(8).expect("there is room");
        let length = || std::fs::metadata(state.path().join("numbers")).expect("it is there").len();
        let before = length();
        numbers.keep(7 + BLOCK + 1).expect("there is room");
        assert_eq!(length(), before, "it needs no more room than it has");
        let first = Numbers::open(state.path()).first_free(false);
        assert!(first > 7 + BLOCK && first <= 8 + 2 * BLOCK, "{first}");
        numbers.all_written();
        assert_eq!(Numbers::open(state.path()).first_free(false), 0);
        numbers.keep_ahead(2_000).expect("there is room");
        let again = Numbers::open(state.path());
        assert_eq!((again.first_free(false), again.first_free(true)), (0, 2_000 + AHEAD));
        numbers.close(2_000);
        assert_eq!((length(), Numbers::open(state.path()).first_free(true)), (before, 2_000));
    }

    /// Whatever store it finds, the daemon counts on from behind what was told. Bounds that were cut off say nothing.
    #[test]
    fn what_was_told_is_known_whatever_the_store_knows() {
        let state = tempfile::tempdir().expect("a directory");
        Numbers::open(state.path()).tell(5);
        assert_eq!(Numbers::open(state.path()).first_free(false), 5);
        let path = state.path().join("numbers");
        let text = std::fs::read_to_string(&path).expect("it is there");
        for (bytes, first) in [(63, 5), (62, 5), (61, 0), (30, 0), (0, 0)] {
            std::fs::write(&path, &text[..bytes]).expect("it can be written");
            assert_eq!(Numbers::open(state.path()).first_free(true), first, "{bytes}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_had_keeps_nothing() {
        let state = tempfile::tempdir().expect("a directory");
        let mut numbers = Numbers::open(&state.path().join("missing"));
        assert!(numbers.keep(1).is_err());
        // It can be had later, and what was told until then is known.
        std::fs::create_dir(state.path().join("missing")).expect("a directory");
        numbers.keep(2).expect("there is room");
        assert_eq!(Numbers::open(&state.path().join("missing")).first_free(false), 2 + BLOCK);
    }
}
