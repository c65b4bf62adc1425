//! What processes that somebody wants to adopt are part of already: a job of this daemon or of another one, by their
//! groups, their descent or their environment, or a job of a workload manager.
//!
//! Up to a thousand are looked at for one request, and one may descend from the other: descent is followed in one reading
//! of `/proc`, and each process is looked at once. Absent here: who may adopt a process at all (`adopted`).

use std::cell::{Cell, LazyCell};
use std::collections::{BTreeMap, BTreeSet};

use pinfold_policy::JobId;
use pinfold_proto::wire::ErrorCode;
use pinfold_sys::adoptee::{self, Processes};
use pinfold_sys::aside::{self, Purpose};
use pinfold_sys::procfs::ProcessStat;

use crate::core::Refusal;
use crate::reactor::Daemon;

/// So much of an environment is looked at, in bytes. A thousand processes may have a long one in common.
const ENVIRON_WITHIN_BYTES: usize = 64 << 10;

/// What the environment of a process says of whose it is.
#[derive(Debug, Default)]
pub(super) struct Said {
    manager: Option<&'static str>,
    mark: Option<(String, u64)>,
}

type SaidBy = Option<BTreeMap<u32, Said>>;

/// That of processes, or of the beginnings of long environments, by number; read when it is wanted, and no second time.
pub(super) struct Environs {
    read: LazyCell<SaidBy, Box<dyn FnOnce() -> SaidBy>>,
    late: Cell<bool>,
}

impl Environs {
    /// `None`: they could not be read in time. Their user holds that up, or the host is busy.
    fn read(&self) -> Option<&BTreeMap<u32, Said>> {
        let read = self.read.as_ref();
        self.late.set(read.is_none());
        read
    }

    /// Whether they were wanted, and could not be read in time.
    pub(super) fn are_late(&self) -> bool {
        self.late.get()
    }
}

impl Daemon {
    /// See [`Environs`]; of processes of this user's.
    pub(super) fn environs(&self, user: u32, pids: Vec<u32>) -> Environs {
        let proc = self.ctx.proc.clone();
        let said = move |pid| {
            let (environ, _) = proc.environ_within(pid, ENVIRON_WITHIN_BYTES).ok().flatten()?;
            let said = Said { manager: adoptee::manager(&environ), mark: adoptee::mark_of_a_job(&environ) };
            Some((pid, said))
        };
        let read: Box<dyn FnOnce() -> SaidBy> = Box::new(move || {
            aside::read_soon((Purpose::Beginnings, user), move || pids.into_iter().filter_map(said).collect())
        });
        Environs { read: LazyCell::new(read), late: Cell::new(false) }
    }

    /// The processes by which running jobs are known, where they are known so: none where each has a group.
    pub(super) fn known_processes(&self) -> BTreeMap<(u32, u64), JobId> {
        let mut known = BTreeMap::new();
        for &job in &self.jobs.running {
            let Some(row) = self.jobs.table.get(&job).map(|live| &live.row) else { continue };
            let main = row.main.filter(|_| self.is_rootless()).map(|main| (main.pid, main.start_ticks));
            let adopted = row.spec.adopted.as_ref().filter(|adopted| self.knows_each(adopted));
            let all = adopted.into_iter().flat_map(|adopted| &adopted.processes).copied();
            main.into_iter().chain(all).for_each(|process| {
                known.entry(process).or_insert(job);
            });
        }
        known
    }

    /// The running jobs that these processes descend from, by the number of each process.
    pub(super) fn jobs_above(&self, all: &Processes, these: &[ProcessStat]) -> BTreeMap<u32, JobId> {
        let known = self.known_processes();
        if known.is_empty() {
            return BTreeMap::new();
        }
        let pids = these.iter().map(|stat| stat.pid);
        all.nearest(pids, |above| known.get(&(above.pid, above.start_ticks)).copied())
    }

    /// The job that a process is part of, and whether it is one of this daemon's; `above`: those of its descent.
    pub(super) fn managed(
        &self,
        pid: u32,
        above: &BTreeMap<u32, JobId>,
        environs: &Environs,
    ) -> Option<(bool, u64)> {
        let groups = self.ctx.proc.text(&format!("{pid}/cgroup")).ok().flatten().unwrap_or_default();
        if let Some((instance, job)) = adoptee::group_of_a_job(&groups) {
            return Some((instance == self.ctx.instance, job));
        }
        // Without groups, what its environment lacks its descent tells.
        if let Some(job) = above.get(&pid) {
            return Some((true, job.0));
        }
        if !self.is_rootless() {
            return None;
        }
        let (instance, job) = environs.read()?.get(&pid)?.mark.clone()?;
        // What a process found in its environment, it may have long after the job.
        let lives = self.jobs.table.get(&JobId(job)).is_some_and(|live| live.has_started());
        (instance == self.ctx.instance && lives).then_some((true, job))
    }

    /// Refuses a process that is part of a job already.
    pub(super) fn is_no_part(
        &self,
        pid: u32,
        above: &BTreeMap<u32, JobId>,
        environs: &Environs,
    ) -> Result<(), Refusal> {
        if self.is_rootless() && environs.read().is_none() {
            return Err(held_up(pid));
        }
        let whose = match self.managed(pid, above, environs) {
            Some((true, job)) => format!("job {job}"),
            Some((false, job)) => format!("job {job} of another daemon"),
            None => return Ok(()),
        };
        Err((ErrorCode::Refused, format!("process {pid} is part of {whose} already")))
    }

    /// The processes that keep jobs.
    pub(super) fn kept_processes(&self) -> BTreeSet<(u32, u64)> {
        let keepers = self.jobs.table.values().filter_map(|live| live.row.keeper);
        keepers.map(|keeper| (keeper.pid, keeper.start_ticks)).collect()
    }

    /// Refuses processes that are part of another job that was adopted, or of one that waits for that.
    pub(super) fn beside_none(&self, found: &[ProcessStat], all: &Processes) -> Result<(), Refusal> {
        let mut theirs: BTreeMap<u32, JobId> = BTreeMap::new();
        // Of those that wait some may have ended, and their numbers be others' by now.
        let mut waiting: BTreeMap<(u32, u64), JobId> = BTreeMap::new();
        for (job, live) in self.jobs.table.adopted() {
            let Some(adopted) = &live.row.spec.adopted else { continue };
            match &live.container {
                Some(container) => {
                    theirs.extend(container.pids().unwrap_or_default().into_iter().map(|pid| (pid, job)));
                }
                None => waiting.extend(adopted.processes.iter().map(|&process| (process, job))),
            }
        }
        // A process is part of such a job if it, or one that it descends from, is named there.
        let pids = found.iter().map(|stat| stat.pid);
        let jobs = all.nearest(pids, |above| {
            theirs.get(&above.pid).or_else(|| waiting.get(&(above.pid, above.start_ticks))).copied()
        });
        match found.iter().find_map(|stat| Some((stat.pid, jobs.get(&stat.pid)?))) {
            Some((pid, job)) => {
                Err((ErrorCode::Refused, format!("process {pid} is part of job {job} already")))
            }
            None => Ok(()),
        }
    }
}

/// What a process was started with could not be read in time: it, or one that is asked for with it, holds that up, or the host
/// is busy.
pub(super) fn held_up(pid: u32) -> Refusal {
    let text = format!("what process {pid}, or one below it, was started with cannot be read at present");
    (ErrorCode::Refused, format!("{text}; try again"))
}

/// Whether a process may be moved out of the groups of a workload manager; `by_groups`: the one that the kernel tells of.
pub(super) fn stays_with_its_manager(
    pid: u32,
    by_groups: Option<&String>,
    environs: &Environs,
) -> Result<(), Refusal> {
    let Some(said) = environs.read() else { return Err(held_up(pid)) };
    match by_groups.map(String::as_str).or_else(|| said.get(&pid)?.manager) {
        Some(manager) => {
            let text =
                format!("process {pid} is part of a job of {manager}, which would not find it any more");
            Err((ErrorCode::Refused, format!("{text} to end it; operators may adopt it")))
        }
        None => Ok(()),
    }
}
