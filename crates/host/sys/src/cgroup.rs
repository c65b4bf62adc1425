//! One control group as an open directory, and the text of its files.
//!
//! Purpose: read, write, make and remove below an open directory, by relative name, on the kernel's tree or on a fake tree.
//! A write never creates a file, so a misspelt name fails on a fake tree too. Owner of state: the open directory. Absent
//! here: the groups of jobs, the choice of writes, and any difference between the two generations of control groups.

mod mounts;
mod parse;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::procfs::read_all;

pub use mounts::{Generation, Mount, own_group, parse_mounts};
pub use parse::{Events, keyed, parse_events, parse_io_stat, parse_limit, parse_numa_stat, parse_pids};

/// A control group could not be used.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// A group could not be opened.
    #[error("failed to open the group {}", .path.display())]
    Open {
        /// The group.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A group could not be made.
    #[error("failed to make the group {}", .path.display())]
    Make {
        /// The group.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A group could not be removed.
    #[error("failed to remove the group {}", .path.display())]
    Remove {
        /// The group.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A group could not be given another name.
    #[error("failed to rename the group {} to {name}", .path.display())]
    Rename {
        /// The group.
        path: PathBuf,
        /// The name it was to have.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The groups below a group could not be listed.
    #[error("failed to list the group {}", .path.display())]
    List {
        /// The group.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("failed to read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("failed to write `{value}` to {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The value to write.
        value: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A file does not read as the kernel documents it.
    #[error("failed to understand {}", .path.display())]
    Parse {
        /// The file.
        path: PathBuf,
    },
}

impl CgroupError {
    /// The kernel's error number, if any.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Open { source, .. }
            | Self::Make { source, .. }
            | Self::Remove { source, .. }
            | Self::Rename { source, .. }
            | Self::List { source, .. }
            | Self::Read { source, .. }
            | Self::Write { source, .. } => Errno::from_io_error(source),
            Self::Parse { .. } => None,
        }
    }

    /// Whether the object has vanished, which for a group and for a process is an answer.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        matches!(self.errno(), Some(Errno::NOENT | Errno::NODEV | Errno::SRCH))
    }
}

/// The kernel's behaviour in a tree of control groups that a plain directory lacks: filling a new group with files,
/// checking writes, keeping lists of members. A fake tree for tests implements it; the calls stand exactly where the
/// kernel would act.
pub trait FakeKernel: Send + Sync + fmt::Debug {
    /// The directory `group` was just made; an error undoes it.
    fn made(&self, group: &Path) -> io::Result<()>;
    /// `file` is about to be read and may need to be brought up to date.
    fn reading(&self, file: &Path) -> io::Result<()>;
    /// `value` is written to `file`, which exists and is open for writing.
    fn written(&self, file: &Path, value: &str) -> io::Result<()>;
    /// The directory `group` is about to be removed; an error forbids it.
    fn removing(&self, group: &Path) -> io::Result<()>;
}

/// An open control group.
#[derive(Debug)]
pub struct Group {
    dir: OwnedFd,
    path: PathBuf,
    fake: Option<Arc<dyn FakeKernel>>,
}

/// The result of removing a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupRemoval {
    /// The group is gone, now or since before.
    Gone,
    /// The group still has processes or groups.
    Busy,
}

const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::PATH).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// The most attempts to make a group that another process removes before it is opened.
const MAKE_TRIES: u32 = 100;

impl Group {
    /// Opens the group at `path`; `None`: there is none.
    pub fn open(path: &Path, fake: Option<Arc<dyn FakeKernel>>) -> Result<Option<Self>, CgroupError> {
        match rustix::fs::open(path, DIRECTORY, Mode::empty()) {
            Ok(dir) => Ok(Some(Self { dir, path: path.to_owned(), fake })),
            Err(Errno::NOENT | Errno::NODEV) => Ok(None),
            Err(errno) => Err(CgroupError::Open { path: path.to_owned(), source: errno.into() }),
        }
    }

    /// Opens another group, wherever it is; `None`: there is none.
    pub fn elsewhere(&self, path: &Path) -> Result<Option<Self>, CgroupError> {
        Self::open(path, self.fake.clone())
    }

    /// Its path, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the group `name` below this group; `None`: it does not exist.
    pub fn child(&self, name: &str) -> Result<Option<Self>, CgroupError> {
        match rustix::fs::openat(&self.dir, name, DIRECTORY, Mode::empty()) {
            Ok(dir) => Ok(Some(Self { dir, path: self.path.join(name), fake: self.fake.clone() })),
            Err(Errno::NOENT | Errno::NODEV) => Ok(None),
            Err(errno) => Err(CgroupError::Open { path: self.path.join(name), source: errno.into() }),
        }
    }

    /// Makes the group `name` below this group and opens it; the flag tells whether it was new.
    pub fn make(&self, name: &str) -> Result<(Self, bool), CgroupError> {
        let failed = |source| CgroupError::Make { path: self.path.join(name), source };
        let mode = Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
        for _ in 0..MAKE_TRIES {
            let new = match rustix::fs::mkdirat(&self.dir, name, mode) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(failed(errno.into())),
            };
            // Readable for all, whatever this process's or an earlier process's umask: programs in a job read their
            // bounds there. A group of another user stays unchanged, and a vanished group shows at the next step.
            let _ = rustix::fs::chmodat(&self.dir, name, mode, AtFlags::empty());
            if new && let Some(fake) = &self.fake {
                fake.made(&self.path.join(name)).map_err(failed)?;
            }
            // Its last owner may remove it just now.
            if let Some(child) = self.child(name)? {
                return Ok((child, new));
            }
        }
        Err(failed(Errno::NOENT.into()))
    }

    /// Removes the group `name` below this group. It must be empty, or with `deep` hold only empty groups.
    pub fn remove(&self, name: &str, deep: bool) -> Result<GroupRemoval, CgroupError> {
        let path = || self.path.join(name);
        if let Some(fake) = &self.fake {
            match fake.removing(&path()) {
                Ok(()) => {}
                Err(source) if Errno::from_io_error(&source) == Some(Errno::BUSY) => {}
                Err(source) => return Err(CgroupError::Remove { path: path(), source }),
            }
        }
        match rustix::fs::unlinkat(&self.dir, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(GroupRemoval::Gone),
            Err(Errno::BUSY | Errno::NOTEMPTY) if deep => {
                let Some(child) = self.child(name)? else { return Ok(GroupRemoval::Gone) };
                for inner in child.children()? {
                    if child.remove(&inner, true)? == GroupRemoval::Busy {
                        return Ok(GroupRemoval::Busy);
                    }
                }
                self.remove(name, false)
            }
            Err(Errno::BUSY | Errno::NOTEMPTY) => Ok(GroupRemoval::Busy),
            Err(errno) => Err(CgroupError::Remove { path: path(), source: errno.into() }),
        }
    }

    /// The owner of the group.
    pub(crate) fn owner(&self) -> Option<u32> {
        rustix::fs::fstat(&self.dir).ok().map(|stat| stat.st_uid)
    }

    /// Marks the group as used, or as about to be removed (`alone`), for the lifetime of the result: several processes
    /// may use a group, and a process that removes it must be alone. `None`: another mark is in the way, possibly of
    /// any user who can open the group.
    pub(crate) fn hold(&self, alone: bool) -> Result<Option<OwnedFd>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(&self.dir, c".", flags, Mode::empty())?;
        let how = if alone {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        match rustix::fs::flock(&directory, how) {
            Ok(()) => Ok(Some(directory)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Renames the group `child` below this group, named `from`. Only the first generation can.
    pub fn rename(&self, child: &mut Self, from: &str, to: &str) -> Result<(), CgroupError> {
        rustix::fs::renameat(&self.dir, from, &self.dir, to).map_err(|errno| CgroupError::Rename {
            path: self.path.join(from),
            name: to.to_owned(),
            source: errno.into(),
        })?;
        child.path = self.path.join(to);
        Ok(())
    }

    /// The names of the groups below this group, sorted.
    pub fn children(&self) -> Result<Vec<String>, CgroupError> {
        let mut names = Vec::new();
        self.entries(|name, kind| {
            if kind == FileType::Directory {
                names.push(name.to_owned());
            }
        })?;
        names.sort_unstable();
        Ok(names)
    }

    /// The names of the files in this group, sorted.
    pub fn files(&self) -> Result<Vec<String>, CgroupError> {
        let mut names = Vec::new();
        self.entries(|name, kind| {
            if kind == FileType::RegularFile {
                names.push(name.to_owned());
            }
        })?;
        names.sort_unstable();
        Ok(names)
    }

    fn entries(&self, mut each: impl FnMut(&str, FileType)) -> Result<(), CgroupError> {
        let failed = |errno: Errno| CgroupError::List { path: self.path.clone(), source: errno.into() };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.dir, ".", flags, Mode::empty()) {
            Ok(fd) => fd,
            // The group was removed since it was opened: no entries.
            Err(Errno::NOENT | Errno::NODEV) => return Ok(()),
            Err(errno) => return Err(failed(errno)),
        };
        for entry in Dir::new(fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // pinfold and the kernel use UTF-8 names only.
            if let Ok(name) = entry.file_name().to_str()
                && name != "."
                && name != ".."
            {
                each(name, entry.file_type());
            }
        }
        Ok(())
    }

    /// Whether it has child groups. Cheap: the kernel counts them in the link count of the directory.
    pub fn has_children(&self) -> bool {
        rustix::fs::fstat(&self.dir).is_ok_and(|stat| stat.st_nlink > 2)
    }

    /// Reads a whole file; `None`: the file or the group is not there.
    pub fn read(&self, file: &str) -> Result<Option<String>, CgroupError> {
        let failed = |source| CgroupError::Read { path: self.path.join(file), source };
        if let Some(fake) = &self.fake {
            fake.reading(&self.path.join(file)).map_err(failed)?;
        }
        let read = rustix::fs::openat(&self.dir, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .and_then(|fd| read_all(&fd));
        match read {
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(Errno::NOENT | Errno::NODEV) => Ok(None),
            Err(errno) => Err(failed(errno.into())),
        }
    }

    /// Reads a file with a number; `None`: absent. `max` reads as the largest number.
    pub fn read_number(&self, file: &str) -> Result<Option<u64>, CgroupError> {
        self.read_parsed(file, parse_limit)
    }

    /// Reads a file and understands it; `None`: not there.
    pub fn read_parsed<T>(
        &self,
        file: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, CgroupError> {
        match self.read(file)? {
            None => Ok(None),
            Some(text) => match parse(&text) {
                Some(value) => Ok(Some(value)),
                None => Err(CgroupError::Parse { path: self.path.join(file) }),
            },
        }
    }

    /// Writes `value` to an existing file, in one call, as the kernel requires.
    pub fn write(&self, file: &str, value: &str) -> Result<(), CgroupError> {
        let failed =
            |source| CgroupError::Write { path: self.path.join(file), value: value.to_owned(), source };
        // Never create and never truncate: a misspelt file name must fail on a fake tree too.
        let fd = rustix::fs::openat(&self.dir, file, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| failed(errno.into()))?;
        if let Some(fake) = &self.fake {
            return fake.written(&self.path.join(file), value).map_err(failed);
        }
        loop {
            match rustix::io::write(&fd, value.as_bytes()) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(errno.into())),
            }
        }
    }

    /// Whether the file is there.
    pub fn has(&self, file: &str) -> bool {
        rustix::fs::accessat(&self.dir, file, rustix::fs::Access::EXISTS, AtFlags::empty()).is_ok()
    }

    /// Opens a file for repeated reading and polling.
    pub(crate) fn open_file(&self, file: &str) -> Result<OwnedFd, CgroupError> {
        rustix::fs::openat(&self.dir, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| CgroupError::Read { path: self.path.join(file), source: errno.into() })
    }

    /// Opens a file of the group for writes by another process.
    pub(crate) fn open_to_write(&self, file: &str) -> Result<OwnedFd, CgroupError> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.dir, file, flags, Mode::empty())
            .map_err(|errno| CgroupError::Open { path: self.path.join(file), source: errno.into() })
    }

    /// Sets or takes away an extended attribute of the group's directory, for other software to read.
    pub(crate) fn mark(&self, name: &str, value: Option<&str>) -> Result<(), Errno> {
        use rustix::fd::AsRawFd as _;
        // The directory is open for paths only, so the file is opened by a path.
        let path = format!("/proc/self/fd/{}", self.dir.as_raw_fd());
        match value {
            Some(value) => {
                rustix::fs::setxattr(path, name, value.as_bytes(), rustix::fs::XattrFlags::empty())
            }
            None => match rustix::fs::removexattr(path, name) {
                Err(Errno::NODATA) => Ok(()),
                other => other,
            },
        }
    }

    /// Whether this group lies in a fake tree, where open files do not follow the kernel.
    pub(crate) fn is_fake(&self) -> bool {
        self.fake.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs a temporary directory with attributes of users"]
    fn a_mark_is_set_and_taken_away() {
        let dir = tempfile::tempdir().expect("a directory");
        let group = Group::open(dir.path(), None).expect("opened").expect("there");
        group.mark("user.oomd_omit", Some("1")).expect("set");
        let mut value = [0u8; 8];
        let read = |value: &mut [u8]| rustix::fs::getxattr(dir.path(), "user.oomd_omit", value);
        assert_eq!(read(&mut value), Ok(1));
        assert_eq!(value[0], b'1');
        group.mark("user.oomd_omit", None).expect("taken away");
        assert_eq!(read(&mut value), Err(Errno::NODATA));
        group.mark("user.oomd_omit", None).expect("not there is as good");
    }
}
