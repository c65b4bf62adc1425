//! The pusher's disk operations, each atomic. A trait, so that tests can end the process between any two operations.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// A directory's files.
pub trait Disk {
    /// Creates or replaces a file atomically: after a crash it has the old or the new bytes. The bytes are on disk on
    /// return.
    ///
    /// # Errors
    /// As the file system refuses.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Reads a file; `None`: missing.
    ///
    /// # Errors
    /// As the file system refuses.
    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>>;

    /// Removes a file; a missing file is no error.
    ///
    /// # Errors
    /// As the file system refuses.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Moves a file.
    ///
    /// # Errors
    /// As the file system refuses.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Names and sizes of the files in a directory; makes a missing directory.
    ///
    /// # Errors
    /// As the file system refuses.
    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>>;
}

/// The real disk.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

/// Suffix of incomplete files.
pub const UNFINISHED: &str = ".unfinished";

impl Disk for RealDisk {
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(UNFINISHED);
        let unfinished = Path::new(&unfinished);
        let result = write_synced(unfinished, bytes).and_then(|()| self.rename(unfinished, path));
        if result.is_err() {
            // An incomplete file on a full disk is useless and takes space.
            let _ = fs::remove_file(unfinished);
        }
        result
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        match fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        to.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let mut files = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let found = entry.metadata()?;
            if let (true, Ok(name)) = (found.is_file(), entry.file_name().into_string()) {
                files.push((name, found.len()));
            }
        }
        files.sort();
        Ok(files)
    }
}

/// Mode 0600: bundles contain all users' jobs, and the settings a token.
fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
