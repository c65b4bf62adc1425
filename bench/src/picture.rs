//! The demo's picture: cores in use and memory held over time, by each way, on one time axis.
//!
//! Made from the samples of the runs; drawn by the same code as pinfold's own plots.

use pinfold_profile::plot::{Chart, Panel, Series, Style, Unit};

use crate::run::Run;
use crate::watch::Sample;

/// Width and height of the picture, pixels.
pub(crate) const SIZE: (u32, u32) = (1_000, 1_000);

/// A panel of cores for each way, and one of memory for all of them.
pub(crate) fn chart(runs: &[(&str, Run)], cores: usize) -> Chart {
    let mut panels: Vec<Panel> = runs
        .iter()
        .map(|(name, run)| Panel {
            title: format!("cores in use, done in {:.1} s", run.makespan_s),
            unit: Unit::default(),
            series: vec![series(name, Style::StepArea, run, |sample| sample.cpu_cores)],
            marks: vec![(cores as f64, format!("all {cores}"))],
        })
        .collect();
    let styles = [Style::Area, Style::Line, Style::Steps];
    let memory = runs.iter().zip(styles.iter().cycle());
    panels.push(Panel {
        title: "memory of the jobs".to_owned(),
        unit: Unit::Bytes,
        series: memory
            .map(|((name, run), style)| series(name, *style, run, |sample| sample.memory_bytes as f64))
            .collect(),
        marks: Vec::new(),
    });
    Chart { title: "The same jobs, started in different ways".to_owned(), panels, ..Chart::default() }
}

fn series(name: &str, style: Style, run: &Run, value: fn(&Sample) -> f64) -> Series {
    let start = [(0.0, 0.0)].into_iter();
    let points = start.chain(run.samples.iter().map(|sample| (sample.time_s, value(sample)))).collect();
    Series { name: name.to_owned(), points, style }
}
