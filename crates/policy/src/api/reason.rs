//! Why the scheduler asks for something, with the figures behind it.

use std::fmt;
use std::time::Duration;

use pinfold_place::pack::Level;

use crate::api::causes::{MemoryBinding, Unthrottled};
use crate::api::ids::JobId;

/// Why something was decided, with the numbers behind it. `Display` gives the sentence people read.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// Those it belongs to have a right to so many cores, and did not have them all.
    Guaranteed {
        /// Its project; `None`: those of no project.
        project: Option<String>,
        /// Home cores they have now.
        used: usize,
        /// Home cores that are theirs when they want them.
        cores: usize,
    },
    /// What it had was lent to it, and those who have a right to it want it back.
    TakenBack {
        /// The project that takes it; `None`: those of no project.
        project: Option<String>,
        /// The job that gets it.
        by: JobId,
    },
    /// The memory that it holds was lent to it, and those who have a right to it want it back.
    MemoryTakenBack {
        /// The project that takes it; `None`: those of no project.
        project: Option<String>,
        /// The job that waits for it.
        by: JobId,
        /// What that job lacks, in bytes.
        lacking: u64,
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
    /// Memory ran short, or would have soon.
    MemoryShort {
        /// Bytes that were free for jobs.
        free: u64,
        /// By how much the running jobs grew, in bytes per second.
        growth: u64,
        /// The job that goes on whatever happens.
        token: JobId,
    },
    /// Memory would run short within two seconds, as things go.
    GrowsTooFast {
        /// Bytes that were free for jobs.
        free: u64,
        /// By how much it grew, in bytes per second.
        growth: u64,
        /// The job that goes on whatever happens.
        token: JobId,
    },
    /// What it was slowed for is over.
    MayGrow {
        /// Why.
        why: Unthrottled,
    },
    /// Where its memory may lie follows from where its cores are, and from who shares the nodes beside them.
    Near {
        /// Why.
        why: MemoryBinding,
    },
    /// It holds the token: it goes on whatever happens.
    GoesFirst,
    /// It does not hold the token any more.
    GoesFirstNoMore,
    /// Memory could be had in no other way: everyone else stands still, and swap takes nothing more.
    NoOtherWay {
        /// What those who go on lack, in bytes.
        lacking: u64,
        /// How often it was put back in the queue, this time included.
        times: u32,
        /// How often it may be.
        most: u32,
    },
    /// Memory will soon be had in no other way, and it can write down what it has done.
    NoRoomSoon {
        /// What those who go on will lack, in bytes,
        lacking: u64,
        /// within so long.
        within: Duration,
    },
    /// It has written down what it has done.
    Checkpointed,
    /// It could not write down what it has done.
    NotCheckpointed {
        /// Why.
        error: String,
    },
    /// Running jobs need the room that it holds.
    MemoryNeeded {
        /// What they need, in bytes.
        needed: u64,
        /// What is free, in bytes.
        free: u64,
    },
    /// Its memory is free now, though not for long.
    ForNow {
        /// What it is expected to need, in bytes.
        wanted: u64,
        /// What all may come to lack, in bytes.
        lacking: u64,
    },
    /// The next to start lacks memory that this one gets on without.
    NextLacks {
        /// What it lacks, in bytes.
        lacking: u64,
    },
    /// Memory will be short soon, and it may get on without some of its own.
    Probed {
        /// Within so long.
        within: Duration,
    },
    /// Memory suffices again for a job that was frozen for want of it.
    MemorySuffices {
        /// Bytes free for jobs.
        free: u64,
        /// What it holds in swap, in bytes.
        swapped: u64,
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
    /// An earlier try failed, and this makes good for it.
    Retry {
        /// Why the earlier try failed.
        error: String,
    },
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
            Self::HomeCoreFree { .. }
            | Self::BackfillSlotFree { .. }
            | Self::BackfillAsked { .. }
            | Self::LastOfList
            | Self::NotLastOfList => self.write_class(f),
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
            Self::Guaranteed { .. } | Self::TakenBack { .. } | Self::MemoryTakenBack { .. } => {
                self.write_lent(f)
            }
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
            Self::MemoryShort { .. }
            | Self::GrowsTooFast { .. }
            | Self::MayGrow { .. }
            | Self::GoesFirst
            | Self::GoesFirstNoMore
            | Self::NoOtherWay { .. }
            | Self::NoRoomSoon { .. }
            | Self::Checkpointed
            | Self::NotCheckpointed { .. }
            | Self::MemoryNeeded { .. }
            | Self::Probed { .. }
            | Self::ForNow { .. }
            | Self::NextLacks { .. }
            | Self::MemorySuffices { .. } => self.write_memory(f),
            Self::Near { why } => f.write_str(why.words()),
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
            Self::Withdrawn => write!(f, "whoever asked for it is gone"),
            Self::Adopted => write!(f, "found again after a restart of the daemon"),
            Self::Restored => write!(f, "put right after a restart of the daemon"),
            Self::Retry { error } => write!(f, "an earlier try failed: {error}"),
        }
    }
}

fn has(project: Option<&str>) -> String {
    project
        .map_or_else(|| "jobs of no project have".to_owned(), |name| format!("jobs of project {name} have"))
}

fn take(project: Option<&str>) -> String {
    project.map_or_else(|| "jobs of no project take".to_owned(), |name| format!("project {name} takes"))
}

impl Reason {
    /// Those that speak of what a slot is worth.
    fn write_class(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
            _ => Ok(()),
        }
    }

    /// Those that speak of what is whose.
    fn write_lent(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guaranteed { project, used, cores } => {
                write!(f, "{} {used} of the {cores} cores that are theirs", has(project.as_deref()))
            }
            Self::TakenBack { project, by } => {
                write!(f, "it was lent, and {} it back for job {by}", take(project.as_deref()))
            }
            Self::MemoryTakenBack { project, by, lacking } => write!(
                f,
                "memory was lent to it, and {} {} back for job {by}",
                take(project.as_deref()),
                mib(*lacking)
            ),
            _ => Ok(()),
        }
    }

    /// Those that speak of memory.
    fn write_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MemoryShort { free, growth, token } => write!(
                f,
                "memory runs short: {} free, growing by {} a second; job {token} goes first",
                mib(*free),
                mib(*growth)
            ),
            Self::GrowsTooFast { free, growth, token } => write!(
                f,
                "memory would run short in two seconds: {} free, and it grows by {} a second; job {token} goes first",
                mib(*free),
                mib(*growth)
            ),
            Self::MayGrow { why } => f.write_str(why.words()),
            Self::GoesFirst => f.write_str("it goes first for memory"),
            Self::GoesFirstNoMore => f.write_str("another job goes first for memory"),
            Self::NoOtherWay { lacking, times, most } => write!(
                f,
                "memory could be had in no other way ({} more needed, nobody left to freeze, no swap); \
                 it goes back in the queue, time {times} of at most {most}",
                mib(*lacking)
            ),
            Self::NoRoomSoon { lacking, within } => write!(
                f,
                "memory will soon be had in no other way ({} more needed within {} s, nobody left to freeze, no swap)",
                mib(*lacking),
                within.as_secs()
            ),
            Self::Checkpointed => {
                f.write_str("its checkpoint is written; it goes back in the queue, to go on from there")
            }
            Self::NotCheckpointed { error } => {
                write!(f, "its checkpoint failed ({error}), so it only stands still")
            }
            Self::MemoryNeeded { needed, free } => {
                write!(f, "the running jobs need {} and {} are free", mib(*needed), mib(*free))
            }
            Self::NextLacks { lacking } => {
                write!(f, "the next to start lacks {}, and this one gets on without", mib(*lacking))
            }
            Self::ForNow { wanted, lacking } => write!(
                f,
                "memory suffices for now: the {} that it needs are free, though the running jobs may come to lack {}",
                mib(*wanted),
                mib(*lacking)
            ),
            Self::Probed { within } => write!(
                f,
                "memory would run short within {} s: this shows whether it gets on with a little less",
                within.as_secs()
            ),
            Self::MemorySuffices { free, swapped: 0 } => {
                write!(f, "memory suffices again: {} free", mib(*free))
            }
            Self::MemorySuffices { free, swapped } => {
                write!(
                    f,
                    "memory suffices again: {} free, {} to come back from swap",
                    mib(*free),
                    mib(*swapped)
                )
            }
            _ => Ok(()),
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

/// A size for people.
pub(crate) fn mib(bytes: u64) -> String {
    match bytes >> 20 {
        0 if bytes > 0 => "less than 1 MiB".to_owned(),
        mib if mib >= 10_240 => format!("{} GiB", mib >> 10),
        mib => format!("{mib} MiB"),
    }
}
