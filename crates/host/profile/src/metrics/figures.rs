//! The figures of which the text is made. Absent here: what they are called there.

use pinfold_proto::JobState;
use pinfold_proto::view::ProjectView;

/// How long jobs took to stop when they were frozen for want of memory, from the moment at which it was noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FreezeFigures {
    /// How often,
    pub count: u64,
    /// and all of them together.
    pub sum_us: u64,
    /// Half of the last took at most so long,
    pub half_us: u64,
    /// and all but one in a thousand.
    pub most_us: u64,
}

/// How long turns of the daemon's loop took since it started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoopFigures {
    /// So many took at most so many microseconds, by ascending bounds: those of a bound count for all beyond it.
    pub within: Vec<(u64, u64)>,
    /// How many there were,
    pub count: u64,
    /// and all of them together.
    pub sum_us: u64,
    /// The longest of all,
    pub longest_us: u64,
    /// and of the last minute.
    pub last_minute_us: u64,
}

/// The host as it is told.
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
    /// Whether nothing new starts.
    pub draining: bool,
    /// Jobs that are not over, by state.
    pub jobs: Vec<(JobState, u64)>,
    /// Jobs that ended since the daemon started, by how: `succeeded`, `failed`, `killed`, `not_started`.
    pub ended: [(&'static str, u64); 4],
    /// What all jobs together may hold.
    pub memory_budget_bytes: u64,
    /// What they hold.
    pub memory_held_bytes: u64,
    /// What they have in swap.
    pub swap_held_bytes: u64,
    /// Jobs frozen for want of memory.
    pub freezes: FreezeFigures,
    /// Stalls of the whole host since it came up: resource, `some` or `full`, microseconds.
    pub stalled: Vec<(&'static str, &'static str, u64)>,
    /// Turns of the daemon's loop.
    pub turns: LoopFigures,
    /// The size of the job store with its log.
    pub store_bytes: u64,
    /// Whether it can be written.
    pub store_writable: bool,
    /// Processor time that the daemon has used.
    pub daemon_cpu_us: u64,
    /// Resident size of the daemon.
    pub daemon_resident_bytes: u64,
    /// Running jobs that are left out, because there are more than are told of.
    pub jobs_left_out: u64,
    /// What projects have, where any is configured; the jobs of no project are told of by an empty name.
    pub projects: Vec<ProjectView>,
}

/// One running job as it is told.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobFigures {
    /// Its number.
    pub job: u64,
    /// Its name.
    pub name: String,
    /// Whose it is.
    pub user: String,
    /// Its project; empty: none.
    pub project: String,
    /// `primary`, `backfill` or `exclusive`.
    pub class: String,
    /// User time.
    pub cpu_user_us: u64,
    /// System time.
    pub cpu_system_us: u64,
    /// Anonymous and shared memory.
    pub memory_bytes: u64,
    /// The most of it.
    pub memory_peak_bytes: u64,
    /// Page cache, where it is told apart.
    pub cache_bytes: Option<u64>,
    /// Swap.
    pub swap_bytes: u64,
    /// Bytes read from storage.
    pub io_read_bytes: u64,
    /// Bytes written to storage.
    pub io_write_bytes: u64,
    /// Processes.
    pub processes: u64,
    /// How long it was frozen.
    pub suspended_us: u64,
    /// Whether it is suspended.
    pub frozen: bool,
}
