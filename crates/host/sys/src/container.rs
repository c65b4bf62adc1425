//! Containers: the kernel objects that hold jobs, with one meaning in three modes.
//!
//! Purpose: [`Containers`] carries out a [`Plan`] for a daemon (an *instance*); each [`Container`] holds a job and offers
//! the abilities of the plan. `instance` makes containers and finds them again, `enter` moves processes in, `grouped` acts
//! by the kernel's groups, `members` and `process` act on single members, `family` finds the processes of a job without
//! groups (by environment: `marks`), `spare` reuses groups. Owner of state: the kernel; a container keeps open directories
//! and its last requests, so that nothing is written twice. Absent here: any schedule, and any memory across a restart:
//! [`Containers::adopt`] finds jobs again in the kernel.
//!
//! A process or a group that vanished is an answer ([`Entered::Gone`], an empty list, [`Removed::Yes`]), not an error.

mod drift;
mod enter;
mod error;
mod family;
mod freeze_watch;
mod grouped;
mod instance;
mod isolate;
pub(crate) mod levels;
mod limits;
mod mark;
mod marks;
mod measure;
mod members;
mod memory;
mod near;
mod page_out;
mod process;
mod rescue;
mod session;
mod shape;
mod spare;
mod squeeze;
mod taken;
mod turn_out;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pinfold_topo::CpuSet;

use crate::cgroup::{Events, Group, GroupRemoval};
use crate::mode::{AbilityName, Via};
use crate::procfs::{Pressure, PressureResource, parse_pressure};

use family::Family;
use levels::Shared;
use shape::WEIGHT_MAX;

pub use drift::{Drift, Setting};
pub use error::ContainerError;
pub use freeze_watch::FreezeWatch;
pub use isolate::Isolation;
pub use limits::{IoRate, Limited, Limits, UnknownLimited};

pub(crate) use limits::is_device;
pub use measure::{Detail, Measure, Stalls};
pub use memory::HeldMemory;
pub use rescue::{Rescue, Rescued, rescue, rescue_instance};
pub use shape::{Shape, Share};
pub use squeeze::Squeezed;
pub use taken::{InPlace, Taken};

pub(crate) use grouped::members_below as grouped_members;
pub(crate) use marks::parse_mark;

/// The variable in a job's environment with its number; together with [`INSTANCE_VARIABLE`] it marks the processes of a
/// job without groups.
pub const JOB_VARIABLE: &str = "PINFOLD_JOB_ID";
/// The variable in a job's environment with the name of its instance.
pub const INSTANCE_VARIABLE: &str = "PINFOLD_INSTANCE";
/// The variable in a hook's environment with the number of its job: a hook knows the job and is no process of it.
pub const HOOK_VARIABLE: &str = "PINFOLD_HOOK_OF";

/// Whether a process got in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entered {
    /// The process is in the container.
    Yes,
    /// The process had ended before.
    Gone,
}

/// Whether a wish had its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The setting was written.
    Done,
    /// The job stays unchanged, for this reason: a fact about the host or the job, no failure.
    Kept(&'static str),
}

/// Whether a container is gone.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, for a moment; a box would cost more than it saves"
)]
pub enum Removed {
    /// The container is gone.
    Yes,
    /// The container still has processes and is returned.
    Busy(Container),
}

/// Files through which a process takes itself into a container: see [`Container::doors`].
pub type Doors = Arc<[OwnedFd]>;

/// A job's group in the unified hierarchy.
#[derive(Debug)]
struct Tree {
    group: Group,
    /// `cgroup.events`, read once so that a poll can wait for changes.
    events: OwnedFd,
}

/// All containers of an instance.
#[derive(Debug)]
pub struct Containers {
    shared: Arc<Shared>,
    /// The state for jobs with processes in another manager's groups: without groups, in every mode.
    in_place: Arc<Shared>,
}

/// The container of a job.
#[derive(Debug)]
pub struct Container {
    job: u64,
    shared: Arc<Shared>,
    /// A group for each level of [`Shared`] but the unified level, in its order; empty in rootless mode.
    groups: Vec<Group>,
    /// The group in the unified hierarchy. With self-attach files it is made at the first need, and is empty until then.
    tree: OnceLock<Tree>,
    /// The self-attach files, open since the first use.
    doors: OnceLock<Doors>,
    /// The processes of the job, in rootless mode.
    family: Option<Mutex<Family>>,
    /// The last request. `None` after adoption: unknown.
    cpus: Option<CpuSet>,
    nodes: Option<Vec<u32>>,
    share: Option<Share>,
    /// Its group goes before all others until it is thawed.
    hurries: bool,
    limit: Option<Option<u64>>,
    limits: Option<Limits>,
    /// From where growth is slowed; `Some(None)`: nowhere.
    high: Option<Option<u64>>,
    /// The requests of an earlier daemon, for settings without a request of this daemon.
    meant: Option<Shape>,
    /// Whether the job was adopted: memory from before is charged to the earlier groups.
    taken: bool,
    /// Whether another manager chooses the PUs of its processes.
    bound_elsewhere: bool,
}

impl Container {
    fn bare(job: u64, shared: &Arc<Shared>) -> Self {
        Self {
            job,
            shared: Arc::clone(shared),
            groups: Vec::new(),
            tree: OnceLock::new(),
            doors: OnceLock::new(),
            family: None,
            cpus: None,
            nodes: None,
            share: None,
            hurries: false,
            limit: None,
            limits: None,
            high: None,
            meant: None,
            taken: shared.is_taken(job),
            bound_elsewhere: shared.is_bound_elsewhere(job),
        }
    }

    fn shape(&mut self, shape: &Shape) -> Result<(), ContainerError> {
        // The job is empty: settings of single processes are applied at their entry, and a search for members would
        // scan the host.
        let by_processes = |name| !matches!(self.shared.plan.via(name), Via::V1 | Via::V2);
        if by_processes(AbilityName::Pin) {
            self.cpus = Some(shape.cpus.clone());
        }
        let share_by_processes = match shape.share {
            Share::Idle => by_processes(AbilityName::IdleClass),
            Share::Normal { .. } => by_processes(AbilityName::Weigh),
        };
        if share_by_processes {
            self.share = Some(shape.share);
        }
        self.bind(&shape.cpus)?;
        self.near(&shape.nodes)?;
        self.share_processor(shape.share)?;
        self.limit(shape.limit_bytes)?;
        self.restrict(&shape.limits)
    }

    /// The job.
    #[must_use]
    pub fn job(&self) -> u64 {
        self.job
    }

    /// Records the user of a job that was found by the environments of its processes.
    pub fn belongs_to(&self, user: u32) {
        if let Some(mut family) = self.family() {
            family.belongs_to(&self.shared.proc, user);
        }
    }

    /// Binds the job to these PUs; empty: to all PUs that the host permits.
    pub fn bind(&mut self, cpus: &CpuSet) -> Result<Applied, ContainerError> {
        if self.cpus.as_ref() == Some(cpus) {
            return Ok(Applied::Done);
        }
        // A partition has the PUs that it was made with.
        self.share_again()?;
        let applied = match self.shared.plan.via(AbilityName::Pin) {
            Via::V1 | Via::V2 => self.bind_group(cpus)?,
            Via::Processes | Via::Nothing => self.bind_processes(cpus)?,
        };
        if applied == Applied::Done {
            self.cpus = Some(cpus.clone());
        }
        Ok(applied)
    }

    /// Sets the job's share of the processor, and whether its reads and writes go behind all others'.
    pub fn share(&mut self, share: Share) -> Result<Applied, ContainerError> {
        let was = self.share;
        let applied = self.share_processor(share)?;
        // The share of a job is unknown after adoption.
        let is_idle = share == Share::Idle;
        let may_change = is_idle || was.is_none_or(|was| was == Share::Idle);
        if applied == Applied::Done && was != Some(share) && may_change {
            self.set_io_idle(is_idle)?;
        }
        Ok(applied)
    }

    fn share_processor(&mut self, share: Share) -> Result<Applied, ContainerError> {
        if self.share == Some(share) {
            return Ok(Applied::Done);
        }
        let applied = match share {
            Share::Idle => self.to_idle()?,
            Share::Normal { weight } => self.to_weight(weight.clamp(1, WEIGHT_MAX))?,
        };
        if applied == Applied::Done {
            self.share = Some(share);
        }
        Ok(applied)
    }

    /// Bounds the job's memory, in bytes; `None`: no bound. A bound below the job's memory after reclaim is not set, as
    /// it would kill.
    pub fn limit(&mut self, bytes: Option<u64>) -> Result<Applied, ContainerError> {
        if self.limit == Some(bytes) {
            return Ok(Applied::Done);
        }
        let applied = self.limit_group(bytes)?;
        if applied == Applied::Done {
            self.limit = Some(bytes);
        }
        Ok(applied)
    }

    /// Begins to stop all processes where they are. [`Container::is_frozen`] tells when all have stopped.
    pub fn freeze(&mut self) -> Result<(), ContainerError> {
        self.close_doors()?;
        match self.shared.plan.via(AbilityName::Freeze) {
            Via::V1 | Via::V2 => {
                self.hurry();
                self.freeze_group(true)
            }
            Via::Processes | Via::Nothing => self.signal_all(libc::SIGSTOP).map(|_| ()),
        }
    }

    /// Lets all processes go on.
    pub fn thaw(&mut self) -> Result<(), ContainerError> {
        match self.shared.plan.via(AbilityName::Freeze) {
            Via::V1 | Via::V2 => {
                self.hurry_no_more();
                self.freeze_group(false)
            }
            Via::Processes | Via::Nothing => self.signal_all(libc::SIGCONT).map(|_| ()),
        }
    }

    /// A watch for the end of a requested freeze; `None` where the kernel does not report it.
    #[must_use]
    pub fn watch_freeze(&self) -> Option<FreezeWatch> {
        if self.shared.plan.via(AbilityName::Freeze) != Via::V2 {
            return None;
        }
        FreezeWatch::of(self.tree()?)
    }

    /// Whether every process has stopped.
    pub fn is_frozen(&self) -> Result<bool, ContainerError> {
        match self.shared.plan.via(AbilityName::Freeze) {
            Via::V2 => Ok(self.events()?.frozen),
            Via::V1 => self.is_frozen_by_freezer(),
            Via::Processes | Via::Nothing => match self.family() {
                Some(mut family) => Ok(family.events(&self.shared.proc)?.frozen),
                None => self.are_all_at_rest(),
            },
        }
    }

    /// Sends a signal to every process; returns the number of signalled processes. A frozen job handles it after the
    /// thaw, unless the signal is SIGKILL.
    pub fn signal(&self, signal: i32) -> Result<usize, ContainerError> {
        self.signal_all(signal)
    }

    /// Kills every process at once, frozen processes too. Does not wait: [`Container::is_populated`] tells when the
    /// last is gone.
    pub fn kill(&self) -> Result<(), ContainerError> {
        self.close_doors()?;
        match self.shared.plan.via(AbilityName::Kill) {
            Via::V2 => self.kill_group(),
            Via::V1 | Via::Processes | Via::Nothing => {
                self.signal_all(libc::SIGKILL)?;
                // A process stopped by the first-generation freezer cannot die before it is let go.
                if self.shared.plan.via(AbilityName::Freeze) == Via::V1 {
                    self.freeze_group(false)?;
                }
                Ok(())
            }
        }
    }

    /// The processes that have not ended, ascending.
    pub fn pids(&self) -> Result<Vec<u32>, ContainerError> {
        match self.family() {
            Some(mut family) => Ok(family.scan_all(&self.shared.proc)?),
            None => self.group_pids(),
        }
    }

    /// Whether any process has not ended.
    pub fn is_populated(&self) -> Result<bool, ContainerError> {
        if self.tree.get().is_some() {
            return Ok(self.events()?.populated);
        }
        match self.family() {
            Some(mut family) => Ok(family.is_populated(&self.shared.proc)?),
            None => Ok(!self.pids()?.is_empty()),
        }
    }

    /// Populated and frozen in one reading.
    pub fn events(&self) -> Result<Events, ContainerError> {
        match (self.tree.get(), self.family()) {
            (Some(tree), _) => tree.read_events(),
            (None, Some(mut family)) => Ok(family.events(&self.shared.proc)?),
            (None, None) => Ok(Events { populated: self.is_populated()?, frozen: self.is_frozen()? }),
        }
    }

    /// The open `cgroup.events`: poll it for `EPOLLPRI`, then call [`Container::events`], which also rearms it. `None`
    /// without the unified hierarchy, and with self-attach files before [`Container::close_doors`]. The kernel delays a
    /// second change within 10 ms.
    #[must_use]
    pub fn events_fd(&self) -> Option<BorrowedFd<'_>> {
        self.tree.get().map(|tree| tree.events.as_fd())
    }

    /// The job's use of resources.
    pub fn measure(&self, detail: Detail) -> Result<Measure, ContainerError> {
        match self.family() {
            Some(mut family) => {
                let mut measure = family.measure(&self.shared.proc, detail)?;
                self.add_files_in_memory(&mut measure);
                Ok(measure)
            }
            None => self.measure_groups(detail),
        }
    }

    /// The job's own pressure on a resource; `None` where groups do not account it.
    pub fn pressure(&self, resource: PressureResource) -> Result<Option<Pressure>, ContainerError> {
        let file = match resource {
            PressureResource::Cpu => "cpu.pressure",
            PressureResource::Memory => "memory.pressure",
            PressureResource::Io => "io.pressure",
        };
        match self.tree() {
            Some(group) => Ok(group.read_parsed(file, parse_pressure)?),
            None => Ok(None),
        }
    }

    /// The stalls of the job since its start, by resource; `None` where groups do not account them.
    pub fn stalls(&self) -> Result<Option<Stalls>, ContainerError> {
        let of = |resource| self.pressure(resource);
        let (Some(cpu), Some(memory), Some(io)) =
            (of(PressureResource::Cpu)?, of(PressureResource::Memory)?, of(PressureResource::Io)?)
        else {
            return Ok(None);
        };
        let full = |pressure: &Pressure| pressure.full.map_or(0, |line| line.total_us);
        Ok(Some(Stalls {
            cpu_us: cpu.some.total_us,
            memory_us: memory.some.total_us,
            memory_full_us: full(&memory),
            io_us: io.some.total_us,
            io_full_us: full(&io),
        }))
    }

    /// Moves up to `bytes` of the job's memory to swap (file pages are dropped); returns the moved bytes. May take as long
    /// as the swap device, so request large amounts in pieces.
    pub fn page_out(&self, bytes: u64) -> Result<u64, ContainerError> {
        match self.shared.plan.via(AbilityName::PageOut) {
            Via::V2 => self.page_out_v2(bytes),
            Via::V1 => self.page_out_v1(bytes),
            Via::Processes => self.page_out_processes(bytes, None),
            Via::Nothing => Ok(0),
        }
    }

    /// Removes the container if no process is left in it.
    pub fn remove(self) -> Result<Removed, ContainerError> {
        if self.shared.levels.is_empty() {
            if self.is_populated()? {
                return Ok(Removed::Busy(self));
            }
            self.shared.forget_taken(self.job);
            return Ok(Removed::Yes);
        }
        let (shared, job) = (Arc::clone(&self.shared), self.job);
        let this = match self.keep_as_spare()? {
            None => {
                shared.forget_taken(job);
                return Ok(Removed::Yes);
            }
            Some(this) => this,
        };
        match this.remove_groups()? {
            GroupRemoval::Gone => {
                this.shared.forget_partition(this.job);
                this.shared.forget_taken(this.job);
                Ok(Removed::Yes)
            }
            GroupRemoval::Busy => Ok(Removed::Busy(this)),
        }
    }

    fn family(&self) -> Option<MutexGuard<'_, Family>> {
        // A panic while the lock was held leaves at worst a reading behind; the next scan sets it right.
        self.family.as_ref().map(|family| family.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
