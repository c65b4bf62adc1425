//! Private directories and files: no other user can change or replace them.
//!
//! Absent here: the choice of directories and files.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use pinfold_sys::{files, peer};

/// As many links may stand in a path, as in the kernel's rule.
const LINKS_MAX: u32 = 40;

/// The mode bit of a directory in which only an entry's owner can rename it.
const STICKY: u32 = 0o1000;

/// Makes a private directory if missing, and refuses a directory with entries that another user could replace.
///
/// # Errors
/// With the part of the path that belongs to another user, is writable by others, or cannot be made.
pub(crate) fn make(directory: &Path) -> Result<(), String> {
    walk(directory, true, LINKS_MAX)?;
    is_own(directory)
}

/// As [`make`], without making the directory.
///
/// # Errors
/// As [`make`], and for a missing directory.
pub(crate) fn check(directory: &Path) -> Result<(), String> {
    walk(directory, false, LINKS_MAX)?;
    is_own(directory)
}

/// Opens a file in a checked directory; it must be a regular file of this user, not a link.
///
/// # Errors
/// The kernel's error, or that the file is not regular or belongs to another user.
pub(crate) fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = files::without_links(options).open(path)?;
    let found = file.metadata()?;
    let refused = |text: &str| io::Error::new(io::ErrorKind::PermissionDenied, text);
    match () {
        () if !found.is_file() => Err(refused("it is no regular file")),
        () if found.uid() != peer::own_uid() => Err(refused("it belongs to another user")),
        () if found.mode() & 0o022 != 0 => Err(refused("others can write to it")),
        () => Ok(file),
    }
}

/// Checks each directory above, including directories behind links: a user with write access to any of them controls the
/// path.
fn walk(path: &Path, make: bool, links: u32) -> Result<(), String> {
    let failed = |at: &Path, error: io::Error| format!("failed to look at {}: {error}", at.display());
    // Inside a user namespace root may have another number: the owner of `/` is root in each namespace.
    let top = fs::symlink_metadata("/").map_err(|error| failed(Path::new("/"), error))?.uid();
    let trusted = |found: &Metadata| [peer::own_uid(), 0, top].contains(&found.uid());
    let others = if peer::own_uid() == 0 { 0o022 } else { 0o002 };
    let (mut at, mut shared) = (PathBuf::new(), false);
    for component in path.components() {
        at.push(component);
        let mut found = find(&at, make)?;
        if found.is_symlink() {
            if shared && !trusted(&found) {
                return Err(foreign(&at, &found));
            }
            let Some(left) = links.checked_sub(1) else {
                return Err(format!("too many links in {}", path.display()));
            };
            let target = fs::read_link(&at).map_err(|error| failed(&at, error))?;
            walk(&at.parent().unwrap_or(Path::new("/")).join(target), make, left)?;
            found = fs::metadata(&at).map_err(|error| failed(&at, error))?;
        }
        if !found.is_dir() {
            return Err(format!("{} is no directory", at.display()));
        }
        // Other users' directories above a home are the site's choice; root's files must not depend on them.
        if !trusted(&found) && (shared || peer::own_uid() == 0) {
            return Err(foreign(&at, &found));
        }
        if found.mode() & others != 0 && found.mode() & STICKY == 0 {
            return Err(format!("{} can be written by others", at.display()));
        }
        shared = found.mode() & 0o022 != 0;
    }
    Ok(())
}

fn foreign(at: &Path, found: &Metadata) -> String {
    format!("{} belongs to another user (uid {})", at.display(), found.uid())
}

/// The metadata at a path, of a link itself; makes a missing directory if `make`.
fn find(at: &Path, make: bool) -> Result<Metadata, String> {
    let found = fs::symlink_metadata(at);
    let found = match found {
        Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
            match DirBuilder::new().mode(0o700).create(at) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(format!("failed to make {}: {error}", at.display()));
                }
                _ => fs::symlink_metadata(at),
            }
        }
        found => found,
    };
    found.map_err(|error| format!("failed to look at {}: {error}", at.display()))
}

fn is_own(directory: &Path) -> Result<(), String> {
    let found = fs::metadata(directory);
    let found = found.map_err(|error| format!("failed to look at {}: {error}", directory.display()))?;
    match () {
        () if found.uid() != peer::own_uid() => Err(foreign(directory, &found)),
        () if found.mode() & 0o022 != 0 => Err(format!("{} can be written by others", directory.display())),
        () => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    }

    #[track_caller]
    fn refused(path: &Path, words: &str) {
        for done in [make(path), check(path)] {
            let error = done.expect_err("others could exchange it");
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_directory_is_made_for_one_user_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pinfold-1/slurm");
        assert!(check(&path).is_err(), "it is not there");
        make(&path).expect("it is made");
        check(&path).expect("it is one's own");
        for made in [path.as_path(), path.parent().expect("a parent")] {
            assert_eq!(fs::metadata(made).expect("it is there").mode() & 0o777, 0o700);
        }
        set_mode(&path, 0o770);
        refused(&path, "slurm can be written by others");
    }

    #[test]
    fn no_other_user_can_write_above() {
        let dir = tempfile::tempdir().expect("a directory");
        let above = dir.path().join("pinfold-1");
        make(&above.join("slurm/spool")).expect("it is made");
        set_mode(&above, 0o777);
        refused(&above.join("slurm/spool"), "pinfold-1 can be written by others");
        // As /tmp is: what is one's own there stays in its place.
        set_mode(&above, 0o1777);
        check(&above.join("slurm/spool")).expect("nobody else can rename slurm");
    }

    #[test]
    fn planted_files_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let tmp = dir.path().join("tmp");
        make(&tmp.join("theirs/slurm")).expect("it is made");
        make(&tmp.join("mine")).expect("it is made");
        symlink(tmp.join("mine"), tmp.join("link")).expect("a link");
        set_mode(&tmp, 0o1777);
        make(&tmp.join("link/slurm")).expect("a link of one's own leads to a directory of one's own");
        if chown(tmp.join("theirs"), Some(65_533), None).is_err() {
            println!("skipped: only root makes another user's files");
            return;
        }
        refused(&tmp.join("theirs/slurm"), "theirs belongs to another user (uid 65533)");
        std::os::unix::fs::lchown(tmp.join("link"), Some(65_533), None).expect("root may");
        refused(&tmp.join("link/slurm"), "link belongs to another user (uid 65533)");
        symlink(tmp.join("link"), dir.path().join("far")).expect("a link");
        refused(&dir.path().join("far/slurm"), "link belongs to another user");
    }

    #[test]
    fn links_in_a_circle_end() {
        let dir = tempfile::tempdir().expect("a directory");
        symlink("b", dir.path().join("a")).expect("a link");
        symlink("a", dir.path().join("b")).expect("a link");
        refused(&dir.path().join("a"), "too many links");
    }

    #[test]
    fn files_are_regular_and_ones_own() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        let append = |path: &Path| open(OpenOptions::new().append(true).create(true), path).map(drop);
        append(&file).expect("it is made");
        set_mode(&file, 0o600);
        symlink(&file, &link).expect("a link");
        assert!(append(&link).is_err(), "a link is not followed");
        assert!(open(OpenOptions::new().read(true), dir.path()).is_err(), "a directory is no file");
        set_mode(&file, 0o666);
        assert!(append(&file).is_err(), "others can write to it");
    }
}
