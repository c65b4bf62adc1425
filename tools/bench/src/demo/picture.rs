//! The demo's pictures over time: each way in a panel of its own, with common axes.
//!
//! Made from the samples of the runs; drawn by the same code as pinfold's own plots.

use pinfold_profile::plot::{Chart, Panel, Series, Style, Unit};

use super::memory::outcomes;
use crate::run::Run;
use crate::watch::Sample;

/// Width and height of a picture with this many panels, pixels.
pub(super) fn size(panels: usize) -> (u32, u32) {
    let panels = u32::try_from(panels).unwrap_or(u32::MAX).clamp(1, 12);
    (1_000, 120 + 150 * panels)
}

/// Act 1: cores in use and memory held, a panel of each for each way.
pub(super) fn programs(runs: &[(String, Run)], cores: usize) -> Chart {
    let cores_in_use = runs.iter().map(|(name, run)| Panel {
        title: format!("{name}, done in {:.1} s: cores in use", run.makespan_s),
        series: vec![series(run, Style::StepArea, |sample| sample.cpu_cores)],
        marks: vec![(cores as f64, format!("all {cores}"))],
        ..Panel::default()
    });
    let mut panels: Vec<Panel> = cores_in_use.collect();
    let from = panels.len();
    panels.extend(runs.iter().map(|(name, run)| held(&format!("{name}: memory of the jobs"), run, None)));
    Panel::level(&mut panels[..from]);
    Panel::level(&mut panels[from..]);
    Chart { title: "The same jobs, started in different ways".to_owned(), panels, ..Chart::default() }
}

/// Act 2: memory held, a panel for each way.
pub(super) fn memory(runs: &[(String, Run)], budget_mib: u64, jobs: usize) -> Chart {
    let budget = Some(((budget_mib << 20) as f64, format!("budget {budget_mib} MiB")));
    let mut panels: Vec<Panel> = outcomes(runs, jobs)
        .zip(runs)
        .map(|(outcome, (_, run))| held(&outcome, run, budget.clone()))
        .collect();
    Panel::level(&mut panels);
    Chart { title: "Memory of jobs that do not fit at once".to_owned(), panels, ..Chart::default() }
}

fn held(title: &str, run: &Run, mark: Option<(f64, String)>) -> Panel {
    Panel {
        title: title.to_owned(),
        unit: Unit::Bytes,
        series: vec![series(run, Style::Area, |sample| sample.memory_bytes as f64)],
        marks: mark.into_iter().collect(),
        ..Panel::default()
    }
}

fn series(run: &Run, style: Style, value: fn(&Sample) -> f64) -> Series {
    let start = [(0.0, 0.0)].into_iter();
    let points = start.chain(run.samples.iter().map(|sample| (sample.time_s, value(sample)))).collect();
    Series { name: String::new(), points, style }
}
