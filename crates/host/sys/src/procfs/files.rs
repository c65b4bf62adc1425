//! The files that a process has open, by `/proc/PID/fd` and `/proc/PID/fdinfo`.
//!
//! Only regular files with a path: pipes, sockets, devices and the kernel's files (`/proc`, `/sys`) are left out. Reads and
//! writes at a given place (`pread`), or through a mapping, move no position and are not seen. Costs some 8 us for each
//! open file: a link, a small text, and a stat of the file.

use rustix::fs::{AtFlags, FileType, Statx, StatxFlags};

use super::{FDINFO_BYTES_MAX, Proc, ProcError};

/// The access of a process to an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Opened to be read.
    Read,
    /// Opened to be written.
    Write,
    /// Opened for both.
    Both,
}

/// An open regular file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenFile {
    /// The number by which the process knows it.
    pub descriptor: u32,
    /// Its present path; for a removed file, its last.
    pub path: String,
    /// Whether it was removed.
    pub removed: bool,
    /// Device and inode, which identify the file under any name.
    pub file: (u64, u64),
    /// The access mode.
    pub access: Access,
    /// Whether all that is written goes to the end.
    pub append: bool,
    /// The position of the next read or write, in bytes.
    pub position_bytes: u64,
    /// The size, in bytes.
    pub size_bytes: u64,
}

impl Proc {
    /// The regular files that a process has open, at most `most`, among eight times as many descriptors; and whether there
    /// may be more. `None`: the process is gone, or not readable.
    pub fn open_files(&self, pid: u32, most: usize) -> Result<Option<(Vec<OpenFile>, bool)>, ProcError> {
        // A process may have half a million descriptors, none of them a file.
        let found = self.some_numbered(&format!("{pid}/fd"), most.saturating_mul(8))?;
        let Some((descriptors, more)) = found else { return Ok(None) };
        let mut files = Vec::new();
        for descriptor in descriptors {
            if files.len() == most {
                return Ok(Some((files, true)));
            }
            files.extend(self.open_file(pid, descriptor)?);
        }
        Ok(Some((files, more)))
    }

    /// Whether a process has this file (device and inode, of any type) open. `false` if the process is gone or not
    /// readable.
    #[must_use]
    pub fn has_open(&self, pid: u32, file: (u64, u64)) -> bool {
        let is_it = |number: u32| {
            let found = self.known_of(&format!("{pid}/fd/{number}"));
            found.is_some_and(|found| identity(&found) == file)
        };
        self.numbered(&format!("{pid}/fd")).is_ok_and(|numbers| numbers.into_iter().flatten().any(is_it))
    }

    /// The FIFO for which the child that starts a job's command ([`crate::spawn`]) waits until a reader opens it; with `
    /// (deleted)` if removed. `None`: it waits for no FIFO, is gone, or not readable.
    #[must_use]
    pub fn awaits_reader_of(&self, pid: u32) -> Option<String> {
        let stream = [1, 2].into_iter().find(|&stream| self.is_looked_at_fifo(pid, stream))?;
        Some(self.link(&format!("{pid}/fd/{stream}"))?.to_string_lossy().into_owned())
    }

    /// Whether a descriptor refers to a FIFO by `O_PATH`. The link's own permissions show how the file is open (proc(5)).
    /// `fdinfo` has it too, but there the kernel first prints all locks and all files that an epoll instance watches:
    /// seconds, if the process so wants.
    fn is_looked_at_fifo(&self, pid: u32, descriptor: u32) -> bool {
        let link = format!("{pid}/fd/{descriptor}");
        let flags = AtFlags::STATX_DONT_SYNC | AtFlags::SYMLINK_NOFOLLOW;
        let own = rustix::fs::statx(&self.dir, link.as_str(), flags, StatxFlags::TYPE | StatxFlags::MODE);
        let is_used = |own: Statx| own.stx_mode & 0o600 != 0;
        own.is_ok_and(|own| !is_used(own)) && self.known_of(&link).is_some_and(|found| is_fifo(&found))
    }

    /// The kernel's own data on the file that a link leads to. A network file system, or a user's, is not asked: it may not
    /// answer.
    fn known_of(&self, link: &str) -> Option<Statx> {
        let wanted = StatxFlags::TYPE | StatxFlags::MODE | StatxFlags::INO | StatxFlags::SIZE;
        rustix::fs::statx(&self.dir, link, AtFlags::STATX_DONT_SYNC, wanted).ok()
    }

    fn open_file(&self, pid: u32, descriptor: u32) -> Result<Option<OpenFile>, ProcError> {
        let link = format!("{pid}/fd/{descriptor}");
        let Ok(path) = rustix::fs::readlinkat(&self.dir, link.as_str(), Vec::new()) else { return Ok(None) };
        let path = path.to_string_lossy();
        let made_up = ["/dev/", "/proc/", "/sys/", "/memfd:"].iter().any(|place| path.starts_with(place));
        if !path.starts_with('/') || made_up {
            return Ok(None);
        }
        let Some(found) = self.known_of(&link) else { return Ok(None) };
        if FileType::from_raw_mode(found.stx_mode.into()) != FileType::RegularFile {
            return Ok(None);
        }
        let file = format!("{pid}/fdinfo/{descriptor}");
        let Some(text) = self.beginning(&file, FDINFO_BYTES_MAX)? else { return Ok(None) };
        let Some((position_bytes, access, append)) = parse_fdinfo(&text) else { return Ok(None) };
        let kept = path.strip_suffix(" (deleted)");
        Ok(Some(OpenFile {
            descriptor,
            path: kept.unwrap_or(&path).to_owned(),
            removed: kept.is_some(),
            file: identity(&found),
            access,
            append,
            position_bytes,
            size_bytes: found.stx_size,
        }))
    }
}

/// Device and inode, as [`std::os::unix::fs::MetadataExt`] has them.
fn identity(found: &Statx) -> (u64, u64) {
    (rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor), found.stx_ino)
}

fn is_fifo(found: &Statx) -> bool {
    FileType::from_raw_mode(found.stx_mode.into()) == FileType::Fifo
}

/// Position, access and whether writing appends, of `/proc/PID/fdinfo/N`; the flags there are octal (proc(5)).
fn parse_fdinfo(text: &str) -> Option<(u64, Access, bool)> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let flags = u64::from_str_radix(field("flags:")?, 8).ok()?;
    let access = match flags & 0o3 {
        0 => Access::Read,
        1 => Access::Write,
        _ => Access::Both,
    };
    Some((field("pos:")?.parse().ok()?, access, flags & 0o2000 != 0))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom, Write};
    use std::path::Path;

    use super::*;

    #[test]
    fn flags_and_positions() {
        let check = |text, want| assert_eq!(parse_fdinfo(text), want, "{text}");
        check("pos:\t0\nflags:\t0100000\nmnt_id:\t29\n", Some((0, Access::Read, false)));
        check("pos:\t4096\nflags:\t0102001\n", Some((4096, Access::Write, true)));
        check("pos:\t7\nflags:\t0100002\n", Some((7, Access::Both, false)));
        check("pos:\tx\nflags:\t0\n", None);
        check("", None);
    }

    #[test]
    fn a_fifo_that_is_only_looked_at_is_known_without_fdinfo() {
        use std::os::fd::AsRawFd as _;

        use rustix::fs::{Mode, OFlags};

        let dir = tempfile::tempdir().unwrap();
        let (fifo, file) = (dir.path().join("fifo"), dir.path().join("file"));
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        std::fs::write(&file, "").unwrap();
        let proc = Proc::open(Path::new("/proc")).unwrap();
        let check = |fd: rustix::fd::OwnedFd, want: bool| {
            let descriptor = u32::try_from(fd.as_raw_fd()).unwrap();
            assert_eq!(proc.is_looked_at_fifo(std::process::id(), descriptor), want);
        };
        let open = |path: &Path, flags| rustix::fs::open(path, flags, Mode::empty()).unwrap();
        check(open(&fifo, OFlags::PATH), true);
        check(open(&fifo, OFlags::RDWR), false);
        check(open(&fifo, OFlags::RDONLY | OFlags::NONBLOCK), false);
        check(open(&file, OFlags::PATH), false);
        check(rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).unwrap(), false);
    }

    #[test]
    fn open_files_of_this_process_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a file\nwith a line");
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(&[7; 10_000]).unwrap();
        let mut reader = std::fs::File::open(&path).unwrap();
        reader.seek(SeekFrom::Start(100)).unwrap();
        reader.read_exact(&mut [0; 50]).unwrap();
        let proc = Proc::open(Path::new("/proc")).unwrap();
        let (files, _) = proc.open_files(std::process::id(), 10_000).unwrap().unwrap();
        let own = |files: &[OpenFile]| -> Vec<(Access, u64, u64, bool)> {
            let own = files.iter().filter(|file| file.path == path.to_string_lossy());
            own.map(|file| (file.access, file.position_bytes, file.size_bytes, file.removed)).collect()
        };
        let mut found = own(&files);
        found.sort_unstable();
        assert_eq!(found, [(Access::Read, 150, 10_000, false), (Access::Write, 10_000, 10_000, false)]);
        assert!(files.iter().all(|file| !file.path.starts_with("/dev/")));
        std::fs::remove_file(&path).unwrap();
        let (files, _) = proc.open_files(std::process::id(), 10_000).unwrap().unwrap();
        assert!(own(&files).iter().all(|file| file.3), "it is known to be removed");
        assert_eq!(proc.open_files(u32::MAX, 1).unwrap(), None);
    }

    #[test]
    fn no_more_files_are_told_than_were_asked_for() {
        // Of this process's own first descriptors other tests may have any.
        let file = || tempfile::tempfile().unwrap();
        let mut command = std::process::Command::new("sleep");
        command.arg("600").stdin(file()).stdout(file()).stderr(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let proc = Proc::open(Path::new("/proc")).unwrap();
        let found = |most| proc.open_files(child.id(), most).unwrap().unwrap();
        let (one, two) = (found(1), found(2));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((one.0.len(), one.1), (1, true));
        assert_eq!((two.0.len(), two.1), (2, true), "a descriptor is left, whatever it is");
    }
}
