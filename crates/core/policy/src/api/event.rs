//! Everything that can happen to the scheduler, on one page.

use std::sync::Arc;
use std::time::Duration;

use pinfold_place::layout::LayoutRequest;
use pinfold_place::pack::Shape;
use pinfold_topo::{CpuSet, Topology};

use crate::api::action::Action;
use crate::api::ids::{Class, JobId};
use crate::api::memory::{Claim, Kind, MemorySample};
use crate::api::resource::Amount;
use crate::api::settings::Settings;
use crate::api::time::Instant;

/// What happened.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub enum Event {
    /// The settings are now these.
    Configure(Settings),
    /// The machine is now this: at the start, on hotplug, when the allowed set changes.
    Machine(Machine),
    /// Someone asks to run a job.
    Submit(Request),
    /// A job that an earlier daemon knew was found again, waiting or running; of one that is known already this is the
    /// truth, and those that are to start after it go on waiting for it. Nothing starts or is frozen before the first event of another kind, so that all jobs are known by then;
    /// [`crate::Policy::next_wakeup`] asks for a tick at once.
    Adopt(Adopted),
    /// A job's start was carried out: its process is in its container and runs. Each start is answered by
    /// this, by [`Event::Failed`] or by [`Event::Exited`]; until then nothing else is asked of the job.
    Started(JobId),
    /// An action on this job could not be carried out; the text is the cause, for the explanation. A job
    /// whose start failed waits again, and is tried again later unless [`Event::Exited`] follows; any other
    /// action is tried again after a second, for as long as it is still wanted.
    Failed {
        /// The job.
        job: JobId,
        /// What was tried.
        action: Action,
        /// Why it did not succeed.
        error: String,
    },
    /// No process of the job is left. Also ends a job that waits (its command could not be started).
    Exited(JobId),
    /// No process of a job is left that was to be ended to be put back in the queue.
    Requeued(JobId),
    /// A job that was asked to has written down what it has done, or could not. Each [`crate::Action::Checkpoint`] is
    /// answered by this or by [`Event::Failed`]; if it is not within the time that it may take, it counts as failed.
    Checkpointed {
        /// The job.
        job: JobId,
        /// Why it could not; `None`: it has.
        error: Option<String>,
    },
    /// A waiting job may start as far as the caller is concerned, or may not ([`Request::gated`]).
    Gate {
        /// The job.
        job: JobId,
        /// Whether it has to wait.
        closed: bool,
    },
    /// Whoever asked for a waiting job is gone.
    Withdrawn(JobId),
    /// A user or operator, whose right to do so was checked before, says what to do with a job.
    Command(JobId, Command),
    /// Fresh readings.
    Sample(Sample),
    /// What processes that are no jobs use of the cores, in thousandths of a core; `None`: it does not count.
    Others(Option<u32>),
    /// The jobs among [`crate::Policy::parents`] that of late neither used a core nor waited for a core.
    Idle(Vec<JobId>),
    /// Fresh readings of memory: at least each second while a job lives, ten times as often while memory is short.
    Memory(MemorySample),
    /// Fresh readings of the NUMA nodes, where the host has several and jobs can be bound to them.
    Nodes(NodeMemory),
    /// What jobs of this kind need, as far as it is known now.
    Learned(Kind, Claim),
    /// A job of several cores is over that lay one way from its start to its end, undisturbed, and ended well.
    Ran(Ran),
    /// Nothing but time went by; sent at [`crate::Policy::next_wakeup`].
    Tick,
}

/// The part of the machine that may be used.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Machine {
    /// The usable PUs of each core, in logical order.
    pub cores: Vec<CpuSet>,
    /// How they share caches, memory and sockets, where that is known; its usable PUs are just these.
    pub topology: Option<Arc<Topology>>,
    /// Cores that are set aside for the jobs that ask for them by name; none of them among `cores`.
    pub asides: Vec<Aside>,
    /// Number of cores of the host, beyond these, that jobs may have once other users' daemons have no jobs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub neighbours_cores: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A set of cores that is set aside.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Aside {
    /// Its name; no other set has it.
    pub name: String,
    /// The usable PUs of each of its cores, in logical order.
    pub cores: Vec<CpuSet>,
    /// As [`Machine::topology`], of these cores.
    pub topology: Option<Arc<Topology>>,
    /// Memory in bytes that jobs outside the set leave free for those in it.
    pub memory_bytes: u64,
    /// Its cores are for all again by themselves, once its jobs are over.
    #[serde(default)]
    pub passes: bool,
}

impl Machine {
    /// Cores of which nothing more is known; they are handed out in this order.
    #[must_use]
    pub fn flat(cores: Vec<CpuSet>) -> Self {
        Self { cores, ..Self::default() }
    }

    /// The cores of `topology`, restricted to `within`.
    #[must_use]
    pub fn of(topology: &Topology, within: &CpuSet) -> Self {
        let topology = topology.clone().restricted(within);
        let cores = topology.cores_within(within);
        Self { cores, topology: Some(Arc::new(topology)), ..Self::default() }
    }
}

/// How the cores of a job are to lie to each other, as far as it does not name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum Place {
    /// Close together, unless jobs of its kind were found to run faster apart.
    #[default]
    Auto,
    /// Close together.
    Compact,
    /// As far apart as possible.
    Spread,
}

/// What a job says of the cores it wants. Without it any do, close together.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Wish {
    /// How its tasks are to lie.
    pub layout: LayoutRequest,
    /// PUs whose cores it must have, whatever else it has.
    pub named: CpuSet,
    /// PUs beyond whose cores it may not go, though others may be there too; empty: it may go anywhere.
    pub within: CpuSet,
}

/// An array of jobs of which only so many may have started at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ArrayLimit {
    /// Its number; the same in all its members.
    pub array: u64,
    /// How many of its members may have started and not be over, at least 1; the same in all its members.
    pub at_most: u32,
}

/// A job as it was asked for; numbers and rights were checked before.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Request {
    /// Its number.
    pub job: JobId,
    /// Its parent: the job from within which the same user submitted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<JobId>,
    /// The user whose job it is. A job that waits for others of its owner's holds up no other user's jobs.
    #[serde(default)]
    pub owner: u32,
    /// 1 to 16; larger is more important.
    pub priority: u8,
    /// How many cores, at least 1; also how many slots it takes.
    pub cores: u32,
    /// The class asked for; `None`: whichever is free first, a home core before a backfill slot.
    pub class: Option<Class>,
    /// The expected run time, where its user told one: that, or what such jobs of the user usually took where that is
    /// longer.
    pub expected: Option<Duration>,
    /// How long it may wait; overrides [`Settings::queue_ttl`].
    pub ttl: Option<Duration>,
    /// Whether it waits until it is released.
    pub held: bool,
    /// Whether it may ever be frozen by the scheduler's own choice.
    pub no_suspend: bool,
    /// Whether it may be ended and begun anew when memory can be had in no other way.
    pub requeue: bool,
    /// How often that was done already.
    pub requeues: u32,
    /// How often it was ended and begun anew after it had written down what it had done.
    #[serde(default)]
    pub checkpoints: u32,
    /// It can write down what it has done, within this time; then it may be ended and begun anew.
    pub checkpoint: Option<Duration>,
    /// Which cores do for it.
    pub wish: Option<Box<Wish>>,
    /// How its cores are to lie; `None`: as [`Settings::place`] says.
    pub place: Option<Place>,
    /// The name of the set of cores that it runs in, see [`Machine::asides`]; `None`: none of those.
    pub aside: Option<String>,
    /// The project it belongs to; one that the settings do not name is as none.
    pub project: Option<String>,
    /// Jobs that must be over before it may start, however they end.
    pub after: Vec<JobId>,
    /// Whether it waits until [`Event::Gate`] opens: for a time, or for how other jobs end, which the caller sees to and
    /// explains. Until then it does not expire.
    pub gated: bool,
    /// The array it is a member of, if that says how many of its members may have started at once.
    pub array: Option<ArrayLimit>,
    /// The list that it was handed over with, by a number that no other list has meanwhile: whoever did so waits for all
    /// of it. `None`: by itself.
    pub list: Option<u64>,
    /// The memory that was asked for, in bytes; what is known of its kind counts more once it is evidence for less
    /// ([`crate::EVIDENCE_RUNS`]).
    pub memory: Option<u64>,
    /// The directory in memory that it gets, in bytes; 0: none.
    pub tmp_bytes: u64,
    /// The countable resources that it holds from its start to its end, suspended or not; each name once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Amount>,
    /// The jobs it is like.
    pub kind: Option<Kind>,
}

impl Request {
    /// A job that says nothing of itself: one core, the priority in the middle.
    #[must_use]
    pub const fn plain(job: JobId) -> Self {
        Self {
            job,
            parent: None,
            owner: 0,
            priority: 10,
            cores: 1,
            class: None,
            expected: None,
            ttl: None,
            held: false,
            no_suspend: false,
            requeue: false,
            requeues: 0,
            checkpoints: 0,
            checkpoint: None,
            wish: None,
            place: None,
            aside: None,
            project: None,
            after: Vec::new(),
            gated: false,
            array: None,
            list: None,
            memory: None,
            tmp_bytes: 0,
            resources: Vec::new(),
            kind: None,
        }
    }
}

/// A job found again after a restart.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Adopted {
    /// What was asked for.
    pub request: Request,
    /// When it was asked for.
    pub submitted: Instant,
    /// Since when it waits, as far as its expiry and its right to go first go; `None`: since it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_since: Option<Instant>,
    /// Since when its array has had room for one more to start, if that bounds how many may: of the members that are
    /// found so far the latest of these counts. `None`: nothing is known; without any it is since the first was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_room_since: Option<Instant>,
    /// What it has, if it runs; `None`: it still waits.
    pub running: Option<Running>,
}

/// What a running job has.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Running {
    /// When it started.
    pub started: Instant,
    /// Its class.
    pub class: Class,
    /// The PUs it is bound to; empty: unbound.
    pub cpus: CpuSet,
    /// Whether the kernel has it frozen now.
    pub frozen: bool,
    /// Whether a user or operator suspended it and has not resumed it.
    pub suspended: bool,
}

/// What can be said to a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Command {
    /// Freeze it until it is resumed. Its slot is free for others meanwhile. A waiting job is held.
    Suspend,
    /// Undo a suspension; it returns when a slot is free. A waiting job is released.
    Resume,
    /// Keep a waiting job from starting; nothing to a running one.
    Hold,
    /// Undo a hold.
    Release,
    /// End it: a waiting job is struck off, a running one is thawed and gets the signal.
    Cancel {
        /// The signal, by its number.
        signal: i32,
    },
    /// End a job that runs, to be put back in the queue and begun anew; nothing to one that waits.
    Requeue,
    /// Change its importance, also while it runs.
    SetPriority(u8),
    /// Change the class that it asks for, also while it runs: a primary, a backfiller, or whichever is free first.
    /// Nothing to an exclusive job.
    SetClass(Option<Class>),
    /// Change what it is expected to need, in bytes, also while it runs.
    SetMemory(u64),
}

/// Readings of the NUMA nodes. A node is named by the kernel's number.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct NodeMemory {
    /// What each node could still give to jobs without paging anything out, in bytes.
    pub available_bytes: Vec<(u32, u64)>,
    /// What each job that lives has on each node, in bytes.
    pub jobs: Vec<(JobId, Vec<(u32, u64)>)>,
}

/// Readings of the machine since the last sample.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Sample {
    /// For each core, in [`Machine::cores`]' order: the part of the time it was idle, in thousandths,
    /// smoothed over 1 s.
    pub idle_milli: Vec<u16>,
    /// What backfillers used of all cores together, in thousandths of a core; 0 where it is not read.
    pub backfill_milli: u32,
    /// The part of the time that each primary waited for a core, in thousandths; nobody where it is not read.
    pub stalled_milli: Vec<(JobId, u16)>,
}

/// A run that is over and lay one way from its start to its end, on cores that it did not wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Ran {
    /// The jobs it is like.
    pub kind: Kind,
    /// How it lay.
    pub shape: Shape,
    /// How long it ran, in microseconds.
    pub length_us: u64,
}
