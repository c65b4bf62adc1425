//! What the samples of a class's last runs tell: how many cores they kept busy at once, and when they held how much.
//!
//! Absent: which runs there are ([`super::history`]), and what is made of it ([`super::classes`]).

use std::collections::{BTreeMap, BTreeSet};

use pinfold_advise::Curve;
use pinfold_proto::JobState;
use pinfold_proto::view::PointView;
use pinfold_proto::wire::Select;

use crate::show;
use pinfold_client::{Client, Failure};

/// How many of the last runs of a class with several cores are looked at, to find how many cores were ever busy.
const FOR_CORES: usize = 8;
/// How many of the last runs of each class are looked at, to find when they held how much,
const FOR_CURVES: usize = 32;
/// if there are no more classes than this: the samples of all runs are many.
const CLASSES_MAX: usize = 16;
/// Jobs that one request may name.
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

/// The jobs whose samples are wanted, of runs in the order of their submission: each with user, name and cores of its
/// class.
pub(super) fn wanted<'a>(
    runs: impl DoubleEndedIterator<Item = ((&'a str, &'a str, u32), u64)>,
) -> BTreeSet<u64> {
    let mut last: BTreeMap<(&str, &str, u32), Vec<u64>> = BTreeMap::new();
    for (class, job) in runs.rev() {
        last.entry(class).or_default().push(job);
    }
    let few = last.len() <= CLASSES_MAX;
    let of_class = |((_, _, cores), jobs): ((&str, &str, u32), Vec<u64>)| {
        let count = match (few, cores) {
            (true, _) => FOR_CURVES,
            (false, 1) => 0,
            (false, _) => FOR_CORES,
        };
        jobs.into_iter().take(count)
    };
    last.into_iter().flat_map(of_class).collect()
}

/// The most cores that were kept busy from one sample to the next; `None`: there are no samples.
pub(super) fn cores_peak(points: &[PointView]) -> Option<f64> {
    points.iter().map(|point| point.cpu_cores).reduce(f64::max)
}

/// When a run held how much, which started then, ran for so long and held so much at most. The time is that in which
/// it ran: while it was suspended none passed for it. `None`: there are no samples.
pub(super) fn curve(points: &[PointView], started_s: f64, wall_s: f64, peak_bytes: u64) -> Option<Curve> {
    let (mut ran_s, mut before) = (0.0, (started_s, JobState::Running));
    let readings = points.iter().map(|point| {
        if before.1 == JobState::Running {
            ran_s += (point.time_s - before.0).max(0.0);
        }
        before = (point.time_s, point.state);
        (ran_s, point.memory_bytes.saturating_add(point.swap_bytes))
    });
    Some(Curve::of(readings, wall_s)?.reaching(peak_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(time_s: f64, memory_bytes: u64, state: JobState) -> PointView {
        PointView {
            time_s,
            cpu_cores: 1.0,
            memory_bytes,
            cache_bytes: Some(1 << 40),
            swap_bytes: 5,
            io_read_bytes: 0,
            io_write_bytes: 0,
            processes: 1,
            threads: 1,
            state,
        }
    }

    #[test]
    fn time_in_which_a_job_was_suspended_does_not_count() {
        let points = [
            point(100.0, 95, JobState::Running),
            point(110.0, 95, JobState::Frozen),
            point(500.0, 95, JobState::Running),
            point(505.0, 195, JobState::Running),
        ];
        let want = Curve::of([(0.0, 100), (10.0, 100), (10.0, 100), (15.0, 200)], 30.0);
        assert_eq!(curve(&points, 100.0, 30.0, 200), want);
        assert_eq!(curve(&[], 100.0, 30.0, 200), None);
        // No reading came near the peak.
        let missed = curve(&points, 100.0, 30.0, 400);
        assert_eq!(missed, want.map(|curve| curve.reaching(400)));
    }

    #[test]
    fn samples_of_few_runs_are_wanted() {
        let jobs = |of: &[(String, u32)]| {
            wanted(
                of.iter()
                    .enumerate()
                    .map(|(job, (name, cores))| (("ann", name.as_str(), *cores), job as u64)),
            )
        };
        let one = vec![("align".to_owned(), 1); 50];
        assert_eq!(jobs(&one).into_iter().collect::<Vec<_>>(), (18..50).collect::<Vec<_>>());
        let many = |cores: fn(u32) -> u32| -> Vec<(String, u32)> {
            (0..400).map(|n| (format!("class {}", n % 20), cores(n % 20))).collect()
        };
        assert!(jobs(&many(|_| 1)).is_empty());
        let wide = jobs(&many(|class| if class == 3 { 4 } else { 1 }));
        assert_eq!((wide.len(), wide.last()), (FOR_CORES, Some(&383)));
        assert!(jobs(&[]).is_empty());
    }
}
