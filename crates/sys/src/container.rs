//! Containers: the kernel objects that hold jobs, with one meaning in three modes.
//!
//! Purpose: [`Containers`] carries out a [`Plan`] for one daemon (an *instance*); each [`Container`] holds one job
//! and offers the abilities of the plan. What is done by groups of the kernel lies in `grouped`, what is done to
//! single processes in `process`, who belongs to a job without groups in `family`, and groups that are used again in
//! `spare`. Owner of state: the kernel;
//! a container keeps open directories and what it last asked for, so that nothing is written twice. Absent here:
//! when to do anything, and any memory across a restart: [`Containers::adopt`] finds jobs again in the kernel.
//!
//! A process or a group that vanished is an answer ([`Entered::Gone`], an empty list, [`Removed::Yes`]), not an
//! error.

mod drift;
mod family;
mod freeze_watch;
mod grouped;
mod isolate;
pub(crate) mod levels;
mod limits;
mod measure;
mod memory;
mod near;
mod page_out;
mod process;
mod rescue;
mod spare;
mod taken;
mod turn_out;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use pinfold_topo::CpuSet;

use crate::cgroup::{CgroupError, Events, Group, GroupRemoval};
use crate::identity::Process;
use crate::mode::{AbilityName, Hierarchy, Plan, Roots, Via};
use crate::procfs::{Pressure, PressureResource, ProcError, parse_pressure};

use family::Family;
use levels::Shared;
use spare::Spare;

pub use drift::{Drift, Setting};
pub use freeze_watch::FreezeWatch;
pub use isolate::Isolation;
pub use limits::{IoRate, Limited, Limits, UnknownLimited};

pub(crate) use limits::is_device;
pub use measure::{Detail, Measure, Stalls};
pub use memory::HeldMemory;
pub use rescue::{Rescue, Rescued, rescue, rescue_instance};
pub use taken::{InPlace, Taken};

pub(crate) use family::parse_mark;
pub(crate) use grouped::members_below as grouped_members;

/// The variable in a job's environment that holds its number; with [`INSTANCE_VARIABLE`] it marks the processes
/// of a job where there are no groups to hold them.
pub const JOB_VARIABLE: &str = "PINFOLD_JOB_ID";
/// The variable in a job's environment that holds the name of the instance it belongs to.
pub const INSTANCE_VARIABLE: &str = "PINFOLD_INSTANCE";
/// The variable in the environment of the site's programs that holds the number of the job for which they are called:
/// they know the job, and are no processes of it.
pub const HOOK_VARIABLE: &str = "PINFOLD_HOOK_OF";

/// Containment failed.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// A control group could not be used.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// A file below `/proc` could not be used.
    #[error(transparent)]
    Proc(#[from] ProcError),
    /// The name cannot be a directory of ours.
    #[error("`{0}` is no name of an instance: 1 to 32 of the characters a-z, 0-9 and -")]
    Instance(String),
    /// A group that the plan was decided on is gone.
    #[error("the group {}, on which the plan rests, has vanished", .path.display())]
    BaseGone {
        /// The group.
        path: PathBuf,
    },
    /// A job of this number is still in the kernel.
    #[error("the container of job {job} is left from an earlier life and still holds processes")]
    Occupied {
        /// The job.
        job: u64,
    },
    /// A system call on a process failed for another cause than its end.
    #[error("failed to {operation} process {pid}")]
    Process {
        /// What was to be done.
        operation: &'static str,
        /// The process or thread.
        pid: u32,
        /// What the kernel said.
        source: io::Error,
    },
}

/// How a job shares the processor with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// By weight: twice the weight, twice the time.
    Normal {
        /// 1 to 10,000; 100 is normal.
        weight: u32,
    },
    /// Only what nothing else wants.
    Idle,
}

/// The largest weight of a job.
const WEIGHT_MAX: u32 = 10_000;

impl Share {
    /// The usual share.
    pub const NORMAL: Self = Self::Normal { weight: 100 };
}

/// What a container is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// The PUs; empty: unbound.
    pub cpus: CpuSet,
    /// The NUMA nodes that its memory may lie on, ascending; empty: all.
    pub nodes: Vec<u32>,
    /// The share of the processor.
    pub share: Share,
    /// The bound on memory, in bytes.
    pub limit_bytes: Option<u64>,
    /// The bounds on other things.
    pub limits: Limits,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            cpus: CpuSet::new(),
            nodes: Vec::new(),
            share: Share::NORMAL,
            limit_bytes: None,
            limits: Limits::default(),
        }
    }
}

/// Whether a process got in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entered {
    /// It is in.
    Yes,
    /// It had ended before.
    Gone,
}

/// Whether a wish had its effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It had.
    Done,
    /// The job stays as it was, for this reason; no failure, but a fact about the host or the job.
    Kept(&'static str),
}

/// Whether a container is gone.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "one at a time, for a moment; a box would cost more than it saves"
)]
pub enum Removed {
    /// It is.
    Yes,
    /// It still holds processes; here it is back.
    Busy(Container),
}

/// Files through which a process takes itself into a container: see [`Container::doors`].
pub type Doors = Arc<[OwnedFd]>;

/// A job's group in the unified hierarchy.
#[derive(Debug)]
struct Tree {
    group: Group,
    /// `cgroup.events`, read once so that it can be polled.
    events: OwnedFd,
}

/// All containers of one instance.
#[derive(Debug)]
pub struct Containers {
    shared: Arc<Shared>,
    /// That of jobs whose processes stay in the groups of another manager: without groups, in every mode.
    in_place: Arc<Shared>,
}

/// The container of one job.
#[derive(Debug)]
pub struct Container {
    job: u64,
    shared: Arc<Shared>,
    /// One group for each level of [`Shared`] but the unified one, in its order; none in rootless mode.
    groups: Vec<Group>,
    /// The group in the unified hierarchy. Where there are doors it is made when it is first needed, and until then
    /// nobody is in it.
    tree: OnceLock<Tree>,
    /// The files by which processes come in, open since the first one did.
    doors: OnceLock<Doors>,
    /// Who belongs to the job, in rootless mode.
    family: Option<Mutex<Family>>,
    /// What was last asked for. `None` after adoption: unknown.
    cpus: Option<CpuSet>,
    nodes: Option<Vec<u32>>,
    share: Option<Share>,
    /// Its group goes before all others until it is thawed.
    hurries: bool,
    limit: Option<Option<u64>>,
    limits: Option<Limits>,
    /// From where growth is slowed; `Some(None)`: nowhere.
    high: Option<Option<u64>>,
    /// What an earlier life asked for, where this one has not asked yet.
    meant: Option<Shape>,
    /// Whether its processes ran before: what they held then is charged to the groups that they were in.
    taken: bool,
    /// Whether another manager says on which PUs its processes run.
    bound_elsewhere: bool,
}

impl Containers {
    /// Makes the groups of this instance where the plan has them. `instance`: 1 to 32 of a-z, 0-9 and -.
    ///
    /// A controller that turns out not to be available after all is left out, and the plan is decided again
    /// without it: read [`Containers::plan`] afterwards.
    pub fn open(plan: Plan, roots: Roots, instance: &str) -> Result<Self, ContainerError> {
        let in_place = Arc::new(Shared::without_groups(&plan, &roots, instance)?);
        Ok(Self { shared: Arc::new(Shared::open(plan, roots, instance)?), in_place })
    }

    /// Whether any group of this instance is in the kernel; where the plan has no groups there is nothing to ask.
    #[must_use]
    pub fn are_left(plan: &Plan, roots: &Roots, instance: &str) -> bool {
        let is_there = |hierarchy: &Hierarchy| {
            let path = hierarchy.base_path().join(levels::TOP).join(instance);
            matches!(Group::open(&path, roots.fake.clone()), Ok(Some(_)))
        };
        plan.hierarchies.is_empty() || plan.hierarchies.iter().any(is_there)
    }

    /// What holds a job: no groups, if its processes stay where another manager put them.
    fn shared_for(&self, job: u64) -> &Arc<Shared> {
        if self.in_place.is_taken(job) { &self.in_place } else { &self.shared }
    }

    /// The plan in force.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.shared.plan
    }

    /// Whether containers have doors here: see [`Container::doors`].
    #[must_use]
    pub fn have_doors(&self) -> bool {
        self.shared.have_doors()
    }

    /// Makes the container of a job, empty. One that is left from an earlier life is removed first when it is
    /// empty, and [`ContainerError::Occupied`] otherwise.
    pub fn create(&self, job: u64, shape: &Shape) -> Result<Container, ContainerError> {
        let shared = self.shared_for(job);
        let spare = shared.take_spare(job, shape);
        let Spare { groups, doors, cpus, nodes, share, limit, limits, .. } = match spare {
            Some(spare) => spare,
            None => Spare::fresh(job, shared.make_groups(job)?),
        };
        let mut container = Container { groups, doors, ..Container::bare(job, shared) };
        (container.cpus, container.share, container.limit) = (Some(cpus), Some(share), Some(limit));
        (container.nodes, container.high, container.limits) = (Some(nodes), Some(None), Some(limits));
        if shared.levels.is_empty() {
            container.family = Some(Mutex::new(shared.family(job)));
        }
        let early = if shared.have_doors() { Ok(()) } else { container.make_tree(true) };
        if let Err(error) = early.and_then(|()| container.shape(shape)) {
            // The failure is what the caller needs to hear; what could not be removed shows in list().
            let _ = container.remove_groups();
            return Err(error);
        }
        Ok(container)
    }

    /// Finds the container of a job again after a restart; `None`: nothing of it is left. `main_pid` helps where
    /// there are no groups: the process is taken only if its environment names the job, as its number may have
    /// been given to another one since.
    pub fn adopt(&self, job: u64, main_pid: Option<u32>) -> Result<Option<Container>, ContainerError> {
        let shared = self.shared_for(job);
        if shared.levels.is_empty() {
            let mut family = shared.family(job);
            if let Some(pid) = main_pid {
                family.take_in_if_marked(&shared.proc, pid)?;
            }
            let alive = !family.scan_all(&shared.proc)?.is_empty();
            let container = Container { family: Some(Mutex::new(family)), ..Container::bare(job, shared) };
            return Ok(alive.then_some(container));
        }
        let Some(groups) = self.shared.find_groups(job)? else { return Ok(None) };
        let container = Container { groups, ..Container::bare(job, &self.shared) };
        container.make_tree(false)?;
        container.complete_entries()?;
        Ok(Some(container))
    }

    /// The jobs of this instance of which the kernel still holds a container, ascending.
    pub fn list(&self) -> Result<Vec<u64>, ContainerError> {
        if self.shared.levels.is_empty() {
            return Ok(family::marked_jobs(&self.shared.proc, &self.shared.instance)?);
        }
        let mut jobs = self.shared.jobs()?;
        jobs.retain(|&job| !self.shared.is_spare(job));
        Ok(jobs)
    }

    /// The PUs that the groups of this instance may use; `None`: no group limits them.
    pub fn allowed_cpus(&self) -> Result<Option<CpuSet>, ContainerError> {
        self.shared.allowed_cpus()
    }

    /// PUs that are one job's alone in the kernel, and that no process outside it sees among its own.
    #[must_use]
    pub fn isolated_cpus(&self) -> CpuSet {
        self.shared.in_partitions()
    }

    /// Gives PUs that are on line again to the groups above the jobs' ones: those of the first generation lose a PU for
    /// good when it goes off line.
    pub fn give_back(&self, cpus: &CpuSet) -> Result<(), ContainerError> {
        self.shared.give_back(cpus)
    }

    /// Removes the groups of this instance where they are empty. What still holds jobs stays for the next life.
    pub fn close(self) {
        self.shared.close();
    }
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
        // Nobody is in it yet: what is done to processes one by one is done when they enter, and looking for them
        // now would cost a look at the whole host.
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

    /// Says whose job it is, where it was found again by what its processes have in their environments.
    pub fn belongs_to(&self, user: u32) {
        if let Some(mut family) = self.family() {
            family.belongs_to(&self.shared.proc, user);
        }
    }

    /// Takes the process that has this number now, and whatever it will start, into the container. For one whose number
    /// cannot be given away meanwhile, for the caller is its parent; else see [`Container::enter_process`].
    pub fn enter(&self, pid: u32) -> Result<Entered, ContainerError> {
        match Process::open(&self.shared.proc, pid)? {
            Some(process) => self.enter_process(&process),
            None => Ok(Entered::Gone),
        }
    }

    /// Takes this very process and whatever it will start into the container. The kernel takes processes in by their
    /// numbers: if this one ended meanwhile and its number was given away, whoever has it now is put back to where it
    /// came from, and the answer is [`Entered::Gone`].
    pub fn enter_process(&self, process: &Process) -> Result<Entered, ContainerError> {
        self.make_tree(true)?;
        let proc = &self.shared.proc;
        let whence = self.whence(process)?;
        if !process.is_alive(proc)? {
            return Ok(Entered::Gone);
        }
        let entered = self.enter_all(process);
        // Alive still, its number was its own all the time.
        if process.is_alive(proc)? {
            return entered;
        }
        self.turn_out(process, &whence)?;
        Ok(Entered::Gone)
    }

    fn enter_all(&self, process: &Process) -> Result<Entered, ContainerError> {
        if self.enter_groups(process)? == Entered::Gone {
            return Ok(Entered::Gone);
        }
        if let Some(mut family) = self.family()
            && !family.take_in(&self.shared.proc, process.pid(), process.start_ticks())?
        {
            return Ok(Entered::Gone);
        }
        self.enter_settings(process.pid())?;
        Ok(Entered::Yes)
    }

    /// Takes processes that are in some of the job's groups only into all of them: a first-generation group that loses
    /// its last PU loses its processes as well.
    pub fn gather(&self) -> Result<(), ContainerError> {
        self.complete_entries()
    }

    /// Binds the job to these PUs; empty: to all that the host lets it use.
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
        // What a job has is unknown after adoption.
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

    /// Bounds the job's memory, in bytes; `None`: not at all. A bound below what the job holds and the kernel
    /// cannot take from it is not set, as that would kill.
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

    /// Files through which a process takes *itself* into the container: it writes `0` into each before it executes
    /// its command. Empty where a host's means do not allow that; then [`Container::enter`] is the way.
    ///
    /// Taking another process in makes the kernel wait until no fork is under way anywhere, an RCU grace period:
    /// 11 ms here when it has not been asked for some milliseconds. A process that moves itself by the `tasks` file
    /// of the first generation waits for nothing (`cgroup_procs_write_start` in the kernel's `cgroup.c`): 70 us for
    /// three hierarchies. The unified hierarchy has no such file, so whoever came through the doors is missing
    /// there until [`Container::close_doors`]. The kernel checks the rights of whoever opened the files.
    pub fn doors(&self) -> Result<Doors, ContainerError> {
        if let Some(doors) = self.doors.get() {
            return Ok(Arc::clone(doors));
        }
        let doors = self.open_doors()?;
        Ok(Arc::clone(self.doors.get_or_init(|| doors.into())))
    }

    /// Takes those who came through the doors into the unified hierarchy as well; costs what entering costs.
    pub fn close_doors(&self) -> Result<(), ContainerError> {
        if self.is_missing_in_tree() {
            self.make_tree(true)?;
            self.complete_entries()?;
            if self.share == Some(Share::Idle) {
                self.set_io_idle(true)?;
            }
        }
        Ok(())
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

    /// What tells when a freeze that was asked for is done; `None` where the kernel does not say.
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

    /// Sends a signal to every process; says how many got it. A frozen job sees it only once it is thawed, unless
    /// the signal is SIGKILL.
    pub fn signal(&self, signal: i32) -> Result<usize, ContainerError> {
        self.signal_all(signal)
    }

    /// Ends every process at once, frozen ones too. It does not wait: [`Container::is_populated`] tells when the
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

    /// The open `cgroup.events`: poll it for `EPOLLPRI`, then call [`Container::events`], which also arms it anew.
    /// `None` without the unified hierarchy, and before [`Container::close_doors`] where there are doors. The kernel holds a second change within 10 ms back until those are over.
    #[must_use]
    pub fn events_fd(&self) -> Option<BorrowedFd<'_>> {
        self.tree.get().map(|tree| tree.events.as_fd())
    }

    /// What the job uses and has used.
    pub fn measure(&self, detail: Detail) -> Result<Measure, ContainerError> {
        match self.family() {
            Some(mut family) => Ok(family.measure(&self.shared.proc, detail)?),
            None => self.measure_groups(detail),
        }
    }

    /// The job's own pressure on one resource; `None` where groups do not account it.
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

    /// How long the job was stalled since its start, by resource; `None` where groups do not account it.
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

    /// Moves up to `bytes` of the job's memory to swap (file pages are just dropped); says how many left. It may
    /// take as long as the swap device takes, so large amounts are best asked for in pieces.
    pub fn page_out(&self, bytes: u64) -> Result<u64, ContainerError> {
        match self.shared.plan.via(AbilityName::PageOut) {
            Via::V2 => self.page_out_v2(bytes),
            Via::V1 => self.page_out_v1(bytes),
            Via::Processes => self.page_out_processes(bytes),
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
