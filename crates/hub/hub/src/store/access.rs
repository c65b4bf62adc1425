//! A viewer's access: all jobs, or jobs of a user, a project, a host. Every query of the store carries an access, and
//! omits jobs without a grant. Absent here: authentication.

use serde::{Deserialize, Serialize};

use super::db::Value;

/// A viewer's access; by default none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// All jobs, and the hub's own acts and tokens.
    All,
    /// Jobs that match any grant.
    Some(Vec<Grant>),
}

/// Jobs that match all fields that are set. A grant without fields grants no job.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Grant {
    /// The user; `None`: any.
    pub user: Option<String>,
    /// The project; `None`: any.
    pub project: Option<String>,
    /// The host; `None`: any.
    pub host: Option<String>,
}

impl Default for Access {
    fn default() -> Self {
        Self::Some(Vec::new())
    }
}

impl Grant {
    fn is_empty(&self) -> bool {
        self.user.is_none() && self.project.is_none() && self.host.is_none()
    }
}

impl Access {
    /// Whether everything may be seen.
    #[must_use]
    pub const fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    /// Whether a job may be seen.
    #[must_use]
    pub fn allows(&self, host: &str, user: &str, project: Option<&str>) -> bool {
        let Self::Some(grants) = self else { return true };
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_ref().is_none_or(|wanted| found == Some(wanted.as_str()))
        };
        grants.iter().any(|grant| {
            !grant.is_empty()
                && is(&grant.user, Some(user))
                && is(&grant.project, project)
                && is(&grant.host, Some(host))
        })
    }

    /// Whether a grant names a host.
    pub(super) fn names_hosts(&self) -> bool {
        let Self::Some(grants) = self else { return false };
        grants.iter().any(|grant| grant.host.is_some())
    }

    /// The access as SQL, its first value at the next place; `None`: no condition. Appends the values.
    pub(super) fn condition(&self, values: &mut Vec<Value>) -> Option<String> {
        let Self::Some(grants) = self else { return None };
        let mut any: Vec<String> = Vec::new();
        for grant in grants.iter().filter(|grant| !grant.is_empty()) {
            let mut all: Vec<String> = Vec::new();
            let mut add = |words: &str, value: &Option<String>| {
                if let Some(value) = value {
                    values.push(value.into());
                    all.push(words.replace('?', &format!("?{}", values.len())));
                }
            };
            add("jobs.\"user\" = ?", &grant.user);
            add("jobs.project = ?", &grant.project);
            add("jobs.host = (SELECT id FROM hosts WHERE name = ?)", &grant.host);
            any.push(format!("({})", all.join(" AND ")));
        }
        // A viewer without grants finds no job.
        Some(if any.is_empty() { "1 = 0".to_owned() } else { format!("({})", any.join(" OR ")) })
    }

    /// The access in words, for people.
    #[must_use]
    pub fn words(&self) -> String {
        let Self::Some(grants) = self else { return "operator of the hub".to_owned() };
        let mut words = Vec::new();
        for grant in grants {
            let place = grant.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
            match (&grant.user, &grant.project, &grant.host) {
                (Some(user), ..) => words.push(format!("jobs of {user}{place}")),
                (None, Some(project), _) => words.push(format!("project {project}{place}")),
                (None, None, Some(host)) => words.push(format!("operator of {host}")),
                (None, None, None) => {}
            }
        }
        if words.is_empty() { "nothing".to_owned() } else { words.join(", ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(user: &str, project: &str, host: &str) -> Grant {
        let some = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        Grant { user: some(user), project: some(project), host: some(host) }
    }

    #[test]
    fn grants_hold_as_a_whole_and_none_grants_nothing() {
        let check = |grants: &[Grant], want: [bool; 4]| {
            let access = Access::Some(grants.to_vec());
            let found = [
                access.allows("n1", "ann", None),
                access.allows("n2", "ann", Some("web")),
                access.allows("n1", "bea", Some("web")),
                access.allows("n2", "bea", None),
            ];
            assert_eq!(found, want, "{grants:?}");
        };
        check(&[], [false; 4]);
        check(&[Grant::default()], [false; 4]);
        check(&[grant("ann", "", "")], [true, true, false, false]);
        check(&[grant("ann", "", "n1")], [true, false, false, false]);
        check(&[grant("", "web", "n1")], [false, false, true, false]);
        check(&[grant("", "", "n2")], [false, true, false, true]);
        check(&[grant("ann", "", "n1"), grant("", "web", "")], [true, true, true, false]);
        assert!(Access::All.allows("n9", "x", None));
    }

    #[test]
    fn words_are_values_in_questions() {
        let mut values = vec![Value::Whole(1)];
        let access = Access::Some(vec![grant("' OR 1=1 --", "", "n1"), grant("", "p", "")]);
        let condition = access.condition(&mut values).unwrap();
        assert_eq!(
            condition,
            "((jobs.\"user\" = ?2 AND jobs.host = (SELECT id FROM hosts WHERE name = ?3)) OR (jobs.project = ?4))"
        );
        assert_eq!(values.len(), 4);
        assert_eq!(Access::default().condition(&mut values).as_deref(), Some("1 = 0"));
        assert_eq!(Access::All.condition(&mut values), None);
    }
}
