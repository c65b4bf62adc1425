//! A temporary directory of a process, and the removal of directories of killed processes.
//!
//! The owner of a directory holds a lock on it (flock), which the kernel releases when the process ends. So an unlocked
//! directory is left over. In places where other users also write (`/tmp`) only a private directory of this user's is
//! removed, by its descriptor, and no link is followed. Absent here: the contents.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, Stat, flock, fstat, mkdirat, openat, statat, unlinkat,
};
use rustix::io::Errno;

use crate::files;

/// The most leftover directories that each new process checks.
const LEFT_MAX: usize = 256;

/// The most names that are tried, as another process may have a name.
const TRIES_MAX: usize = 16;

/// See the module's page.
#[derive(Debug)]
pub struct OwnDir {
    parent: OwnedFd,
    name: OsString,
    path: PathBuf,
    /// Holds the lock.
    dir: OwnedFd,
    contents: &'static [&'static str],
}

impl OwnDir {
    /// Makes a directory in `parent`, named `prefix` plus a random suffix, for this user alone, and removes directories
    /// of killed processes. `contents`: the names of the files that will be in it.
    ///
    /// # Errors
    /// When no directory can be made there.
    pub fn make(parent: &Path, prefix: &str, contents: &'static [&'static str]) -> io::Result<Self> {
        let place = openat(CWD, parent, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        for name in left_over(&place, prefix) {
            // A directory that cannot be removed stays.
            let _ = remove_left(place.as_fd(), &name, contents);
        }
        for _ in 0..TRIES_MAX {
            let name = named(prefix)?;
            match mkdirat(&place, &name, Mode::RWXU) {
                Err(Errno::EXIST) => continue,
                made => made?,
            }
            let Ok((dir, _)) = opened(place.as_fd(), &name) else { continue };
            flock(&dir, FlockOperation::LockExclusive)?;
            // Before the lock another process could remove it as a leftover.
            if fstat(&dir)?.st_nlink == 0 {
                continue;
            }
            let path = parent.join(&name);
            return Ok(Self { parent: place, name, path, dir, contents });
        }
        Err(io::Error::other("no directory could be made that stays"))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OwnDir {
    fn drop(&mut self) {
        let _ = empty_and_remove(self.parent.as_fd(), &self.name, self.dir.as_fd(), self.contents);
    }
}

fn named(prefix: &str) -> io::Result<OsString> {
    let mut bytes = [0; 8];
    files::random(&mut bytes)?;
    Ok(format!("{prefix}{:016x}", u64::from_ne_bytes(bytes)).into())
}

/// Names in a place that begin so.
fn left_over(place: &OwnedFd, prefix: &str) -> Vec<OsString> {
    let Ok(entries) = Dir::read_from(place) else { return Vec::new() };
    let begins = |name: &[u8]| name.starts_with(prefix.as_bytes());
    let names = entries.filter_map(Result::ok).filter(|entry| begins(entry.file_name().to_bytes()));
    names.map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec())).take(LEFT_MAX).collect()
}

/// Opens a directory of this name, but no link.
fn opened(place: BorrowedFd<'_>, name: &OsString) -> rustix::io::Result<(OwnedFd, Stat)> {
    let how = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let dir = openat(place, name, how, Mode::empty())?;
    let found = fstat(&dir)?;
    Ok((dir, found))
}

/// Removes the directory of a dead process.
fn remove_left(place: BorrowedFd<'_>, name: &OsString, contents: &[&str]) -> rustix::io::Result<()> {
    let (dir, found) = opened(place, name)?;
    if found.st_uid != rustix::process::geteuid().as_raw() || found.st_mode & 0o077 != 0 {
        return Ok(());
    }
    match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(()),
        locked => locked.and_then(|()| empty_and_remove(place, name, dir.as_fd(), contents)),
    }
}

/// Removes the known files in a directory, and the directory, if it still has that name and is then empty.
fn empty_and_remove(
    place: BorrowedFd<'_>,
    name: &OsString,
    dir: BorrowedFd<'_>,
    contents: &[&str],
) -> rustix::io::Result<()> {
    let (own, there) = (fstat(dir)?, statat(place, name, AtFlags::SYMLINK_NOFOLLOW)?);
    if (own.st_dev, own.st_ino) != (there.st_dev, there.st_ino) {
        return Ok(());
    }
    for file in contents {
        match unlinkat(dir, *file, AtFlags::empty()) {
            Err(Errno::NOENT) => {}
            removed => removed?,
        }
    }
    unlinkat(place, name, AtFlags::REMOVEDIR)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const PREFIX: &str = "pinfold-test-";

    fn names(place: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(place)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn own(place: &Path, name: &str, mode: u32) -> PathBuf {
        let path = place.join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn it_goes_with_its_process_and_what_is_left_over_with_the_next() {
        let place = tempfile::tempdir().unwrap();
        let one = OwnDir::make(place.path(), PREFIX, &["tokens"]).unwrap();
        fs::write(one.path().join("tokens"), "").unwrap();
        assert_eq!(fs::metadata(one.path()).unwrap().permissions().mode() & 0o777, 0o700);
        // The directory of a killed process: the same, without a lock.
        let left = own(place.path(), "pinfold-test-left", 0o700);
        fs::write(left.join("tokens"), "").unwrap();
        let next = OwnDir::make(place.path(), PREFIX, &["tokens"]).unwrap();
        assert!(!left.exists() && one.path().join("tokens").exists(), "{:?}", names(place.path()));
        drop((one, next));
        assert_eq!(names(place.path()), Vec::<String>::new());
    }

    #[test]
    fn nothing_else_is_touched() {
        let place = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let target = own(elsewhere.path(), "target", 0o700);
        fs::write(target.join("tokens"), "mine").unwrap();
        symlink(&target, place.path().join("pinfold-test-link")).unwrap();
        fs::write(place.path().join("pinfold-test-file"), "").unwrap();
        own(place.path(), "pinfold-test-open", 0o755);
        own(place.path(), "other", 0o700);
        // A link in it is removed, and not its target; with an unknown file the directory stays.
        let inside = own(place.path(), "pinfold-test-inside", 0o700);
        symlink(target.join("tokens"), inside.join("tokens")).unwrap();
        let full = own(place.path(), "pinfold-test-full", 0o700);
        fs::write(full.join("more"), "").unwrap();
        drop(OwnDir::make(place.path(), PREFIX, &["tokens"]).unwrap());
        let stay =
            ["other", "pinfold-test-file", "pinfold-test-full", "pinfold-test-link", "pinfold-test-open"];
        assert_eq!(names(place.path()), stay);
        assert_eq!(fs::read(target.join("tokens")).unwrap(), b"mine");
    }
}
