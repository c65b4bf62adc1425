use super::bars::{BARS_MAX, three_digits};
use super::*;

fn bars(values: &[f64], unit: Unit) -> (Histogram, Bars) {
    let histogram = Histogram::new("x", unit, values.to_vec());
    let bars = Bars::new(&histogram);
    (histogram, bars)
}

#[test]
fn every_job_is_in_one_bar() {
    for values in [
        vec![0.0],
        vec![5.0],
        vec![1.0, 2.0, 3.0],
        vec![1e-9, 1e12],
        vec![1000.0, 1000.001],
        (0..997).map(f64::from).collect(),
        vec![f64::NAN, -1.0, 3.0],
    ] {
        let (histogram, bars) = bars(&values, Unit::default());
        assert_eq!(bars.counts.iter().sum::<u64>(), histogram.values.len() as u64, "{values:?}");
        assert!(bars.counts.len() <= BARS_MAX * 4 && bars.step > 0.0, "{values:?}");
        let most = histogram.values.last().copied().unwrap();
        assert!(
            bars.from <= bars.place(histogram.values[0]) && bars.to() >= bars.place(most),
            "{values:?}: {} {}",
            bars.from,
            bars.to()
        );
    }
}

/// All below 1, as the run times of short jobs in seconds.
#[test]
fn a_long_tail_below_1_has_more_bars_than_one() {
    let mut values: Vec<f64> = (0..90).map(|at| 0.005 + 0.0001 * f64::from(at)).collect();
    values.push(0.9);
    let (_, bars) = bars(&values, "s".into());
    assert!(bars.least.is_some(), "it is logarithmic");
    let taken = bars.counts.iter().filter(|count| **count > 0).count();
    assert!(taken > 3, "{:?} from {} by {}", bars.counts, bars.from, bars.step);
    let begins = bars.begins();
    assert!(begins[0].starts_with("0.00"), "{begins:?}");
}

#[test]
fn values_that_are_nearly_the_same_stand_in_the_middle() {
    for values in [vec![5.0], vec![0.160_21], vec![1000.0, 1000.001], vec![34.50, 34.52, 34.51]] {
        let (_, bars) = bars(&values, Unit::default());
        let ends = |mut counts: Vec<u64>| {
            counts.reverse();
            counts.iter().take_while(|count| **count == 0).count()
        };
        let after = ends(bars.counts.clone());
        let before = ends(bars.counts.iter().rev().copied().collect());
        assert!(before >= 2 && after >= 2, "{values:?}: {:?} from {}", bars.counts, bars.from);
    }
}

#[test]
fn units_fit_and_marks_are_values_that_were() {
    let gib = f64::from(1 << 30);
    let (histogram, bars) = bars(&[gib, 2.0 * gib, 3.0 * gib, 10.0 * gib], Unit::Bytes);
    assert_eq!(bars.titled(&histogram), "x (GiB)");
    assert_eq!(bars.told(&histogram), "median 3.00, p90 10.0, max 10.0");
    let (histogram, bars) = super::tests::bars(&[60.0, 7200.0], "s".into());
    assert_eq!((bars.titled(&histogram).as_str(), bars.unit.as_str()), ("x (h)", "h"));
    let (histogram, bars) = super::tests::bars(&[], Unit::Bytes);
    assert_eq!((bars.told(&histogram).as_str(), bars.highest()), ("", 0));
}

#[test]
fn figures_have_digits_that_count() {
    let check = |value: f64, want: &str| assert_eq!(three_digits(value), want, "{value}");
    check(0.001_24, "0.0012");
    check(0.009_949, "0.0099");
    check(0.01, "0.01");
    check(0.0, "0.00");
    check(9.994, "9.99");
    check(9.996, "10.0");
    check(123.4, "123");
    check(1e-30, "0.000000000");
}

#[test]
fn a_long_tail_has_a_logarithmic_axis() {
    let values: Vec<f64> = (1..=99).map(|at| 1.0 + f64::from(at) / 100.0).chain([0.0, 4_000.0]).collect();
    let (histogram, bars) = bars(&values, Unit::default());
    assert_eq!(bars.titled(&histogram), "x, logarithmic");
    assert_eq!(bars.counts.iter().sum::<u64>(), 101);
    let ticks: Vec<String> = bars.ticks(9).into_iter().map(|(_, text)| text).collect();
    assert_eq!(ticks, ["1", "10", "100", "1000"]);
    let (histogram, bars) = super::tests::bars(&[1.0, 2.0, 20.0], Unit::default());
    assert_eq!(bars.titled(&histogram), "x");
}

#[test]
fn it_is_drawn_at_any_size_and_of_nothing() {
    let values: Vec<f64> = (1..200).map(|at| f64::from(at * at)).collect();
    let spread = Spread {
        title: "a <b> & \"c\"\u{1b}[2J".to_owned(),
        parts: vec![
            Histogram::new("run time", "s".into(), values),
            Histogram::new("peak memory", Unit::Bytes, Vec::new()),
        ],
    };
    for (width, height) in [(200, 200), (1000, 700), (2000, 300)] {
        let svg = spread.to_svg(width, height);
        assert!(svg.contains("&lt;b&gt; &amp; &quot;c&quot;?"), "{svg}");
        assert!(svg.contains("no job ran"), "{svg}");
        let png = spread.to_png(width, height).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
    }
    for (width, height) in [(20, 5), (80, 24), (200, 60)] {
        let text = spread.to_text(width, height);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.lines().count() <= height.max(15), "{width}x{height}: {text}");
    }
    let text = spread.to_text(80, 24);
    let counted: u64 = text
        .lines()
        .filter(|line| line.contains('┤'))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum();
    assert_eq!(counted, 199, "{text}");
}
