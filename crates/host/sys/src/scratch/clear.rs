//! Emptying a job's directory, a bounded step at a time, while its user may still change it.
//!
//! Each directory is first taken from its user: it becomes this process's own, so that no other process can make entries in
//! it, not even by a descriptor that was opened before. No step leaves the file system: links are removed, and mounts on
//! the way are detached and never entered, as a user's file system may never answer. The kernel owns the state: the first
//! step after a restart continues after the last. Absent here: the schedule, and reports.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::{Means, PRIVATE, Scratch, ScratchError, failed, name_of, quota};

/// The most names that are read at once.
const NAMES_AT_ONCE: usize = 1024;
const FOUND: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The most mounts over each other that a step detaches.
const LAYERS_AT_ONCE: usize = 64;

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cleared {
    /// The directory and its contents are gone.
    Gone,
    /// There is more to remove.
    More,
    /// The directory is empty, but a process has files of it open: this many bytes of memory stay taken.
    Held(u64),
}

/// The progress of clearing a directory; new for each directory, and for each process.
#[derive(Debug, Default)]
pub struct Clearing {
    /// The number of directories moved up, for their names.
    moved: u64,
}

impl Scratch {
    /// Takes a job's directory from its user and removes at most `entries` entries of it. A missing directory is gone. May
    /// take as long as the disk takes; the user cannot delay it.
    ///
    /// # Errors
    /// When a directory on the way is another user's, or a call fails; another step may succeed.
    pub fn clear_step(
        &self,
        job: u64,
        clearing: &mut Clearing,
        entries: usize,
    ) -> Result<Cleared, ScratchError> {
        let Some(base) = self.open_base(false)? else { return Ok(Cleared::Gone) };
        let (path, name) = (self.path(job), name_of(job));
        let failed = |operation, errno| failed(operation, &path, errno);
        let own = mount_id(&base).map_err(|error| failed("look at", error))?;
        let mut left = entries;
        for _ in 0..LAYERS_AT_ONCE {
            let found = match look(&base, name.as_str()) {
                Ok(found) => found,
                Err(Errno::NOENT) => return Ok(Cleared::Gone),
                Err(errno) => return Err(failed("open", errno)),
            };
            let mount = mount_id(&found).map_err(|errno| failed("look at", errno))?;
            let is_below = mount == own;
            if is_below || (self.means == Means::Mount && is_ours(mount)) {
                let top = enter(&found).map_err(|errno| failed("open", errno))?;
                take(&top).map_err(|errno| failed("take over", errno))?;
                self.allow_no_more(job, &top);
                if !empty(&top, &path, clearing, &mut left)? {
                    return Ok(Cleared::More);
                }
                if is_below {
                    return self.remove_empty(&base, job, &top);
                }
                let held = held_bytes(&top);
                if held > 0 {
                    return Ok(Cleared::Held(held));
                }
            }
            // The mount is the daemon's own or not: nothing of a foreign mount was read.
            let off = rustix::mount::unmount(&path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
            off.map_err(|errno| failed("unmount", errno))?;
        }
        Ok(Cleared::More)
    }

    fn remove_empty(&self, base: &OwnedFd, job: u64, top: &OwnedFd) -> Result<Cleared, ScratchError> {
        let project = (self.means == Means::Quota).then(|| quota::number(top, job)).flatten();
        match rustix::fs::unlinkat(base, name_of(job), AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY) => return Ok(Cleared::More),
            Err(errno) => return Err(failed("remove", &self.path(job), errno)),
        }
        let lifted = project.map_or(Ok(()), |project| quota::release(base, project));
        lifted.map_err(|errno| failed("lift the quota of", &self.path(job), errno))?;
        Ok(Cleared::Gone)
    }

    /// Prevents new entries in directories below that are still the user's, as far as the kernel can.
    fn allow_no_more(&self, job: u64, top: &OwnedFd) {
        match self.means {
            Means::Mount => {
                // The limit is the present number of files; if it changed meanwhile, the kernel refuses, and the next step
                // tries again.
                let Ok(found) = rustix::fs::fstatvfs(top) else { return };
                let options = format!("nr_inodes={}", found.f_files.saturating_sub(found.f_ffree).max(1));
                let options = CString::new(options).expect("digits and letters");
                let flags = MountFlags::NOSUID | MountFlags::NODEV;
                let _ = rustix::mount::mount_remount(through(top), flags, options.as_c_str());
            }
            Means::Quota => {
                quota::loosen(top);
                if let Some(project) = quota::number(top, job) {
                    let _ = quota::shut(top, project);
                }
            }
            Means::Nothing => {}
        }
    }
}

/// The memory of a tmpfs that belongs to no file any more, in bytes.
fn held_bytes(top: &OwnedFd) -> u64 {
    let Ok(found) = rustix::fs::fstatvfs(top) else { return 0 };
    found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize)
}

/// Removes the entries of a directory that was taken from its user, `left` entries at most; returns whether it is empty.
/// Names are any bytes; and a nest of directories however deep takes no more memory and open files than a flat directory:
/// entries of a directory below move into this directory, step by step.
fn empty(
    top: &OwnedFd,
    path: &Path,
    clearing: &mut Clearing,
    left: &mut usize,
) -> Result<bool, ScratchError> {
    loop {
        let names = names(top, NAMES_AT_ONCE).map_err(|errno| failed("list", path, errno))?;
        if names.is_empty() {
            return Ok(true);
        }
        for name in names {
            if *left == 0 {
                return Ok(false);
            }
            *left -= 1;
            let removed = match rustix::fs::unlinkat(top, &name, AtFlags::empty()) {
                Err(Errno::ISDIR | Errno::PERM) => unnest(top, &name, clearing, left),
                Err(Errno::BUSY) => detach(top, &name),
                other => other,
            };
            match removed {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => {
                    return Err(failed("remove", &path.join(name.to_string_lossy().into_owned()), errno));
                }
            }
        }
    }
}

/// Removes a directory below `top`, and moves its subdirectories to `top`. A rest stays for a later step if `left` is used
/// up or a process made an entry just before the directory was taken.
fn unnest(top: &OwnedFd, name: &CStr, clearing: &mut Clearing, left: &mut usize) -> Result<(), Errno> {
    let below = match look_within(top, name) {
        Err(Errno::XDEV) => return detach(top, name),
        other => enter(&other?)?,
    };
    take(&below)?;
    loop {
        let names = names(&below, NAMES_AT_ONCE)?;
        if names.is_empty() {
            break;
        }
        for inner in names {
            if *left == 0 {
                return Ok(());
            }
            *left -= 1;
            remove_or_lift(&below, &inner, top, clearing)?;
        }
    }
    match rustix::fs::unlinkat(top, name, AtFlags::REMOVEDIR) {
        Err(Errno::BUSY) => detach(top, name),
        Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(()),
        other => other,
    }
}

fn remove_or_lift(
    below: &OwnedFd,
    inner: &CStr,
    top: &OwnedFd,
    clearing: &mut Clearing,
) -> Result<(), Errno> {
    match rustix::fs::unlinkat(below, inner, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(Errno::BUSY) => return detach(below, inner),
        Err(errno) => return Err(errno),
    }
    match rustix::fs::unlinkat(below, inner, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => lift(below, inner, top, clearing),
        Err(Errno::BUSY) => detach(below, inner),
        Err(errno) => Err(errno),
    }
}

/// Moves a directory up to `top`, under an unused name.
fn lift(from: &OwnedFd, name: &CStr, top: &OwnedFd, clearing: &mut Clearing) -> Result<(), Errno> {
    loop {
        clearing.moved += 1;
        let to = format!(".removed-{}", clearing.moved);
        match rustix::fs::renameat_with(from, name, top, &to, rustix::fs::RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::BUSY) => return detach(from, name),
            // A directory can be moved only by a user who may write into it.
            Err(Errno::ACCESS) => {
                take(&enter(&look_within(from, name)?)?)?;
                return rustix::fs::renameat_with(from, name, top, &to, rustix::fs::RenameFlags::NOREPLACE);
            }
            other => return other,
        }
    }
}

/// Detaches a mount on an entry of a directory of this process's own, where no other process can put another entry.
fn detach(directory: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    let path = through(directory).join(std::ffi::OsStr::from_bytes(name.to_bytes()));
    match rustix::mount::unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        // Mounted elsewhere, by a process with mounts of its own: the kernel takes that off when the entry goes.
        Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Makes a directory this process's own, and denies others any access.
fn take(directory: &OwnedFd) -> Result<(), Errno> {
    let own = rustix::process::geteuid();
    let found = rustix::fs::fstat(directory)?;
    if found.st_uid != own.as_raw() {
        rustix::fs::fchown(directory, Some(Uid::from_raw(own.as_raw())), None)?;
    }
    // An access list has its bounds in the group's part.
    if found.st_mode & 0o7777 != PRIVATE.as_raw_mode() {
        rustix::fs::fchmod(directory, PRIVATE)?;
    }
    Ok(())
}

/// A directory, found and not opened: its file system is asked nothing. Fails with `NOTDIR` or `LOOP` for a link.
fn look(directory: &OwnedFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(directory, name, FOUND, Mode::empty())
}

/// As [`look`], and fails with `XDEV` for a mount point.
pub(super) fn look_within(
    directory: &OwnedFd,
    name: impl rustix::path::Arg + Copy,
) -> Result<OwnedFd, Errno> {
    match rustix::fs::openat2(directory, name, FOUND, Mode::empty(), ResolveFlags::NO_XDEV) {
        // A kernel before 5.6, or a container that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {
            let found = look(directory, name)?;
            if mount_id(&found)? == mount_id(directory)? { Ok(found) } else { Err(Errno::XDEV) }
        }
        other => other,
    }
}

/// Opens a found directory.
fn enter(found: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(found, c".", flags, Mode::empty()) {
        // The job's user removed permissions, which a daemon of the same user has to restore. By descriptor, as the name
        // may be a link by now.
        Err(Errno::ACCESS) => {
            rustix::fs::chmod(through(found), PRIVATE)?;
            rustix::fs::openat(found, c".", flags, Mode::empty())
        }
        other => other,
    }
}

/// A path to an open file, whatever its name by now.
fn through(file: impl AsFd) -> std::path::PathBuf {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()).into()
}

/// The number of the mount on which an open file is.
fn mount_id(file: &OwnedFd) -> Result<u64, Errno> {
    let path = format!("/proc/self/fdinfo/{}", file.as_raw_fd());
    let text = std::fs::read_to_string(path).map_err(|error| errno(&error))?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    id.ok_or(Errno::NOSYS)
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Whether a mount is a tmpfs of a job's.
fn is_ours(mount: u64) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let line =
        mounts.lines().find(|line| line.split(' ').next().and_then(|word| word.parse().ok()) == Some(mount));
    line.and_then(|line| line.split_once(" - ")).is_some_and(|(_, kind)| kind.starts_with("tmpfs pinfold "))
}

/// Some of the names in a directory, but for its own and that above.
fn names(directory: &OwnedFd, most: usize) -> Result<Vec<CString>, Errno> {
    let entries = Dir::read_from(directory)?;
    let names = entries.map(|entry| entry.map(|entry| entry.file_name().to_owned()));
    let others = names.filter(|name| !matches!(name.as_deref().map(CStr::to_bytes), Ok(b"." | b"..")));
    others.take(most).collect()
}
