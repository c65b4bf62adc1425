//! Formats: squeue's and sinfo's `%.18i`, their `-O NAME:.20`, sacct's `NAME%20`.
//!
//! Absent here: what the fields say.

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    /// The letter, or the name.
    pub field: String,
    /// How wide it is; `None`: as wide as its text.
    pub width: Option<usize>,
    /// Whether it lies at the right.
    pub right: bool,
    /// What stands before it, of the first column alone,
    pub before: String,
    /// and behind it.
    pub after: String,
}

impl Column {
    /// Text in this column.
    pub(crate) fn write(&self, text: &str, out: &mut String) {
        out.push_str(&self.before);
        match self.width {
            None => out.push_str(text),
            Some(width) => padded(text, width, self.right, out),
        }
        out.push_str(&self.after);
    }
}

/// Text of just this width: cut, or with blanks.
pub(crate) fn padded(text: &str, width: usize, right: bool, out: &mut String) {
    let count = text.chars().count();
    let blanks = width.saturating_sub(count);
    if right {
        out.extend(std::iter::repeat_n(' ', blanks));
    }
    out.extend(text.chars().take(width));
    if !right {
        out.extend(std::iter::repeat_n(' ', blanks));
    }
}

/// `%[.][WIDTH]LETTER`, with any text between; `%%` is a `%`.
///
/// # Errors
/// A letter that `known` does not know.
pub(crate) fn of_letters(format: &str, known: impl Fn(char) -> bool) -> Result<Vec<Column>, String> {
    let mut columns: Vec<Column> = Vec::new();
    let mut between = String::new();
    let mut rest = format.chars().peekable();
    let mut first = String::new();
    while let Some(c) = rest.next() {
        if c != '%' {
            between.push(c);
            continue;
        }
        if rest.peek() == Some(&'%') {
            rest.next();
            between.push('%');
            continue;
        }
        let right = rest.next_if_eq(&'.').is_some();
        let mut width = String::new();
        while let Some(digit) = rest.next_if(char::is_ascii_digit) {
            width.push(digit);
        }
        let Some(letter) = rest.next() else { break };
        if !known(letter) {
            return Err(format!("Invalid job format specification: {letter}"));
        }
        match columns.last_mut() {
            Some(last) => last.after = std::mem::take(&mut between),
            None => first = std::mem::take(&mut between),
        }
        let width = width.parse().ok().filter(|&width| width > 0);
        columns.push(Column {
            field: letter.to_string(),
            width,
            right,
            before: String::new(),
            after: String::new(),
        });
    }
    if let Some(last) = columns.last_mut() {
        last.after = between;
    }
    if let Some(one) = columns.first_mut() {
        one.before = first;
    }
    Ok(columns)
}

/// `NAME[:[.][WIDTH][SUFFIX]],...`: 20 wide unless it is said; a suffix alone, with no width, is as wide as the text.
pub(crate) fn of_names(format: &str) -> Vec<Column> {
    let mut columns = Vec::new();
    for part in format.split(',').filter(|part| !part.is_empty()) {
        let (name, spec) = part.split_once(':').map_or((part, None), |(name, spec)| (name, Some(spec)));
        let (mut width, mut right, mut after) = (Some(20), false, String::new());
        if let Some(spec) = spec {
            let rest = spec.strip_prefix('.');
            right = rest.is_some();
            let rest = rest.unwrap_or(spec);
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            after = rest[digits..].to_owned();
            width = match rest[..digits].parse() {
                Ok(0) | Err(_) if !after.is_empty() => None,
                Ok(width) => Some(width),
                Err(_) => Some(20),
            };
        }
        columns.push(Column { field: name.trim().to_owned(), width, right, before: String::new(), after });
    }
    columns
}

/// `NAME[%[-]WIDTH],...`.
///
/// # Errors
/// A width that is none.
pub(crate) fn of_sacct(format: &str) -> Result<Vec<Column>, String> {
    let mut columns = Vec::new();
    for part in format.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, width) = part.split_once('%').map_or((part, None), |(name, width)| (name, Some(width)));
        let mut column = Column {
            field: name.to_owned(),
            width: None,
            right: true,
            before: String::new(),
            after: String::new(),
        };
        if let Some(text) = width {
            let digits = text.strip_prefix('-');
            column.right = digits.is_none();
            let width = digits.unwrap_or(text).parse::<usize>();
            column.width = Some(width.map_err(|_| format!("Invalid field requested: \"{part}\""))?);
        }
        columns.push(column);
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(columns: &[Column], texts: &[&str]) -> String {
        let mut out = String::new();
        columns.iter().zip(texts).for_each(|(column, text)| column.write(text, &mut out));
        out
    }

    #[test]
    fn letters() {
        let check = |format: &str, texts: &[&str], want: &str| {
            let columns = of_letters(format, |letter| letter.is_ascii_alphabetic()).expect("letters");
            assert_eq!(written(&columns, texts), want, "{format}");
        };
        check("%i %t", &["12", "R"], "12 R");
        check("%.5i|%3t|", &["12", "R"], "   12|R  |");
        check("%i^^^%t", &["12_3", "PD"], "12_3^^^PD");
        check("<%i> %%", &["1"], "<1> %");
        check("%.15j", &["a name that is longer"], "a name that is ");
        check("%5", &[], "");
        assert!(of_letters("%i %!", |letter| letter.is_ascii_alphabetic()).is_err());
    }

    #[test]
    fn names() {
        let check = |format: &str, texts: &[&str], want: &str| {
            assert_eq!(written(&of_names(format), texts), want, "{format}");
        };
        check("JobArrayID,StateCompact", &["1", "R"], "1                   R                   ");
        check("JobID:.5,State:8", &["1", "RUNNING"], "    1RUNNING ");
        check("Account:\u{1f},JobID:\u{1f}", &["a", "1"], "a\u{1f}1\u{1f}");
        check("JobID:6|,Name:0|", &["1", "x"], "1     |x|");
    }

    #[test]
    fn widths_of_sacct() {
        let columns = of_sacct("jobid,state%20,name%-4").expect("widths");
        assert_eq!(
            columns.iter().map(|it| (it.width, it.right)).collect::<Vec<_>>(),
            [(None, true), (Some(20), true), (Some(4), false)]
        );
        assert!(of_sacct("a%x").is_err());
    }

    proptest! {
        #[test]
        fn hostile_formats_never_panic(format in ".{0,32}") {
            let _ = of_letters(&format, |_| true).map(|columns| written(&columns, &["é"; 32]));
            let _ = written(&of_names(&format), &["é"; 32]);
            let _ = of_sacct(&format);
        }
    }
}
