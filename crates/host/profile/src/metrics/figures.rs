//! The figures behind the metrics. Absent here: their names in the text.

use pinfold_proto::JobState;
use pinfold_proto::view::ProjectView;

/// Times from the detection of a memory shortage to the stop of the jobs frozen for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FreezeFigures {
    /// How often,
    pub count: u64,
    /// and their total.
    pub sum_us: u64,
    /// Half of the last took at most so long,
    pub half_us: u64,
    /// and the 99.9th percentile.
    pub most_us: u64,
}

/// Durations of turns of the daemon's loop since its start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoopFigures {
    /// Bucket counts by ascending upper bound in microseconds.
    pub within: Vec<(u64, u64)>,
    /// How many turns,
    pub count: u64,
    /// and their total.
    pub sum_us: u64,
    /// The longest turn,
    pub longest_us: u64,
    /// and of the last minute.
    pub last_minute_us: u64,
}

/// The host's figures.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostFigures {
    /// The daemon's version.
    pub version: String,
    /// The host's name.
    pub host: String,
    /// `v2`, `hybrid` or `rootless`.
    pub mode: String,
    /// Cores that jobs may use.
    pub cores: u64,
    /// All slots.
    pub slots: u64,
    /// Slots in use.
    pub slots_used: u64,
    /// Whether the host is draining.
    pub draining: bool,
    /// Jobs that have not ended, by state.
    pub jobs: Vec<(JobState, u64)>,
    /// Jobs ended since the daemon's start, by ending: `succeeded`, `failed`, `killed`, `not_started`.
    pub ended: [(&'static str, u64); 4],
    /// Memory for all jobs together.
    pub memory_budget_bytes: u64,
    /// Memory held by jobs.
    pub memory_held_bytes: u64,
    /// Swap held by jobs.
    pub swap_held_bytes: u64,
    /// Jobs frozen for want of memory.
    pub freezes: FreezeFigures,
    /// Stall times of the host since boot: resource, `some` or `full`, microseconds.
    pub stalled: Vec<(&'static str, &'static str, u64)>,
    /// Turns of the daemon's loop.
    pub turns: LoopFigures,
    /// The size of the job store with its log.
    pub store_bytes: u64,
    /// Whether the store is writable.
    pub store_writable: bool,
    /// CPU time of the daemon.
    pub daemon_cpu_us: u64,
    /// Resident size of the daemon.
    pub daemon_resident_bytes: u64,
    /// Running jobs omitted beyond the limit.
    pub jobs_left_out: u64,
    /// The projects' figures, if any is configured; the jobs without a project have an empty name.
    pub projects: Vec<ProjectView>,
}

/// The figures of a running job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobFigures {
    /// Its number.
    pub job: u64,
    /// Its name.
    pub name: String,
    /// Its user.
    pub user: String,
    /// Its project; empty: no project.
    pub project: String,
    /// `primary`, `backfill` or `exclusive`.
    pub class: String,
    /// User time.
    pub cpu_user_us: u64,
    /// System time.
    pub cpu_system_us: u64,
    /// Anonymous and shared memory.
    pub memory_bytes: u64,
    /// Its peak.
    pub memory_peak_bytes: u64,
    /// Page cache, where reported apart.
    pub cache_bytes: Option<u64>,
    /// Swap.
    pub swap_bytes: u64,
    /// Bytes read from storage.
    pub io_read_bytes: u64,
    /// Bytes written to storage.
    pub io_write_bytes: u64,
    /// Processes.
    pub processes: u64,
    /// Frozen time.
    pub suspended_us: u64,
    /// Whether it is suspended.
    pub frozen: bool,
}
