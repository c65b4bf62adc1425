//! Job arrays in Slurm's notation: their indexes (`0-15`, `1,3,7`, `0-30:5`, `0-99%4`), and the names of members
//! (`12_3`).

mod indexes;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use indexes::Indexes;

/// The largest index, as in Slurm.
pub const INDEX_MAX: u32 = 4_000_000;

/// The most members an array may have.
pub const MEMBERS_MAX: usize = 10_000;

/// Why a text is not an array specification or a job's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArrayError {
    /// No index is named.
    #[error("`{0}` names no index; 0-15, 1,3,7 and 0-30:5 do, and %4 behind it lets 4 members start at once")]
    Empty(String),
    /// A piece is neither a number nor a range.
    #[error("`{0}` is no index and no range of indexes such as 0-15 or 0-30:5")]
    Piece(String),
    /// A range ends before it begins.
    #[error("the range {0} ends before it begins")]
    Reversed(String),
    /// A range has the step 0.
    #[error("the range {0} has a step of 0")]
    Step(String),
    /// The text behind `%` is not a positive number.
    #[error("%{0} is no number of members that may start at once, from 1 on")]
    AtMost(String),
    /// An index is too large.
    #[error("{0} is too large for an index; {INDEX_MAX} is the largest")]
    Large(String),
    /// Too many members.
    #[error("an array of more than {MEMBERS_MAX} members is too large")]
    Many,
    /// Not the name of a job.
    #[error("`{0}` is no job's number (12), no member of an array (12_3) and none of several (12_[0-3,7])")]
    Name(String),
}

/// The indexes of an array, and how many members may run concurrently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArraySpec {
    /// Ascending, without duplicates; at least one index.
    pub indexes: Vec<u32>,
    /// `None`: as many as there are slots.
    pub at_most: Option<u32>,
}

impl FromStr for ArraySpec {
    type Err = ArrayError;

    fn from_str(text: &str) -> Result<Self, ArrayError> {
        let (list, at_most) = match text.split_once('%') {
            Some((list, at_most)) => (list, Some(number_of(at_most)?)),
            None => (text, None),
        };
        let all: BTreeSet<u32> = Indexes::parse(list)?.iter().collect();
        Ok(Self { indexes: all.into_iter().collect(), at_most })
    }
}

fn number_of(text: &str) -> Result<u32, ArrayError> {
    let number = digits(text).and_then(|text| text.parse().ok());
    number.filter(|&number| number > 0).ok_or_else(|| ArrayError::AtMost(text.to_owned()))
}

fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

/// A job as users name it: a job's or array's number, or members of an array.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobName {
    /// The number.
    pub job: u64,
    /// The named members of an array; `None`: the job, or the whole array.
    pub indexes: Option<Indexes>,
}

impl JobName {
    /// How many jobs the name covers at least: the listed members, otherwise 1.
    #[must_use]
    pub fn count(&self) -> usize {
        self.indexes.as_ref().map_or(1, Indexes::count)
    }
}

/// On the wire a bare number where possible, for compatibility; otherwise text.
impl Serialize for JobName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.indexes {
            None => serializer.serialize_u64(self.job),
            Some(_) => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for JobName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A visitor refuses other types at once, without buffering.
        deserializer.deserialize_any(Written)
    }
}

struct Written;

impl Visitor<'_> for Written {
    type Value = JobName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a job's number, or a text such as 12_3 or 12_[0-3,7]")
    }

    fn visit_u64<E: serde::de::Error>(self, job: u64) -> Result<JobName, E> {
        Ok(job.into())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<JobName, E> {
        text.parse().map_err(E::custom)
    }
}

impl From<u64> for JobName {
    fn from(job: u64) -> Self {
        Self { job, indexes: None }
    }
}

impl FromStr for JobName {
    type Err = ArrayError;

    fn from_str(text: &str) -> Result<Self, ArrayError> {
        let bad = || ArrayError::Name(text.to_owned());
        let (job, which) = text.split_once('_').map_or((text, None), |(job, which)| (job, Some(which)));
        let job = digits(job).and_then(|job| job.parse().ok()).ok_or_else(bad)?;
        let list = |which: &str| match which.strip_prefix('[').map(|list| list.strip_suffix(']')) {
            Some(list) => Indexes::parse(list.ok_or_else(bad)?),
            None => Indexes::parse(digits(which).ok_or_else(bad)?),
        };
        Ok(Self { job, indexes: which.map(list).transpose()? })
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.indexes {
            None => write!(f, "{}", self.job),
            Some(indexes) if indexes.count() == 1 => write!(f, "{}_{indexes}", self.job),
            Some(indexes) => write!(f, "{}_[{indexes}]", self.job),
        }
    }
}

/// The displayed name of a job: `12_3` for a member of an array, otherwise its number.
#[must_use]
pub fn called(job: u64, array: Option<u64>, index: Option<u32>) -> String {
    match (array, index) {
        (Some(array), Some(index)) => format!("{array}_{index}"),
        _ => job.to_string(),
    }
}

/// Indexes in rising order as a list of ranges: `0-3,7`.
#[must_use]
pub fn show_indexes(indexes: &[u32]) -> String {
    let mut text = String::new();
    let mut rest = indexes;
    while let Some((&first, _)) = rest.split_first() {
        let run = rest.iter().zip(first..).take_while(|&(&index, next)| index == next).count();
        let last = rest[run - 1];
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&if last > first { format!("{first}-{last}") } else { first.to_string() });
        rest = &rest[run..];
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, indexes: &[u32], at_most: Option<u32>) {
        assert_eq!(text.parse(), Ok(ArraySpec { indexes: indexes.to_vec(), at_most }), "{text}");
    }

    #[track_caller]
    fn refused(text: &str, want: &str) {
        let said = text.parse::<ArraySpec>().expect_err(text).to_string();
        assert!(said.contains(want), "{text}: {said}");
    }

    #[test]
    fn arrays_in_slurms_words() {
        check("0", &[0], None);
        check("0-3", &[0, 1, 2, 3], None);
        check("1,3,7", &[1, 3, 7], None);
        check("7,3-5,4", &[3, 4, 5, 7], None);
        check("0-10:5", &[0, 5, 10], None);
        check("1-7:2,8", &[1, 3, 5, 7, 8], None);
        check("5-5", &[5], None);
        check("0-3%2", &[0, 1, 2, 3], Some(2));
        check("4000000", &[4_000_000], None);
        assert_eq!("0-9999".parse::<ArraySpec>().map(|spec| spec.indexes.len()), Ok(MEMBERS_MAX));
    }

    #[test]
    fn invalid_arrays_name_their_fault() {
        refused("", "names no index");
        refused("%4", "names no index");
        refused("a", "`a` is no index");
        refused("1,", "`` is no index");
        refused("-3", "`-3` is no index");
        refused("+1", "`+1` is no index");
        refused("1-2-3", "is no index");
        refused("3:2", "`3:2` is no index");
        refused("5-1", "5-1 ends before it begins");
        refused("0-9:0", "0-9:0 has a step of 0");
        refused("0-3%0", "%0 is no number");
        refused("0-3%", "% is no number");
        refused("0-3%2%1", "%2%1 is no number");
        refused("0-3%-1", "%-1 is no number");
        refused("4000001", "4000001 is too large");
        refused("99999999999", "99999999999 is too large");
        refused("0-10000", "more than 10000 members");
        refused("0-4000000", "more than 10000 members");
    }

    #[test]
    fn names_of_jobs_and_members() {
        let name = |text: &str| text.parse::<JobName>();
        assert_eq!(name("12"), Ok(12.into()));
        assert_eq!(name("12_3"), Ok(JobName { job: 12, indexes: Some([3].into_iter().collect()) }));
        assert_eq!(
            name("12_[0-2,7]"),
            Ok(JobName { job: 12, indexes: Some([0, 1, 2, 7].into_iter().collect()) })
        );
        for bad in ["", "_3", "12_", "12_3_4", "12_a", "12_-1", "12_[1", "12_1]", "a", "-1", "1.5", "12_1-3"]
        {
            assert!(name(bad).is_err(), "{bad}");
        }
        let said = |text: &str| name(text).expect_err(text).to_string();
        assert!(said("12_[3-1]").contains("3-1 ends before") && said("x").contains("no job's number"));
    }

    proptest! {
        #[test]
        fn names_are_read_as_they_are_written(job: u64, indexes in prop::option::of(prop::collection::btree_set(0u32..99, 1..20))) {
            let name = JobName { job, indexes: indexes.map(|all| all.into_iter().collect()) };
            prop_assert_eq!(name.to_string().parse(), Ok(name.clone()));
            let json = serde_json::to_string(&name).unwrap();
            prop_assert_eq!(serde_json::from_str::<JobName>(&json).unwrap(), name);
        }

        #[test]
        fn odd_texts_never_panic(text in "[0-9,:%_\\[\\]-]{0,12}") {
            let _ = text.parse::<ArraySpec>();
            let _ = text.parse::<JobName>();
        }
    }
}
