//! Removes names from a recording, so that it can be shared: names of projects, sets and hosts, and error messages.
//!
//! Replacements keep names distinct and in order, so that decisions stay the same. User ids and numbers of job
//! classes stay; a recording never holds commands.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use ciborium::Value;

use crate::frame::Frame;
use crate::read::{Reader, RecordError};
use crate::write::Writer;

/// Fields that hold names given by a user or operator.
const NAMES: [&str; 5] = ["aside", "name", "names", "project", "set"];
/// Fields that hold error messages.
const WORDS: [&str; 1] = ["error"];
/// The part of the state in which every text is a project's name.
const SHARES: &str = "shares";
/// The map within [`SHARES`] that has project names as keys.
const KEYED: &str = "of";

/// Why names could not be taken out.
#[derive(Debug, thiserror::Error)]
pub enum MaskError {
    /// The recording cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The copy cannot be written.
    #[error("the copy cannot be written")]
    Write(#[source] io::Error),
}

/// Copies a recording without names. Reads it twice: the first pass collects the names.
///
/// # Errors
/// When the recording cannot be read or the copy cannot be written.
pub fn copy<R: Read, W: Write>(first: R, second: R, out: W) -> Result<W, MaskError> {
    let mut names = BTreeMap::new();
    each(first, |mut value| {
        walk(&mut value, Place::Elsewhere, &mut |text| {
            names.insert(text.clone(), String::new());
        });
        Ok(())
    })?;
    let width = names.len().to_string().len();
    for (number, name) in (1..).zip(names.values_mut()) {
        *name = format!("name-{number:0width$}");
    }
    let mut writer = Writer::bare(out);
    // The reader has parsed the head, so the head is serialized anew.
    each(second, |mut value| {
        walk(&mut value, Place::Elsewhere, &mut |text| {
            if let Some(other) = names.get(text.as_str()) {
                text.clone_from(other);
            }
        });
        writer.put(&value).map_err(MaskError::Write)
    })?;
    writer.finish().map_err(MaskError::Write)
}

/// Visits all frames, including the head.
fn each<R: Read>(input: R, mut see: impl FnMut(Value) -> Result<(), MaskError>) -> Result<(), MaskError> {
    let mut reader = Reader::open(input)?;
    let head = Value::serialized(&Frame::Head(reader.head().clone()));
    see(head.map_err(|error| MaskError::Write(io::Error::other(error)))?)?;
    while let Some(value) = reader.typed()? {
        see(value)?;
    }
    Ok(())
}

/// Where a value stands.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Elsewhere,
    Name,
    Words,
    Shares,
}

fn walk(value: &mut Value, place: Place, name: &mut impl FnMut(&mut String)) {
    match value {
        Value::Text(text) => match place {
            // A number in a list of hosts is an index.
            Place::Name if text.bytes().all(|byte| byte.is_ascii_digit()) => {}
            Place::Name | Place::Shares => name(text),
            Place::Words => "a failure".clone_into(text),
            Place::Elsewhere => {}
        },
        Value::Array(values) => values.iter_mut().for_each(|value| walk(value, place, name)),
        Value::Tag(_, value) => walk(value, place, name),
        Value::Map(entries) => {
            for (key, value) in entries {
                let field = key.as_text().unwrap_or_default();
                let keyed = place == Place::Shares && field == KEYED;
                let inner = match place {
                    Place::Shares => Place::Shares,
                    _ if NAMES.contains(&field) => Place::Name,
                    _ if WORDS.contains(&field) => Place::Words,
                    _ if field == SHARES => Place::Shares,
                    _ => Place::Elsewhere,
                };
                if keyed && let Value::Map(named) = value {
                    for (key, _) in named {
                        if let Value::Text(text) = key {
                            name(text);
                        }
                    }
                    continue;
                }
                walk(value, inner, name);
            }
        }
        _ => {}
    }
}
