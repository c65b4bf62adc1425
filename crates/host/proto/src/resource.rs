//! Countable resources as users write them: `gpu=1,licence.fluent=2`.

use serde::{Deserialize, Serialize};

/// The longest name of a resource, in bytes.
pub const RESOURCE_NAME_MAX: usize = 64;

/// How many different resources a job may ask for, and a configuration may name.
pub const RESOURCES_MAX: usize = 64;

/// The largest count of a resource.
pub const RESOURCE_COUNT_MAX: u64 = 1_000_000_000;

/// So many of a resource, which a job asks for or has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Resource {
    /// Its name.
    pub name: String,
    /// How many, at least 1.
    pub count: u64,
    /// The numbers of the job's devices, for resources with numbered devices like GPUs. Set by the daemon; a client's
    /// value is ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<u32>,
    /// PCI addresses of the devices, which identify them when the numbers change. Set by the daemon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
}

impl Resource {
    /// A request for `count` of a resource.
    #[must_use]
    pub fn asked(name: &str, count: u64) -> Self {
        Self { name: name.to_owned(), count, ..Self::default() }
    }
}

/// Why a text is no list of resources.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResourceError {
    /// The text is not a list.
    #[error("`{0}` is not NAME=N[,NAME=N...], such as gpu=1,licence.fluent=2")]
    Form(String),
    /// Not a name.
    #[error(
        "`{0}` is no name of a resource: it begins with a letter, and has at most {RESOURCE_NAME_MAX} letters, digits, \
         `.`, `-` and `_`"
    )]
    Name(String),
    /// The count is not a number in range.
    #[error("{name}={count}: a whole number from 1 to {RESOURCE_COUNT_MAX} is wanted")]
    Count {
        /// The resource.
        name: String,
        /// The given count.
        count: String,
    },
    /// The same name twice.
    #[error("the resource {0} stands there twice")]
    Twice(String),
    /// Too many names.
    #[error("a job may ask for {RESOURCES_MAX} different resources at most, not {0}")]
    Many(usize),
}

/// Whether a text can name a resource.
#[must_use]
pub fn is_resource_name(text: &str) -> bool {
    let sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    text.len() <= RESOURCE_NAME_MAX
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(sign)
        && !text.ends_with('.')
        && !text.contains("..")
}

/// Reads a list of resources, `NAME=N` each, sorted by name; a bare `NAME` counts 1. An empty text is an empty list.
///
/// # Errors
/// The first fault.
pub fn parse_resources(text: &str) -> Result<Vec<Resource>, ResourceError> {
    let mut list = Vec::new();
    for one in text.split(',').filter(|_| !text.trim().is_empty()) {
        let (name, count) = one.split_once('=').map_or((one, "1"), |(name, count)| (name, count));
        let (name, count) = (name.trim(), count.trim());
        if name.is_empty() {
            return Err(ResourceError::Form(text.to_owned()));
        }
        let number = count.parse().map_err(|_| count_error(name, count))?;
        list.push(Resource::asked(name, number));
    }
    list.sort();
    check_resources(&list)?;
    Ok(list)
}

/// Checks a list made by a client.
///
/// # Errors
/// The first fault.
pub fn check_resources(list: &[Resource]) -> Result<(), ResourceError> {
    if list.len() > RESOURCES_MAX {
        return Err(ResourceError::Many(list.len()));
    }
    for (at, one) in list.iter().enumerate() {
        if !is_resource_name(&one.name) {
            return Err(ResourceError::Name(one.name.chars().take(RESOURCE_NAME_MAX).collect()));
        }
        if !(1..=RESOURCE_COUNT_MAX).contains(&one.count) {
            return Err(count_error(&one.name, &one.count.to_string()));
        }
        if list[..at].iter().any(|other| other.name == one.name) {
            return Err(ResourceError::Twice(one.name.clone()));
        }
    }
    Ok(())
}

fn count_error(name: &str, count: &str) -> ResourceError {
    ResourceError::Count { name: name.to_owned(), count: count.to_owned() }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}={}", self.name, self.count)?;
        if self.numbers.is_empty() {
            return Ok(());
        }
        let numbers: Vec<String> = self.numbers.iter().map(ToString::to_string).collect();
        write!(out, " (number {})", numbers.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Result<&str, &str>) {
        let words = |list: Vec<Resource>| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let got = parse_resources(text).map(words).map_err(|error| error.to_string());
        assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned), "{text}");
    }

    #[test]
    fn lists_of_resources() {
        check("", Ok(""));
        check("gpu", Ok("gpu=1"));
        check("licence.fluent=2,gpu=1", Ok("gpu=1,licence.fluent=2"));
        check(" gpu = 3 ", Ok("gpu=3"));
        check("gpu=0", Err("gpu=0: a whole number from 1 to 1000000000 is wanted"));
        check("gpu=-1", Err("gpu=-1: a whole number from 1 to 1000000000 is wanted"));
        check("gpu=1.5", Err("gpu=1.5: a whole number from 1 to 1000000000 is wanted"));
        check("gpu=1,gpu=2", Err("the resource gpu stands there twice"));
        check("gpu=1,", Err("`gpu=1,` is not NAME=N[,NAME=N...], such as gpu=1,licence.fluent=2"));
        check("=1", Err("`=1` is not NAME=N[,NAME=N...], such as gpu=1,licence.fluent=2"));
        for name in ["2gpu", "a b", "g/pu", "gpu.", "a..b", "é"] {
            let error = parse_resources(name).unwrap_err().to_string();
            assert!(error.contains("is no name of a resource"), "{error}");
        }
        assert!(parse_resources(&"g".repeat(65)).is_err());
        let many: Vec<String> = (0..65).map(|at| format!("r{at}")).collect();
        check(&many.join(","), Err("a job may ask for 64 different resources at most, not 65"));
    }

    #[test]
    fn numbers_are_shown_with_it() {
        let gpu = Resource { numbers: vec![0, 3], ..Resource::asked("gpu", 2) };
        assert_eq!(gpu.to_string(), "gpu=2 (number 0 3)");
        assert_eq!(serde_json::to_string(&gpu).unwrap(), r#"{"name":"gpu","count":2,"numbers":[0,3]}"#);
    }
}
