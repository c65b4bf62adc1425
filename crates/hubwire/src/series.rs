//! A job's series as columns: the same figures as a list of points, a fraction of the size once packed.

use pinfold_proto::JobState;
use pinfold_proto::view::PointView;
use serde::{Deserialize, Serialize};

/// Columns of equal length, a row a point. Units are those of [`PointView`].
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

    /// How many points there are; `None`: the columns differ in length.
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

    /// Whether there is no point.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.time_s.is_empty()
    }

    /// The points; none where the columns differ in length.
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
