//! The audit's files: records are appended to `audit.jsonl`, which becomes `audit-NUMBER.jsonl` once it is full, by the
//! number of its first record; so many of those are kept, and the oldest goes.
//!
//! A record that was not written whole is cut off again before the next one, at the latest at the next start.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use pinfold_proto::view::AuditRecord;
use pinfold_sys::files;

use super::Act;
use super::chain::{self, chained};

/// A file is full at this size, in bytes.
pub(super) const FILE_MAX_BYTES: u64 = 4 << 20;
/// How many full ones are kept.
const FILES_KEPT: usize = 15;
/// The end of a file that is looked at for its last record: longer than any record is.
const TAIL_BYTES: u64 = 1 << 16;

/// The file that is written to, in `directory`.
pub(super) fn current(directory: &Path) -> PathBuf {
    directory.join("audit.jsonl")
}

/// The full ones, oldest first.
pub(super) fn full(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let number = |name: &str| name.strip_prefix("audit-")?.strip_suffix(".jsonl")?.parse::<u64>().ok();
    let mut found: Vec<(u64, PathBuf)> =
        entries.filter_map(|entry| Some((number(entry.file_name().to_str()?)?, entry.path()))).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, path)| path).collect()
}

/// Where the chain ends, and the file that is written to.
#[derive(Debug)]
pub(super) struct Log {
    directory: PathBuf,
    /// The last record's number and chain.
    number: u64,
    chain: String,
    /// The first record of the current file; `None`: it is empty.
    first: Option<u64>,
    /// So much of the current file are whole records, if the last write failed in the middle.
    whole_bytes: Option<u64>,
    file_max_bytes: u64,
    /// The file's name may not be on disk yet.
    is_fresh: bool,
}

impl Log {
    /// Takes up the chain of a directory; in words, what an interrupted write left and was cut off.
    pub(super) fn open(directory: &Path) -> (Self, Option<String>) {
        let mut log = Self {
            directory: directory.to_owned(),
            number: 0,
            chain: String::new(),
            first: None,
            whole_bytes: None,
            file_max_bytes: FILE_MAX_BYTES,
            is_fresh: false,
        };
        let interrupted = log.cut_interrupted().unwrap_or_else(|error| {
            let path = current(directory);
            let path = path.display();
            tracing::error!(%path, %error, "what an interrupted record left of itself stays in the audit");
            None
        });
        let files = full(directory).into_iter().chain([current(directory)]).rev();
        let last = files.filter_map(|path| last_record(&path)).next();
        (log.number, log.chain) = last.map_or((0, String::new()), |last| (last.number, last.chain));
        log.first = first_record(&current(directory)).map(|first| first.number);
        if log.number > 0 {
            tracing::info!(log.number, log.chain, "the audit goes on from here");
        }
        (log, interrupted)
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    #[cfg(test)]
    pub(super) fn fill_at(&mut self, bytes: u64) {
        self.file_max_bytes = bytes;
    }

    /// Writes a record of the act, whole or not at all.
    pub(super) fn append(&mut self, act: &Act) -> io::Result<()> {
        let path = current(&self.directory);
        let mut file = open_to_append(&path)?;
        if let Some(bytes) = self.whole_bytes {
            file.set_len(bytes)?;
            self.whole_bytes = None;
        }
        let mut bytes = file.metadata()?.len();
        if bytes >= self.file_max_bytes && self.first.is_some() {
            file.sync_data()?;
            file = self.begin_another(&path)?;
            bytes = 0;
        }
        if bytes == 0 {
            (self.first, self.is_fresh) = (None, true);
        }
        if self.first.is_none() && self.number > 0 {
            let detail = format!("goes on from record {}, {CHAIN}{}", self.number, self.chain);
            bytes += self.put(&mut file, bytes, &Act::of_the_daemon(act.time_s, "audit", detail))?;
        }
        self.put(&mut file, bytes, act).map(drop)
    }

    /// Appends one line to a file of so many bytes; gives how many more it has.
    fn put(&mut self, file: &mut File, bytes: u64, act: &Act) -> io::Result<u64> {
        let mut record = AuditRecord {
            number: self.number + 1,
            time_s: act.time_s,
            uid: act.uid,
            user: act.user.clone(),
            action: act.action.clone(),
            detail: act.detail.clone(),
            chain: String::new(),
        };
        record.chain = chained(&self.chain, &record);
        let mut line = serde_json::to_string(&record)?;
        line.push('\n');
        if let Err(error) = file.write_all(line.as_bytes()) {
            // Now, or before the next record.
            self.whole_bytes = file.set_len(bytes).is_err().then_some(bytes);
            return Err(error);
        }
        self.first = self.first.or(Some(record.number));
        (self.number, self.chain) = (record.number, record.chain);
        Ok(line.len() as u64)
    }

    /// Brings what was appended to disk.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match files::open_regular(&current(&self.directory)) {
            Ok(file) => file.sync_data()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
        if std::mem::take(&mut self.is_fresh) {
            File::open(&self.directory)?.sync_all()?;
        }
        Ok(())
    }

    /// The current file is full: puts it aside, and lets the oldest of those go.
    fn begin_another(&mut self, path: &Path) -> io::Result<File> {
        let first = self.first.expect("a full file has a first record");
        fs::rename(path, self.directory.join(format!("audit-{first:012}.jsonl")))?;
        self.first = None;
        let full = full(&self.directory);
        for old in full.iter().take(full.len().saturating_sub(FILES_KEPT)) {
            if let Err(error) = fs::remove_file(old) {
                tracing::warn!(path = %old.display(), %error, "an old file of the audit is left over");
            }
        }
        let file = open_to_append(path)?;
        // The names too: after a power cut the chain must not seem to have a gap.
        File::open(&self.directory)?.sync_all()?;
        Ok(file)
    }

    /// Cuts off, or completes, the record that a crash or a power cut interrupted.
    fn cut_interrupted(&self) -> io::Result<Option<String>> {
        let path = current(&self.directory);
        let mut file = match files::open_regular_with(OpenOptions::new().read(true).write(true), &path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let (bytes, tail) = tail(&mut file)?;
        let from = tail.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let rest = &tail[from..];
        if rest.is_empty() {
            return Ok(None);
        }
        if serde_json::from_slice::<AuditRecord>(rest).is_ok() {
            // All of it but the end of its line.
            file.seek(SeekFrom::End(0))?;
            file.write_all(b"\n")?;
            return Ok(None);
        }
        file.set_len(bytes - rest.len() as u64)?;
        file.sync_data()?;
        Ok(Some(format!("an interrupted record of {} bytes was cut off", rest.len())))
    }
}

/// The current file, which is made if there is none.
fn open_to_append(path: &Path) -> io::Result<File> {
    files::open_regular_with(OpenOptions::new().append(true).create(true).mode(0o600), path)
}

/// Before the chain in the first record of a file that goes on from another.
pub(super) const CHAIN: &str = "chain ";

/// The length of a file, and its last bytes.
fn tail(file: &mut File) -> io::Result<(u64, Vec<u8>)> {
    let bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(bytes.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut tail)?;
    Ok((bytes, tail))
}

/// The last record of a file that can be read.
fn last_record(path: &Path) -> Option<AuditRecord> {
    let (_, tail) = tail(&mut files::open_regular(path).ok()?).ok()?;
    let mut lines = tail.rsplit(|&byte| byte == b'\n');
    lines.find_map(|line| chain::parse(line).ok().map(|(record, _)| record))
}

fn first_record(path: &Path) -> Option<AuditRecord> {
    let mut line = Vec::new();
    let mut reader = io::BufReader::new(files::open_regular(path).ok()?);
    io::BufRead::read_until(&mut reader, b'\n', &mut line).ok()?;
    chain::parse(line.trim_ascii_end()).ok().map(|(record, _)| record)
}
