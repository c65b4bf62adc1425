//! Files that a command reads whole, each with a bound far above its usual size: a device or a pipe named by mistake
//! has no end, and must not fill the memory.
//!
//! Absent here: files that are read line by line and not kept (`sim/input.rs`), and system files.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use pinfold_profile::report::size;

/// The largest file that people write by hand: a configuration.
pub(crate) const BY_HAND_MAX: u64 = 1 << 20;
/// The longest line of a list, in bytes: a device of zeros is an endless line.
const LINE_MAX: u64 = 16 << 20;
/// The largest list, in bytes.
const LIST_MAX: u64 = 4 << 30;

/// All of a text of at most `max` bytes.
///
/// # Errors
/// When it cannot be read, is longer, or is no UTF-8.
pub(crate) fn text(from: impl Read, max: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    // The cut may lie within a character.
    match from.take(max + 1).read_to_end(&mut bytes)? as u64 {
        length if length > max => Err(too("it is larger", max)),
        _ => io::read_to_string(&*bytes),
    }
}

/// All of a list, which has lines.
///
/// # Errors
/// When it cannot be read, it or a line of it is too long.
pub(crate) fn list(from: impl Read) -> io::Result<Vec<u8>> {
    lines(from, LINE_MAX, LIST_MAX)
}

/// A list that is read line by line, as its writer writes it.
pub(crate) struct Feed<From = File> {
    from: From,
    /// The byte that ends a line.
    ending: u8,
    /// Bytes read and not given yet, and how many of them begin an unfinished line.
    text: Vec<u8>,
    begun: usize,
    /// Bytes that were read.
    read: u64,
}

impl Feed {
    /// Opens a file with lines that end with this byte; `-` is standard input.
    pub(crate) fn open(path: &Path, ending: u8) -> io::Result<Self> {
        let file = match path == Path::new("-") {
            true => File::from(io::stdin().as_fd().try_clone_to_owned()?),
            false => File::open(path)?,
        };
        Ok(Self::of(file, ending))
    }

    /// Whether another program may be writing it still.
    pub(crate) fn has_writer(&self) -> bool {
        self.from.metadata().is_ok_and(|found| found.file_type().is_fifo() || found.file_type().is_socket())
    }

    /// Whether the input is a device, like a terminal or `/dev/null`.
    pub(crate) fn is_device(&self) -> bool {
        self.from.metadata().is_ok_and(|found| found.file_type().is_char_device())
    }
}

impl<From: Read> Feed<From> {
    fn of(from: From, ending: u8) -> Self {
        Self { from, ending, text: Vec::new(), begun: 0, read: 0 }
    }

    /// The lines that have come; waits where there are none yet. `None`: there are no more.
    ///
    /// # Errors
    /// As [`list`].
    pub(crate) fn lines(&mut self) -> io::Result<Option<Vec<Vec<u8>>>> {
        let count = self.read_piece(LINE_MAX, LIST_MAX)?;
        let end = self.text.len() - if count > 0 { self.begun } else { 0 };
        let whole: Vec<u8> = self.text.drain(..end).collect();
        let line = |line: &[u8]| line.strip_suffix(&[self.ending]).unwrap_or(line).to_vec();
        let lines: Vec<Vec<u8>> = whole.split_inclusive(|&byte| byte == self.ending).map(line).collect();
        Ok((count > 0 || !lines.is_empty()).then_some(lines))
    }

    /// Reads a piece; gives its length, 0 at the end.
    fn read_piece(&mut self, line_max: u64, max: u64) -> io::Result<usize> {
        let mut piece = vec![0; 64 << 10];
        let count = self.from.read(&mut piece)?;
        self.begun = match piece[..count].iter().rposition(|&byte| byte == self.ending) {
            Some(last) => count - last - 1,
            None => self.begun + count,
        };
        self.read += count as u64;
        self.text.extend_from_slice(&piece[..count]);
        match (self.begun as u64 > line_max, self.read > max) {
            (true, _) => Err(too("a line is longer", line_max)),
            (_, true) => Err(too("it is larger", max)),
            _ => Ok(count),
        }
    }
}

impl AsFd for Feed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }
}

/// All of a list in a file; `-` is standard input.
///
/// # Errors
/// As [`list`].
pub(crate) fn list_in(file: &Path) -> io::Result<Vec<u8>> {
    if file == Path::new("-") { list(io::stdin()) } else { list(File::open(file)?) }
}

fn lines(from: impl Read, line_max: u64, max: u64) -> io::Result<Vec<u8>> {
    let mut feed = Feed::of(from, b'\n');
    while feed.read_piece(line_max, max)? > 0 {}
    Ok(feed.text)
}

fn too(what: &str, max: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} than {}", size(max)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device of zeros that counts what is read of it.
    struct Zeros(u64);

    impl Read for Zeros {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            into.fill(0);
            self.0 += into.len() as u64;
            Ok(into.len())
        }
    }

    #[test]
    fn what_has_no_end_is_given_up_early() {
        let mut zeros = Zeros(0);
        let error = text(&mut zeros, 1000).unwrap_err();
        assert!(error.to_string().starts_with("it is larger than 1000 "), "{error}");
        assert!(zeros.0 <= 1001, "{}", zeros.0);
        // Cut within a character.
        let error = text("aé".as_bytes(), 1).unwrap_err();
        assert!(error.to_string().starts_with("it is larger than 1 "), "{error}");
        assert_eq!(text(&b"\xff"[..], 1).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let mut zeros = Zeros(0);
        let error = lines(&mut zeros, 100_000, 1_000_000).unwrap_err();
        assert!(error.to_string().starts_with("a line is longer than "), "{error}");
        assert!(zeros.0 < 300_000, "{}", zeros.0);
        let error = lines(b"line\n".chain(io::repeat(b'\n')), 100_000, 1_000_000).unwrap_err();
        assert!(error.to_string().starts_with("it is larger than "), "{error}");
    }

    #[test]
    fn a_feed_gives_lines_as_they_come() {
        let (read, mut write) = io::pipe().unwrap();
        let mut feed = Feed::of(File::from(std::os::fd::OwnedFd::from(read)), b'\n');
        assert!(feed.has_writer());
        let mut check = |written: &[u8], want: &[&[u8]]| {
            io::Write::write_all(&mut write, written).unwrap();
            assert_eq!(feed.lines().unwrap().unwrap(), want, "{written:?}");
        };
        check(b"one\ntw", &[b"one"]);
        check(b"o", &[]);
        check(b"\n\nend", &[b"two", b""]);
        drop(write);
        assert_eq!(feed.lines().unwrap().unwrap(), [b"end"]);
        assert!(feed.lines().unwrap().is_none() && feed.lines().unwrap().is_none());
        let mut zeros = Feed::open(Path::new("/dev/zero"), b'\n').unwrap();
        assert!(!zeros.has_writer());
        let error = std::iter::repeat_with(|| zeros.lines()).find_map(Result::err).unwrap();
        assert!(error.to_string().starts_with("a line is longer than "), "{error}");
    }

    #[test]
    fn what_fits_is_read_as_it_is() {
        assert_eq!(text(&b"abc"[..], 3).unwrap(), "abc");
        for all in [&b""[..], b"\n", b"one\ntwo", b"one\ntwo\n"] {
            assert_eq!(lines(all, 4, 8).unwrap(), all);
        }
    }
}
