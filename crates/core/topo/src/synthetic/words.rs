//! The words of a synthetic description: kinds of object, counts, sizes, attributes.

use super::{Kind, SyntheticError};

/// A cursor over the text, from left to right.
pub(super) struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    pub(super) fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// The text between `open` and `close`, if the next character is `open`.
    pub(super) fn group(&mut self, open: char, close: char) -> Result<Option<&'a str>, SyntheticError> {
        let Some(inside) = self.rest.strip_prefix(open) else { return Ok(None) };
        let (inside, rest) = inside.split_once(close).ok_or(SyntheticError::Unclosed(open))?;
        self.rest = rest;
        Ok(Some(inside))
    }

    /// `core:4`, or `4`: the kind of a level, and the number of its objects in each object of the level
    /// above.
    pub(super) fn level(&mut self) -> Result<(Option<Kind>, usize), SyntheticError> {
        let end = self.rest.find([' ', '(', '[']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        let no_count = || SyntheticError::Count(word.to_owned());
        if word.starts_with(|first: char| first.is_ascii_digit()) {
            return Ok((None, number(word).filter(|&count| count > 0).ok_or_else(no_count)?));
        }
        let name = word.split(':').next().unwrap_or(word);
        let known = kind(name).filter(|(_, rest)| rest.is_empty());
        let (kind, _) = known.ok_or_else(|| SyntheticError::Kind(name.to_owned()))?;
        if kind == Kind::Machine {
            return Err(SyntheticError::Kind(name.to_owned()));
        }
        let count = word.split_once(':').and_then(|(_, count)| number(count)).filter(|&count| count > 0);
        Ok((Some(kind), count.ok_or_else(no_count)?))
    }
}

/// The kind of object at the start of `text`, and the rest. As in hwloc, names may be shortened and numbered:
/// `pack`, `L2Cache`, `group1`.
pub(super) fn kind(text: &str) -> Option<(Kind, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let name = name.to_ascii_lowercase();
    if let Some(cache) =
        name.strip_prefix('l').filter(|cache| cache.starts_with(|c: char| c.is_ascii_digit()))
    {
        return Some((cache_kind(cache)?, rest));
    }
    let letters = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let known = [
        ("machine", Kind::Machine),
        ("package", Kind::Package),
        ("socket", Kind::Package),
        ("die", Kind::Die),
        ("numanode", Kind::Numa),
        ("node", Kind::Numa),
        ("group", Kind::Other),
        ("core", Kind::Core),
        ("pu", Kind::Pu),
    ];
    let found = known.into_iter().find(|(full, _)| letters.len() >= 2 && full.starts_with(letters))?;
    Some((found.1, rest))
}

/// The cache kind of `2`, `1d` or `3ucache`: level, optional type and optional word. Only unified and data
/// caches of level 2 and 3 become levels.
fn cache_kind(text: &str) -> Option<Kind> {
    let (level, rest) = text.split_at(1);
    let (instructions, rest) = match rest.as_bytes().first() {
        Some(b'i') => (true, &rest[1..]),
        Some(b'd' | b'u') => (false, &rest[1..]),
        _ => (false, rest),
    };
    if !"cache".starts_with(rest) {
        return None;
    }
    match level {
        "1" | "4" | "5" => Some(Kind::Other),
        "2" | "3" if instructions => Some(Kind::Other),
        "2" => Some(Kind::L2),
        "3" => Some(Kind::L3),
        _ => None,
    }
}

/// A number as C reads it: decimal, `0x` before hexadecimal, `0` before octal.
pub(super) fn number<T: TryFrom<u64>>(text: &str) -> Option<T> {
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    let value = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None if text.len() > 1 && text.starts_with('0') => u64::from_str_radix(&text[1..], 8),
        None => text.parse(),
    };
    T::try_from(value.ok()?).ok()
}

/// The recognized attributes of an object.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    /// Bytes of memory; a cache's `size=` is checked only.
    pub(super) bytes: Option<u64>,
    pub(super) indexes: Option<String>,
}

/// Reads the attributes between an object's parentheses.
pub(super) fn attributes(text: &str, kind: Kind) -> Result<Attributes, SyntheticError> {
    let mut found = Attributes::default();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let wrong = || SyntheticError::Attribute(word.to_owned());
        match word.split_once('=') {
            Some(("memory", size)) => found.bytes = Some(bytes(size).ok_or_else(wrong)?),
            Some(("size", size)) if matches!(kind, Kind::L2 | Kind::L3 | Kind::Other) => {
                bytes(size).ok_or_else(wrong)?;
            }
            Some(("memorysidecachesize", size)) if kind == Kind::Numa => {
                bytes(size).ok_or_else(wrong)?;
            }
            Some(("indexes", indexes)) => found.indexes = Some(indexes.to_owned()),
            _ => return Err(wrong()),
        }
    }
    Ok(found)
}

/// A size with or without a unit, in bytes. As in hwloc, `kB` is a thousand and `KiB` 1,024.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_hexdigit() && c != 'x').unwrap_or(text.len());
    let (count, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "kb" => 1000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "tib" => 1 << 40,
        _ => return None,
    };
    number::<u64>(count)?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, want) in [
            ("4096", Some(4096)),
            ("0x10", Some(16)),
            ("64GB", Some(64_000_000_000)),
            ("1KiB", Some(1024)),
            ("2tib", Some(2 << 40)),
            ("99999999999TB", None),
            ("1pounds", None),
            ("", None),
        ] {
            assert_eq!(bytes(text), want, "{text}");
        }
    }

    #[test]
    fn kinds() {
        for (text, want) in [
            ("pa", Some(Kind::Package)),
            ("Socket", Some(Kind::Package)),
            ("NUMANode", Some(Kind::Numa)),
            ("node", Some(Kind::Numa)),
            ("group1", Some(Kind::Other)),
            ("L2", Some(Kind::L2)),
            ("l3ucache", Some(Kind::L3)),
            ("l1dCache", Some(Kind::Other)),
            ("l6", None),
            ("l2x", None),
            ("p", None),
            ("corex", None),
            ("", None),
        ] {
            assert_eq!(kind(text).map(|(kind, _)| kind), want, "{text}");
        }
    }
}
