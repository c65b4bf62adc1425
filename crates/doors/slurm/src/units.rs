//! Times, sizes and numbers in Slurm's forms. Absent here: their meaning.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Unit, ZonedDateTime};

/// The longest time limit in seconds: 100 years, as long as a duration of pinfold's.
pub(crate) const LIMIT_MAX_S: u64 = 100 * 366 * 86_400;

/// The most bytes of a size.
pub(crate) const MEMORY_MAX_BYTES: u64 = (1 << 63) - 1;

/// A time limit in seconds: minutes, `M:S`, `H:M:S`, `D-H`, `D-H:M` or `D-H:M:S`; `Some(None)`: unlimited.
pub(crate) fn limit_s(text: &str) -> Option<Option<u64>> {
    if ["-1", "infinite", "unlimited"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Some(None);
    }
    let number = |text: &str| {
        (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse::<u64>().ok())?
    };
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(number(days)?), rest),
        None => (None, text),
    };
    let parts: Vec<u64> = rest.split(':').map(number).collect::<Option<_>>()?;
    let seconds = match (days, parts.as_slice()) {
        (None, [minutes]) => minutes.checked_mul(60)?,
        (None, [minutes, seconds]) => minutes.checked_mul(60)?.checked_add(*seconds)?,
        (Some(days), [hours]) => days.checked_mul(86_400)?.checked_add(hours.checked_mul(3600)?)?,
        (Some(days), [hours, minutes]) => {
            let day = hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?;
            days.checked_mul(86_400)?.checked_add(day)?
        }
        (days, [hours, minutes, seconds]) => {
            let day = hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?;
            days.unwrap_or(0).checked_mul(86_400)?.checked_add(day)?.checked_add(*seconds)?
        }
        _ => return None,
    };
    (seconds <= LIMIT_MAX_S).then_some((seconds > 0).then_some(seconds))
}

/// A size: a bare number is mebibytes; `K M G T`, with or without `B`, in either case.
pub(crate) fn memory_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let power = match text[digits..].to_ascii_lowercase().as_str() {
        "k" | "kb" => 1,
        "" | "m" | "mb" => 2,
        "g" | "gb" => 3,
        "t" | "tb" => 4,
        _ => return None,
    };
    number.checked_mul(1024_u64.pow(power)).filter(|&bytes| bytes <= MEMORY_MAX_BYTES)
}

/// A size in the largest unit that gives a whole number, as in sacct.
pub(crate) fn exact_size(bytes: u64) -> String {
    let (mut value, mut unit) = (bytes / 1024, 0);
    while value > 0 && value.is_multiple_of(1024) && unit < 4 {
        (value, unit) = (value / 1024, unit + 1);
    }
    if value == 0 { "0".to_owned() } else { format!("{value}{}", ["K", "M", "G", "T", "P"][unit]) }
}

/// A size in this unit (`K`, `M`, `G`, `T`), with two decimals unless whole.
pub(crate) fn size_in(bytes: u64, unit: char) -> String {
    let power = "KMGTP".find(unit.to_ascii_uppercase()).map_or(1, |at| at + 1);
    let whole = 1024_u64.pow(u32::try_from(power).unwrap_or(1));
    if bytes.is_multiple_of(whole) {
        return format!("{}{unit}", bytes / whole);
    }
    let hundredths = (u128::from(bytes) * 100 + u128::from(whole) / 2) / u128::from(whole);
    format!("{}.{:02}{unit}", hundredths / 100, hundredths % 100)
}

/// How long, in squeue's form: `M:SS`, `H:MM:SS`, `D-HH:MM:SS`.
pub(crate) fn short_time(seconds: u64) -> String {
    let (days, hours, minutes, rest) =
        (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{rest:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{rest:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{rest:02}"),
    }
}

/// How long, in sacct's form: `HH:MM:SS`, `D-HH:MM:SS`.
pub(crate) fn long_time(seconds: u64) -> String {
    let (days, hours, minutes, rest) =
        (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    match days {
        0 => format!("{hours:02}:{minutes:02}:{rest:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{rest:02}"),
    }
}

/// CPU time in sacct's form: `MM:SS.mmm` below an hour, else as [`long_time`].
pub(crate) fn cpu_time(seconds: f64) -> String {
    let millis = whole(seconds * 1000.0);
    if millis >= 3_600_000 {
        return long_time(millis / 1000);
    }
    format!("{:02}:{:02}.{:03}", millis / 60_000, millis / 1000 % 60, millis % 1000)
}

/// Truncates a figure to a whole number; negative figures give 0.
pub(crate) fn whole(value: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let whole = value.max(0.0) as u64;
    whole
}

/// A local time as text, from Unix seconds; in the form of `SLURM_TIME_FORMAT` if set.
pub(crate) fn date(unix_s: f64) -> String {
    let form = std::env::var("SLURM_TIME_FORMAT").unwrap_or_default();
    let seconds = i64::try_from(whole(unix_s)).unwrap_or(i64::MAX);
    let Ok(moment) = Timestamp::from_second(seconds) else { return "Unknown".to_owned() };
    let local = moment.to_zoned_datetime(TimeZone::system());
    let standard = || local.strftime("%Y-%m-%dT%H:%M:%S").to_string();
    match form.as_str() {
        "" | "standard" | "iso8601" | "relative" => standard(),
        form => jiff::fmt::strtime::format(form, &local).unwrap_or_else(|_| standard()),
    }
}

/// A time as text with its zone, from Unix seconds.
pub(crate) fn utc(unix_s: f64) -> String {
    let seconds = i64::try_from(whole(unix_s)).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).map(|at| at.to_string()).unwrap_or_default()
}

/// Now, in Unix seconds.
pub(crate) fn now_s() -> f64 {
    Timestamp::now().as_duration().as_secs_f64()
}

/// How to complete a time of day or a date without a year.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Toward {
    /// The next, as for a job's begin.
    Next,
    /// Today, or the past twelve months, as for a search.
    Past,
}

/// A local time in Unix seconds, in the forms of `--begin` and sacct's `--starttime`.
pub(crate) fn moment(text: &str, toward: Toward) -> Option<f64> {
    moment_from(text.trim(), &ZonedDateTime::now(), toward)
        .map(|at| at.timestamp().as_duration().as_secs_f64())
}

fn moment_from(text: &str, now: &ZonedDateTime, toward: Toward) -> Option<ZonedDateTime> {
    let lower = text.to_ascii_lowercase();
    if let Some(rest) = lower.strip_prefix("now") {
        let rest = rest.trim();
        return if rest.is_empty() { Some(now.clone()) } else { now.checked_add(span(rest)?).ok() };
    }
    if let Some(seconds) = lower.strip_prefix("uts") {
        let at = Timestamp::from_second(seconds.parse().ok()?).ok()?;
        return Some(at.to_zoned_datetime(now.time_zone().clone()));
    }
    let midnight = now.start_of_day().ok()?;
    match lower.as_str() {
        "today" => return Some(midnight),
        "tomorrow" => return midnight.checked_add(Span::new().days(1)).ok(),
        _ => {}
    }
    // `MM/DD/YY-HH:MM` and `MMDDYY-HH:MM` as well as `YYYY-MM-DDTHH:MM`.
    let with_dash = || text.split_once('-').filter(|(_, time)| time.contains(':') && !time.contains('-'));
    let parted = text.split_once(['T', 't']).filter(|_| text.contains(':')).or_else(with_dash);
    let (date, time) = parted.map_or((text, None), |(date, time)| (date, Some(time)));
    match day(date, now) {
        Some((date, said)) => {
            let time = time.map_or(Some(Time::midnight()), clock)?;
            let at = local(date.to_datetime(time), now)?;
            if said {
                return Some(at);
            }
            let years = match toward {
                Toward::Past if at.month() > now.month() => -1,
                Toward::Next if at <= *now => 1,
                _ => 0,
            };
            at.checked_add(Span::new().years(years)).ok()
        }
        None if time.is_none() => at_clock(now, clock(text)?, toward),
        None => None,
    }
}

fn local(at: DateTime, now: &ZonedDateTime) -> Option<ZonedDateTime> {
    at.to_zoned_datetime(now.time_zone().clone()).ok()
}

/// The next occurrence of a time of day; toward the past, today's.
fn at_clock(now: &ZonedDateTime, time: Time, toward: Toward) -> Option<ZonedDateTime> {
    let today = local(now.date().to_datetime(time), now)?;
    if today > *now || toward == Toward::Past {
        Some(today)
    } else {
        today.checked_add(Span::new().days(1)).ok()
    }
}

/// `+1hour`, `-2days`, `+60`.
fn span(text: &str) -> Option<Span> {
    let sign = match text.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let rest = text[1..].trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let count = rest[..digits].parse::<i64>().ok()?.checked_mul(sign)?;
    let unit = rest[digits..].trim();
    let units = [
        ("seconds", Unit::Second),
        ("minutes", Unit::Minute),
        ("hours", Unit::Hour),
        ("days", Unit::Day),
        ("weeks", Unit::Week),
    ];
    let unit = match unit {
        "" => Unit::Second,
        unit => units.into_iter().find(|(name, _)| name.starts_with(unit))?.1,
    };
    let new = Span::new();
    match unit {
        Unit::Minute => new.try_minutes(count),
        Unit::Hour => new.try_hours(count),
        Unit::Day => new.try_days(count),
        Unit::Week => new.try_weeks(count),
        _ => new.try_seconds(count),
    }
    .ok()
}

/// `YYYY-MM-DD`, `MM/DD[/YY]`, `MM.DD[.YY]`, `MMDD[YY]`, and whether the year was said.
fn day(text: &str, now: &ZonedDateTime) -> Option<(Date, bool)> {
    if let Ok(date) = text.parse::<Date>()
        && text.contains('-')
    {
        return Some((date, true));
    }
    let parts: Vec<&str> = match text.len() {
        4 | 6 if text.bytes().all(|b| b.is_ascii_digit()) => {
            [&text[..2], &text[2..4], &text[4..]].into_iter().filter(|part| !part.is_empty()).collect()
        }
        _ if text.contains(['/', '.']) => text.split(['/', '.']).collect(),
        _ => return None,
    };
    let number = |text: &str| text.parse::<i8>().ok().filter(|_| text.len() <= 2);
    match parts.as_slice() {
        [month, day] => Some((Date::new(now.year(), number(month)?, number(day)?).ok()?, false)),
        [month, day, year] => {
            let year = 2000 + i16::from(number(year)?);
            Some((Date::new(year, number(month)?, number(day)?).ok()?, true))
        }
        _ => None,
    }
}

/// `HH:MM[:SS]`, optionally with `AM` or `PM`; `noon` and the like.
fn clock(text: &str) -> Option<Time> {
    let lower = text.to_ascii_lowercase();
    let named = [("midnight", 0), ("elevenses", 11), ("noon", 12), ("fika", 15), ("teatime", 16)];
    if let Some((_, hour)) = named.iter().find(|(name, _)| *name == lower) {
        return Time::new(*hour, 0, 0, 0).ok();
    }
    let (digits, afternoon) = match (lower.strip_suffix("am"), lower.strip_suffix("pm")) {
        (Some(rest), _) => (rest.trim_end(), Some(false)),
        (_, Some(rest)) => (rest.trim_end(), Some(true)),
        _ => (lower.as_str(), None),
    };
    let parts: Vec<i8> = digits.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let (hour, minute, second) = match parts.as_slice() {
        [hour, minute] => (*hour, *minute, 0),
        [hour, minute, second] => (*hour, *minute, *second),
        _ => return None,
    };
    let hour = match afternoon {
        Some(true) if hour < 12 => hour + 12,
        Some(false) if hour == 12 => 0,
        _ => hour,
    };
    Time::new(hour, minute, second, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn time_limits() {
        let check = |text: &str, want: Option<Option<u64>>| assert_eq!(limit_s(text), want, "{text:?}");
        check("30", Some(Some(1800)));
        check("90:90", Some(Some(5490)));
        check("0:120", Some(Some(120)));
        check("1:30:00", Some(Some(5400)));
        check("2-0", Some(Some(172_800)));
        check("1-2:3", Some(Some(93_780)));
        check("1-02:03:04", Some(Some(93_784)));
        check("UNLIMITED", Some(None));
        check("36600-0", Some(Some(LIMIT_MAX_S)));
        check("0", Some(None));
        for bad in [
            "",
            "x",
            "1:",
            "-5",
            "1-",
            "1:2:3:4",
            "1-2:3:4:5",
            "36600-0:0:1",
            "99999999999999999999",
            "18446744073709551615",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn sizes() {
        let check = |text: &str, want: Option<u64>| assert_eq!(memory_bytes(text), want, "{text:?}");
        check("100", Some(100 << 20));
        check("4GB", Some(4 << 30));
        check("4g", Some(4 << 30));
        check("512K", Some(512 << 10));
        check("0", Some(0));
        for bad in ["", "G", "4X", "4GiB", "-1", "1.5G", "99999999999999T", "9999999T", "8388608T"] {
            check(bad, None);
        }
        let exact = |bytes: u64, want: &str| assert_eq!(exact_size(bytes), want);
        exact(4 << 30, "4G");
        exact(4000 << 20, "4000M");
        exact((12 << 10) + 5, "12K");
        exact(0, "0");
        assert_eq!((size_in(3 << 29, 'G'), size_in(1 << 30, 'G')), ("1.50G".to_owned(), "1G".to_owned()));
    }

    #[test]
    fn spans_of_time() {
        let check = |seconds: u64, short: &str, long: &str| {
            assert_eq!((short_time(seconds).as_str(), long_time(seconds).as_str()), (short, long));
        };
        check(0, "0:00", "00:00:00");
        check(3599, "59:59", "00:59:59");
        check(3600, "1:00:00", "01:00:00");
        check(90_061, "1-01:01:01", "1-01:01:01");
        assert_eq!((cpu_time(0.0125).as_str(), cpu_time(7200.5).as_str()), ("00:00.012", "02:00:00"));
    }

    #[test]
    fn moments() {
        let now: Timestamp = "2026-11-24T12:00:00Z".parse().expect("a moment");
        let now = now.to_zoned_datetime(TimeZone::UTC);
        let both = |text: &str, next: Option<&str>, past: Option<&str>| {
            for (toward, want) in [(Toward::Next, next), (Toward::Past, past)] {
                let got = moment_from(text, &now, toward);
                let got = got.map(|at| at.strftime("%Y-%m-%dT%H:%M:%S").to_string());
                assert_eq!(got.as_deref(), want, "{text:?} {toward:?}");
            }
        };
        let check = |text: &str, want: Option<&str>| both(text, want, want);
        check("now", Some("2026-11-24T12:00:00"));
        check("now-2days", Some("2026-11-22T12:00:00"));
        check("now+60", Some("2026-11-24T12:01:00"));
        check("now+1hour", Some("2026-11-24T13:00:00"));
        check("today", Some("2026-11-24T00:00:00"));
        check("tomorrow", Some("2026-11-25T00:00:00"));
        check("now + 2 minutes", Some("2026-11-24T12:02:00"));
        check("uts1795000000", Some("2026-11-18T11:06:40"));
        // A time of day is the next one; of a search today's.
        both("midnight", Some("2026-11-25T00:00:00"), Some("2026-11-24T00:00:00"));
        both("noon", Some("2026-11-25T12:00:00"), Some("2026-11-24T12:00:00"));
        both("elevenses", Some("2026-11-25T11:00:00"), Some("2026-11-24T11:00:00"));
        both("08:30", Some("2026-11-25T08:30:00"), Some("2026-11-24T08:30:00"));
        // A date is the next one; of a search this year's or last year's.
        both("1/15", Some("2027-01-15T00:00:00"), Some("2026-01-15T00:00:00"));
        both("1224", Some("2026-12-24T00:00:00"), Some("2025-12-24T00:00:00"));
        both("11.24-11:00", Some("2027-11-24T11:00:00"), Some("2026-11-24T11:00:00"));
        check("112026-10:11", Some("2026-11-20T10:11:00"));
        check("16:00", Some("2026-11-24T16:00:00"));
        check("04:30PM", Some("2026-11-24T16:30:00"));
        check("2026-11-20", Some("2026-11-20T00:00:00"));
        check("2026-11-20T10:11", Some("2026-11-20T10:11:00"));
        check("2026-11-20T10:11:12", Some("2026-11-20T10:11:12"));
        check("11/20/26-10:11", Some("2026-11-20T10:11:00"));
        both("1120", Some("2027-11-20T00:00:00"), Some("2026-11-20T00:00:00"));
        check("112026", Some("2026-11-20T00:00:00"));
        for bad in ["", "x", "2026-13-01", "25:00", "now+", "now+1x", "now*1", "2026-11-20T"] {
            check(bad, None);
        }
    }

    proptest! {
        #[test]
        fn hostile_text_never_panics(text in ".{0,24}") {
            let _ = (limit_s(&text), memory_bytes(&text));
            let _ = [Toward::Next, Toward::Past].map(|toward| moment(&text, toward));
        }
    }
}
