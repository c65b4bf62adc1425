//! The lines of a batch: which of them are jobs, and in which order they are begun.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt as _};
use std::path::{Path, PathBuf};

use pinfold_proto::ExitCode;
use pinfold_proto::wire::{REQUEST_MAX_BYTES, Request};
use pinfold_sys::spawn::resolve;

use super::args::BatchArgs;
use super::direct::Direct;
use super::inputs::{self, Choice, Source};
use super::order;
use super::template::{self, SLOT, Template};
use crate::input::Feed;
use crate::job;
use crate::shell::run_text;
use pinfold_client::{Client, Failure};

/// No command with several arguments is longer, in bytes: the kernel takes no longer word (`MAX_ARG_STRLEN`).
const COMMAND_MAX: usize = 128 << 10;

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
    /// The names of arguments; `None`: the first line has them, or they have none.
    names: Option<Vec<Vec<u8>>>,
    /// Arguments that wait for others of their command.
    gathered: Vec<Vec<u8>>,
    /// The arguments of each, where they are commands with arguments put in.
    tags: Vec<Vec<u8>>,
    /// The directory of each line's output in the tree of `--results`.
    trees: Vec<PathBuf>,
    args: BatchArgs,
    /// The shell that runs them.
    pub(super) shell: PathBuf,
}

impl Lines {
    /// The lines that a command line names: a list of commands, or a command for each argument. Where the list
    /// has a writer and is not needed as a whole, its lines come from the feed.
    pub(super) fn of_args(args: &BatchArgs, shell: PathBuf) -> Result<(Self, Option<Feed>), Failure> {
        let (words, mut lists) = inputs::split(&args.words, &args.arg_file)?;
        let mut lines = Self { args: args.clone(), shell, ..Self::default() };
        if lists.is_empty() {
            let commands = commands_in(&words);
            let is_named = words.first().is_some_and(|word| commands == Some(Path::new(word)));
            // Neither a terminal nor `/dev/null` was meant: a word is missing.
            if !is_named && Feed::open(Path::new("-"), args.ending()).is_ok_and(|input| input.is_device()) {
                let text = format!("standard input has no list: name a file of commands; {ARGUMENTS}");
                return Err(Failure::new(ExitCode::Usage, text));
            }
            if let Some(file) = commands {
                return lines.of_commands(file);
            }
            lists.push((Source::File(Path::new("-")), false));
        }
        let takes_one = args.colsep.is_none() && args.max_args.is_none() && !args.takes_many();
        let repeats = args.context || args.max_args.is_some();
        lines.template = Some(Template::of(&words, takes_one.then_some(lists.len()), repeats)?);
        if let [(Source::File(file), _)] = lists[..]
            && !args.shuf
        {
            let failed = |error| inputs::failed("arguments in", file, &error, "");
            let feed = Feed::open(file, args.ending()).map_err(failed)?;
            return lines.fed(feed).map_err(failed);
        }
        if lists.len() > 1 && (args.max_args.is_some() || args.takes_many()) {
            let text = "-n, -m and -X take the arguments of one list";
            return Err(Failure::new(ExitCode::Usage, text));
        }
        let read = |list| inputs::read(list, args.ending());
        let mut inputs = lists.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        if args.header.is_some() {
            let first = |input: &mut inputs::Input| input.values.drain(..1.min(input.values.len())).next();
            let names: Vec<Vec<u8>> = inputs.iter_mut().filter_map(first).collect();
            lines.name(&names.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        let choice = Choice::of(&inputs);
        let mut numbers: Vec<usize> = (0..choice.count()?).collect();
        if args.shuf {
            let random = RandomState::new();
            numbers.sort_by_cached_key(|number| random.hash_one(number));
        }
        numbers.into_iter().for_each(|number| lines.add(&choice.arguments(&inputs, number)));
        lines.flush();
        Ok((lines, None))
    }

    /// Lines of a list of commands.
    fn of_commands(self, file: &Path) -> Result<(Self, Option<Feed>), Failure> {
        if self.args.is_of_arguments() {
            let text = format!(
                "--colsep, --header, -n, -m, -X, --shuf and --results are for arguments; {ARGUMENTS}"
            );
            return Err(Failure::new(ExitCode::Usage, text));
        }
        let read = Feed::open(file, self.args.ending()).and_then(|feed| self.fed(feed));
        read.map_err(|error| inputs::failed("failed to read", file, &error, &format!("; {ARGUMENTS}")))
    }

    /// Lines that a feed has, or is to give.
    fn fed(mut self, mut feed: Feed) -> io::Result<(Self, Option<Feed>)> {
        if feed.has_writer() && !self.args.needs_all() {
            return Ok((self, Some(feed)));
        }
        while let Some(lines) = feed.lines()? {
            lines.iter().for_each(|line| self.take(line));
        }
        self.flush();
        Ok((self, None))
    }

    /// Takes the next line of the list.
    pub(super) fn take(&mut self, line: &[u8]) {
        if self.template.is_none() {
            self.read += 1;
            let trimmed = line.trim_ascii();
            if !trimmed.is_empty() && !trimmed.starts_with(b"#") {
                self.push(line);
            }
        } else if self.args.header.is_some() && self.names.is_none() {
            self.name(&[inputs::argument(line)]);
        } else {
            self.add(&[inputs::argument(line)]);
        }
    }

    /// The arguments, each of them several if they have columns.
    fn values(&self, arguments: &[&[u8]]) -> Vec<Vec<u8>> {
        let split = |argument: &&[u8]| match &self.args.colsep {
            Some(columns) => columns.of(argument),
            None => vec![argument.to_vec()],
        };
        arguments.iter().flat_map(split).collect()
    }

    /// Takes names for the arguments.
    fn name(&mut self, names: &[&[u8]]) {
        let names = self.values(names);
        self.template.iter_mut().for_each(|template| template.name(&names));
        self.names = Some(names);
    }

    /// Adds the command for these arguments, or gathers them for it.
    fn add(&mut self, arguments: &[&[u8]]) {
        if self.args.no_run_if_empty && arguments.iter().all(|argument| argument.trim_ascii().is_empty()) {
            return;
        }
        let values = self.values(arguments);
        match self.args.max_args {
            Some(0) => self.make(&[]),
            None if !self.args.takes_many() => self.make(&values),
            count => {
                self.gathered.extend(values);
                if count == Some(self.gathered.len()) {
                    self.flush();
                }
            }
        }
    }

    /// Makes commands of the arguments that are left.
    pub(super) fn flush(&mut self) {
        let all = std::mem::take(&mut self.gathered);
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let spread = match self.args.takes_many() {
            true => self.args.jobs.map_or(processors, |jobs| jobs.lines(processors)),
            false => 1,
        };
        all.chunks(all.len().div_ceil(spread).max(1)).for_each(|values| self.make_short(values));
    }

    /// Makes a command of these arguments, or several where that would be too long to be started.
    fn make_short(&mut self, values: &[Vec<u8>]) {
        let length = self.template.as_ref().map_or(0, |template| template.command(values, 1).len());
        if length < COMMAND_MAX || values.len() < 2 {
            return self.make(values);
        }
        let (first, rest) = values.split_at(values.len() / 2);
        self.make_short(first);
        self.make_short(rest);
    }

    fn make(&mut self, values: &[Vec<u8>]) {
        let Some(template) = &self.template else { return };
        self.read += 1;
        let command = template.command(values, self.read);
        self.tags.push(values.join(&b' '));
        if self.args.results.is_some() {
            // Like GNU parallel: a directory for each name or number, and a directory for each argument.
            let names = self.names.as_deref().unwrap_or_default();
            let name =
                |at: usize| names.get(at).cloned().unwrap_or_else(|| (at + 1).to_string().into_bytes());
            let parts = values.iter().enumerate();
            self.trees.push(parts.flat_map(|(at, value)| [file_name(&name(at)), file_name(value)]).collect());
        }
        self.push(&command);
    }

    fn push(&mut self, line: &[u8]) {
        let start = self.text.len();
        self.text.extend_from_slice(line);
        self.places.push((self.read, start..self.text.len()));
    }

    /// The directory of a line's output in the tree of `--results`.
    pub(super) fn tree(&self, index: usize) -> Option<&Path> {
        self.trees.get(index).map(PathBuf::as_path)
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

    /// The tag of a line's output: its arguments, or the command.
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

    /// The best order to begin the lines, by the lengths of earlier runs.
    pub(super) fn longest_first(&self, daemon: &mut Client) -> Result<Vec<usize>, Failure> {
        if self.places.len() < 2 {
            return Ok(self.as_they_are());
        }
        let mut lengths_us = Vec::with_capacity(self.places.len());
        let mut commands = (0..self.places.len()).map(|index| job::recorded(&self.command(index))).peekable();
        while commands.peek().is_some() {
            let mut asked = Vec::new();
            let mut bytes = 0;
            // JSON may make six bytes of a single byte; a command is cut so that it always fits.
            while let Some(next) = commands.next_if(|next| fits(bytes, next)) {
                bytes += weight(&next);
                asked.push(next);
            }
            lengths_us.extend(answer!(daemon.ask(&Request::Lengths { commands: asked })?, Lengths)?);
        }
        Ok(order::longest_first(&lengths_us))
    }

    /// Whether lines name the slots that they run in.
    pub(super) fn name_slots(&self) -> bool {
        self.template.as_ref().is_some_and(Template::names_slot)
    }

    /// A line as it runs in a slot.
    fn in_slot(&self, index: usize, slot: impl FnOnce() -> u32) -> OsString {
        let mut line = self.line(index).as_bytes().to_vec();
        if self.name_slots() {
            let number = slot().to_string();
            while let Some(at) = line.windows(SLOT.len()).position(|part| part == SLOT) {
                line.splice(at..at + SLOT.len(), number.bytes());
            }
        }
        OsString::from_vec(line)
    }

    /// A line as its job runs it.
    pub(super) fn command(&self, index: usize) -> Vec<OsString> {
        run_text(&self.shell, self.line(index))
    }

    /// The file to execute for a line, and its words: a shell, unless the shell would only execute the line.
    pub(super) fn program(
        &self,
        direct: &Direct,
        index: usize,
        slot: impl FnOnce() -> u32,
    ) -> (PathBuf, Vec<OsString>) {
        let line = self.in_slot(index, slot);
        direct.program(&line).unwrap_or_else(|| (self.shell.clone(), run_text(&self.shell, &line)))
    }

    pub(super) fn line(&self, index: usize) -> &OsStr {
        OsStr::from_bytes(self.text[self.places[index].1.clone()].trim_ascii())
    }
}

/// An argument as a name of a file, in GNU parallel's way.
fn file_name(argument: &[u8]) -> OsString {
    let escaped = |byte| match byte {
        &b'/' => b"\\_",
        b'\\' => b"\\\\",
        _ => std::slice::from_ref(byte),
    };
    // Other directories would be meant by these names.
    let before: &[u8] = if matches!(argument, b"" | b"." | b"..") { b"\\" } else { b"" };
    OsString::from_vec(before.iter().chain(argument.iter().flat_map(escaped)).copied().collect())
}

/// The file of commands that these words name; `None`: they are a command that takes arguments from standard input.
fn commands_in<'a>(words: &[&'a OsString]) -> Option<&'a Path> {
    match words {
        [] => Some(Path::new("-")),
        &[word] => {
            let is_program = || resolve(word, std::env::var_os("PATH").as_deref()).is_ok();
            let is_command = template::is_template(word) || word.as_bytes().contains(&b' ') || is_program();
            let file = Path::new(word);
            (!is_command || file.exists()).then_some(file)
        }
        _ => None,
    }
}

/// The most bytes that a command adds to a request.
fn weight(command: &[String]) -> usize {
    command.iter().map(|word| 6 * word.len() + 3).sum::<usize>() + 3
}

/// Whether a request of this length has room for a command.
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
