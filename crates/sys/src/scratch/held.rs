//! What a job's directory in memory holds. Where no control group counts it, its files are looked at one by one.

use std::path::PathBuf;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};

use super::{Means, Scratch, name_of, open};

/// The largest number of files that one reading looks at: some milliseconds.
const FILES_MAX: usize = 4096;

impl Scratch {
    /// The memory that the files of a job's directory take, in bytes; 0 if the job has none.
    #[must_use]
    pub fn held_bytes(&self, job: u64) -> u64 {
        let Ok(Some(base)) = self.open_base(false) else { return 0 };
        let Ok(top) = open(&base, name_of(job).as_str()) else { return 0 };
        if self.means == Means::Mount {
            let used = |all: rustix::fs::StatVfs| all.f_blocks.saturating_sub(all.f_bfree) * all.f_frsize;
            return rustix::fs::fstatvfs(&top).map_or(0, used);
        }
        let (mut bytes, mut left) = (0_u128, FILES_MAX);
        let mut directories = vec![PathBuf::from(".")];
        while let Some(path) = directories.pop().filter(|_| left > 0) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
            let Ok(directory) = rustix::fs::openat2(&top, &path, flags, Mode::empty(), within) else {
                continue;
            };
            let Ok(entries) = Dir::read_from(&directory) else { continue };
            for entry in entries
                .flatten()
                .filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b".."))
                .take(left)
            {
                left = left.saturating_sub(1);
                let found = rustix::fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                let Ok(found) = found else { continue };
                if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
                    directories.push(path.join(entry.file_name().to_string_lossy().as_ref()));
                } else {
                    bytes += u128::try_from(found.st_blocks).unwrap_or(0) * 512
                        / u128::from(found.st_nlink).max(1);
                }
            }
        }
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}
