//! Mistakes made on purpose between the policy and the rest, to see that the checks find each.

use std::time::Duration;

use pinfold_policy::drift::Verdict;
use pinfold_policy::{
    Action, Adopted, Class, Command, CoreReason, Decision, Event, JobId, Reason, Settings, SlotReason,
};
use pinfold_topo::CpuSet;

use crate::ledger::{Ledger, Phase};

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// A home falls free and no backfiller gets it.
    DropPromotion,
    /// A frozen job is not thawed.
    ForgetThaw,
    /// A primary starts on the home of another.
    ShareHome,
    /// A waiting job starts without a decision.
    StartBeyondSlots,
    /// The end of a job goes unnoticed.
    DropExit,
    /// A held job is released without a report.
    IgnoreRelease,
    /// A running job is frozen for nothing.
    FreezeForNothing,
    /// A job is started twice.
    StartTwice,
    /// A start is decided and not executed.
    DropStart,
    /// A job that is moved is not bound anew.
    DropBind,
    /// A job that should make way for an exclusive job continues.
    DropFreeze,
    /// New settings are dropped.
    IgnoreSettings,
    /// Changes of the machine are dropped.
    IgnoreHotplug,
    /// A job is lost at a restart.
    ForgetAtRestart,
    /// A failure is not reported.
    IgnoreFailure,
    /// Nothing is any project's own.
    IgnoreShares,
    /// Projects take more than is their own.
    DoubleShares,
    /// As many backfill jobs run as there are slots.
    IgnoreProtection,
    /// Reports of idle cores are dropped.
    IgnoreIdleness,
    /// Limits of arrays are dropped.
    IgnoreArrays,
    /// Cpuset constraints are dropped.
    IgnoreBorders,
    /// No backfiller is held back.
    NeverHoldBack,
    /// Backfillers are held back, wanted or not.
    AlwaysHoldBack,
    /// All jobs count as a single list.
    OneList,
    /// No job counts as part of a list.
    NoLists,
    /// Others run on the cores that are a job's alone.
    ShareIsolated,
    /// Isolated cores stay reserved after the job's end.
    KeepIsolated,
    /// No job is ever isolated.
    NeverIsolate,
    /// Cores are isolated regardless of jobs on them.
    IsolateAnywhere,
    /// A job that can never be isolated is not refused.
    NeverRefuseIsolated,
    /// Isolated cores are lost at a restart.
    ForgetIsolated,
    /// Drift is not corrected.
    NeverHeal,
    /// Drift is corrected every time.
    AlwaysHeal,
    /// Two that insist are left for a minute each time.
    LeaveForAMinute,
    /// Drift is reported twice.
    TellTwice,
    /// The first request for a job counts for ever.
    RememberFirst,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 36] = [
        Self::DropPromotion,
        Self::ForgetThaw,
        Self::ShareHome,
        Self::StartBeyondSlots,
        Self::DropExit,
        Self::IgnoreRelease,
        Self::FreezeForNothing,
        Self::StartTwice,
        Self::DropStart,
        Self::DropBind,
        Self::DropFreeze,
        Self::IgnoreSettings,
        Self::IgnoreHotplug,
        Self::ForgetAtRestart,
        Self::IgnoreFailure,
        Self::IgnoreShares,
        Self::DoubleShares,
        Self::IgnoreProtection,
        Self::IgnoreIdleness,
        Self::IgnoreArrays,
        Self::IgnoreBorders,
        Self::NeverHoldBack,
        Self::AlwaysHoldBack,
        Self::OneList,
        Self::NoLists,
        Self::ShareIsolated,
        Self::KeepIsolated,
        Self::NeverIsolate,
        Self::IsolateAnywhere,
        Self::NeverRefuseIsolated,
        Self::ForgetIsolated,
        Self::NeverHeal,
        Self::AlwaysHeal,
        Self::LeaveForAMinute,
        Self::TellTwice,
        Self::RememberFirst,
    ];

    /// The verdict on a setting, changed by the mistake.
    pub(crate) fn judge(self, verdict: Verdict) -> Verdict {
        match (self, verdict) {
            (Self::NeverHeal, Verdict::Heal) => Verdict::Wait,
            (Self::AlwaysHeal, Verdict::Leave(_)) => Verdict::Heal,
            (Self::LeaveForAMinute, Verdict::Leave(_)) => Verdict::Leave(Duration::from_secs(60)),
            _ => verdict,
        }
    }

    /// The event for the policy, changed by the mistake.
    pub(crate) fn hear_event(self, mut event: Event) -> Event {
        match &mut event {
            Event::Configure(settings) => *settings = self.hear(settings.clone()),
            Event::Submit(request) | Event::Adopt(Adopted { request, .. }) => match (self, &mut request.wish)
            {
                (Self::IgnoreArrays, _) => request.array = None,
                (Self::OneList, _) => request.list = Some(0),
                (Self::NoLists, _) => request.list = None,
                (Self::IgnoreBorders, Some(wish)) => wish.within = CpuSet::new(),
                _ => {}
            },
            _ => {}
        }
        event
    }

    /// The settings for the policy, changed by the mistake.
    pub(crate) fn hear(self, mut settings: Settings) -> Settings {
        match self {
            Self::IgnoreShares => settings.projects.clear(),
            Self::IgnoreProtection => settings.protect_milli = 0,
            Self::NeverHoldBack => settings.hold_back = false,
            Self::AlwaysHoldBack => settings.hold_back = true,
            Self::DoubleShares => {
                let cores = settings.projects.iter_mut().filter_map(|project| project.cores.as_mut());
                cores.for_each(|cores| *cores *= 2);
            }
            _ => {}
        }
        settings
    }

    /// Whether the event is dropped.
    pub(crate) fn swallows(self, event: &Event) -> bool {
        match self {
            Self::DropExit => matches!(event, Event::Exited(_)),
            Self::IgnoreRelease => matches!(event, Event::Command(_, Command::Release)),
            Self::IgnoreSettings => matches!(event, Event::Configure(_)),
            Self::IgnoreHotplug => matches!(event, Event::Machine(_)),
            Self::ForgetAtRestart => matches!(event, Event::Adopt(_)),
            Self::IgnoreFailure => matches!(event, Event::Failed { .. }),
            Self::IgnoreIdleness => matches!(event, Event::Sample(_)),
            _ => false,
        }
    }

    /// Applies the mistake to the decisions.
    pub(crate) fn twist(self, decisions: &mut Vec<Decision>, ledger: &Ledger) {
        match self {
            Self::DropPromotion => decisions.retain(|decision| {
                !matches!(decision.action, Action::Weigh { class: Class::Primary, .. })
                    || !matches!(
                        decision.reason,
                        Reason::Core(CoreReason::Promoted { .. })
                            | Reason::Core(CoreReason::PromotedToFreeCore)
                    )
            }),
            Self::ForgetThaw => decisions.retain(|decision| decision.action != Action::Thaw),
            Self::ShareHome => share_home(decisions, ledger),
            Self::StartBeyondSlots => {
                let waits = |job: &JobId| ledger.jobs[job].phase == Phase::Waiting && !ledger.jobs[job].held;
                let job = ledger.jobs.keys().copied().find(waits);
                decisions.extend(job.map(|job| Decision {
                    job,
                    action: Action::Start { class: Class::Backfill, cpus: CpuSet::new(), priority: 10 },
                    reason: Reason::Slot(SlotReason::BackfillSlotFree { used: 0, slots: 0 }),
                }));
            }
            Self::FreezeForNothing => {
                let runs = |job: &JobId| ledger.jobs[job].phase == Phase::Running && !ledger.jobs[job].frozen;
                let job = ledger.jobs.keys().copied().find(runs);
                decisions.extend(job.map(|job| Decision {
                    job,
                    action: Action::Freeze,
                    reason: Reason::Slot(SlotReason::SlotsShrank { slots: 0 }),
                }));
            }
            Self::StartTwice => {
                let starts = |decision: &&Decision| matches!(decision.action, Action::Start { .. });
                let again = decisions.iter().find(starts).cloned();
                decisions.extend(again);
            }
            Self::DropStart => {
                decisions.retain(|decision| !matches!(decision.action, Action::Start { .. }));
            }
            Self::DropBind => decisions.retain(|decision| !matches!(decision.action, Action::Bind { .. })),
            Self::DropFreeze => decisions.retain(|decision| decision.action != Action::Freeze),
            Self::DropExit
            | Self::IgnoreRelease
            | Self::IgnoreSettings
            | Self::IgnoreHotplug
            | Self::ForgetAtRestart
            | Self::IgnoreFailure
            | Self::IgnoreShares
            | Self::DoubleShares
            | Self::IgnoreProtection
            | Self::IgnoreIdleness
            | Self::IgnoreArrays
            | Self::IgnoreBorders
            | Self::NeverHoldBack
            | Self::AlwaysHoldBack
            | Self::OneList
            | Self::NoLists
            | Self::ShareIsolated
            | Self::KeepIsolated
            | Self::NeverIsolate
            | Self::IsolateAnywhere
            | Self::NeverRefuseIsolated
            | Self::ForgetIsolated
            | Self::NeverHeal
            | Self::AlwaysHeal
            | Self::LeaveForAMinute
            | Self::TellTwice
            | Self::RememberFirst => {}
        }
    }
}

fn share_home(decisions: &mut [Decision], ledger: &Ledger) {
    let home = ledger
        .jobs
        .values()
        .find(|entry| entry.holds_slot() && entry.class == Class::Primary)
        .map(|entry| entry.cpus.clone());
    let starts = decisions.iter_mut().find_map(|decision| match &mut decision.action {
        Action::Start { class: Class::Primary, cpus, .. } => Some(cpus),
        _ => None,
    });
    if let (Some(home), Some(cpus)) = (home, starts) {
        *cpus = home;
    }
}
