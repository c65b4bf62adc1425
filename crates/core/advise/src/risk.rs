//! How sure an observed share is.
//!
//! Wilson's score interval (E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA
//! 22, 1927): it keeps its promise with few observations and with shares near 0, where the textbook interval does not.

/// The 95 % interval of a probability of which `hits` of `all` trials were seen; (0, 1) if there was no trial.
#[must_use]
pub fn wilson(hits: u64, all: u64) -> (f64, f64) {
    if all == 0 {
        return (0.0, 1.0);
    }
    let (all, z) = (all as f64, 1.959_964);
    let share = (hits as f64 / all).min(1.0);
    let middle = (share + z * z / (2.0 * all)) / (1.0 + z * z / all);
    let half = z / (1.0 + z * z / all) * (share * (1.0 - share) / all + z * z / (4.0 * all * all)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(hits: u64, all: u64, low: f64, high: f64) {
        let (got_low, got_high) = wilson(hits, all);
        assert!((got_low - low).abs() < 5e-4 && (got_high - high).abs() < 5e-4, "{got_low} {got_high}");
    }

    #[test]
    fn intervals_of_shares() {
        check(0, 0, 0.0, 1.0);
        check(0, 10, 0.0, 0.2775);
        check(1, 10, 0.0179, 0.4042);
        check(50, 100, 0.4038, 0.5962);
        check(10, 10, 0.7225, 1.0);
    }
}
