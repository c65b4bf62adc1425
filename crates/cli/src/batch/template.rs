//! A command that is run once for each argument: the words of GNU parallel.
//!
//! Arguments are data: each is quoted for the shell where it is put in. Without a command they are commands.
//!
//! Absent here: GNU parallel's rarer replacement strings, and programs in Perl.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use pinfold_client::Failure;
use pinfold_proto::ExitCode;

use super::inputs::{Choice, Columns, Input};

/// More commands than this are a slip of the keyboard.
const COMMANDS_MAX: usize = 10_000_000;

/// One command for each combination of arguments, and the arguments of each as a tag shows them. With `columns` each
/// argument is several.
pub(super) fn commands(
    template: &[&OsString],
    inputs: &[Input],
    columns: Option<&Columns>,
) -> Result<Vec<(OsString, Vec<u8>)>, Failure> {
    let mut text = template.iter().map(|word| word.as_bytes()).collect::<Vec<_>>().join(&b' ');
    let are_commands = template.is_empty() && columns.is_none();
    if !are_commands && text.trim_ascii().is_empty() {
        return Err(Failure::new(ExitCode::Usage, "no command before the arguments (`gzip {} ::: a b`)"));
    }
    let choice = Choice::of(inputs);
    let count = choice.count().filter(|&count| count <= COMMANDS_MAX).ok_or_else(|| {
        Failure::new(ExitCode::Usage, format!("the arguments make more than {COMMANDS_MAX} commands"))
    })?;
    if are_commands {
        // As GNU parallel has it: without a command the arguments are commands, and are not quoted.
        let made = (0..count).map(|number| choice.arguments(inputs, number).join(&b' '));
        return Ok(made.map(|line| (OsString::from_vec(line.clone()), line)).collect());
    }
    if parts(&text).iter().all(|part| matches!(part, Part::Text(_))) {
        text.extend_from_slice(b" {}");
    }
    let parts = parts(&text);
    // How many columns there are, each argument says for itself; one that is missing is empty, as in GNU parallel.
    if columns.is_none()
        && let Some(missing) = parts.iter().find_map(|part| part.beyond(inputs.len()))
    {
        let there = match inputs.len() {
            1 => "there is 1 list".to_owned(),
            count => format!("there are {count} lists"),
        };
        let text = format!("{{{missing}}}: {there} of arguments");
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let made = (0..count).map(|number| {
        let chosen = choice.arguments(inputs, number);
        match columns {
            None => command(&parts, &chosen, number),
            Some(columns) => {
                let split: Vec<Vec<u8>> = chosen.iter().flat_map(|argument| columns.of(argument)).collect();
                command(&parts, &split.iter().map(Vec::as_slice).collect::<Vec<_>>(), number)
            }
        }
    });
    Ok(made.collect())
}

fn command(parts: &[Part<'_>], chosen: &[&[u8]], number: usize) -> (OsString, Vec<u8>) {
    let mut text = Vec::new();
    for part in parts {
        match part {
            Part::Text(plain) => text.extend_from_slice(plain),
            Part::Number => text.extend_from_slice((number + 1).to_string().as_bytes()),
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
    (OsString::from_vec(text), chosen.join(&b' '))
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

enum Part<'a> {
    Text(&'a [u8]),
    Number,
    /// Of the list with this number, from 1; `None`: of all.
    Argument {
        place: Option<usize>,
        form: Form,
    },
}

impl Part<'_> {
    /// The list that it names and that is not there.
    fn beyond(&self, lists: usize) -> Option<usize> {
        match self {
            Self::Argument { place: Some(place), .. } if *place > lists => Some(*place),
            _ => None,
        }
    }
}

fn parts(text: &[u8]) -> Vec<Part<'_>> {
    let (mut parts, mut plain, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        let close = text[at..].iter().position(|&byte| byte == b'}').map(|length| at + length);
        let found = close
            .filter(|_| text[at] == b'{')
            .and_then(|close| Some((replacement(&text[at + 1..close])?, close + 1)));
        match found {
            Some((part, next)) => {
                parts.extend((plain < at).then(|| Part::Text(&text[plain..at])));
                parts.push(part);
                (plain, at) = (next, next);
            }
            None => at += 1,
        }
    }
    parts.extend((plain < at).then(|| Part::Text(&text[plain..at])));
    parts
}

fn replacement(inner: &[u8]) -> Option<Part<'static>> {
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

/// Whether a name of a file is more likely a command.
pub(super) fn is_template(name: &Path) -> bool {
    let text = name.as_os_str().as_bytes();
    parts(text).iter().any(|part| !matches!(part, Part::Text(_)))
}

#[cfg(test)]
mod tests {
    use super::super::inputs::split;
    use super::*;

    #[track_caller]
    fn check(words: &str, want: &[&str]) {
        let words: Vec<OsString> = words.split(' ').map(|word| word.replace('_', " ").into()).collect();
        let (command, inputs) = split(&words, &[]).expect("lists");
        let got = commands(&command, &inputs, None).expect("commands");
        let got: Vec<String> = got.into_iter().map(|(text, _)| text.into_string().expect("text")).collect();
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
            let (command, inputs) = split(&words, &[]).expect("lists");
            let columns = ",".parse().expect("a separator");
            let got = commands(&command, &inputs, Some(&columns)).expect("commands");
            let got: Vec<(String, String)> = got
                .into_iter()
                .map(|(text, tag)| (text.into_string().expect("text"), String::from_utf8(tag).expect("text")))
                .collect();
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
            let (command, inputs) = split(&words, &[]).expect("lists");
            let got = commands(&command, &inputs, None).expect("commands");
            let got: Vec<&str> = got.iter().filter_map(|(text, _)| text.to_str()).collect();
            assert_eq!(got, want, "{words:?}");
        };
        check(&[":::", "echo $HOME; exit 3", "x {}"], &["echo $HOME; exit 3", "x {}"]);
        check(&[":::", "gzip", "xz", ":::", "a b"], &["gzip a b", "xz a b"]);
    }

    #[test]
    fn what_cannot_be() {
        let fails = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let (command, inputs) = split(&words, &[]).expect("lists");
            commands(&command, &inputs, None).expect_err("refused").message
        };
        assert!(fails(&["", ":::", "a"]).contains("no command"));
        assert!(fails(&["x {3}", ":::", "a"]).contains("{3}"));
        assert!(fails(&[" ", ":::", "a"]).contains("no command"));
        let many = vec!["a"; 4_000];
        let words = [vec!["x", ":::"], many.clone(), vec![":::"], many].concat();
        assert!(fails(&words).contains("more than"));
    }
}
