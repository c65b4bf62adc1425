//! The keys of projects: `projects.NAME.cores`, `.memory`, `.users` and `.operators`, for names chosen by an
//! operator.

use std::collections::BTreeMap;

use super::kind::{Kind as _, Names, Optional, Size, Whole};
use super::{ConfigError, Value};
use crate::quantity::show_size;

/// A project's guarantees and users.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Project {
    /// `cores`: guaranteed home cores; `None`: shares the cores of jobs without a project.
    pub cores: Option<u32>,
    /// `memory`: guaranteed bytes; `None`: shares the memory of jobs without a project.
    pub memory: Option<u64>,
    /// `users`: the users allowed to run jobs in it; `None` or `*`: all users.
    pub users: Option<Vec<String>>,
    /// `operators`: users who may see and control all jobs in it.
    pub operators: Vec<String>,
}

/// The keys of each project, and their meanings.
pub const PROJECT_KEYS: [(&str, &str); 4] = [
    ("cores", "home cores that are the project's when it wants them, lent to others when it does not"),
    (
        "memory",
        "memory that is the project's when it wants it, as 8GiB; lent as far as swap could take it back",
    ),
    ("users", "who may run jobs in it, a list of names; unset: everybody"),
    (
        "operators",
        "who may see and steer all jobs in it, a list of names; unset: operators of the host alone",
    ),
];

const PREFIX: &str = "projects.";
/// The longest name of a project.
const NAME_MAX: usize = 64;

/// The projects by name.
pub type Projects = BTreeMap<String, Project>;

/// Sets a key of a project, or the project as a whole; `None`: not a project's key.
pub(super) fn apply(
    projects: &mut Projects,
    key: &str,
    value: &Value,
    place: &str,
) -> Option<Result<(), ConfigError>> {
    let rest = key.strip_prefix(PREFIX)?;
    Some(set(projects, rest, value).map_err(|error| match error {
        Wrong::Key => ConfigError::Unknown {
            place: place.to_owned(),
            key: key.to_owned(),
            hint: "; a project has `cores`, `memory`, `users` and `operators`".to_owned(),
        },
        Wrong::Value(wanted) => {
            ConfigError::Value { place: place.to_owned(), key: key.to_owned(), value: value.shown(), wanted }
        }
        Wrong::Name(name) => ConfigError::Value {
            place: place.to_owned(),
            key: key.to_owned(),
            value: format!("of project `{name}`"),
            wanted: format!("a project's name has 1 to {NAME_MAX} letters, digits, `-` and `_`"),
        },
    }))
}

enum Wrong {
    Key,
    Value(String),
    Name(String),
}

fn set(projects: &mut Projects, rest: &str, value: &Value) -> Result<(), Wrong> {
    let (name, field) = match rest.rsplit_once('.') {
        Some((name, field)) => (name, Some(field)),
        None => (rest, None),
    };
    let sign = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(sign) {
        return Err(Wrong::Name(name.to_owned()));
    }
    let Some(field) = field else {
        return match value {
            Value::EmptyTable => {
                projects.entry(name.to_owned()).or_default();
                Ok(())
            }
            Value::Text(text) if text.is_empty() => {
                projects.remove(name);
                Ok(())
            }
            _ => Err(Wrong::Value(
                "an empty value removes the project; its keys are set one by one".to_owned(),
            )),
        };
    };
    let unset = value.text() == Some("");
    let mut project = projects.get(name).cloned().unwrap_or_default();
    match field {
        "cores" if unset => project.cores = None,
        "cores" => project.cores = Some(Whole(0, 65_536).read(value).map_err(Wrong::Value)?),
        "memory" => project.memory = Optional(Size(0)).read(value).map_err(Wrong::Value)?,
        "users" if unset => project.users = None,
        "users" => project.users = Some(Names.read(value).map_err(Wrong::Value)?),
        "operators" if unset => project.operators.clear(),
        "operators" => project.operators = Names.read(value).map_err(Wrong::Value)?,
        _ => return Err(Wrong::Key),
    }
    projects.insert(name.to_owned(), project);
    Ok(())
}

/// The value of a project's key as TOML, empty when unset; `None`: not a project's key.
pub(super) fn value(projects: &Projects, key: &str) -> Option<String> {
    let rest = key.strip_prefix(PREFIX)?;
    let Some((name, field)) = rest.split_once('.') else {
        return Some(if projects.contains_key(rest) { "{}".to_owned() } else { String::new() });
    };
    let project = projects.get(name);
    let text = match field {
        "cores" => project.and_then(|project| project.cores).map(|cores| cores.to_string()),
        "memory" => {
            project.and_then(|project| project.memory).map(|bytes| format!("\"{}\"", show_size(bytes)))
        }
        "users" => project.and_then(|project| project.users.as_ref()).map(|users| format!("{users:?}")),
        "operators" => project
            .filter(|project| !project.operators.is_empty())
            .map(|project| format!("{:?}", project.operators)),
        _ => return None,
    };
    Some(text.unwrap_or_default())
}

/// The names of all keys of all existing projects.
pub(super) fn keys(projects: &Projects) -> impl Iterator<Item = String> {
    projects
        .keys()
        .flat_map(|name| PROJECT_KEYS.iter().map(move |(field, _)| format!("{PREFIX}{name}.{field}")))
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[track_caller]
    fn check(changes: &[&str], key: &str, want: Result<&str, &str>) {
        let got = Config::default().with_changes(changes.iter().copied());
        let got = got.map(|(config, _)| config.value(key).unwrap()).map_err(|error| error.to_string());
        assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned), "{changes:?}");
    }

    #[test]
    fn projects_are_keys_like_others() {
        check(&["projects.web.cores=2"], "projects.web.cores", Ok("2"));
        check(&["projects.web.cores=2"], "projects.web.memory", Ok(""));
        check(&["projects.web.cores=2", "projects.web.cores="], "projects.web.cores", Ok(""));
        check(&["projects.web.cores=2", "projects.web="], "projects.web", Ok(""));
        check(&["projects.web={}"], "projects.web", Ok("{}"));
        check(&["projects.web.memory=3GiB"], "projects.web.memory", Ok("\"3GiB\""));
        check(&["projects.web.users=ann,bob"], "projects.web.users", Ok("[\"ann\", \"bob\"]"));
        check(&["projects.web.users=[]"], "projects.web.users", Ok("[]"));
        check(&["projects.web.operators=ann"], "projects.web.operators", Ok("[\"ann\"]"));
        check(&["projects.web.operators=ann", "projects.web.operators="], "projects.web.operators", Ok(""));
        check(
            &["projects.web.cores=many"],
            "",
            Err("`projects.web.cores` is `many`, and a whole number from 0 to 65536 is wanted"),
        );
        check(
            &["projects.web.core=1"],
            "",
            Err(
                "there is no key `projects.web.core`; a project has `cores`, `memory`, `users` and `operators`",
            ),
        );
        check(
            &["projects.a b.cores=1"],
            "",
            Err(
                "`projects.a b.cores` is of project `a b`, and a project's name has 1 to 64 letters, digits, `-` and `_`",
            ),
        );
        check(
            &["projects.web=5"],
            "",
            Err("`projects.web` is 5, and an empty value removes the project; its keys are set one by one"),
        );
    }

    #[test]
    fn a_file_names_projects_in_sections() {
        let text = "[projects.web]\ncores = 2\nusers = [\"ann\"]\n[projects.rest]\n";
        let (config, set) = Config::default().with_file(text).unwrap();
        assert_eq!(set, ["projects.rest", "projects.web.cores", "projects.web.users"]);
        assert_eq!(config.projects.keys().collect::<Vec<_>>(), ["rest", "web"]);
        assert_eq!(
            config.keys().into_iter().rev().take(4).collect::<Vec<_>>(),
            ["projects.web.operators", "projects.web.users", "projects.web.memory", "projects.web.cores"]
        );
        let error = Config::default().with_file("[projects.web]\n\ncores = -1\n").unwrap_err().to_string();
        assert_eq!(error, "line 3: `projects.web.cores` is -1, and a whole number from 0 to 65536 is wanted");
    }
}
