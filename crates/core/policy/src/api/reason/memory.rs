//! Reasons that speak of memory.

use std::fmt;
use std::time::Duration;

use crate::api::code::{Figure, figures};
use crate::api::ids::JobId;
use crate::api::reason::causes::{MemoryBinding, Unthrottled};

/// Why something was decided for the sake of memory.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MemoryReason {
    /// Memory ran short, or would have soon.
    Short {
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
    /// What it was throttled for is over.
    MayGrow {
        /// Why.
        why: Unthrottled,
    },
    /// Where its memory may lie follows from where its cores are, and from who shares the nodes beside them.
    Binding {
        /// Why.
        why: MemoryBinding,
    },
    /// It holds the token: it goes on whatever happens.
    GoesFirst,
    /// It does not hold the token any more.
    GoesFirstNoMore,
    /// Memory could be had in no other way: every other job is suspended, and swap takes nothing more.
    NoOtherWay {
        /// What those that go on lack, in bytes.
        lacking: u64,
        /// How often it was put back in the queue, this time included.
        times: u32,
        /// How often it may be.
        most: u32,
    },
    /// Memory will soon be had in no other way, and it can write down what it has done.
    NoRoomSoon {
        /// What those that go on will lack, in bytes,
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
    Needed {
        /// What they need, in bytes.
        needed: u64,
        /// What is free, in bytes.
        free: u64,
    },
    /// Its memory is free now, though not for long.
    Overcommitted {
        /// What it is expected to need, in bytes.
        wanted: u64,
        /// What all may come to lack, in bytes.
        lacking: u64,
    },
    /// The next to start lacks memory that is cold in this one.
    NextLacks {
        /// What it lacks, in bytes.
        lacking: u64,
    },
    /// Memory will be short soon, and some of its own may be cold.
    Probed {
        /// Within so long.
        within: Duration,
    },
    /// Memory suffices again for a job that was frozen for want of it.
    Suffices {
        /// Bytes free for jobs.
        free: u64,
        /// What it holds in swap, in bytes.
        swapped: u64,
    },
}

impl MemoryReason {
    /// Its code and its figures.
    pub(super) fn parts(&self) -> (&'static str, Vec<Figure>) {
        match self {
            Self::Short { free, growth, token } => ("memory_short", growing(*free, *growth, *token)),
            Self::GrowsTooFast { free, growth, token } => ("grows_too_fast", growing(*free, *growth, *token)),
            Self::MayGrow { why } => ("may_grow", figures!["cause": Code(why.code())]),
            Self::Binding { why } => ("memory_binding", figures!["cause": Code(why.code())]),
            Self::GoesFirst => ("token", Vec::new()),
            Self::GoesFirstNoMore => ("token_passed_on", Vec::new()),
            Self::NoOtherWay { lacking, times, most } => (
                "no_other_way",
                figures![
                    "lacking_bytes": Number(*lacking),
                    "times": Number((*times).into()),
                    "most": Number((*most).into()),
                ],
            ),
            Self::NoRoomSoon { lacking, within } => {
                ("no_room_soon", figures!["lacking_bytes": Number(*lacking), "within_s": Time(*within)])
            }
            Self::Checkpointed => ("checkpointed", Vec::new()),
            Self::NotCheckpointed { error } => {
                ("not_checkpointed", figures!["error": Text(Some(error.clone()))])
            }
            Self::Needed { needed, free } => {
                ("memory_needed", figures!["needed_bytes": Number(*needed), "free_bytes": Number(*free)])
            }
            Self::Overcommitted { wanted, lacking } => (
                "overcommitted",
                figures!["wanted_bytes": Number(*wanted), "lacking_bytes": Number(*lacking)],
            ),
            Self::NextLacks { lacking } => ("next_lacks_memory", figures!["lacking_bytes": Number(*lacking)]),
            Self::Probed { within } => ("reclaim_probe", figures!["within_s": Time(*within)]),
            Self::Suffices { free, swapped } => {
                ("memory_suffices", figures!["free_bytes": Number(*free), "swapped_bytes": Number(*swapped)])
            }
        }
    }
}

fn growing(free: u64, growth: u64, token: JobId) -> Vec<Figure> {
    figures!["free_bytes": Number(free), "growth_bytes_per_s": Number(growth), "token": Job(token)]
}

impl fmt::Display for MemoryReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { free, growth, token } => write!(
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
                write!(f, "its checkpoint failed ({error}), so it is only suspended")
            }
            Self::Needed { needed, free } => {
                write!(f, "the running jobs need {} and {} are free", mib(*needed), mib(*free))
            }
            Self::NextLacks { lacking } => {
                write!(
                    f,
                    "the next to start lacks {}, and this one holds so much that it does not use",
                    mib(*lacking)
                )
            }
            Self::Overcommitted { wanted, lacking } => write!(
                f,
                "memory suffices for now: the {} that it needs are free, though the running jobs may come to lack {}",
                mib(*wanted),
                mib(*lacking)
            ),
            Self::Probed { within } => write!(
                f,
                "memory would run short within {} s: this shows whether it runs as well with a little less",
                within.as_secs()
            ),
            Self::Suffices { free, swapped: 0 } => {
                write!(f, "memory suffices again: {} free", mib(*free))
            }
            Self::Suffices { free, swapped } => {
                write!(
                    f,
                    "memory suffices again: {} free, {} to come back from swap",
                    mib(*free),
                    mib(*swapped)
                )
            }
            Self::Binding { why } => f.write_str(why.words()),
        }
    }
}

/// A size for people. Of GiB it has tenths, so that sums come out.
pub(crate) fn mib(bytes: u64) -> String {
    match bytes >> 20 {
        0 if bytes > 0 => "less than 1 MiB".to_owned(),
        mib if mib >= 10_240 => format!("{}.{} GiB", mib >> 10, ((mib & 1023) * 10) >> 10),
        mib => format!("{mib} MiB"),
    }
}
