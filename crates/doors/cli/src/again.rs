//! `--every`: a command that repeats its look.
//!
//! Absent here: the content of a look, and `top` with its own screen.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use pinfold_client::Failure;
use pinfold_proto::ExitCode;
use pinfold_proto::quantity::parse_duration;
use pinfold_sys::ready::{Wanted, wait};

use crate::print::{needs_output, print_text, say};

/// The option of a repeated look.
const EVERY: &str = "--every";

/// The least time between two looks at this host, and between two questions to a hub.
const LEAST_HERE: Duration = Duration::from_millis(100);
const LEAST_ELSEWHERE: Duration = Duration::from_secs(1);

/// The output of a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prints {
    /// Text for people, with an empty line between that of two looks.
    Text,
    /// JSON, or a table for programs.
    Data,
    /// No text: the look writes a file.
    Nothing,
}

impl Prints {
    /// Text, or else data.
    pub(crate) fn of(is_text: bool) -> Self {
        if is_text { Self::Text } else { Self::Data }
    }

    /// As [`Self::of`], or nothing if a file is written.
    pub(crate) fn to(file: Option<&PathBuf>, is_text: bool) -> Self {
        file.map_or(Self::of(is_text), |_| Self::Nothing)
    }
}

#[derive(Debug, Args)]
pub(crate) struct Again {
    /// Look again and again at this interval, until it is interrupted or the output has no reader any more
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    pub every: Option<Duration>,
}

/// An interval as people name it.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    match parse_duration(text) {
        Ok(Duration::ZERO) => Err("an interval above 0 is expected, as in 2s".to_owned()),
        read => read.map_err(|error| error.to_string()),
    }
}

impl Again {
    /// Looks at this host, once or as often as requested.
    ///
    /// # Errors
    /// Errors of any look; but a later look without an answer warns and is repeated. A closed standard output, for more
    /// than a single look.
    pub(crate) fn here(
        &self,
        prints: Prints,
        look: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.look(LEAST_HERE, prints, look)
    }

    /// As [`Self::here`], of other hosts.
    ///
    /// # Errors
    /// As of [`Again::here`].
    pub(crate) fn elsewhere(
        &self,
        prints: Prints,
        look: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.look(LEAST_ELSEWHERE, prints, look)
    }

    fn look(
        &self,
        least: Duration,
        prints: Prints,
        mut look: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(interval) = self.every else { return look() };
        if prints != Prints::Nothing {
            needs_output(EVERY)?;
        }
        look()?;
        while until_next(interval.max(least)) {
            if prints == Prints::Text {
                print_text(|out| writeln!(out))?;
            }
            match look() {
                Err(failure) if failure.code == ExitCode::NoDaemon => say(&failure.to_string()),
                looked => looked?,
            }
        }
        Ok(())
    }
}

/// Refuses to look again and again where nothing of it goes anywhere.
///
/// # Errors
/// When standard output is closed, and there is an interval.
pub(crate) fn may_look(every: Option<Duration>) -> Result<(), Failure> {
    every.map_or(Ok(()), |_| needs_output(EVERY))
}

/// Waits until the next look at this host is due; `false`: the output has no reader any more, so there is none.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn until_next_here(interval: Duration) -> Result<bool, Failure> {
    needs_output(EVERY)?;
    Ok(until_next(interval.max(LEAST_HERE)))
}

/// As [`until_next_here`], of other hosts.
///
/// # Errors
/// As of [`until_next_here`].
pub(crate) fn until_next_elsewhere(interval: Duration) -> Result<bool, Failure> {
    needs_output(EVERY)?;
    Ok(until_next(interval.max(LEAST_ELSEWHERE)))
}

/// Waits for the interval; `false`: the output has no reader any more, so that going on is useless.
pub(crate) fn until_next(interval: Duration) -> bool {
    let due = Instant::now() + interval;
    loop {
        let left = due.saturating_duration_since(Instant::now());
        match wait(vec![Wanted::end(&io::stdout())], Some(left)) {
            Ok(gone) => return !gone,
            // By a signal.
            Err(_) if left.is_zero() => return true,
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_a_length() {
        assert_eq!(interval("2s"), Ok(Duration::from_secs(2)));
        for bad in ["0s", "0", "often"] {
            assert!(interval(bad).is_err(), "{bad}");
        }
    }
}
