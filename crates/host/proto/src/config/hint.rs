//! What was perhaps meant by a key that is none.

use super::KEYS;
use crate::alike;

/// What was perhaps meant, in words: the known key with the same last part, else the one that is written most alike;
/// else the keys that begin alike. Empty where nothing is like it.
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
