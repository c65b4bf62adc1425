//! How many cores the last runs of a class kept busy at once, by their samples.
//!
//! Absent: the runs ([`super::history`]), and the use of the figure ([`super::classes`]).

use std::collections::{BTreeMap, BTreeSet};

use pinfold_proto::view::PointView;
use pinfold_proto::wire::Select;

use crate::show;
use pinfold_client::{Client, Failure};

/// How many of the last runs of a class with several cores are looked at, to find how many cores were ever busy.
const FOR_CORES: usize = 8;
/// The most jobs that a request may name.
const NAMED_MAX: usize = 64;

/// Reads the samples of these jobs, and hands each job's over.
pub(super) fn look(
    client: &mut Client,
    jobs: &BTreeSet<u64>,
    mut take: impl FnMut(u64, &[PointView]),
) -> Result<(), Failure> {
    let jobs: Vec<u64> = jobs.iter().copied().collect();
    for jobs in jobs.chunks(NAMED_MAX) {
        let request = crate::show::figures_of(Select::Jobs(jobs.to_vec()), true, false);
        show::each(client, &request, |report| {
            take(report.job, report.series.as_deref().unwrap_or_default());
            Ok(())
        })?;
    }
    Ok(())
}

/// The jobs with wanted samples, of runs in the order of their submission: each with user, name and cores of its class.
/// A job with a single core has none to save.
pub(super) fn wanted<'a>(
    runs: impl DoubleEndedIterator<Item = ((&'a str, &'a str, u32), u64)>,
) -> BTreeSet<u64> {
    let mut last: BTreeMap<(&str, &str, u32), Vec<u64>> = BTreeMap::new();
    for (class, job) in runs.rev() {
        last.entry(class).or_default().push(job);
    }
    let of_several = last.into_iter().filter(|((_, _, cores), _)| *cores > 1);
    of_several.flat_map(|(_, jobs)| jobs.into_iter().take(FOR_CORES)).collect()
}

/// The highest number of busy cores between two samples; `None`: there are no samples.
pub(super) fn cores_peak(points: &[PointView]) -> Option<f64> {
    points.iter().map(|point| point.cpu_cores).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_the_last_runs_with_several_cores_are_wanted() {
        let classes = ["align", "sort"].map(|name| ("ann", name, if name == "align" { 4 } else { 1 }));
        let runs = (0..50).map(|job| (classes[job % 2], job as u64));
        assert_eq!(wanted(runs).into_iter().collect::<Vec<_>>(), (34..50).step_by(2).collect::<Vec<_>>());
        assert!(wanted(std::iter::empty()).is_empty());
    }
}
