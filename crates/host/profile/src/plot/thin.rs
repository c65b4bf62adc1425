//! Thins points without a visible change: keeps the first, lowest, highest and last point of each column of the
//! picture, so that no spike is lost in a series of any length.

/// The points as lines, a line per stretch without a gap: a value that is not finite is a gap, steps are made of
/// corners, and each of `columns` has at most four points.
pub(super) fn lines(points: &[(f64, f64)], stepped: bool, columns: usize) -> Vec<Vec<(f64, f64)>> {
    let is_finite = |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite();
    let finite = || points.iter().filter(|point| is_finite(point)).map(|&(x, _)| x);
    let (Some(from), Some(to)) = (finite().next(), finite().next_back()) else { return Vec::new() };
    let stretches = points.split(|point| !is_finite(point)).filter(|stretch| !stretch.is_empty());
    stretches.map(|stretch| thin(corners(stretch, stepped), (from, to), columns)).collect()
}

fn corners(points: &[(f64, f64)], stepped: bool) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::with_capacity(points.len() * (1 + usize::from(stepped)));
    for &(x, y) in points {
        if let Some(&(before, _)) = corners.last().filter(|_| stepped) {
            corners.push((before, y));
        }
        corners.push((x, y));
    }
    corners
}

fn thin(points: Vec<(f64, f64)>, (from, to): (f64, f64), columns: usize) -> Vec<(f64, f64)> {
    if points.len() <= columns * 4 || to <= from {
        return points;
    }
    let width = (to - from) / f64::from(u32::try_from(columns).unwrap_or(u32::MAX));
    let column = |x: f64| ((x - from) / width).floor();
    let mut kept = Vec::with_capacity(columns * 4);
    for bucket in points.chunk_by(|one, other| column(one.0).total_cmp(&column(other.0)).is_eq()) {
        let at = |of: Option<(usize, &(f64, f64))>| of.map_or(0, |(at, _)| at);
        let low = at(bucket.iter().enumerate().min_by(|one, other| one.1.1.total_cmp(&other.1.1)));
        let high = at(bucket.iter().enumerate().max_by(|one, other| one.1.1.total_cmp(&other.1.1)));
        let mut chosen = [0, low.min(high), low.max(high), bucket.len() - 1].to_vec();
        chosen.dedup();
        kept.extend(chosen.into_iter().map(|at| bucket[at]));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spike_in_a_long_series_is_kept() {
        let points: Vec<(f64, f64)> =
            (0..100_000).map(|at| (f64::from(at), if at == 54_321 { 9.0 } else { 1.0 })).collect();
        let lines = lines(&points, false, 100);
        assert_eq!(lines.len(), 1);
        let line = &lines[0];
        assert!(line.len() <= 404, "{}", line.len());
        assert!(line.contains(&(54_321.0, 9.0)));
        assert_eq!((line.first(), line.last()), (points.first(), points.last()));
        assert!(line.is_sorted_by(|one, other| one.0 < other.0));
    }

    #[test]
    fn steps_have_corners_and_gaps_end_a_line() {
        let points = [(0.0, 1.0), (1.0, 2.0), (1.5, f64::NAN), (2.0, 3.0)];
        assert_eq!(lines(&points, true, 100), [vec![(0.0, 1.0), (0.0, 2.0), (1.0, 2.0)], vec![(2.0, 3.0)]]);
        let none: [Vec<(f64, f64)>; 0] = [];
        assert_eq!(lines(&[], true, 100), none);
        assert_eq!(lines(&[(1.0, f64::NAN)], true, 100), none);
    }
}
