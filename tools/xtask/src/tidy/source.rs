//! A Rust file as lines of product, test and comment, read by a lexer of its own: strings, comments and characters are
//! told apart, types and macros are not. Absent: which files there are ([`super`]).

use std::collections::BTreeSet;
use std::ops::Range;

use super::paths;

/// A file without its comments, words in quotes and inner tests.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// The text of the product alone: comments, tests and words in quotes are spaces; line breaks stand.
    pub(super) code: String,
    /// Lines with code outside of tests.
    pub(super) product: usize,
    /// Lines with code of tests.
    pub(super) test: usize,
    /// Lines with a comment and no code.
    pub(super) comment: usize,
    /// Comments outside of tests that begin a line, without their slashes, one after the other.
    pub(super) words: String,
    /// Modules that are files of their own and compiled for tests alone.
    pub(super) test_modules: Vec<String>,
    /// Paths of its `use` statements.
    pub(super) imports: Vec<Vec<String>>,
    /// Paths elsewhere in its code that begin with `crate::` or `super::`.
    pub(super) named: Vec<Vec<String>>,
}

impl Source {
    /// Reads a file; `is_test`: all of it is a test.
    pub(super) fn read(text: &str, is_test: bool) -> Self {
        let mut lexed = lex(text);
        let ranges = tests(&lexed.masked);
        let tests: Vec<Range<usize>> = ranges.iter().map(|range| lines_of(&lexed.masked, range)).collect();
        let test_modules =
            ranges.iter().filter_map(|range| module_file(&lexed.masked[range.clone()])).collect();
        for range in ranges {
            let spaces: String = lexed.masked[range.clone()]
                .bytes()
                .map(|byte| if byte == b'\n' { '\n' } else { ' ' })
                .collect();
            lexed.masked.replace_range(range, &spaces);
        }
        let in_test = |line: usize| is_test || tests.iter().any(|lines| lines.contains(&line));
        let tested = lexed.code.iter().filter(|line| in_test(**line)).count();
        let mut words = String::new();
        for (number, line) in text.lines().enumerate() {
            let comment = line.trim_start();
            if comment.starts_with("//") && !in_test(number) {
                words.push_str(comment.trim_start_matches(['/', '!']));
                words.push('\n');
            }
        }
        Self {
            imports: paths::imports(&lexed.masked),
            named: paths::named(&lexed.masked),
            code: lexed.masked,
            product: lexed.code.len() - tested,
            test: tested,
            comment: lexed.comments.difference(&lexed.code).count(),
            words,
            test_modules,
        }
    }
}

struct Lexed {
    masked: String,
    code: BTreeSet<usize>,
    comments: BTreeSet<usize>,
}

/// The text with comments and words in quotes as spaces, and the lines that have code and comments.
fn lex(text: &str) -> Lexed {
    let mut lexed =
        Lexed { masked: String::with_capacity(text.len()), code: BTreeSet::new(), comments: BTreeSet::new() };
    let (mut at, mut line) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        let (length, is_comment, is_quoted) = token(rest, text[..at].chars().next_back());
        let piece = &rest[..length];
        let lines = line..=line + piece.matches('\n').count();
        line = *lines.end();
        if is_comment {
            lexed.comments.extend(lines);
        } else if !piece.trim().is_empty() {
            lexed.code.extend(lines);
        }
        if is_comment || is_quoted {
            lexed.masked.extend(piece.chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }));
        } else {
            lexed.masked.push_str(piece);
        }
        at += length;
    }
    lexed
}

/// How long the token is that a text begins with, whether it is a comment, and whether it is quoted.
fn token(rest: &str, before: Option<char>) -> (usize, bool, bool) {
    let upto = |end: Option<usize>| end.unwrap_or(rest.len());
    if rest.starts_with("//") {
        return (upto(rest.find('\n')), true, false);
    }
    if rest.starts_with("/*") {
        return (upto(rest.find("*/").map(|end| end + 2)), true, false);
    }
    let is_word = before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let prefix =
        if is_word { 0 } else { rest.find(|letter| !matches!(letter, 'b' | 'c' | 'r')).unwrap_or(0) };
    let (head, tail) = rest.split_at(prefix.min(2));
    let hashes = tail.len() - tail.trim_start_matches('#').len();
    if head.contains('r') && tail[hashes..].starts_with('"') {
        let end = format!("\"{}", "#".repeat(hashes));
        let from = prefix + hashes + 1;
        return (upto(rest[from..].find(&end).map(|at| from + at + end.len())), false, true);
    }
    if tail.starts_with('"') && !head.contains('r') {
        return (prefix + quoted(tail), false, true);
    }
    if rest.starts_with('\'')
        && let Some(length) = character(rest)
    {
        return (length, false, true);
    }
    (rest.chars().next().map_or(1, char::len_utf8), false, false)
}

/// The length of a string literal, its quotes included.
fn quoted(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a character literal; `None`: a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut letters = text.char_indices().skip(1);
    let (_, first) = letters.next()?;
    let end = if first == '\\' { text[3..].find('\'')? + 3 } else { letters.next()?.0 };
    text[end..].starts_with('\'').then_some(end + 1)
}

/// Modules and items for tests alone, as ranges of bytes in a text without comments.
fn tests(masked: &str) -> Vec<Range<usize>> {
    let marks = ["#[cfg(test)", "#[cfg(all(test", "#[cfg(any(test"];
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, _) in masked.match_indices("#[cfg(") {
        if !marks.iter().any(|mark| masked[at..].starts_with(mark))
            || found.last().is_some_and(|last| last.contains(&at))
        {
            continue;
        }
        let Some(begins) = masked[at..].find(']').map(|end| at + end + 1) else { continue };
        found.push(at..item_end(masked, begins));
    }
    found
}

/// Where the item ends that begins at a byte: behind its block, or behind its semicolon.
fn item_end(masked: &str, from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, letter) in masked[from..].char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth <= 1 => return from + at + 1,
            '}' => depth -= 1,
            ';' if depth == 0 => return from + at + 1,
            _ => {}
        }
    }
    masked.len()
}

/// The lines that a range of bytes touches, counted from 0.
fn lines_of(masked: &str, range: &Range<usize>) -> Range<usize> {
    let breaks = |end: usize| masked.bytes().take(end).filter(|byte| *byte == b'\n').count();
    breaks(range.start)..breaks(range.end) + 1
}

/// The name of a module whose text is a file of its own.
fn module_file(item: &str) -> Option<String> {
    let (_, declared) = item.rsplit_once("mod ")?;
    let name = declared.strip_suffix(';')?.trim();
    name.chars().all(|letter| letter.is_alphanumeric() || letter == '_').then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r##"//! About what it is.
use a::b; // not this comment

/// One of those.
fn f<'a>(c: &'a str) -> char {
    let _ = ("// no comment", r#"{ "}" "#, b'\'', '"');
    /* two
       lines */
    '{'
}

#[cfg(test)]
mod only_here;

#[cfg(test)]
mod tests {
    // a comment of a test
    fn g() {}
}
"##;

    #[test]
    fn product_tests_and_comments_are_told_apart() {
        let file = Source::read(FILE, false);
        assert_eq!((file.product, file.test, file.comment), (5, 6, 5), "{}", file.code);
        assert_eq!(file.words, " About what it is.\n One of those.\n");
        assert_eq!(file.test_modules, ["only_here"]);
        assert!(
            file.code.contains("use a::b;") && !file.code.contains("comment") && !file.code.contains("fn g")
        );
        assert_eq!(file.code.lines().count(), FILE.lines().count());
        let test = Source::read(FILE, true);
        assert_eq!((test.product, test.test), (0, 11));
    }
}
