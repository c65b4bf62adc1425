//! Why the scheduler asks for something, with the figures behind it.

use std::fmt;
use std::time::Duration;

use pinfold_place::pack::Level;

use crate::api::ids::JobId;
use crate::api::memory_reason::{MemoryReason, mib};
use crate::api::share_reason::ShareReason;

/// Why something was decided, with the numbers behind it. `Display` gives the sentence people read.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Reason {
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
    /// None of its list waits any more, and those that are left share the cores.
    LastOfList,
    /// It was one of the last of its list, which share the cores, and is not any more.
    NotLastOfList,
    /// The set of cores that it asked for has enough of them free.
    SetFree {
        /// The set's name.
        set: String,
    },
    /// The cores it was on were set aside for others.
    SetAside {
        /// The set's name.
        set: String,
    },
    /// Scheduling is off: jobs start at once.
    Unscheduled,
    /// A primary ended and left its home core to the oldest backfiller.
    Promoted {
        /// The primary that ended.
        after: JobId,
    },
    /// A home core fell free for another cause than a primary's end (hotplug, settings, a suspension).
    PromotedToFreeCore,
    /// A job of higher priority took the home core, or the slot.
    Preempted {
        /// The job that took it.
        by: JobId,
        /// Its priority.
        priority: u8,
    },
    /// Another core was idler for long enough.
    IdlerCore {
        /// How much idler, in thousandths.
        gap_milli: u16,
    },
    /// It made room, so that a wider job finds its cores close together.
    MadeRoom {
        /// The wider job.
        by: JobId,
        /// The domain that job has now.
        level: Level,
        /// What those who made room and changed NUMA nodes hold, in bytes.
        memory_bytes: u64,
    },
    /// The PUs it was bound to are gone or no longer allowed.
    CpusGone,
    /// The cores it is bound to have other usable PUs now.
    CpusChanged,
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
    /// A user or operator asked for it.
    Asked,
    /// A user or operator changed its priority.
    PriorityChanged {
        /// The new priority.
        priority: u8,
    },
    /// The queue was full.
    QueueFull {
        /// Jobs that may wait.
        depth: usize,
    },
    /// It waited longer than it may.
    Expired {
        /// How long it might wait.
        ttl: Duration,
    },
    /// It needs more cores than the machine lets anyone have.
    TooLarge {
        /// Cores asked for.
        asked: u32,
        /// Cores there are.
        cores: usize,
    },
    /// Whoever asked for it is gone.
    Withdrawn,
    /// Found again after a restart of the daemon.
    Adopted,
    /// What was found after a restart no longer fits; put right.
    Restored,
    /// It was ended for others, and starts again.
    BeginsAnew {
        /// Why it was ended.
        why: String,
    },
    /// An earlier try failed, and this makes good for it.
    Retry {
        /// Why the earlier try failed.
        error: String,
    },
    /// What is whose.
    Share(ShareReason),
    /// Memory.
    Memory(MemoryReason),
}

fn made_room(f: &mut fmt::Formatter<'_>, by: JobId, level: Level, memory_bytes: u64) -> fmt::Result {
    let domain = match level {
        Level::L3 => "behind one L3",
        Level::Numa => "at one NUMA node",
        Level::Socket => "on one socket",
        Level::Machine => "on one machine",
    };
    write!(f, "it made room, so that job {by} has its cores {domain}")?;
    if memory_bytes > 0 { write!(f, " ({} change nodes)", mib(memory_bytes)) } else { Ok(()) }
}

impl fmt::Display for Reason {
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
            Self::LastOfList => {
                write!(f, "none of its list waits any more: those left of it share the cores evenly")
            }
            Self::NotLastOfList => {
                write!(
                    f,
                    "it is no more one of the last of its list: it runs in the cycles that primaries leave"
                )
            }
            Self::SetFree { set } => write!(f, "enough cores of its set {set} were free"),
            Self::SetAside { set } => write!(f, "its cores are set aside as {set}"),
            Self::Unscheduled => write!(f, "scheduling is off, jobs start at once"),
            Self::Promoted { after } => {
                write!(f, "job {after} ended and left its home core to the oldest backfiller")
            }
            Self::PromotedToFreeCore => write!(f, "a home core fell free"),
            Self::Preempted { by, priority } => {
                write!(f, "job {by} of priority {priority} took its place")
            }
            Self::IdlerCore { gap_milli } => {
                write!(f, "another core was idler by {}.{}%", gap_milli / 10, gap_milli % 10)
            }
            Self::MadeRoom { by, level, memory_bytes } => made_room(f, *by, *level, *memory_bytes),
            Self::Share(reason) => reason.fmt(f),
            Self::CpusChanged => write!(f, "the usable PUs of its cores changed"),
            Self::CpusGone => write!(f, "the PUs it was bound to are gone or no longer allowed"),
            Self::Exclusive { by } => write!(f, "the exclusive job {by} takes every slot"),
            Self::ExclusiveOver => write!(f, "the exclusive job ended"),
            Self::Protected { allowed } => {
                write!(f, "primaries are protected, and leave room for {allowed} backfillers")
            }
            Self::SlotsShrank { slots } => f.write_str(&slots_left(*slots)),
            Self::Interferes { with, waited_milli, usual_milli } => {
                let part = |milli: &u16| format!("{}.{} %", milli / 10, milli % 10);
                let (waited, usual) = (part(waited_milli), part(usual_milli));
                write!(f, "job {with} waited {waited} of the time for a core beside it, {usual} is usual")
            }
            Self::Memory(reason) => reason.fmt(f),
            Self::SlotFree => write!(f, "a slot is free again"),
            Self::Asked => write!(f, "a user or operator asked for it"),
            Self::PriorityChanged { priority } => write!(f, "its priority is now {priority}"),
            Self::QueueFull { depth } => write!(f, "the queue is full ({depth} jobs wait)"),
            Self::Expired { ttl } => {
                write!(f, "it waited longer than its time-to-live of {} s", ttl.as_secs_f64())
            }
            Self::TooLarge { asked, cores } => {
                write!(f, "it asks for {asked} cores and the machine has {cores} for jobs")
            }
            Self::Withdrawn => write!(f, "its client is gone"),
            Self::Adopted => write!(f, "found again after a restart of the daemon"),
            Self::Restored => write!(f, "put right after a restart of the daemon"),
            Self::BeginsAnew { why } => write!(f, "it is requeued: {why}"),
            Self::Retry { error } => write!(f, "an earlier try failed: {error}"),
        }
    }
}

fn slots_left(slots: usize) -> String {
    match slots {
        0 => "no slot is left".to_owned(),
        1 => "only 1 slot is left".to_owned(),
        _ => format!("only {slots} slots are left"),
    }
}
