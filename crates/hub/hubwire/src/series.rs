//! A job's series as columns: the figures of a list of points, at a fraction of the packed size. Also a series read
//! point by point within bounded memory.

use pinfold_proto::JobState;
use pinfold_proto::view::PointView;
use serde::{Deserialize, Serialize};

/// Columns of equal length, a row per point. Units are those of [`PointView`].
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Columns {
    /// When, in Unix seconds.
    pub time_s: Vec<f64>,
    /// Cores in use, mean since the point before.
    pub cpu_cores: Vec<f64>,
    /// Anonymous and shared memory.
    pub memory_bytes: Vec<u64>,
    /// Page cache.
    pub cache_bytes: Vec<Option<u64>>,
    /// Swap.
    pub swap_bytes: Vec<u64>,
    /// Bytes read since the start.
    pub io_read_bytes: Vec<u64>,
    /// Bytes written since the start.
    pub io_write_bytes: Vec<u64>,
    /// Processes.
    pub processes: Vec<u32>,
    /// Threads.
    pub threads: Vec<u32>,
    /// State.
    pub state: Vec<JobState>,
}

impl Columns {
    /// The columns of these points.
    #[must_use]
    pub fn of(points: &[PointView]) -> Self {
        let mut columns = Self::default();
        for point in points {
            columns.time_s.push(point.time_s);
            columns.cpu_cores.push(point.cpu_cores);
            columns.memory_bytes.push(point.memory_bytes);
            columns.cache_bytes.push(point.cache_bytes);
            columns.swap_bytes.push(point.swap_bytes);
            columns.io_read_bytes.push(point.io_read_bytes);
            columns.io_write_bytes.push(point.io_write_bytes);
            columns.processes.push(point.processes);
            columns.threads.push(point.threads);
            columns.state.push(point.state);
        }
        columns
    }

    /// How many points; `None`: the columns differ in length.
    #[must_use]
    pub fn len(&self) -> Option<usize> {
        let count = self.time_s.len();
        let others = [
            self.cpu_cores.len(),
            self.memory_bytes.len(),
            self.cache_bytes.len(),
            self.swap_bytes.len(),
            self.io_read_bytes.len(),
            self.io_write_bytes.len(),
            self.processes.len(),
            self.threads.len(),
            self.state.len(),
        ];
        others.iter().all(|&other| other == count).then_some(count)
    }

    /// Whether the series has no points.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.time_s.is_empty()
    }

    /// The points; empty if the columns differ in length.
    #[must_use]
    pub fn points(&self) -> Vec<PointView> {
        let count = self.len().unwrap_or(0);
        let point = |at: usize| PointView {
            time_s: self.time_s[at],
            cpu_cores: self.cpu_cores[at],
            memory_bytes: self.memory_bytes[at],
            cache_bytes: self.cache_bytes[at],
            swap_bytes: self.swap_bytes[at],
            io_read_bytes: self.io_read_bytes[at],
            io_write_bytes: self.io_write_bytes[at],
            processes: self.processes[at],
            threads: self.threads[at],
            state: self.state[at],
        };
        (0..count).map(point).collect()
    }
}

/// The most points of a sent series: nine days at a point per second. A hub shows fewer.
pub const POINTS_MAX: usize = 800_000;

/// A series built point by point. When too long, neighbouring points are merged in pairs, repeatedly.
#[derive(Debug)]
pub struct Thinned {
    points: Vec<PointView>,
    most: usize,
    /// Original points merged in each of `points`, except the last.
    each: u64,
    /// Original points merged in the last.
    in_last: u64,
}

impl Default for Thinned {
    fn default() -> Self {
        Self::within(POINTS_MAX)
    }
}

impl Thinned {
    /// A series of at most so many points, at least two.
    #[must_use]
    pub fn within(most: usize) -> Self {
        Self { points: Vec::new(), most: most.max(2), each: 1, in_last: 0 }
    }

    /// The next point.
    pub fn push(&mut self, point: PointView) {
        if let (Some(last), true) = (self.points.last_mut(), self.in_last < self.each) {
            *last = joined(last, self.in_last, &point, 1);
            self.in_last += 1;
            return;
        }
        if self.points.len() >= self.most {
            self.halve();
            return self.push(point);
        }
        self.points.push(point);
        self.in_last = 1;
    }

    fn halve(&mut self) {
        let each = self.each;
        // All points are full when another point arrives.
        let (pairs, rest) = self.points.as_chunks::<2>();
        let halved = pairs.iter().map(|[one, other]| joined(one, each, other, each));
        let halved: Vec<PointView> = halved.chain(rest.iter().copied()).collect();
        self.each = each.saturating_mul(2);
        self.in_last = if rest.is_empty() { self.each } else { each };
        self.points = halved;
    }

    /// Its points.
    #[must_use]
    pub fn into_points(self) -> Vec<PointView> {
        self.points
    }
}

/// Merges two neighbours as the host's store does: time and totals of the later, mean of cores, maximum of other
/// figures. `of_one`, `of_other`: their numbers of original points.
fn joined(one: &PointView, of_one: u64, other: &PointView, of_other: u64) -> PointView {
    #[expect(clippy::cast_precision_loss, reason = "counts of points")]
    let (part, all) = (of_one as f64, (of_one + of_other) as f64);
    let part = part / all;
    PointView {
        cpu_cores: one.cpu_cores * part + other.cpu_cores * (1.0 - part),
        memory_bytes: one.memory_bytes.max(other.memory_bytes),
        cache_bytes: one.cache_bytes.max(other.cache_bytes),
        swap_bytes: one.swap_bytes.max(other.swap_bytes),
        processes: one.processes.max(other.processes),
        threads: one.threads.max(other.threads),
        ..*other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: u32) -> PointView {
        PointView {
            time_s: f64::from(at),
            cpu_cores: f64::from(at % 2),
            memory_bytes: u64::from(if at == 37 { 1_000 } else { at % 7 }),
            cache_bytes: None,
            swap_bytes: 0,
            io_read_bytes: u64::from(at) * 10,
            io_write_bytes: 0,
            processes: 1,
            threads: at % 5,
            state: JobState::Running,
        }
    }

    #[track_caller]
    fn check(count: u32, most: usize, want: &[f64]) {
        let mut series = Thinned::within(most);
        (0..count).for_each(|at| series.push(point(at)));
        let points = series.into_points();
        assert_eq!(points.iter().map(|point| point.time_s).collect::<Vec<_>>(), want, "{count} in {most}");
    }

    #[test]
    fn a_series_is_never_longer_than_it_may_be_and_reaches_to_its_end() {
        check(0, 4, &[]);
        check(4, 4, &[0.0, 1.0, 2.0, 3.0]);
        check(5, 4, &[1.0, 3.0, 4.0]);
        check(8, 4, &[1.0, 3.0, 5.0, 7.0]);
        check(9, 4, &[3.0, 7.0, 8.0]);
        check(4, 3, &[1.0, 3.0]);
        check(7, 3, &[3.0, 6.0]);
        for count in 1..300 {
            let mut series = Thinned::within(5);
            (0..count).for_each(|at| series.push(point(at)));
            let points = series.into_points();
            assert!(points.len() <= 5 && points.is_sorted_by(|one, other| one.time_s < other.time_s));
            let last = points.last().unwrap();
            assert_eq!((last.time_s, last.io_read_bytes), (f64::from(count - 1), u64::from(count - 1) * 10));
            let most = points.iter().map(|point| point.memory_bytes).max().unwrap();
            assert_eq!(most, (0..count).map(|at| point(at).memory_bytes).max().unwrap(), "no peak is lost");
        }
    }

    #[test]
    fn cores_are_a_mean_of_all_points() {
        let mut series = Thinned::within(2);
        (0..64).for_each(|at| series.push(point(at)));
        let points = series.into_points();
        assert!(points.iter().all(|point| (point.cpu_cores - 0.5).abs() < 1e-9), "{points:?}");
    }
}
