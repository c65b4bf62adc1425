//! Isolated jobs: each has a set of whole cores made for it, and those are its alone as far as the kernel goes.
//!
//! To the judgement it is a job in a set of cores that is set aside, made when cores are found for it and given back when
//! it is over: idle ones, else such that only jobs of lower priority are on, who move; and any after ten minutes. One
//! core is always left for others. Owns which isolated jobs wait for their cores, and what was found out about those that
//! run. Absent here: what is in a set (`sets`), and the kernel's partitions (`sys`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pinfold_place::pack::{self, Demand, Room};
use pinfold_policy::JobId;
use pinfold_proto::JobSpec;
use pinfold_proto::job::isolated_set;
use pinfold_proto::view::{FindingView, SetKind};
use pinfold_proto::wire::ErrorCode;
use pinfold_sys::container::Isolation;
use pinfold_sys::housekeeping::{self, Housekeeping};
use pinfold_sys::mode::{AbilityName, Facts, Plan, Via};
use pinfold_sys::peer::{self, Peer};
use pinfold_topo::CpuSet;

use crate::daemon::Daemon;
use crate::rights::{self, Refusal, denied};
use crate::sets::{Set, usage};

/// After so long any cores will do, whoever is on them.
const AGED_AFTER_US: u64 = 600_000_000;

/// Isolated jobs that are not over.
#[derive(Debug, Default)]
pub(crate) struct Isolated {
    /// Those that wait for cores.
    waiting: BTreeSet<JobId>,
    /// How far those that run are alone, in words.
    found: BTreeMap<JobId, String>,
    /// What is kept off their PUs, where an operator allows it.
    housekeeping: Option<Housekeeping>,
}

impl Isolated {
    pub(crate) fn new(instance: &str) -> Self {
        // Interrupts and other users' threads are root's to move.
        let housekeeping = (peer::own_uid() == 0).then(|| Housekeeping::new(instance));
        Self { housekeeping, ..Self::default() }
    }

    /// How far a job is alone on its cores, in words.
    pub(crate) fn words(&self, job: JobId) -> Option<&str> {
        self.found.get(&job).map(String::as_str)
    }
}

/// Whether a job asks for it.
pub(crate) fn is_isolated(spec: &JobSpec) -> bool {
    spec.layout.as_ref().is_some_and(|layout| layout.isolated)
}

impl Daemon {
    /// Checks whether a user may have cores for a job alone, and whether there are so many.
    pub(crate) fn admit_isolated(&self, user: Peer, spec: &JobSpec) -> Result<(), Refusal> {
        if !is_isolated(spec) {
            return Ok(());
        }
        if !rights::may_have_the_host(&self.configured.config, user) {
            return Err(denied("--isolated is for the users in `access.exclusive`"));
        }
        let layout = spec.layout.iter();
        if spec.class.is_some() || layout.clone().any(|layout| layout.set.is_some()) {
            return Err(usage(
                "--isolated has cores of its own: no class and no --in goes with it".to_owned(),
            ));
        }
        if layout.clone().any(|layout| layout.cpus.is_some()) {
            return Err(usage("--isolated chooses the cores; no PUs can be named with it".to_owned()));
        }
        if !self.configured.config.schedule {
            return Err((ErrorCode::Refused, "--isolated needs `schedule`, which is off".to_owned()));
        }
        let cores = self.topology.cores_within(&self.usable().difference(&self.lasting())).len();
        if spec.cores as usize >= cores {
            let text = format!(
                "--isolated: the job needs {} cores, and of the {cores} there are one is left for other jobs",
                spec.cores
            );
            return Err((ErrorCode::Refused, text));
        }
        Ok(())
    }

    /// The PUs of sets that do not go with a job.
    fn lasting(&self) -> CpuSet {
        let lasting = self.sets.iter().filter(|set| set.kind != SetKind::Isolated);
        lasting.fold(CpuSet::new(), |all, set| all.union(&set.cpus))
    }

    /// A job that is to be isolated waits for its cores, unless they are there already.
    pub(crate) fn wants_isolation(&mut self, job: JobId) {
        if self.jobs.get(&job).is_some_and(|live| is_isolated(&live.row.spec)) {
            self.isolated.waiting.insert(job);
            self.isolate_waiting();
        }
    }

    /// Makes sets for the isolated jobs that wait, as far as cores are found: the higher priority first, then the older.
    pub(crate) fn isolate_waiting(&mut self) {
        if self.isolated.waiting.is_empty() || self.draining {
            return;
        }
        let now_us = self.clock.now_us();
        let mut waiting: Vec<(u8, JobId, usize)> = Vec::new();
        for &job in &self.isolated.waiting {
            let Some(live) = self.jobs.get(&job) else { continue };
            if live.row.state == pinfold_proto::JobState::Held {
                continue;
            }
            let aged = now_us.saturating_sub(live.row.submitted_us) >= AGED_AFTER_US;
            waiting.push((if aged { u8::MAX } else { live.row.priority }, job, live.row.spec.cores as usize));
        }
        waiting.sort_by_key(|&(priority, job, _)| (std::cmp::Reverse(priority), job));
        for (priority, job, cores) in waiting {
            // Another member of its array may have got the last place there just now.
            if !self.policy.has_room_in_array(job) {
                continue;
            }
            let name = isolated_set(job.0);
            if self.sets.named(&name).is_none() {
                let Some(cpus) = self.cores_to_isolate(cores, priority) else { continue };
                let owner_uid = self.jobs[&job].row.uid;
                tracing::debug!(job = job.0, %cpus, "cores for an isolated job");
                if let Err((_, error)) = self.add_set(Set::isolated(name, cpus, owner_uid, now_us)) {
                    tracing::warn!(job = job.0, error, "the cores of an isolated job may not be kept for it");
                }
            }
            self.isolated.waiting.remove(&job);
            self.sets_changed();
        }
    }

    /// Cores close together for a job of this priority, with at least one left for others.
    fn cores_to_isolate(&self, count: usize, priority: u8) -> Option<CpuSet> {
        let taken = self.sets.iter().fold(CpuSet::new(), |all, set| all.union(&set.cpus));
        let usable = self.usable();
        let others = usable.difference(&self.sets.kept());
        let pick = |cores: Vec<CpuSet>| {
            let free = cores.iter().fold(CpuSet::new(), |all, core| all.union(core)).difference(&taken);
            let topology = self.topology.clone().restricted(&free);
            let room = Room { topology: &topology, free: &free, memory_free_bytes: &[], bandwidth_left: &[] };
            let demand = Demand { cores: count, ..Demand::default() };
            let cpus = pack::pack(&room, &demand)?.pus();
            (!others.difference(&cpus).is_empty()).then_some(cpus)
        };
        pick(self.policy.idle_cores()).or_else(|| pick(self.policy.cores_below(priority)))
    }

    /// A job runs: its PUs become its alone, if it asked for that.
    pub(crate) fn isolate(&mut self, job: JobId) {
        let Some(live) = self.jobs.get(&job).filter(|live| is_isolated(&live.row.spec)) else { return };
        let cpus: CpuSet = live.row.cpus.as_deref().and_then(|cpus| cpus.parse().ok()).unwrap_or_default();
        let Some(container) = &live.container else { return };
        let words = match container.isolate(&cpus) {
            Ok(Isolation::Partition { kind }) => {
                format!(
                    "PUs {cpus} are its alone: no process that the kernel can move is on them ({kind} partition)"
                )
            }
            Ok(Isolation::JobsOnly { why }) => {
                format!("no other job is on its cores; other processes may be: {why}")
            }
            Err(error) => {
                format!(
                    "no other job is on its cores; other processes may be: {}",
                    crate::act::in_full(&error)
                )
            }
        };
        self.isolated.found.insert(job, words);
        self.keep_house_clear();
    }

    /// Moves what is no job off the PUs of isolated jobs, and back, as far as an operator allows it.
    pub(crate) fn keep_house_clear(&mut self) {
        let mut wanted = CpuSet::new();
        if self.configured.config.cpu_housekeeping {
            let cpus = |job: &JobId| self.jobs.get(job)?.row.cpus.as_deref()?.parse::<CpuSet>().ok();
            wanted = self.isolated.found.keys().filter_map(cpus).fold(wanted, |all, cpus| all.union(&cpus));
        }
        let Some(housekeeping) = self.isolated.housekeeping.as_mut().filter(|kept| *kept.cpus() != wanted)
        else {
            return;
        };
        // Other processes are kept off by the kernel's partitions or not at all: what a process starts meanwhile has its
        // PUs from it, and would keep them when that is put back.
        let proc = &self.proc;
        let may_move = |pid: u32| housekeeping::is_kernel_thread(proc, pid);
        match housekeeping.keep_clear(&wanted, &self.topology.usable(), proc, may_move) {
            Ok(cleared) => tracing::info!(cpus = %wanted, ?cleared, "kept clear for isolated jobs"),
            Err(error) => {
                tracing::warn!(%error, cpus = %wanted, "the cores of isolated jobs are not kept clear")
            }
        }
    }

    /// The daemon ends: what it moved is where it was.
    pub(crate) fn stop_housekeeping(&mut self) {
        if let Some(Err(error)) = self.isolated.housekeeping.as_mut().map(|kept| kept.put_back(&self.proc)) {
            tracing::warn!(%error, "what was moved off the cores of isolated jobs stays; `pinfold rescue` puts it back");
        }
    }

    /// An isolated job is over: its cores are for all again, and others that wait may have them.
    pub(crate) fn end_isolation(&mut self, job: JobId) {
        self.isolated.waiting.remove(&job);
        if self.isolated.found.remove(&job).is_some() {
            self.keep_house_clear();
        }
        if self.sets.named(&isolated_set(job.0)).is_some() {
            self.drop_sets(|set| set.name == isolated_set(job.0));
        }
        self.isolate_waiting();
    }

    /// After a restart: sets of jobs that are over go, and jobs without their set wait for one.
    pub(crate) fn restore_isolation(&mut self) {
        self.stop_housekeeping();
        let isolated = |(id, live): (&JobId, &crate::live::Live)| is_isolated(&live.row.spec).then_some(*id);
        let jobs: BTreeSet<JobId> = self.jobs.iter().filter_map(isolated).collect();
        let names: BTreeSet<String> = jobs.iter().map(|job| isolated_set(job.0)).collect();
        self.drop_sets(|set| set.kind == SetKind::Isolated && !names.contains(&set.name));
        for job in jobs {
            self.isolate(job);
            if self.sets.named(&isolated_set(job.0)).is_none() {
                self.isolated.waiting.insert(job);
            }
        }
        self.isolate_waiting();
    }
}

/// How far a job can have cores to itself here, and what the kernel keeps for itself already.
pub(crate) fn finding(facts: &Facts, plan: &Plan) -> FindingView {
    let read = |file: &str| {
        let text =
            std::fs::read_to_string(Path::new("/sys/devices/system/cpu").join(file)).unwrap_or_default();
        text.trim().trim_matches(['(', ')']).to_owned()
    };
    let told = |list: String, what: &str| match list.as_str() {
        "" | "null" => String::new(),
        list => format!("; PUs {list} {what} since the boot"),
    };
    let kernel =
        told(read("isolated"), "are left out of scheduling") + &told(read("nohz_full"), "have no ticks");
    let v2 = plan.via(AbilityName::Pin) == Via::V2;
    let lacks = match (v2, facts.user == 0) {
        (true, true) if facts.kernel_at_least(6, 7) => None,
        (true, true) => Some("run kernel 6.7 or later, whose control groups have partitions below others"),
        (true, false) => Some("run the daemon as root"),
        (false, _) => {
            Some("run the daemon as root on a host with control groups v2 alone and kernel 6.7 or later")
        }
    };
    let found = match lacks {
        None => "an isolated job's PUs are its alone, but for what the kernel has bound to them",
        Some(_) => "no other job is on an isolated job's cores; other processes may be",
    };
    FindingView {
        subject: "isolation".to_owned(),
        ok: lacks.is_none(),
        found: format!("{found}{kernel}"),
        change: lacks.map(str::to_owned),
    }
}
