//! Reasons that speak of slots: why a job has one, and why it has none any more.

use std::fmt;

use crate::api::code::{Figure, count, figures};
use crate::api::ids::JobId;

/// Why a job has a slot or has none any more.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum SlotReason {
    /// A home core was free.
    HomeCoreFree {
        /// Slots in use, this job included.
        used: usize,
        /// All slots.
        slots: usize,
    },
    /// No home core was free, but a slot was.
    BackfillSlotFree {
        /// Slots in use, this job included.
        used: usize,
        /// All slots.
        slots: usize,
    },
    /// It asked to be a backfiller, and a slot was free.
    BackfillAsked {
        /// Slots in use, this job included.
        used: usize,
        /// All slots.
        slots: usize,
    },
    /// The set of cores that it asked for has enough of them free.
    SetFree {
        /// The set's name.
        set: String,
    },
    /// Scheduling is off: jobs start at once.
    Unscheduled,
    /// A job of higher priority took the home core, or the slot.
    Preempted {
        /// The job that took it.
        by: JobId,
        /// Its priority.
        priority: u8,
    },
    /// An exclusive job needs every slot.
    Exclusive {
        /// The exclusive job.
        by: JobId,
    },
    /// The exclusive job ended.
    ExclusiveOver,
    /// Slots are fewer than running jobs (the factor or the machine shrank).
    SlotsShrank {
        /// All slots.
        slots: usize,
    },
    /// What primaries leave of the cores has room for so many backfillers only.
    Protected {
        /// How many there may be.
        allowed: usize,
    },
    /// A primary beside it waited for a core, three times more than is usual for it.
    Interferes {
        /// The primary.
        with: JobId,
        /// The part of the time it waited, in thousandths.
        waited_milli: u16,
        /// What is usual without backfillers.
        usual_milli: u16,
    },
    /// A slot is free again for a job that had been frozen for want of one.
    SlotFree,
}

impl SlotReason {
    /// Its code and its figures.
    pub(super) fn parts(&self) -> (&'static str, Vec<Figure>) {
        let taken = |used: usize, slots: usize| figures!["slots_used": Number(count(used)), "slots": Number(count(slots))];
        match self {
            Self::HomeCoreFree { used, slots } => ("home_core_free", taken(*used, *slots)),
            Self::BackfillSlotFree { used, slots } => ("backfill_slot_free", taken(*used, *slots)),
            Self::BackfillAsked { used, slots } => ("backfill_asked", taken(*used, *slots)),
            Self::SetFree { set } => ("reservation_free", figures!["reservation": Text(Some(set.clone()))]),
            Self::Unscheduled => ("unscheduled", Vec::new()),
            Self::Preempted { by, priority } => {
                ("preempted", figures!["by": Job(*by), "priority": Number((*priority).into())])
            }
            Self::Exclusive { by } => ("exclusive", figures!["by": Job(*by)]),
            Self::ExclusiveOver => ("exclusive_over", Vec::new()),
            Self::SlotsShrank { slots } => ("slots_shrank", figures!["slots": Number(count(*slots))]),
            Self::Protected { allowed } => ("headroom", figures!["allowed": Number(count(*allowed))]),
            Self::Interferes { with, waited_milli, usual_milli } => (
                "interference",
                figures![
                    "with": Job(*with),
                    "waited_milli": Number((*waited_milli).into()),
                    "usual_milli": Number((*usual_milli).into()),
                ],
            ),
            Self::SlotFree => ("slot_free", Vec::new()),
        }
    }
}

impl fmt::Display for SlotReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HomeCoreFree { used, slots } => {
                write!(f, "a home core was free ({used} of {slots} slots used)")
            }
            Self::BackfillSlotFree { used, slots } => {
                write!(f, "no home core was free but a slot was ({used} of {slots} slots used)")
            }
            Self::BackfillAsked { used, slots } => {
                write!(f, "it asked to be a backfiller and a slot was free ({used} of {slots} slots used)")
            }
            Self::SetFree { set } => write!(f, "enough cores of its set {set} were free"),
            Self::Unscheduled => write!(f, "scheduling is off, jobs start at once"),
            Self::Preempted { by, priority } => {
                write!(f, "job {by} of priority {priority} took its place")
            }
            Self::Exclusive { by } => write!(f, "the exclusive job {by} takes every slot"),
            Self::ExclusiveOver => write!(f, "the exclusive job ended"),
            Self::SlotsShrank { slots: 0 } => write!(f, "no slot is left"),
            Self::SlotsShrank { slots: 1 } => write!(f, "only 1 slot is left"),
            Self::SlotsShrank { slots } => write!(f, "only {slots} slots are left"),
            Self::Protected { allowed } => {
                write!(f, "primaries are protected, and leave room for {allowed} backfillers")
            }
            Self::Interferes { with, waited_milli, usual_milli } => {
                let part = |milli: &u16| format!("{}.{} %", milli / 10, milli % 10);
                let (waited, usual) = (part(waited_milli), part(usual_milli));
                write!(f, "job {with} waited {waited} of the time for a core beside it, {usual} is usual")
            }
            Self::SlotFree => write!(f, "a slot is free again"),
        }
    }
}
