//! Opening files in ways that the standard library has no words for: as places to be looked at, and without following
//! links. Absent here: which files may be opened.

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, fallocate, fcntl_getfl, fstatvfs,
};
use rustix::io::Errno;

use crate::fork::close_on_exec;
use crate::peer;

/// Opens a path, or a link itself, for inspection only (`O_PATH`).
///
/// # Errors
/// When the path does not exist or cannot be reached.
pub fn look_at(path: &Path) -> io::Result<File> {
    let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, how, Mode::empty())?.into())
}

/// The capacity of a path's file system, in bytes; `None`: unknown.
#[must_use]
pub fn capacity_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_blocks.saturating_mul(found.f_frsize))
}

/// The free space of a path's file system for this process, in bytes, quotas ignored; `None`: unknown.
#[must_use]
pub fn available_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Whether this process may write a file opened by [`look_at`].
///
/// # Errors
/// When it may not.
pub fn may_be_written(place: &File) -> io::Result<()> {
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    Ok(rustix::fs::accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)?)
}

/// Whether this process may make files in a directory.
#[must_use]
pub fn may_make_in(directory: &Path) -> bool {
    make_in(directory).is_ok()
}

/// The same, with why not.
///
/// # Errors
/// A system error.
pub fn make_in(directory: &Path) -> io::Result<()> {
    Ok(rustix::fs::accessat(CWD, directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
}

/// Opens a pipe to be written, and does not wait for a reader where there is none.
///
/// # Errors
/// When it may not be written, or has no reader.
pub fn open_pipe_with_reader(path: &Path) -> io::Result<File> {
    let how = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(CWD, path, how, Mode::empty())?);
    rustix::io::ioctl_fionbio(&file, false)?;
    Ok(file)
}

/// The target of a link opened by [`look_at`].
///
/// # Errors
/// When it is no link.
pub fn target_of(link: &File) -> io::Result<PathBuf> {
    let leads = rustix::fs::readlinkat(link, "", Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(leads.into_bytes())))
}

/// Opens a regular file for reading. Other files (a FIFO, which may never get a writer; a device, which opening may
/// change) are refused without waiting.
///
/// # Errors
/// When the file does not exist, is not regular, or is not readable.
pub fn open_regular(path: &Path) -> io::Result<File> {
    open_regular_with(OpenOptions::new().read(true), path)
}

/// As [`open_regular`], with these `options`; a missing file is an error unless they create it.
///
/// # Errors
/// When the file is not regular, or a system error.
pub fn open_regular_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    open_if_regular(options, path, std::fs::metadata(path), OFlags::empty())
}

/// As [`open_regular_with`], for a file that is overwritten in place: refuses links too, as another file lies behind a
/// link.
///
/// # Errors
/// When the file is not regular, or a system error.
pub fn open_in_place(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    open_if_regular(options, path, std::fs::symlink_metadata(path), OFlags::NOFOLLOW)
}

/// Opens the path unless `found` shows another kind of file: opening a device may change it.
fn open_if_regular(
    options: &mut OpenOptions,
    path: &Path,
    found: io::Result<Metadata>,
    further: OFlags,
) -> io::Result<File> {
    match found {
        Ok(found) => is_regular(&found)?,
        // The options may create it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // The file may have been replaced since; a regular file never makes the open wait.
    let file = with_flags(options, OFlags::NONBLOCK | OFlags::NOCTTY | further).open(path)?;
    is_regular(&file.metadata()?)?;
    Ok(file)
}

fn is_regular(found: &Metadata) -> io::Result<()> {
    let kind = found.file_type();
    let what = match () {
        () if kind.is_file() => return Ok(()),
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_dir() => "a directory",
        () if kind.is_socket() => "a socket",
        () if kind.is_symlink() => "a link",
        () => "a device",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, and a regular file is wanted")))
}

/// All that a regular file holds; see [`open_regular`].
///
/// # Errors
/// As [`open_regular`], and errors of the read.
pub fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Has `options` refuse a path that is a link.
pub fn without_links(options: &mut OpenOptions) -> &mut OpenOptions {
    with_flags(options, OFlags::NOFOLLOW)
}

fn with_flags(options: &mut OpenOptions, flags: OFlags) -> &mut OpenOptions {
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
}

/// Whether a file opened by [`look_at`] lies in `/proc`. The links there that stand for open files, as /dev/stdout and
/// /dev/fd/3, lead to the open files and to no name.
#[must_use]
pub fn is_in_proc(place: &File) -> bool {
    rustix::fs::fstatfs(place).is_ok_and(|found| found.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

/// The descriptor of this process that a path in `/proc` stands for, and whether it was inherited: a program closes its
/// own descriptors when it executes another.
fn own_descriptor(path: &Path) -> Option<(RawFd, bool)> {
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let is_own = path.parent()?.canonicalize().ok()? == Path::new("/proc/self/fd").canonicalize().ok()?;
    Some((number, !close_on_exec(number)?)).filter(|_| is_own)
}

/// Whether a path in `/proc` stands for a file that this process opened itself.
#[must_use]
pub fn is_own(path: &Path) -> bool {
    own_descriptor(path).is_some_and(|(_, inherited)| !inherited)
}

/// A duplicate of the inherited file that a path in `/proc` stands for, with its position. `None`: the path stands for
/// no inherited file open for writing, or for a device, which has no position: a terminal is shared with the shell,
/// which would see the changes of a program that makes its writes non-blocking.
#[must_use]
pub fn inherited_to_write(path: &Path) -> Option<File> {
    let (number, _) = own_descriptor(path).filter(|&(_, inherited)| inherited)?;
    #[expect(unsafe_code, reason = "a number that a user gave names a descriptor that no value here owns")]
    // SAFETY: the number was just seen to be open, this function closes nothing, and the borrow ends with it.
    let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
    let flags = fcntl_getfl(descriptor).ok()?;
    let is_device =
        FileType::from_raw_mode(rustix::fs::fstat(descriptor).ok()?.st_mode) == FileType::CharacterDevice;
    let is_written = !flags.contains(OFlags::PATH) && flags & OFlags::RWMODE != OFlags::RDONLY && !is_device;
    is_written.then(|| rustix::io::fcntl_dupfd_cloexec(descriptor, 3).ok().map(File::from)).flatten()
}

/// The directory on this path, itself included, that other users could replace, with the defect. `None`: only this user
/// and root can.
///
/// # Errors
/// When a directory cannot be read.
pub fn exchangeable(directory: &Path) -> io::Result<Option<(PathBuf, &'static str)>> {
    let (own, path) = (peer::own_uid(), directory.canonicalize()?);
    for directory in path.ancestors() {
        let found = directory.symlink_metadata()?;
        let (owner, mode) = (found.uid(), found.mode());
        // Other users may write into `/tmp`, but not rename files of others there.
        if mode & 0o002 != 0 && mode & 0o1000 == 0 {
            return Ok(Some((directory.to_owned(), "is open to others")));
        }
        if owner != own && owner != 0 && !peer::is_unmapped(owner) {
            return Ok(Some((directory.to_owned(), "belongs to someone else")));
        }
    }
    Ok(None)
}

/// Whether all writes to a file append.
#[must_use]
pub fn appends(file: &File) -> bool {
    fcntl_getfl(file).is_ok_and(|flags| flags.contains(OFlags::APPEND))
}

/// Reserves disk space for a file of `length` bytes; contents and length stay. No effect on a file system without
/// reservation.
///
/// # Errors
/// When there is no room for it.
pub fn reserve(file: &File, length: u64) -> io::Result<()> {
    // A reservation that fails would briefly take all free space from other programs.
    let (disk, there) = (fstatvfs(file)?, file.metadata()?.blocks().saturating_mul(512));
    if disk.f_blocks > 0 && disk.f_bfree.saturating_mul(disk.f_frsize).saturating_add(there) < length {
        return Err(Errno::NOSPC.into());
    }
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, length) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
            // Releases the space that was reserved before the disk was full.
            file.set_len(file.metadata()?.len())?;
            Err(error.into())
        }
        _ => Ok(()),
    }
}

/// Makes writes to a pipe or socket with a slow reader fail instead of wait.
///
/// # Errors
/// A system error.
pub fn set_nonblocking(file: impl AsFd) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(file, true)?)
}

/// Writes a line to standard input, where that is a pipe to a parent, and replaces standard input by `/dev/null`.
pub fn say_to_standard_input(line: &str) {
    let _ = rustix::io::write(rustix::stdio::stdin(), line.as_bytes());
    let _ = File::open("/dev/null").map(|null| rustix::stdio::dup2_stdin(&null));
}

/// Fills `bytes` with random bytes from the kernel.
///
/// # Errors
/// A system error.
pub fn random(bytes: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_looked_at_and_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        let found = look_at(&link).unwrap();
        assert!(found.metadata().unwrap().is_symlink());
        assert_eq!(target_of(&found).unwrap(), Path::new("nowhere"));
        assert!(without_links(OpenOptions::new().write(true).create(true)).open(&link).is_err());
        assert!(look_at(&dir.path().join("nothing")).is_err());
        let own = |directory: &str| is_own(&Path::new(directory).join(found.as_raw_fd().to_string()));
        assert!(
            own("/dev/fd") && own("/proc/self/fd") && !own("/proc/1/fd") && !is_own(Path::new("/dev/fd/0"))
        );
        assert!(!is_in_proc(&found) && is_in_proc(&look_at(Path::new("/proc/self/exe")).unwrap()));
    }

    #[test]
    fn other_kinds_of_files_are_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let (fifo, plain, link) =
            (dir.path().join("fifo"), dir.path().join("plain"), dir.path().join("link"));
        rustix::fs::mknodat(CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        std::fs::write(&plain, "x").unwrap();
        std::os::unix::fs::symlink("plain", &link).unwrap();
        let said = |path: &Path| open_regular(path).map(drop).map_err(|error| error.to_string());
        assert_eq!(said(&fifo), Err("it is a FIFO, and a regular file is wanted".to_owned()));
        assert_eq!(said(dir.path()), Err("it is a directory, and a regular file is wanted".to_owned()));
        assert_eq!(
            said(Path::new("/dev/zero")),
            Err("it is a device, and a regular file is wanted".to_owned())
        );
        assert_eq!((said(&plain), said(&link)), (Ok(()), Ok(())));
        assert_eq!(read_regular(&link).unwrap(), b"x");
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        let made = dir.path().join("made");
        let mut written =
            |path: &Path| open_regular_with(&mut options, path).map(drop).map_err(|error| error.to_string());
        assert_eq!(written(&fifo), Err("it is a FIFO, and a regular file is wanted".to_owned()));
        assert_eq!((written(&link), written(&made)), (Ok(()), Ok(())));
        let mut in_place =
            |path: &Path| open_in_place(&mut options, path).map(drop).map_err(|error| error.to_string());
        assert_eq!(in_place(&link), Err("it is a link, and a regular file is wanted".to_owned()));
        assert_eq!(in_place(&fifo), Err("it is a FIFO, and a regular file is wanted".to_owned()));
        assert_eq!(in_place(&plain), Ok(()));
        assert!(said(&dir.path().join("none")).is_err());
    }

    #[test]
    fn random_bytes_differ() {
        let (mut one, mut other) = ([0; 32], [0; 32]);
        random(&mut one).unwrap();
        random(&mut other).unwrap();
        assert_ne!(one, other);
    }
}
