//! A command that is run once for each argument: the words of GNU parallel.
//!
//! Arguments are data: each is quoted for the shell where it is put in. Absent here: GNU parallel's rarer replacement
//! strings, and programs in Perl.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use pinfold_proto::ExitCode;

use pinfold_client::Failure;

/// More commands than this are a slip of the keyboard.
const COMMANDS_MAX: usize = 10_000_000;

/// The words before the first `:::`, and the lists of arguments behind each.
pub(super) fn split(words: &[OsString]) -> (Vec<&OsString>, Vec<Vec<Vec<u8>>>) {
    let mut parts = words.split(|word| word == ":::");
    let command = parts.next().unwrap_or_default().iter().collect();
    let list = |part: &[OsString]| part.iter().map(|word| word.as_bytes().to_vec()).collect();
    (command, parts.map(list).collect())
}

/// The arguments in a file, one a line.
pub(super) fn arguments_of(file: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let mut text = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().read_to_end(&mut text)
    } else {
        File::open(file).and_then(|mut file| file.read_to_end(&mut text))
    };
    read.map_err(|error| {
        let code =
            if error.kind() == std::io::ErrorKind::NotFound { ExitCode::Usage } else { ExitCode::Failed };
        Failure::new(code, format!("--arg-file {}: {error}", file.display()))
    })?;
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    if text.is_empty() {
        return Ok(Vec::new());
    }
    Ok(text
        .split(|&byte| byte == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line).to_vec())
        .collect())
}

/// One command for each combination of arguments, and the arguments of each as a tag shows them.
pub(super) fn commands(
    template: &[&OsString],
    lists: &[Vec<Vec<u8>>],
) -> Result<Vec<(OsString, Vec<u8>)>, Failure> {
    let mut text = template.iter().map(|word| word.as_bytes()).collect::<Vec<_>>().join(&b' ');
    if text.trim_ascii().is_empty() {
        return Err(Failure::new(ExitCode::Usage, "no command before the arguments (`gzip {} ::: a b`)"));
    }
    let count = lists.iter().try_fold(1_usize, |all, list| all.checked_mul(list.len()));
    let count = count.filter(|&count| count <= COMMANDS_MAX).ok_or_else(|| {
        Failure::new(ExitCode::Usage, format!("the arguments make more than {COMMANDS_MAX} commands"))
    })?;
    if parts(&text).iter().all(|part| matches!(part, Part::Text(_))) {
        text.extend_from_slice(b" {}");
    }
    let parts = parts(&text);
    if let Some(missing) = parts.iter().find_map(|part| part.beyond(lists.len())) {
        let text = format!("{{{missing}}}: there are {} lists of arguments", lists.len());
        return Err(Failure::new(ExitCode::Usage, text));
    }
    Ok((0..count).map(|number| command(&parts, lists, number)).collect())
}

fn command(parts: &[Part<'_>], lists: &[Vec<Vec<u8>>], number: usize) -> (OsString, Vec<u8>) {
    // The last list runs fastest.
    let (mut rest, mut chosen) = (number, vec![&b""[..]; lists.len()]);
    for (place, list) in lists.iter().enumerate().rev() {
        chosen[place] = &list[rest % list.len()];
        rest /= list.len();
    }
    let mut text = Vec::new();
    for part in parts {
        match part {
            Part::Text(plain) => text.extend_from_slice(plain),
            Part::Number => text.extend_from_slice((number + 1).to_string().as_bytes()),
            Part::Argument { place: Some(place), form } => quote(&form.of(chosen[place - 1]), &mut text),
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

/// The lists of arguments: those in files, then those on the command line.
pub(super) fn lists(files: &[PathBuf], given: Vec<Vec<Vec<u8>>>) -> Result<Vec<Vec<Vec<u8>>>, Failure> {
    let mut lists: Vec<Vec<Vec<u8>>> =
        files.iter().map(|file| arguments_of(file)).collect::<Result<_, _>>()?;
    lists.extend(given);
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &str, want: &[&str]) {
        let words: Vec<OsString> = words.split(' ').map(|word| word.replace('_', " ").into()).collect();
        let (command, lists) = split(&words);
        let got = commands(&command, &lists).expect("commands");
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
    }

    #[test]
    fn what_cannot_be() {
        let fails = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let (command, lists) = split(&words);
            commands(&command, &lists).expect_err("refused").message
        };
        assert!(fails(&["x {3}", ":::", "a"]).contains("{3}"));
        assert!(fails(&[" ", ":::", "a"]).contains("no command"));
        let many = vec!["a"; 4_000];
        let words = [vec!["x", ":::"], many.clone(), vec![":::"], many].concat();
        assert!(fails(&words).contains("more than"));
    }
}
