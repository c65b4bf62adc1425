//! Isolated jobs: each has a set of whole cores made for it, and those are its alone as far as the kernel goes.
//!
//! To the scheduler it is a job in a set of cores that is set aside, made when cores are found for it and given back when
//! it is over, or cannot start on them after all. Owns which isolated jobs wait for their cores, and what was found out
//! about those that run. Absent here: which job is next and which cores those are (`policy::isolation`), what is in a set
//! (`sets`), and the kernel's partitions (`sys`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pinfold_policy::isolation::{is_too_wide, whole_cores};
use pinfold_policy::{Instant, JobId, Policy};
use pinfold_proto::JobSpec;
use pinfold_proto::job::isolated_set;
use pinfold_proto::view::{FindingView, SetKind};
use pinfold_proto::wire::ErrorCode;
use pinfold_sys::container::Isolation;
use pinfold_sys::housekeeping::{self, Housekeeping};
use pinfold_sys::mode::{AbilityName, Facts, Plan, Via};
use pinfold_sys::peer::{self, Peer};
use pinfold_topo::CpuSet;

use crate::clients::rights;
use crate::core::{Ctx, Next, Outbox, Refusal, denied, usage};
use crate::host::sets::{self, Set, Sets};
use crate::jobs::JobTable;
use crate::jobs::record::is_isolated;

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

impl Isolated {
    /// A job that is to be isolated waits for its cores, unless they are there already.
    pub(crate) fn wants_isolation(&mut self, out: &mut Outbox, table: &JobTable, job: JobId) {
        if table.get(&job).is_some_and(|live| is_isolated(&live.row.spec)) {
            self.waiting.insert(job);
            out.then(Next::Isolate);
        }
    }

    /// Makes sets for the isolated jobs that wait, as far as cores are found.
    pub(crate) fn isolate_waiting(&mut self, ctx: &Ctx, out: &mut Outbox, table: &JobTable, sets: &mut Sets) {
        if ctx.draining {
            return;
        }
        self.give_up_cores(&ctx.policy, out, table, sets);
        let (waiting, sets) = (&mut self.waiting, sets);
        waiting.retain(|job| sets.named(&isolated_set(job.0)).is_none());
        out.then(Next::IsolateOne);
    }

    /// Makes a set for the next of them, and looks for another one once the scheduler knows of that.
    pub(crate) fn isolate_one(&mut self, ctx: &Ctx, out: &mut Outbox, table: &JobTable, sets: &mut Sets) {
        if self.waiting.is_empty() {
            return;
        }
        let waiting = self.with_a_share(ctx, table, sets);
        let now_us = ctx.clock.now_us();
        let taken = sets.iter().fold(CpuSet::new(), |all, set| all.union(&set.cpus));
        let taken = whole_cores(&ctx.topology, &taken);
        let next = ctx.policy.next_to_isolate(Instant(now_us), &waiting, &taken);
        let Some((job, cpus)) = next else { return };
        self.waiting.remove(&job);
        if let Some(live) = table.get(&job) {
            tracing::debug!(job = job.0, %cpus, "cores for an isolated job");
            let set = Set::isolated(isolated_set(job.0), cpus, live.row.uid, now_us);
            if let Err((_, error)) = sets.add_set(set) {
                tracing::warn!(job = job.0, error, "the cores of an isolated job may not be kept for it");
            }
            out.then(Next::SetsChanged);
        }
        out.then(Next::IsolateOne);
    }

    /// Those that wait and whose user may have so many cores reserved now.
    fn with_a_share(&self, ctx: &Ctx, table: &JobTable, sets: &Sets) -> BTreeSet<JobId> {
        let mut known = BTreeMap::new();
        let may = |job: &&JobId| {
            let Some(live) = table.get(job) else { return false };
            let (uid, cores) = (live.row.uid, live.row.spec.cores);
            *known.entry((uid, cores)).or_insert_with(|| sets.may_isolate(ctx, table, uid, cores))
        };
        self.waiting.iter().filter(may).copied().collect()
    }

    /// A job that was held before it started, or whose cores went off line, does not keep cores from others; it waits for some
    /// again.
    fn give_up_cores(&mut self, policy: &Policy, out: &mut Outbox, table: &JobTable, sets: &mut Sets) {
        let of = |set: &Set| {
            let job = set.name.strip_prefix("isolated-")?.parse().ok().map(JobId)?;
            (set.kind == SetKind::Isolated && !policy.needs_its_cores(job)).then_some(job)
        };
        let idle: Vec<JobId> = sets.iter().filter_map(of).collect();
        for job in idle {
            if table.contains_key(&job) {
                self.waiting.insert(job);
            }
            sets.remove_where(out, |set| set.name == isolated_set(job.0));
        }
    }

    /// A job runs: its PUs become its alone, if it asked for that.
    pub(crate) fn isolate(&mut self, ctx: &Ctx, table: &JobTable, job: JobId) {
        let Some(live) = table.get(&job).filter(|live| is_isolated(&live.row.spec)) else { return };
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
                    crate::core::error::in_full(&error)
                )
            }
        };
        self.found.insert(job, words);
        self.clear_isolated_cores(ctx, table);
    }

    /// Moves what is no job off the PUs of isolated jobs, and back, as far as an operator allows it.
    pub(crate) fn clear_isolated_cores(&mut self, ctx: &Ctx, table: &JobTable) {
        let mut wanted = CpuSet::new();
        if ctx.configured.config.cpu_housekeeping {
            let cpus = |job: &JobId| table.get(job)?.row.cpus.as_deref()?.parse::<CpuSet>().ok();
            wanted = self.found.keys().filter_map(cpus).fold(wanted, |all, cpus| all.union(&cpus));
        }
        let Some(housekeeping) = self.housekeeping.as_mut().filter(|kept| *kept.cpus() != wanted) else {
            return;
        };
        // Other processes are kept off by the kernel's partitions or not at all: what a process starts meanwhile has its
        // PUs from it, and would keep them when that is put back.
        let proc = &ctx.proc;
        let may_move = |pid: u32| housekeeping::is_kernel_thread(proc, pid);
        match housekeeping.keep_clear(&wanted, &ctx.topology.usable(), proc, may_move) {
            Ok(cleared) => tracing::info!(cpus = %wanted, ?cleared, "kept clear for isolated jobs"),
            Err(error) => {
                tracing::warn!(%error, cpus = %wanted, "the cores of isolated jobs are not kept clear")
            }
        }
    }

    /// The daemon ends: what it moved is where it was.
    pub(crate) fn stop_housekeeping(&mut self, ctx: &Ctx) {
        if let Some(Err(error)) = self.housekeeping.as_mut().map(|kept| kept.put_back(&ctx.proc)) {
            tracing::warn!(%error, "what was moved off the cores of isolated jobs stays; `pinfold admin rescue` puts it back");
        }
    }

    /// An isolated job is over: its cores are for all again, and others that wait may have them.
    pub(crate) fn end_isolation(
        &mut self,
        ctx: &Ctx,
        out: &mut Outbox,
        table: &JobTable,
        sets: &mut Sets,
        job: JobId,
    ) {
        self.waiting.remove(&job);
        if self.found.remove(&job).is_some() {
            self.clear_isolated_cores(ctx, table);
        }
        if sets.named(&isolated_set(job.0)).is_some() {
            sets.remove_where(out, |set| set.name == isolated_set(job.0));
        }
        out.then(Next::Isolate);
    }

    /// After a restart: sets of jobs that are over go, and jobs without their set wait for one.
    pub(crate) fn restore_isolation(
        &mut self,
        ctx: &Ctx,
        out: &mut Outbox,
        table: &JobTable,
        sets: &mut Sets,
    ) {
        self.stop_housekeeping(ctx);
        let isolated = table.iter().filter(|(_, live)| is_isolated(&live.row.spec));
        let jobs: BTreeSet<JobId> = isolated.map(|(&id, _)| id).collect();
        let names: BTreeSet<String> = jobs.iter().map(|job| isolated_set(job.0)).collect();
        sets.remove_where(out, |set| set.kind == SetKind::Isolated && !names.contains(&set.name));
        for job in jobs {
            self.isolate(ctx, table, job);
            if sets.named(&isolated_set(job.0)).is_none() {
                self.waiting.insert(job);
            }
        }
        // Whose cores those are of jobs found again is only settled with an event of another kind.
        out.step(pinfold_policy::Event::Tick);
        out.then(Next::Isolate);
    }
}

/// Checks whether a user may have cores for a job alone, and whether there are so many.
pub(crate) fn admit_isolated(ctx: &Ctx, sets: &Sets, user: Peer, spec: &JobSpec) -> Result<(), Refusal> {
    if !is_isolated(spec) {
        return Ok(());
    }
    if !rights::may_have_the_host(&ctx.configured.config, user) {
        return Err(denied("--isolated is for operators and the users in `access.exclusive`"));
    }
    let layout = spec.layout.iter();
    if spec.class.is_some() || layout.clone().any(|layout| layout.set.is_some()) {
        return Err(usage("--isolated has cores of its own: no class and no --in goes with it".to_owned()));
    }
    if layout.clone().any(|layout| layout.cpus.is_some()) {
        return Err(usage("--isolated chooses the cores; no PUs can be named with it".to_owned()));
    }
    if !ctx.configured.config.schedule {
        return Err((ErrorCode::Refused, "--isolated needs `schedule`, which is off".to_owned()));
    }
    let cores = ctx.topology.cores_within(&sets::usable_in_time(ctx).difference(&lasting(sets))).len();
    if is_too_wide(spec.cores, cores) {
        let text = format!(
            "--isolated: the job needs {} cores, and of the {cores} there are one is left for other jobs",
            spec.cores
        );
        return Err((ErrorCode::Refused, text));
    }
    Ok(())
}

/// The PUs of sets that do not go with a job.
fn lasting(sets: &Sets) -> CpuSet {
    let lasting = sets.iter().filter(|set| set.kind != SetKind::Isolated);
    lasting.fold(CpuSet::new(), |all, set| all.union(&set.cpus))
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
