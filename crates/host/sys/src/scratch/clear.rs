//! Emptying a job's directory, a bounded step at a time, while its user may still do what he likes to it.
//!
//! Each directory is first taken from its user: it becomes this process's own, and nobody makes anything in it any more,
//! not by a descriptor that was opened before either. Nothing is followed out of the file system: links are removed, and
//! what somebody mounted on the way is detached and never entered, for a file system of a user's answers when it likes.
//! The kernel owns the state: a step that is the first after a restart goes on where the last one ended. Absent here: when
//! a step is taken, and who is told.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::{Means, PRIVATE, Scratch, ScratchError, failed, name_of, quota};

/// So many names are read at once.
const NAMES_AT_ONCE: usize = 1024;
const FOUND: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// So many mounts that lie over each other are taken off in a step.
const LAYERS_AT_ONCE: usize = 64;

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cleared {
    /// The directory is gone, and what it held with it.
    Gone,
    /// There is more to remove.
    More,
    /// It is empty, and so many bytes of memory stay taken: somebody has files of it open.
    Held(u64),
}

/// How far a directory has come; a new one for each directory, and for each process.
#[derive(Debug, Default)]
pub struct Clearing {
    /// Directories that were moved up, whose names are counted.
    moved: u64,
}

impl Scratch {
    /// Takes a job's directory from its user and removes at most so many entries of it. One that is not there is gone.
    /// May take as long as the disk takes; the time does not depend on what the user does meanwhile.
    ///
    /// # Errors
    /// When a directory on the way is somebody else's, or a call fails; another step may succeed.
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
            // Of the daemon's own or not: nothing of a foreign one was looked at.
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

    /// Lets nothing more be made in directories below that are the user's still, as far as the kernel can be told.
    fn allow_no_more(&self, job: u64, top: &OwnedFd) {
        match self.means {
            Means::Mount => {
                // As many files as there are; a number that was passed in between is refused, and the next step tries again.
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

/// What a tmpfs holds that has no file any more, in bytes.
fn held_bytes(top: &OwnedFd) -> u64 {
    let Ok(found) = rustix::fs::fstatvfs(top) else { return 0 };
    found.f_blocks.saturating_sub(found.f_bfree).saturating_mul(found.f_frsize)
}

/// Removes what is in a directory that was taken from its user, down to `left` entries; says whether it is empty. Names
/// are any bytes; and a nest of directories however deep takes no more memory and open files than a flat one: what is in a
/// directory below is emptied into this one, step by step.
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

/// Removes a directory below `top`, and gives `top` the directories that are in it. What is left of it, for `left` is
/// used up or something was made in it just before it was taken, is for another time.
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

/// Moves a directory up to `top`, under a name that nothing there has.
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

/// Takes off what is mounted on an entry of a directory of this process's own, where nobody else can put another entry.
fn detach(directory: &OwnedFd, name: &CStr) -> Result<(), Errno> {
    let path = through(directory).join(std::ffi::OsStr::from_bytes(name.to_bytes()));
    match rustix::mount::unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        // Mounted elsewhere, by a process with mounts of its own: the kernel takes that off when the entry goes.
        Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// Makes a directory this process's own, and lets nobody else do anything in it.
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

/// A directory, found and not opened: the file system in which it is is asked nothing. Fails with `NOTDIR` or `LOOP` for a
/// link.
fn look(directory: &OwnedFd, name: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(directory, name, FOUND, Mode::empty())
}

/// As [`look`], and fails with `XDEV` where something is mounted on it.
pub(super) fn look_within(
    directory: &OwnedFd,
    name: impl rustix::path::Arg + Copy,
) -> Result<OwnedFd, Errno> {
    match rustix::fs::openat2(directory, name, FOUND, Mode::empty(), ResolveFlags::NO_XDEV) {
        // A kernel before 5.6, or a container that does not know of it.
        Err(Errno::NOSYS | Errno::PERM) => {
            let found = look(directory, name)?;
            if mount_id(&found)? == mount_id(directory)? { Ok(found) } else { Err(Errno::XDEV) }
        }
        other => other,
    }
}

/// Opens what was found.
fn enter(found: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(found, c".", flags, Mode::empty()) {
        // Shut by the job, which was its user's to do, and is to undo for who removes it as that user. By what was found,
        // and not by a name that may be a link by now.
        Err(Errno::ACCESS) => {
            rustix::fs::chmod(through(found), PRIVATE)?;
            rustix::fs::openat(found, c".", flags, Mode::empty())
        }
        other => other,
    }
}

/// A path to an open file, whatever became of its name.
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
