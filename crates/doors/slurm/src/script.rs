//! Batch scripts: their source, and their `#SBATCH` lines.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::Path;

use crate::getopt::words_of;

/// The largest accepted script, in bytes.
const SIZE_MAX: u64 = 64 << 20;

/// A batch script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    pub text: Vec<u8>,
    /// The default name of its job.
    pub name: String,
    /// The file's path for display.
    pub path: String,
}

impl Script {
    /// Reads a file, or standard input.
    ///
    /// # Errors
    /// In sbatch's words.
    pub(crate) fn read(path: Option<&OsStr>) -> Result<Self, String> {
        let unreadable =
            |path: &OsStr, error: std::io::Error| format!("Unable to open file {}: {error}", path.display());
        let (text, name, shown) = match path {
            None => (read_all(std::io::stdin().lock())?, "sbatch".to_owned(), String::new()),
            Some(path) => {
                let found = std::fs::metadata(path).map_err(|error| unreadable(path, error))?;
                if found.is_dir() {
                    return Err(format!("Unable to open file {}: Is a directory", path.display()));
                }
                let file = std::fs::File::open(path).map_err(|error| unreadable(path, error))?;
                let name = Path::new(path).file_name().unwrap_or(path).to_string_lossy().into_owned();
                let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
                let name = if Path::new(path).starts_with("/dev") { "sbatch".to_owned() } else { name };
                (read_all(file)?, name, absolute.to_string_lossy().into_owned())
            }
        };
        check(&text)?;
        Ok(Self { text, name, path: shown })
    }

    /// A script around a command line.
    pub(crate) fn wrapping(command: &str) -> Self {
        let text = format!("#!/bin/sh\n\n# This script was created by sbatch --wrap.\n\n{command}\n");
        Self { text: text.into_bytes(), name: "wrap".to_owned(), path: String::new() }
    }

    /// The words of its `#SBATCH` lines, up to the first command.
    ///
    /// # Errors
    /// For a separator of heterogeneous jobs.
    pub(crate) fn options(&self) -> Result<Vec<OsString>, String> {
        let mut words = Vec::new();
        for line in self.text.split(|&byte| byte == b'\n') {
            if let Some(rest) = line.strip_prefix(b"#SBATCH") {
                let given = words_of(rest);
                if given.first().is_some_and(|word| word == "hetjob" || word == "packjob") {
                    return Err("heterogeneous jobs are not supported".to_owned());
                }
                words.extend(given);
            } else if !line.starts_with(b"#") && !line.iter().all(u8::is_ascii_whitespace) {
                break;
            }
        }
        Ok(words)
    }
}

fn read_all(from: impl Read) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    let read = from.take(SIZE_MAX + 1).read_to_end(&mut text);
    read.map_err(|error| format!("Unable to read the batch script: {error}"))?;
    if text.len() as u64 > SIZE_MAX {
        return Err(format!(
            "Batch job submission failed: Job script exceeds the {} MiB that are taken",
            SIZE_MAX >> 20
        ));
    }
    Ok(text)
}

fn check(text: &[u8]) -> Result<(), String> {
    if text.is_empty() {
        return Err("Batch script is empty!".to_owned());
    }
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err("Batch script contains only whitespace!".to_owned());
    }
    if !text.starts_with(b"#!") {
        return Err(
            "This does not look like a batch script.  The first\nsbatch: error: line must start with \
                    #! followed by the path to an interpreter.\nsbatch: error: For instance: #!/bin/sh"
                .to_owned(),
        );
    }
    if text.contains(&0) {
        return Err(
            "The Slurm controller does not allow scripts that\nsbatch: error: contain a NULL character \
                    '\\0'."
                .to_owned(),
        );
    }
    if text.windows(2).any(|pair| pair == b"\r\n") {
        return Err(
            "Batch script contains DOS line breaks (\\r\\n)\nsbatch: error: instead of expected UNIX \
                    line breaks (\\n)."
                .to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_end_at_the_first_command() {
        let check = |text: &str, want: &[&str]| {
            let script = Script { text: text.into(), name: String::new(), path: String::new() };
            assert_eq!(script.options().expect("options"), want, "{text}");
        };
        check(
            "#!/bin/sh\n#SBATCH -J x\n# why\n\n#SBATCH --mem=4G # that\necho\n#SBATCH -n 4\n",
            &["-J", "x", "--mem=4G"],
        );
        check("#!/bin/sh\n##SBATCH -J x\n #SBATCH -n 2\n", &[]);
        check(
            "#!/bin/sh\n#SBATCH --signal B:USR2@30\n#SBATCH\t-o\t'a b'",
            &["--signal", "B:USR2@30", "-o", "a b"],
        );
        let het = Script {
            text: b"#!/bin/sh\n#SBATCH hetjob\n".to_vec(),
            name: String::new(),
            path: String::new(),
        };
        assert!(het.options().is_err());
    }

    #[test]
    fn invalid_scripts_are_refused() {
        let wrong = |text: &[u8]| super::check(text).expect_err("it is none");
        assert!(wrong(b"").contains("empty"));
        assert!(wrong(b" \n").contains("whitespace"));
        assert!(wrong(b"echo\n").contains("does not look like a batch script"));
        assert!(wrong(b"#!/bin/sh\r\n").contains("DOS"));
        assert!(wrong(b"#!/bin/sh\n#SBATCH -J x\r\n").contains("DOS"));
        assert!(wrong(b"#!/bin/sh\necho a\necho b\r\n").contains("DOS"));
        assert!(wrong(b"#!/bin/sh\r\n\0").contains("NULL"));
        assert!(super::check(b"#!/bin/sh\nprintf 'a\rb'\n").is_ok());
        assert!(wrong(b"#!/bin/sh\n\0").contains("NULL"));
        assert!(super::check(b"#!/bin/sh\n").is_ok());
    }
}
