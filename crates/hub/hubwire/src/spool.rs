//! Bundles on the host's disk until the hub has them, in order, bounded in size.
//!
//! Owner of state: the directory `spool`, a file per bundle. Absent here: the content of bundles.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, UNFINISHED};

/// Default size of a spool in bytes: some 100,000 jobs.
pub const SPOOL_BYTES: u64 = 256 << 20;

/// Step between the numbers of bundles, so that several bundles can replace a bundle in its place.
const STEP: u64 = 1_024;

/// How many refused bundles are kept to be looked at; the oldest go first.
const REFUSED_MAX: usize = 100;

/// Why an operation on a spool failed.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The spool is full.
    #[error("the spool {} holds {held_bytes} of {max_bytes} bytes; nothing more is put into it until the hub took some", .dir.display())]
    Full {
        /// Its directory.
        dir: PathBuf,
        /// Its size.
        held_bytes: u64,
        /// Its limit.
        max_bytes: u64,
    },
    /// The disk refused.
    #[error("failed to {what} {}", .path.display())]
    Disk {
        /// The failed operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The waiting bundles.
#[derive(Debug)]
pub struct Spool<D> {
    disk: D,
    dir: PathBuf,
    refused_dir: PathBuf,
    max_bytes: u64,
    /// Sizes in bytes by number.
    held: BTreeMap<u64, u64>,
    refused: Vec<String>,
    next: u64,
}

impl<D: Disk> Spool<D> {
    /// The spool below this directory.
    ///
    /// # Errors
    /// When the directory cannot be made or read.
    pub fn open(disk: D, below: &Path, max_bytes: u64) -> Result<Self, SpoolError> {
        Self::read(disk, below, max_bytes, true)
    }

    fn read(disk: D, below: &Path, max_bytes: u64, clear: bool) -> Result<Self, SpoolError> {
        let (dir, refused_dir) = (below.join("spool"), below.join("refused"));
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| SpoolError::Disk { what: "read", path, source }
        };
        // A mere reader makes no directory: it could belong to another user than the pusher.
        let list = |dir: &Path| if clear || dir.is_dir() { disk.list(dir) } else { Ok(Vec::new()) };
        let mut held = BTreeMap::new();
        for (name, bytes) in list(&dir).map_err(failed(&dir))? {
            if let Some(number) = number_of(&name) {
                held.insert(number, bytes);
            } else if clear && name.ends_with(UNFINISHED) {
                let path = dir.join(&name);
                disk.remove(&path).map_err(failed(&path))?;
            }
        }
        let refused: Vec<String> =
            list(&refused_dir).map_err(failed(&refused_dir))?.into_iter().map(|file| file.0).collect();
        // Numbers rise over restarts, so that a refused bundle is never overwritten.
        let last = held.keys().copied().chain(refused.iter().filter_map(|name| number_of(name))).max();
        Ok(Self { disk, dir, refused_dir, max_bytes, held, refused, next: after(last.unwrap_or(0)) })
    }

    /// A read-only view of the spool, beside a working pusher. A missing spool is empty.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn look(disk: D, below: &Path) -> Result<Self, SpoolError> {
        Self::read(disk, below, SPOOL_BYTES, false)
    }

    /// Adds a bundle, which is on disk on return.
    ///
    /// # Errors
    /// When the spool or the disk is full.
    pub fn put(&mut self, bundle: &[u8]) -> Result<(), SpoolError> {
        let (held_bytes, bytes) = (self.held_bytes(), bundle.len() as u64);
        if held_bytes.saturating_add(bytes) > self.max_bytes && !self.held.is_empty() {
            return Err(SpoolError::Full { dir: self.dir.clone(), held_bytes, max_bytes: self.max_bytes });
        }
        self.keep(self.next, bundle)
    }

    fn keep(&mut self, number: u64, bundle: &[u8]) -> Result<(), SpoolError> {
        let path = self.path(number);
        self.disk.write(&path, bundle).map_err(|source| SpoolError::Disk { what: "write", path, source })?;
        self.held.insert(number, bundle.len() as u64);
        self.next = self.next.max(after(number));
        Ok(())
    }

    /// Replaces a bundle by several bundles in its place, regardless of the limit, so that the first part of a job
    /// stays before its later parts. Repeating this after a crash overwrites the same files.
    ///
    /// # Errors
    /// When the disk is full.
    pub fn replace(&mut self, number: u64, by: &[Vec<u8>]) -> Result<(), SpoolError> {
        // Numbers between two steps belong to the bundle before them. An earlier program made no steps.
        let has_room = number.is_multiple_of(STEP) && (by.len() as u64) < STEP;
        for (bundle, at) in by.iter().zip(1..) {
            let place = if has_room { number + at } else { self.next };
            self.keep(place, bundle)?;
        }
        self.remove(number)
    }

    /// Whether the spool is full, so that reading jobs is useless.
    #[must_use]
    pub fn is_full(&self) -> bool {
        !self.held.is_empty() && self.held_bytes() >= self.max_bytes
    }

    /// The oldest bundle and its number. A vanished file is skipped.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn first(&mut self) -> Result<Option<(u64, Vec<u8>)>, SpoolError> {
        while let Some(&number) = self.held.keys().next() {
            let path = self.path(number);
            match self.disk.read(&path) {
                Ok(Some(bundle)) => return Ok(Some((number, bundle))),
                Ok(None) => drop(self.held.remove(&number)),
                Err(source) => return Err(SpoolError::Disk { what: "read", path, source }),
            }
        }
        Ok(None)
    }

    /// Removes a bundle that the hub has.
    ///
    /// # Errors
    /// When the file cannot be removed; the bundle is then sent again, and the hub recognizes it.
    pub fn remove(&mut self, number: u64) -> Result<(), SpoolError> {
        let path = self.path(number);
        self.disk.remove(&path).map_err(|source| SpoolError::Disk { what: "remove", path, source })?;
        self.held.remove(&number);
        Ok(())
    }

    /// Puts a bundle aside that the hub refused for good, so that it does not block other bundles.
    ///
    /// # Errors
    /// When the file cannot be moved.
    pub fn refuse(&mut self, number: u64) -> Result<(), SpoolError> {
        let (path, name) = (self.path(number), name_of(number));
        let aside = self.refused_dir.join(&name);
        let failed = |path| move |source| SpoolError::Disk { what: "put aside", path, source };
        self.disk.rename(&path, &aside).map_err(failed(path))?;
        self.held.remove(&number);
        self.refused.push(name);
        while self.refused.len() > REFUSED_MAX {
            let oldest = self.refused_dir.join(self.refused.remove(0));
            self.disk.remove(&oldest).map_err(failed(oldest))?;
        }
        Ok(())
    }

    /// How many bundles wait.
    #[must_use]
    pub fn bundles(&self) -> u64 {
        self.held.len() as u64
    }

    /// Their size in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.held.values().sum()
    }

    /// The size limit, in bytes.
    #[must_use]
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// How many refused bundles are kept.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.len() as u64
    }

    /// The disk.
    pub fn disk(&self) -> &D {
        &self.disk
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(name_of(number))
    }
}

/// The number of the bundle after this number.
const fn after(number: u64) -> u64 {
    (number / STEP + 1) * STEP
}

fn name_of(number: u64) -> String {
    format!("{number:020}.bundle")
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_suffix(".bundle")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;

    #[test]
    fn bundles_leave_in_order_and_outlive_the_process() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(RealDisk, dir.path(), 1000).unwrap();
        for text in ["one", "two", "three"] {
            spool.put(text.as_bytes()).unwrap();
        }
        let (first, bytes) = spool.first().unwrap().unwrap();
        assert_eq!(bytes, b"one");
        spool.remove(first).unwrap();
        let (second, _) = spool.first().unwrap().unwrap();
        spool.refuse(second).unwrap();
        std::fs::write(dir.path().join("spool/7.bundle.unfinished"), "half").unwrap();

        let mut again = Spool::open(RealDisk, dir.path(), 1000).unwrap();
        assert_eq!((again.bundles(), again.refused()), (1, 1));
        assert_eq!(again.first().unwrap().unwrap().1, b"three");
        assert!(!dir.path().join("spool/7.bundle.unfinished").exists());
    }

    #[test]
    fn a_full_spool_says_so_and_keeps_what_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(RealDisk, dir.path(), 10).unwrap();
        spool.put(&[0; 8]).unwrap();
        assert!(matches!(spool.put(&[0; 8]), Err(SpoolError::Full { held_bytes: 8, max_bytes: 10, .. })));
        let (number, _) = spool.first().unwrap().unwrap();
        spool.remove(number).unwrap();
        // A bundle that is larger than the spool goes alone rather than never.
        spool.put(&[0; 80]).unwrap();
        assert!(spool.is_full());
    }

    #[test]
    fn a_reader_makes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let spool = Spool::look(RealDisk, dir.path()).unwrap();
        assert_eq!((spool.bundles(), spool.refused()), (0, 0));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_number_is_not_used_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(RealDisk, dir.path(), 100).unwrap();
        spool.put(b"bad").unwrap();
        let (bad, _) = spool.first().unwrap().unwrap();
        spool.refuse(bad).unwrap();
        let mut again = Spool::open(RealDisk, dir.path(), 100).unwrap();
        again.put(b"good").unwrap();
        let (good, _) = again.first().unwrap().unwrap();
        again.refuse(good).unwrap();
        assert_eq!(again.refused(), 2);
    }

    /// What leaves the spool below this directory, in its order.
    fn left(dir: &Path) -> Vec<String> {
        let mut spool = Spool::open(RealDisk, dir, 100).unwrap();
        let mut left = Vec::new();
        while let Some((number, bundle)) = spool.first().unwrap() {
            left.push(String::from_utf8(bundle).unwrap());
            spool.remove(number).unwrap();
        }
        left
    }

    #[test]
    fn bundles_that_replace_one_leave_in_its_turn() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::open(RealDisk, dir.path(), 100).unwrap();
        for text in ["ab", "later"] {
            spool.put(text.as_bytes()).unwrap();
        }
        let (number, _) = spool.first().unwrap().unwrap();
        // Killed after the first of them, and begun again.
        spool.keep(number + 1, b"a").unwrap();
        let mut again = Spool::open(RealDisk, dir.path(), 100).unwrap();
        assert_eq!(again.first().unwrap().unwrap(), (number, b"ab".to_vec()));
        again.replace(number, &[b"a".to_vec(), b"b".to_vec()]).unwrap();
        again.put(b"last").unwrap();
        assert_eq!(again.bundles(), 4);
        assert_eq!(left(dir.path()), ["a", "b", "later", "last"]);
    }

    #[test]
    fn a_spool_of_an_earlier_program_is_read_on() {
        let dir = tempfile::tempdir().unwrap();
        Spool::open(RealDisk, dir.path(), 100).unwrap();
        for (number, text) in [(1, "ab"), (2, "later")] {
            std::fs::write(dir.path().join("spool").join(name_of(number)), text).unwrap();
        }
        let mut spool = Spool::open(RealDisk, dir.path(), 100).unwrap();
        spool.put(b"last").unwrap();
        spool.replace(1, &[b"a".to_vec(), b"b".to_vec()]).unwrap();
        assert_eq!(left(dir.path()), ["later", "last", "a", "b"]);
    }
}
