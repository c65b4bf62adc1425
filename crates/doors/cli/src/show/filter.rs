//! The choice, the order and the columns of jobs in `status` and `report`: by the keys of their JSON.

use std::cmp::Ordering;

use clap::Args;
use pinfold_profile::report::plain;
use pinfold_proto::quantity::whole;
use pinfold_proto::{End, ExitCode, alike};
use pinfold_sys::peer;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::fields;
use pinfold_client::Failure;

/// The states that jobs are picked by. `suspended` is either of `frozen` and `parked`.
pub(crate) const STATES: [&str; 7] = ["queued", "held", "running", "frozen", "parked", "suspended", "exited"];

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Which jobs, and what of them")]
pub(crate) struct Filter {
    /// Only jobs of this user
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// Only jobs by this name; * stands for any characters
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Only jobs in one of these states: queued, held, running, frozen, parked, suspended (frozen or parked), exited
    #[arg(long, value_name = "STATE[,STATE]", value_delimiter = ',', value_parser = STATES)]
    pub state: Vec<String>,
    /// Only jobs that have ended and failed; cancelled jobs did not fail
    #[arg(long)]
    pub failed: bool,
    /// Only jobs of this project
    #[arg(long, value_name = "NAME")]
    pub project: Option<String>,
    /// At most N jobs, the first after sorting
    #[arg(long, value_name = "N", value_parser = whole::<usize>(0..=usize::MAX))]
    pub limit: Option<usize>,
    /// By this key of the JSON; with - before it the largest first
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub sort: Option<String>,
    /// A table of these keys of the JSON, as they are there
    #[arg(long, value_name = "KEY[,KEY]", value_delimiter = ',', conflicts_with = "json")]
    pub columns: Vec<String>,
}

impl Filter {
    /// The jobs that fit, in order.
    pub(crate) fn apply<T: Serialize + DeserializeOwned>(&self, jobs: Vec<T>) -> Result<Vec<T>, Failure> {
        self.check(jobs.first())?;
        let mut kept: Vec<(Map<String, Value>, T)> =
            jobs.into_iter().map(|job| (keys_of(&job), job)).filter(|(keys, _)| self.keeps(keys)).collect();
        if let Some(key) = &self.sort {
            let (key, down) = key.strip_prefix('-').map_or((key.as_str(), false), |key| (key, true));
            kept.sort_by(|(one, _), (other, _)| {
                let order = compare(value(one, key), value(other, key));
                if down { order.reverse() } else { order }
            });
        }
        kept.truncate(self.limit.unwrap_or(usize::MAX));
        Ok(kept.into_iter().map(|(_, job)| job).collect())
    }

    /// Whether keys are named, and their values needed for that.
    pub(crate) fn names_keys(&self) -> bool {
        self.sort.is_some() || !self.columns.is_empty()
    }

    /// Whether the named keys are keys of jobs, also if there is no job.
    fn check<T: Serialize + DeserializeOwned>(&self, first: Option<&T>) -> Result<(), Failure> {
        let mut fields: Vec<&str> = fields::of::<T>().to_vec();
        // A type that is composed of several types shows its keys by its values alone.
        let first = first.map(keys_of).filter(|_| fields.is_empty());
        fields.extend(first.iter().flat_map(|keys| keys.keys().map(String::as_str)));
        if fields.is_empty() {
            return Ok(());
        }
        let sort = self.sort.iter().map(|key| ("--sort", key.strip_prefix('-').unwrap_or(key)));
        let columns = self.columns.iter().map(|key| ("--columns", key.as_str()));
        let mut unknown = sort.chain(columns).filter(|(_, key)| !fields.contains(key));
        unknown.next().map_or(Ok(()), |(option, key)| Err(no_key(option, key, &fields)))
    }

    /// The message if `looked_at` jobs of this host were read and none is shown; `None`: no option kept a job back.
    pub(crate) fn none_of(&self, looked_at: usize) -> Option<String> {
        let unknown = self.user.as_ref().filter(|user| peer::user_named(user).is_none());
        match unknown {
            Some(user) => Some(format!("--user {user}: this host knows no user by that name")),
            None => self.none_of_elsewhere(looked_at),
        }
    }

    /// The message for other hosts; their users are not known here.
    pub(crate) fn none_of_elsewhere(&self, looked_at: usize) -> Option<String> {
        let texts = [("--user", &self.user), ("--name", &self.name), ("--project", &self.project)];
        let mut said: Vec<String> =
            texts.iter().filter_map(|(option, text)| Some(format!("{option} {}", text.as_ref()?))).collect();
        said.extend(self.failed.then(|| "--failed".to_owned()));
        said.extend((!self.state.is_empty()).then(|| format!("--state {}", self.state.join(","))));
        said.extend(self.limit.filter(|&limit| limit == 0).map(|_| "--limit 0".to_owned()));
        let said = said.join(" ");
        match looked_at {
            _ if said.is_empty() => None,
            0 => None,
            1 => Some(format!("the only job does not fit {said}")),
            _ => Some(format!("none of {looked_at} jobs fits {said}")),
        }
    }

    fn keeps(&self, keys: &Map<String, Value>) -> bool {
        let text = |key: &str| keys.get(key).and_then(Value::as_str).unwrap_or("");
        self.user.as_deref().is_none_or(|user| text("user") == user)
            && self.project.as_deref().is_none_or(|project| text("project") == project)
            && (!self.failed || has_failed(keys))
            && (self.state.is_empty() || self.state.iter().any(|state| is_in_state(text("state"), state)))
            && self.name.as_deref().is_none_or(|name| matches(name, text("name")))
    }

    /// A table of the keys that are asked for.
    pub(crate) fn table<T: Serialize + DeserializeOwned>(&self, jobs: &[T]) -> Result<String, Failure> {
        self.check(jobs.first())?;
        let mut rows: Vec<Vec<String>> = vec![self.columns.iter().map(|key| key.to_uppercase()).collect()];
        for job in jobs {
            let keys = keys_of(job);
            rows.push(self.columns.iter().map(|key| shown(value(&keys, key))).collect());
        }
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
            .collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
            cells.collect::<Vec<String>>().join("  ").trim_end().to_owned() + "\n"
        };
        Ok(rows.iter().map(line).collect())
    }
}

fn keys_of<T: Serialize>(job: &T) -> Map<String, Value> {
    match serde_json::to_value(job) {
        Ok(Value::Object(keys)) => keys,
        _ => Map::new(),
    }
}

/// The value of a key; a key that is left out counts as absent.
fn value<'a>(keys: &'a Map<String, Value>, key: &str) -> &'a Value {
    keys.get(key).unwrap_or(&Value::Null)
}

fn no_key(option: &str, key: &str, fields: &[&str]) -> Failure {
    let like = alike::most(key, fields.iter().copied());
    // Else the keys that contain the word.
    let has_word = |field: &&&str| field.split('_').any(|word| word == key);
    let like = like.map_or_else(
        || fields.iter().filter(has_word).map(|field| format!("`{field}`")).collect::<Vec<_>>().join(" or "),
        |like| format!("`{like}`"),
    );
    let meant = Some(like).filter(|like| !like.is_empty()).map(|like| format!("is {like} meant? "));
    let text =
        format!("there is no key `{key}`; {}there are {}", meant.unwrap_or_default(), fields.join(", "));
    Failure::new(ExitCode::Usage, format!("{option}: {text}"))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => plain(text),
        Value::Array(all) => all.iter().map(shown).collect::<Vec<String>>().join(","),
        other => plain(&other.to_string()),
    }
}

/// Numbers by size, texts by letters; absent values come first.
fn compare(one: &Value, other: &Value) -> Ordering {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        _ => (!one.is_null(), shown(one)).cmp(&(!other.is_null(), shown(other))),
    }
}

/// Whether a job, as JSON, is over and failed. A job that was cancelled did not.
fn has_failed(keys: &Map<String, Value>) -> bool {
    let end: Option<End> = keys.get("end").and_then(|end| serde_json::from_value(end.clone()).ok());
    let is_over = keys.get("state").and_then(Value::as_str) == Some("exited");
    let ended_well = end.is_none() && keys.get("exit_code").and_then(Value::as_i64) == Some(0);
    is_over && !ended_well && end != Some(End::Cancelled)
}

/// Whether a job's state is meant by this word of [`STATES`].
fn is_in_state(state: &str, word: &str) -> bool {
    state == word || word == "suspended" && matches!(state, "frozen" | "parked")
}

/// Whether a name matches the pattern, `*` standing for any characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or("")) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use pinfold_proto::view::JobView;
    use serde_json::json;

    use super::*;

    fn jobs() -> Vec<Value> {
        let job = |job: u64, name: &str, state: &str, user: &str, wall: Option<f64>| json!({ "job": job, "name": name, "state": state, "user": user, "project": null, "wall_s": wall });
        vec![
            job(1, "sort", "exited", "ann", Some(3.0)),
            job(2, "sort-2", "running", "bob", None),
            job(3, "make", "queued", "ann", Some(10.5)),
        ]
    }

    #[track_caller]
    fn check(filter: Filter, want: &[u64]) {
        let got = filter.apply(jobs()).expect("known keys");
        let got: Vec<u64> = got.iter().filter_map(|job| job["job"].as_u64()).collect();
        assert_eq!(got, want, "{filter:?}");
    }

    #[test]
    fn jobs_are_picked_and_sorted() {
        let some = |text: &str| Some(text.to_owned());
        check(Filter::default(), &[1, 2, 3]);
        check(Filter { user: some("ann"), ..Filter::default() }, &[1, 3]);
        check(Filter { name: some("sort*"), ..Filter::default() }, &[1, 2]);
        check(Filter { name: some("sort"), ..Filter::default() }, &[1]);
        check(Filter { state: vec!["queued".into(), "running".into()], ..Filter::default() }, &[2, 3]);
        check(Filter { project: some("x"), ..Filter::default() }, &[]);
        check(Filter { failed: true, ..Filter::default() }, &[1]);
        let over = |exit_code: i32, end: Option<&str>| {
            let job = json!({ "state": "exited", "exit_code": exit_code, "end": end });
            has_failed(job.as_object().expect("an object"))
        };
        assert!(!over(0, None) && over(3, None) && over(0, Some("timeout")) && !over(1, Some("cancelled")));
        check(Filter { sort: some("-wall_s"), limit: Some(2), ..Filter::default() }, &[3, 1]);
        check(Filter { sort: some("name"), ..Filter::default() }, &[3, 1, 2]);
    }

    #[test]
    fn a_key_that_no_job_has_is_refused_also_without_jobs() {
        let check = |filter: Filter, words: &str| {
            let failure = filter.apply(Vec::<JobView>::new()).expect_err("refused");
            assert!(
                failure.code == ExitCode::Usage && failure.message.contains(words),
                "{}",
                failure.message
            );
        };
        check(
            Filter { sort: Some("-wall".into()), ..Filter::default() },
            "--sort: there is no key `wall`; there are job,",
        );
        check(Filter { columns: vec!["job".into(), "nope".into()], ..Filter::default() }, "--columns");
        let known =
            Filter { sort: Some("-place".into()), columns: vec!["cpu_cores".into()], ..Filter::default() };
        assert!(known.apply(Vec::<JobView>::new()).is_ok());
    }

    #[test]
    fn columns_are_keys() {
        let filter =
            Filter { columns: vec!["job".into(), "name".into(), "wall_s".into()], ..Filter::default() };
        let want = "JOB  NAME    WALL_S\n1    sort    3.0\n2    sort-2  -\n3    make    10.5\n";
        assert_eq!(filter.table(&jobs()).expect("known keys"), want);
    }

    #[test]
    fn it_is_said_why_none_is_shown() {
        let filter = |user: Option<&str>, name: Option<&str>| Filter {
            user: user.map(str::to_owned),
            name: name.map(str::to_owned),
            state: vec!["queued".into(), "held".into()],
            ..Filter::default()
        };
        assert_eq!(Filter::default().none_of(7), None);
        assert_eq!(filter(None, None).none_of(0), None);
        assert_eq!(
            filter(None, Some("x*")).none_of(1).unwrap(),
            "the only job does not fit --name x* --state queued,held"
        );
        assert_eq!(
            filter(Some("root"), None).none_of(7).unwrap(),
            "none of 7 jobs fits --user root --state queued,held"
        );
        let unknown = filter(Some("no-such-user"), None).none_of(0);
        assert_eq!(unknown.unwrap(), "--user no-such-user: this host knows no user by that name");
        let elsewhere = filter(Some("no-such-user"), None).none_of_elsewhere(7);
        assert_eq!(elsewhere.unwrap(), "none of 7 jobs fits --user no-such-user --state queued,held");
    }

    #[test]
    fn names_with_stars() {
        for (pattern, name, want) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*a", "a", false),
            ("*b*", "abc", true),
            ("*x*", "abc", false),
        ] {
            assert_eq!(matches(pattern, name), want, "{pattern} {name}");
        }
    }
}
