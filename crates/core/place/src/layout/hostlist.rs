//! Lists of hosts, a name per task: Slurm's `--nodelist` and host files, for `--distribution=arbitrary`.
//!
//! A numeric name is an index into the request's hosts; other names map to the hosts in order of first
//! appearance.

use std::collections::BTreeMap;

use super::error::{LayoutError, OptionError};
use super::request::COUNT_MAX;

/// Names of hosts, in the order of the tasks.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct HostList {
    names: Vec<String>,
}

impl HostList {
    /// Reads `n1,n2,n[3-5,08],n9*4`; `option` is named in errors.
    ///
    /// # Errors
    /// When a name is empty, a range is no range, or more hosts are named than tasks are laid out.
    pub fn parse(option: &str, text: &str) -> Result<Self, OptionError> {
        let mut list = Self::default();
        list.read(text)
            .ok_or_else(|| OptionError::Value { option: option.to_owned(), value: short(text) })?;
        Ok(list)
    }

    /// Reads a host file: a list per line, in the order of the tasks; `#` starts a comment.
    ///
    /// # Errors
    /// As [`Self::parse`], or when the file names no host; `option` is named in errors.
    pub fn parse_file(option: &str, text: &str) -> Result<Self, OptionError> {
        let mut list = Self::default();
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        for line in lines.filter(|line| !line.is_empty()) {
            list.read(line)
                .ok_or_else(|| OptionError::Value { option: option.to_owned(), value: short(line) })?;
        }
        if list.names.is_empty() {
            return Err(OptionError::NoHosts(option.to_owned()));
        }
        Ok(list)
    }

    /// How many names, including repetitions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// How many different hosts are named.
    #[must_use]
    pub fn hosts(&self) -> usize {
        self.numbers().map_or_else(|| self.places().len(), |numbers| distinct(&numbers))
    }

    /// The distinct names, by index of their host.
    #[must_use]
    pub fn named(&self) -> BTreeMap<usize, &str> {
        match self.numbers() {
            Some(numbers) => numbers.into_iter().zip(self.names.iter().map(String::as_str)).collect(),
            None => self.places().into_iter().map(|(name, host)| (host, name)).collect(),
        }
    }

    /// The host of each of `ntasks` tasks, of `present` hosts.
    pub(super) fn of_tasks(&self, ntasks: usize, present: usize) -> Result<Vec<usize>, LayoutError> {
        if self.names.len() < ntasks {
            return Err(LayoutError::TooFewNames { names: self.names.len(), tasks: ntasks });
        }
        let hosts = self.numbers().unwrap_or_else(|| {
            let places = self.places();
            self.names.iter().map(|name| places[name.as_str()]).collect()
        });
        let hosts = hosts.into_iter().take(ntasks).collect::<Vec<usize>>();
        match hosts.iter().position(|&host| host >= present) {
            Some(task) => Err(LayoutError::NoSuchHost { name: self.names[task].clone(), present }),
            None => Ok(hosts),
        }
    }

    /// The names as host indexes, if all names are numbers.
    fn numbers(&self) -> Option<Vec<usize>> {
        let number =
            |name: &String| name.bytes().all(|byte| byte.is_ascii_digit()).then(|| name.parse().ok());
        self.names.iter().map(|name| number(name).flatten()).collect()
    }

    /// Each name's index in the order of first appearance.
    fn places(&self) -> BTreeMap<&str, usize> {
        let mut places = BTreeMap::new();
        for name in &self.names {
            let next = places.len();
            places.entry(name.as_str()).or_insert(next);
        }
        places
    }

    fn read(&mut self, text: &str) -> Option<()> {
        for piece in pieces(text) {
            let (hosts, times) = match piece.rsplit_once('*') {
                Some((hosts, times)) => (hosts, times.parse().ok().filter(|times| *times > 0)?),
                None => (piece, 1),
            };
            let names = expanded(hosts.trim())?;
            if names.len().checked_mul(times)? > COUNT_MAX - self.names.len() {
                return None;
            }
            let repeated = names.iter().flat_map(|name| std::iter::repeat_n(name, times)).cloned();
            self.names.extend(repeated);
        }
        Some(())
    }
}

fn distinct(numbers: &[usize]) -> usize {
    numbers.iter().collect::<std::collections::BTreeSet<_>>().len()
}

/// No more of a value than a message bears.
fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Splits at commas outside of brackets.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut within = false;
    text.split(move |sign| {
        match sign {
            '[' => within = true,
            ']' => within = false,
            _ => {}
        }
        sign == ',' && !within
    })
}

/// Expands `n[1-3,08]x`: a single pair of brackets, numbers padded to the width of the range's first number.
fn expanded(text: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = text.split_once('[') else {
        return plain(text).then(|| vec![text.to_owned()]);
    };
    let (ranges, after) = rest.split_once(']')?;
    if !(before.is_empty() || plain(before)) || !(after.is_empty() || plain(after)) {
        return None;
    }
    let mut names = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| -> Option<usize> {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().ok()).flatten()
        };
        let (from, to) = (number(first)?, number(last)?);
        if from > to || to - from >= COUNT_MAX - names.len() {
            return None;
        }
        let width = first.len();
        names.extend((from..=to).map(|number| format!("{before}{number:0width$}{after}")));
    }
    Some(names)
}

/// Whether a text may be (part of) a name.
fn plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|sign| sign.is_alphanumeric() || "-_.".contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Option<String> {
        HostList::parse("-w", text).ok().map(|list| list.names.join(" "))
    }

    #[test]
    fn lists_of_slurms_kind() {
        assert_eq!(names("n1").as_deref(), Some("n1"));
        assert_eq!(names("b,a,b").as_deref(), Some("b a b"));
        assert_eq!(names("n[08-10,3],x*2").as_deref(), Some("n08 n09 n10 n3 x x"));
        assert_eq!(names("[0-2]").as_deref(), Some("0 1 2"));
        assert_eq!(names("r[1-2]-ib*2").as_deref(), Some("r1-ib r1-ib r2-ib r2-ib"));
        for odd in [
            "",
            ",",
            "a,",
            "n[",
            "n[]",
            "n[2-1]",
            "n[x]",
            "a b",
            "a*0",
            "a*x",
            "*",
            "n[0-99999999]",
            "a*9999999",
        ] {
            assert_eq!(names(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_file_is_a_list_a_line() {
        let list = HostList::parse_file("--nodefile", "# mine\nn2\n\nn1  # twice\nn1\nn2*2\n").unwrap();
        assert_eq!(list.names, ["n2", "n1", "n1", "n2", "n2"]);
        assert_eq!((list.len(), list.hosts()), (5, 2));
        assert_eq!(list.of_tasks(4, 2), Ok(vec![0, 1, 1, 0]));
        assert_eq!(list.named(), BTreeMap::from([(0, "n2"), (1, "n1")]));
        let error = HostList::parse_file("--nodefile", "# none\n").unwrap_err();
        assert_eq!(error.to_string(), "--nodefile: no host is named");
    }

    #[test]
    fn numbers_are_hosts() {
        let list = HostList::parse("-w", "1,0,1").unwrap();
        assert_eq!(list.of_tasks(3, 2), Ok(vec![1, 0, 1]));
        assert_eq!(list.named(), BTreeMap::from([(0, "0"), (1, "1")]));
        assert_eq!(list.of_tasks(4, 2), Err(LayoutError::TooFewNames { names: 3, tasks: 4 }));
        let far = HostList::parse("-w", "0,7").unwrap();
        assert_eq!(far.of_tasks(2, 2), Err(LayoutError::NoSuchHost { name: "7".into(), present: 2 }));
        assert_eq!(far.of_tasks(1, 2), Ok(vec![0]), "a name beyond the tasks counts for nothing");
    }
}
