//! In which order the lines of a batch are begun: the longest first, where earlier runs tell how long each takes.
//!
//! Pure. Absent: how long that is, which the daemon knows.

/// Two lengths are alike unless the longer is at least this many times the shorter,
const ALIKE: f64 = 1.25;
/// or both are below this, in microseconds.
const SHORT_US: u64 = 100_000;

/// The order in which jobs of these lengths are best begun, as indexes: the longest first, for a long job that comes
/// last leaves cores idle (Graham, Bounds on multiprocessing timing anomalies, 1969). Jobs of about the same length
/// keep their order, and all jobs do if a length is unknown.
pub(crate) fn longest_first(lengths_us: &[Option<u64>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lengths_us.len()).collect();
    if lengths_us.iter().all(Option::is_some) {
        order.sort_by_key(|&index| std::cmp::Reverse(step(lengths_us[index].unwrap_or(0))));
    }
    order
}

/// The step of a length on a scale on which alike lengths are about the same.
fn step(length_us: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 180")]
    let step = (length_us.max(SHORT_US) as f64 / SHORT_US as f64).log(ALIKE).floor() as u64;
    step
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_longest_come_first() {
        let seconds = |lengths: &[u64]| lengths.iter().map(|s| Some(s * 1_000_000)).collect::<Vec<_>>();
        assert_eq!(longest_first(&[]), Vec::<usize>::new());
        assert_eq!(longest_first(&seconds(&[1, 5, 30, 5])), [2, 1, 3, 0]);
        let mut one_unknown = seconds(&[1, 5, 30]);
        one_unknown.push(None);
        assert_eq!(longest_first(&one_unknown), [0, 1, 2, 3]);
        // Alike: what is short, and what differs by little.
        assert_eq!(longest_first(&[Some(100), Some(90_000), Some(3)]), [0, 1, 2]);
        assert_eq!(longest_first(&[Some(1_010_000), Some(1_050_000)]), [0, 1]);
    }

    proptest! {
        /// Each job has one place, and none comes before one that is much longer.
        #[test]
        fn nothing_is_lost_and_nothing_long_comes_late(lengths in prop::collection::vec(0_u64..1 << 50, 0..50)) {
            let known: Vec<Option<u64>> = lengths.iter().copied().map(Some).collect();
            let order = longest_first(&known);
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert!(sorted.into_iter().eq(0..lengths.len()));
            for pair in order.windows(2) {
                let (first, second) = (lengths[pair[0]].max(SHORT_US) as f64, lengths[pair[1]] as f64);
                prop_assert!(second <= first * ALIKE * 1.001, "{first} before {second}");
            }
        }
    }
}
