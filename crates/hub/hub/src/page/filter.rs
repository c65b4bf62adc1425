//! The jobs of a view. The address has the whole filter, so that a link is a saved view.

use std::fmt::Write as _;

use pinfold_proto::quantity::parse_whole;

use crate::hub::Hub;
use crate::server::problem::Problem;
use crate::store::choices::Choices;
use crate::store::columns::{self, COLUMNS, Column};
use crate::store::{Access, DAY_US, Ending, JobQuery, OFFSET_MAX, PAGE_MAX, StoreError, WORD_MAX, now_us};

/// The default number of jobs on a page.
const PAGE: u32 = 50;

/// The longest value in an address, in bytes: the longest name in the store, of the longest characters.
pub(super) const VALUE_MAX: usize = 4 * WORD_MAX;

/// Periods to choose from, in days.
pub(super) const PERIODS: [(u32, &str); 6] =
    [(1, "a day"), (7, "a week"), (30, "30 days"), (90, "90 days"), (365, "a year"), (3_650, "ten years")];

/// Fields with an invalid value, each with the reason.
pub(super) type Wrong = Vec<(String, String)>;

/// The parsed address.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Filter {
    pub host: String,
    pub user: String,
    pub project: String,
    pub name: String,
    /// The outcome: `""` (any), `ok` or `failed`.
    pub end: String,
    pub days: u32,
    /// Conditions on figures as typed.
    pub figures: String,
    pub sort: &'static Column,
    pub ascending: bool,
    pub columns: Vec<&'static Column>,
    pub page: u32,
    pub limit: u32,
    pub wrong: Wrong,
    /// Names that the form offers.
    pub choices: Choices,
    conditions: Vec<columns::Condition>,
}

impl Filter {
    /// Reads the part of an address behind the `?`.
    pub(super) fn read(pairs: &[(String, String)]) -> Self {
        let ended = columns::find("ended").unwrap_or(&COLUMNS[0]);
        let mut filter = Self {
            host: String::new(),
            user: String::new(),
            project: String::new(),
            name: String::new(),
            end: String::new(),
            days: 30,
            figures: String::new(),
            sort: ended,
            ascending: false,
            columns: Vec::new(),
            page: 0,
            limit: PAGE,
            wrong: Vec::new(),
            choices: Choices::default(),
            conditions: Vec::new(),
        };
        for (key, value) in pairs {
            // Names keep their spaces, which names of jobs may have.
            let is_name = matches!(key.as_str(), "name" | "project");
            let set = match value.len() {
                0..=VALUE_MAX => filter.set(key, if is_name { value } else { value.trim() }),
                _ => Err(format!("at most {VALUE_MAX} bytes")),
            };
            filter.wrong.extend(set.err().map(|words| (key.clone(), words)));
        }
        match columns::conditions(&filter.figures) {
            Ok(conditions) => filter.conditions = conditions,
            Err(words) => filter.wrong.push(("figures".to_owned(), words)),
        }
        if filter.columns.is_empty() {
            filter.columns = COLUMNS.iter().filter(|column| column.usual).collect();
        }
        if filter.page.saturating_mul(filter.limit) > OFFSET_MAX {
            let words = format!(
                "pages reach back {OFFSET_MAX} jobs: choose a shorter time, a host, a user or a name"
            );
            filter.wrong.push(("page".to_owned(), words));
        }
        filter
    }

    /// The filter, if all its values are valid.
    ///
    /// # Errors
    /// A message that names the field and the reason.
    pub(super) fn checked(self) -> Result<Self, Problem> {
        check(&self.wrong).map(|()| self)
    }

    /// The same with the names that this viewer can choose from.
    ///
    /// # Errors
    /// When the store refuses.
    pub(super) fn with_choices(mut self, hub: &Hub, access: &Access) -> Result<Self, StoreError> {
        self.choices = hub.store.choices(access, now_us())?;
        Ok(self)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let column = || columns::find(value).ok_or_else(|| format!("{value}: no such figure"));
        let number = |most: u32| parse_whole(value, &(0..=most)).map_err(|error| error.to_string());
        match key {
            "host" => value.clone_into(&mut self.host),
            "user" => value.clone_into(&mut self.user),
            "project" => value.clone_into(&mut self.project),
            "name" => value.clone_into(&mut self.name),
            "end" if matches!(value, "" | "ok" | "failed") => value.clone_into(&mut self.end),
            "days" => self.days = number(3_650)?.max(1),
            "figures" => value.clone_into(&mut self.figures),
            "sort" => self.sort = column()?,
            "dir" if matches!(value, "up" | "down") => self.ascending = value == "up",
            "col" => {
                let column = column()?;
                if !self.columns.contains(&column) {
                    self.columns.push(column);
                }
            }
            "page" => self.page = number(OFFSET_MAX)?,
            "limit" => self.limit = number(PAGE_MAX)?.max(1),
            _ => return Err(format!("{value}: no such choice")),
        }
        Ok(())
    }

    /// The query, within this access.
    pub(super) fn query(&self, access: &Access, now_us: u64) -> JobQuery {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        JobQuery {
            access: access.clone(),
            ids: Vec::new(),
            host: some(&self.host),
            user: some(&self.user),
            project: some(&self.project),
            name: some(&self.name),
            ending: match self.end.as_str() {
                "ok" => Some(Ending::Succeeded),
                "failed" => Some(Ending::Failed),
                _ => None,
            },
            since_us: Some(now_us.saturating_sub(u64::from(self.days) * DAY_US)),
            until_us: None,
            conditions: self.conditions.clone(),
            sort: Some(self.sort),
            ascending: self.ascending,
            limit: self.limit,
            offset: self.page.saturating_mul(self.limit),
        }
    }

    /// The query of aggregating views: they count whole days.
    pub(super) fn day_query(&self, access: &Access, now_us: u64) -> JobQuery {
        let query = self.query(access, now_us);
        JobQuery { since_us: query.since_us.map(|since_us| since_us - since_us % DAY_US), ..query }
    }

    /// The address of this filter at another path.
    pub(super) fn link(&self, path: &str) -> String {
        let mut link = format!("{path}?days={}&sort={}", self.days, self.sort.key);
        let words = [
            ("host", &self.host),
            ("user", &self.user),
            ("project", &self.project),
            ("name", &self.name),
            ("end", &self.end),
            ("figures", &self.figures),
        ];
        for (key, value) in words.into_iter().filter(|(_, value)| !value.is_empty()) {
            let _ = write!(link, "&{key}={}", encoded(value));
        }
        if self.ascending {
            link.push_str("&dir=up");
        }
        if self.limit != PAGE {
            let _ = write!(link, "&limit={}", self.limit);
        }
        if self.page > 0 {
            let _ = write!(link, "&page={}", self.page);
        }
        if !self.columns.iter().copied().eq(COLUMNS.iter().filter(|column| column.usual)) {
            self.columns.iter().for_each(|column| {
                let _ = write!(link, "&col={}", column.key);
            });
        }
        link
    }

    /// The view sorted by this column; the current column reverses its order.
    pub(super) fn sorted_by(&self, column: &'static Column) -> Self {
        let ascending = self.sort == column && !self.ascending;
        Self { sort: column, ascending, page: 0, ..self.clone() }
    }

    /// Another page of the view.
    pub(super) fn at_page(&self, page: u32) -> Self {
        Self { page, ..self.clone() }
    }

    /// The view of this name's jobs alone.
    pub(super) fn of_name(&self, name: &str) -> Self {
        // An asterisk in a name would stand for anything, and for the name as well.
        Self { name: name.to_owned(), page: 0, ..self.clone() }
    }
}

impl Filter {
    /// The view of this host's jobs alone.
    pub(super) fn of_host(&self, host: &str) -> Self {
        Self { host: host.to_owned(), page: 0, ..self.clone() }
    }

    /// The view of a class over these days; sums have no figures of single jobs.
    pub(super) fn of_class(&self, name: &str, days: u32) -> Self {
        Self { days, figures: String::new(), conditions: Vec::new(), ..self.of_name(name) }
    }
}

/// Refuses an address with invalid values.
///
/// # Errors
/// A message that names the fields and the reasons.
pub(super) fn check(wrong: &Wrong) -> Result<(), Problem> {
    let words: Vec<String> = wrong.iter().map(|(key, words)| format!("{key}: {words}")).collect();
    if words.is_empty() { Ok(()) } else { Err(Problem::wrong(words.join("; "))) }
}

/// A value, escaped for an address.
pub(super) fn encoded(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                text.push(char::from(byte))
            }
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &[(&str, &str)]) -> Vec<(String, String)> {
        text.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_link_is_the_view() {
        let asked = pairs(&[
            ("host", "n1"),
            ("name", "a&b=\"<x>*"),
            ("end", "failed"),
            ("days", "7"),
            ("figures", "wall_s>1h"),
            ("sort", "memory_peak_bytes"),
            ("dir", "up"),
            ("col", "job"),
            ("col", "name"),
        ]);
        let link = Filter::read(&asked).link("/jobs");
        let want = "/jobs?days=7&sort=memory_peak_bytes&host=n1&name=a%26b%3D%22%3Cx%3E%2A&end=failed\
                    &figures=wall_s%3E1h&dir=up&col=job&col=name";
        assert_eq!(link, want);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (key, value) in [
            ("sort", "head"),
            ("sort", "jobs.name; DROP TABLE jobs"),
            ("col", "x"),
            ("days", "-1"),
            ("days", "99999"),
            ("limit", "100000"),
            ("page", "20001"),
            ("dir", "sideways"),
            ("end", "maybe"),
            ("figures", "x>1"),
            ("other", "1"),
        ] {
            let filter = Filter::read(&pairs(&[(key, value), ("host", "n1")]));
            assert_eq!(filter.wrong.len(), 1, "{key}={value}");
            assert_eq!((filter.wrong[0].0.as_str(), filter.host.as_str()), (key, "n1"), "the rest is kept");
            assert!(filter.checked().is_err(), "{key}={value}");
        }
        assert!(Filter::read(&pairs(&[("name", &"x".repeat(801))])).checked().is_err());
    }

    #[test]
    fn a_link_to_jobs_of_any_name_is_read_as_that_name() {
        for name in ["trail ", " ", "\u{1f600}".repeat(WORD_MAX).as_str()] {
            let filter = Filter::read(&pairs(&[("name", name), ("project", name), ("host", " n1 ")]));
            assert_eq!(
                (filter.name.as_str(), filter.project.as_str(), filter.host.as_str()),
                (name, name, "n1")
            );
        }
    }
}
