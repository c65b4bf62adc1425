//! What is known of each job.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_place::layout::Hint;
use pinfold_place::pack::{Level, Shape};
use pinfold_topo::CpuSet;

use crate::checkpoint::Checkpoints;
use crate::holders::Key;
use crate::memory::Held;
use crate::policy::Policy;
use crate::projects::PoolIds;
use crate::queue::Entry;
use crate::{Class, Instant, JobId, Place, Request};

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
    /// The judgement: it returns by itself.
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
    /// It stands still, and most of what it holds is in swap.
    pub parked: bool,
    /// What it has in swap.
    pub swapped_bytes: u64,
    /// The most it held at once, swap included, as far as readings show it.
    pub memory_peak_bytes: u64,
    /// The most of it that had to be in RAM: some jobs get on without a part of what they hold.
    pub memory_need_bytes: u64,
    /// Of what it has in swap, what it gets on without now.
    pub cold_bytes: u64,
    /// How its cores lie, if it has lain so since it started and could lie otherwise.
    pub lay: Option<Lay>,
}

/// How the cores of a job lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// A job inside the judgement.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) request: Request,
    pub(crate) submitted: Instant,
    /// Since when it waits for a slot, new or frozen.
    pub(crate) since: Instant,
    /// How often it was ended to be begun anew.
    pub(crate) requeues: u32,
    /// How often it was ended after it had written down what it had done.
    pub(crate) checkpoints: u32,
    /// How many later jobs started while it stood first and did not fit.
    pub(crate) passed: u32,
    /// It waited too long: first in the queue, and not frozen again for another.
    pub(crate) aged: bool,
    /// The timer that is set for it.
    pub(crate) armed: Option<Instant>,
    /// Its place in the queue.
    pub(crate) queued: Option<Entry>,
    pub(crate) stage: Stage,
    /// The memory it holds.
    pub(crate) held: Held,
    /// Whose cores and memory it takes.
    pub(crate) pools: PoolIds,
    /// How its cores are to lie, once that is decided: when it first gets some.
    pub(crate) lies: Option<Shape>,
}

#[derive(Debug)]
pub(crate) enum Stage {
    Waiting(Waiting),
    Live(Box<Live>),
}

/// A job that has not started.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) held: bool,
    /// Jobs that must be over before it may start.
    pub(crate) after: BTreeSet<JobId>,
    /// Starts that failed, one after the other.
    pub(crate) failures: u32,
    /// The last failed start: when it may be tried again, and why it failed.
    pub(crate) failed: Option<Failure>,
}

/// An action that failed, or a run that was ended for others: it is tried again later.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// When it is tried again.
    pub(crate) again: Instant,
    pub(crate) error: String,
    /// It was tried again, and nothing was heard since.
    pub(crate) tried: bool,
}

/// A job that was started and has not ended.
#[derive(Debug)]
pub(crate) struct Live {
    /// It has not answered yet.
    pub(crate) starting: bool,
    pub(crate) started: Instant,
    /// The class wanted for it.
    pub(crate) class: Class,
    /// Where it is wanted: home cores of a primary, cores a backfiller is pinned to. Empty: nowhere, because
    /// it has no slot or because jobs are not scheduled.
    pub(crate) cores: Vec<usize>,
    /// A user suspended it.
    pub(crate) suspended: bool,
    /// Why it is frozen; `None`: it is wanted running.
    pub(crate) out: Option<Out>,
    /// It was thawed without a slot to receive a signal, or got one, and may not be frozen before this.
    pub(crate) grace: Option<Instant>,
    /// A signal that has still to be sent.
    pub(crate) signal: Option<i32>,
    /// It is being ended, to be put back in the queue, or writes down what it has done to be; nothing else is asked of
    /// it before that is done.
    pub(crate) requeuing: bool,
    pub(crate) checkpoints: Checkpoints,
    /// Whoever asked for it is gone: not to be tried again if its start fails.
    pub(crate) withdrawn: bool,
    /// Starts that failed before this one.
    pub(crate) failures: u32,
    /// What was last asked for.
    pub(crate) told: Told,
    /// What failed since.
    pub(crate) failed: BTreeMap<Kind, Failure>,
    /// The set of cores that `cores` are of, by its place among all; `None`: they are the host's. In a set a job
    /// without cores of its own is on all of them.
    pub(crate) aside: Option<usize>,
    /// The slots it holds: as many as the cores it asked for, unless the host became smaller than that.
    pub(crate) slots: usize,
    /// Its place among those that have a slot.
    pub(crate) key: Option<Key>,
    pub(crate) drift: Drift,
    /// Until when it stands still for a primary's sake, if it does.
    pub(crate) rests: Option<Instant>,
    /// How often it made room for others, and when last.
    pub(crate) repacked: (u32, Option<Instant>),
    /// How its cores lie, if that is as it started.
    pub(crate) lay: Option<Lay>,
}

/// Why a job was frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Out {
    /// A user suspended it. Once resumed, it waits for a slot.
    Suspended,
    /// A job of higher priority took its slot.
    Preempted { by: JobId },
    /// An exclusive job took every slot.
    Exclusive { by: JobId },
    /// Its slot was lent, and a job of those it belongs to took it back.
    Lent { by: JobId },
    /// There were fewer slots than jobs.
    SlotsShrank,
    /// A primary beside it waited for a core.
    Interferes { with: JobId },
    /// Memory ran short; the token holder goes on.
    Memory { token: JobId },
    /// It was cancelled while it was frozen, and went on regardless without a slot.
    Survived,
    /// It was found frozen after a restart.
    Found,
}

/// What was last asked for; `None`: nobody knows what holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Class and priority, and whether it shares cores evenly with primaries.
    pub(crate) weight: Option<(Class, u8, bool)>,
    pub(crate) cpus: Option<CpuSet>,
    pub(crate) frozen: Option<bool>,
}

/// The actions that are tried again when they fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Weigh,
    Bind,
    Freeze,
    Thaw,
    Signal,
}

/// What is known for moving a backfiller to an idler core.
#[derive(Debug, Default)]
pub(crate) struct Drift {
    /// Since when each sample showed a core idle enough.
    pub(crate) gap_since: Option<Instant>,
    /// When it was moved last.
    pub(crate) moved: Option<Instant>,
    /// How often it was moved.
    pub(crate) moves: u32,
}

impl Job {
    pub(crate) fn id(&self) -> JobId {
        self.request.job
    }

    /// The cores it wants, and the slots it takes.
    pub(crate) fn slots(&self) -> usize {
        self.request.cores as usize
    }

    /// How its cores are to lie.
    pub(crate) fn shape(&self) -> Shape {
        let asked = || if self.asked_place() == Some(Place::Spread) { Shape::Spread } else { Shape::Compact };
        self.lies.unwrap_or_else(asked)
    }

    /// How it says that its cores are to lie, by itself or by a hint.
    pub(crate) fn asked_place(&self) -> Option<Place> {
        let hint = || self.request.wish.as_deref().and_then(|wish| wish.layout.hint);
        self.request.place.or_else(|| (hint() == Some(Hint::MemoryBound)).then_some(Place::Spread))
    }

    pub(crate) fn live(&self) -> Option<&Live> {
        match &self.stage {
            Stage::Live(live) => Some(live),
            Stage::Waiting(_) => None,
        }
    }

    pub(crate) fn live_mut(&mut self) -> Option<&mut Live> {
        match &mut self.stage {
            Stage::Live(live) => Some(live),
            Stage::Waiting(_) => None,
        }
    }

    pub(crate) fn state(&self) -> State {
        match &self.stage {
            Stage::Waiting(waiting) => State::Waiting { held: waiting.held },
            Stage::Live(live) if live.starting => State::Starting,
            Stage::Live(live) if live.checkpoints.until.is_some() => State::Running,
            Stage::Live(live) if live.suspended => State::Frozen { by: FrozenBy::User },
            Stage::Live(live) if live.out.is_some() => State::Frozen { by: FrozenBy::Policy },
            Stage::Live(_) => State::Running,
        }
    }
}

impl Policy {
    /// A job as it stands.
    pub(crate) fn info(&self, job: &Job) -> JobInfo {
        let live = job.live();
        JobInfo {
            job: job.id(),
            state: job.state(),
            class: live.map_or(job.request.class, |live| Some(live.class)),
            cpus: self.cpus_of(job),
            priority: job.request.priority,
            cores: job.request.cores,
            submitted: job.submitted,
            started: live.map(|live| live.started),
            parked: live.is_some_and(|live| live.out.is_some()) && job.held.is_parked(),
            swapped_bytes: job.held.swapped,
            memory_peak_bytes: job.held.peak,
            memory_need_bytes: self.need_of(job),
            cold_bytes: job.held.cold.bytes(),
            lay: live.and_then(|live| live.lay),
        }
    }
}
