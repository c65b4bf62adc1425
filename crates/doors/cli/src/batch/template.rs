//! A command that is run once for each argument: the words of GNU parallel.
//!
//! Arguments are data: each is quoted for the shell where it is put in. Without a command they are commands.
//!
//! Absent here: programs in Perl, and replacement strings that need the number of all commands.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pinfold_client::Failure;
use pinfold_proto::ExitCode;

/// The replacement string for the number of a slot, which is known when the command starts.
pub(super) const SLOT: &[u8] = b"{%}";

/// Replacement strings that would otherwise be taken for text.
const REFUSED: [&str; 4] = ["{=", "{##}", "{0#}", "{0%}"];

/// A command, and the places in it where arguments are put in.
pub(super) struct Template {
    text: Vec<u8>,
    /// Whether words are repeated for each of the arguments that they take.
    repeats: bool,
    parts: Vec<Part>,
}

impl Template {
    /// From a command that takes the arguments of `lists` lists; `None`: of any number. With `repeats` a word that
    /// takes all arguments is repeated for each of them.
    pub(super) fn of(words: &[&OsString], lists: Option<usize>, repeats: bool) -> Result<Self, Failure> {
        let usage = |text| Err(Failure::new(ExitCode::Usage, text));
        let text = words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>().join(&b' ');
        if !words.is_empty() && text.trim_ascii().is_empty() {
            return usage("no command before the arguments (`gzip {} ::: a b`)".to_owned());
        }
        let is_there = |string: &str| text.windows(string.len()).any(|part| part == string.as_bytes());
        if let Some(string) = REFUSED.iter().find(|string| is_there(string)) {
            return usage(format!("`{string}` is a replacement string of GNU parallel's that is not there"));
        }
        let mut template = Self { text, repeats, parts: Vec::new() };
        template.name(&[]);
        if let Some(missing) = template.parts.iter().find_map(|part| part.beyond(lists?)) {
            let there = match lists {
                Some(1) => "there is 1 list".to_owned(),
                count => format!("there are {} lists", count.unwrap_or_default()),
            };
            return usage(format!("{{{missing}}}: {there} of arguments"));
        }
        Ok(template)
    }

    /// Lets these names stand for the arguments with their numbers.
    pub(super) fn name(&mut self, names: &[Vec<u8>]) {
        self.parts = match (self.text.is_empty(), self.repeats) {
            // Like GNU parallel: without a command the arguments are commands, and are not quoted.
            (true, _) => vec![Part::Command],
            (_, false) => parts(&self.text, names),
            (_, true) => {
                let words = self.text.split_inclusive(|&byte| byte == b' ');
                words.flat_map(|word| word_parts(word, names)).collect()
            }
        };
        if self.parts.iter().all(|part| matches!(part, Part::Text(_))) {
            let all = Part::Argument { place: None, form: Form::Whole(0) };
            self.parts.extend([Part::Text(b" ".to_vec()), all]);
        }
    }

    /// Whether the template has a place for the number of a slot.
    pub(super) fn names_slot(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Slot))
    }

    /// The command with this number, from 1, for these arguments.
    pub(super) fn command(&self, chosen: &[Vec<u8>], number: u64) -> Vec<u8> {
        let mut text = Vec::new();
        put(&self.parts, chosen, number, &mut text);
        text
    }
}

fn put(parts: &[Part], chosen: &[Vec<u8>], number: u64, text: &mut Vec<u8>) {
    for part in parts {
        match part {
            Part::Text(plain) => text.extend_from_slice(plain),
            Part::Command => text.extend_from_slice(&chosen.join(&b' ')),
            Part::Number => text.extend_from_slice(number.to_string().as_bytes()),
            Part::Slot => text.extend_from_slice(SLOT),
            Part::Argument { place: Some(place), form } => {
                let before = if *place < 0 { chosen.len() } else { usize::MAX };
                let argument = chosen.get(before.wrapping_add_signed(*place));
                argument.into_iter().for_each(|argument| quote(&form.of(argument), text));
            }
            Part::Argument { place: None, form } => {
                let own = [Part::Argument { place: Some(1), form: *form }];
                put_each(&own, chosen, number, text);
            }
            Part::Word(parts) => put_each(parts, chosen, number, text),
        }
    }
}

/// Puts in parts for each of the arguments, with blanks between them.
fn put_each(parts: &[Part], chosen: &[Vec<u8>], number: u64, text: &mut Vec<u8>) {
    for (at, argument) in chosen.chunks(1).enumerate() {
        text.extend_from_slice(if at > 0 { b" " } else { b"" });
        put(parts, argument, number, text);
    }
}

/// The part of a path that is put in; numbers count the endings that are left out, or taken.
#[derive(Debug, Clone, Copy)]
enum Form {
    Whole(usize),
    Name(usize),
    Directory,
    /// The directory as written; may be empty.
    Before,
    Ending(usize),
}

impl Form {
    fn of(self, argument: &[u8]) -> Vec<u8> {
        let path = Path::new(OsStr::from_bytes(argument));
        let name = || path.file_name().map_or(argument, OsStr::as_bytes);
        let part = match self {
            Self::Whole(endings) => argument.get(..ending_at(argument, endings)).unwrap_or_default(),
            Self::Name(endings) => &name()[..ending_at(name(), endings)],
            Self::Ending(endings) => name().get(ending_at(name(), endings) + 1..).unwrap_or_default(),
            Self::Before => &argument[..argument.iter().rposition(|&byte| byte == b'/').unwrap_or(0)],
            Self::Directory => match path.parent().map(Path::as_os_str) {
                Some(directory) if !directory.is_empty() => directory.as_bytes(),
                _ => b".",
            },
        };
        part.to_vec()
    }
}

/// Where the last `endings` endings of a path's last part begin, with the dot before them; its length, if it has fewer.
fn ending_at(path: &[u8], endings: usize) -> usize {
    let mut at = path.len();
    for _ in 0..endings {
        match path[..at].iter().rposition(|&byte| byte == b'.' || byte == b'/') {
            Some(dot) if path[dot] == b'.' => at = dot,
            _ => return path.len(),
        }
    }
    at
}

#[derive(Debug)]
enum Part {
    Text(Vec<u8>),
    /// All arguments, as they are.
    Command,
    Number,
    Slot,
    /// A word that is repeated for each argument.
    Word(Vec<Part>),
    /// An argument of the list with this number, from 1, or from -1 at the end; `None`: of all.
    Argument {
        place: Option<isize>,
        form: Form,
    },
}

impl Part {
    /// The first missing list that the template names.
    fn beyond(&self, lists: usize) -> Option<isize> {
        match self {
            Self::Argument { place: Some(place), .. } if place.unsigned_abs() > lists => Some(*place),
            _ => None,
        }
    }
}

/// The parts of a word and of the blank behind it; a word that takes all arguments is repeated.
fn word_parts(word: &[u8], names: &[Vec<u8>]) -> Vec<Part> {
    let bare = word.trim_ascii_end();
    let mut own = parts(bare, names);
    if own.iter().any(|part| matches!(part, Part::Argument { place: None, .. })) {
        // Within the word there is a single argument.
        own = vec![Part::Word(own)];
    }
    own.push(Part::Text(word[bare.len()..].to_vec()));
    own
}

fn parts(text: &[u8], names: &[Vec<u8>]) -> Vec<Part> {
    let (mut parts, mut plain, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        let close = text[at..].iter().position(|&byte| byte == b'}').map(|length| at + length);
        let found = close
            .filter(|_| text[at] == b'{')
            .and_then(|close| Some((replacement(&text[at + 1..close], names)?, close + 1)));
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

/// The text between braces, if it is a replacement string.
fn replacement(inner: &[u8], names: &[Vec<u8>]) -> Option<Part> {
    match inner {
        b"#" => return Some(Part::Number),
        b"%" => return Some(Part::Slot),
        _ => {}
    }
    let named = (1..).zip(names).find_map(|(place, name)| {
        let form = form(inner.strip_prefix(name.as_slice()).filter(|_| !name.is_empty())?)?;
        Some(Part::Argument { place: Some(place), form })
    });
    let digits = inner.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'-').count();
    let place = match std::str::from_utf8(&inner[..digits]).ok()? {
        "" => Some(None),
        number => number.parse().ok().filter(|&place: &isize| place != 0).map(Some),
    };
    named.or_else(|| Some(Part::Argument { place: place?, form: form(&inner[digits..])? }))
}

fn form(text: &[u8]) -> Option<Form> {
    let dots = |text: &[u8]| (text.len() <= 3 && text.iter().all(|&byte| byte == b'.')).then_some(text.len());
    match text {
        b"//" => Some(Form::Directory),
        b"+/" => Some(Form::Before),
        [b'/', rest @ ..] => dots(rest).map(Form::Name),
        [b'+', rest @ ..] => dots(rest).filter(|&dots| dots > 0).map(Form::Ending),
        _ => dots(text).map(Form::Whole),
    }
}

/// Adds a word as a shell reads it back. A [`SLOT`] in the word does not appear in the text.
fn quote(word: &[u8], text: &mut Vec<u8>) {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./:,+@%=".contains(byte);
    if !word.is_empty() && word.iter().all(plain) {
        return text.extend_from_slice(word);
    }
    text.push(b'\'');
    for &byte in word {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            b'%' if text.ends_with(b"{") => text.extend_from_slice(b"''%"),
            _ => text.push(byte),
        }
    }
    text.push(b'\'');
}

/// Whether a word has a place for an argument.
pub(super) fn is_template(word: &OsStr) -> bool {
    parts(word.as_bytes(), &[]).iter().any(|part| !matches!(part, Part::Text(_)))
}

#[cfg(test)]
mod tests {
    use super::super::inputs::tests::read_all;
    use super::super::inputs::{Choice, Columns};
    use super::*;

    /// The commands that these words make.
    fn commands(words: &[OsString], columns: Option<&Columns>) -> Vec<String> {
        let (command, inputs) = read_all(words);
        let lists = columns.is_none().then_some(inputs.len());
        let template = Template::of(&command, lists, false).expect("a command");
        let choice = Choice::of(&inputs);
        let command = |number: usize| {
            let chosen = choice.arguments(&inputs, number);
            let split = |argument: &&[u8]| {
                columns.map_or_else(|| vec![argument.to_vec()], |columns| columns.of(argument))
            };
            let values: Vec<Vec<u8>> = chosen.iter().flat_map(split).collect();
            String::from_utf8(template.command(&values, number as u64 + 1)).expect("text")
        };
        (0..choice.count().expect("few")).map(command).collect()
    }

    #[track_caller]
    fn check(words: &str, want: &[&str]) {
        let words: Vec<OsString> = words.split(' ').map(|word| word.replace('_', " ").into()).collect();
        assert_eq!(commands(&words, None), want, "{words:?}");
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
            assert_eq!(got, want, "{words:?}");
        };
        check(&["x", "{2}", "{1.}", ":::", "a.c, b c"], &["x 'b c' a"]);
        check(&["x", ":::", "a,b"], &["x a b"]);
        check(&["x", "{3}-{1}", ":::", "a,b"], &["x -a"]);
        check(&["x", "{1}", "{2}", "{3}", ":::", "a,b", ":::", "1", "2"], &["x a b 1", "x a b 2"]);
    }

    /// The answers of GNU parallel with `--plus`.
    #[test]
    fn parts_of_paths() {
        let check = |string: &str, want: [&str; 3]| {
            let words = ["x", string, ":::", "d.x/a.tar.gz.z", "b", "/r/c.d"].map(OsString::from);
            assert_eq!(commands(&words, None), want.map(|part| format!("x {part}")), "{string}");
        };
        check("{.}", ["d.x/a.tar.gz", "b", "/r/c"]);
        check("{..}", ["d.x/a.tar", "b", "/r/c.d"]);
        check("{...}", ["d.x/a", "b", "/r/c.d"]);
        check("{/.}", ["a.tar.gz", "b", "c"]);
        check("{/..}", ["a.tar", "b", "c.d"]);
        check("{+/}", ["d.x", "''", "/r"]);
        check("{+.}", ["z", "''", "d"]);
        check("{+..}", ["gz.z", "''", "''"]);
        check("{+...}", ["tar.gz.z", "''", "''"]);
        check("{-1/}", ["a.tar.gz.z", "b", "c.d"]);
        check("{....}{+}", ["{....}{+} d.x/a.tar.gz.z", "{....}{+} b", "{....}{+} /r/c.d"]);
    }

    #[test]
    fn words_are_repeated() {
        let template = Template::of(&[&"x a{.}b {2}  {}{#} 'c {}'".into()], None, true).expect("a command");
        let made = |arguments: &[&str]| {
            let arguments: Vec<Vec<u8>> = arguments.iter().map(|text| text.as_bytes().to_vec()).collect();
            String::from_utf8(template.command(&arguments, 7)).expect("text")
        };
        assert_eq!(made(&["1.x", "2"]), "x a1b a2b 2  1.x7 27 'c 1.x' 2'");
        assert_eq!(made(&["1"]), "x a1b   17 'c 1'");
        assert_eq!(made(&[]), "x     'c ");
    }

    #[test]
    fn arguments_have_names() {
        let mut template =
            Template::of(&[&"x {n} {first.} {} {other}".into()], None, false).expect("a command");
        template.name(&[b"first".to_vec(), b"n".to_vec()]);
        let made = template.command(&[b"a.b".to_vec(), b"c d".to_vec()], 1);
        assert_eq!(String::from_utf8(made).expect("text"), "x 'c d' a a.b 'c d' {other}");
    }

    #[test]
    fn a_slot_is_no_argument() {
        check("x_{%}_{} ::: {%} a{%}", &["x {%} '{''%}'", "x {%} 'a{''%}'"]);
    }

    #[test]
    fn without_a_command_the_arguments_are_commands() {
        let check = |words: &[&str], want: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let got = commands(&words, None);
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
            Template::of(&command, Some(inputs.len()), false).err().expect("refused").message
        };
        assert!(fails(&["", ":::", "a"]).contains("no command"));
        assert!(fails(&["x {3}", ":::", "a"]).contains("{3}"));
        assert!(fails(&["x {-2}", ":::", "a"]).contains("{-2}"));
        assert!(fails(&["x {= $_++ =}", ":::", "a"]).contains("`{=`"));
        assert!(fails(&["x {##}", ":::", "a"]).contains("`{##}`"));
        assert!(fails(&[" ", ":::", "a"]).contains("no command"));
    }
}
