//! Sizes, durations and times as text for users.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ZonedDateTime};

/// Whether this program shows times in the system's zone.
static IN_SYSTEM_ZONE: AtomicBool = AtomicBool::new(false);

/// From now on shows times in the zone of `TZ` or of the system, instead of UTC. A daemon or a hub never calls this:
/// its zone is not the zone of its readers.
pub fn show_times_in_system_zone() {
    IN_SYSTEM_ZONE.store(true, Ordering::Relaxed);
}

/// The zone in which this program shows times.
#[must_use]
pub fn zone() -> &'static TimeZone {
    static SYSTEM: LazyLock<TimeZone> = LazyLock::new(|| TimeZone::try_system().unwrap_or(TimeZone::UTC));
    static UTC: TimeZone = TimeZone::UTC;
    if IN_SYSTEM_ZONE.load(Ordering::Relaxed) { &SYSTEM } else { &UTC }
}

/// A sum for display: 0 without figures, where the standard library gives -0.
pub fn total(figures: impl Iterator<Item = f64>) -> f64 {
    figures.fold(0.0, std::ops::Add::add)
}

/// A size with three significant digits: `0 B`, `512 B`, `1.50 GiB`, `12.3 MiB`, `640 KiB`.
#[must_use]
pub fn size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = precise(bytes) / 1024.0;
    let mut at = 0;
    // 1023.95 would be written as `1024`.
    while value >= 1023.5 && at + 1 < units.len() {
        value /= 1024.0;
        at += 1;
    }
    format!("{} {}", three_digits(value), units[at])
}

/// A number below 1024 with three significant digits.
fn three_digits(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// A duration in its two largest units: `350 us`, `12 ms`, `4.2 s`, `3 min 05 s`, `2 h 10 min`, `5 d 3 h`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    if !seconds.is_finite() || seconds <= 0.0 {
        return "0 s".to_owned();
    }
    if seconds < 0.000_999_5 {
        return format!("{:.0} us", seconds * 1e6);
    }
    if seconds < 0.099_95 {
        return format!("{} ms", three_digits(seconds * 1e3).trim_end_matches('0').trim_end_matches('.'));
    }
    if seconds < 0.999_5 {
        return format!("{:.0} ms", seconds * 1e3);
    }
    if seconds < 59.95 {
        return format!("{seconds:.1} s");
    }
    let whole = rounded(seconds);
    let (days, hours, minutes, rest) = (whole / 86_400, whole / 3_600 % 24, whole / 60 % 60, whole % 60);
    match whole {
        0..3_600 => format!("{minutes} min {rest:02} s"),
        3_600..86_400 => format!("{hours} h {minutes:02} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// A time as `2026-11-21 22:10:41 UTC`.
#[must_use]
pub fn date_utc(unix_s: f64) -> String {
    date_in(&TimeZone::UTC, unix_s)
}

/// A time in the zone of this program, as `2026-11-21 23:10:41 CET`.
#[must_use]
pub fn date_here(unix_s: f64) -> String {
    date_in(zone(), unix_s)
}

/// The time of day in the zone of this program, as `23:10:41 CET`.
#[must_use]
pub fn clock_here(unix_s: f64) -> String {
    zoned(zone(), unix_s).strftime("%H:%M:%S %Z").to_string()
}

/// The name of this program's zone at a time, as `CET`.
pub(crate) fn zone_name(unix_s: f64) -> String {
    zoned(zone(), unix_s).strftime("%Z").to_string()
}

/// How far clocks in this program's zone are ahead of UTC at a time, in seconds.
pub(crate) fn offset_s(unix_s: f64) -> f64 {
    f64::from(zoned(zone(), unix_s).offset().seconds())
}

fn date_in(zone: &TimeZone, unix_s: f64) -> String {
    zoned(zone, unix_s).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
}

/// The second of a time, at most the last second of the year 9999.
fn zoned(zone: &TimeZone, unix_s: f64) -> ZonedDateTime {
    let second = i64::try_from(rounded(unix_s.floor())).ok();
    let second = second.and_then(|second| Timestamp::from_second(second).ok());
    second.unwrap_or(Timestamp::MAX).to_zoned_datetime(zone.clone())
}

/// Converts each date in the form of [`date_utc`] to the zone of this program, because a daemon's texts have UTC.
#[must_use]
pub fn with_dates_here(text: &str) -> String {
    with_dates_in(zone(), text)
}

fn with_dates_in(zone: &TimeZone, text: &str) -> String {
    const LENGTH: usize = "2026-11-21 22:10:41".len();
    let (mut shown, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once(" UTC") {
        let at = before.len().saturating_sub(LENGTH);
        let date = before.get(at..).and_then(|date| parse_date_in(&TimeZone::UTC, date));
        match date {
            Some(unix_s) => shown += &format!("{}{}", &before[..at], date_in(zone, precise(unix_s))),
            None => shown += &format!("{before} UTC"),
        }
        rest = behind;
    }
    shown + rest
}

/// Reads a date as Unix seconds: `2026-11-21`, `2026-11-21 22:10` or `2026-11-21T22:10:41` in the zone of this
/// program, each also with the name of the zone, with `Z` or ` UTC` behind it, the latter two also with an offset
/// from UTC, as `+02:00`. `None`: invalid, or before 1970.
#[must_use]
pub fn parse_date(text: &str) -> Option<u64> {
    parse_date_in(zone(), text)
}

fn parse_date_in(zone: &TimeZone, text: &str) -> Option<u64> {
    let text = text.trim();
    // The name of a zone in brackets would be read and not heeded.
    if text.contains('[') {
        return None;
    }
    let at = text.parse::<Timestamp>().ok().or_else(|| {
        let (bare, name) = match (text.rsplit_once(' '), text.strip_suffix('Z')) {
            (Some((bare, name)), _) if !name.contains(':') => (bare, name),
            (_, Some(bare)) => (bare, "UTC"),
            _ => (text, ""),
        };
        let zone = if name == "UTC" { &TimeZone::UTC } else { zone };
        let times = zone.to_ambiguous_zoned_datetime(bare.parse::<DateTime>().ok()?);
        let is_named = |at: &ZonedDateTime| name.is_empty() || at.strftime("%Z").to_string() == name;
        let both = [times.clone().compatible(), times.later()];
        both.into_iter().flatten().find(is_named).map(|at| at.timestamp())
    });
    u64::try_from(at?.as_second()).ok()
}

/// Rounds to the nearest whole number; 0 for negative values and NaN.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float is cut to the range of the whole numbers, which is what is wanted"
)]
pub(crate) fn rounded(value: f64) -> u64 {
    value.round() as u64
}

/// A count as a float; rounded above 2^53, invisibly.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(crate) fn precise(value: u64) -> f64 {
    value as f64
}

/// A count with its noun, in the plural unless the count is 1.
#[must_use]
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_size(bytes: u64, want: &str) {
        assert_eq!(size(bytes), want, "{bytes}");
    }

    #[test]
    fn nothing_comes_to_zero_without_a_sign() {
        assert_eq!(total(std::iter::empty()).to_string(), "0");
        assert_eq!(total([1.5, 2.0].into_iter()).to_string(), "3.5");
    }

    #[test]
    fn sizes() {
        check_size(0, "0 B");
        check_size(1023, "1023 B");
        check_size(1024, "1.00 KiB");
        check_size(10 << 10, "10.0 KiB");
        check_size((1 << 20) - 1, "1.00 MiB");
        check_size(640 << 10, "640 KiB");
        check_size(1000 << 10, "1000 KiB");
        check_size(3 << 29, "1.50 GiB");
        check_size(u64::MAX, "16.0 EiB");
    }

    #[track_caller]
    fn check_duration(seconds: f64, want: &str) {
        assert_eq!(duration(seconds), want, "{seconds}");
    }

    #[test]
    fn durations() {
        check_duration(0.0, "0 s");
        check_duration(-1.0, "0 s");
        check_duration(f64::NAN, "0 s");
        check_duration(0.000_35, "350 us");
        check_duration(0.000_999_9, "1 ms");
        check_duration(0.0125, "12.5 ms");
        check_duration(0.25, "250 ms");
        check_duration(0.9999, "1.0 s");
        check_duration(59.94, "59.9 s");
        check_duration(59.96, "1 min 00 s");
        check_duration(185.0, "3 min 05 s");
        check_duration(3_599.9, "1 h 00 min");
        check_duration(7_800.0, "2 h 10 min");
        check_duration(86_400.0 * 5.0 + 3.0 * 3_600.0, "5 d 3 h");
    }

    #[test]
    fn dates() {
        assert_eq!(date_utc(0.0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date_utc(951_782_400.0), "2000-02-29 00:00:00 UTC");
        assert_eq!(date_utc(1_795_299_041.9), "2026-11-21 22:10:41 UTC");
        assert_eq!(date_utc(4_107_542_400.0), "2100-03-01 00:00:00 UTC");
    }

    #[test]
    fn dates_are_read_as_they_are_shown() {
        for unix_s in [0, 951_782_400, 951_868_799, 1_795_299_041, 4_107_542_400] {
            let text = date_utc(precise(unix_s));
            assert_eq!(parse_date(&text), Some(unix_s), "{text}");
            assert_eq!(parse_date(&text.replace(" UTC", "Z").replacen(' ', "T", 1)), Some(unix_s), "{text}");
        }
        assert_eq!(parse_date("2000-02-29"), Some(951_782_400));
        assert_eq!(parse_date("2000-02-29 00:01"), Some(951_782_460));
        assert_eq!(parse_date("2000-02-29T01:01+01:00"), Some(951_782_460), "an offset is heeded");
        for bad in [
            "",
            "2001-02-29",
            "2000-13-01",
            "2000-2",
            "1969-12-31",
            "2000-02-29 24:00",
            "2h",
            "-1-1-1",
            "2000-02-29 +1:00",
            "2000-02-29T00:01[Europe/Berlin]",
        ] {
            assert_eq!(parse_date(bad), None, "{bad}");
        }
    }

    /// Clocks go from 02:00 to 03:00 on 2026-03-29, and from 03:00 back to 02:00 on 2026-10-25.
    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone")
    }

    #[test]
    fn dates_in_a_zone_are_read_as_they_are_shown() {
        for (unix_s, want) in [
            (1_795_299_041, "2026-11-21 23:10:41 CET"),
            (1_774_745_999, "2026-03-29 01:59:59 CET"),
            (1_774_746_000, "2026-03-29 03:00:00 CEST"),
            (1_792_888_200, "2026-10-25 02:30:00 CEST"),
            (1_792_891_800, "2026-10-25 02:30:00 CET"),
        ] {
            let text = date_in(&berlin(), precise(unix_s));
            assert_eq!(text, want);
            assert_eq!(parse_date_in(&berlin(), &text), Some(unix_s), "{text}");
            let utc = date_utc(precise(unix_s));
            assert_eq!(parse_date_in(&berlin(), &utc), Some(unix_s), "{utc}");
            let bare = want.rsplit_once(' ').expect("a zone").0;
            assert_eq!(
                parse_date_in(&berlin(), bare),
                Some(unix_s).filter(|&at| at != 1_792_891_800).or(Some(1_792_888_200))
            );
        }
        assert_eq!(parse_date_in(&berlin(), "2026-11-21"), Some(1_795_215_600));
        assert_eq!(parse_date_in(&berlin(), "2026-11-21 23:10:41 CEST"), None, "another zone's time of day");
        assert_eq!(parse_date_in(&berlin(), "2026-11-21T22:10:41Z"), Some(1_795_299_041));
    }

    #[test]
    fn dates_in_texts_get_the_zone() {
        for (text, want) in [
            ("it begins at 2026-11-21 22:10:41 UTC", "it begins at 2026-11-21 23:10:41 CET"),
            (
                "between 2026-11-21 22:10:41 UTC and 2026-11-21 22:10:42 UTC: x",
                "between 2026-11-21 23:10:41 CET and 2026-11-21 23:10:42 CET: x",
            ),
            (
                " UTC, and 22:10:41 UTC, é2026-11-2 22:10:41 UTC",
                " UTC, and 22:10:41 UTC, é2026-11-2 22:10:41 UTC",
            ),
            ("none", "none"),
        ] {
            assert_eq!(with_dates_in(&berlin(), text), want);
            assert_eq!(with_dates_in(&TimeZone::UTC, text), text);
        }
    }
}
