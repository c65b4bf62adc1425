//! The few segments that hold the least and are nowhere below an envelope: by dynamic programming over where they
//! end.
//!
//! A segment is as large as the envelope where it ends, because an envelope only grows. Absent: units, and time.

use super::frame::CELLS;

/// The most segments, as in the published comparisons.
pub(super) const SEGMENTS_MAX: usize = 4;
/// From this part on, two sums are the same.
const SAME: f64 = 1.0 - 1e-9;

/// The last cell of each segment but the last one, for 2 to [`SEGMENTS_MAX`] segments: those that hold the least,
/// `weights` being what one unit holds in a cell. A cover of few cells has fewer segments than asked for.
pub(super) fn covers(levels: &[f64; CELLS], weights: &[f64; CELLS]) -> [Vec<usize>; SEGMENTS_MAX - 1] {
    let mut sum = 0.0;
    let sums = weights.iter().map(|weight| {
        sum += weight;
        sum
    });
    let until: Vec<f64> = std::iter::once(0.0).chain(sums).collect();
    let held = |from: usize, end: usize| (until[end + 1] - until[from]) * levels[end];
    // What the cells up to each hold in one segment, and then in one more from some cell on.
    let mut least: Vec<f64> = (0..CELLS).map(|end| held(0, end)).collect();
    let mut ends: Vec<Vec<usize>> = Vec::new();
    let mut found = [const { Vec::new() }; SEGMENTS_MAX - 1];
    for cover in &mut found {
        let best = |end: usize| {
            let one_more = (0..end).map(|last| (least[last] + held(last + 1, end), last));
            let one_more = one_more.min_by(|a, b| a.0.total_cmp(&b.0));
            // What rounding makes less is not.
            one_more.filter(|one| one.0 < least[end] * SAME).unwrap_or((least[end], CELLS))
        };
        let best: Vec<(f64, usize)> = (0..CELLS).map(best).collect();
        least = best.iter().map(|best| best.0).collect();
        ends.push(best.into_iter().map(|best| best.1).collect());
        // From the last segment back to the first.
        let mut cell = CELLS - 1;
        for before in ends.iter().rev() {
            if before[cell] < CELLS {
                cell = before[cell];
                cover.push(cell);
            }
        }
        cover.reverse();
    }
    found
}

/// The envelope with the segments that end with these cells in its place.
pub(super) fn covered(levels: &[f64; CELLS], ends: &[usize]) -> [f64; CELLS] {
    let mut covered = [levels[CELLS - 1]; CELLS];
    let mut from = 0;
    for &end in ends {
        covered[from..=end].fill(levels[end]);
        from = end + 1;
    }
    covered
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn held(levels: &[f64; CELLS], weights: &[f64; CELLS]) -> f64 {
        levels.iter().zip(weights).map(|(level, weight)| level * weight).sum()
    }

    #[test]
    fn steps_are_found_where_they_are() {
        let mut levels = [8.0; CELLS];
        levels[..10].fill(1.0);
        levels[10..30].fill(3.0);
        let [two, three, four] = covers(&levels, &[1.0; CELLS]);
        assert_eq!((two, three, four), (vec![29], vec![9, 29], vec![9, 29]));
        let [two, three, four] = covers(&[5.0; CELLS], &[1.0; CELLS]);
        assert!(two.is_empty() && three.is_empty() && four.is_empty(), "one is enough");
    }

    proptest! {
        /// A cover is nowhere below its envelope, no other of as many segments holds less, and more hold no more.
        #[test]
        fn it_holds_the_least(
            steps in prop::collection::vec(0u32..100, CELLS),
            weights in prop::collection::vec(0u32..9, CELLS),
            other in (0..CELLS - 1, 0..CELLS - 1),
        ) {
            let mut sum = 0.0;
            let mut levels = [0.0; CELLS];
            for (level, step) in levels.iter_mut().zip(steps) {
                sum += f64::from(step);
                *level = sum;
            }
            let mut by_cell = [0.0; CELLS];
            by_cell.iter_mut().zip(weights).for_each(|(weight, of)| *weight = f64::from(of));
            let found = covers(&levels, &by_cell);
            let mut most = f64::INFINITY;
            for (at, ends) in found.iter().enumerate() {
                prop_assert!(ends.len() <= at + 1 && ends.is_sorted());
                let cover = covered(&levels, ends);
                prop_assert!(cover.iter().zip(&levels).all(|(cover, level)| cover >= level));
                prop_assert!(held(&cover, &by_cell) <= most * 1.000_001);
                most = held(&cover, &by_cell);
            }
            let ends = [other.0.min(other.1), other.0.max(other.1)];
            let three = held(&covered(&levels, &found[1]), &by_cell);
            prop_assert!(three <= held(&covered(&levels, &ends), &by_cell) * 1.000_001);
            let two = held(&covered(&levels, &found[0]), &by_cell);
            prop_assert!(two <= held(&covered(&levels, &ends[..1]), &by_cell) * 1.000_001);
        }
    }
}
