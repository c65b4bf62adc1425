//! Sizes, durations and whole numbers as users write them on command lines and in the configuration.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Why a text is not a size, a duration or a whole number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not a size.
    #[error("`{0}` is not a size such as 512MiB, 2G or 1.5GiB")]
    Size(String),
    /// Too large a size.
    #[error("`{0}` is too large a size (TiB is the largest unit)")]
    SizeTooLarge(String),
    /// A number without a unit.
    #[error("{0} what? {0}GiB, {0}MiB, {0}KiB or {0}B")]
    Unit(String),
    /// Not a duration.
    #[error("`{0}` is not a duration such as 500ms, 10s, 5m, 1h30m or 2d")]
    Duration(String),
    /// Too long a duration.
    #[error("`{0}` is too long a duration: 100 years are the most")]
    DurationTooLong(String),
    /// Not a whole number within the range: the text, the least and the largest number.
    #[error("`{0}` is not a whole number from {1} to {2}")]
    Whole(String, String, String),
}

/// Reads a whole number within `range`, without a unit.
///
/// # Errors
/// [`QuantityError::Whole`] for any other text.
pub fn parse_whole<T: FromStr + PartialOrd + Display>(
    text: &str,
    range: &RangeInclusive<T>,
) -> Result<T, QuantityError> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        QuantityError::Whole(text.to_owned(), range.start().to_string(), range.end().to_string())
    })
}

/// [`parse_whole`] within `range`, for an option's value.
pub fn whole<T: FromStr + PartialOrd + Display + Clone>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, QuantityError> + Clone {
    move |text| parse_whole(text, &range)
}

/// Reads a size: a number and `B`, `K`, `M`, `G`, `T`, `KB`, `MB`, `GB`, `TB` or `KiB`, `MiB`, `GiB`, `TiB`, all
/// powers of 1024 (as in Slurm). Only 0 needs no unit. A fraction is allowed where the result is at least a byte.
///
/// # Errors
/// [`QuantityError::Unit`] without a unit, [`QuantityError::SizeTooLarge`] from 2^63 on and in larger units,
/// [`QuantityError::Size`] for other texts and negative sizes.
pub fn parse_size(text: &str) -> Result<u64, QuantityError> {
    let bad = || QuantityError::Size(text.to_owned());
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let shift = match unit.trim() {
        "" => match scaled(number, 1) {
            Some(0) => 0,
            Some(_) => return Err(QuantityError::Unit(number.to_owned())),
            None => return Err(bad()),
        },
        "B" | "b" => 0,
        "K" | "k" | "KB" | "kB" | "kb" | "KiB" | "kib" => 10,
        "M" | "m" | "MB" | "mb" | "MiB" | "mib" => 20,
        "G" | "g" | "GB" | "gb" | "GiB" | "gib" => 30,
        "T" | "t" | "TB" | "tb" | "TiB" | "tib" => 40,
        "P" | "PB" | "PiB" | "E" | "EB" | "EiB" if is_number(number) => {
            return Err(QuantityError::SizeTooLarge(text.to_owned()));
        }
        _ => return Err(bad()),
    };
    let too_large = || if is_number(number) { QuantityError::SizeTooLarge(text.to_owned()) } else { bad() };
    scaled(number, 1u64 << shift).filter(|&bytes| bytes < 1 << 63).ok_or_else(too_large)
}

/// A size that [`parse_size`] reads back, in the largest unit that gives a whole number.
#[must_use]
pub fn show_size(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let whole = units.into_iter().find(|(_, shift)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    let plain = || if bytes == 0 { "0".to_owned() } else { format!("{bytes}B") };
    whole.map_or_else(plain, |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

/// Reads a duration: numbers each with a unit (`us`, `ms`, `s`, `m` or `min`, `h`, `d`), added up: `1h30m`. A bare
/// number is seconds.
///
/// # Errors
/// [`QuantityError::DurationTooLong`] for more than 100 years, [`QuantityError::Duration`] for other texts.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    const YEARS_100_US: u64 = 100 * 366 * 86_400 * 1_000_000;
    let bad = || QuantityError::Duration(text.to_owned());
    let mut rest = text.trim();
    let mut total: u64 = 0;
    if rest.is_empty() {
        return Err(bad());
    }
    while !rest.is_empty() {
        let split = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(split);
        let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let unit_us = match unit.trim() {
            "us" => 1,
            "ms" => 1_000,
            "" | "s" => 1_000_000,
            "m" | "min" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            _ => return Err(bad()),
        };
        let too_long = || QuantityError::DurationTooLong(text.to_owned());
        let unfit = || if is_number(number) { too_long() } else { bad() };
        let part = scaled(number, unit_us).ok_or_else(unfit)?;
        total = total.checked_add(part).filter(|&us| us <= YEARS_100_US).ok_or_else(too_long)?;
        rest = tail;
    }
    Ok(Duration::from_micros(total))
}

/// Whether the text is a number in the syntax of [`scaled`], of any size.
fn is_number(number: &str) -> bool {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    (!whole.is_empty() || !fraction.is_empty())
        && are_digits(whole)
        && are_digits(fraction)
        && fraction.len() <= 18
}

/// `number` (digits, perhaps a decimal point and more digits) times `unit`, rounded down; exact, because a
/// float would turn 2^53 + 1 bytes into 2^53.
fn scaled(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') || fraction.len() > 18 {
        return None;
    }
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u64>().ok() };
    let scale = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = u128::from(digits(fraction)?) * u128::from(unit) / scale;
    digits(whole)?.checked_mul(unit)?.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_size(text: &str, want: Option<u64>) {
        assert_eq!(parse_size(text).ok(), want, "{text:?}");
    }

    #[test]
    fn too_large_quantities_are_named() {
        let of_size = |text: &str| matches!(parse_size(text), Err(QuantityError::SizeTooLarge(_)));
        for text in ["4PiB", "99999999TiB", "99999999999999999999M"] {
            assert!(of_size(text), "{text}");
        }
        assert!(!of_size("PiB") && !of_size("4XiB") && !of_size("1.2.3T"));
        let of_duration = |text: &str| matches!(parse_duration(text), Err(QuantityError::DurationTooLong(_)));
        for text in ["99999999h", "36525d36525d", "99999999999999999999s"] {
            assert!(of_duration(text), "{text}");
        }
        assert!(!of_duration("h") && !of_duration("1.2.3h") && !of_duration("1x"));
    }

    #[test]
    fn whole_numbers_are_within_their_range_or_the_range_is_told() {
        for (text, want) in [("1", Some(1)), ("16", Some(16)), ("0", None), ("17", None)] {
            assert_eq!(parse_whole(text, &(1..=16_u8)).ok(), want, "{text}");
        }
        for bad in ["q", "-1", "1e3", "99999999999999999999999", "", " 1", "1.5", "0x10"] {
            let told = parse_whole(bad, &(0..=1000_u64)).expect_err(bad).to_string();
            assert_eq!(told, format!("`{bad}` is not a whole number from 0 to 1000"));
        }
    }

    #[track_caller]
    fn check_duration(text: &str, want_us: Option<u64>) {
        assert_eq!(parse_duration(text).ok(), want_us.map(Duration::from_micros), "{text:?}");
    }

    #[test]
    fn sizes() {
        check_size("0", Some(0));
        check_size("4096B", Some(4096));
        check_size("0.0", Some(0));
        check_size("1GB", Some(1 << 30));
        check_size("2MB", Some(2 << 20));
        check_size("1K", Some(1024));
        check_size("512MiB", Some(512 << 20));
        check_size("1.5GiB", Some(3 << 29));
        check_size(" 2 G ", Some(2 << 30));
        check_size("9007199254740993B", Some(9_007_199_254_740_993));
        check_size("", None);
        check_size("-1", None);
        check_size("1.2.3", None);
        check_size(".", None);
        check_size("1GiBs", None);
        assert_eq!(parse_size("4"), Err(QuantityError::Unit("4".to_owned())));
        assert_eq!(parse_size("4").unwrap_err().to_string(), "4 what? 4GiB, 4MiB, 4KiB or 4B");
        check_size("99999999T", None);
    }

    #[test]
    fn sizes_are_shown_as_they_are_read() {
        for (bytes, text) in
            [(0, "0"), (1000, "1000B"), (8 << 30, "8GiB"), (1536 << 20, "1536MiB"), (3 << 10, "3KiB")]
        {
            assert_eq!(show_size(bytes), text);
            assert_eq!(parse_size(text), Ok(bytes));
        }
    }

    #[test]
    fn durations() {
        check_duration("10s", Some(10_000_000));
        check_duration("10", Some(10_000_000));
        check_duration("500ms", Some(500_000));
        check_duration("1h30m", Some(5_400_000_000));
        check_duration("1.5h", Some(5_400_000_000));
        check_duration("0.25s", Some(250_000));
        check_duration("2d", Some(172_800_000_000));
        check_duration("", None);
        check_duration("s", None);
        check_duration("-5s", None);
        check_duration("5 parsecs", None);
        check_duration("99999999999d", None);
    }
}
