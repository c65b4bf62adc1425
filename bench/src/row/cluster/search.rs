//! How few hosts a variant needs.

/// The fewest hosts from which on it is good up to as many as there are, or, where it is not good on those, the first
/// beyond them, up to twice as many; `None`: not even on those.
///
/// No bisection: slowdown does not simply fall with each host. One wide job that waits for its reservation longer or
/// shorter changes the order of all that follow, so fewer hosts may happen to be better than more.
pub(super) fn fewest(all: u32, mut good: impl FnMut(u32) -> bool) -> Option<u32> {
    if good(all) {
        let bad = (1..all).rev().find(|&hosts| !good(hosts)).unwrap_or(0);
        return Some(bad + 1);
    }
    (all + 1..=2 * all).find(|&hosts| good(hosts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_are_found() {
        for least in 1..=16 {
            assert_eq!(fewest(8, |hosts| hosts >= least), Some(least));
        }
        assert_eq!(fewest(8, |hosts| hosts >= 17), None);
        // What happens to be good on few hosts alone does not count.
        assert_eq!(fewest(8, |hosts| hosts == 3 || hosts >= 6), Some(6));
    }
}
