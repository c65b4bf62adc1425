//! Where the output of submitted jobs goes, as their user's clients wrote it down: a line of JSON for each job or array in
//! `outputs.jsonl`, in the user's state directory. The file is kept small: of two clients that shorten it at the same
//! moment, one may lose the other's line.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::submit::files;

/// Above this the older half of the file goes.
const SIZE_MAX: u64 = 1 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    socket: PathBuf,
    /// The job, or the array.
    job: u64,
    array: bool,
    /// Names with what stands for numbers in them, absolute.
    out: PathBuf,
    err: PathBuf,
}

/// Writes down where a job, or an array, writes to. One that cannot be written down is not found later; nothing else
/// depends on it.
pub(crate) fn keep(socket: &Path, job: u64, array: bool, out: &Path, err: &Path) {
    let (Ok(out), Ok(err)) = (std::path::absolute(out), std::path::absolute(err)) else { return };
    let line = Line { socket: absolute(socket), job, array, out, err };
    let (Some(file), Ok(mut text)) = (place(), serde_json::to_string(&line)) else { return };
    text.push('\n');
    let directory = file.parent().unwrap_or(Path::new("/"));
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    if std::fs::metadata(&file).is_ok_and(|found| found.len() > SIZE_MAX) {
        shorten(&file);
    }
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(&file);
    let _ = opened.and_then(|mut file| file.write_all(text.as_bytes()));
}

/// Where the job wrote to. `named`: the number that was asked for, which is the array's for a member.
pub(crate) fn find(socket: &Path, named: u64, job: u64, index: Option<u32>) -> Option<[PathBuf; 2]> {
    let text = std::fs::read_to_string(place()?).ok()?;
    found(&text, &absolute(socket), named, job, index)
}

fn found(text: &str, socket: &Path, named: u64, job: u64, index: Option<u32>) -> Option<[PathBuf; 2]> {
    let lines = text.lines().rev().filter_map(|line| serde_json::from_str::<Line>(line).ok());
    // The last word counts: a store that was lost begins again with low numbers.
    let line = lines
        .into_iter()
        .find(|line| line.socket == socket && line.job == named && line.array == index.is_some())?;
    Some([line.out, line.err].map(|name| files::expand(name.as_os_str(), named, index.unwrap_or(0), job)))
}

fn shorten(file: &Path) {
    let Ok(text) = std::fs::read(file) else { return };
    let half = &text[text.len() / 2..];
    let from = half.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let beside = file.with_extension("new");
    let written = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside);
    if written.and_then(|mut new| new.write_all(&half[from..])).is_ok() {
        let _ = std::fs::rename(&beside, file);
    }
}

fn absolute(socket: &Path) -> PathBuf {
    std::path::absolute(socket).unwrap_or_else(|_| socket.to_owned())
}

fn place() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|text| text.as_bytes().starts_with(b"/"));
    let home = named("XDG_STATE_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(named("HOME")?).join(".local/state")))?;
    Some(home.join("pinfold/outputs.jsonl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts() {
        let line = |job: u64, array: bool, out: &str| {
            let line = Line { socket: "/s".into(), job, array, out: out.into(), err: "/e".into() };
            serde_json::to_string(&line).unwrap()
        };
        let text =
            [line(1, false, "/old"), line(1, false, "/x-%j"), line(2, true, "/%A_%a-%j"), "{torn".into()];
        let text = text.join("\n");
        let out = |socket: &str, named, job, index| {
            found(&text, Path::new(socket), named, job, index).map(|[out, _]| out)
        };
        assert_eq!(out("/s", 1, 1, None), Some("/x-1".into()));
        assert_eq!(out("/s", 2, 5, Some(3)), Some("/2_3-5".into()));
        assert_eq!(out("/s", 2, 2, None), None);
        assert_eq!(out("/other", 1, 1, None), None);
    }

    #[test]
    fn a_long_file_loses_its_older_half() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("outputs.jsonl");
        std::fs::write(&file, "one\ntwo\nthree\nfour\n").unwrap();
        shorten(&file);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "four\n");
    }
}
