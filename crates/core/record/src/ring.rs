//! A host's recordings: files in one directory; the oldest files are removed to stay below a bound.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How recordings end their names.
const SUFFIX: &str = ".events";
/// The bound is divided into this many files, so that each removal loses little of the past.
pub const FILES: u64 = 8;

/// The recordings in a directory, the oldest first; empty if the directory does not exist.
///
/// # Errors
/// When the directory cannot be read.
pub fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(numbered(directory)?.into_iter().map(|(_, path)| path).collect())
}

fn numbered(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_suffix(SUFFIX)).and_then(|number| number.parse().ok());
        found.extend(number.map(|number: u64| (number, path)));
    }
    found.sort();
    Ok(found)
}

/// Begins a new file with mode 0600, after removing the oldest files to stay within `bound_bytes`.
///
/// # Errors
/// When the directory or the file cannot be created, or an old file cannot be removed.
pub fn begin(directory: &Path, bound_bytes: u64) -> io::Result<(File, PathBuf)> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let mut old = numbered(directory)?;
    let next = old.last().map_or(1, |(number, _)| number.saturating_add(1));
    let mut bytes: u64 = 0;
    let room = bound_bytes - bound_bytes / FILES;
    while let Some((_, path)) = old.pop() {
        bytes = bytes.saturating_add(fs::metadata(&path).map_or(0, |data| data.len()));
        if bytes > room {
            fs::remove_file(&path)?;
        }
    }
    let path = directory.join(format!("{next:08}{SUFFIX}"));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    Ok((file, path))
}

/// Removes all recordings.
///
/// # Errors
/// When a file cannot be removed.
pub fn remove_all(directory: &Path) -> io::Result<()> {
    files(directory)?.iter().try_for_each(fs::remove_file)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_oldest_make_room() {
        let dir = tempfile::tempdir().expect("a directory");
        let ring = dir.path().join("events");
        assert!(files(&ring).expect("none yet").is_empty());
        for _ in 0..20 {
            let (mut file, _) = begin(&ring, 8000).expect("a file");
            file.write_all(&[0; 1000]).expect("it is written");
        }
        let left = files(&ring).expect("files");
        let bytes: u64 = left.iter().map(|path| fs::metadata(path).expect("a file").len()).sum();
        assert_eq!((left.len(), bytes), (8, 8000));
        assert!(left[7].ends_with("00000020.events"), "{left:?}");
    }

    #[test]
    fn other_files_are_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("notes"), "of the operator").expect("a file");
        begin(dir.path(), 1).expect("a file");
        remove_all(dir.path()).expect("removed");
        assert!(dir.path().join("notes").exists());
        assert!(files(dir.path()).expect("files").is_empty());
    }
}
