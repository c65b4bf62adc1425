//! How few hosts a variant needs.

/// The fewest hosts on which it is good, of up to twice as many as there are; `None`: not even on those.
///
/// It is taken for granted that what is good on some hosts is good on more: by bisection, not each number is tried.
pub(super) fn fewest(all: u32, mut good: impl FnMut(u32) -> bool) -> Option<u32> {
    let (mut bad, mut enough) = if good(all) {
        (0, all)
    } else if good(2 * all) {
        (all, 2 * all)
    } else {
        return None;
    };
    while enough - bad > 1 {
        let middle = bad + (enough - bad) / 2;
        if good(middle) {
            enough = middle;
        } else {
            bad = middle;
        }
    }
    Some(enough)
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
        let mut tries = 0;
        assert_eq!(
            fewest(1024, |hosts| {
                tries += 1;
                hosts >= 700
            }),
            Some(700)
        );
        assert!(tries <= 11, "{tries}");
    }
}
