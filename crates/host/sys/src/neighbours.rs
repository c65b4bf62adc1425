//! Daemons of several users on a host find each other: a small file for each, in a directory that all users may write to
//! and only root owns.
//!
//! Nothing in the directory is trusted. A file counts while its owner holds a write lock on it: the kernel reports the
//! owner of the file, the lock, and its process, which must be the owner's and of this user namespace, so that a user's
//! subordinate numbers are no users. A lock ends with its process, so the files of dead daemons do not count. Files are
//! checked before they are opened, never waited for, and read for a few bytes only; mounts and links are not followed.
//! Only numbers are taken from the text.
//!
//! Owner of state: [`Board`] has the directory and the own file. Absent here: the use of the numbers.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, ResolveFlags, Stat};
use rustix::process::{Flock, FlockType};

/// Places of the files: the first usable place, the same for all daemons of a host.
const PLACES: [&str; 2] = ["/run/lock", "/tmp"];
/// The prefix of each file's name; the user's number and a random number follow.
const PREFIX: &[u8] = b"pinfold-daemon.";
/// A longer file is no daemon's.
const FILE_BYTES_MAX: usize = 160;
/// The most names that are read.
const NAMES_MAX: usize = 100_000;
/// The most files of a user that are opened.
const FILES_OF_USER_MAX: usize = 8;
/// The first words of a file.
const FORM: &str = "pinfold 1";

/// A daemon's statement about itself: numbers, which other daemons need not believe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entry {
    /// Slots that its jobs have or wait for; none: its user is idle.
    pub slots_wanted: u64,
    /// Cores that its jobs have.
    pub cores_held: u64,
    /// Memory that its jobs are expected to need, in bytes.
    pub memory_wanted_bytes: u64,
    /// Memory that its jobs hold, in bytes.
    pub memory_held_bytes: u64,
}

impl Entry {
    fn text(self) -> String {
        let Self { slots_wanted, cores_held, memory_wanted_bytes, memory_held_bytes } = self;
        // Of fixed length, as a file is overwritten in place.
        format!(
            "{FORM} {slots_wanted:020} {cores_held:020} {memory_wanted_bytes:020} {memory_held_bytes:020}\n"
        )
    }

    fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.strip_prefix(FORM)?.strip_suffix('\n')?.split(' ').skip(1).map(|word| {
            let digits = word.len() == 20 && word.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| word.parse::<u64>().ok()).flatten()
        });
        let mut next = || numbers.next().flatten();
        let entry = Self {
            slots_wanted: next()?,
            cores_held: next()?,
            memory_wanted_bytes: next()?,
            memory_held_bytes: next()?,
        };
        numbers.next().is_none().then_some(entry)
    }
}

/// Why no other daemon can be found.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// No directory will do.
    #[error("none of {0} is a directory of root's that everybody may write to (mode 1777)")]
    NoPlace(String),
    /// A directory that was named will not do.
    #[error("{} is no directory that only its owner, root or this user, may clear (mode 1777 or 755)", .0.display())]
    Place(PathBuf),
    /// The directory cannot be used.
    #[error("failed to {what} in {}", .dir.display())]
    Use {
        /// The operation.
        what: &'static str,
        /// The directory.
        dir: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// The directory, and the own file in it.
#[derive(Debug)]
pub struct Board {
    dir: OwnedFd,
    path: PathBuf,
    uid: u32,
    own: Option<Own>,
    /// The map of this user namespace's users.
    namespace: Vec<u8>,
}

#[derive(Debug)]
struct Own {
    /// Locked while it is open.
    file: OwnedFd,
    name: String,
}

impl Board {
    /// Opens `named`, or the host's directory.
    ///
    /// # Errors
    /// When no directory is usable.
    pub fn open(named: Option<&Path>) -> Result<Self, BoardError> {
        let uid = crate::peer::own_uid();
        let (dir, path) = match named {
            Some(path) => {
                let dir = directory(path, |stat| stat.st_uid == 0 || stat.st_uid == uid);
                (dir.ok_or_else(|| BoardError::Place(path.to_owned()))?, path.to_owned())
            }
            None => PLACES
                .iter()
                .find_map(|place| {
                    let of_all = |stat: &Stat| stat.st_uid == 0 && stat.st_mode & 0o1002 == 0o1002;
                    Some((directory(Path::new(place), of_all)?, PathBuf::from(place)))
                })
                .ok_or_else(|| BoardError::NoPlace(PLACES.join(", ")))?,
        };
        let namespace = std::fs::read("/proc/self/uid_map").unwrap_or_default();
        let board = Self { dir, path, uid, own: None, namespace };
        board.clear_own();
        Ok(board)
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Publishes `entry` of this daemon.
    ///
    /// # Errors
    /// When the file cannot be made or written.
    pub fn publish(&mut self, entry: Entry) -> Result<(), BoardError> {
        let dir = self.path.clone();
        let failed =
            |what| move |error: rustix::io::Errno| BoardError::Use { what, dir, source: error.into() };
        let text = entry.text();
        let own = match self.own.take().filter(Own::is_there) {
            Some(own) => own,
            None => self.make(&text).map_err(failed.clone()("make a file"))?,
        };
        let written = rustix::io::pwrite(&own.file, text.as_bytes(), 0).map_err(failed("write a file"));
        self.own = Some(own);
        written.map(drop)
    }

    /// Makes a file with an unpredictable name, visible to others once it is written and locked.
    fn make(&self, text: &str) -> Result<Own, rustix::io::Errno> {
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let name = format!("{}{}.{:016x}", Self::prefix(), self.uid, u64::from_ne_bytes(random));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.dir, &name, flags, Mode::RUSR | Mode::WUSR)?;
        let own = Own { file, name };
        let done = rustix::io::pwrite(&own.file, text.as_bytes(), 0)
            .and_then(|_| rustix::fs::fcntl_lock(&own.file, FlockOperation::NonBlockingLockExclusive))
            .and_then(|()| rustix::fs::fchmod(&own.file, Mode::from_raw_mode(0o644)));
        if let Err(error) = done {
            let _ = rustix::fs::unlinkat(&self.dir, &own.name, AtFlags::empty());
            return Err(error);
        }
        Ok(own)
    }

    fn prefix() -> &'static str {
        std::str::from_utf8(PREFIX).expect("ASCII")
    }

    /// The statements of other users' daemons, with their users.
    #[must_use]
    pub fn others(&self) -> Vec<(u32, Entry)> {
        let mut found = Vec::new();
        let mut opened: std::collections::BTreeMap<u32, usize> = std::collections::BTreeMap::new();
        for (name, uid) in self.names().filter(|(_, uid)| *uid != self.uid) {
            if self.looks_right(&name, uid).is_none() {
                continue;
            }
            let opened = opened.entry(uid).or_insert(0);
            if *opened < FILES_OF_USER_MAX {
                *opened += 1;
                found.extend(self.read(&name, uid).map(|entry| (uid, entry)));
            }
        }
        found
    }

    /// Names that may be of daemons, each with its user's number.
    fn names(&self) -> impl Iterator<Item = (std::ffi::CString, u32)> + use<> {
        let entries = Dir::read_from(&self.dir).into_iter().flatten().take(NAMES_MAX);
        entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let uid = uid_in(entry.file_name())?;
            Some((entry.file_name().to_owned(), uid))
        })
    }

    /// Whether a name is that of a small file of `uid` alone, without opening it.
    fn looks_right(&self, name: &CStr, uid: u32) -> Option<()> {
        let stat = rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        is_small_file_of(&stat, uid).then_some(())
    }

    /// The statement of a living daemon of `uid` in a file.
    fn read(&self, name: &CStr, uid: u32) -> Option<Entry> {
        let file = self.open_to_read(name)?;
        // Checks the opened file: the name may have been replaced meanwhile.
        if !is_small_file_of(&rustix::fs::fstat(&file).ok()?, uid) {
            return None;
        }
        let holder = write_lock(&file)?;
        if !self.is_of(holder, uid) {
            return None;
        }
        let mut bytes = [0; FILE_BYTES_MAX];
        let read = rustix::io::pread(&file, &mut bytes, 0).ok()?;
        Entry::parse(std::str::from_utf8(&bytes[..read]).ok()?)
    }

    /// Never waits: neither for a pipe's other end, nor for a file system mounted over a file.
    fn open_to_read(&self, name: &CStr) -> Option<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        let within = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        match rustix::fs::openat2(&self.dir, name, flags, Mode::empty(), within) {
            // Before Linux 5.6.
            Err(rustix::io::Errno::NOSYS) => rustix::fs::openat(&self.dir, name, flags, Mode::empty()).ok(),
            opened => opened.ok(),
        }
    }

    /// Whether a process is of `uid` and of this user namespace.
    fn is_of(&self, pid: i32, uid: u32) -> bool {
        let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return false };
        let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let mut uids = uids.into_iter().flat_map(str::split_whitespace).map(|word| word.parse::<u32>().ok());
        let is_owner = uids.next() == Some(Some(uid)) && uids.next() == Some(Some(uid));
        is_owner && std::fs::read(format!("/proc/{pid}/uid_map")).is_ok_and(|map| map == self.namespace)
    }

    /// Removes the files of earlier daemons of this user.
    fn clear_own(&self) {
        for (name, _) in self.names().filter(|(_, uid)| *uid == self.uid) {
            let dead = self.looks_right(&name, self.uid).is_some()
                && self.open_to_read(&name).is_some_and(|file| write_lock(&file).is_none());
            if dead {
                let _ = rustix::fs::unlinkat(&self.dir, &name, AtFlags::empty());
            }
        }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        if let Some(own) = &self.own {
            let _ = rustix::fs::unlinkat(&self.dir, &own.name, AtFlags::empty());
        }
    }
}

impl Own {
    /// Whether the file still has its name.
    fn is_there(&self) -> bool {
        rustix::fs::fstat(&self.file).is_ok_and(|stat| stat.st_nlink > 0)
    }
}

/// Opens a directory that `fits` accepts, and in which only owners can remove their entries.
fn directory(path: &Path, fits: impl Fn(&Stat) -> bool) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&dir).ok()?;
    let kept = stat.st_mode & 0o1000 != 0 || stat.st_mode & 0o022 == 0;
    (kept && fits(&stat)).then_some(dir)
}

fn is_small_file_of(stat: &Stat, uid: u32) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_uid == uid
        && stat.st_nlink == 1
        && stat.st_mode & 0o022 == 0
        && usize::try_from(stat.st_size).is_ok_and(|size| size <= FILE_BYTES_MAX)
}

/// The process that has a file write-locked, which requires the right to write to it.
fn write_lock(file: &OwnedFd) -> Option<i32> {
    let asked = Flock::from(FlockType::ReadLock);
    let held = rustix::process::fcntl_getlk(file.as_fd(), &asked).ok()??;
    let pid = held.pid.filter(|_| held.typ == FlockType::WriteLock)?;
    Some(pid.as_raw_nonzero().get())
}

/// The user's number in a name.
fn uid_in(name: &CStr) -> Option<u32> {
    let rest = name.to_bytes().strip_prefix(PREFIX)?;
    let (uid, random) = std::str::from_utf8(rest).ok()?.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let hex = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    (digits(uid) && hex).then(|| uid.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
