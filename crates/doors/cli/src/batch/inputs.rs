//! Where the arguments of a batch come from: the words of GNU parallel (`:::`, `:::+`, `::::`, `-a`, `--colsep`).
//!
//! Absent here: how arguments are put into a command (`template`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pinfold_client::Failure;
use pinfold_proto::ExitCode;
use regex_lite::Regex;

use crate::input::Feed;

/// More commands than this are a slip of the keyboard.
const COMMANDS_MAX: usize = 10_000_000;

/// A list of arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Input {
    pub(super) values: Vec<Vec<u8>>,
    /// Its n-th argument goes with the n-th of the list before it, not with each of them.
    pub(super) linked: bool,
}

/// The words that begin a list of arguments: whether they name files, and whether the list is linked.
fn separator(word: &OsString) -> Option<(&'static str, bool, bool)> {
    [(":::", false, false), (":::+", false, true), ("::::", true, false), ("::::+", true, true)]
        .into_iter()
        .find(|(text, ..)| word == text)
}

/// Ends the options of `batch` among these words, which follow its name, where its arguments begin, as `--` does: every word
/// behind a separator (`:::`, `:::+`, `::::`, `::::+`) is an argument.
pub(crate) fn end_options(words: &mut Vec<OsString>, follow: usize) {
    // Columns may be separated by the same word.
    let is_value =
        |at: usize| at > follow && ["-C", "--colsep"].iter().any(|option| words[at - 1] == *option);
    let begins = |at: &usize| words[*at] == "--" || separator(&words[*at]).is_some() && !is_value(*at);
    if let Some(at) = (follow..words.len()).find(begins).filter(|&at| words[at] != "--") {
        words.insert(at, "--".into());
    }
}

/// Where the arguments of a list are.
pub(super) enum Source<'a> {
    File(&'a Path),
    Words(&'a [OsString]),
}

impl Source<'_> {
    fn is_standard_input(&self) -> bool {
        matches!(self, Self::File(file) if *file == Path::new("-"))
    }
}

/// A list that is not read yet, and whether it is linked to the list before it.
pub(super) type List<'a> = (Source<'a>, bool);

/// Reads all of a list; arguments in a file end with this byte.
pub(super) fn read((source, linked): &List<'_>, ending: u8) -> Result<Input, Failure> {
    let values = match source {
        Source::File(file) => {
            let failed = |error| failed("arguments in", file, &error, "");
            let (mut feed, mut values) = (Feed::open(file, ending).map_err(failed)?, Vec::new());
            while let Some(lines) = feed.lines().map_err(failed)? {
                values.extend(lines.iter().map(|line| argument(line).to_vec()));
            }
            values
        }
        Source::Words(words) => words.iter().map(|word| word.as_bytes().to_vec()).collect(),
    };
    Ok(Input { values, linked: *linked })
}

/// The words for a list that cannot be read; `hint`: advice if its file is missing.
pub(super) fn failed(what: &str, file: &Path, error: &std::io::Error, hint: &str) -> Failure {
    let (code, hint) = match error.kind() {
        std::io::ErrorKind::NotFound => (ExitCode::Usage, hint),
        _ => (ExitCode::Failed, ""),
    };
    Failure::new(code, format!("{what} {}: {error}{hint}", file.display()))
}

/// The argument in a line of a file.
pub(super) fn argument(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The words of the command, and the lists of arguments: the files of `-a`, then the lists on the command line.
pub(super) fn split<'a>(
    words: &'a [OsString],
    arg_files: &'a [PathBuf],
) -> Result<(Vec<&'a OsString>, Vec<List<'a>>), Failure> {
    let mut lists: Vec<List<'_>> = arg_files.iter().map(|file| (Source::File(file), false)).collect();
    let first = words.iter().position(|word| separator(word).is_some()).unwrap_or(words.len());
    let mut rest = &words[first..];
    while let Some((text, in_files, linked)) = rest.first().and_then(separator) {
        let end = rest[1..].iter().position(|word| separator(word).is_some());
        let given = &rest[1..end.map_or(rest.len(), |end| end + 1)];
        rest = &rest[1 + given.len()..];
        if linked && lists.is_empty() {
            let text = format!("`{text}` links a list of arguments to the one before it, and there is none");
            return Err(Failure::new(ExitCode::Usage, text));
        }
        if in_files {
            let file = |(number, file)| (Source::File(Path::new(file)), linked && number == 0);
            lists.extend(given.iter().enumerate().map(file));
        } else {
            lists.push((Source::Words(given), linked));
        }
    }
    if lists.iter().filter(|(source, _)| source.is_standard_input()).count() > 1 {
        let text = "standard input (`-`) is named for several lists of arguments, and can be read only once";
        return Err(Failure::new(ExitCode::Usage, text));
    }
    Ok((words[..first].iter().collect(), lists))
}

/// The separator of the columns of an argument, `--colsep`.
#[derive(Debug, Clone)]
pub(crate) struct Columns(Regex);

impl std::str::FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err("an empty text separates nothing".to_owned());
        }
        Regex::new(text).map(Self).map_err(|error| format!("not a regular expression: {error}"))
    }
}

impl Columns {
    /// The columns of an argument, without blanks around each. Bytes that are not UTF-8 separate nothing.
    pub(super) fn of(&self, argument: &[u8]) -> Vec<Vec<u8>> {
        match std::str::from_utf8(argument) {
            Ok(text) => self.0.split(text).map(|column| column.trim().as_bytes().to_vec()).collect(),
            Err(_) => vec![argument.to_vec()],
        }
    }
}

/// Which argument of each list each command has: of linked lists the n-th arguments together, as many as the shortest
/// list has; of other lists each with each, the last list running fastest.
pub(super) struct Choice {
    /// The lists of each group that is linked, and its length.
    groups: Vec<(std::ops::Range<usize>, usize)>,
}

impl Choice {
    pub(super) fn of(inputs: &[Input]) -> Self {
        let mut groups: Vec<(std::ops::Range<usize>, usize)> = Vec::new();
        for (place, input) in inputs.iter().enumerate() {
            match groups.last_mut().filter(|_| input.linked) {
                Some((places, length)) => {
                    places.end = place + 1;
                    *length = input.values.len().min(*length);
                }
                None => groups.push((place..place + 1, input.values.len())),
            }
        }
        Self { groups }
    }

    /// How many commands there are.
    ///
    /// # Errors
    /// There are too many.
    pub(super) fn count(&self) -> Result<usize, Failure> {
        let count = self.groups.iter().try_fold(1_usize, |all, (_, length)| all.checked_mul(*length));
        count.filter(|&count| count <= COMMANDS_MAX).ok_or_else(|| {
            Failure::new(ExitCode::Usage, format!("the arguments make more than {COMMANDS_MAX} commands"))
        })
    }

    /// The arguments of the command with this number, from 0.
    pub(super) fn arguments<'a>(&self, inputs: &'a [Input], number: usize) -> Vec<&'a [u8]> {
        let (mut rest, mut chosen) = (number, vec![&b""[..]; inputs.len()]);
        for (places, length) in self.groups.iter().rev() {
            for place in places.clone() {
                chosen[place] = &inputs[place].values[rest % length];
            }
            rest /= length;
        }
        chosen
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn read_all(words: &[OsString]) -> (Vec<&OsString>, Vec<Input>) {
        let (command, lists) = split(words, &[]).expect("lists");
        (command, lists.iter().map(|list| read(list, b'\n')).collect::<Result<_, _>>().expect("read"))
    }

    #[track_caller]
    fn check(words: &str, want: &[&str]) {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        let (_, inputs) = read_all(&words);
        let choice = Choice::of(&inputs);
        let row = |number| choice.arguments(&inputs, number).join(&b' ');
        let rows: Vec<Vec<u8>> = (0..choice.count().expect("a few")).map(row).collect();
        let rows: Vec<String> = rows.into_iter().map(|row| String::from_utf8(row).expect("text")).collect();
        assert_eq!(rows, want, "{words:?}");
    }

    /// The answers of GNU parallel's manual.
    #[test]
    fn lists_are_combined_or_linked() {
        check("echo ::: A B C ::: D E F", &["A D", "A E", "A F", "B D", "B E", "B F", "C D", "C E", "C F"]);
        check("echo ::: A B C :::+ D E F", &["A D", "B E", "C F"]);
        check("echo ::: A B C D E :::+ F G", &["A F", "B G"]);
        check("echo ::: a b :::+ 1 2 ::: X Y :::+ 11 21", &["a 1 X 11", "a 1 Y 21", "b 2 X 11", "b 2 Y 21"]);
        check("echo ::: a b :::+", &[]);
    }

    #[test]
    fn files_of_arguments() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("list");
        std::fs::write(&file, "x y\r\nz\n").unwrap();
        let words =
            ["echo".into(), "::::".into(), file.clone().into(), ":::+".into(), "1".into(), "2".into()];
        let (command, inputs) = read_all(&words);
        assert_eq!(
            (command, inputs[0].values.clone()),
            (vec![&words[0]], vec![b"x y".to_vec(), b"z".to_vec()])
        );
        assert!(!inputs[0].linked && inputs[1].linked);
        let first: Vec<OsString> = ["echo", ":::+", "a"].map(OsString::from).to_vec();
        assert!(split(&first, &[]).err().unwrap().message.contains("`:::+` links"));
        assert!(split(&first, &[file]).is_ok(), "-a is a list before it");
    }

    #[test]
    fn standard_input_is_one_list() {
        let words = ["x", ":::", "a", "::::", "-"].map(OsString::from);
        let twice = [words.to_vec(), vec!["-".into()]].concat();
        for (words, files) in
            [(&words[..], &[PathBuf::from("-")][..]), (&twice, &[]), (&[], &["-".into(), "-".into()])]
        {
            let refused = split(words, files).err().expect("it is named twice");
            assert!(refused.message.contains("read only once"), "{}", refused.message);
        }
    }

    #[test]
    fn columns() {
        let check = |separator: &str, argument: &str, want: &[&str]| {
            let columns = separator.parse::<Columns>().expect("a separator").of(argument.as_bytes());
            let columns: Vec<&str> = columns.iter().map(|one| std::str::from_utf8(one).unwrap()).collect();
            assert_eq!(columns, want, "{separator} in {argument}");
        };
        check("\t", "a\tb c\t", &["a", "b c", ""]);
        check(",", " a , b", &["a", "b"]);
        check("-", "A-B", &["A", "B"]);
        check("\\s+", "a   b", &["a", "b"]);
        check("\\|", "a|b", &["a", "b"]);
        assert!("(".parse::<Columns>().unwrap_err().contains("regular expression"));
        assert!("".parse::<Columns>().is_err());
    }

    #[test]
    fn arguments_that_make_too_many_commands() {
        let many = || Input { values: vec![Vec::new(); 4_000], linked: false };
        assert!(Choice::of(&[many(), many()]).count().unwrap_err().message.contains("more than"));
    }
}
