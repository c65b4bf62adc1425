//! The kinds of values: how each is read, checked, and shown as TOML.
//!
//! Absent here: the kind of each key.

use std::net::SocketAddr;
use std::time::Duration;

use pinfold_topo::CpuSet;

use super::value::Value;
use crate::quantity::{QuantityError, parse_duration, parse_size, show_size};

/// A bare number with this many digits is in bytes: a million of a larger unit is implausible.
const SAVED_BARE_DIGITS: usize = 7;

/// How many programs a key can name.
const PROGRAMS_MAX: usize = 16;

pub(super) const MIB: u64 = 1 << 20;
pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const YEARS: Duration = Duration::from_secs(100 * 365 * 86_400);

/// A kind of value.
pub(super) trait Kind {
    /// The parsed type.
    type Of;

    /// Reads a value, or returns the expected form.
    fn read(&self, value: &Value) -> Result<Self::Of, String>;

    /// Shows the value as TOML; empty when unset.
    fn show(&self, of: &Self::Of) -> String;

    /// The user names in the value, if the kind holds names.
    fn users<'a>(&self, _of: &'a Self::Of) -> Option<&'a [String]> {
        None
    }

    /// Reads a default from the table of keys; a test checks all defaults.
    fn default(&self, text: &str) -> Self::Of {
        self.read(&Value::read(text)).expect("the default of a key is a value of its kind")
    }
}

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

/// A value of kind `K` or unset; an unset value shows as nothing.
pub(super) struct Optional<K>(pub(super) K);

impl<K: Kind> Kind for Optional<K> {
    type Of = Option<K::Of>;

    fn read(&self, value: &Value) -> Result<Self::Of, String> {
        if value.text() == Some("") { Ok(None) } else { self.0.read(value).map(Some) }
    }

    fn show(&self, of: &Self::Of) -> String {
        of.as_ref().map(|of| self.0.show(of)).unwrap_or_default()
    }
}

/// As [`Optional`], but an unset value shows as an empty text.
pub(super) struct Blank<K>(pub(super) K);

impl<K: Kind> Kind for Blank<K> {
    type Of = Option<K::Of>;

    fn read(&self, value: &Value) -> Result<Self::Of, String> {
        if value.text() == Some("") { Ok(None) } else { self.0.read(value).map(Some) }
    }

    fn show(&self, of: &Self::Of) -> String {
        of.as_ref().map_or_else(|| quoted(""), |of| self.0.show(of))
    }
}

/// On or off.
pub(super) struct Switch;

impl Kind for Switch {
    type Of = bool;

    fn read(&self, value: &Value) -> Result<bool, String> {
        match (value, value.text()) {
            (Value::Bool(on), _) => Ok(*on),
            (_, Some("on" | "yes")) => Ok(true),
            (_, Some("off" | "no")) => Ok(false),
            _ => Err("it is `on` or `off`".to_owned()),
        }
    }

    fn show(&self, of: &bool) -> String {
        of.to_string()
    }
}

/// A whole number from the first to the second.
pub(super) struct Whole(pub(super) u32, pub(super) u32);

impl Kind for Whole {
    type Of = u32;

    fn read(&self, value: &Value) -> Result<u32, String> {
        let Self(low, high) = self;
        let number = value.text().and_then(|text| text.parse().ok());
        number
            .filter(|n| (low..=high).contains(&n))
            .ok_or_else(|| format!("a whole number from {low} to {high} is wanted"))
    }

    fn show(&self, of: &u32) -> String {
        of.to_string()
    }
}

/// A public key of Ed25519, in hexadecimal.
pub(super) struct PublicKey;

impl Kind for PublicKey {
    type Of = String;

    fn read(&self, value: &Value) -> Result<String, String> {
        let key = value.text().unwrap_or_default();
        let is_key = crate::voucher::unhex(key).is_some_and(|bytes| bytes.len() == 32);
        if is_key {
            Ok(key.to_owned())
        } else {
            Err("a key of 64 digits of hexadecimal is wanted".to_owned())
        }
    }

    fn show(&self, of: &String) -> String {
        quoted(of)
    }
}

/// A priority, 1 to 16.
pub(super) struct Priority;

impl Kind for Priority {
    type Of = u8;

    fn read(&self, value: &Value) -> Result<u8, String> {
        Whole(1, 16).read(value).map(|priority| u8::try_from(priority).expect("at most 16"))
    }

    fn show(&self, of: &u8) -> String {
        of.to_string()
    }
}

/// A number from 0 to the bound, in thousandths.
pub(super) struct Milli(pub(super) u32);

impl Kind for Milli {
    type Of = u32;

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 4000 after the check")]
    fn read(&self, value: &Value) -> Result<u32, String> {
        match value {
            Value::Number(number, _) if (0.0..=f64::from(self.0)).contains(number) => {
                Ok((number * 1000.0).round() as u32)
            }
            _ => Err(format!("a number from 0 to {} is wanted", self.0)),
        }
    }

    fn show(&self, of: &u32) -> String {
        format!("{}", f64::from(*of) / 1000.0)
    }
}

/// PUs, as a kernel list.
pub(super) struct Cpus;

impl Kind for Cpus {
    type Of = CpuSet;

    fn read(&self, value: &Value) -> Result<CpuSet, String> {
        let text = value.text().ok_or("a kernel list such as 0-3,8 is wanted")?;
        text.parse().map_err(|error| format!("{error}"))
    }

    fn show(&self, of: &CpuSet) -> String {
        quoted(&of.to_string())
    }
}

/// A duration from the first to the second.
pub(super) struct Span(pub(super) Duration, pub(super) Duration);

impl Kind for Span {
    type Of = Duration;

    fn read(&self, value: &Value) -> Result<Duration, String> {
        let text = value.text().ok_or("a duration such as 10s is wanted")?;
        let duration = parse_duration(text).map_err(|error| error.to_string())?;
        if (self.0..=self.1).contains(&duration) {
            return Ok(duration);
        }
        Err(format!("{} to {} is allowed", show_duration(self.0), show_duration(self.1)))
    }

    fn show(&self, of: &Duration) -> String {
        quoted(&show_duration(*of))
    }
}

fn show_duration(duration: Duration) -> String {
    let us = duration.as_micros();
    for (unit, unit_us) in
        [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000)]
    {
        if us >= unit_us && us.is_multiple_of(unit_us) {
            return format!("{}{unit}", us / unit_us);
        }
    }
    format!("{us}us")
}

/// A value of the list, by its word.
pub(super) struct OneOf<T: 'static>(pub(super) &'static [T], pub(super) fn(T) -> &'static str);

impl<T: Copy> Kind for OneOf<T> {
    type Of = T;

    fn read(&self, value: &Value) -> Result<T, String> {
        let word = |one: &T| (self.1)(*one);
        let found = self.0.iter().find(|one| value.text() == Some(word(one)));
        found.copied().ok_or_else(|| {
            let words: Vec<String> = self.0.iter().map(|one| format!("`{}`", word(one))).collect();
            let (last, others) = words.split_last().expect("there are words");
            format!("it is {} or {last}", others.join(", "))
        })
    }

    fn show(&self, of: &T) -> String {
        quoted((self.1)(*of))
    }
}

/// A size in bytes, at least the bound.
pub(super) struct Size(pub(super) u64);

impl Kind for Size {
    type Of = u64;

    fn read(&self, value: &Value) -> Result<u64, String> {
        let too_small = || format!("at least {} is wanted", show_size(self.0));
        let bytes = match value.text() {
            Some("") => return Err(too_small()),
            Some(text) => match parse_size(text) {
                // Earlier versions saved sizes of odd bytes without a unit.
                Err(QuantityError::Unit(digits)) if digits.len() >= SAVED_BARE_DIGITS => {
                    parse_size(&format!("{digits}B"))
                }
                other => other,
            },
            None => return Err("a size such as 8GiB is wanted".to_owned()),
        };
        let bytes = bytes.map_err(|error| error.to_string())?;
        if bytes >= self.0 { Ok(bytes) } else { Err(too_small()) }
    }

    fn show(&self, of: &u64) -> String {
        quoted(&show_size(*of))
    }
}

/// An optional address and port.
pub(super) struct Address;

impl Kind for Address {
    type Of = Option<SocketAddr>;

    fn read(&self, value: &Value) -> Result<Self::Of, String> {
        let wanted = "an address and port such as 127.0.0.1:9464 is wanted";
        match value.text() {
            Some("" | "off") => Ok(None),
            text => text.and_then(|text| text.parse().ok()).map(Some).ok_or_else(|| wanted.to_owned()),
        }
    }

    fn show(&self, of: &Self::Of) -> String {
        of.map(|address| quoted(&address.to_string())).unwrap_or_default()
    }
}

/// A character of a single column on a terminal.
pub(super) struct Sign;

impl Kind for Sign {
    type Of = char;

    fn read(&self, value: &Value) -> Result<char, String> {
        let mut signs = value.text().unwrap_or("??").chars();
        match (signs.next(), signs.next()) {
            (Some(sign), None) if sign.is_ascii_graphic() || (sign.is_alphanumeric() && !sign.is_ascii()) => {
                Ok(sign)
            }
            (Some(sign @ '\u{2190}'..='\u{2BFF}'), None) => Ok(sign),
            _ => Err("one printable character is wanted, or none".to_owned()),
        }
    }

    fn show(&self, of: &char) -> String {
        quoted(&of.to_string())
    }
}

/// Names of users.
pub(super) struct Names;

impl Kind for Names {
    type Of = Vec<String>;

    fn read(&self, value: &Value) -> Result<Vec<String>, String> {
        value.list().ok_or_else(|| "a list of user names is wanted".to_owned())
    }

    fn users<'a>(&self, of: &'a Vec<String>) -> Option<&'a [String]> {
        Some(of)
    }

    fn show(&self, of: &Vec<String>) -> String {
        format!("{of:?}")
    }
}

/// The absolute path of a directory.
pub(super) struct Directory;

impl Kind for Directory {
    type Of = String;

    fn read(&self, value: &Value) -> Result<String, String> {
        match value.text() {
            Some(path) if is_absolute(path) => Ok(path.to_owned()),
            _ => Err("the absolute path of a directory is wanted".to_owned()),
        }
    }

    fn show(&self, of: &String) -> String {
        quoted(of)
    }
}

/// Programs by their absolute paths.
pub(super) struct Programs;

impl Kind for Programs {
    type Of = Vec<String>;

    fn read(&self, value: &Value) -> Result<Vec<String>, String> {
        let programs = value.list();
        let fits = |programs: &Vec<String>| {
            programs.len() <= PROGRAMS_MAX && programs.iter().all(|program| is_absolute(program))
        };
        programs
            .filter(fits)
            .ok_or_else(|| format!("a list of absolute paths of programs, at most {PROGRAMS_MAX}, is wanted"))
    }

    fn show(&self, of: &Vec<String>) -> String {
        format!("{of:?}")
    }
}

fn is_absolute(path: &str) -> bool {
    path.starts_with('/') && !path.contains('\0')
}
