//! Files that this command writes for its user, made so that no other user gets their content, or has it written to
//! another file of the user.
//!
//! Where others may put files (`/tmp`), a name that is known beforehand may be taken: by a link to a file of the
//! user's, by a file that its owner reads, by a pipe with a reader. Many kernels refuse that in such directories
//! (`fs.protected_symlinks` and others), and not all have that switched on. Absent here: links among the directories on
//! the way, which are the user's choice.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Seek as _, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt as _};
use std::path::{Path, PathBuf};

use pinfold_sys::{files, peer};

/// The most links that are followed in a row.
const LINKS_MAX: u32 = 40;

/// The origin of a file's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    /// The user named it, and may mean a link, or another user's file with write permission.
    ByUser,
    /// The usual name: a file that is there already must be the user's own.
    ByRule,
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct How {
    /// Content is kept.
    keep: bool,
    /// Writes go to the end of the file.
    behind: bool,
    /// A FIFO is only looked at: the job itself opens it.
    later: bool,
}

/// Makes the file, or empties an existing file.
pub(crate) fn create(path: &Path, named: Named) -> io::Result<File> {
    open(path, named, How { keep: false, behind: false, later: false })
}

/// Makes the file, or empties an existing file, for a job's output. Another that empties it while the job runs, as
/// programs that rotate logs do, leaves no gap in it. A FIFO is only looked at: its opening waits for a reader, and this
/// process has others to hear.
pub(crate) fn create_for_job(path: &Path, named: Named) -> io::Result<File> {
    open(path, named, How { keep: false, behind: true, later: true })
}

/// Makes the file, or opens an existing file, to append.
pub(crate) fn append(path: &Path, named: Named) -> io::Result<File> {
    open(path, named, How { keep: true, behind: true, later: false })
}

/// The same for a job with a new keeper.
pub(crate) fn append_for_job(path: &Path, named: Named) -> io::Result<File> {
    open(path, named, How { keep: true, behind: true, later: true })
}

/// A FIFO that was only inspected, opened if it has a reader already; other files unchanged.
pub(crate) fn open_if_read(file: File) -> File {
    if !file.metadata().is_ok_and(|found| found.file_type().is_fifo()) {
        return file;
    }
    files::open_pipe_with_reader(&own_path(&file)).unwrap_or(file)
}

/// The path of a file that this process has open, or only looks at.
pub(crate) fn own_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn open(path: &Path, named: Named, how: How) -> io::Result<File> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        // A link at the end of the path is not followed.
        match writing(how).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made,
        }
        let there = match files::look_at(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            found => found?,
        };
        if !there.metadata()?.is_symlink() {
            return reopen(there, &path, named, how);
        }
        if files::is_in_proc(&there) {
            // An open file of this process's, which has no other name as a rule: /dev/stdout leads here.
            if files::is_own(&path) {
                return Err(io::Error::new(io::ErrorKind::NotFound, "no file is open there"));
            }
            if std::fs::metadata(&path)?.file_type().is_fifo() {
                return files::open_pipe_with_reader(&path);
            }
            // A job appends where the submitting command writes, and overwrites none of its words.
            return match files::inherited_to_write(&path).filter(|_| how.later) {
                Some(file) => Ok(file),
                // Earlier content stays.
                None => writing(How { behind: true, ..how }).open(path),
            };
        }
        path = target(&there, &path, named)?;
    }
    Err(io::Error::other("too many links lead from one to the next"))
}

/// The options to write, appending or from the start.
fn writing(how: How) -> OpenOptions {
    let mut options = OpenOptions::new();
    if how.behind {
        options.append(true)
    } else {
        options.write(true)
    };
    options
}

/// Writes a whole file that the user named. If the disk has no room for it, the old content stays.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    overwrite(path, bytes, bytes.len() as u64)
}

/// A file without a name for content on its way into a file that the user named, which stays as it is if the rest
/// never comes. `None`: the named file keeps no content (a FIFO, a device).
pub(crate) fn beside(path: &Path) -> io::Result<Option<File>> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => return Ok(None),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    // Where nothing can be made, the file itself may be writable.
    tempfile::tempfile_in(directory_of(path)).or_else(|_| tempfile::tempfile()).map(Some)
}

/// Writes a whole file that the user named, from a complete copy. As [`write`].
pub(crate) fn write_from(path: &Path, mut from: File) -> io::Result<()> {
    from.rewind()?;
    let length = from.metadata()?.len();
    overwrite(path, from, length)
}

fn overwrite(path: &Path, mut from: impl io::Read, length: u64) -> io::Result<()> {
    let mut file = open(path, Named::ByUser, How { keep: true, behind: false, later: false })?;
    // Standard output goes on behind its content.
    let is_whole = file.metadata()?.is_file() && !files::appends(&file);
    if is_whole {
        files::reserve(&file, length)?;
    }
    let copied = io::copy(&mut from, &mut file);
    if is_whole {
        // A part that the disk did not take is cut: the rest would be of another table.
        match (&copied, file.stream_position()?) {
            (Err(_), 0) => {}
            (_, written) => file.set_len(written)?,
        }
    }
    copied.map(drop)
}

/// Puts a file in place whole or not at all: a reader of the file before it goes on reading that file. The old entry at
/// the path, a link included, makes way and is not followed. `mode`: its rights; `None`: the rights of a new file of
/// this process.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: Option<u32>) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let rights = Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new().prefix(".pinfold-").permissions(rights).tempfile_in(dir)?;
    file.write_all(bytes)?;
    if let Some(mode) = mode {
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
    }
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Opens an existing file that was examined, and empties it unless its content is kept.
fn reopen(there: File, path: &Path, named: Named, how: How) -> io::Result<File> {
    let found = there.metadata()?;
    let own = found.uid() == peer::own_uid();
    let is_readable_by_its_owner = found.is_file() || found.file_type().is_fifo();
    match named {
        Named::ByRule if !(own && found.is_file() && found.nlink() == 1) => {
            return Err(refused(
                "it is there already and not a file of yours alone; name another by -o and -e",
            ));
        }
        Named::ByUser if !own && is_readable_by_its_owner && is_open(&directory_of(path)) => {
            return Err(refused("it is somebody else's, in a directory where all may put files"));
        }
        _ => {}
    }
    if found.file_type().is_fifo() && how.later {
        return files::may_be_written(&there).map(|()| there);
    }
    // The file that was examined, and no other.
    let file = writing(how).open(own_path(&there))?;
    if found.is_file() && !how.keep {
        file.set_len(0)?;
    }
    Ok(file)
}

/// The target of a link that may be followed.
fn target(link: &File, path: &Path, named: Named) -> io::Result<PathBuf> {
    let owner = link.metadata()?.uid();
    let may_follow = owner == peer::own_uid() || (owner == 0 && named == Named::ByUser);
    let directory = directory_of(path);
    let theirs = |found: std::fs::Metadata| found.uid() != 0 && found.uid() != peer::own_uid();
    let planted = is_open(&directory) || std::fs::metadata(&directory).map_or(true, theirs);
    if !may_follow && (named == Named::ByRule || planted) {
        return Err(refused("it is a link that somebody else made"));
    }
    // The target of the very link that was checked.
    let leads = files::target_of(link)?;
    Ok(path.parent().map_or_else(|| leads.clone(), |directory| directory.join(&leads)))
}

fn directory_of(path: &Path) -> PathBuf {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_owned()
}

/// Whether others than its owner may put files into a directory.
fn is_open(directory: &Path) -> bool {
    std::fs::metadata(directory).map_or(true, |found| found.mode() & 0o022 != 0)
}

fn refused(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn said(path: &Path, named: Named) -> Result<(), String> {
        let mut file = create(path, named).map_err(|error| error.to_string())?;
        file.write_all(b"said").map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_in_place_of_a_link_leaves_alone_where_it_leads() {
        let dir = tempfile::tempdir().unwrap();
        let (link, secret) = (dir.path().join("page.1"), dir.path().join("secret"));
        std::fs::write(&secret, "secret").unwrap();
        symlink(&secret, &link).unwrap();
        replace(&link, b"page", None).unwrap();
        assert_eq!(std::fs::read(&secret).unwrap(), b"secret");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_file());
        assert_eq!(std::fs::read(&link).unwrap(), b"page");
        replace(&link, b"hook", Some(0o700)).unwrap();
        assert_eq!(std::fs::metadata(&link).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2, "nothing else is left there");
        assert!(replace(&dir.path().join("none/page.1"), b"", None).is_err());
    }

    #[test]
    fn ones_own_files_are_made_emptied_and_found_by_links() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        for named in [Named::ByRule, Named::ByUser] {
            std::fs::write(&file, "much longer than what is said").unwrap();
            said(&file, named).unwrap();
            assert_eq!(std::fs::read(&file).unwrap(), b"said");
            std::fs::remove_file(&file).unwrap();
            symlink("file", dir.path().join("link")).unwrap();
            symlink(dir.path().join("link"), dir.path().join("far")).unwrap();
            said(&dir.path().join("far"), named).unwrap();
            assert_eq!(std::fs::read(&file).unwrap(), b"said");
            for link in ["link", "far"] {
                std::fs::remove_file(dir.path().join(link)).unwrap();
            }
        }
        symlink("round", dir.path().join("round")).unwrap();
        assert!(said(&dir.path().join("round"), Named::ByUser).is_err());
        said(Path::new("/dev/null"), Named::ByUser).unwrap();
        assert!(said(Path::new("/dev/null"), Named::ByRule).unwrap_err().contains("-o and -e"));
        std::fs::hard_link(&file, dir.path().join("second")).unwrap();
        assert!(said(&file, Named::ByRule).unwrap_err().contains("yours alone"), "it has another name");
        said(&file, Named::ByUser).unwrap();
    }

    #[test]
    fn a_file_is_as_it_was_until_all_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link, new) = (dir.path().join("file"), dir.path().join("link"), dir.path().join("new"));
        std::fs::write(&file, "much longer than what is said").unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        for path in [&link, &new] {
            let there = std::fs::read(path).ok();
            let mut from = beside(path).unwrap().expect("a file keeps what is written");
            from.write_all(b"said").unwrap();
            assert_eq!(std::fs::read(path).ok(), there);
            write_from(path, from).unwrap();
            assert_eq!(std::fs::read(path).unwrap(), b"said");
        }
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink(), "it was followed");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3, "nothing else is left there");
        assert!(beside(Path::new("/dev/null")).unwrap().is_none());
        assert!(beside(&file.join("below")).is_err());
    }

    #[test]
    fn what_is_in_a_file_stays_where_there_is_no_room_for_more() {
        let dir = tempfile::tempdir().unwrap();
        let full = dir.path().join("full");
        std::fs::write(&full, "kept").unwrap();
        let error = overwrite(&full, io::empty(), 1 << 62).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge), "{error}");
        assert_eq!(std::fs::read(&full).unwrap(), b"kept");
    }

    #[test]
    fn a_job_writes_behind_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        std::fs::write(&path, "of an earlier job").unwrap();
        let mut file = create_for_job(&path, Named::ByRule).unwrap();
        file.write_all(b"one\n").unwrap();
        // As `logrotate` does with `copytruncate`.
        std::fs::write(&path, "").unwrap();
        file.write_all(b"two\n").unwrap();
        append(&path, Named::ByRule).unwrap().write_all(b"three\n").unwrap();
        file.write_all(b"four\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\nthree\nfour\n");
    }

    #[test]
    fn what_others_put_there_is_refused() {
        if peer::own_uid() != 0 {
            return println!("skipped: only root can be two users");
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        let (mine, theirs, link) =
            (dir.path().join("mine"), dir.path().join("theirs"), dir.path().join("link"));
        std::fs::write(&mine, "kept").unwrap();
        std::fs::write(&theirs, "theirs").unwrap();
        std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
        symlink(&mine, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        for named in [Named::ByRule, Named::ByUser] {
            assert!(said(&link, named).unwrap_err().contains("somebody else made"));
            assert!(said(&theirs, named).is_err(), "{named:?}");
        }
        assert_eq!(std::fs::read(&mine).unwrap(), b"kept");
        assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs");
        // In a directory that is nobody's but one's own, what one names is what one means.
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        said(&link, Named::ByUser).unwrap();
        assert_eq!(std::fs::read(&mine).unwrap(), b"said");
    }
}
