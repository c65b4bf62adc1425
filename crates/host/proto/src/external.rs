//! The names of jobs in the workload managers that dispatched them: `slurm:1234.batch`, `sge:17.3`, `condor:12.0`,
//! `pbs:9`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

/// The longest name of a manager, in bytes.
const MANAGER_MAX_BYTES: usize = 16;
/// The longest name of a job within a manager, in bytes.
const ID_MAX_BYTES: usize = 64;

/// The text is not a job's name in a workload manager.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no job's name in a workload manager: slurm:1234.batch is one, a manager of at most {MANAGER_MAX_BYTES} \
     letters and digits and a name of at most {ID_MAX_BYTES} letters, digits and `._-[]@`"
)]
pub struct ExternalNameError(pub String);

/// A job's name in a workload manager, as `MANAGER:ID`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ExternalName(String);

impl ExternalName {
    /// Whether a text is an external name: pinfold's own names have no colon.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text.contains(':')
    }

    /// The name as a text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The manager's word, `slurm`.
    #[must_use]
    pub fn manager(&self) -> &str {
        self.0.split_once(':').map_or("", |(manager, _)| manager)
    }

    /// The job's name within the manager, `1234.batch`.
    #[must_use]
    pub fn id(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, id)| id)
    }

    /// The manager's job that contains this name: a Slurm step's job, otherwise the whole name.
    #[must_use]
    pub fn whole(&self) -> &str {
        match self.0.split_once('.') {
            Some((job, _)) if self.manager() == "slurm" => job,
            _ => &self.0,
        }
    }

    /// Whether `self`, as typed by a user, matches the job `name`: an equal name, or the manager's job around the
    /// step `name`.
    #[must_use]
    pub fn means(&self, name: &Self) -> bool {
        self == name || name.0.strip_prefix(&self.0).is_some_and(|rest| rest.starts_with('.'))
    }
}

impl FromStr for ExternalName {
    type Err = ExternalNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ExternalNameError(text.chars().take(2 * ID_MAX_BYTES).collect());
        let (manager, id) = text.split_once(':').ok_or_else(bad)?;
        let manager_is_good = (1..=MANAGER_MAX_BYTES).contains(&manager.len())
            && manager.starts_with(|c: char| c.is_ascii_lowercase())
            && manager.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let id_is_good = (1..=ID_MAX_BYTES).contains(&id.len())
            && id.starts_with(|c: char| c.is_ascii_alphanumeric())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-[]@".contains(&byte));
        if manager_is_good && id_is_good { Ok(Self(text.to_owned())) } else { Err(bad()) }
    }
}

impl<'de> Deserialize<'de> for ExternalName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for ExternalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ExternalName {
        text.parse().unwrap()
    }

    #[test]
    fn names_of_managers_jobs() {
        for good in ["slurm:1234.batch", "sge:17.3", "condor:12.0", "pbs:9", "pbs:9[3].server", "lsf:7[2]"] {
            let read = name(good);
            assert_eq!(format!("{}:{}", read.manager(), read.id()), good);
            let json = serde_json::to_string(&read).unwrap();
            assert_eq!(serde_json::from_str::<ExternalName>(&json).unwrap(), read);
        }
        let long = format!("slurm:{}", "1".repeat(65));
        for bad in
            ["", "12", "slurm:", ":12", "Slurm:12", "slurm:.batch", "slurm:1;rm", "slurm:1 2", "a b:1", &long]
        {
            assert!(bad.parse::<ExternalName>().is_err(), "{bad}");
            assert!(serde_json::from_str::<ExternalName>(&format!("\"{bad}\"")).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_step_is_part_of_its_job() {
        assert_eq!(name("slurm:12.batch").whole(), "slurm:12");
        assert_eq!(name("slurm:12.0").whole(), "slurm:12");
        assert_eq!(name("sge:17.3").whole(), "sge:17.3", "another task is another job");
        for (typed, has, want) in [
            ("slurm:12", "slurm:12.batch", true),
            ("slurm:12.batch", "slurm:12.batch", true),
            ("slurm:1", "slurm:12.batch", false),
            ("slurm:12.0", "slurm:12.batch", false),
            ("sge:17", "sge:17.3", true),
            ("pbs:17", "sge:17", false),
        ] {
            assert_eq!(name(typed).means(&name(has)), want, "{typed} {has}");
        }
    }
}
