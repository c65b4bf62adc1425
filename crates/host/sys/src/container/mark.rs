//! The mark of a living daemon, for a rescue: a lock (flock) that the kernel releases when the process ends, however it
//! ends.
//!
//! A user who can open a file can lock it, and every user can open the directory of a group. So the mark of root's
//! daemon is on a file that only root can open, in a directory that only root can write to. The mark of another user's
//! daemon is on the directory of its group and counts only for groups and processes of that user. Owner of state: the
//! open file. Absent here: the rescue.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::cgroup::Group;
use crate::peer::own_uid;

const ROOT: u32 = 0;
/// Below the host's runtime directory (`/run`).
const DIRECTORY: &str = "pinfold";
const PREFIX: &str = "alive-";
/// Every user may pass: the daemon's socket is there.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// The most retries after a removal between opening and lock.
const TRIES: u32 = 100;

/// A locked file of root's. Only the lock functions make a `Mark`.
#[derive(Debug)]
pub(super) struct Mark {
    directory: OwnedFd,
    name: String,
    file: OwnedFd,
}

impl Mark {
    /// Marks an instance of root's as alive; `None`: this process is not root's, or there is no place for marks.
    pub(super) fn of_daemon(run: &Path, instance: &str) -> Option<Self> {
        if own_uid() != ROOT {
            return None;
        }
        // Only root can have the lock: a rescue, which gives it back soon.
        match Self::lock(run, instance, FlockOperation::LockShared) {
            Ok(mark) => mark,
            Err(errno) => {
                let place = run.join(DIRECTORY);
                let place = place.display();
                tracing::warn!(%errno, %place, "no mark that this daemon lives; a rescue would let go of its jobs");
                None
            }
        }
    }

    /// The lock of a process that removes what root's instance left; `None`: its daemon lives.
    fn of_remover(run: &Path, instance: &str) -> Result<Option<Self>, Errno> {
        Self::lock(run, instance, FlockOperation::NonBlockingLockExclusive)
    }

    fn lock(run: &Path, instance: &str, how: FlockOperation) -> Result<Option<Self>, Errno> {
        let directory = open_directory(run, true)?;
        let name = format!("{PREFIX}{instance}");
        for _ in 0..TRIES {
            let file = open_file(&directory, &name, true)?;
            match rustix::io::retry_on_intr(|| rustix::fs::flock(&file, how)) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(errno) => return Err(errno),
            }
            // A rescue may have removed the file before it was locked.
            if is_named(&directory, &name, &file)? {
                return Ok(Some(Self { directory, name, file }));
            }
        }
        Err(Errno::BUSY)
    }

    /// Removes the file, unless another process of the instance has a lock on it.
    pub(super) fn remove(&self) {
        if rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok()
            && is_named(&self.directory, &self.name, &self.file) == Ok(true)
        {
            // A file that stays means nothing without a lock.
            let _ = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
        }
    }
}

/// Whether a daemon has its mark on an instance, as far as this process can know: for root, only root's file counts for
/// a group of root's. Another user can change nothing in a group of root's, and trusts the lock of its directory.
pub(super) fn lives(run: &Path, instance: &str, group: &Group) -> bool {
    if !is_roots(group) {
        return matches!(group.hold(true), Ok(None));
    }
    let tried = open_directory(run, false)
        .and_then(|directory| open_file(&directory, &format!("{PREFIX}{instance}"), false))
        .and_then(|file| rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive));
    tried == Err(Errno::WOULDBLOCK)
}

/// Runs `deed` on the remains of an instance while no daemon of it can start; `None`: its daemon lives.
pub(super) fn while_alone<T>(
    run: &Path,
    instance: &str,
    group: &Group,
    deed: impl FnOnce() -> T,
) -> Option<T> {
    if !is_roots(group) {
        let _alone = group.hold(true).ok()??;
        return Some(deed());
    }
    let alone = Mark::of_remover(run, instance).ok()??;
    let done = deed();
    alone.remove();
    Some(done)
}

/// Whether the word of root's file counts here.
fn is_roots(group: &Group) -> bool {
    own_uid() == ROOT && group.owner() == Some(ROOT)
}

fn open_directory(run: &Path, make: bool) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = rustix::fs::open(run, flags, Mode::empty())?;
    if make {
        match rustix::fs::mkdirat(&above, DIRECTORY, DIRECTORY_MODE) {
            // The daemon's umask removed permissions that other users need to reach the socket.
            Ok(()) => rustix::fs::chmodat(&above, DIRECTORY, DIRECTORY_MODE, AtFlags::empty())?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    let directory = rustix::fs::openat(&above, DIRECTORY, flags | OFlags::NOFOLLOW, Mode::empty())?;
    let found = rustix::fs::fstat(&directory)?;
    let is_open = Mode::from_raw_mode(found.st_mode).intersects(Mode::WGRP | Mode::WOTH);
    if found.st_uid == ROOT && !is_open { Ok(directory) } else { Err(Errno::PERM) }
}

fn open_file(directory: &OwnedFd, name: &str, make: bool) -> Result<OwnedFd, Errno> {
    let make = if make { OFlags::CREATE } else { OFlags::empty() };
    // NONBLOCK: the open does not wait for a fifo or a device.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | make;
    let file = rustix::fs::openat(directory, OsStr::new(name), flags, FILE_MODE)?;
    let found = rustix::fs::fstat(&file)?;
    let is_shut = !Mode::from_raw_mode(found.st_mode).intersects(Mode::RWXG | Mode::RWXO);
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    if found.st_uid == ROOT && is_shut && is_file { Ok(file) } else { Err(Errno::PERM) }
}

/// Whether the open file is still the file of this name.
fn is_named(directory: &OwnedFd, name: &str, file: &OwnedFd) -> Result<bool, Errno> {
    let own = rustix::fs::fstat(file)?;
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(found) => Ok((found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt, chown};

    use super::*;

    /// A directory for marks and a group of an instance. Only daemons of root have such a mark.
    fn host() -> (tempfile::TempDir, Group) {
        let dir = tempfile::tempdir().unwrap();
        let group = dir.path().join("group");
        std::fs::create_dir(&group).unwrap();
        let group = Group::open(&group, None).unwrap().unwrap();
        (dir, group)
    }

    #[test]
    #[ignore = "needs root"]
    fn as_root_it_is_a_file_that_only_root_can_open_and_goes_with_the_daemon() {
        let (dir, group) = host();
        let run = dir.path();
        assert!(!lives(run, "i1", &group), "nobody was here");
        let mark = Mark::of_daemon(run, "i1").expect("marked");
        let path = run.join("pinfold/alive-i1");
        let modes =
            [&run.join("pinfold"), &path].map(|path| std::fs::metadata(path).unwrap().mode() & 0o7777);
        assert_eq!(modes, [0o755, 0o600]);
        assert!(lives(run, "i1", &group) && !lives(run, "i2", &group));
        assert_eq!(while_alone(run, "i1", &group, || ()), None);
        // A second mark of the instance keeps the file.
        let guard = Mark::of_daemon(run, "i1").expect("marked");
        mark.remove();
        drop(mark);
        assert!(path.exists() && lives(run, "i1", &group));
        drop(guard);
        // A child of another test, started at this moment, has it open until it executes its program.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
        while lives(run, "i1", &group) {
            assert!(std::time::Instant::now() < deadline, "the lock goes with the daemon");
            std::thread::yield_now();
        }
        assert!(path.exists(), "one that was killed leaves the file, without a lock");
        // Testing the lock takes the lock, which a child like that has as well.
        let mut alone = while_alone(run, "i1", &group, || 7);
        while alone.is_none() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
            alone = while_alone(run, "i1", &group, || 7);
        }
        assert_eq!(alone, Some(7));
        assert!(!path.exists(), "whoever removes its groups removes it, too");
        let mark = Mark::of_daemon(run, "i1").expect("marked");
        mark.remove();
        assert!(!path.exists());
    }

    #[test]
    #[ignore = "needs root"]
    fn as_root_a_lock_on_a_removed_file_is_no_mark() {
        let (dir, group) = host();
        let run = dir.path().to_owned();
        let waits = while_alone(&run, "i1", &group, || {
            let run = run.clone();
            std::thread::spawn(move || Mark::of_daemon(&run, "i1"))
        });
        let mark = waits.expect("nobody lives").join().unwrap().expect("marked");
        assert!(lives(&run, "i1", &group) && run.join("pinfold/alive-i1").exists());
        drop(mark);
    }

    #[test]
    #[ignore = "needs root"]
    fn as_root_locks_of_the_groups_directory_count_for_users_alone() {
        let (dir, group) = host();
        let theirs = File::open(dir.path().join("group")).unwrap();
        theirs.lock_shared().unwrap();
        assert!(!lives(dir.path(), "i1", &group), "a group of root's");
        chown(dir.path().join("group"), Some(65534), None).unwrap();
        assert!(lives(dir.path(), "i1", &group), "a user's");
    }

    #[test]
    #[ignore = "needs root"]
    fn as_root_what_others_could_have_made_is_no_place_for_it() {
        let (dir, group) = host();
        let place = dir.path().join("pinfold");
        std::fs::create_dir(&place).unwrap();
        std::fs::set_permissions(&place, PermissionsExt::from_mode(0o777)).unwrap();
        assert!(Mark::of_daemon(dir.path(), "i1").is_none(), "open to all");
        std::fs::set_permissions(&place, PermissionsExt::from_mode(0o755)).unwrap();
        let file = File::create(place.join("alive-i1")).unwrap();
        std::fs::set_permissions(place.join("alive-i1"), PermissionsExt::from_mode(0o644)).unwrap();
        file.lock().unwrap();
        assert!(Mark::of_daemon(dir.path(), "i1").is_none() && !lives(dir.path(), "i1", &group));
        chown(&place, Some(65534), None).unwrap();
        assert!(Mark::of_daemon(dir.path(), "i2").is_none(), "another user's");
    }
}
