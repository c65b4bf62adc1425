//! Tables for other programs: comma-separated values. Absent here: how a text becomes a cell (`profile::csv`).

use axum::http::header;
use axum::response::{IntoResponse, Response};
use pinfold_profile::csv;

/// A table under way.
#[derive(Debug, Default)]
pub(super) struct Csv {
    text: String,
    begun: bool,
}

impl Csv {
    /// A table with these heads.
    pub(super) fn new<'a>(heads: impl IntoIterator<Item = &'a str>) -> Self {
        let mut csv = Self::default();
        heads.into_iter().for_each(|head| csv.word(head));
        csv.end();
        csv
    }

    /// Words.
    pub(super) fn word(&mut self, word: &str) {
        self.put(&csv::cell(word));
    }

    /// A number; nothing where there is none.
    pub(super) fn number(&mut self, number: Option<impl std::fmt::Display>) {
        let text = number.map(|number| number.to_string()).unwrap_or_default();
        self.put(&text);
    }

    fn put(&mut self, text: &str) {
        if std::mem::replace(&mut self.begun, true) {
            self.text.push(',');
        }
        self.text.push_str(text);
    }

    /// The end of a row.
    pub(super) fn end(&mut self) {
        self.text.push_str("\r\n");
        self.begun = false;
    }

    /// The table as an answer, to be kept under this name.
    pub(super) fn answer(self, name: &str) -> Response {
        let headers = [
            (header::CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()),
            (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
        ];
        (headers, self.text).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_and_formulas_defused() {
        let mut csv = Csv::new(["a", "b"]);
        csv.word("x,\"y\"");
        csv.word("=1+1");
        csv.number(Some(-1));
        csv.number(None::<u64>);
        csv.end();
        assert_eq!(csv.text, "a,b\r\n\"x,\"\"y\"\"\",'=1+1,-1,\r\n");
    }
}
