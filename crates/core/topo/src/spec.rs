//! How a user names a machine: the value of `--from` and `--topology`.

use std::path::PathBuf;

/// The longest value accepted; hwloc's own synthetic descriptions stay far below.
const SPEC_BYTES_MAX: usize = 64 * 1024;

/// Where a topology comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The machine of this process.
    Host,
    /// A file in hwloc's XML format.
    Xml(PathBuf),
    /// hwloc's synthetic description, like `pack:2 numa:1 core:4 pu:2`.
    Synthetic(String),
    /// A copy of another machine's `/sys` (and, where kept, `/proc`).
    Sysfs(PathBuf),
}

/// Why a value names no machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The value is empty.
    #[error("{option} needs FILE.xml, synthetic:\"...\" or sysfs:DIR, and was given nothing")]
    Empty {
        /// The option as typed.
        option: String,
    },
    /// The value has no known form.
    #[error("{option} does not understand `{value}`: give FILE.xml, synthetic:\"...\" or sysfs:DIR")]
    Unknown {
        /// The option as typed.
        option: String,
        /// The value, cut to 80 characters.
        value: String,
    },
    /// A prefix without a value behind it.
    #[error("{option} was given `{prefix}` with nothing behind it")]
    NothingBehind {
        /// The option as typed.
        option: String,
        /// The prefix.
        prefix: &'static str,
    },
    /// More text than any description needs.
    #[error("{option} was given {bytes} bytes, more than {SPEC_BYTES_MAX}")]
    TooLong {
        /// The option as typed.
        option: String,
        /// How many bytes were given.
        bytes: usize,
    },
}

impl Source {
    /// Reads the value of `option` (like `--from`; the option's name is for error messages).
    ///
    /// # Errors
    /// When the value has no known form; see [`SpecError`].
    pub fn parse(option: &str, value: &str) -> Result<Self, SpecError> {
        let option = option.to_owned();
        if value.trim().is_empty() {
            return Err(SpecError::Empty { option });
        }
        if value.len() > SPEC_BYTES_MAX {
            return Err(SpecError::TooLong { option, bytes: value.len() });
        }
        for (prefix, source) in [
            ("synthetic:", (|rest: &str| Self::Synthetic(rest.to_owned())) as fn(&str) -> Self),
            ("sysfs:", |rest| Self::Sysfs(rest.into())),
            ("xml:", |rest| Self::Xml(rest.into())),
        ] {
            if let Some(rest) = value.strip_prefix(prefix) {
                // A shell strips the quotes of the documented form, a configuration file may not.
                let rest = rest.trim().trim_matches('"');
                if rest.trim().is_empty() {
                    return Err(SpecError::NothingBehind { option, prefix });
                }
                return Ok(source(rest));
            }
        }
        if value.to_ascii_lowercase().ends_with(".xml") {
            return Ok(Self::Xml(value.into()));
        }
        let value = value.chars().take(80).collect();
        Err(SpecError::Unknown { option, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, want: Result<Source, &str>) {
        let got = Source::parse("--from", value).map_err(|error| error.to_string());
        assert_eq!(got, want.map_err(str::to_owned), "{value:?}");
    }

    #[test]
    fn forms() {
        check("a/b.xml", Ok(Source::Xml("a/b.xml".into())));
        check("xml:odd", Ok(Source::Xml("odd".into())));
        check("sysfs:/tmp/tree", Ok(Source::Sysfs("/tmp/tree".into())));
        check("synthetic:\"pack:2 pu:2\"", Ok(Source::Synthetic("pack:2 pu:2".into())));
        check("synthetic:pack:2 pu:2", Ok(Source::Synthetic("pack:2 pu:2".into())));
        check("synthetic:", Err("--from was given `synthetic:` with nothing behind it"));
        check(
            "machine",
            Err("--from does not understand `machine`: give FILE.xml, synthetic:\"...\" or sysfs:DIR"),
        );
        check("", Err("--from needs FILE.xml, synthetic:\"...\" or sysfs:DIR, and was given nothing"));
        check(&"x".repeat(70_000), Err("--from was given 70000 bytes, more than 65536"));
    }
}
