//! Sizes, durations and times as people read them.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// A sum of figures that are shown: 0 of none, where that of the standard library is -0.
pub fn total(figures: impl Iterator<Item = f64>) -> f64 {
    figures.fold(0.0, std::ops::Add::add)
}

/// A size with three digits that matter: `0 B`, `512 B`, `1.50 GiB`, `12.3 MiB`, `640 KiB`.
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

/// A number below 1024 with three digits that matter and no more.
fn three_digits(value: f64) -> String {
    if value < 9.995 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// A duration in the two largest units that matter: `350 us`, `12 ms`, `4.2 s`, `3 min 05 s`, `2 h 10 min`,
/// `5 d 3 h`.
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
    utc(unix_s).strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// The time of day as `22:10:41 UTC`.
#[must_use]
pub fn clock_utc(unix_s: f64) -> String {
    utc(unix_s).strftime("%H:%M:%S UTC").to_string()
}

/// The second that a time is in, at most the last of the year 9999.
fn utc(unix_s: f64) -> DateTime {
    let second = i64::try_from(rounded(unix_s.floor())).ok();
    let second = second.and_then(|second| Timestamp::from_second(second).ok());
    TimeZone::UTC.to_datetime(second.unwrap_or(Timestamp::MAX))
}

/// A date as people write it, in Unix seconds: `2026-11-21`, `2026-11-21 22:10` or `2026-11-21T22:10:41`, each with `Z`,
/// ` UTC` or nothing behind it, the latter two also with an offset from UTC, as `+02:00`. `None`: it is not one, or before
/// 1970.
#[must_use]
pub fn parse_date_utc(text: &str) -> Option<u64> {
    let text = text.trim();
    // The name of a zone would be read and not heeded.
    if text.contains('[') {
        return None;
    }
    let at = text.parse().or_else(|_| {
        let bare = text.strip_suffix(" UTC").or_else(|| text.strip_suffix('Z')).unwrap_or(text);
        bare.parse().and_then(|date: DateTime| TimeZone::UTC.to_timestamp(date))
    });
    u64::try_from(at.ok()?.as_second()).ok()
}

/// To the nearest whole number; 0 for what is negative or no number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float is cut to the range of the whole numbers, which is what is wanted"
)]
pub(crate) fn rounded(value: f64) -> u64 {
    value.round() as u64
}

/// A count as a float; above 2^53 to the nearest one, which no screen shows.
#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
pub(crate) fn precise(value: u64) -> f64 {
    value as f64
}

/// So many of a thing, in its plural but for one.
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
            assert_eq!(parse_date_utc(&text), Some(unix_s), "{text}");
            assert_eq!(
                parse_date_utc(&text.replace(" UTC", "Z").replacen(' ', "T", 1)),
                Some(unix_s),
                "{text}"
            );
        }
        assert_eq!(parse_date_utc("2000-02-29"), Some(951_782_400));
        assert_eq!(parse_date_utc("2000-02-29 00:01"), Some(951_782_460));
        assert_eq!(parse_date_utc("2000-02-29T01:01+01:00"), Some(951_782_460), "an offset is heeded");
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
            assert_eq!(parse_date_utc(bad), None, "{bad}");
        }
    }
}
