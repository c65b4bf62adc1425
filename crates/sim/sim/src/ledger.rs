//! The ledger: users' requests and the policy's actions, recorded decision by decision.
//!
//! Separate from the policy's own state, so that both can be compared. A decision that does not fit its job's state (a
//! second start, a freeze of a frozen job) is refused here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pinfold_policy::{
    Action, AgainReason, Class, Command, Decision, Instant, JobId, Reason, Request, SlotReason,
};
use pinfold_topo::CpuSet;

use crate::violation::Violation;

/// The time for which a signalled job may run without a slot.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// The time after a signal in which a further signal changes nothing.
const CALM: Duration = Duration::from_secs(60);
/// The longest suspension of a job for a primary.
const HELD_BACK_MAX: Duration = Duration::from_secs(600);
/// The least time between a failure and the next try.
const RETRY: Duration = Duration::from_secs(1);

/// The phase of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waits for its start.
    Waiting,
    /// A start was decided.
    Starting,
    /// Runs or is frozen.
    Running,
}

/// The ledger's row of a job.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The request, with the present priority.
    pub request: Request,
    /// The time of submission.
    pub submitted: Instant,
    /// Since when it waits, at the most.
    pub since: Instant,
    /// Whether it aged before it ran.
    pub aged: bool,
    /// Whether its user holds it.
    pub held: bool,
    /// Whether its user suspended it.
    pub suspended: bool,
    /// The phase.
    pub phase: Phase,
    /// The time of the start decision.
    pub started: Instant,
    /// The time of the answer to the start.
    pub answered: Option<Instant>,
    /// The decided class.
    pub class: Class,
    /// Whether it shares cores evenly, as a backfill job.
    pub even: bool,
    /// The decided PUs.
    pub cpus: CpuSet,
    /// Whether a freeze was decided.
    pub frozen: bool,
    /// Until when it is left alone because of a signal.
    pub grace: Option<Instant>,
    /// The end of the time in which a further signal changes nothing.
    pub calm: Option<Instant>,
    /// Until when it may be suspended for a primary's sake.
    pub held_back: Option<(Instant, JobId)>,
    /// Whether it was thawed for a signal, without a slot.
    pub slotless: bool,
    /// Actions with a reported failure and no new request: start, bind, weigh, freeze or thaw; with the time of the
    /// failure.
    pub failed: BTreeMap<&'static str, Instant>,
}

/// All jobs there ever were.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The jobs that are not over.
    pub jobs: BTreeMap<JobId, Entry>,
    /// Jobs that are over, to refuse a second end.
    pub over: BTreeSet<JobId>,
}

impl Entry {
    /// Records a signal while it ran or was frozen (`out`).
    fn signalled(&mut self, out: bool, now: Instant) {
        let was_suspended = std::mem::take(&mut self.suspended);
        if self.calm.is_none_or(|until| until <= now) {
            (self.grace, self.calm) = (Some(now.after(GRACE)), Some(now.after(CALM)));
            self.slotless |= out;
        } else if was_suspended {
            // A job that waits for its return gets the signal then.
            self.since = now;
        }
    }

    /// Whether it has a slot, or is about to by a requested action.
    #[must_use]
    pub fn holds_slot(&self) -> bool {
        matches!(self.phase, Phase::Starting | Phase::Running) && !self.frozen && !self.slotless
    }

    /// Whether it may have aged by now: a lower bound of the policy's limit.
    #[must_use]
    pub fn may_be_aged(&self, now: Instant) -> bool {
        let limit = if self.request.expected.is_some() { 10 } else { 600 };
        self.aged || now.since(self.since) >= Duration::from_secs(limit)
    }

    fn stands_still(&mut self, reason: &Reason, again: bool, now: Instant) {
        (self.frozen, self.slotless) = (true, false);
        match reason {
            Reason::Slot(SlotReason::Interferes { with, .. }) => {
                self.held_back = Some((now.after(HELD_BACK_MAX), *with))
            }
            // A retry has the purpose of the first try.
            Reason::Again(AgainReason::BeginsAnew { .. }) | Reason::Again(AgainReason::Retry { .. }) => {}
            _ => self.held_back = None,
        }
        // A freeze tried again is no new wait.
        if !again {
            self.since = now;
        }
    }

    /// Whether it may be suspended for a primary's sake.
    #[must_use]
    pub fn is_held_back(&self, now: Instant) -> bool {
        self.held_back.is_some_and(|(until, _)| now < until)
    }

    /// Whether it waits and too few of these cores, which jobs may use, lie inside its border.
    #[must_use]
    pub fn is_shut_out(&self, cores: &[CpuSet]) -> bool {
        let Some(wish) = self.request.wish.as_deref().filter(|wish| !wish.within.is_empty()) else {
            return false;
        };
        let inside = cores.iter().filter(|core| !core.is_disjoint(&wish.within)).count();
        let elsewhere = self.request.aside.is_some() || self.request.class == Some(Class::Exclusive);
        self.phase == Phase::Waiting && !elsewhere && inside < self.request.cores.max(1) as usize
    }

    /// Whether the policy must not freeze it now by its own choice.
    #[must_use]
    pub fn exempt(&self, now: Instant) -> bool {
        self.request.no_suspend
            || self.phase == Phase::Starting
            || self.grace.is_some_and(|until| now < until)
    }
}

/// The name under which a failed action is kept; the same for a freeze and a thaw.
pub(crate) fn kind(action: &Action) -> &'static str {
    match action {
        Action::Start { .. } => "start",
        Action::Bind { .. } => "bind",
        Action::Weigh { .. } => "weigh",
        Action::Freeze | Action::Thaw => "freeze",
        Action::Signal { .. } => "signal",
        Action::PageOut { .. } => "page out",
        Action::Drop { .. } => "drop",
        Action::Checkpoint => "checkpoint",
        Action::Requeue => "requeue",
        Action::Slow { .. } => "slow",
        Action::Protect { .. } => "protect",
        Action::Near { .. } => "near",
    }
}

impl Ledger {
    /// Whether a job waits and as many members of its array have started as may.
    #[must_use]
    pub fn has_full_array(&self, job: &Entry) -> bool {
        let Some(limit) = job.request.array.filter(|_| job.phase == Phase::Waiting) else { return false };
        self.started_of(limit.array) >= limit.at_most as usize
    }

    /// The number of started members of an array that are not over.
    #[must_use]
    pub fn started_of(&self, array: u64) -> usize {
        let ours = |entry: &&Entry| entry.request.array.is_some_and(|limit| limit.array == array);
        self.jobs.values().filter(ours).filter(|entry| entry.phase != Phase::Waiting).count()
    }

    /// A job was asked for.
    pub fn submitted(&mut self, request: Request, now: Instant) {
        let entry = Entry {
            submitted: now,
            since: now,
            aged: false,
            held: request.held,
            suspended: false,
            phase: Phase::Waiting,
            started: Instant::default(),
            answered: None,
            class: Class::Primary,
            even: false,
            cpus: CpuSet::new(),
            frozen: false,
            grace: None,
            calm: None,
            held_back: None,
            slotless: false,
            failed: BTreeMap::new(),
            request,
        };
        self.jobs.insert(entry.request.job, entry);
    }

    /// Advances time: a job that survived its signal becomes an ordinary job.
    pub fn passed(&mut self, now: Instant) {
        for entry in self.jobs.values_mut() {
            if entry.grace.is_some_and(|until| until <= now) {
                (entry.grace, entry.slotless) = (None, false);
            }
        }
    }

    /// A user said something to a job, which was frozen then or not (`out`).
    pub fn commanded(&mut self, job: JobId, command: Command, out: bool, now: Instant) {
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        match (command, entry.phase) {
            (Command::Suspend | Command::Hold, Phase::Waiting) if !entry.held => {
                (entry.held, entry.since) = (true, now);
            }
            (Command::Resume | Command::Release, Phase::Waiting) if entry.held => {
                (entry.held, entry.since) = (false, now);
            }
            (Command::Suspend, Phase::Starting | Phase::Running) => {
                (entry.suspended, entry.grace, entry.slotless) = (true, None, false);
                entry.aged = false;
            }
            (Command::Resume, Phase::Starting | Phase::Running) if entry.suspended => {
                (entry.suspended, entry.since) = (false, now);
            }
            (Command::Cancel { .. }, Phase::Starting) => entry.suspended = false,
            (Command::Cancel { .. }, Phase::Running) => entry.signalled(out, now),
            (Command::SetPriority(priority), _) => entry.request.priority = priority.clamp(1, 16),
            (Command::SetClass(class), _)
                if ![entry.request.class, class].contains(&Some(Class::Exclusive)) =>
            {
                entry.request.class = class;
            }
            _ => {}
        }
    }

    /// The policy decided something.
    ///
    /// # Errors
    /// If that makes no sense for the job.
    pub fn decided(&mut self, decision: &Decision, now: Instant) -> Result<(), Violation> {
        let wrong = |rule| Err(Violation::new(rule, format!("{decision:?}")));
        let Some(entry) = self.jobs.get_mut(&decision.job) else {
            return wrong("nothing is asked of a job that is over");
        };
        let kind = kind(&decision.action);
        let failed = entry.failed.remove(kind);
        if failed.is_some_and(|at| now.since(at) < RETRY)
            && entry.phase != Phase::Starting
            && !matches!(decision.action, Action::Drop { .. })
            && decision.reason_is_retry()
        {
            return wrong("a failed action rests for a second");
        }
        // A decision made before the answer to its start may be reported after a change of priorities.
        let just_answered = entry.answered == Some(now);
        if let Reason::Slot(SlotReason::Preempted { priority, .. }) = decision.reason
            && priority <= entry.request.priority
            // The job did not ask for the backfill class.
            && entry.request.class != Some(Class::Backfill)
            && !just_answered
        {
            return wrong("only a higher priority takes a slot or a home");
        }
        match (&decision.action, entry.phase) {
            (Action::Start { class, cpus, .. }, Phase::Waiting) if !entry.held => {
                (entry.phase, entry.started, entry.class) = (Phase::Starting, now, *class);
                (entry.cpus, entry.frozen) = (cpus.clone(), false);
                entry.aged = entry.may_be_aged(now);
            }
            (Action::Start { .. }, _) => return wrong("only a job that waits and is not held starts"),
            (Action::Requeue | Action::Checkpoint, _) => {
                return wrong("nobody is ended who did not allow it");
            }
            (Action::Slow { .. } | Action::Protect { .. } | Action::Near { .. }, _) => {
                return wrong("memory is not steered where none is read");
            }
            (Action::Drop { .. }, Phase::Waiting) => self.over(decision.job),
            (Action::Drop { .. }, _) => return wrong("only a waiting job is struck off"),
            (_, Phase::Waiting | Phase::Starting) => {
                return wrong("nothing is asked of a job before it runs");
            }
            (Action::Freeze, _) if entry.frozen && failed.is_none() => {
                return wrong("a frozen job is not frozen again");
            }
            (Action::Freeze, _) => {
                // A retry may belong to a suspension that was undone since, with no slot to return to.
                if entry.request.no_suspend && !entry.suspended && failed.is_none() {
                    return wrong("a job that may not be suspended is frozen only by its user");
                }
                entry.stands_still(&decision.reason, failed.is_some(), now);
            }
            (Action::Thaw, _) => {
                entry.aged = entry.may_be_aged(now);
                (entry.frozen, entry.held_back) = (false, None);
            }
            (Action::Bind { cpus }, _) => entry.cpus = cpus.clone(),
            (Action::Weigh { even: true, class, .. }, _) if *class != Class::Backfill => {
                return wrong("only a backfiller is told to share evenly");
            }
            (Action::Weigh { class, even, .. }, _) => (entry.class, entry.even) = (*class, *even),
            (Action::Signal { .. }, _) if entry.frozen => {
                return wrong("a frozen job cannot die of a signal");
            }
            (Action::Signal { .. } | Action::PageOut { .. }, _) => {}
        }
        if let Action::Freeze | Action::Weigh { class: Class::Backfill, .. } = decision.action {
            self.no_longer_primary(decision.job);
        }
        Ok(())
    }

    /// A start was answered.
    pub fn started(&mut self, job: JobId, now: Instant) {
        if let Some(entry) = self.jobs.get_mut(&job).filter(|entry| entry.phase == Phase::Starting) {
            (entry.phase, entry.answered) = (Phase::Running, Some(now));
        }
    }

    /// Records a failure that was reported to the policy.
    pub fn failed(&mut self, job: JobId, action: &Action, now: Instant) {
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        match action {
            Action::Start { .. } if entry.phase == Phase::Starting => {
                entry.phase = Phase::Waiting;
                entry.held = std::mem::take(&mut entry.suspended);
            }
            // The failed action is no longer wanted.
            Action::Start { .. } => return,
            Action::Bind { cpus } if *cpus != entry.cpus => return,
            Action::Weigh { class, even, .. } if (*class, *even) != (entry.class, entry.even) => return,
            Action::Freeze if !entry.frozen => return,
            Action::Thaw if entry.frozen => return,
            // The kernel's state is unknown; the request stays recorded.
            _ => {}
        }
        entry.failed.insert(kind(action), now);
    }

    /// No process of a job is left, or its client is gone.
    pub fn over(&mut self, job: JobId) {
        if self.jobs.remove(&job).is_some() {
            self.over.insert(job);
        }
        self.no_longer_primary(job);
    }

    /// Ends the suspensions for the sake of this job.
    fn no_longer_primary(&mut self, job: JobId) {
        for entry in self.jobs.values_mut() {
            entry.held_back = entry.held_back.filter(|(_, with)| *with != job);
        }
    }
}

/// Whether a decision repeats a failed one.
trait IsRetry {
    fn reason_is_retry(&self) -> bool;
}

impl IsRetry for Decision {
    fn reason_is_retry(&self) -> bool {
        matches!(
            self.reason,
            Reason::Again(AgainReason::BeginsAnew { .. }) | Reason::Again(AgainReason::Retry { .. })
        )
    }
}
