//! The lines of a batch: which of them are jobs, and in which order they are begun.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pinfold_proto::ExitCode;
use pinfold_proto::wire::{REQUEST_MAX_BYTES, Reply, Request};

use super::inputs::{self, Columns};
use super::{order, template};
use crate::input;
use crate::job;
use crate::shell::run_text;
use pinfold_client::Failure;
use pinfold_client::{Client, unexpected};

/// The lines of a batch that are jobs.
pub(super) struct Lines {
    text: Vec<u8>,
    /// Number (from 1) and place of each line in the text.
    pub(super) places: Vec<(u64, std::ops::Range<usize>)>,
    /// The arguments of each, where they are commands with arguments put in.
    tags: Vec<Vec<u8>>,
    /// The shell that runs them.
    pub(super) shell: PathBuf,
}

impl Lines {
    /// What the words of the command line say: lines of a file, or a command for each argument.
    pub(super) fn of_words(
        words: &[OsString],
        arg_files: &[PathBuf],
        columns: Option<&Columns>,
    ) -> Result<Self, Failure> {
        if !inputs::are_in(words) && arg_files.is_empty() {
            if columns.is_some() {
                let text = "--colsep separates arguments; a command with arguments is `COMMAND ::: ARG...`, or \
                            `-a FILE COMMAND`";
                return Err(Failure::new(ExitCode::Usage, text));
            }
            let [file] = words else {
                let text = "name one file of commands; a command with arguments is `COMMAND ::: ARG...`, or \
                            `-a FILE COMMAND`";
                return Err(Failure::new(ExitCode::Usage, text));
            };
            return Self::read(Path::new(file));
        }
        let (command, inputs) = inputs::split(words, arg_files)?;
        let (mut text, mut places, mut tags) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (command, tag)) in (1..).zip(template::commands(&command, &inputs, columns)?) {
            let start = text.len();
            text.extend_from_slice(command.as_bytes());
            places.push((number, start..text.len()));
            tags.push(tag);
        }
        Ok(Self { text, places, tags, shell: PathBuf::new() })
    }

    /// Prints the commands that would be run.
    pub(super) fn print(&self) -> Result<(), Failure> {
        crate::print::print_text(|out| {
            (0..self.count()).try_for_each(|index| {
                out.write_all(self.line(index).as_bytes())?;
                out.write_all(b"\n")
            })
        })
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    /// The number of a line in its file, from 1.
    pub(super) fn number(&self, index: usize) -> Option<u64> {
        Some(self.places.get(index)?.0)
    }

    /// What tells the output of a line from that of others: its arguments, or the command.
    pub(super) fn tag(&self, index: usize) -> &[u8] {
        match self.tags.get(index) {
            Some(tag) => tag,
            None => self.line(index).as_bytes(),
        }
    }

    fn read(file: &Path) -> Result<Self, Failure> {
        let named = |error: std::io::Error| {
            let code =
                if error.kind() == std::io::ErrorKind::NotFound { ExitCode::Usage } else { ExitCode::Failed };
            let hint = if template::is_template(file) {
                "; a command with arguments is `COMMAND ::: ARG...`, or `-a FILE COMMAND`"
            } else {
                ""
            };
            Failure::new(code, format!("failed to read {}: {error}{hint}", file.display()))
        };
        input::list_in(file).map(Self::of).map_err(named)
    }

    pub(super) fn of(text: Vec<u8>) -> Self {
        let mut places = Vec::new();
        let mut start = 0;
        for (number, line) in (1u64..).zip(text.split(|&byte| byte == b'\n')) {
            let end = start + line.len();
            let trimmed = line.trim_ascii();
            if !trimmed.is_empty() && !trimmed.starts_with(b"#") {
                places.push((number, start..end));
            }
            start = end + 1;
        }
        Self { text, places, tags: Vec::new(), shell: PathBuf::new() }
    }

    pub(super) fn as_they_are(&self) -> Vec<usize> {
        (0..self.places.len()).collect()
    }

    /// The order in which they are best begun, by what the daemon knows of earlier runs.
    pub(super) fn longest_first(&self, daemon: &mut Client) -> Result<Vec<usize>, Failure> {
        if self.places.len() < 2 {
            return Ok(self.as_they_are());
        }
        let mut lengths_us = Vec::with_capacity(self.places.len());
        let mut commands = (0..self.places.len()).map(|index| job::recorded(&self.command(index))).peekable();
        while commands.peek().is_some() {
            let mut asked = Vec::new();
            let mut bytes = 0;
            // JSON may make six bytes of one; a command is cut so that one of them always fits.
            while let Some(next) = commands.next_if(|next| fits(bytes, next)) {
                bytes += weight(&next);
                asked.push(next);
            }
            match daemon.ask(&Request::Lengths { commands: asked })? {
                Reply::Lengths(known) => lengths_us.extend(known),
                other => return Err(unexpected(&other)),
            }
        }
        Ok(order::longest_first(&lengths_us))
    }

    /// A line as its job runs it.
    pub(super) fn command(&self, index: usize) -> Vec<OsString> {
        run_text(&self.shell, self.line(index))
    }

    pub(super) fn line(&self, index: usize) -> &OsStr {
        OsStr::from_bytes(self.text[self.places[index].1.clone()].trim_ascii())
    }
}

/// What a command adds to a request at most, in bytes.
fn weight(command: &[String]) -> usize {
    command.iter().map(|word| 6 * word.len() + 3).sum::<usize>() + 3
}

/// Whether a request that is so long already has room for a command.
fn fits(bytes: usize, command: &[String]) -> bool {
    bytes == 0 || bytes + weight(command) < REQUEST_MAX_BYTES / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &[u8], want: &[(u64, &[u8])]) {
        let lines = Lines::of(text.to_vec());
        let got: Vec<(u64, Vec<u8>)> =
            (0..lines.places.len()).map(|i| (lines.places[i].0, lines.line(i).as_bytes().to_vec())).collect();
        let want: Vec<(u64, Vec<u8>)> = want.iter().map(|&(n, line)| (n, line.to_vec())).collect();
        assert_eq!(got, want, "{:?}", String::from_utf8_lossy(text));
    }

    #[test]
    fn lines_that_are_jobs() {
        check(b"", &[]);
        check(b"\n\n  \n# only words\n   # indented\n", &[]);
        check(b"true\nfalse", &[(1, b"true"), (2, b"false")]);
        check(b"a # b\r\n\n c \n", &[(1, b"a # b"), (3, b"c")]);
        check(b"printf '\xff'\n", &[(1, b"printf '\xff'")]);
    }
}
