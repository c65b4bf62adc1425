//! Finds gaps in readings, so that no line crosses them.

/// A time without a reading is a gap if it exceeds this multiple of the usual interval, and a bound.
const TIMES: f64 = 8.0;

/// Gaps between readings at `times_s`, ascending, of at least `least_s`: from, to.
pub(super) fn find(times_s: impl Iterator<Item = f64>, least_s: f64) -> Vec<(f64, f64)> {
    let times_s: Vec<f64> = times_s.collect();
    let mut spans: Vec<f64> = times_s.windows(2).map(|pair| pair[1] - pair[0]).collect();
    spans.sort_by(f64::total_cmp);
    let usual_s = spans.get(spans.len() / 2).copied().unwrap_or(0.0);
    let is_gap = |pair: &&[f64]| pair[1] - pair[0] > least_s.max(usual_s * TIMES);
    times_s.windows(2).filter(is_gap).map(|pair| (pair[0], pair[1])).collect()
}

/// `points` by time, with a NaN in each of `gaps`.
pub(super) fn cut(mut points: Vec<(f64, f64)>, gaps: &[(f64, f64)]) -> Vec<(f64, f64)> {
    for &(from, to) in gaps {
        let at = points.partition_point(|&(x, _)| x <= from);
        points.insert(at, (f64::midpoint(from, to), f64::NAN));
    }
    points
}

/// The gaps as intervals to be shaded.
pub(super) fn shaded(gaps: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64, String)> {
    gaps.iter().map(|&(from, to)| (from, to, "not read".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_long_and_unusual() {
        let every_second = (0..20).map(f64::from).chain((60..80).map(f64::from));
        assert_eq!(find(every_second.clone(), 10.0), [(19.0, 60.0)]);
        assert_eq!(find(every_second, 50.0), [], "shorter than the bound");
        assert_eq!(find((0..20).map(|at| f64::from(at) * 30.0), 10.0), [], "that is how often it is read");
        assert_eq!(find([].into_iter(), 10.0), []);
        let points: Vec<(f64, f64)> = [0.0, 19.0, 60.0].map(|x| (x, 1.0)).to_vec();
        let cut = cut(points, &[(19.0, 60.0)]);
        assert!(cut.len() == 4 && cut[2].1.is_nan() && (20.0..60.0).contains(&cut[2].0), "{cut:?}");
    }
}
