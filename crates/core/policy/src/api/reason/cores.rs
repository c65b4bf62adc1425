//! Reasons that speak of cores: why a job is on others than before, or shares them otherwise.

use std::fmt;

use pinfold_place::pack::Level;

use crate::api::code::{Figure, figures};
use crate::api::ids::JobId;
use crate::api::reason::memory::mib;

/// Why the cores of a job are others.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum CoreReason {
    /// None of its list waits any more, and those that are left share the cores.
    LastOfList,
    /// It was one of the last of its list, which share the cores, and is not any more.
    NotLastOfList,
    /// The cores it was on were set aside for others.
    SetAside {
        /// The set's name.
        set: String,
    },
    /// A primary ended and left its home core to the oldest backfiller.
    Promoted {
        /// The primary that ended.
        after: JobId,
    },
    /// A home core fell free for another cause than a primary's end (hotplug, settings, a suspension).
    PromotedToFreeCore,
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
        /// What those that made room and changed NUMA nodes hold, in bytes.
        memory_bytes: u64,
    },
    /// The PUs it was bound to are gone or no longer allowed.
    CpusGone,
    /// The cores it is bound to have other usable PUs now.
    CpusChanged,
}

impl CoreReason {
    /// Its code and its figures.
    pub(super) fn parts(&self) -> (&'static str, Vec<Figure>) {
        match self {
            Self::LastOfList => ("last_of_list", Vec::new()),
            Self::NotLastOfList => ("not_last_of_list", Vec::new()),
            Self::SetAside { set } => {
                ("reserved_for_others", figures!["reservation": Text(Some(set.clone()))])
            }
            Self::Promoted { after } => ("promoted", figures!["after": Job(*after)]),
            Self::PromotedToFreeCore => ("promoted_to_free_core", Vec::new()),
            Self::IdlerCore { gap_milli } => {
                ("idler_core", figures!["gap_milli": Number((*gap_milli).into())])
            }
            Self::MadeRoom { by, level: domain, memory_bytes } => (
                "made_room",
                figures!["by": Job(*by), "domain": Code(level(*domain)), "memory_bytes": Number(*memory_bytes)],
            ),
            Self::CpusGone => ("cpus_gone", Vec::new()),
            Self::CpusChanged => ("cpus_changed", Vec::new()),
        }
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::L3 => "l3",
        Level::Numa => "numa",
        Level::Socket => "socket",
        Level::Machine => "machine",
    }
}

impl fmt::Display for CoreReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LastOfList => {
                write!(f, "none of its list waits any more: those left of it share the cores evenly")
            }
            Self::NotLastOfList => write!(
                f,
                "it is no more one of the last of its list: it runs in the cycles that primaries leave"
            ),
            Self::SetAside { set } => write!(f, "its cores are set aside as {set}"),
            Self::Promoted { after } => {
                write!(f, "job {after} ended and left its home core to the oldest backfiller")
            }
            Self::PromotedToFreeCore => write!(f, "a home core fell free"),
            Self::IdlerCore { gap_milli } => {
                write!(f, "another core was idler by {}.{}%", gap_milli / 10, gap_milli % 10)
            }
            Self::MadeRoom { by, level, memory_bytes } => made_room(f, *by, *level, *memory_bytes),
            Self::CpusGone => write!(f, "the PUs it was bound to are gone or no longer allowed"),
            Self::CpusChanged => write!(f, "the usable PUs of its cores changed"),
        }
    }
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
