//! Who changed what: a file of records, each chained to the one before, so that a record that was changed, put in or
//! taken out in the middle shows.
//!
//! Owns `audit.jsonl` in the state directory: a JSON object a line, appended and flushed to disk before the change has
//! its effect. Each record's `chain` is the SHA-256 of the chain before it and of the record's other fields. Whoever may
//! write the file can also write a whole new chain, or cut its end off: what stood there last is therefore logged at
//! each start. A disk that refuses does not keep an operator from acting; the daemon says so in its log.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pinfold_proto::view::{AuditRecord, AuditView, VERSION};
use sha2::{Digest, Sha256};

/// Records that are given to a client at most: the last ones.
const SHOWN_MAX: usize = 10_000;

/// The records of one state directory.
#[derive(Debug)]
pub(crate) struct Audit {
    path: PathBuf,
    number: u64,
    chain: String,
}

impl Audit {
    /// Opens the records of a state directory and takes up their chain.
    pub(crate) fn open(state: &Path) -> Self {
        let path = state.join("audit.jsonl");
        let last =
            read(&path).ok().and_then(|records| records.into_iter().filter_map(Result::ok).next_back());
        let (number, chain) = last.map_or((0, String::new()), |last| (last.number, last.chain));
        if number > 0 {
            tracing::info!(number, chain, "the audit goes on from here");
        }
        Self { path, number, chain }
    }

    /// Notes a change.
    pub(crate) fn note(&mut self, time_s: f64, uid: u32, user: &str, action: &str, detail: &str) {
        let mut record = AuditRecord {
            number: self.number + 1,
            time_s,
            uid,
            user: user.to_owned(),
            action: action.to_owned(),
            detail: detail.to_owned(),
            chain: String::new(),
        };
        record.chain = chained(&self.chain, &record);
        match self.append(&record) {
            Ok(()) => (self.number, self.chain) = (record.number, record.chain),
            Err(error) => tracing::error!(%error, action, detail, uid, "a change is not recorded"),
        }
    }

    fn append(&self, record: &AuditRecord) -> std::io::Result<()> {
        let mut line = serde_json::to_string(record)?;
        line.push('\n');
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
        file.write_all(line.as_bytes())?;
        file.sync_data()
    }

    /// The records, and whether their chain holds if that is asked for.
    pub(crate) fn view(&self, verify: bool) -> AuditView {
        let all = read(&self.path).unwrap_or_default();
        let broken = if verify { broken(&all) } else { None };
        let mut records: Vec<AuditRecord> = all.into_iter().filter_map(Result::ok).collect();
        let first = records.len().saturating_sub(SHOWN_MAX);
        records.drain(..first);
        AuditView { version: VERSION, records, intact: verify.then_some(broken.is_none()), broken }
    }
}

fn read(path: &Path) -> std::io::Result<Vec<Result<AuditRecord, String>>> {
    let lines = BufReader::new(File::open(path)?).lines();
    Ok(lines
        .enumerate()
        .map(|(index, line)| {
            let line = line.map_err(|error| format!("line {}: {error}", index + 1))?;
            serde_json::from_str(&line).map_err(|error| format!("line {}: {error}", index + 1))
        })
        .collect())
}

/// What first breaks the chain.
fn broken(records: &[Result<AuditRecord, String>]) -> Option<String> {
    let (mut number, mut chain) = (0, String::new());
    for record in records {
        let record = match record {
            Ok(record) => record,
            Err(why) => return Some(why.clone()),
        };
        if record.number != number + 1 {
            return Some(format!("record {} follows record {number}", record.number));
        }
        if record.chain != chained(&chain, record) {
            return Some(format!("record {} is not what was written", record.number));
        }
        (number, chain) = (record.number, record.chain.clone());
    }
    None
}

fn chained(before: &str, record: &AuditRecord) -> String {
    let plain = AuditRecord { chain: String::new(), ..record.clone() };
    let text = serde_json::to_string(&plain).expect("a record always has a JSON form");
    let mut hash = Sha256::new();
    hash.update(before.as_bytes());
    hash.update(text.as_bytes());
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three(dir: &Path) -> Audit {
        let mut audit = Audit::open(dir);
        audit.note(1.5, 0, "root", "config", "slots.factor: 1.5 -> 2");
        audit.note(2.5, 7, "ann", "cancel", "job 3 of bob");
        audit.note(3.25, 0, "root", "drain", "");
        audit
    }

    fn change(dir: &Path, change: impl Fn(Vec<String>) -> Vec<String>) -> Option<String> {
        let path = dir.join("audit.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = change(text.lines().map(str::to_owned).collect());
        std::fs::write(&path, lines.join("\n") + "\n").unwrap();
        let view = Audit::open(dir).view(true);
        assert_eq!(view.intact, Some(view.broken.is_none()));
        view.broken
    }

    #[test]
    fn the_chain_goes_on_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        three(dir.path());
        let mut audit = Audit::open(dir.path());
        audit.note(4.0, 0, "root", "undrain", "");
        let view = audit.view(true);
        assert_eq!((view.records.len(), view.intact), (4, Some(true)));
        assert_eq!(view.records[1].detail, "job 3 of bob");
    }

    #[test]
    fn whatever_is_changed_in_the_middle_shows() {
        let dir = tempfile::tempdir().unwrap();
        three(dir.path());
        let fresh = std::fs::read_to_string(dir.path().join("audit.jsonl")).unwrap();
        let again = || std::fs::write(dir.path().join("audit.jsonl"), &fresh).unwrap();
        let bob = |mut lines: Vec<String>| {
            lines[1] = lines[1].replace("bob", "eve");
            lines
        };
        assert_eq!(change(dir.path(), bob).unwrap(), "record 2 is not what was written");
        again();
        let gone = |mut lines: Vec<String>| {
            lines.remove(1);
            lines
        };
        assert_eq!(change(dir.path(), gone).unwrap(), "record 3 follows record 1");
        again();
        let torn = |mut lines: Vec<String>| {
            lines[2].truncate(20);
            lines
        };
        assert!(change(dir.path(), torn).unwrap().starts_with("line 3: "));
        again();
        assert_eq!(change(dir.path(), |lines| lines), None);
    }
}
