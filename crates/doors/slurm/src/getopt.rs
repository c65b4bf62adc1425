//! Parses options like `getopt_long`: clustered short options, joined or separate values, unambiguous prefixes of
//! long names.
//!
//! Absent here: the options of each command ([`crate::options`]), and the meaning of values.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Whether an option has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    /// No value.
    Nothing,
    /// A required value.
    Value,
    /// An optional value, joined to the option.
    Maybe,
}

/// The effect of an option here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The same as in Slurm.
    Same,
    /// Accepted, without effect on a single host.
    Ignored,
    /// Requests an absent feature; with Slurm's message.
    Refused(&'static str),
    /// Counts an absent resource: only zero is accepted; with Slurm's message.
    Lacking(&'static str),
}

/// An option of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Opt {
    /// Its long name; empty: no long name.
    pub long: &'static str,
    /// Its letter.
    pub short: Option<char>,
    pub takes: Takes,
    pub meaning: Meaning,
    /// Alternative long names in Slurm.
    pub also: &'static [&'static str],
}

impl Opt {
    /// The same option, with alternative long names.
    pub(crate) const fn or(self, also: &'static [&'static str]) -> Self {
        Self { also, ..self }
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        [self.long].into_iter().chain(self.also.iter().copied()).filter(|name| !name.is_empty())
    }
}

/// A parsed option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given {
    /// Its long name, else its letter.
    pub name: String,
    pub value: Option<String>,
}

/// Whether options may stand behind operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// The first operand ends the options: the rest belongs to a command.
    Strict,
    /// Anywhere.
    Free,
}

/// Options and operands in their order.
///
/// # Errors
/// In getopt's words, for an option that is unknown, ambiguous, or lacks its value; in Slurm's words, for a refused
/// option.
pub(crate) fn parse(
    table: &[Opt],
    words: &[OsString],
    order: Order,
) -> Result<(Vec<Given>, Vec<OsString>), String> {
    let (mut given, mut operands) = (Vec::new(), Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            operands.extend(words.cloned());
            break;
        } else if let Some(long) = bytes.strip_prefix(b"--") {
            given.push(long_option(table, long, &mut words)?);
        } else if bytes.len() > 1 && bytes[0] == b'-' {
            short_options(table, &bytes[1..], &mut words, &mut given)?;
        } else {
            operands.push(word.clone());
            if order == Order::Strict {
                operands.extend(words.cloned());
                break;
            }
        }
    }
    Ok((given, operands))
}

fn text(bytes: &[u8]) -> String {
    OsStr::from_bytes(bytes).to_string_lossy().into_owned()
}

fn taken(opt: &Opt, value: Option<String>) -> Result<Given, String> {
    let refused = match opt.meaning {
        Meaning::Refused(why) => Some(why).filter(|_| value.as_deref() != Some("none")),
        Meaning::Lacking(why) => Some(why).filter(|_| !value.as_deref().is_some_and(asks_for_none)),
        Meaning::Same | Meaning::Ignored => None,
    };
    if let Some(why) = refused {
        return Err(format!("{}: {why}", shown(opt)));
    }
    let name = match (opt.long, opt.short) {
        ("", Some(letter)) => letter.to_string(),
        (long, _) => long.to_owned(),
    };
    Ok(Given { name, value })
}

/// Whether a value requests zero units: `none`, `0`, `gpu:0`.
fn asks_for_none(value: &str) -> bool {
    value == "none" || value.rsplit([':', '=']).next() == Some("0")
}

/// An option as typed.
pub(crate) fn shown(opt: &Opt) -> String {
    match (opt.long, opt.short) {
        ("", Some(letter)) => format!("-{letter}"),
        (long, _) => format!("--{long}"),
    }
}

fn long_option<'a>(
    table: &[Opt],
    word: &[u8],
    rest: &mut impl Iterator<Item = &'a OsString>,
) -> Result<Given, String> {
    let at = word.iter().position(|&byte| byte == b'=');
    let (name, joined) = (text(&word[..at.unwrap_or(word.len())]), at.map(|at| text(&word[at + 1..])));
    let opt = named(table, &name)?;
    let value = match (opt.takes, joined) {
        (Takes::Nothing, Some(_)) => {
            return Err(format!("option '--{}' doesn't allow an argument", opt.long));
        }
        (Takes::Nothing, None) | (Takes::Maybe, None) => None,
        (_, Some(value)) => Some(value),
        (Takes::Value, None) => {
            let next = rest.next().map(|word| text(word.as_bytes()));
            Some(next.ok_or_else(|| format!("option '--{}' requires an argument", opt.long))?)
        }
    };
    taken(opt, value)
}

/// The option with this name, or the only option with this prefix.
fn named<'a>(table: &'a [Opt], name: &str) -> Result<&'a Opt, String> {
    if let Some(exact) = table.iter().find(|opt| opt.names().any(|known| known == name)) {
        return Ok(exact);
    }
    let begins = |opt: &&Opt| !name.is_empty() && opt.names().any(|known| known.starts_with(name));
    let mut begin = table.iter().filter(begins);
    match (begin.next(), begin.next()) {
        (Some(one), None) => Ok(one),
        (Some(one), Some(two)) => {
            let all: Vec<String> =
                [one, two].into_iter().chain(begin).map(|opt| format!("'--{}'", opt.long)).collect();
            Err(format!("option '--{name}' is ambiguous; possibilities: {}", all.join(" ")))
        }
        (None, _) => Err(format!("unrecognized option '--{name}'")),
    }
}

fn short_options<'a>(
    table: &[Opt],
    word: &[u8],
    rest: &mut impl Iterator<Item = &'a OsString>,
    given: &mut Vec<Given>,
) -> Result<(), String> {
    let mut left = word;
    while let Some((&byte, after)) = left.split_first() {
        let letter = char::from(byte);
        let opt = table.iter().find(|opt| opt.short == Some(letter));
        let opt = opt.ok_or_else(|| format!("invalid option -- '{letter}'"))?;
        let value = match opt.takes {
            Takes::Nothing => {
                given.push(taken(opt, None)?);
                left = after;
                continue;
            }
            Takes::Maybe => (!after.is_empty()).then(|| text(after)),
            Takes::Value if !after.is_empty() => Some(text(after.strip_prefix(b"=").unwrap_or(after))),
            Takes::Value => {
                let next = rest.next().map(|word| text(word.as_bytes()));
                Some(next.ok_or_else(|| format!("option requires an argument -- '{letter}'"))?)
            }
        };
        given.push(taken(opt, value)?);
        return Ok(());
    }
    Ok(())
}

/// Splits a line into words like a shell: at blanks outside of quotes; a backslash escapes the next character; `#` at
/// the start of a word ends the line.
pub(crate) fn words_of(line: &[u8]) -> Vec<OsString> {
    let (mut words, mut word, mut quote, mut inside) = (Vec::new(), Vec::new(), None, false);
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        match (quote, byte) {
            (None, b'#') if !inside => break,
            (None, b'\'' | b'"') => (quote, inside) = (Some(byte), true),
            (Some(open), byte) if open == byte => quote = None,
            (None | Some(b'"'), b'\\') => {
                inside = true;
                word.extend(bytes.next());
            }
            (None, byte) if byte.is_ascii_whitespace() => {
                if std::mem::take(&mut inside) {
                    words.push(OsString::from_vec(std::mem::take(&mut word)));
                }
            }
            (_, byte) => {
                inside = true;
                word.push(byte);
            }
        }
    }
    if inside {
        words.push(OsString::from_vec(word));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn opt(long: &'static str, short: char, takes: Takes, meaning: Meaning) -> Opt {
        Opt { long, short: Some(short), takes, meaning, also: &[] }
    }

    const TABLE: &[Opt] = &[
        opt("jobs", 'j', Takes::Maybe, Meaning::Same),
        opt("job-name", 'J', Takes::Value, Meaning::Same),
        opt("nodes", 'N', Takes::Value, Meaning::Same).or(&["nodelist", "hosts"]),
        opt("noheader", 'h', Takes::Nothing, Meaning::Same),
        opt("verbose", 'v', Takes::Nothing, Meaning::Ignored),
        opt("gpus", 'G', Takes::Value, Meaning::Lacking("no GPU")),
        opt("uid", 'U', Takes::Value, Meaning::Refused("not yours")),
        opt("", 'I', Takes::Maybe, Meaning::Same),
    ];

    #[track_caller]
    fn check(words: &str, order: Order, want: &str) {
        let words: Vec<OsString> = words.split('|').filter(|w| !w.is_empty()).map(OsString::from).collect();
        let got = match parse(TABLE, &words, order) {
            Err(error) => error,
            Ok((given, operands)) => {
                let given =
                    given.iter().map(|it| format!("{}={}", it.name, it.value.as_deref().unwrap_or("-")));
                let operands = operands.iter().map(|word| word.to_string_lossy().into_owned());
                given.chain(["+".to_owned()]).chain(operands).collect::<Vec<_>>().join(" ")
            }
        };
        assert_eq!(got, want, "{words:?}");
    }

    #[test]
    fn options_and_operands() {
        check("-N1|-J|x|run|-h", Order::Strict, "nodes=1 job-name=x + run -h");
        check("-N=1|a|-h", Order::Free, "nodes=1 noheader=- + a");
        check(
            "--jobs=1,2|--jo=3",
            Order::Free,
            "option '--jo' is ambiguous; possibilities: '--jobs' '--job-name'",
        );
        check(
            "--job=1|--job|x",
            Order::Free,
            "option '--job' is ambiguous; possibilities: '--jobs' '--job-name'",
        );
        check("--jobs|x", Order::Free, "jobs=- + x");
        check("--nod|2|--noh", Order::Free, "nodes=2 noheader=- +");
        // Names of one option are not ambiguous.
        check("--nodelist=2|--node|3|--host=4", Order::Free, "nodes=2 nodes=3 nodes=4 +");
        check("-vvh|-j1", Order::Free, "verbose=- verbose=- noheader=- jobs=1 +");
        check("-vN|1|--|-h", Order::Free, "verbose=- nodes=1 + -h");
        check("-I|-I5", Order::Free, "I=- I=5 +");
        check("-|x", Order::Free, "+ - x");
        // Who asks for none of what is not there gets that.
        check("--gpus=0|-G|gpu:0|-Gnone", Order::Free, "gpus=0 gpus=gpu:0 gpus=none +");
    }

    #[test]
    fn faulty_options_are_named() {
        check("--foo", Order::Free, "unrecognized option '--foo'");
        check("-z", Order::Free, "invalid option -- 'z'");
        check("-N", Order::Free, "option requires an argument -- 'N'");
        check("--nodes", Order::Free, "option '--nodes' requires an argument");
        check("--noheader=1", Order::Free, "option '--noheader' doesn't allow an argument");
        check("-G|1", Order::Free, "--gpus: no GPU");
        check("-G|10", Order::Free, "--gpus: no GPU");
        check("--uid=0", Order::Free, "--uid: not yours");
        check("-1", Order::Free, "invalid option -- '1'");
        check("--=", Order::Free, "unrecognized option '--'");
    }

    #[test]
    fn lines_are_parted_as_a_shell_does() {
        let check = |line: &str, want: &[&str]| assert_eq!(words_of(line.as_bytes()), want, "{line}");
        check(" -J 'a b' --mem=4G  ", &["-J", "a b", "--mem=4G"]);
        check("--wrap=\"echo \\\"x\\\" 'y'\" # why", &["--wrap=echo \"x\" 'y'"]);
        check("-o a#b -e \\#c ''", &["-o", "a#b", "-e", "#c", ""]);
        check("'open", &["open"]);
        check("", &[]);
    }

    proptest! {
        #[test]
        fn hostile_words_never_panic(words in proptest::collection::vec(proptest::collection::vec(1..=255u8, 0..12), 0..8)) {
            let words: Vec<OsString> = words.into_iter().map(OsString::from_vec).collect();
            let _ = parse(TABLE, &words, Order::Free);
            words.iter().for_each(|word| drop(words_of(word.as_bytes())));
        }
    }
}
