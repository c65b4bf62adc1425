//! Files that a command reads whole, each with a bound that its kind never comes near: a device or a pipe that was named
//! by mistake has no end, and must not fill the memory.
//!
//! Absent here: files that are read line by line and not kept (`sim/input.rs`), and those of the system.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use pinfold_profile::report::size;

/// The largest file that people write by hand: a configuration.
pub(crate) const BY_HAND_MAX: u64 = 1 << 20;
/// The longest line of a list, in bytes: a device of zeros is one line.
const LINE_MAX: u64 = 16 << 20;
/// The largest list, in bytes.
const LIST_MAX: u64 = 4 << 30;

/// All of a text of at most `max` bytes.
///
/// # Errors
/// When it cannot be read, is longer, or is no UTF-8.
pub(crate) fn text(from: impl Read, max: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    // What was cut may end within a character.
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

/// All of a list in a file; `-` is standard input.
///
/// # Errors
/// As [`list`].
pub(crate) fn list_in(file: &Path) -> io::Result<Vec<u8>> {
    if file == Path::new("-") { list(io::stdin()) } else { list(File::open(file)?) }
}

fn lines(from: impl Read, line_max: u64, max: u64) -> io::Result<Vec<u8>> {
    let (mut from, mut bytes) = (BufReader::with_capacity(64 << 10, from), Vec::new());
    loop {
        match (&mut from).take(line_max + 1).read_until(b'\n', &mut bytes)? as u64 {
            0 => return Ok(bytes),
            length if length > line_max => return Err(too("a line is longer", line_max)),
            _ if bytes.len() as u64 > max => return Err(too("it is larger", max)),
            _ => {}
        }
    }
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
    fn what_fits_is_read_as_it_is() {
        assert_eq!(text(&b"abc"[..], 3).unwrap(), "abc");
        for all in [&b""[..], b"\n", b"one\ntwo", b"one\ntwo\n"] {
            assert_eq!(lines(all, 4, 8).unwrap(), all);
        }
    }
}
