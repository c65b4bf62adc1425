//! The readings of the whole host while jobs ran: `pinfold host`, and `plot` and `export` with `--host`.

use std::time::{Duration, SystemTime};

use clap::Args;
use pinfold_profile::{export, plot, report};
use pinfold_proto::ExitCode;
use pinfold_proto::host::HostView;
use pinfold_proto::wire::Request;

use crate::print::{moment_as_of, print_json, print_text, width};
use pinfold_client::{Client, Dial, Failure};

#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    /// Since then: so long ago (2h), a date (2026-11-21 22:10) or Unix seconds (@1790000000)
    #[arg(long, value_name = "WHEN", default_value = "1h")]
    pub since: String,
    /// Up to then, named in the same ways
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The default length of a picture.
const DRAWN: Duration = Duration::from_secs(3_600);

/// `pinfold host`.
pub(crate) fn host(dial: &Dial, args: &HostArgs) -> Result<(), Failure> {
    let Span { since_us, until_us } = Span::of(Some(&args.since), args.until.as_deref())?;
    let view = ask(&mut dial.connect()?, since_us, until_us, false)?;
    if args.json { print_json(&view) } else { print_text(|out| report::write_host(&view, width(), out)) }
}

/// The chart of `pinfold plot --host`: of the last hour, by default.
pub(crate) fn chart(
    client: &mut Client,
    since: Option<&str>,
    until_at: Option<&str>,
) -> Result<plot::Chart, Failure> {
    let now = SystemTime::now();
    let until_us = until(now, until_at)?;
    let since_us = match since {
        Some(since) => moment_as_of(now, "--since", since)?,
        None => {
            let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let now_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
            let drawn_us = u64::try_from(DRAWN.as_micros()).unwrap_or(u64::MAX);
            until_us.unwrap_or(now_us).min(now_us).saturating_sub(drawn_us)
        }
    };
    in_order(since_us, until_us)?;
    Ok(plot::host_chart(&ask(client, since_us, until_us, false)?))
}

/// From when to when readings are wanted, in microseconds since the Unix epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    since_us: u64,
    until_us: Option<u64>,
}

impl Span {
    /// From the options: by default from the first reading to the last.
    pub(crate) fn of(since: Option<&str>, until_at: Option<&str>) -> Result<Self, Failure> {
        let now = SystemTime::now();
        let until_us = until(now, until_at)?;
        let since_us = since.map_or(Ok(0), |since| moment_as_of(now, "--since", since))?;
        in_order(since_us, until_us)?;
        Ok(Self { since_us, until_us })
    }
}

/// The table of `pinfold export --host`: each reading, an answer after the other.
pub(crate) fn sheets(
    client: &mut Client,
    span: Span,
    mut add: impl FnMut(export::Sheet) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut since_us = span.since_us;
    add(export::host(&[]))?;
    loop {
        let view = ask(client, since_us, span.until_us, true)?;
        let Some(last) = view.samples.last() else { return Ok(()) };
        // A time in seconds is exact to the microsecond that it was made from.
        let last_us = Duration::try_from_secs_f64(last.time_s).map(|time| (time + HALF_US).as_micros());
        since_us = last_us.ok().and_then(|us| u64::try_from(us).ok()).map_or(u64::MAX, |us| us + 1);
        add(export::host(&view.samples))?;
    }
}

/// Added before a time is cut to microseconds.
const HALF_US: Duration = Duration::from_nanos(500);

fn until(now: SystemTime, until: Option<&str>) -> Result<Option<u64>, Failure> {
    until.map(|until| moment_as_of(now, "--until", until)).transpose()
}

/// Refuses an end before the begin: nothing can be between.
fn in_order(since_us: u64, until_us: Option<u64>) -> Result<(), Failure> {
    match until_us.is_some_and(|until_us| until_us < since_us) {
        true => Err(Failure::new(ExitCode::Usage, "--until is before --since")),
        false => Ok(()),
    }
}

fn ask(client: &mut Client, since_us: u64, until_us: Option<u64>, each: bool) -> Result<HostView, Failure> {
    answer!(client.ask(&Request::Host { since_us, until_us, each })?, Host)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_not_before_the_begin() {
        let check = |since, until, good| {
            assert_eq!(Span::of(since, until).is_ok(), good, "{since:?} {until:?}");
        };
        check(Some("1h"), Some("2h"), false);
        check(Some("2h"), Some("1h"), true);
        check(Some("60m"), Some("1h"), true);
        check(Some("@10"), Some("@10"), true);
        check(None, Some("2h"), true);
        check(Some("2h"), None, true);
    }
}
