//! The memory of a job's directory. If no control group counts it, its files are summed up.
//!
//! A user may mount a file system over any of them, which need not answer: none is asked.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};

use super::clear::look_within;
use super::{Means, Scratch, name_of};

/// The most files in a reading: some milliseconds.
const FILES_MAX: usize = 4096;

impl Scratch {
    /// The memory of the files of a job's directory, in bytes; 0 if the job has none, or a directory with a file system of
    /// its own, over which another may lie.
    #[must_use]
    pub fn held_bytes(&self, job: u64) -> u64 {
        if self.means == Means::Mount {
            return 0;
        }
        let Ok(Some(base)) = self.open_base(false) else { return 0 };
        let Ok(top) = look_within(&base, name_of(job).as_str()) else { return 0 };
        let within = |path: &Path, flags: OFlags| {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
            openat2(&top, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
        };
        let (mut bytes, mut left) = (0_u128, FILES_MAX);
        let mut directories = vec![PathBuf::from(".")];
        while let Some(path) = directories.pop().filter(|_| left > 0) {
            let Ok(directory) = within(&path, OFlags::RDONLY | OFlags::DIRECTORY) else { continue };
            let Ok(entries) = Dir::read_from(&directory) else { continue };
            let named = |entry: &rustix::fs::DirEntry| !matches!(entry.file_name().to_bytes(), b"." | b"..");
            for entry in entries.flatten().filter(named).take(left) {
                left = left.saturating_sub(1);
                let path = path.join(OsStr::from_bytes(entry.file_name().to_bytes()));
                if entry.file_type() == FileType::Directory {
                    directories.push(path);
                } else if let Ok(found) = within(&path, OFlags::PATH | OFlags::NOFOLLOW).and_then(fstat) {
                    let links = u128::from(found.st_nlink).max(1);
                    bytes += u128::try_from(found.st_blocks).unwrap_or(0) * 512 / links;
                }
            }
        }
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}
