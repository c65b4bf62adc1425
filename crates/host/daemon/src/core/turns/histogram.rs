//! How often which durations were seen, in a fixed number of buckets: of one width below [`LINEAR`] units, and from there
//! [`LINEAR`] in each power of two. So a quantile is told at most a 32nd too large, from 4.1 us to 137 s; below that, it is
//! at most 128 ns too large. Pure.

use std::time::Duration;

/// What the smallest bucket spans, in nanoseconds.
const UNIT_NS: u64 = 128;
const LINEAR_BITS: u32 = 5;
/// Buckets below the first power of two that is divided, and in each of these.
const LINEAR: usize = 1 << LINEAR_BITS;
/// So many powers of two are divided.
const POWERS: usize = 25;
const BUCKETS: usize = LINEAR * (1 + POWERS);

/// See the module's page.
#[derive(Debug)]
pub(super) struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    /// Longer than any bucket.
    overflow: u64,
    total: u64,
    longest: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]), overflow: 0, total: 0, longest: Duration::ZERO }
    }
}

impl Histogram {
    /// One more.
    pub(super) fn count(&mut self, duration: Duration) {
        match self.counts.get_mut(bucket_of(duration)) {
            Some(count) => *count += 1,
            None => self.overflow += 1,
        }
        self.total += 1;
        self.longest = self.longest.max(duration);
    }

    /// How many were counted.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// So many in a thousand took at most so long: the end of their last one's bucket, and no longer than the longest; zero
    /// when nothing was counted.
    pub(super) fn quantile(&self, per_mille: u64) -> Duration {
        // Rounded up: of few, the longest counts.
        let rank = (u128::from(self.total) * u128::from(per_mille)).div_ceil(1000);
        let mut seen: u128 = 0;
        for (bucket, &count) in self.counts.iter().enumerate().filter(|&(_, &count)| count > 0) {
            seen += u128::from(count);
            if seen >= rank {
                return end_of(bucket).min(self.longest);
            }
        }
        self.longest
    }
}

/// The bucket of a duration; [`BUCKETS`] or more: it is longer than any.
fn bucket_of(duration: Duration) -> usize {
    let units = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX) / UNIT_NS;
    let power = units.max(1).ilog2().saturating_sub(LINEAR_BITS);
    // Between LINEAR and 2 LINEAR in each power of two that is divided, below LINEAR before the first.
    let place = usize::try_from(units >> power).unwrap_or(usize::MAX);
    place + LINEAR * usize::try_from(power).unwrap_or(usize::MAX)
}

/// The first duration beyond a bucket.
fn end_of(bucket: usize) -> Duration {
    let power = (bucket / LINEAR).saturating_sub(1);
    let place = (bucket - LINEAR * power) as u64;
    Duration::from_nanos(((place + 1) << power) * UNIT_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: Duration = Duration::from_nanos(1);

    #[test]
    fn each_bucket_begins_where_the_one_before_ends() {
        assert_eq!(bucket_of(Duration::ZERO), 0);
        for bucket in 0..BUCKETS {
            let end = end_of(bucket);
            assert_eq!(bucket_of(end - NS), bucket, "the last of {bucket}");
            assert_eq!(bucket_of(end), bucket + 1, "the first beyond {bucket}");
            let begin = if bucket == 0 { Duration::ZERO } else { end_of(bucket - 1) };
            let width = (end - begin).as_secs_f64();
            let narrow = width <= begin.as_secs_f64() / 32.0 + 1e-12 || end - begin == 128 * NS;
            assert!(narrow, "{bucket} is {width} s wide from {begin:?}");
        }
        assert_eq!(end_of(BUCKETS - 1), Duration::from_nanos(128 << 30), "137 s");
    }

    /// Durations from some microseconds to some seconds, which spread as turns do: most are short.
    fn durations(count: u64) -> Vec<Duration> {
        let mut state: u64 = 7;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 40
        };
        (0..count).map(|_| Duration::from_nanos((5_000 + next()) << (next() % 9))).collect()
    }

    #[test]
    fn quantiles_are_near_the_true_ones() {
        for count in [1, 2, 10, 999, 1000, 1001, 50_000] {
            let mut all = durations(count);
            let mut histogram = Histogram::default();
            all.iter().for_each(|&duration| histogram.count(duration));
            all.sort_unstable();
            for per_mille in [1, 500, 990, 999, 1000] {
                let rank = (count * per_mille).div_ceil(1000);
                let exact = all[usize::try_from(rank).unwrap() - 1].as_secs_f64();
                let told = histogram.quantile(per_mille).as_secs_f64();
                let near = told >= exact && told <= exact * 1.06;
                assert!(near, "{per_mille} of {count}: {told}, not {exact}");
            }
        }
    }

    #[test]
    fn what_is_longer_than_any_bucket_counts() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(999), Duration::ZERO);
        let (short, long) = (Duration::from_millis(1), Duration::from_secs(4_000));
        (0..3).for_each(|_| histogram.count(short));
        histogram.count(long);
        assert_eq!((histogram.total(), histogram.overflow), (4, 1));
        assert!(histogram.quantile(750) < Duration::from_micros(1_032));
        assert_eq!(histogram.quantile(751), long);
        histogram.count(Duration::MAX);
        assert_eq!(histogram.quantile(1000), Duration::MAX);
    }

    #[test]
    fn no_quantile_is_longer_than_the_longest() {
        let mut histogram = Histogram::default();
        let only = Duration::from_nanos(1_000_001);
        histogram.count(only);
        assert_eq!(histogram.quantile(500), only);
    }
}
