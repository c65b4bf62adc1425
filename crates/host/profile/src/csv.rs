//! Cells of comma-separated values (RFC 4180). Absent here: tables.
//!
//! Spreadsheets evaluate a cell that begins with `=`, `+`, `-` or `@`, and users choose job names: a quote before the
//! text makes spreadsheets read "text".

use std::borrow::Cow;

/// First characters of a formula, and characters that some programs skip before a formula.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// A text as a cell. Numbers need no quoting.
#[must_use]
pub fn cell(text: &str) -> Cow<'_, str> {
    let text = if text.starts_with(FORMULA) { Cow::Owned(format!("'{text}")) } else { Cow::Borrowed(text) };
    if text.contains(['"', ',', '\n', '\r']) || text.starts_with(' ') || text.ends_with(' ') {
        Cow::Owned(format!("\"{}\"", text.replace('"', "\"\"")))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(plain: &str, want: &str) {
        assert_eq!(cell(plain), want, "{plain:?}");
    }

    #[test]
    fn words_are_quoted_and_formulas_defused() {
        check("plain", "plain");
        check("", "");
        check("a,b", "\"a,b\"");
        check("x,\"y\"", "\"x,\"\"y\"\"\"");
        check("two\nlines", "\"two\nlines\"");
        check(" blank", "\" blank\"");
        check("=1+1", "'=1+1");
        check("+1", "'+1");
        check("-x", "'-x");
        check("@SUM(1)", "'@SUM(1)");
        check("\t=1", "'\t=1");
        check("\r=1", "\"'\r=1\"");
        check("=cmd|\"/c calc\"!A1,2", "\"'=cmd|\"\"/c calc\"\"!A1,2\"");
        check("'quoted", "'quoted");
    }
}
