//! What is known of one job. Absent: what any of it leads to.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pinfold_place::layout::Hint;
use pinfold_place::pack::Shape;
use pinfold_topo::CpuSet;

use crate::api::{Class, Instant, JobId, Lay, Place, Request, State};
use crate::jobs::footprint::Footprint;
use crate::jobs::phase::{Phase, SuspendReason};
use crate::jobs::places::{Entry, Key, PoolIds};

/// How long a failed action rests before it is tried again.
pub(crate) const RETRY: Duration = Duration::from_secs(1);

/// What is known of a job's checkpoints.
#[derive(Debug, Clone, Copy, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Checkpoints {
    /// Not to be asked again before this.
    pub(crate) rests_until: Instant,
    /// Those that failed, since its start.
    pub(crate) failures: u32,
}

/// A job inside the scheduler.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
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
    pub(crate) held: Footprint,
    /// Whose cores and memory it takes.
    pub(crate) pools: PoolIds,
    /// How its cores are to lie, once that is decided: when it first gets some.
    pub(crate) lies: Option<Shape>,
}

#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) enum Stage {
    Waiting(Waiting),
    Live(Box<Live>),
}

/// A job that has not started.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Waiting {
    pub(crate) held: bool,
    /// Jobs that must be over before it may start.
    pub(crate) after: BTreeSet<JobId>,
    /// The caller does not let it start yet.
    pub(crate) gated: bool,
    /// Starts that failed, one after the other.
    pub(crate) failures: u32,
    /// The last failed start: when it may be tried again, and why it failed.
    pub(crate) failed: Option<Failure>,
}

impl Waiting {
    /// Whether it is not its turn yet, whatever is free: other jobs or a time come first.
    pub(crate) fn is_early(&self) -> bool {
        self.gated || !self.after.is_empty()
    }
}

/// An action that failed, or a run that was ended for others: it is tried again later.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Failure {
    /// When it is tried again.
    pub(crate) again: Instant,
    pub(crate) error: String,
    /// It was tried again, and nothing was heard since.
    pub(crate) tried: bool,
}

/// A job that was started and has not ended.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Live {
    pub(crate) phase: Phase,
    pub(crate) started: Instant,
    /// The class wanted for it.
    pub(crate) class: Class,
    /// Where it is wanted: home cores of a primary, cores a backfiller is pinned to. Empty: nowhere, because
    /// it has no slot or because jobs are not scheduled.
    pub(crate) cores: Vec<usize>,
    /// A signal that has still to be sent.
    pub(crate) signal: Option<i32>,
    /// Until then a further signal gives it no time in which nothing is done to it.
    #[serde(default)]
    pub(crate) calm_until: Option<Instant>,
    pub(crate) checkpoints: Checkpoints,
    /// Whoever asked for it is gone: not to be tried again if its start fails.
    pub(crate) withdrawn: bool,
    /// Starts that failed before this one.
    pub(crate) failures: u32,
    /// What was last asked for.
    pub(crate) applied: Applied,
    /// What failed since.
    pub(crate) failed: BTreeMap<Attempt, Failure>,
    /// The set of cores that `cores` are of, by its place among all; `None`: they are the host's. In a set a job
    /// without cores of its own is on all of them.
    pub(crate) aside: Option<usize>,
    /// The slots it holds: as many as the cores it asked for, unless the host became smaller than that.
    pub(crate) slots: usize,
    /// Its place among those that have a slot.
    pub(crate) key: Option<Key>,
    pub(crate) rebalance: Rebalance,
    /// How often it made room for others, and when last.
    pub(crate) repacked: (u32, Option<Instant>),
    /// How its cores lie, if that is as it started.
    pub(crate) lay: Option<Lay>,
}

impl Live {
    /// One that was started then, in this class.
    pub(crate) fn new(phase: Phase, started: Instant, class: Class) -> Self {
        Self {
            phase,
            started,
            class,
            cores: Vec::new(),
            signal: None,
            calm_until: None,
            checkpoints: Checkpoints::default(),
            withdrawn: false,
            failures: 0,
            applied: Applied::default(),
            failed: BTreeMap::new(),
            aside: None,
            slots: 0,
            key: None,
            rebalance: Rebalance::default(),
            repacked: (0, None),
            lay: None,
        }
    }

    /// Whether an action may be asked for: not while it rests after a failure.
    pub(super) fn may_try(&mut self, kind: Attempt) -> bool {
        let rests = self.failed.get(&kind).is_some_and(|failed| !failed.tried);
        if !rests {
            self.failed.remove(&kind);
        }
        !rests
    }
}

/// What was last asked for; `None`: nobody knows what holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Applied {
    /// Class and priority, and whether it shares cores evenly with primaries.
    pub(crate) weight: Option<(Class, u8, bool)>,
    pub(crate) cpus: Option<CpuSet>,
    pub(crate) frozen: Option<bool>,
}

/// The actions that are tried again when they fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub(crate) enum Attempt {
    Weigh,
    Bind,
    Freeze,
    Thaw,
    Signal,
}

/// What is known for moving a backfiller to an idler core.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Rebalance {
    /// Since when each sample showed a core idle enough.
    pub(crate) gap_since: Option<Instant>,
    /// When it was moved last.
    pub(crate) moved: Option<Instant>,
    /// How often it was moved.
    pub(crate) moves: u32,
}

impl Job {
    /// One that waits for a slot, and before that for the end of those `after` which it is to start.
    pub(crate) fn waiting(
        request: Request,
        submitted: Instant,
        after: BTreeSet<JobId>,
        pools: PoolIds,
    ) -> Self {
        Self {
            submitted,
            since: submitted,
            requeues: request.requeues,
            checkpoints: request.checkpoints,
            passed: 0,
            aged: false,
            armed: None,
            queued: None,
            stage: Stage::Waiting(Waiting {
                held: request.held,
                gated: request.gated,
                after,
                ..Waiting::default()
            }),
            held: Footprint::default(),
            pools,
            lies: None,
            request,
        }
    }

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

    pub(super) fn live_mut(&mut self) -> Option<&mut Live> {
        match &mut self.stage {
            Stage::Live(live) => Some(live),
            Stage::Waiting(_) => None,
        }
    }

    /// Whether a job may go to any core around the one where it was put. One of several cores is bound to as many: what
    /// it starts there counts them.
    pub(crate) fn moves_freely(&self) -> bool {
        let backfill = self.live().is_some_and(|live| live.class == Class::Backfill);
        backfill && self.request.cores == 1 && self.request.wish.is_none()
    }

    pub(crate) fn has_slot(&self) -> bool {
        self.live().is_some_and(|live| live.key.is_some())
    }

    /// The order in which jobs keep their memory: priority, then start, then number; the highest rank is the least.
    pub(crate) fn rank_key(&self) -> (Reverse<u8>, Instant, JobId) {
        let started = self.live().map_or(Instant(u64::MAX), |live| live.started);
        (Reverse(self.request.priority), started, self.id())
    }

    /// Why it is frozen, if it is.
    pub(crate) fn suspend_reason(&self) -> Option<SuspendReason> {
        self.live().and_then(|live| live.phase.suspend_reason())
    }

    /// Whether it is writing a checkpoint.
    pub(crate) fn is_writing(&self) -> bool {
        self.live().is_some_and(|live| live.phase.writes_until().is_some())
    }

    /// Whether it is being ended, and not only asked for a checkpoint.
    pub(crate) fn is_ending(&self) -> bool {
        self.live().is_some_and(|live| live.phase.is_ending())
    }

    /// What the views show of it.
    pub(crate) fn state(&self) -> State {
        match &self.stage {
            Stage::Waiting(waiting) => State::Waiting { held: waiting.held },
            Stage::Live(live) => live.phase.state(),
        }
    }
}

/// How often one job may be ended to begin anew.
pub const REQUEUES_MAX: u32 = 3;
