//! Fewer points that look the same: of each column of the picture the first, the lowest, the highest and the
//! last point, so that no spike is lost however long the series is.

/// The points as a line: finite ones, steps made of corners, at most four for each of `columns`.
pub(super) fn line(points: &[(f64, f64)], stepped: bool, columns: usize) -> Vec<(f64, f64)> {
    let finite = points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite());
    let mut corners: Vec<(f64, f64)> = Vec::with_capacity(points.len() * (1 + usize::from(stepped)));
    for (x, y) in finite {
        if let Some(&(before, _)) = corners.last().filter(|_| stepped) {
            corners.push((before, y));
        }
        corners.push((x, y));
    }
    thin(corners, columns)
}

fn thin(points: Vec<(f64, f64)>, columns: usize) -> Vec<(f64, f64)> {
    let (Some(&(from, _)), Some(&(to, _))) = (points.first(), points.last()) else { return points };
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
        let line = line(&points, false, 100);
        assert!(line.len() <= 404, "{}", line.len());
        assert!(line.contains(&(54_321.0, 9.0)));
        assert_eq!((line.first(), line.last()), (points.first(), points.last()));
        assert!(line.is_sorted_by(|one, other| one.0 < other.0));
    }

    #[test]
    fn steps_have_corners_and_gaps_are_left_out() {
        let points = [(0.0, 1.0), (1.0, f64::NAN), (2.0, 3.0)];
        assert_eq!(line(&points, true, 100), [(0.0, 1.0), (0.0, 3.0), (2.0, 3.0)]);
        assert_eq!(line(&[], true, 100), []);
    }
}
