//! Notes of the output files of jobs, written by their user's clients: a JSON line for each job or array of `submit`,
//! for each `sbatch` job and for each line of `batch --output`, in the user's state directory of this host. The files
//! are kept small: when two clients shorten a file at the same moment, a line may be lost.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pinfold_proto::view::{JobView, ReportView};
use pinfold_sys::{paths, peer, shared};
use serde::{Deserialize, Serialize};

/// Tolerated difference of clocks: a line has the client's time after the job's acceptance, and the daemon's clock
/// may differ.
const CLOCKS_DIFFER_S: f64 = 2.0;

/// File name of the notes on submitted jobs.
pub const SUBMITTED: &str = "outputs.jsonl";

/// File name of the notes on lines of batches, apart: a long list does not displace notes on submitted jobs.
pub const LINES: &str = "lines.jsonl";

/// Above this size in bytes a file of notes loses its older half.
const SIZE_MAX: u64 = 1 << 20;

#[derive(Debug, Serialize, Deserialize)]
struct Line {
    socket: PathBuf,
    /// The job, or the array.
    job: u64,
    array: bool,
    /// Absolute names with patterns.
    out: PathBuf,
    err: PathBuf,
    /// When the line was written, in Unix seconds; `None` in lines of an older pinfold.
    #[serde(default)]
    at_s: Option<f64>,
}

/// Notes in `notes`, [`SUBMITTED`] or [`LINES`], the output files of a job or an array. Errors are ignored: only
/// `log` needs the notes.
pub fn keep(notes: &str, socket: &Path, job: u64, array: bool, out: &Path, err: &Path) {
    let (Ok(out), Ok(err)) = (std::path::absolute(out), std::path::absolute(err)) else { return };
    let at_s = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok().map(|now| now.as_secs_f64());
    let line = Line { socket: absolute(socket), job, array, out, err, at_s };
    let (Some(file), Ok(mut text)) = (place(notes), serde_json::to_string(&line)) else { return };
    text.push('\n');
    let directory = file.parent().unwrap_or(Path::new("/"));
    let _ = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    if std::fs::metadata(&file).is_ok_and(|found| found.len() > SIZE_MAX) {
        shorten(&file);
    }
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(&file);
    let _ = opened.and_then(|mut file| file.write_all(text.as_bytes()));
}

/// The job to look up.
#[derive(Debug, Clone, Copy)]
pub struct Meant {
    /// The number of its array, or its own.
    pub named: u64,
    /// Its own number.
    pub job: u64,
    /// Its index in the array.
    pub index: Option<u32>,
    /// When it was submitted, in Unix seconds.
    pub submitted_s: f64,
}

impl Meant {
    /// A job of `status`.
    #[must_use]
    pub fn of_job(view: &JobView) -> Self {
        let named = view.array_id.unwrap_or(view.job);
        Self { named, job: view.job, index: view.array_index, submitted_s: view.submitted_s }
    }

    /// A job of `report`.
    fn of_report(view: &ReportView) -> Self {
        let named = view.array_id.unwrap_or(view.job);
        Self { named, job: view.job, index: view.array_index, submitted_s: view.submitted_s }
    }
}

/// The notes on jobs of a daemon, by number and whether the number is an array's.
#[derive(Debug, Default)]
pub struct Outputs(BTreeMap<(u64, bool), Line>);

impl Outputs {
    /// Reads all notes, once for any number of jobs.
    #[must_use]
    pub fn of(socket: &Path) -> Self {
        let files = |(shared, own): (PathBuf, PathBuf)| files_of(&shared, own, &peer::host_name());
        let submitted = directory().zip(place(SUBMITTED)).map(files).unwrap_or_default();
        let texts =
            submitted.into_iter().chain(place(LINES)).filter_map(|file| std::fs::read_to_string(file).ok());
        Self::read(&texts.collect::<Vec<String>>().join("\n"), &absolute(socket))
    }

    fn read(text: &str, socket: &Path) -> Self {
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        // The last line counts: a lost store restarts at low numbers.
        Self(lines.filter(|line| line.socket == socket).map(|line| ((line.job, line.array), line)).collect())
    }

    /// The files of a job's standard output and error. A line older than the job belongs to another store.
    #[must_use]
    pub fn find(&self, meant: Meant) -> Option<[PathBuf; 2]> {
        let Meant { named, job, index, submitted_s } = meant;
        // A member's own note is newer than its array's.
        let line = self.0.get(&(job, false)).or_else(|| self.0.get(&(named, index.is_some())))?;
        if line.at_s.is_some_and(|at_s| at_s + CLOCKS_DIFFER_S < submitted_s) {
            return None;
        }
        let expand = |name: &PathBuf| expand(name.as_os_str(), named, index.unwrap_or(0), job);
        Some([expand(&line.out), expand(&line.err)])
    }

    /// Adds the output files to a job of `status`.
    pub fn tell_job(&self, view: &mut JobView) {
        [view.output, view.error_output] = self.words(Meant::of_job(view));
    }

    /// Adds the output files to a job of `report`.
    pub fn tell_report(&self, view: &mut ReportView) {
        [view.output, view.error_output] = self.words(Meant::of_report(view));
    }

    fn words(&self, meant: Meant) -> [Option<String>; 2] {
        let files = self.find(meant);
        files.map_or([None, None], |files| files.map(|file| Some(file.to_string_lossy().into_owned())))
    }
}

/// Expands `%A` to the array's number, `%a` to the index, `%j` to the job's own number and `%%` to `%`; other text is
/// literal.
#[must_use]
pub fn expand(pattern: &OsStr, array: u64, index: u32, job: u64) -> PathBuf {
    let (mut name, mut rest) = (Vec::new(), pattern.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        let meant = match (byte, after.first()) {
            (b'%', Some(b'A')) => Some(array.to_string()),
            (b'%', Some(b'a')) => Some(index.to_string()),
            (b'%', Some(b'j')) => Some(job.to_string()),
            (b'%', Some(b'%')) => Some("%".to_owned()),
            _ => None,
        };
        match meant {
            Some(meant) => {
                name.extend_from_slice(meant.as_bytes());
                rest = &after[1..];
            }
            None => {
                name.push(byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(name).into()
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

/// The files to read for a host with the file `own`. Notes of an earlier version, common to all hosts, come first,
/// because the last note counts; they are left out if another host owns the directory and still writes there.
fn files_of(directory: &Path, own: PathBuf, host: &str) -> Vec<PathBuf> {
    let former = directory.join(SUBMITTED);
    let is_read = former != own && shared::may_be_of(directory, paths::DATABASE, host);
    is_read.then_some(former).into_iter().chain([own]).collect()
}

/// Sockets and numbers of jobs are the same on several hosts.
fn place(notes: &str) -> Option<PathBuf> {
    directory().map(|dir| shared::of_host(dir, paths::DATABASE).join(notes))
}

fn directory() -> Option<PathBuf> {
    paths::user_state(|name| std::env::var_os(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts() {
        let line = |job: u64, array: bool, out: &str, at_s: Option<f64>| {
            let line = Line { socket: "/s".into(), job, array, out: out.into(), err: "/e".into(), at_s };
            serde_json::to_string(&line).unwrap()
        };
        let text = [
            line(1, false, "/old", None),
            line(1, false, "/x-%j", Some(100.0)),
            line(2, true, "/%A_%a-%j", Some(100.0)),
            line(3, false, "/before", None).replace(",\"at_s\":null", ""),
            "{torn".into(),
        ];
        let text = text.join("\n");
        let out = |socket: &str, named, job, index, submitted_s| {
            let meant = Meant { named, job, index, submitted_s };
            Outputs::read(&text, Path::new(socket)).find(meant).map(|[out, _]| out)
        };
        assert_eq!(out("/s", 1, 1, None, 99.0), Some("/x-1".into()));
        assert_eq!(out("/s", 2, 5, Some(3), 99.0), Some("/2_3-5".into()));
        assert_eq!(out("/s", 2, 2, None, 99.0), None);
        assert_eq!(out("/other", 1, 1, None, 99.0), None);
        assert_eq!(out("/s", 3, 3, None, 500.0), Some("/before".into()));
        // Of a job that was submitted after the line was written, nothing is known.
        assert_eq!(out("/s", 1, 1, None, 500.0), None);
        assert_eq!(out("/s", 1, 1, None, 101.0), Some("/x-1".into()));
    }

    #[test]
    fn notes_of_another_host_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let (own, former) = (dir.path().join("hosts/one").join(SUBMITTED), dir.path().join(SUBMITTED));
        let files = |own: &Path| files_of(dir.path(), own.to_owned(), "one");
        assert_eq!(files(&own), [former.clone(), own.clone()], "of an earlier version");
        assert_eq!(files(&former), std::slice::from_ref(&former));
        shared::claim(dir.path(), "one").unwrap();
        assert_eq!(files(&own), [former, own.clone()]);
        std::fs::write(shared::note(dir.path()), "two\n").unwrap();
        assert_eq!(files(&own), [own]);
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
