//! A command that is run once for each argument: the words of GNU parallel.
//!
//! Arguments are data: each is quoted for the shell where it is put in. Without a command they are commands.
//!
//! Absent here: GNU parallel's rarer replacement strings, and programs in Perl.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pinfold_client::Failure;
use pinfold_proto::ExitCode;

use super::inputs::Columns;

/// A command, and the places in it where arguments are put in.
pub(super) struct Template {
    parts: Vec<Part>,
    columns: Option<Columns>,
}

impl Template {
    /// Of the words of a command that is run for the arguments of so many lists. With `columns` each argument is several.
    pub(super) fn of(words: &[&OsString], lists: usize, columns: Option<&Columns>) -> Result<Self, Failure> {
        let text = words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>().join(&b' ');
        let columns = columns.cloned();
        if words.is_empty() && columns.is_none() {
            // As GNU parallel has it: without a command the arguments are commands, and are not quoted.
            return Ok(Self { parts: vec![Part::Command], columns });
        }
        if text.trim_ascii().is_empty() {
            return Err(Failure::new(ExitCode::Usage, "no command before the arguments (`gzip {} ::: a b`)"));
        }
        let mut parts = parts(&text);
        if parts.iter().all(|part| matches!(part, Part::Text(_))) {
            parts.extend([Part::Text(b" ".to_vec()), Part::Argument { place: None, form: Form::Whole }]);
        }
        // How many columns there are, each argument says for itself; one that is missing is empty, as in GNU parallel.
        if columns.is_none()
            && let Some(missing) = parts.iter().find_map(|part| part.beyond(lists))
        {
            let there = match lists {
                1 => "there is 1 list".to_owned(),
                count => format!("there are {count} lists"),
            };
            let text = format!("{{{missing}}}: {there} of arguments");
            return Err(Failure::new(ExitCode::Usage, text));
        }
        Ok(Self { parts, columns })
    }

    /// The command with this number, from 1, for these arguments, and the arguments as a tag shows them.
    pub(super) fn command(&self, chosen: &[&[u8]], number: u64) -> (Vec<u8>, Vec<u8>) {
        match &self.columns {
            None => command(&self.parts, chosen, number),
            Some(columns) => {
                let split: Vec<Vec<u8>> = chosen.iter().flat_map(|argument| columns.of(argument)).collect();
                command(&self.parts, &split.iter().map(Vec::as_slice).collect::<Vec<_>>(), number)
            }
        }
    }
}

fn command(parts: &[Part], chosen: &[&[u8]], number: u64) -> (Vec<u8>, Vec<u8>) {
    let mut text = Vec::new();
    for part in parts {
        match part {
            Part::Text(plain) => text.extend_from_slice(plain),
            Part::Command => text.extend_from_slice(&chosen.join(&b' ')),
            Part::Number => text.extend_from_slice(number.to_string().as_bytes()),
            Part::Argument { place: Some(place), form } => {
                let argument = chosen.get(place - 1).copied().unwrap_or_default();
                quote(&form.of(argument), &mut text);
            }
            Part::Argument { place: None, form } => {
                for (at, argument) in chosen.iter().enumerate() {
                    if at > 0 {
                        text.push(b' ');
                    }
                    quote(&form.of(argument), &mut text);
                }
            }
        }
    }
    (text, chosen.join(&b' '))
}

#[derive(Debug, Clone, Copy)]
enum Form {
    Whole,
    WithoutEnding,
    Name,
    Directory,
    NameWithoutEnding,
}

impl Form {
    fn of(self, argument: &[u8]) -> Vec<u8> {
        let path = Path::new(OsStr::from_bytes(argument));
        let name = || path.file_name().map_or(argument, OsStr::as_bytes);
        match self {
            Self::Whole => argument.to_vec(),
            Self::WithoutEnding => without_ending(argument).to_vec(),
            Self::Name => name().to_vec(),
            Self::NameWithoutEnding => without_ending(name()).to_vec(),
            Self::Directory => match path.parent().map(Path::as_os_str) {
                Some(directory) if !directory.is_empty() => directory.as_bytes().to_vec(),
                _ => b".".to_vec(),
            },
        }
    }
}

/// Without the last dot of its last part and what is behind it.
fn without_ending(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&byte| byte == b'.' || byte == b'/') {
        Some(at) if path[at] == b'.' => &path[..at],
        _ => path,
    }
}

#[derive(Debug)]
enum Part {
    Text(Vec<u8>),
    /// All arguments, as they are.
    Command,
    Number,
    /// Of the list with this number, from 1; `None`: of all.
    Argument {
        place: Option<usize>,
        form: Form,
    },
}

impl Part {
    /// The list that it names and that is not there.
    fn beyond(&self, lists: usize) -> Option<usize> {
        match self {
            Self::Argument { place: Some(place), .. } if *place > lists => Some(*place),
            _ => None,
        }
    }
}

fn parts(text: &[u8]) -> Vec<Part> {
    let (mut parts, mut plain, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        let close = text[at..].iter().position(|&byte| byte == b'}').map(|length| at + length);
        let found = close
            .filter(|_| text[at] == b'{')
            .and_then(|close| Some((replacement(&text[at + 1..close])?, close + 1)));
        match found {
            Some((part, next)) => {
                parts.extend((plain < at).then(|| Part::Text(text[plain..at].to_vec())));
                parts.push(part);
                (plain, at) = (next, next);
            }
            None => at += 1,
        }
    }
    parts.extend((plain < at).then(|| Part::Text(text[plain..at].to_vec())));
    parts
}

fn replacement(inner: &[u8]) -> Option<Part> {
    if inner == b"#" {
        return Some(Part::Number);
    }
    let digits = inner.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let place = match &inner[..digits] {
        [] => None,
        some => Some(std::str::from_utf8(some).ok()?.parse().ok().filter(|&place: &usize| place > 0)?),
    };
    let form = match &inner[digits..] {
        b"" => Form::Whole,
        b"." => Form::WithoutEnding,
        b"/" => Form::Name,
        b"//" => Form::Directory,
        b"/." => Form::NameWithoutEnding,
        _ => return None,
    };
    Some(Part::Argument { place, form })
}

/// Adds a word as a shell reads it back.
fn quote(word: &[u8], text: &mut Vec<u8>) {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./:,+@%=".contains(byte);
    if !word.is_empty() && word.iter().all(plain) {
        return text.extend_from_slice(word);
    }
    text.push(b'\'');
    for &byte in word {
        if byte == b'\'' {
            text.extend_from_slice(b"'\\''");
        } else {
            text.push(byte);
        }
    }
    text.push(b'\'');
}

/// Whether a word has a place for an argument.
pub(super) fn is_template(word: &OsStr) -> bool {
    parts(word.as_bytes()).iter().any(|part| !matches!(part, Part::Text(_)))
}

#[cfg(test)]
mod tests {
    use super::super::inputs::Choice;
    use super::super::inputs::tests::read_all;
    use super::*;

    /// The commands that these words make, and their tags.
    fn commands(words: &[OsString], columns: Option<&Columns>) -> Vec<(String, String)> {
        let (command, inputs) = read_all(words);
        let (template, choice) =
            (Template::of(&command, inputs.len(), columns).expect("a command"), Choice::of(&inputs));
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let command = |number: usize| {
            let (command, tag) = template.command(&choice.arguments(&inputs, number), number as u64 + 1);
            (text(command), text(tag))
        };
        (0..choice.count().expect("few")).map(command).collect()
    }

    #[track_caller]
    fn check(words: &str, want: &[&str]) {
        let words: Vec<OsString> = words.split(' ').map(|word| word.replace('_', " ").into()).collect();
        let got: Vec<String> = commands(&words, None).into_iter().map(|(text, _)| text).collect();
        assert_eq!(got, want, "{words:?}");
    }

    #[test]
    fn arguments_are_put_in() {
        check("gzip ::: a b", &["gzip a", "gzip b"]);
        check("cp {} {.}.bak ::: d.x/a.txt", &["cp d.x/a.txt d.x/a.bak"]);
        check("x {/} {//} {/.} {#} ::: d/a.t plain", &["x a.t d a 1", "x plain . plain 2"]);
        check("x {1} {2} ::: a b ::: 1 2", &["x a 1", "x a 2", "x b 1", "x b 2"]);
        check("x {2/} {} ::: a ::: d/1", &["x 1 a d/1"]);
        check("awk_{print} {} ::: a", &["awk {print} a"]);
        check("x ::: a_b it's $(reboot) ;", &["x 'a b'", "x 'it'\\''s'", "x '$(reboot)'", "x ';'"]);
        check("x :::", &[]);
        check("x {2} {1} {#} ::: a b :::+ 1 2", &["x 1 a 1", "x 2 b 2"]);
    }

    #[test]
    fn arguments_have_columns() {
        let check = |words: &[&str], want: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let got = commands(&words, Some(&",".parse().expect("a separator")));
            let got: Vec<&str> = got.iter().map(|(text, _)| text.as_str()).collect();
            assert_eq!(got, want, "{words:?}");
        };
        check(&["x", "{2}", "{1.}", ":::", "a.c, b c"], &["x 'b c' a"]);
        check(&["x", ":::", "a,b"], &["x a b"]);
        check(&["x", "{3}-{1}", ":::", "a,b"], &["x ''-a"]);
        check(&["x", "{1}", "{2}", "{3}", ":::", "a,b", ":::", "1", "2"], &["x a b 1", "x a b 2"]);
    }

    #[test]
    fn without_a_command_the_arguments_are_commands() {
        let check = |words: &[&str], want: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let got = commands(&words, None);
            let got: Vec<&str> = got.iter().map(|(text, _)| text.as_str()).collect();
            assert_eq!(got, want, "{words:?}");
        };
        check(&[":::", "echo $HOME; exit 3", "x {}"], &["echo $HOME; exit 3", "x {}"]);
        check(&[":::", "gzip", "xz", ":::", "a b"], &["gzip a b", "xz a b"]);
    }

    #[test]
    fn what_cannot_be() {
        let fails = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let (command, inputs) = read_all(&words);
            Template::of(&command, inputs.len(), None).err().expect("refused").message
        };
        assert!(fails(&["", ":::", "a"]).contains("no command"));
        assert!(fails(&["x {3}", ":::", "a"]).contains("{3}"));
        assert!(fails(&[" ", ":::", "a"]).contains("no command"));
    }
}
