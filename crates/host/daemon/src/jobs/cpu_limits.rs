//! When to look whether a job has used the CPU time that it may: no later than it could have if all its PUs were busy from
//! now on. Pure: readings and the time are told.

/// Two looks are at least so far apart, in microseconds: so much more a job may use of each of its PUs.
const LOOK_LEAST_US: u64 = 50_000;
/// A job that is frozen is looked at no more often than this, and one that cannot be read.
pub(crate) const LOOK_FROZEN_US: u64 = 1_000_000;

/// When to look next at a job that may use `limit_us` on `pus` PUs and has used `used_us`; `None`: it has used it all.
pub(crate) fn next_look_us(
    limit_us: u64,
    used_us: u64,
    pus: usize,
    frozen: bool,
    now_us: u64,
) -> Option<u64> {
    let left_us = limit_us.checked_sub(used_us).filter(|&left| left > 0)?;
    let least_us = if frozen { LOOK_FROZEN_US } else { LOOK_LEAST_US };
    Some(now_us.saturating_add((left_us / (pus as u64).max(1)).max(least_us)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000;

    #[test]
    fn no_job_is_looked_at_too_late() {
        assert_eq!(next_look_us(10 * S, 0, 1, false, 100 * S), Some(110 * S));
        assert_eq!(next_look_us(10 * S, 2 * S, 4, false, 100 * S), Some(102 * S), "four PUs may be busy");
        assert_eq!(next_look_us(10 * S, 10 * S - 1, 64, false, 100 * S), Some(100 * S + LOOK_LEAST_US));
        assert_eq!(next_look_us(10 * S, 10 * S - 1, 1, true, 100 * S), Some(101 * S));
        assert_eq!(next_look_us(10 * S, 10 * S, 1, false, 100 * S), None);
        assert_eq!(next_look_us(10 * S, 11 * S, 1, true, 100 * S), None);
        assert_eq!(next_look_us(u64::MAX, 0, 0, false, S), Some(u64::MAX), "nothing overflows");
    }
}
