//! Mistakes made on purpose in the ladder of the governor, to see that the checks find each.

use pinfold_policy::{Action, Decision, Event, JobId, MemoryReason, Reason, Request, Settings, SlotReason};

use crate::pressure::books::Books;

/// A mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutant {
    /// No job is frozen for memory.
    DropFreeze,
    /// A job frozen for memory does not return.
    ForgetReturn,
    /// The token holder is paged out for others.
    PageTokenOut,
    /// The oldest is frozen, not the youngest.
    FreezeOldest,
    /// Expected needs are ignored.
    IgnoreClaims,
    /// Jobs that may not be frozen are.
    IgnoreNoSuspend,
    /// All return at once.
    ReturnEverybody,
    /// Jobs start regardless of memory.
    AdmitEverybody,
    /// Later readings are ignored.
    IgnoreReadings,
    /// Far more is paged out than the device takes.
    PageOutTooMuch,
    /// The reserve and the bound on jobs are not looked at.
    IgnoreReserve,
    /// A job is lost at a restart.
    ForgetAtRestart,
    /// Jobs that do not allow a requeue are requeued.
    EndAnybody,
    /// Jobs are ended to begin anew where freezing would do.
    EndEarly,
    /// A throttled job stays throttled.
    ForgetSlowed,
    /// The token holder is slowed for others.
    SlowToken,
    /// Jobs are throttled although swap has no room for their pages.
    SlowInVain,
    /// A throttled job gets a bound out of its reach.
    BoundTooWide,
    /// A job that is slowed is suspended at once.
    FreezeSlowed,
    /// A protected job stays protected after it loses the token.
    KeepProtected,
    /// Projects' own memory is ignored.
    IgnoreProjects,
    /// Waits for memory are ignored.
    IgnoreWaits,
    /// A running job is paged out, cold-tolerant or not.
    PageAnybodyOut,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 23] = [
        Self::DropFreeze,
        Self::ForgetReturn,
        Self::PageTokenOut,
        Self::FreezeOldest,
        Self::IgnoreClaims,
        Self::IgnoreNoSuspend,
        Self::ReturnEverybody,
        Self::AdmitEverybody,
        Self::IgnoreReadings,
        Self::PageOutTooMuch,
        Self::IgnoreReserve,
        Self::ForgetAtRestart,
        Self::EndAnybody,
        Self::EndEarly,
        Self::ForgetSlowed,
        Self::SlowToken,
        Self::SlowInVain,
        Self::BoundTooWide,
        Self::FreezeSlowed,
        Self::KeepProtected,
        Self::IgnoreProjects,
        Self::IgnoreWaits,
        Self::PageAnybodyOut,
    ];

    /// The event for the policy, changed by the mistake; `None`: dropped.
    pub(crate) fn hear(self, event: Event, readings: u64) -> Option<Event> {
        match (self, event) {
            (Self::IgnoreClaims, Event::Learned(..)) | (Self::ForgetAtRestart, Event::Adopt(_)) => None,
            (Self::IgnoreClaims, Event::Submit(request)) => {
                Some(Event::Submit(Request { memory: None, kind: None, ..request }))
            }
            (Self::IgnoreNoSuspend, Event::Submit(request)) => {
                Some(Event::Submit(Request { no_suspend: false, ..request }))
            }
            (Self::EndAnybody, Event::Submit(request)) => {
                Some(Event::Submit(Request { requeue: true, ..request }))
            }
            (Self::IgnoreReadings, Event::Memory(_)) if readings > 1 => None,
            (Self::IgnoreReserve, Event::Memory(mut sample)) => {
                sample.available_bytes = sample.available_bytes * 3 / 2 + (256 << 20);
                Some(Event::Memory(sample))
            }
            (Self::IgnoreWaits, Event::Memory(mut sample)) => {
                for job in &mut sample.jobs {
                    job.waited_milli = Some(0);
                }
                Some(Event::Memory(sample))
            }
            (Self::SlowInVain, Event::Memory(mut sample)) => {
                for job in &mut sample.jobs {
                    job.cache_bytes = 1 << 30;
                }
                Some(Event::Memory(sample))
            }
            (_, Event::Configure(settings)) => Some(Event::Configure(self.set(settings))),
            (_, event) => Some(event),
        }
    }

    fn set(self, mut settings: Settings) -> Settings {
        match self {
            Self::ReturnEverybody => settings.memory.swap_slot = 1000,
            Self::IgnoreReserve => settings.memory.budget_bytes = u64::MAX,
            Self::IgnoreProjects => settings.projects.clear(),
            _ => {}
        }
        settings
    }

    /// Applies the mistake to the decisions.
    pub(crate) fn twist(self, decisions: &mut Vec<Decision>, books: &Books) {
        match self {
            Self::DropFreeze => decisions.retain(|decision| decision.action != Action::Freeze),
            Self::ForgetReturn => decisions.retain(|decision| decision.action != Action::Thaw),
            Self::PageOutTooMuch => {
                for decision in decisions {
                    if let Action::PageOut { bytes } = &mut decision.action {
                        *bytes *= 8;
                    }
                }
            }
            Self::PageTokenOut => {
                for decision in decisions {
                    if let (Action::PageOut { .. }, Some(token)) = (&decision.action, books.token) {
                        decision.job = token;
                    }
                }
            }
            Self::PageAnybodyOut => {
                for decision in decisions {
                    if let (Action::PageOut { .. }, Some(youngest)) =
                        (&decision.action, books.youngest_that_needs_all())
                    {
                        (decision.job, decision.reason) = (youngest, Reason::ASKED);
                    }
                }
            }
            Self::FreezeOldest => {
                for decision in decisions {
                    if let (Action::Freeze, Some(oldest)) = (&decision.action, books.oldest_running()) {
                        decision.job = oldest;
                    }
                }
            }
            Self::AdmitEverybody => {
                let waiting: Option<JobId> = books.first_waiting();
                decisions.extend(waiting.map(|job| Decision {
                    job,
                    action: Action::Start {
                        class: pinfold_policy::Class::Backfill,
                        cpus: pinfold_topo::CpuSet::new(),
                        priority: 10,
                    },
                    reason: Reason::Slot(SlotReason::BackfillSlotFree { used: 0, slots: 0 }),
                }));
            }
            Self::EndEarly => {
                for decision in decisions.iter_mut().filter(|decision| decision.action == Action::Freeze) {
                    decision.action = Action::Requeue;
                }
            }
            Self::ForgetSlowed => {
                decisions.retain(|decision| decision.action != Action::Slow { allowance: None });
            }
            Self::KeepProtected => {
                decisions.retain(|decision| decision.action != Action::Protect { bytes: 0 });
            }
            Self::SlowToken | Self::BoundTooWide | Self::FreezeSlowed => {
                self.twist_slowing(decisions, books.token);
            }
            Self::SlowInVain
            | Self::IgnoreClaims
            | Self::IgnoreNoSuspend
            | Self::ReturnEverybody
            | Self::IgnoreReadings
            | Self::IgnoreReserve
            | Self::ForgetAtRestart
            | Self::IgnoreProjects
            | Self::IgnoreWaits
            | Self::EndAnybody => {}
        }
    }

    /// Applies mistakes in throttling.
    fn twist_slowing(self, decisions: &mut Vec<Decision>, token: Option<JobId>) {
        let mut stand_still = Vec::new();
        for decision in decisions.iter_mut() {
            let Action::Slow { allowance: Some(bytes) } = &mut decision.action else { continue };
            match self {
                Self::BoundTooWide => *bytes = *bytes * 4 + (64 << 20),
                Self::SlowToken => decision.job = token.unwrap_or(decision.job),
                _ => stand_still.push(decision.job),
            }
        }
        decisions.extend(stand_still.into_iter().map(|job| Decision {
            job,
            action: Action::Freeze,
            reason: Reason::Memory(MemoryReason::Short { free: 0, growth: 0, token: token.unwrap_or(job) }),
        }));
    }
}
