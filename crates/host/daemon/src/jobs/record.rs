//! What the daemon knows of each job that is not over: its row, and the means to act on it.

use std::time::Duration;

use pinfold_place::layout::LayoutRequest;
use pinfold_policy::{Action, Amount, ArrayLimit, Class, JobId, Request, Wish};
use pinfold_profile::meter::Meter;
use pinfold_proto::row::JobRow;
use pinfold_proto::{Ending, JobClass, JobLayout, JobSpec, JobState};
use pinfold_sys::container::{Container, Limits, Shape, Share};
use pinfold_sys::procfs::Members;
use pinfold_sys::signals::SIGKILL;
use pinfold_topo::CpuSet;

use crate::core::event::ConnectionId;
use crate::jobs::child::Child;

/// A checkpoint command has so long at most, whatever was asked for.
const CHECKPOINT_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// A job that is not over.
#[derive(Debug)]
pub(crate) struct JobRecord {
    /// What is, or will be, on disk.
    pub row: JobRow,
    /// The connection of its keeper.
    pub keeper: Option<ConnectionId>,
    /// The keeper's number for its request, until that was answered.
    pub ticket: Option<u64>,
    /// The keeper's child that waits to become the job.
    pub child: Option<Child>,
    /// The scheduler let it start, and it waits for its child or its keeper.
    pub granted: bool,
    /// The CPU time that its group used, once it is over.
    pub group_cpu_us: Option<u64>,
    /// It backfills, and has a primary's share of its core.
    pub equal_share: bool,
    /// Whether the keeper was asked for a child.
    pub asked_child: bool,
    /// By when its keeper is to answer that it may start.
    pub answer_until_us: Option<u64>,
    /// Its keeper did not.
    pub silent: Option<Silent>,
    /// An earlier daemon decided its start, and may have carried that out.
    pub found_granted: bool,
    /// Since when no process of it is left, though its keeper has not told its end.
    pub emptied_us: Option<u64>,
    /// Its keeper did not tell its end in time.
    pub untold: bool,
    /// Where it is contained, once it runs.
    pub container: Option<Box<Container>>,
    /// What is to be done to its processes once there are any: it was let go by self-attach files, and its keeper has not
    /// named the process yet.
    pub deferred: Vec<Action>,
    /// When that was noticed for which it is about to be frozen.
    pub freezes_since: Option<std::time::Instant>,
    /// How long it waits for memory.
    pub waits: crate::jobs::waits::Waits,
    /// What it uses, since it has a container.
    pub meter: Option<Box<Meter>>,
    /// Its processes, as they are read.
    pub members: Members,
    /// The NUMA nodes that its memory may lie on, by the kernel's numbers; empty: all.
    pub memory_nodes: Vec<u32>,
    /// Its keeper, watched while it has no connection.
    pub keeper_watch: Option<Child>,
    /// Its keeper said that it waits, and it had processes: that is not looked at again.
    pub belied: bool,
    /// Its command ended before all of its processes did.
    pub lingers: bool,
    /// Its keeper is gone: nobody will say how it ended.
    pub orphaned: bool,
    /// Of one that was adopted: nobody is left of it, and the kernel was asked how it ended.
    pub heard_of: bool,
    /// It was killed for not ending when asked to: whatever is decided about it yet, that is why it ends.
    pub killed: bool,
    /// Its keeper is gone before it started, and another is to come.
    pub awaits_keeper: Option<Awaited>,
    /// How often that was so.
    pub keepers_lost: u32,
    /// Failed starts, one after the other.
    pub start_failures: u32,
    /// How far the disk is with its start, if it would come back after a restart of the host.
    pub begin: Begin,
    /// Whether its row has been written to the store at all.
    pub stored: bool,
    /// What it counts of what its user's jobs may take, in bytes; since it is in the table.
    pub size_bytes: u64,
}

/// A keeper that was called may take so long to come before another is, in microseconds.
const KEEPER_WITHIN_US: u64 = 20_000_000;

/// A job that has no keeper.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Awaited {
    /// Whether it is to be held once it has one.
    pub(crate) held: bool,
    /// When somebody was told to start one.
    pub(crate) called_us: Option<u64>,
}

impl Awaited {
    /// Whether another is to be called.
    pub(crate) fn is_due(self, now_us: u64) -> bool {
        self.called_us.is_none_or(|at| now_us.saturating_sub(at) >= KEEPER_WITHIN_US)
    }
}

/// A job whose keeper does not answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Silent {
    /// Whether it is to be held, or to stay suspended, once its keeper speaks.
    pub(crate) held: bool,
    /// Whether it has a container already, which its keeper may enter at any time.
    pub(crate) suspended: bool,
}

/// How far the disk is with the start of a job that would come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Begin {
    /// It knows nothing of one.
    #[default]
    No,
    /// It is being written that the job began, which it has not.
    Waits,
    /// That is on disk.
    Sure,
}

impl JobRecord {
    /// A job as it is submitted or found again.
    pub(crate) fn new(row: JobRow, stored: bool) -> Self {
        Self {
            row,
            keeper: None,
            ticket: None,
            child: None,
            granted: false,
            group_cpu_us: None,
            equal_share: false,
            asked_child: false,
            answer_until_us: None,
            silent: None,
            found_granted: false,
            emptied_us: None,
            untold: false,
            container: None,
            deferred: Vec::new(),
            freezes_since: None,
            waits: crate::jobs::waits::Waits::default(),
            meter: None,
            members: Members::default(),
            memory_nodes: Vec::new(),
            keeper_watch: None,
            belied: false,
            lingers: false,
            orphaned: false,
            heard_of: false,
            killed: false,
            awaits_keeper: None,
            keepers_lost: 0,
            start_failures: 0,
            begin: Begin::default(),
            stored,
            size_bytes: 0,
        }
    }

    /// Its number, as the scheduler has it.
    pub(crate) fn id(&self) -> JobId {
        JobId(self.row.job)
    }

    /// Whether its command was let go. That it is about to be may be on disk before.
    pub(crate) fn has_started(&self) -> bool {
        self.row.started_us.is_some() && self.begin == Begin::No
    }

    /// It does not begin, though that may be on disk.
    pub(crate) fn does_not_begin(&mut self) {
        if std::mem::take(&mut self.begin) != Begin::No {
            self.row.started_us = None;
        }
    }

    /// Whether it was ended to be requeued. One that came to an end of its own at the same moment is over.
    pub(crate) fn is_ended_to_be_requeued(&self) -> bool {
        let killed = |ending: &Ending| ending.signal == Some(SIGKILL);
        self.row.requeuing && self.row.end.is_none() && self.row.ending.as_ref().is_some_and(killed)
    }

    /// The container's shape that its row asks for.
    pub(crate) fn shape(&self) -> Shape {
        let cpus = self.row.cpus.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default();
        Shape {
            cpus: self.confined(&cpus),
            nodes: self.memory_nodes.clone(),
            share: share(self.row.class, self.row.priority, self.equal_share),
            limit_bytes: self.row.spec.limit_bytes,
            limits: Limits::default(),
        }
    }

    /// What ran waits again, and is held if its user had suspended it.
    pub(crate) fn waits_anew(&mut self, now_us: u64) {
        let held = std::mem::take(&mut self.row.suspended);
        self.set_state(if held { JobState::Held } else { JobState::Queued }, now_us);
    }

    /// The clock of this daemon is so much ahead of that by which the times of a job are, in microseconds; negative: behind.
    /// How long the job has waited, run, and been frozen, stays what it was: a host that slept ran nothing, so that this time
    /// counts as suspended.
    pub(crate) fn clock_stepped(&mut self, step_us: i64) {
        let (row, by_us) = (&mut self.row, step_us.unsigned_abs());
        row.waits_since_us = row.waits_since_us.map(|since| since.saturating_add_signed(step_us));
        if row.started_us.is_none() {
            return;
        }
        row.frozen_since_us = row.frozen_since_us.map(|since| since.saturating_add_signed(step_us));
        if step_us >= 0 {
            row.suspended_us = row.suspended_us.saturating_add(by_us);
            return;
        }
        row.started_us = row.started_us.map(|started| started.saturating_sub(by_us));
        row.submitted_us = row.submitted_us.min(row.started_us.unwrap_or(row.submitted_us));
    }

    /// Until when a job was frozen that an earlier daemon left so, in microseconds. One that is still `frozen` was so until
    /// now; else the guard, or that daemon as it died, thawed it no later than `thawed_us`, as far as that is known.
    pub(crate) fn frozen_until(&self, frozen: bool, thawed_us: Option<u64>, now_us: u64) -> u64 {
        let since_us = self.row.frozen_since_us.unwrap_or(now_us);
        let thawed_us = thawed_us.filter(|&at| !frozen && (since_us..=now_us).contains(&at));
        thawed_us.unwrap_or(now_us)
    }

    /// Sets the state, and keeps the count of frozen time.
    pub(crate) fn set_state(&mut self, state: JobState, now_us: u64) {
        let frozen = |state| matches!(state, JobState::Frozen | JobState::Parked);
        if let Some(since) = self.row.frozen_since_us
            && !frozen(state)
        {
            self.row.suspended_us += now_us.saturating_sub(since);
            self.row.frozen_since_us = None;
        }
        if frozen(state) && self.row.frozen_since_us.is_none() {
            self.row.frozen_since_us = Some(now_us);
        }
        self.row.state = state;
    }
}

/// How the kernel is to share cores with a job of this class and priority; a backfiller that is `even` has a primary's share.
///
/// The weight grows by a quarter with each step of priority, as nice levels do (kernel, sched-nice-design):
/// 100 at 10, 381 at 16, 13 at 1. An exclusive job is alone anyway.
pub(crate) fn share(class: JobClass, priority: u8, even: bool) -> Share {
    const WEIGHTS: [u32; 16] = [13, 17, 21, 26, 33, 41, 51, 64, 80, 100, 125, 156, 195, 244, 305, 381];
    match class {
        JobClass::Backfill if !even => Share::Idle,
        JobClass::Primary | JobClass::Backfill | JobClass::Exclusive => {
            Share::Normal { weight: WEIGHTS[usize::from(priority.clamp(1, 16)) - 1] }
        }
    }
}

/// A job's request, as the scheduler takes it; but for its set, its kind, how long it is expected to run, and the jobs
/// it is to start after.
pub(crate) fn request(row: &JobRow) -> Request {
    let spec = &row.spec;
    Request {
        parent: spec.terms.parent.as_ref().map(|parent| JobId(parent.job)),
        owner: row.uid,
        priority: row.priority,
        cores: spec.cores,
        class: spec.class.map(to_policy),
        ttl: spec.ttl_us.map(Duration::from_micros),
        held: spec.held,
        no_suspend: spec.no_suspend,
        requeue: spec.requeue,
        checkpoint: spec
            .checkpoint
            .as_ref()
            .map(|one| CHECKPOINT_MAX.min(Duration::from_micros(one.limit_us))),
        wish: spec
            .layout
            .as_ref()
            .filter(|layout| !layout.options.is_empty() || layout.cpus.is_some())
            .map(|layout| Box::new(wish(layout, spec.class))),
        place: spec.layout.as_ref().and_then(|layout| layout.place).map(pinfold_settings::place),
        project: spec.project.clone(),
        list: list(row),
        array: spec.array.and_then(|place| Some(ArrayLimit { array: place.array?, at_most: place.at_most? })),
        memory: spec.claim_bytes,
        tmp_bytes: counted_bytes(spec),
        resources: spec
            .terms
            .resources
            .iter()
            .map(|one| Amount { name: one.name.clone(), count: one.count })
            .collect(),
        ..Request::plain(JobId(row.job))
    }
}

/// Since when a job that an earlier daemon took has waited for its turn, in microseconds. Of one that was kept from that when
/// the daemon ended it is known only if its time came meanwhile; else it is since now.
pub(crate) fn waits_since_us(row: &JobRow, now_us: u64) -> u64 {
    let begin_us = row.spec.terms.begin_us.filter(|_| row.spec.after.is_empty());
    let came_us = || begin_us.map(|at| at.max(row.submitted_us));
    row.waits_since_us.or_else(came_us).map_or(now_us, |at| at.min(now_us))
}

/// The list that a job was handed over with, a batch's or an array's: one process keeps all of it.
fn list(row: &JobRow) -> Option<u64> {
    /// The kernel numbers processes below 2^22 (`PID_MAX_LIMIT`).
    const PID_BITS: u32 = 22;
    let keeper = row.keeper.filter(|_| row.spec.line.is_some() || row.spec.array.is_some())?;
    Some(keeper.start_ticks << PID_BITS | u64::from(keeper.pid))
}

/// What a job says of its cores. An option that a later command knows and this daemon does not has no say.
fn wish(layout: &JobLayout, class: Option<JobClass>) -> Wish {
    let mut request =
        LayoutRequest { exclusive: class == Some(JobClass::Exclusive), ..LayoutRequest::default() };
    for (name, value) in &layout.options {
        if let Err(error) = request.set(name, Some(value)) {
            tracing::debug!(%error, "a layout option is not understood");
        }
    }
    // More tasks than PUs are no question for a host.
    request.overcommit = false;
    let named: CpuSet = layout.cpus.as_deref().and_then(|text| text.parse().ok()).unwrap_or_default();
    if !named.is_empty() {
        // The cores follow from the PUs; what is bound to which is for its keeper.
        request.cpu_bind = Default::default();
    }
    Wish { layout: request, named, ..Wish::default() }
}

/// A class, as the scheduler has it.
pub(crate) fn to_policy(class: JobClass) -> Class {
    match class {
        JobClass::Primary => Class::Primary,
        JobClass::Backfill => Class::Backfill,
        JobClass::Exclusive => Class::Exclusive,
    }
}

/// A class, as it is stored and shown.
pub(crate) fn from_policy(class: Class) -> JobClass {
    match class {
        Class::Primary => JobClass::Primary,
        Class::Backfill => JobClass::Backfill,
        Class::Exclusive => JobClass::Exclusive,
    }
}

const MIB: u64 = 1 << 20;

/// What a job's directory counts for, in bytes: whole MiB, so that few sizes stand in the queue.
pub(crate) fn counted_bytes(spec: &JobSpec) -> u64 {
    spec.tmp_bytes.unwrap_or(0).div_ceil(MIB).saturating_mul(MIB)
}

/// The PUs that a job may not go beyond, if there are such.
pub(crate) fn allocated_cpus(spec: &JobSpec) -> Option<CpuSet> {
    let cpus: CpuSet = spec.allocation.as_ref()?.cpus.as_deref()?.parse().ok()?;
    (!cpus.is_empty()).then_some(cpus)
}

/// The part of a job's PUs that it may use: of a core that it may use in part the scheduler gives it the whole.
pub(crate) fn confined(spec: &JobSpec, given: &CpuSet) -> CpuSet {
    let Some(most) = allocated_cpus(spec) else { return given.clone() };
    let part = given.intersection(&most);
    match (given.is_empty(), part.is_empty()) {
        (true, _) => most,
        (false, false) => part,
        // Somebody moved it by hand, beyond what it was asked for with.
        (false, true) => given.clone(),
    }
}

/// Whether a job ends with its keeper.
pub(crate) fn is_tied(spec: &JobSpec) -> bool {
    // What was adopted has no keeper; its manager ends its processes itself.
    spec.adopted.is_none() && spec.allocation.as_ref().is_some_and(|allocation| allocation.manager.is_some())
}

/// Whether a job asks for it.
pub(crate) fn is_isolated(spec: &JobSpec) -> bool {
    spec.layout.as_ref().is_some_and(|layout| layout.isolated)
}

impl JobRecord {
    /// The PUs that its container gets, of those that the scheduler gives it.
    pub(crate) fn confined(&self, given: &CpuSet) -> CpuSet {
        confined(&self.row.spec, given)
    }
}

#[cfg(test)]
mod tests {
    use pinfold_proto::Terms;

    use super::*;
    use crate::jobs::timeouts::ran_us;

    const S: u64 = 1_000_000;
    const HOUR: i64 = 3600 * 1_000_000;
    const DAY: u64 = 86_400 * S;

    /// It started a day after the epoch, was frozen for 5 s, and is again since 60 s after its start.
    fn frozen() -> JobRecord {
        let row = JobRow::asked_for(1, 0, String::new(), JobSpec::default(), DAY - 100 * S);
        let row = JobRow { started_us: Some(DAY), suspended_us: 5 * S, ..row };
        let row = JobRow { frozen_since_us: Some(DAY + 60 * S), state: JobState::Frozen, ..row };
        JobRecord::new(row, true)
    }

    /// Whatever the next daemon's clock shows, it ran for 55 s, and has been frozen for 15 s.
    #[test]
    fn what_a_job_ran_is_the_same_by_another_clock() {
        for step_us in [0, HOUR, -HOUR] {
            let mut live = frozen();
            live.clock_stepped(step_us);
            let now_us = (DAY + 70 * S).saturating_add_signed(step_us);
            assert_eq!(ran_us(&live.row, now_us), 55 * S, "{step_us}");
            live.set_state(JobState::Running, now_us);
            assert_eq!(ran_us(&live.row, now_us + 10 * S), 65 * S, "{step_us}");
            let slept_us = u64::try_from(step_us).unwrap_or(0);
            assert_eq!(live.row.suspended_us, 15 * S + slept_us, "{step_us}");
            assert!(live.row.started_us >= Some(live.row.submitted_us), "{step_us}: {:?}", live.row);
        }
    }

    #[test]
    fn what_a_job_waited_is_the_same_by_another_clock() {
        for step_us in [0, HOUR, -HOUR] {
            let row = JobRow::asked_for(1, 0, String::new(), JobSpec::default(), DAY);
            let mut live = JobRecord::new(JobRow { waits_since_us: Some(DAY + 60 * S), ..row }, true);
            live.clock_stepped(step_us);
            let now_us = (DAY + 90 * S).saturating_add_signed(step_us);
            assert_eq!(now_us - waits_since_us(&live.row, now_us), 30 * S, "{step_us}");
        }
    }

    /// A job that was asked for at 100 s, as a daemon finds it at 900 s.
    #[track_caller]
    fn waits(spec: JobSpec, noted_s: Option<u64>, want_s: u64) {
        let row = JobRow::asked_for(1, 0, String::new(), spec, 100 * S);
        let row = JobRow { waits_since_us: noted_s.map(|at| at * S), ..row };
        assert_eq!(waits_since_us(&row, 900 * S), want_s * S, "noted: {noted_s:?}");
    }

    #[test]
    fn it_has_waited_since_what_was_noted() {
        let begin = |at_s| {
            let terms = Terms { begin_us: Some(at_s * S), ..Terms::default() };
            JobSpec { terms, ..JobSpec::default() }
        };
        waits(JobSpec::default(), Some(100), 100);
        waits(JobSpec { held: true, ..JobSpec::default() }, Some(400), 400);
        waits(begin(300), Some(400), 400);
        // The system's clock was set back.
        waits(JobSpec::default(), Some(950), 900);
        // It was kept from its turn, or nobody noted it.
        waits(JobSpec::default(), None, 900);
        let after = vec!["any:7".parse().expect("a name")];
        waits(JobSpec { after, ..begin(300) }, None, 900);
        // Its time came while no daemon ran, or before it was asked for.
        waits(begin(300), None, 300);
        waits(begin(50), None, 100);
        waits(begin(950), None, 900);
    }

    #[track_caller]
    fn until(is_frozen: bool, thawed_s: Option<u64>, want_s: u64) {
        let thawed_us = thawed_s.map(|at| DAY + at * S);
        let until_us = frozen().frozen_until(is_frozen, thawed_us, DAY + 100 * S);
        assert_eq!(until_us, DAY + want_s * S, "{is_frozen} {thawed_s:?}");
    }

    #[test]
    fn a_job_is_frozen_until_it_was_thawed() {
        until(false, Some(62), 62);
        until(true, Some(62), 100);
        // Of an earlier freeze, or by another clock.
        until(false, Some(59), 100);
        until(false, Some(101), 100);
        until(false, None, 100);
    }
}
