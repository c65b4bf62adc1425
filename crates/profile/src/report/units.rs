//! Sizes, durations and times as people read them.

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
    let whole = rounded(unix_s.floor());
    let (year, month, day) = civil(whole / 86_400);
    format!("{year:04}-{month:02}-{day:02} {}", clock_utc(unix_s))
}

/// The time of day as `22:10:41 UTC`.
#[must_use]
pub fn clock_utc(unix_s: f64) -> String {
    let whole = rounded(unix_s.floor());
    format!("{:02}:{:02}:{:02} UTC", whole / 3_600 % 24, whole / 60 % 60, whole % 60)
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar. Counted in cycles of 400
/// years of 146,097 days that begin on a 1 March, so that the leap day is the last one of its year.
fn civil(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let (cycle, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (cycle * 400 + year + u64::from(month <= 2), month, day)
}

/// A date as people write it, in Unix seconds: `2026-11-21`, `2026-11-21 22:10` or `2026-11-21T22:10:41`, each with `Z` or
/// ` UTC` behind it or not. `None`: it is not one, or before 1970.
#[must_use]
pub fn parse_date_utc(text: &str) -> Option<u64> {
    let text = text.trim();
    let text = text.strip_suffix(" UTC").or_else(|| text.strip_suffix('Z')).unwrap_or(text);
    let (date, clock) = text.split_once([' ', 'T']).unwrap_or((text, "00:00"));
    let numbers = |text: &str, sign: char| -> Option<Vec<u64>> {
        let digits = |part: &str| part.chars().all(|c| c.is_ascii_digit()).then(|| part.parse().ok())?;
        text.split(sign).map(digits).collect()
    };
    let [year, month, day] = numbers(date, '-')?[..] else { return None };
    let (hours, minutes, seconds) = match numbers(clock, ':')?[..] {
        [hours, minutes] => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    if !(1970..10_000).contains(&year) || hours > 23 || minutes > 59 || seconds > 59 {
        return None;
    }
    // At most 366 days a year have gone by, and at least 365.
    let (least, most) = ((year - 1970) * 365, (year - 1969) * 366);
    let days: Vec<u64> = (least..most).collect();
    let at = days.partition_point(|&one| civil(one) < (year, month, day));
    let day = days.get(at).copied().filter(|&one| civil(one) == (year, month, day))?;
    Some(((day * 24 + hours) * 60 + minutes) * 60 + seconds)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_size(bytes: u64, want: &str) {
        assert_eq!(size(bytes), want, "{bytes}");
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
        ] {
            assert_eq!(parse_date_utc(bad), None, "{bad}");
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for number in 0..200_000 {
            assert_eq!(civil(number), (year, month, day));
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let days = match month {
                2 => 28 + u64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > days {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }
}
