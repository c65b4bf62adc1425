//! `--signal`: a signal before a job's time limit. Absent here: sending it (`batch_step`).

use std::str::FromStr;

/// The signal, its receiver and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Warning {
    /// To the script's shell alone; else to the job's steps.
    pub shell_only: bool,
    /// The signal's number.
    pub signal: i32,
    /// How many seconds before the limit.
    pub before_s: u64,
}

impl Warning {
    /// Whether the signal comes after the job's start.
    pub(crate) fn comes_later(self, limit_s: Option<u64>) -> bool {
        limit_s.is_some_and(|limit| self.before_s < limit)
    }
}

impl FromStr for Warning {
    type Err = String;

    /// `[R:|B:]SIGNAL[@SECONDS]`: 60 s before the limit by default.
    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("Invalid --signal specification: {text}");
        let mut rest = text;
        let mut shell_only = false;
        while let Some((flag, more)) = rest.split_once(':') {
            match flag {
                "B" | "BR" | "RB" => shell_only = true,
                "R" => {}
                _ => return Err(invalid()),
            }
            rest = more;
        }
        let (signal, before) = rest.split_once('@').map_or((rest, None), |(signal, s)| (signal, Some(s)));
        let signal = pinfold_sys::signals::number(signal).ok_or_else(invalid)?;
        let before_s = before.map_or(Ok(60), |text| text.parse().map_err(|_| invalid()))?;
        if before_s > 65_535 {
            return Err(invalid());
        }
        Ok(Self { shell_only, signal, before_s })
    }
}
