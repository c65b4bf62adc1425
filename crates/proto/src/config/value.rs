//! A value of a key as it was given, and what it can be read as. Absent here: which key wants what.

use std::net::SocketAddr;
use std::time::Duration;

use pinfold_topo::CpuSet;
use toml::de::{DeTable, DeValue};

use super::{Learn, Preemption, YEARS, show_duration};
use crate::job::JobPlace;
use crate::quantity::{QuantityError, parse_duration, parse_size};

/// A number of so many digits is one of bytes: nobody means a million of something else.
const SAVED_BARE_DIGITS: usize = 7;

/// How many programs a key can name.
const PROGRAMS_MAX: usize = 16;

/// A value as it was given, reduced to what keys can hold.
pub(super) enum Value {
    Bool(bool),
    Number(f64, String),
    Text(String),
    List(Vec<String>),
    EmptyTable,
    Other(String),
}

impl Value {
    pub(super) fn read(text: &str) -> Self {
        let line = format!("v = {text}");
        match DeTable::parse(&line) {
            Ok(table) if table.get_ref().len() == 1 => table
                .get_ref()
                .values()
                .next()
                .map_or_else(|| Self::Text(text.to_owned()), |v| Self::of(v.get_ref())),
            _ => Self::Text(text.to_owned()),
        }
    }

    pub(super) fn of(value: &DeValue<'_>) -> Self {
        match value {
            DeValue::Boolean(on) => Self::Bool(*on),
            DeValue::Integer(number) => Self::number(number.as_str()),
            DeValue::Float(number) => Self::number(number.as_str()),
            DeValue::String(text) => Self::Text(text.clone().into_owned()),
            DeValue::Array(items) => {
                let text = |item: &DeValue<'_>| item.as_str().map(str::to_owned);
                let items: Option<Vec<String>> = items.iter().map(|item| text(item.get_ref())).collect();
                items.map_or_else(|| Self::Other("a list of other things than texts".to_owned()), Self::List)
            }
            DeValue::Datetime(_) => Self::Other("a date".to_owned()),
            DeValue::Table(table) if table.is_empty() => Self::EmptyTable,
            DeValue::Table(_) => Self::Other("a table".to_owned()),
        }
    }

    pub(super) fn number(text: &str) -> Self {
        text.parse()
            .map_or_else(|_| Self::Other(text.to_owned()), |number| Self::Number(number, text.to_owned()))
    }

    pub(super) fn shown(&self) -> String {
        match self {
            Self::Bool(on) => on.to_string(),
            Self::Number(_, text) | Self::Other(text) => text.clone(),
            Self::Text(text) => format!("`{text}`"),
            Self::List(items) => format!("{items:?}"),
            Self::EmptyTable => "an empty table".to_owned(),
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Number(_, text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn switch(&self) -> Result<bool, String> {
        match (self, self.text()) {
            (Self::Bool(on), _) => Ok(*on),
            (_, Some("on" | "yes")) => Ok(true),
            (_, Some("off" | "no")) => Ok(false),
            _ => Err("it is `on` or `off`".to_owned()),
        }
    }

    pub(super) fn optional_switch(&self) -> Result<Option<bool>, String> {
        if self.text() == Some("") { Ok(None) } else { self.switch().map(Some) }
    }

    pub(super) fn whole(&self, low: u32, high: u32) -> Result<u32, String> {
        let number = self.text().and_then(|text| text.parse().ok());
        number
            .filter(|n| (low..=high).contains(n))
            .ok_or_else(|| format!("a whole number from {low} to {high} is wanted"))
    }

    pub(super) fn optional_whole(&self, low: u32, high: u32) -> Result<Option<u32>, String> {
        if self.text() == Some("") { Ok(None) } else { self.whole(low, high).map(Some) }
    }

    pub(super) fn priority(&self) -> Result<u8, String> {
        self.whole(1, 16).map(|priority| u8::try_from(priority).expect("at most 16"))
    }

    pub(super) fn factor(&self) -> Result<u32, String> {
        self.milli(4)
    }

    pub(super) fn part(&self) -> Result<u32, String> {
        self.milli(1)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 4000 after the check")]
    pub(super) fn milli(&self, most: u32) -> Result<u32, String> {
        match self {
            Self::Number(number, _) if (0.0..=f64::from(most)).contains(number) => {
                Ok((number * 1000.0).round() as u32)
            }
            _ => Err(format!("a number from 0 to {most} is wanted")),
        }
    }

    pub(super) fn cpus(&self) -> Result<Option<CpuSet>, String> {
        match self.text() {
            Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|error| format!("{error}")),
            None => Err("a kernel list such as 0-3,8 is wanted".to_owned()),
        }
    }

    pub(super) fn duration(&self, low: Duration, high: Duration) -> Result<Duration, String> {
        let text = self.text().ok_or("a duration such as 10s is wanted")?;
        let duration = parse_duration(text).map_err(|error| error.to_string())?;
        if (low..=high).contains(&duration) {
            return Ok(duration);
        }
        Err(format!("{} to {} is allowed", show_duration(low), show_duration(high)))
    }

    pub(super) fn optional_duration(&self) -> Result<Option<Duration>, String> {
        if self.text() == Some("") {
            return Ok(None);
        }
        self.duration(Duration::from_millis(1), YEARS).map(Some)
    }

    pub(super) fn preemption(&self) -> Result<Preemption, String> {
        match self.text() {
            Some("hard") => Ok(Preemption::Hard),
            Some("soft") => Ok(Preemption::Soft),
            Some("off") => Ok(Preemption::Off),
            _ => Err("it is `hard`, `soft` or `off`".to_owned()),
        }
    }

    pub(super) fn learn(&self) -> Result<Learn, String> {
        match self.text() {
            Some("user") => Ok(Learn::User),
            Some("site") => Ok(Learn::Site),
            _ => Err("it is `user` or `site`".to_owned()),
        }
    }

    pub(super) fn place(&self) -> Result<JobPlace, String> {
        let place = self.text().and_then(JobPlace::of);
        place.ok_or_else(|| "it is `auto`, `compact` or `spread`".to_owned())
    }

    pub(super) fn optional_size(&self) -> Result<Option<u64>, String> {
        match self.text() {
            Some("") => Ok(None),
            Some(text) => match parse_size(text) {
                // Earlier versions saved sizes of odd bytes without a unit.
                Err(QuantityError::Unit(digits)) if digits.len() >= SAVED_BARE_DIGITS => {
                    parse_size(&format!("{digits}B")).map(Some).map_err(|error| error.to_string())
                }
                other => other.map(Some).map_err(|error| error.to_string()),
            },
            None => Err("a size such as 8GiB is wanted".to_owned()),
        }
    }

    pub(super) fn optional_address(&self) -> Result<Option<SocketAddr>, String> {
        match self.text() {
            Some("" | "off") => Ok(None),
            Some(text) => {
                text.parse().ok().map(Some).ok_or("an address and port such as 127.0.0.1:9464 is wanted")
            }
            None => Err("an address and port such as 127.0.0.1:9464 is wanted"),
        }
        .map_err(str::to_owned)
    }

    /// One character that a terminal shows in one place.
    pub(super) fn sign(&self) -> Result<Option<char>, String> {
        let mut signs = self.text().unwrap_or("??").chars();
        match (signs.next(), signs.next()) {
            (None, _) => Ok(None),
            (Some(sign), None) if sign.is_ascii_graphic() || (sign.is_alphanumeric() && !sign.is_ascii()) => {
                Ok(Some(sign))
            }
            (Some(sign @ '\u{2190}'..='\u{2BFF}'), None) => Ok(Some(sign)),
            _ => Err("one printable character is wanted, or none".to_owned()),
        }
    }

    pub(super) fn names(&self) -> Result<Vec<String>, String> {
        match self {
            Self::List(names) => Ok(names.clone()),
            Self::Text(text) => {
                Ok(text.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect())
            }
            _ => Err("a list of user names is wanted".to_owned()),
        }
    }
}

impl Value {
    /// Programs by their absolute paths.
    pub(super) fn directory(&self) -> Result<Option<String>, String> {
        match self.text() {
            Some("") => Ok(None),
            Some(path) if path.starts_with('/') && !path.contains('\0') => Ok(Some(path.to_owned())),
            _ => Err("the absolute path of a directory is wanted".to_owned()),
        }
    }

    pub(super) fn programs(&self) -> Result<Vec<String>, String> {
        let wanted = || format!("a list of absolute paths of programs, at most {PROGRAMS_MAX}, is wanted");
        let programs = self.names().map_err(|_| wanted())?;
        let fits = |program: &String| program.starts_with('/') && !program.contains('\0');
        if programs.len() <= PROGRAMS_MAX && programs.iter().all(fits) { Ok(programs) } else { Err(wanted()) }
    }
}
