//! The reason for which the kernel refused to execute a file: the missing interpreter, loader or right by name. The
//! kernel's own words for a missing interpreter, "No such file or directory", read as if the script itself were missing.
//! Absent here: finding a command's file ([`super::resolve`]).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The kernel reads as much of a file's first line, in bytes (`BINPRM_BUF_SIZE`).
const LINE_MAX: usize = 256;

/// Type of a program header that names the loader (`elf.h`), and the longest name looked at, in bytes.
const PT_INTERP: u64 = 3;
const LOADER_MAX: u64 = 4096;

/// `PATH: ` and the reason why the kernel refused to execute that file with this error.
#[must_use]
pub fn refusal(path: &Path, error: &io::Error) -> String {
    let reason = match error.raw_os_error() {
        Some(libc::ENOENT | libc::EACCES | libc::ELOOP | libc::ENOTDIR) => helper(path, error),
        Some(libc::ENOEXEC) => Some("a program for another kind of machine or system".to_owned()),
        Some(libc::E2BIG) => {
            Some(format!("{error}: arguments and environment are too long; one word may have 128 KiB"))
        }
        Some(libc::ETXTBSY) => Some(format!("{error}: another process still writes the file")),
        _ => None,
    };
    format!("{}: {}", path.display(), reason.unwrap_or_else(|| error.to_string()))
}

/// Names the interpreter or loader that an existing, executable file asks for.
fn helper(path: &Path, error: &io::Error) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let mut head = [0; LINE_MAX];
    let length = file.read(&mut head).ok()?;
    let head = &head[..length];
    if let Some(interpreter) = interpreter(head) {
        let line_end = if interpreter.to_string_lossy().ends_with('\r') {
            "; the script has Windows line ends (CRLF), which `sed -i 's/\\r$//'` removes"
        } else {
            ""
        };
        return Some(format!("bad interpreter {}: {error}{line_end}", quoted(&interpreter)));
    }
    let loader = loader(head, &mut file)?;
    (!loader.exists()).then(|| {
        let name = loader.display();
        format!("its loader {name} is missing: the program was built for another system or another libc")
    })
}

/// The file named by a script's first line, a carriage return included.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|&byte| byte == b' ' || byte == b'\t').filter(|word| !word.is_empty());
    Some(PathBuf::from(OsStr::from_bytes(words.next()?)))
}

fn quoted(path: &Path) -> String {
    let name = path.to_string_lossy();
    if name.contains(char::is_control) { format!("{name:?}") } else { name.into_owned() }
}

/// The loader of a dynamic program, from its ELF headers (`elf(5)`), which are in this machine's byte order.
fn loader(head: &[u8], file: &mut File) -> Option<PathBuf> {
    let number = |bytes: &[u8], at: usize, width: usize| -> Option<u64> {
        let field = bytes.get(at..at + width)?;
        Some(field.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
    };
    head.strip_prefix(b"\x7fELF")?;
    let wide = *head.get(4)? == 2;
    // Offsets of e_phoff, e_phentsize, e_phnum; then p_offset and p_filesz within a program header; width of an address.
    let (table, size, count, offset, length, width) =
        if wide { (32, 54, 56, 8, 32, 8) } else { (28, 42, 44, 4, 16, 4) };
    let (table, size) = (number(head, table, width)?, number(head, size, 2)?);
    let mut entry = [0; 56];
    let entry = &mut entry[..if wide { 56 } else { 32 }];
    for index in 0..number(head, count, 2)? {
        file.seek(SeekFrom::Start(table + index * size)).ok()?;
        file.read_exact(entry).ok()?;
        if number(entry, 0, 4)? == PT_INTERP {
            let mut name = Vec::new();
            file.seek(SeekFrom::Start(number(entry, offset, width)?)).ok()?;
            file.take(number(entry, length, width)?.min(LOADER_MAX)).read_to_end(&mut name).ok()?;
            let name = name.split(|&byte| byte == 0).next()?;
            return Some(PathBuf::from(OsStr::from_bytes(name)));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content: &[u8], code: i32, want: &str) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, content).unwrap();
        let told = refusal(&path, &io::Error::from_raw_os_error(code));
        assert_eq!(told.strip_prefix(&format!("{}: ", path.display())).unwrap(), want);
    }

    #[test]
    fn a_script_names_its_missing_interpreter() {
        let missing = "No such file or directory (os error 2)";
        check(b"#!/no/such\nx", libc::ENOENT, &format!("bad interpreter /no/such: {missing}"));
        check(b"#! /no/such -x\n", libc::ENOENT, &format!("bad interpreter /no/such: {missing}"));
        let windows = "; the script has Windows line ends (CRLF), which `sed -i 's/\\r$//'` removes";
        check(
            b"#!/bin/sh\r\necho\r\n",
            libc::ENOENT,
            &format!("bad interpreter \"/bin/sh\\r\": {missing}{windows}"),
        );
        check(
            b"#!/etc/passwd\n",
            libc::EACCES,
            "bad interpreter /etc/passwd: Permission denied (os error 13)",
        );
        check(b"echo", libc::EACCES, "Permission denied (os error 13)");
    }

    #[test]
    fn a_program_names_its_missing_loader() {
        let own = std::fs::read("/bin/sh").unwrap();
        let at = own.windows(8).position(|part| part.starts_with(b"/lib") && part[4] != 0).unwrap();
        let mut other = own;
        other[at..at + 4].copy_from_slice(b"/xyz");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, &other).unwrap();
        let told = refusal(&path, &io::Error::from_raw_os_error(libc::ENOENT));
        assert!(told.contains("its loader /xyz") && told.contains("is missing"), "{told}");
    }

    #[test]
    fn other_errors_keep_the_kernels_words() {
        let told = |code| refusal(Path::new("/nonexistent/x"), &io::Error::from_raw_os_error(code));
        assert_eq!(told(libc::ENOENT), "/nonexistent/x: No such file or directory (os error 2)");
        assert_eq!(told(libc::ENOEXEC), "/nonexistent/x: a program for another kind of machine or system");
        assert!(told(libc::E2BIG).contains("too long"));
    }
}
