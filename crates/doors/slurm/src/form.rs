//! Formats: squeue's and sinfo's `%.18i`, their `-O NAME:.20`, sacct's `NAME%20`.
//!
//! Absent here: the values of fields.

/// The largest width of a field, in terminal columns.
const WIDTH_MAX: usize = 4096;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    /// The letter, or the name.
    pub field: String,
    /// Its width; `None`: the width of its text.
    pub width: Option<usize>,
    /// Whether text is aligned to the right.
    pub right: bool,
    /// The text before the first column,
    pub before: String,
    /// and the text behind each column.
    pub after: String,
}

impl Column {
    /// Writes text in this column.
    pub(crate) fn write(&self, text: &str, out: &mut String) {
        out.push_str(&self.before);
        match self.width {
            None => out.push_str(text),
            Some(width) => padded(text, width, self.right, out),
        }
        out.push_str(&self.after);
    }
}

/// Text of exactly this width: cut, or padded with blanks.
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

/// Parses a width.
fn bounded(digits: &str) -> Result<usize, String> {
    let number = digits.parse().ok().filter(|&width| width <= WIDTH_MAX);
    number.ok_or_else(|| format!("Invalid field width \"{digits}\": a number from 0 to {WIDTH_MAX}"))
}

/// `%[.][WIDTH]LETTER`, with any text between; `%%` is a `%`.
///
/// # Errors
/// For a letter not in `known`, or a width that is too large.
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
        let mut digits = String::new();
        while let Some(digit) = rest.next_if(char::is_ascii_digit) {
            digits.push(digit);
        }
        let Some(letter) = rest.next() else { break };
        if !known(letter) {
            return Err(format!("Invalid job format specification: {letter}"));
        }
        match columns.last_mut() {
            Some(last) => last.after = std::mem::take(&mut between),
            None => first = std::mem::take(&mut between),
        }
        let width = if digits.is_empty() { 0 } else { bounded(&digits)? };
        columns.push(Column {
            field: letter.to_string(),
            width: Some(width).filter(|&width| width > 0),
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

/// `NAME[:[.][WIDTH][SUFFIX]],...`: 20 wide by default; a suffix without a width means the width of the text.
///
/// # Errors
/// For a width that is too large.
pub(crate) fn of_names(format: &str) -> Result<Vec<Column>, String> {
    let mut columns = Vec::new();
    for part in format.split(',').filter(|part| !part.is_empty()) {
        let (name, spec) = part.split_once(':').map_or((part, None), |(name, spec)| (name, Some(spec)));
        let (mut wide, mut right, mut after) = (Some(20), false, String::new());
        if let Some(spec) = spec {
            let rest = spec.strip_prefix('.');
            right = rest.is_some();
            let rest = rest.unwrap_or(spec);
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            after = rest[digits..].to_owned();
            let said = (digits > 0).then(|| bounded(&rest[..digits])).transpose()?;
            wide = match said {
                Some(0) | None if !after.is_empty() => None,
                said => said.or(wide),
            };
        }
        let field = name.trim().to_owned();
        columns.push(Column { field, width: wide, right, before: String::new(), after });
    }
    Ok(columns)
}

/// `NAME[%[-]WIDTH],...`.
///
/// # Errors
/// For an invalid width.
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
            let width = bounded(digits.unwrap_or(text));
            column.width = Some(width.map_err(|why| format!("Invalid field requested: \"{part}\": {why}"))?);
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
            let columns = of_names(format).expect("widths");
            assert_eq!(written(&columns, texts), want, "{format}");
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

    #[test]
    fn widths_have_a_bound() {
        for digits in ["4097", "2000000000", "99999999999", "99999999999999999999999"] {
            let words = format!("Invalid field width \"{digits}\": a number from 0 to 4096");
            let letters = of_letters(&format!("%.{digits}i"), |_| true);
            let names = of_names(&format!("JobID:{digits}"));
            let sacct = [of_sacct(&format!("JobID%{digits}")), of_sacct(&format!("JobID%-{digits}"))];
            for error in [letters, names].into_iter().chain(sacct).map(|done| done.expect_err(digits)) {
                assert!(error.contains(&words), "{error}");
            }
        }
        assert!(of_letters("%4096i", |_| true).is_ok() && of_names("JobID:.4096").is_ok());
        assert!(of_sacct("JobID%").is_err() && of_sacct("JobID%-").is_err());
    }

    proptest! {
        #[test]
        fn hostile_formats_never_panic(format in ".{0,32}") {
            let _ = of_letters(&format, |_| true).map(|columns| written(&columns, &["é"; 32]));
            let _ = of_names(&format).map(|columns| written(&columns, &["é"; 32]));
            let _ = of_sacct(&format);
        }
    }
}
