//! Directories for jobs that ask for them. In memory: a tmpfs of the requested size where this process may mount, else a
//! private directory below the host's own tmpfs, without an enforced size. On a disk: a directory with a project quota
//! where the file system has quotas, else an unbounded directory.
//!
//! The kernel owns the state: the directories below the instance's are the whole state, so the next daemon finds them
//! again. Only this user may write to directories on the way; they are opened one by one without following links, and
//! refused if another user made them. Absent here: the sizes for jobs.

mod clear;
mod held;
mod quota;

pub use clear::{Cleared, Clearing};

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use crate::mode::Facts;

/// Every user may pass, and only the owner may look or write.
const PASSABLE: Mode = Mode::from_raw_mode(0o711);
const PRIVATE: Mode = Mode::RWXU;
/// A tmpfs holds no page for an empty file, so the number of files is bounded as well: one for each page, plus these.
const FILES_BESIDE: u64 = 1024;
const PAGE_BYTES: u64 = 4096;

/// The most entries of an earlier attempt that are removed before a directory is made.
const ENTRIES_BEFORE: usize = 64;

/// The directories of a daemon's jobs.
#[derive(Debug, Clone)]
pub struct Scratch {
    root: PathBuf,
    /// Below the root, down to the instance's own.
    names: Vec<String>,
    means: Means,
}

/// The means that bounds the size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// A tmpfs of that size.
    Mount,
    /// A project quota.
    Quota,
    Nothing,
}

/// Why a job's directory cannot be made or removed.
#[derive(Debug, thiserror::Error)]
pub enum ScratchError {
    /// A call failed.
    #[error("failed to {operation} {}", .path.display())]
    Failed {
        /// The operation.
        operation: &'static str,
        /// Its object.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Another user made a directory on the way, or may write into it.
    #[error("{} {}", .path.display(), whose(*.owner))]
    Foreign {
        /// The offending path.
        path: PathBuf,
        /// Its owner, if another user.
        owner: Option<u32>,
    },
    /// An earlier directory is to be cleared first.
    #[error("{} is not cleared of what was in it before", .0.display())]
    Left(PathBuf),
}

impl ScratchError {
    /// Whether only room on a file system was lacking.
    #[must_use]
    pub fn is_for_lack_of_room(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self, Self::Failed { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded))
    }
}

fn whose(owner: Option<u32>) -> String {
    match owner {
        Some(uid) => format!("belongs to user {uid}"),
        None => "is no directory that only this user can write".to_owned(),
    }
}

impl Scratch {
    /// The directories of this instance: below `/run/pinfold/tmp` where this process may mount, else below `/dev/shm`.
    #[must_use]
    pub fn new(facts: &Facts, instance: &str) -> Self {
        if facts.user == 0 && facts.may_mount {
            return Self::mounted(Path::new("/run"), instance);
        }
        Self::plain(Path::new("/dev/shm"), facts.user, instance)
    }

    fn mounted(root: &Path, instance: &str) -> Self {
        let names = ["pinfold", "tmp", instance].map(str::to_owned).into();
        Self { root: root.to_owned(), names, means: Means::Mount }
    }

    /// The directories of this instance below `root`, on a disk as a rule.
    #[must_use]
    pub fn on_disk(root: &Path, facts: &Facts, instance: &str) -> Self {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let may = facts.user == 0 && facts.may_mount;
        let opened = rustix::fs::open(root, flags, Mode::empty()).ok().filter(|_| may);
        let means = if opened.as_ref().is_some_and(quota::enforced) { Means::Quota } else { Means::Nothing };
        Self { means, ..Self::plain(root, facts.user, instance) }
    }

    fn plain(root: &Path, user: u32, instance: &str) -> Self {
        let names = vec![format!("pinfold-{user}-{instance}")];
        Self { root: root.to_owned(), names, means: Means::Nothing }
    }

    /// Whether the kernel keeps jobs to the size they asked for.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        self.means != Means::Nothing
    }

    /// The directory in which the instance's is.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether a job of this user can have a directory.
    #[must_use]
    pub fn serves(&self, user: u32) -> bool {
        let own = rustix::process::geteuid();
        own.is_root() || own.as_raw() == user
    }

    fn base(&self) -> PathBuf {
        self.names.iter().fold(self.root.clone(), |path, name| path.join(name))
    }

    /// The path of this job's directory.
    #[must_use]
    pub fn path(&self, job: u64) -> PathBuf {
        self.base().join(name_of(job))
    }

    /// Makes an empty directory for this job of this user; a small leftover of an earlier attempt is removed first.
    ///
    /// # Errors
    /// When a directory on the way is another user's, an earlier attempt left too much, or a call fails.
    pub fn make(&self, job: u64, bytes: u64, user: u32) -> Result<PathBuf, ScratchError> {
        let base = self.make_base()?;
        let (path, name) = (self.path(job), name_of(job));
        let failed = |operation, errno| failed(operation, &path, errno);
        if let Err(errno) = rustix::fs::mkdirat(&base, &name, PRIVATE) {
            if errno != Errno::EXIST {
                return Err(failed("make", errno));
            }
            if self.clear_step(job, &mut Clearing::default(), ENTRIES_BEFORE)? != Cleared::Gone {
                return Err(ScratchError::Left(path));
            }
            rustix::fs::mkdirat(&base, &name, PRIVATE).map_err(|errno| failed("make", errno))?;
        }
        let directory = open(&base, name.as_str()).map_err(|errno| failed("open", errno))?;
        let bounded = match self.means {
            Means::Mount => mount(&directory, bytes, user).map_err(|errno| failed("mount a tmpfs on", errno)),
            Means::Quota => {
                let files = bytes.div_ceil(PAGE_BYTES).saturating_add(FILES_BESIDE);
                quota::bound(&directory, job, bytes, files).map_err(|errno| failed("set a quota on", errno))
            }
            Means::Nothing => Ok(()),
        };
        let is_own = self.means == Means::Mount || user == rustix::process::geteuid().as_raw();
        let furnished = bounded.and_then(|()| {
            let owner = Some(Uid::from_raw(user));
            let given = if is_own { Ok(()) } else { rustix::fs::fchown(&directory, owner, None) };
            given.map_err(|errno| failed("give its user", errno))
        });
        if let Err(error) = furnished {
            let _ = rustix::fs::unlinkat(&base, &name, AtFlags::REMOVEDIR);
            return Err(error);
        }
        Ok(path)
    }

    /// Makes the instance's own directory, if missing: from then on no other user can take its name, where no other
    /// user may rename it.
    ///
    /// # Errors
    /// When the directory is another user's, or a call fails.
    pub fn claim(&self) -> Result<(), ScratchError> {
        self.make_base().map(drop)
    }

    /// Looks whether the instance's own directory, if it is there, can be used.
    ///
    /// # Errors
    /// When the directory is another user's, or a call fails.
    pub fn look(&self) -> Result<(), ScratchError> {
        self.open_base(false).map(drop)
    }

    /// The capacity of the file system, in bytes; `None`: unknown.
    #[must_use]
    pub fn capacity_bytes(&self) -> Option<u64> {
        crate::files::capacity_bytes(&self.root)
    }

    /// The jobs with a directory.
    #[must_use]
    pub fn list(&self) -> Vec<u64> {
        let Ok(Some(base)) = self.open_base(false) else { return Vec::new() };
        let Ok(entries) = Dir::read_from(&base) else { return Vec::new() };
        let names =
            entries.filter_map(Result::ok).map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut jobs: Vec<u64> = names.filter_map(|name| name.strip_prefix("job-")?.parse().ok()).collect();
        jobs.sort_unstable();
        jobs
    }

    /// Removes the instance's directory, if no job has any in it.
    pub fn close(&self) {
        let _ = rustix::fs::unlinkat(CWD, self.base(), AtFlags::REMOVEDIR);
    }

    fn make_base(&self) -> Result<OwnedFd, ScratchError> {
        let base = self.open_base(true)?;
        base.ok_or_else(|| failed("open", &self.base(), Errno::NOENT))
    }

    /// Opens the instance's directory through each parent without following links; `None` if a directory is missing.
    fn open_base(&self, make: bool) -> Result<Option<OwnedFd>, ScratchError> {
        let mut path = self.root.clone();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&path, flags, Mode::empty());
        let mut directory = root.map_err(|errno| failed("open", &path, errno))?;
        for name in &self.names {
            path.push(name);
            let made = if make { rustix::fs::mkdirat(&directory, name, PASSABLE) } else { Err(Errno::EXIST) };
            if let Err(errno) = made
                && errno != Errno::EXIST
            {
                return Err(failed("make", &path, errno));
            }
            directory = match open(&directory, name.as_str()) {
                Ok(opened) => opened,
                Err(Errno::NOENT) if !make => return Ok(None),
                Err(errno) => {
                    let found = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW);
                    let owner = found.ok().map(|found| found.st_uid);
                    let is_foreign = owner.is_some_and(|uid| uid != rustix::process::geteuid().as_raw());
                    let is_other = matches!(errno, Errno::LOOP | Errno::NOTDIR);
                    if is_other || (errno == Errno::ACCESS && is_foreign) {
                        return Err(foreign(path, owner));
                    }
                    return Err(failed("open", &path, errno));
                }
            };
            let found = rustix::fs::fstat(&directory).map_err(|errno| failed("look at", &path, errno))?;
            let mode = Mode::from_raw_mode(found.st_mode);
            if found.st_uid != rustix::process::geteuid().as_raw() || mode.intersects(Mode::WGRP | Mode::WOTH)
            {
                return Err(foreign(path, Some(found.st_uid)));
            }
            // The daemon's own mask, or an earlier daemon's, may have shut it to the jobs of other users.
            if make && !mode.contains(PASSABLE) {
                let opened = rustix::fs::fchmod(&directory, mode | PASSABLE);
                opened.map_err(|errno| failed("open to users", &path, errno))?;
            }
        }
        Ok(Some(directory))
    }
}

fn name_of(job: u64) -> String {
    format!("job-{job}")
}

fn open(directory: &OwnedFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty())
}

fn mount(directory: &OwnedFd, bytes: u64, user: u32) -> Result<(), Errno> {
    let pages = bytes.div_ceil(PAGE_BYTES).max(1);
    let files = pages.saturating_add(FILES_BESIDE);
    let options = format!("size={},nr_inodes={files},mode=0700,uid={user}", pages.saturating_mul(PAGE_BYTES));
    let options = CString::new(options).expect("digits and letters");
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    // By the open directory and not by its name.
    let target = format!("/proc/self/fd/{}", directory.as_raw_fd());
    rustix::mount::mount("pinfold", target, "tmpfs", flags, options.as_c_str())
}

fn foreign(path: PathBuf, owner: Option<u32>) -> ScratchError {
    ScratchError::Foreign { path, owner: owner.filter(|&uid| uid != rustix::process::geteuid().as_raw()) }
}

fn failed(operation: &'static str, path: &Path, errno: Errno) -> ScratchError {
    ScratchError::Failed { operation, path: path.to_owned(), source: errno.into() }
}

#[cfg(test)]
mod tests;
