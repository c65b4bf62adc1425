//! The usual band of a class: between which sizes the memory of its last jobs lay, by the time since their start.

use pinfold_profile::plot::{Series, Style};

/// Points of the band.
const POINTS: u32 = 120;

/// Fewer jobs have no band; the band ends where fewer jobs last.
const RUNS_MIN: usize = 3;

/// The lower and the upper edge of the band: the least and the most of up to nine jobs, of more the p10 and the p90. Each
/// curve has seconds since the start and bytes, by time.
pub(super) fn band(curves: &[Vec<(f64, f64)>]) -> Vec<Series> {
    let end = |curve: &[(f64, f64)]| curve.last().map_or(0.0, |(at_s, _)| *at_s);
    let last_s = curves.iter().map(|curve| end(curve)).fold(0.0, f64::max);
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for point in 1..=POINTS {
        let at_s = last_s * f64::from(point) / f64::from(POINTS);
        let lasting = curves.iter().filter(|curve| end(curve) >= at_s);
        let mut held: Vec<f64> =
            lasting.filter_map(|curve| Some(curve.iter().find(|(time_s, _)| *time_s >= at_s)?.1)).collect();
        if held.len() < RUNS_MIN {
            break;
        }
        held.sort_by(f64::total_cmp);
        let edge = held.len() / 10;
        low.push((at_s, held[edge]));
        high.push((at_s, held[held.len() - 1 - edge]));
    }
    if low.is_empty() {
        return Vec::new();
    }
    let series = |name: &str, points| Series { name: name.to_owned(), points, style: Style::Thin };
    vec![series("usual least", low), series("usual most", high)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_band_lies_around_the_jobs_of_a_class_for_as_long_as_three_of_them_last() {
        let curve =
            |bytes: f64, until_s: u32| (1..=until_s).map(|at| (f64::from(at), bytes)).collect::<Vec<_>>();
        assert_eq!(band(&[curve(1.0, 10), curve(2.0, 10)]), [], "two are not enough");
        let told = band(&[curve(3.0, 120), curve(1.0, 60), curve(2.0, 60), curve(9.0, 30)]);
        let at = |series: &Series, at_s: f64| {
            series.points.iter().find(|point| point.0 >= at_s).map(|point| point.1)
        };
        assert_eq!((at(&told[0], 10.0), at(&told[1], 10.0)), (Some(1.0), Some(9.0)));
        assert_eq!((at(&told[0], 40.0), at(&told[1], 40.0)), (Some(1.0), Some(3.0)));
        assert_eq!(at(&told[1], 61.0), None);
        assert_eq!(band(&[]), []);
    }
}
