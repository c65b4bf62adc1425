//! The keys of countable resources: `resources.NAME`, for names chosen by an operator.

use std::collections::BTreeMap;

use super::kind::{Kind as _, Whole};
use super::{ConfigError, Value};
use crate::resource::{RESOURCE_NAME_MAX, RESOURCES_MAX, is_resource_name};

const PREFIX: &str = "resources.";
/// The largest count of a resource.
const COUNT_MAX: u32 = 1_000_000_000;

/// The count of each resource, by name.
pub type Resources = BTreeMap<String, u64>;

/// Sets the count of a resource; `None`: not a resource's key.
pub(super) fn apply(
    resources: &mut Resources,
    key: &str,
    value: &Value,
    place: &str,
) -> Option<Result<(), ConfigError>> {
    let name = key.strip_prefix(PREFIX)?;
    Some(set(resources, name, value).map_err(|wanted| ConfigError::Value {
        place: place.to_owned(),
        key: key.to_owned(),
        value: value.shown(),
        wanted,
    }))
}

fn set(resources: &mut Resources, name: &str, value: &Value) -> Result<(), String> {
    if !is_resource_name(name) {
        return Err(format!(
            "the name of a resource begins with a letter and has at most {RESOURCE_NAME_MAX} letters, digits, `.`, `-` \
             and `_`"
        ));
    }
    if value.text() == Some("") {
        resources.remove(name);
        return Ok(());
    }
    let count = Whole(0, COUNT_MAX).read(value)?;
    if resources.len() >= RESOURCES_MAX && !resources.contains_key(name) {
        return Err(format!("there are {RESOURCES_MAX} different resources at most"));
    }
    resources.insert(name.to_owned(), u64::from(count));
    Ok(())
}

/// The count of a resource as TOML, empty when unset; `None`: not a resource's key.
pub(super) fn value(resources: &Resources, key: &str) -> Option<String> {
    let name = key.strip_prefix(PREFIX)?;
    Some(resources.get(name).map(ToString::to_string).unwrap_or_default())
}

/// The key names of all configured resources.
pub(super) fn keys(resources: &Resources) -> impl Iterator<Item = String> {
    resources.keys().map(|name| format!("{PREFIX}{name}"))
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
    fn counts_of_resources_are_keys_like_others() {
        check(&["resources.licence.fluent=2"], "resources.licence.fluent", Ok("2"));
        check(&["resources.gpu=0"], "resources.gpu", Ok("0"));
        check(&["resources.gpu=4", "resources.gpu="], "resources.gpu", Ok(""));
        check(&[], "resources.other", Ok(""));
        check(
            &["resources.gpu=-1"],
            "",
            Err("`resources.gpu` is -1, and a whole number from 0 to 1000000000 is wanted"),
        );
        check(
            &["resources.2=1"],
            "",
            Err(
                "`resources.2` is 1, and the name of a resource begins with a letter and has at most 64 letters, digits, \
                 `.`, `-` and `_`",
            ),
        );
    }

    #[test]
    fn a_file_names_resources_in_a_section() {
        let text = "[resources]\ngpu = 2\nlicence.fluent = 3\n";
        let (config, set) = Config::default().with_file(text).unwrap();
        assert_eq!(set, ["resources.gpu", "resources.licence.fluent"]);
        assert_eq!(config.resources.get("licence.fluent"), Some(&3));
        assert_eq!(config.keys().last().map(String::as_str), Some("resources.licence.fluent"));
    }
}
