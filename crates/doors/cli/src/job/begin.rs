//! When a job may begin, as people say it: a moment with or without a time zone, a time of day, a day, or a duration
//! from now. The default is the local zone.

use jiff::civil::{Date, DateTime, Time};
use jiff::{Timestamp, ToSpan, ZonedDateTime};
use pinfold_proto::quantity::parse_duration;

/// A moment, in microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BeginAt(pub u64);

/// Reads a moment, by the clock and the zone of this process.
pub(crate) fn begin(text: &str) -> Result<BeginAt, String> {
    begin_from(text, &ZonedDateTime::now())
}

fn begin_from(text: &str, now: &ZonedDateTime) -> Result<BeginAt, String> {
    let bad = || {
        format!(
            "`{text}` is not a moment such as 22:30, tomorrow, tomorrow 06:00, 2026-11-25T06:00, 2026-11-25T06:00:00+01:00 \
             or +2h"
        )
    };
    let at = match text.trim() {
        "now" => now.timestamp(),
        text if text.starts_with('+') => {
            let after = parse_duration(&text[1..]).map_err(|_| bad())?;
            now.timestamp().checked_add(after).map_err(|_| bad())?
        }
        text => match text.parse::<Timestamp>() {
            Ok(at) => at,
            Err(_) => local(text, now).ok_or_else(bad)?,
        },
    };
    u64::try_from(at.as_microsecond()).map(BeginAt).map_err(|_| bad())
}

/// A moment in the local time zone; `None`: it is none.
fn local(text: &str, now: &ZonedDateTime) -> Option<Timestamp> {
    let zoned = |at: DateTime| Some(at.to_zoned_datetime(now.time_zone().clone()).ok()?.timestamp());
    if let Some(time) = time_of_day(text) {
        let today = zoned(now.date().to_datetime(time))?;
        let tomorrow = || zoned(now.date().checked_add(1.day()).ok()?.to_datetime(time));
        return if today > now.timestamp() { Some(today) } else { tomorrow() };
    }
    let (day, time) = text.split_once([' ', 'T']).map_or((text, None), |(day, time)| (day, Some(time)));
    let time = time.map_or(Some(Time::midnight()), time_of_day)?;
    let day = match day {
        "today" => now.date(),
        "tomorrow" => now.date().checked_add(1.day()).ok()?,
        day => day.parse::<Date>().ok()?,
    };
    zoned(day.to_datetime(time))
}

/// `22:30` or `22:30:15`.
fn time_of_day(text: &str) -> Option<Time> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':') && text.contains(':');
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    /// Paris, on the day before its clocks go back, from a rule that needs no file.
    fn now() -> ZonedDateTime {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        "2026-10-24T12:00:00"
            .parse::<DateTime>()
            .expect("a moment")
            .to_zoned_datetime(zone)
            .expect("it exists")
    }

    #[track_caller]
    fn check(text: &str, want: Option<&str>) {
        let want = want
            .map(|want| u64::try_from(want.parse::<Timestamp>().expect(want).as_microsecond()).expect(want));
        assert_eq!(begin_from(text, &now()).ok().map(|at| at.0), want, "{text}");
    }

    #[test]
    fn moments_as_people_say_them() {
        check("now", Some("2026-10-24T10:00:00Z"));
        check("+90m", Some("2026-10-24T11:30:00Z"));
        check("+0s", Some("2026-10-24T10:00:00Z"));
        check("22:30", Some("2026-10-24T20:30:00Z"));
        // Past today: tomorrow, when the clocks have gone back.
        check("06:00", Some("2026-10-25T05:00:00Z"));
        check("12:00", Some("2026-10-25T11:00:00Z"));
        check("tomorrow", Some("2026-10-24T22:00:00Z"));
        check("tomorrow 06:00", Some("2026-10-25T05:00:00Z"));
        check("today", Some("2026-10-23T22:00:00Z"));
        check("2026-12-01", Some("2026-11-30T23:00:00Z"));
        check("2026-12-01T06:00:30", Some("2026-12-01T05:00:30Z"));
        check("2026-12-01 06:00", Some("2026-12-01T05:00:00Z"));
        check("2026-12-01T06:00:00Z", Some("2026-12-01T06:00:00Z"));
        check("2026-12-01T06:00:00.5-05:00", Some("2026-12-01T11:00:00.5Z"));
        let bad = [
            "",
            "+",
            "+x",
            "-1h",
            "noon",
            "25:00",
            "12:60",
            "12",
            "2026-13-01",
            "tomorrow x",
            "1:2:3:4",
            "1969-01-01",
        ];
        for bad in bad {
            check(bad, None);
        }
    }
}
