//! Suggests a known key for an unknown key.

use super::KEYS;
use crate::alike;

/// The suggestion in words: the key with the same last part, else the most similar key, else the keys of the same
/// section. Empty without a match.
#[must_use]
pub fn hint(name: &str) -> String {
    let name = &name.to_lowercase();
    let meant = |key: &str| format!("; is `{key}` meant?");
    let tail = |name: &str| name.rsplit('.').next().unwrap_or("").to_owned();
    if let Some(key) = KEYS.iter().find(|key| key.name == name || tail(key.name) == tail(name)) {
        return meant(key.name);
    }
    if let Some(key) = alike::most(name, KEYS.iter().map(|key| key.name)) {
        return meant(key);
    }
    let head = name.split_once('.').map_or("", |(head, _)| head);
    let same_head = |key: &&str| key.split_once('.').is_some_and(|(theirs, _)| theirs == head);
    let others: Vec<String> =
        KEYS.iter().map(|key| key.name).filter(same_head).map(|key| format!("`{key}`")).collect();
    if others.is_empty() { String::new() } else { format!("; `{head}` has {}", others.join(", ")) }
}
