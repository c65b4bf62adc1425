//! The sizes of the files that a command names: its memory need often follows from them.
//!
//! Looked up as the calling user, before the job waits, with a bounded number of calls. Files that an option or a
//! redirection names as output are left out. Absent: the use of the size (`pinfold advise`), and files that the command
//! finds by itself.

use std::collections::BTreeSet;
use std::ffi::OsString;

use pinfold_proto::program;

/// The most words of a command that are looked up.
const LOOKED_UP_MAX: usize = 32;
/// No word is looked up that is longer, in bytes: the kernel knows no longer path.
const WORD_MAX: usize = 4_095;
/// Options and operators after which an output is named.
const OUTPUTS: [&str; 9] = ["-o", "-O", "--output", "--out", "--outfile", ">", ">>", "2>", "&>"];
/// Keys of an output in `key=value`.
const OUTPUT_KEYS: [&str; 4] = ["of", "out", "--output", "--out"];

/// The size of all regular files that the command names, in bytes; `None`: it names none.
pub(super) fn bytes(command: &[OsString]) -> Option<u64> {
    let words: Vec<String> = match command {
        [shell, option, line] if shell.to_str().is_some_and(program::is_shell) && option == "-c" => {
            let words = line.to_string_lossy();
            words.split_whitespace().skip(1).map(str::to_owned).collect()
        }
        _ => command.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    sum(named(&words), |path| {
        let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
        found.map(|file| file.len())
    })
}

/// The words that may name an input, each once, in their order.
fn named(words: &[String]) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    let mut before = "";
    for word in words {
        let after_output = OUTPUTS.contains(&before);
        before = word;
        let (key, value) = match word.split_once('=') {
            Some((key, value)) => (key, value),
            None => ("", word.as_str()),
        };
        if after_output || OUTPUT_KEYS.contains(&key) || word.starts_with('>') {
            continue;
        }
        let path = value.trim_start_matches('<').trim_matches(['\'', '"', ';']);
        if !path.is_empty() && path.len() <= WORD_MAX && !path.starts_with('-') && seen.insert(path) {
            found.push(path);
        }
    }
    found.truncate(LOOKED_UP_MAX);
    found
}

fn sum(paths: Vec<&str>, size: impl Fn(&str) -> Option<u64>) -> Option<u64> {
    let sizes: Vec<u64> = paths.into_iter().filter_map(size).collect();
    (!sizes.is_empty()).then(|| sizes.into_iter().fold(0, u64::saturating_add))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[&str], want: &[&str]) {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        assert_eq!(named(&words), want, "{words:?}");
    }

    #[test]
    fn words_that_may_name_an_input() {
        check(&["-t", "4", "ref.fa", "reads.fq", "-o", "out.bam"], &["4", "ref.fa", "reads.fq"]);
        check(&["--in=a.txt", "of=b.img", "if=c.img", "--output=d"], &["a.txt", "c.img"]);
        check(&["<in.txt", "'a b", "x;", "x", ">out", ">", "out2"], &["in.txt", "a b", "x"]);
        check(&["", "-", "--", "=", "<"], &[]);
        let long = "x".repeat(WORD_MAX + 1);
        check(&[&long], &[]);
        let many: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        assert_eq!(named(&many).len(), LOOKED_UP_MAX);
    }

    #[test]
    fn sizes_add_up_and_never_overflow() {
        let of = |path: &str| path.parse().ok();
        assert_eq!(sum(vec!["3", "x", "4"], of), Some(7));
        assert_eq!(sum(vec!["x"], of), None);
        assert_eq!(sum(vec!["18446744073709551615", "4"], of), Some(u64::MAX));
    }

    #[test]
    fn files_are_looked_up() {
        let command = |words: &[&str]| bytes(&words.iter().map(OsString::from).collect::<Vec<_>>());
        let manifest = std::fs::metadata("Cargo.toml").unwrap().len();
        assert_eq!(command(&["sort", "Cargo.toml", "Cargo.toml", "src", "no-such"]), Some(manifest));
        assert_eq!(command(&["/bin/sh", "-c", "sort -o x 'Cargo.toml' | head"]), Some(manifest));
        assert_eq!(command(&["Cargo.toml"]), None);
    }
}
