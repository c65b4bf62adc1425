//! What the scheduler tells of jobs, node groups and projects when it is asked.

use pinfold_place::pack::{Level, Shape};
use pinfold_topo::CpuSet;

use crate::api::code::Figure;
use crate::api::ids::{Class, JobId};
use crate::api::time::Instant;

/// The present state of a job in words: why it is so, the numbers, and what would change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The cause of the present state, a sentence without full stop.
    pub cause: String,
    /// The numbers behind it.
    pub numbers: Vec<Number>,
    /// What would change it, a sentence without full stop.
    pub change: String,
}

/// A number behind the state of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number {
    /// What it is, in words.
    pub name: &'static str,
    /// Its value in words, with the unit.
    pub text: String,
    /// The same for programs; empty where it is no number.
    pub figures: Vec<Figure>,
}

/// A chunk, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkInfo {
    /// The kernel's numbers of its nodes, ascending.
    pub nodes: Vec<u32>,
    /// Its jobs, ascending.
    pub jobs: Vec<JobId>,
    /// What its jobs may come to need or hold, in bytes.
    pub claimed_bytes: u64,
    /// What its nodes have for jobs, in bytes.
    pub usable_bytes: u64,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It waits for a slot.
    Waiting {
        /// ... and for a release before that.
        held: bool,
    },
    /// It was told to start and has not answered.
    Starting,
    /// It runs.
    Running,
    /// It is stopped where it was.
    Frozen {
        /// By whom.
        by: FrozenBy,
    },
}

/// Who froze a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrozenBy {
    /// A user or operator: it returns when it is resumed.
    User,
    /// The scheduler: it returns by itself.
    Policy,
}

/// A job as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobInfo {
    /// Its number.
    pub job: JobId,
    /// Its state.
    pub state: State,
    /// The class it runs in; while it waits, the class asked for (`None`: whichever is free first).
    pub class: Option<Class>,
    /// The PUs it is bound to; empty: unbound, or not running.
    pub cpus: CpuSet,
    /// 1 to 16.
    pub priority: u8,
    /// The cores it asked for.
    pub cores: u32,
    /// When it was asked for.
    pub submitted: Instant,
    /// When it was started.
    pub started: Option<Instant>,
    /// Whether a user or operator suspended it, which holds once it has started, and has not resumed it.
    pub suspended: bool,
    /// It is suspended, and most of what it holds is in swap.
    pub parked: bool,
    /// What it has in swap.
    pub swapped_bytes: u64,
    /// The most it held at once, swap included, as far as readings show it.
    pub memory_peak_bytes: u64,
    /// The most of it that had to be in RAM: a part of what some jobs hold is cold.
    pub memory_need_bytes: u64,
    /// Of what it has in swap, what is cold now.
    pub cold_bytes: u64,
    /// How its cores lie, if it has lain so since it started and could lie otherwise.
    pub lay: Option<Lay>,
}

/// How the cores of a job lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Lay {
    /// What it was given cores for: close together, or apart.
    pub shape: Shape,
    /// The smallest kind of domain that this machine has,
    pub level: Level,
    /// and in how many of those they lie.
    pub domains: usize,
    /// Whether that is as few as they could, or as many, as the shape says; on a machine in use they may have to lie
    /// otherwise.
    pub pure: bool,
}

/// What a project has, and what is its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// Its name; `None`: the jobs of no project, whose is what no project is guaranteed.
    pub project: Option<String>,
    /// Home cores that are its own when it wants them; `None`: it shares those of no project.
    pub cores_guaranteed: Option<usize>,
    /// Home cores its jobs have.
    pub cores_used: usize,
    /// Home cores that it wants, that are its own, and that it does not have.
    pub cores_owed: usize,
    /// Memory in bytes that is its own when it wants it; `None`: it shares that of no project.
    pub memory_guaranteed_bytes: Option<u64>,
    /// Memory its jobs hold, in bytes, swap included.
    pub memory_used_bytes: u64,
    /// Memory that its next job waits for, that is its own, and that it does not have, in bytes.
    pub memory_owed_bytes: u64,
    /// Its jobs that have started.
    pub started: usize,
    /// Its jobs that have not.
    pub waiting: usize,
}

impl Holding {
    /// Home cores beyond those that are its own, lent by others.
    #[must_use]
    pub fn cores_borrowed(&self) -> Option<usize> {
        self.cores_guaranteed.map(|own| self.cores_used.saturating_sub(own))
    }

    /// Memory in bytes beyond what is its own.
    #[must_use]
    pub fn memory_borrowed_bytes(&self) -> Option<u64> {
        self.memory_guaranteed_bytes.map(|own| self.memory_used_bytes.saturating_sub(own))
    }
}
