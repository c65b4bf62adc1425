//! The lines of a batch: which of them are jobs, and in which order they are begun.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pinfold_proto::ExitCode;
use pinfold_proto::wire::{REQUEST_MAX_BYTES, Reply, Request};

use super::args::BatchArgs;
use super::direct::Direct;
use super::inputs::{self, Choice, Source};
use super::order;
use super::template::{self, Template};
use crate::input::Feed;
use crate::job;
use crate::shell::run_text;
use pinfold_client::Failure;
use pinfold_client::{Client, unexpected};

/// How a command is written that takes arguments.
const ARGUMENTS: &str = "a command with arguments is `COMMAND ::: ARG...`, `-a FILE COMMAND`, or `... | pinfold batch COMMAND {}`";

/// The lines of a batch that are jobs.
#[derive(Default)]
pub(super) struct Lines {
    text: Vec<u8>,
    /// Number (from 1) and place of each line in the text.
    pub(super) places: Vec<(u64, std::ops::Range<usize>)>,
    /// How many lines of the list were read, or commands made.
    read: u64,
    /// The command that takes arguments; `None`: the list has commands.
    template: Option<Template>,
    /// The arguments of each, where they are commands with arguments put in.
    tags: Vec<Vec<u8>>,
    /// The shell that runs them.
    pub(super) shell: PathBuf,
}

impl Lines {
    /// The lines that a command line names: those of a list of commands, or a command for each argument. Where the list
    /// has a writer and is not needed as a whole, its lines come from the feed.
    pub(super) fn of_args(args: &BatchArgs, shell: PathBuf) -> Result<(Self, Option<Feed>), Failure> {
        let (words, mut lists) = inputs::split(&args.words, &args.arg_file)?;
        let mut lines = Self { shell, ..Self::default() };
        if lists.is_empty() {
            let commands = commands_in(&words);
            let is_named = words.first().is_some_and(|word| commands == Some(Path::new(word)));
            // Neither a terminal nor `/dev/null` was meant: a word is missing.
            if !is_named && Feed::open(Path::new("-")).is_ok_and(|input| input.is_device()) {
                let text = format!("standard input has no list: name a file of commands; {ARGUMENTS}");
                return Err(Failure::new(ExitCode::Usage, text));
            }
            if let Some(file) = commands {
                return lines.of_commands(file, args);
            }
            lists.push((Source::File(Path::new("-")), false));
        }
        lines.template = Some(Template::of(&words, lists.len(), args.colsep.as_ref())?);
        if let [(Source::File(file), _)] = lists[..] {
            let failed = |error| inputs::failed(file, &error);
            let feed = Feed::open(file).map_err(failed)?;
            return lines.fed(feed, args.needs_all()).map_err(failed);
        }
        let inputs = lists.iter().map(inputs::read).collect::<Result<Vec<_>, _>>()?;
        let choice = Choice::of(&inputs);
        (0..choice.count()?).for_each(|number| lines.add(&choice.arguments(&inputs, number)));
        Ok((lines, None))
    }

    /// Lines of a list of commands.
    fn of_commands(self, file: &Path, args: &BatchArgs) -> Result<(Self, Option<Feed>), Failure> {
        if args.colsep.is_some() {
            let text = format!("--colsep separates arguments; {ARGUMENTS}");
            return Err(Failure::new(ExitCode::Usage, text));
        }
        Feed::open(file).and_then(|feed| self.fed(feed, args.needs_all())).map_err(|error| {
            let code =
                if error.kind() == io::ErrorKind::NotFound { ExitCode::Usage } else { ExitCode::Failed };
            let hint = if code == ExitCode::Usage { format!("; {ARGUMENTS}") } else { String::new() };
            Failure::new(code, format!("failed to read {}: {error}{hint}", file.display()))
        })
    }

    /// Lines that a feed has, or is to give.
    fn fed(mut self, mut feed: Feed, all: bool) -> io::Result<(Self, Option<Feed>)> {
        if feed.has_writer() && !all {
            return Ok((self, Some(feed)));
        }
        while let Some(lines) = feed.lines()? {
            lines.iter().for_each(|line| self.take(line));
        }
        Ok((self, None))
    }

    /// Takes the next line of the list.
    pub(super) fn take(&mut self, line: &[u8]) {
        if self.template.is_some() {
            return self.add(&[inputs::argument(line)]);
        }
        self.read += 1;
        let trimmed = line.trim_ascii();
        if !trimmed.is_empty() && !trimmed.starts_with(b"#") {
            self.push(line);
        }
    }

    /// Adds the command for these arguments.
    fn add(&mut self, arguments: &[&[u8]]) {
        let Some(template) = &self.template else { return };
        self.read += 1;
        let (command, tag) = template.command(arguments, self.read);
        self.push(&command);
        self.tags.push(tag);
    }

    fn push(&mut self, line: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(line);
        self.places.push((self.read, start..self.text.len()));
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

    #[cfg(test)]
    pub(super) fn of(text: &[u8]) -> Self {
        let mut lines = Self::default();
        text.split(|&byte| byte == b'\n').for_each(|line| lines.take(line));
        lines
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

    /// The file to execute for a line, and its words: a shell, unless the shell would only execute the line.
    pub(super) fn program(&self, direct: &Direct, index: usize) -> (PathBuf, Vec<OsString>) {
        direct.program(self.line(index)).unwrap_or_else(|| (self.shell.clone(), self.command(index)))
    }

    pub(super) fn line(&self, index: usize) -> &OsStr {
        OsStr::from_bytes(self.text[self.places[index].1.clone()].trim_ascii())
    }
}

/// The file of commands that these words name; `None`: they are a command that takes arguments from standard input.
fn commands_in<'a>(words: &[&'a OsString]) -> Option<&'a Path> {
    match words {
        [] => Some(Path::new("-")),
        &[word] => {
            let is_command = template::is_template(word) || word.as_bytes().contains(&b' ');
            let file = Path::new(word);
            (!is_command || file.exists()).then_some(file)
        }
        _ => None,
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
        let lines = Lines::of(text);
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
