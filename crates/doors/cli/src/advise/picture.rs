//! A class over time as a picture: the memory of its runs, their requests, and the present advice. Absent: figures.

use std::path::Path;

use pinfold_profile::plot::{Chart, Panel, Series, Style, Unit};
use pinfold_proto::ExitCode;

use super::classes::ClassView;
use super::history::{Outcome, Run};
use crate::show::{Drawing, Picture};
use pinfold_client::Failure;

/// The size of the picture, in pixels.
const SIZE_PX: (u32, u32) = (1000, 500);

/// Draws the only class of `views` into a file.
pub(super) fn write(file: &Path, kind: Picture, runs: &[Run], views: &[ClassView]) -> Result<(), Failure> {
    let view = match views {
        [view] => view,
        [] => return Err(Failure::new(ExitCode::Failed, "no job of that name is over")),
        several => {
            let text = format!(
                "{} classes have that name, by users and cores: a picture shows one; --user takes one user's",
                several.len()
            );
            return Err(Failure::new(ExitCode::Failed, text));
        }
    };
    let doing = |what: &str| format!("failed to {what} {}", file.display());
    let bytes = Drawing::Over(chart(runs, view))
        .bytes(kind, SIZE_PX.0, SIZE_PX.1)
        .map_err(|error| Failure::doing(doing("draw"), &error))?;
    crate::output::write(file, &bytes).map_err(|error| Failure::doing(doing("write"), &error))
}

fn chart(runs: &[Run], view: &ClassView) -> Chart {
    let mut runs: Vec<&Run> = runs.iter().filter(|run| run.peak_bytes > 0).collect();
    runs.sort_by(|a, b| a.ended_s.total_cmp(&b.ended_s));
    let start_s = runs.first().map_or(0.0, |run| run.ended_s);
    let series = |name: &str, style, of: &dyn Fn(&Run) -> Option<u64>| Series {
        name: name.to_owned(),
        points: runs.iter().filter_map(|run| Some((run.ended_s - start_s, of(run)? as f64))).collect(),
        style,
    };
    let held = |run: &Run| (run.outcome == Outcome::Done).then_some(run.peak_bytes);
    let advised = view.advised_bytes.map(|bytes| (bytes as f64, "advised".to_owned()));
    Chart {
        title: format!("{}: {} runs", view.class, view.jobs),
        panels: vec![Panel {
            title: "memory".to_owned(),
            unit: Unit::Bytes,
            series: vec![
                series("asked for", Style::Steps, &|run| run.request_bytes),
                series("held at most", Style::Line, &held),
            ],
            marks: advised.into_iter().collect(),
            ..Panel::default()
        }],
        without: "no run of it held memory".to_owned(),
        clock_s: Some(start_s),
        ..Chart::default()
    }
}
