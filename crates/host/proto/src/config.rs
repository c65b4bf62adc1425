//! The configuration: every key with its meaning and default, read from a TOML file or as `KEY=VALUE` and checked
//! here.
//!
//! A key's row in `keys.rs` generates its field, default, reader and display. Absent here: reading files, and the
//! effects of the values.

mod hint;
mod keys;
mod kind;
mod projects;
mod resources;
mod value;

use std::fmt::Write as _;

use toml::de::{DeTable, DeValue};

use value::Value;

pub use hint::hint;
pub use keys::{Config, KEYS, Key};
pub use projects::{PROJECT_KEYS, Project, Projects};
pub use resources::Resources;

/// `memory.learn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Learn {
    /// From the user's own.
    User,
    /// From the daemon's measurements of all jobs on the host.
    Site,
}

impl Learn {
    /// Its word.
    const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Site => "site",
        }
    }
}

/// `cpu.preemption`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preemption {
    /// The lowest running job is frozen.
    Hard,
    /// The lowest primary becomes a backfiller.
    Soft,
    /// Off.
    Off,
}

impl Preemption {
    /// Its word.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
            Self::Off => "off",
        }
    }
}

/// The meaning of `resources.NAME`, in a line.
pub const RESOURCES_MEANING: &str = "How many there are of each countable resource that jobs ask for with --resource; of GPUs, how many are handed out:";

/// An error in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The text is not TOML.
    #[error("line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The parser's message.
        message: String,
    },
    /// The key is unknown.
    #[error("{place}there is no key `{key}`{hint}")]
    Unknown {
        /// `line 3: ` in a file, else empty.
        place: String,
        /// The key.
        key: String,
        /// A similar key, in words.
        hint: String,
    },
    /// The value does not fit the key.
    #[error("{place}`{key}` is {value}, and {wanted}")]
    Value {
        /// `line 3: ` in a file, else empty.
        place: String,
        /// The key.
        key: String,
        /// The given value.
        value: String,
        /// The allowed values.
        wanted: String,
    },
    /// Not `KEY=VALUE`.
    #[error("`{0}` is not KEY=VALUE")]
    NoValue(String),
    /// Two values contradict each other.
    #[error("`{low}` is {low_value}, above `{high}`, {high_value}")]
    Order {
        /// The key with the too high value.
        low: &'static str,
        /// Its value.
        low_value: u8,
        /// The key of the upper bound.
        high: &'static str,
        /// Its value.
        high_value: u8,
    },
}

/// Default `host.memory_reserve`: the larger of this size and [`RESERVE_MILLI`] thousandths of RAM.
const RESERVE_BYTES: u64 = 256 << 20;
const RESERVE_MILLI: u64 = 20;

impl Config {
    /// The RAM in bytes that jobs may not use.
    #[must_use]
    pub fn memory_reserve_bytes(&self, ram_bytes: u64) -> u64 {
        self.host_memory_reserve.unwrap_or_else(|| RESERVE_BYTES.max(ram_bytes / 1000 * RESERVE_MILLI))
    }

    /// This configuration with the settings of the file `text`; also returns the names of the keys set.
    ///
    /// # Errors
    /// The first fault, with its line; nothing is changed then.
    pub fn with_file(&self, text: &str) -> Result<(Self, Vec<String>), ConfigError> {
        let table = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            message: error.message().to_owned(),
        })?;
        let mut config = self.clone();
        let mut set = Vec::new();
        let mut entries = Vec::new();
        flatten("", table.get_ref(), &mut entries);
        for (name, at, value) in entries {
            set.push(config.apply(&name, &value, &format!("line {}: ", line_of(text, at)))?);
        }
        config.check()?;
        Ok((config, set))
    }

    /// This configuration with all `changes`, each `KEY=VALUE`. A value is TOML, or else plain text, so that
    /// `cpu.preemption=hard` and `profile.interval=2s` need no quotes; an empty value unsets an optional key. Also
    /// returns the names of the keys set.
    ///
    /// # Errors
    /// The first fault, with its key; nothing is changed then.
    pub fn with_changes<'a>(
        &self,
        changes: impl IntoIterator<Item = &'a str>,
    ) -> Result<(Self, Vec<String>), ConfigError> {
        let mut config = self.clone();
        let mut set = Vec::new();
        for change in changes {
            let (name, text) =
                change.split_once('=').ok_or_else(|| ConfigError::NoValue(change.to_owned()))?;
            set.push(config.apply(name.trim(), &Value::read(text.trim()), "")?);
        }
        config.check()?;
        Ok((config, set))
    }

    /// The value of a key as TOML; empty when unset.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<String> {
        self.shown(key)
            .or_else(|| projects::value(&self.projects, key))
            .or_else(|| resources::value(&self.resources, key))
    }

    /// The names of all keys, including keys of existing projects and resources.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let fixed = KEYS.iter().map(|key| key.name.to_owned());
        fixed.chain(projects::keys(&self.projects)).chain(resources::keys(&self.resources)).collect()
    }

    fn apply(&mut self, name: &str, value: &Value, place: &str) -> Result<String, ConfigError> {
        if let Some(done) = projects::apply(&mut self.projects, name, value, place) {
            return done.map(|()| name.to_owned());
        }
        if let Some(done) = resources::apply(&mut self.resources, name, value, place) {
            return done.map(|()| name.to_owned());
        }
        match self.set(name, value) {
            None => {
                Err(ConfigError::Unknown { place: place.to_owned(), key: name.to_owned(), hint: hint(name) })
            }
            Some(done) => done.map(|()| name.to_owned()).map_err(|wanted| ConfigError::Value {
                place: place.to_owned(),
                key: name.to_owned(),
                value: value.shown(),
                wanted,
            }),
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let bounded = |low, low_value, high_value| {
            if low_value <= high_value {
                return Ok(());
            }
            Err(ConfigError::Order { low, low_value, high: "priority.max", high_value })
        };
        bounded("priority.default", self.priority_default, self.priority_max)
    }
}

/// The default configuration as a file, each key commented out beneath its meaning.
#[must_use]
pub fn default_file() -> String {
    let mut text =
        String::from("# pinfold's configuration. Every key shows its default; take the # away to set it.\n");
    let mut section = "";
    for key in KEYS {
        let (head, tail) = key.name.rsplit_once('.').unwrap_or(("", key.name));
        if head != section {
            let _ = write!(text, "\n[{head}]\n");
            section = head;
        }
        let default = if key.default.is_empty() { "\"\"" } else { key.default };
        let _ = write!(text, "# {}\n#{tail} = {default}\n", key.meaning);
    }
    text.push_str("\n# Projects, each in a section of its own with any of these keys:\n# [projects.NAME]\n");
    for (name, meaning) in PROJECT_KEYS {
        let _ = writeln!(text, "# {name}: {meaning}");
    }
    let _ = write!(text, "\n# {RESOURCES_MEANING}\n# [resources]\n# licence.fluent = 2\n");
    text
}

fn flatten(prefix: &str, table: &DeTable<'_>, out: &mut Vec<(String, usize, Value)>) {
    for (name, value) in table {
        let name_text = name.get_ref();
        let full = if prefix.is_empty() { name_text.to_string() } else { format!("{prefix}.{name_text}") };
        match value.get_ref() {
            // A project may have a name without settings.
            DeValue::Table(inner) if inner.is_empty() && prefix == "projects" => {
                out.push((full, name.span().start, Value::EmptyTable));
            }
            DeValue::Table(inner) => flatten(&full, inner, out),
            other => out.push((full, name.span().start, Value::of(other))),
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests;
