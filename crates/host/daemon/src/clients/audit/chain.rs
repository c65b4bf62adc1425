//! Reading the audit: the records of all files in order, and whether each is what was written after the one before.
//!
//! What an interrupted write left is told apart from what somebody changed: it is the end of the last file, without the
//! end of a line; or, in files of earlier versions, what stands before a whole record that the chain goes on with.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use pinfold_proto::view::AuditRecord;
use pinfold_sys::files::open_regular;
use sha2::{Digest, Sha256};

use super::file::{self, CHAIN};

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Walked {
    /// The last records.
    pub records: VecDeque<AuditRecord>,
    /// What first breaks the chain.
    pub broken: Option<String>,
    /// What else is to be known.
    pub notes: Vec<String>,
}

/// Reads the records; from as many files as the last `most` are in, unless all are to be verified.
pub(super) fn walk(directory: &Path, verify: bool, most: usize) -> Walked {
    let mut files = file::full(directory);
    files.push(file::current(directory));
    if !verify {
        let (mut from, mut records) = (files.len(), 0);
        while from > 0 && records < most {
            from -= 1;
            records += lines(&files[from]);
        }
        files.drain(..from);
    }
    let mut walk = Walk { walked: Walked::default(), last: None, most, verify };
    for (index, path) in files.iter().enumerate() {
        walk.file(path, index + 1 == files.len());
    }
    walk.walked
}

fn lines(path: &Path) -> usize {
    open_regular(path).map_or(0, |file| BufReader::new(file).split(b'\n').count())
}

/// On the way.
struct Walk {
    walked: Walked,
    /// The number and chain of the record before.
    last: Option<(u64, String)>,
    most: usize,
    verify: bool,
}

impl Walk {
    fn file(&mut self, path: &Path, is_last: bool) {
        let Ok(file) = open_regular(path) else { return };
        let mut reader = BufReader::new(file);
        let (mut line, mut index) = (Vec::new(), 0);
        loop {
            line.clear();
            index += 1;
            match reader.read_until(b'\n', &mut line) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => return self.breaks(format!("line {index}: {error}")),
            }
            let whole = line.pop_if(|byte| *byte == b'\n').is_some();
            match parse(&line) {
                Ok((record, torn)) => {
                    if torn > 0 {
                        let number = record.number;
                        self.note(format!(
                            "an interrupted record of {torn} bytes stands before record {number}"
                        ));
                    }
                    self.record(record);
                }
                Err(_) if is_last && !whole => {
                    self.note(format!("the last record was interrupted after {} bytes", line.len()));
                }
                Err(error) => {
                    let name =
                        path.file_name().filter(|_| !is_last).map(|name| format!("{}: ", name.display()));
                    self.breaks(format!("{}line {index}: {error}", name.unwrap_or_default()));
                }
            }
        }
    }

    fn record(&mut self, record: AuditRecord) {
        // The files before the first one are gone by and by: it says itself from where it goes on.
        let before = match self.last.take() {
            Some(last) => last,
            None if record.number > 1 => {
                let chain = record.detail.split_once(CHAIN).map_or("", |(_, chain)| chain).to_owned();
                let gone = format!("records before {} are not kept any more", record.number);
                if self.verify {
                    self.note(gone);
                }
                (record.number - 1, chain)
            }
            None => (0, String::new()),
        };
        if record.number != before.0 + 1 {
            self.breaks(format!("record {} follows record {}", record.number, before.0));
        } else if record.chain != chained(&before.1, &record) {
            self.breaks(format!("record {} is not what was written", record.number));
        }
        self.last = Some((record.number, record.chain.clone()));
        if self.walked.records.len() == self.most {
            self.walked.records.pop_front();
        }
        self.walked.records.push_back(record);
    }

    fn breaks(&mut self, why: String) {
        self.walked.broken.get_or_insert(why);
    }

    fn note(&mut self, note: String) {
        const NOTES_MAX: usize = 16;
        if self.walked.notes.len() < NOTES_MAX {
            self.walked.notes.push(note);
        }
    }
}

/// The record of a line, and how many bytes of another one stand before it that was interrupted.
pub(super) fn parse(line: &[u8]) -> serde_json::Result<(AuditRecord, usize)> {
    const BEGIN: &[u8] = b"{\"number\":";
    let whole = match serde_json::from_slice(line) {
        Ok(record) => return Ok((record, 0)),
        Err(error) => error,
    };
    let from = line.windows(BEGIN.len()).rposition(|window| window == BEGIN).filter(|&from| from > 0);
    match from.map(|from| (serde_json::from_slice(&line[from..]), from)) {
        Some((Ok(record), from)) => Ok((record, from)),
        _ => Err(whole),
    }
}

/// The chain of a record behind another chain.
pub(super) fn chained(before: &str, record: &AuditRecord) -> String {
    let plain = AuditRecord { chain: String::new(), ..record.clone() };
    let text = serde_json::to_string(&plain).expect("a record always has a JSON form");
    let mut hash = Sha256::new();
    hash.update(before.as_bytes());
    hash.update(text.as_bytes());
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
