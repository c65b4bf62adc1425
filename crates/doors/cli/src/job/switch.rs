//! Options without a value that an environment variable can set as well: the variable's allowed values.

use std::ffi::OsStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};

/// Reads `1 yes true on` and `0 no false off`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Switch;

impl TypedValueParser for Switch {
    type Value = bool;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<bool, Error> {
        read(&value.to_string_lossy()).ok_or_else(|| {
            // The option itself has no value, so it was the variable's.
            let name = arg.and_then(Arg::get_env).unwrap_or_default();
            let text = format!(
                "{}={}: 1, yes, true or on is wanted, or 0, no, false or off\n",
                name.display(),
                value.display()
            );
            Error::raw(ErrorKind::InvalidValue, text).with_cmd(command)
        })
    }
}

fn read(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "yes" | "true" | "on" => Some(true),
        "" | "0" | "no" | "false" | "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_yes_and_no() {
        for yes in ["1", "yes", "true", "on", "ON", "Yes"] {
            assert_eq!(read(yes), Some(true), "{yes}");
        }
        for no in ["0", "no", "false", "off", ""] {
            assert_eq!(read(no), Some(false), "{no:?}");
        }
        for bad in ["2", "y", "maybe", " "] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }
}
