//! The signal before a timeout, as `--timeout-signal` has it: `USR1@60s`.

use pinfold_proto::TimeoutSignal;
use pinfold_proto::quantity::parse_duration;

/// Reads the option.
pub(crate) fn timeout_signal(text: &str) -> Result<TimeoutSignal, String> {
    let wanted = || {
        format!(
            "`{text}` is not SIGNAL@DURATION, such as USR1@60s: the signal, and how long before the timeout"
        )
    };
    let (signal, before) = text.split_once('@').ok_or_else(wanted)?;
    let signal =
        pinfold_sys::signals::number(signal).ok_or_else(|| format!("there is no signal `{signal}`"))?;
    let before = parse_duration(before).map_err(|_| wanted())?;
    Ok(TimeoutSignal { signal, before_us: super::microseconds(before) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_before_a_timeout() {
        assert_eq!(timeout_signal("USR1@60s"), Ok(TimeoutSignal { signal: 10, before_us: 60_000_000 }));
        assert_eq!(timeout_signal("SIGTERM@1m30s").map(|one| one.before_us), Ok(90_000_000));
        for bad in ["", "USR1", "@60s", "USR1@", "USR1@x", "NONE@60s", "60s@USR1"] {
            assert!(timeout_signal(bad).is_err(), "{bad}");
        }
    }
}
