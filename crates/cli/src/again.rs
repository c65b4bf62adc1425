//! `--every`: a command that looks again and again.
//!
//! Absent here: what it looks at, and `top`, which has a screen of its own.

use std::io;
use std::time::{Duration, Instant};

use clap::Args;
use pinfold_client::Failure;
use pinfold_proto::ExitCode;
use pinfold_proto::quantity::parse_duration;
use pinfold_sys::ready::{Wanted, wait};

use crate::print::{print_text, say};

/// The least time between two looks at this host, and between two questions to a hub.
const LEAST_HERE: Duration = Duration::from_millis(100);
const LEAST_ELSEWHERE: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct Again {
    /// Look again and again at this interval, until it is interrupted or the output has no reader any more
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub every: Option<Duration>,
}

impl Again {
    /// Looks at this host, once or as often as is asked for; `apart`: with an empty line between what two looks print.
    ///
    /// # Errors
    /// What the first look fails with, and later ones, except that nobody answered: that is said, and asked again.
    pub(crate) fn here(&self, apart: bool, look: impl FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
        self.look(LEAST_HERE, apart, look)
    }

    /// The same, of other hosts.
    ///
    /// # Errors
    /// As of [`Again::here`].
    pub(crate) fn elsewhere(
        &self,
        apart: bool,
        look: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.look(LEAST_ELSEWHERE, apart, look)
    }

    fn look(
        &self,
        least: Duration,
        apart: bool,
        mut look: impl FnMut() -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(interval) = self.every else { return look() };
        look()?;
        while until_next(interval.max(least)) {
            if apart {
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

/// Waits until the next look at this host is due; `false`: the output has no reader any more, so there is none.
pub(crate) fn until_next_here(interval: Duration) -> bool {
    until_next(interval.max(LEAST_HERE))
}

/// The same, of other hosts.
pub(crate) fn until_next_elsewhere(interval: Duration) -> bool {
    until_next(interval.max(LEAST_ELSEWHERE))
}

fn until_next(interval: Duration) -> bool {
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
