//! The record of a measurement: raw data as JSON lines, and the tables made from them.
//!
//! Collected in memory while a row runs; written only when asked to, as `NAME.jsonl` and `NAME.md`.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::{Value, json};

use crate::machine::Machine;

/// The record of a row.
#[derive(Debug, Default)]
pub(crate) struct Record {
    lines: Vec<Value>,
    text: String,
}

impl Record {
    /// A record that begins with `machine`, taken for `row`.
    pub(crate) fn new(row: &str, machine: &Machine) -> anyhow::Result<Self> {
        let mut record = Self::default();
        record.add("machine", &json!({ "row": row, "machine": machine }))?;
        record.say(&format!("Row `{row}` on {}.", machine.sentence()));
        let versions = machine.versions.iter().map(|(name, version)| format!("{name}: {version}"));
        record.say(&format!("{}.\n", versions.collect::<Vec<_>>().join("; ")));
        Ok(record)
    }

    /// Adds a raw line of kind `kind`.
    pub(crate) fn add(&mut self, kind: &str, value: &impl Serialize) -> anyhow::Result<()> {
        let value = serde_json::to_value(value).context("failed to encode a raw line")?;
        self.lines.push(json!({ "kind": kind, "data": value }));
        Ok(())
    }

    /// Adds text for people.
    pub(crate) fn say(&mut self, text: &str) {
        self.text += text;
        self.text.push('\n');
    }

    /// The text so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The raw data so far, a JSON object per line.
    pub(crate) fn lines(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Writes both files to `directory`, over the files of an earlier run: the repository has their history.
    pub(crate) fn keep(&self, directory: &Path, name: &str) -> anyhow::Result<()> {
        if name.is_empty()
            || !name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter))
        {
            bail!("`--keep {name}` is not a plain file name");
        }
        fs::create_dir_all(directory).with_context(|| format!("failed to create {}", directory.display()))?;
        for (suffix, content) in [("jsonl", &self.lines()), ("md", &self.text)] {
            let path = directory.join(format!("{name}.{suffix}"));
            // Whole or not at all: a full disk must not take the data that are there.
            let next = directory.join(format!(".{name}.{suffix}"));
            fs::write(&next, content.as_bytes())
                .and_then(|()| fs::rename(&next, &path))
                .with_context(|| format!("failed to write {}", path.display()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_data_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let mut record = Record::new("row", &Machine::look(None)).unwrap();
        record.add("run", &json!({ "makespan_s": 1.5 })).unwrap();
        record.keep(directory.path(), "a").unwrap();
        let lines = fs::read_to_string(directory.path().join("a.jsonl")).unwrap();
        let parsed: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(parsed.len(), 2);
        assert_eq!(parsed[0]["kind"], "machine");
        assert_eq!(parsed[1]["data"]["makespan_s"], 1.5);
        record.add("run", &json!({ "makespan_s": 2.5 })).unwrap();
        record.keep(directory.path(), "a").unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("a.jsonl")).unwrap().lines().count(), 3);
        assert_eq!(
            fs::read_dir(directory.path()).unwrap().count(),
            2,
            "the table and the data, and nothing else"
        );
        assert!(record.keep(directory.path(), "../b").is_err());
    }
}
