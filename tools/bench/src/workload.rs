//! Jobs as shell scripts in directories of their own, and their outputs' checksums.
//!
//! A workload is data; `stage` lays a job out on disk for a run. The directories belong to the run that made them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A job of a workload.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// Unique name, also the name of its directory: letters, digits and `-`.
    pub(crate) name: String,
    /// Jobs of the same class are the same work; the solo runs use one of them for all.
    pub(crate) class: String,
    /// Shell text, run by `sh -e` in a fresh directory.
    pub(crate) script: String,
    /// Files it leaves there that must be the same in every run.
    pub(crate) outputs: Vec<String>,
}

/// A job laid out on disk.
#[derive(Debug)]
pub(crate) struct Staged {
    /// Shell command that runs it below `exec`.
    pub(crate) line: String,
    pub(crate) directory: PathBuf,
    outputs: Vec<String>,
}

impl Staged {
    /// Checksum over the outputs, `None` without outputs or if any is missing.
    pub(crate) fn checksum(&self) -> Option<u64> {
        if self.outputs.is_empty() {
            return None;
        }
        let mut sum = Checksum::default();
        for output in &self.outputs {
            sum.add(&fs::read(self.directory.join(output)).ok()?);
        }
        Some(sum.0)
    }
}

/// Lays `job` out below `directory`. `pin` is its PU, `journal` the file of its record.
pub(crate) fn stage(
    job: &Job,
    directory: &Path,
    journal: &Path,
    pin: Option<usize>,
) -> anyhow::Result<Staged> {
    let own = directory.join(&job.name);
    fs::create_dir(&own).with_context(|| format!("failed to create {}", own.display()))?;
    let script = directory.join(format!("{}.sh", job.name));
    fs::write(&script, &job.script).with_context(|| format!("failed to write {}", script.display()))?;
    let program = std::env::current_exe().context("failed to find this program's own path")?;
    // The first word shows the kind of work, as outside of a bench.
    let named = directory.join(format!("run-{}", job.class));
    if !named.exists() {
        std::os::unix::fs::symlink(&program, &named)
            .with_context(|| format!("failed to link {}", named.display()))?;
    }
    let mut words = vec![quote(&named), "exec".to_owned(), "--journal".to_owned(), quote(journal)];
    words.extend(["--name".to_owned(), job.name.clone(), "--directory".to_owned(), quote(&own)]);
    if let Some(pu) = pin {
        words.extend(["--pin".to_owned(), pu.to_string()]);
    }
    words.push(quote(&script));
    Ok(Staged { line: words.join(" "), directory: own, outputs: job.outputs.clone() })
}

/// `path` as a shell word.
pub(crate) fn quote(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

/// FNV-1a, 64 bits: enough to detect a difference between the outputs of two runs, not against malice.
#[derive(Debug)]
struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_fnv_1a() {
        let of = |text: &str| {
            let mut sum = Checksum::default();
            sum.add(text.as_bytes());
            sum.0
        };
        // The published test vectors.
        assert_eq!(of(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(of("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(of("foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn quoting_survives_the_shell() {
        for text in ["plain", "with space", "it's", "$HOME `x` \"y\""] {
            let command = format!("printf %s {}", quote(Path::new(text)));
            let output = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), text);
        }
    }

    #[test]
    fn checksum_of_a_missing_output_is_none() {
        let directory = tempfile::tempdir().unwrap();
        let job = Job {
            name: "a".into(),
            class: "a".into(),
            script: "echo x".into(),
            outputs: vec!["result".into()],
        };
        let staged = stage(&job, directory.path(), &directory.path().join("journal"), None).unwrap();
        assert_eq!(staged.checksum(), None);
        fs::write(staged.directory.join("result"), "x").unwrap();
        assert!(staged.checksum().is_some());
    }
}
