//! Programs that tests write and have executed.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes an executable file, by a process of its own.
///
/// A test that writes it itself has it open for writing for a moment, and so has whatever another thread of that process
/// forks in that moment. The kernel executes no file that any process has open for writing (`ETXTBSY`, execve(2)).
///
/// # Panics
/// If it cannot be written.
pub fn executable(path: &Path, text: &str) {
    let mut writer = Command::new("/bin/sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell");
    let mut pipe = writer.stdin.take().expect("it is piped");
    pipe.write_all(text.as_bytes()).expect("it is read");
    drop(pipe);
    let status = writer.wait().expect("it ends");
    assert!(status.success(), "{} is not written: {status}", path.display());
}
