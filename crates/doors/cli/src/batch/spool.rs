//! A file that keeps the outputs of many lines until they are printed, so that waiting outputs take no descriptors.
//! Where it has no room for an output, the output stays in its own file.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::rc::Rc;

use pinfold_sys::{files, paths};

/// Room in bytes that a directory for outputs has at least; a shortage at a line's end means that its output may be cut.
const ROOM: u64 = 4096;

/// A nameless file for an output: in `$TMPDIR`, or where that has no room, in the next of `/tmp`, `/var/tmp`, `/dev/shm`.
///
/// # Errors
/// None of these can be used; the error names each with its cause.
pub(super) fn scratch() -> io::Result<File> {
    scratch_in(&paths::temporary())
}

fn scratch_in(directories: &[PathBuf]) -> io::Result<File> {
    let mut causes = Vec::new();
    for directory in directories {
        let made =
            tempfile::tempfile_in(directory).and_then(|file| files::reserve(&file, ROOM).map(|()| file));
        match made {
            Ok(file) => return Ok(file),
            Err(error) => causes.push(format!("{}: {error}", directory.display())),
        }
    }
    Err(io::Error::other(format!("TMPDIR and the usual directories cannot be used: {}", causes.join("; "))))
}

/// Whether an output may be cut: its file finds no more room.
///
/// # Errors
/// It may be.
pub(super) fn is_whole(output: &File) -> io::Result<()> {
    files::reserve(output, output.metadata()?.len() + ROOM).map_err(|error| {
        io::Error::new(
            error.kind(),
            format!("it may be cut, as may those of lines beside it; TMPDIR: {error}"),
        )
    })
}

/// Where an output lies.
pub(super) enum Place {
    /// In a file with others: from where on, and how many bytes.
    Part(Rc<File>, u64, u64),
    /// In its own file.
    Own(File),
}

/// See the module's page.
pub(super) struct Spool {
    make: fn() -> io::Result<File>,
    file: Option<Rc<File>>,
    /// Where the file ends, in bytes.
    end: u64,
}

impl Spool {
    /// Its file is made when it is needed.
    pub(super) fn new() -> Self {
        Self { make: scratch, file: None, end: 0 }
    }

    /// Its file is made now.
    pub(super) fn made() -> io::Result<Self> {
        let mut spool = Self::new();
        spool.file()?;
        Ok(spool)
    }

    /// Its size in bytes, with printed outputs that are not cut yet.
    pub(super) fn size(&self) -> u64 {
        self.end
    }

    /// Keeps a copy of an output, or its own file where no copy can be made.
    pub(super) fn keep(&mut self, output: File) -> Place {
        self.tidy();
        let Ok(file) = self.file() else { return Place::Own(output) };
        match copy(&output, &file, self.end) {
            Ok(length) => {
                let at = self.end;
                self.end += length;
                Place::Part(file, at, length)
            }
            Err(_) => {
                // The copied part gives its room back.
                let _ = file.set_len(self.end);
                // A process with the open file goes on at its end.
                let _ = (&output).seek(SeekFrom::End(0));
                Place::Own(output)
            }
        }
    }

    /// Gives its room back if no output waits.
    pub(super) fn tidy(&mut self) {
        if self.end > 0
            && let Some(file) = &self.file
            && Rc::strong_count(file) == 1
            && file.set_len(0).is_ok()
        {
            self.end = 0;
        }
    }

    fn file(&mut self) -> io::Result<Rc<File>> {
        let file = match self.file.take() {
            Some(file) => file,
            None => Rc::new((self.make)()?),
        };
        self.file = Some(file.clone());
        Ok(file)
    }
}

/// Copies all of a file to this place in another; gives how much that was.
fn copy(mut from: &File, mut to: &File, at: u64) -> io::Result<u64> {
    from.seek(SeekFrom::Start(0))?;
    to.seek(SeekFrom::Start(at))?;
    io::copy(&mut from, &mut to)
}

/// A file with this in it, written from its start.
#[cfg(test)]
pub(super) fn wrote(text: &str) -> File {
    use std::io::Write as _;
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(text.as_bytes()).expect("it takes it");
    file
}

#[cfg(test)]
impl Spool {
    /// The file already has content up to `end`.
    pub(super) fn of(file: File, end: u64) -> Self {
        Self { file: Some(Rc::new(file)), end, ..Self::new() }
    }

    /// On a full disk.
    pub(super) fn full() -> Self {
        Self::of(File::options().read(true).write(true).open("/dev/full").expect("a full disk"), 0)
    }

    /// Where no file can be made.
    pub(super) fn without_file() -> Self {
        Self { make: || Err(io::ErrorKind::StorageFull.into()), ..Self::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn it_is_cut_once_nothing_waits() {
        let mut spool = Spool::new();
        let first = spool.keep(wrote("first"));
        let second = spool.keep(wrote("second"));
        assert!(matches!((&first, &second), (Place::Part(_, 0, 5), Place::Part(_, 5, 6))));
        drop(first);
        spool.tidy();
        assert_eq!(spool.size(), 11);
        drop(second);
        spool.tidy();
        assert_eq!(spool.size(), 0);
        assert!(matches!(spool.keep(wrote("third")), Place::Part(_, 0, 5)));
    }

    #[test]
    fn what_was_copied_in_part_gives_its_room_back() {
        let mut spool = Spool::new();
        let Place::Part(file, ..) = spool.keep(wrote("kept")) else { panic!("there is room") };
        // As a copy leaves it that came to a part of an output.
        file.write_all_at(b"a part", 4).expect("it takes it");
        let named = tempfile::NamedTempFile::new().expect("a file");
        let unreadable = File::options().write(true).open(named.path()).expect("a file");
        assert!(matches!(spool.keep(unreadable), Place::Own(_)));
        assert_eq!((file.metadata().expect("a file").len(), spool.size()), (4, 4));
        assert!(matches!(spool.keep(wrote("next")), Place::Part(_, 4, 4)));
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_passed_over_or_named() {
        let (good, bad) = (tempfile::tempdir().expect("a directory"), PathBuf::from("/nonexistent"));
        let file = scratch_in(&[bad.clone(), good.path().to_owned()]).expect("the second can be used");
        is_whole(&file).expect("there is room");
        let error = scratch_in(&[bad]).expect_err("there is none").to_string();
        assert!(error.contains("TMPDIR") && error.contains("/nonexistent: No such file"), "{error}");
    }

    #[test]
    fn what_finds_no_room_stays_in_its_own_file() {
        for mut spool in [Spool::full(), Spool::without_file()] {
            let Place::Own(file) = spool.keep(wrote("own")) else { panic!("there is no room") };
            assert_eq!((file.metadata().expect("a file").len(), spool.size()), (3, 0));
        }
    }
}
