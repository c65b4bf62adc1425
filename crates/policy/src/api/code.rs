//! Decisions as codes and figures: what programs read, and what does not change when words do.
//!
//! A code is a name that stays: logs, stored decisions and JSON carry it. A figure has a name with its unit last. Absent:
//! sentences for people ([`crate::Reason`] has them).

use std::time::Duration;

use pinfold_place::pack::Level;
use pinfold_topo::CpuSet;

use crate::api::action::Action;
use crate::api::ids::{Class, JobId};
use crate::api::memory_reason::MemoryReason;
use crate::api::reason::Reason;
use crate::api::share_reason::ShareReason;

/// A figure of a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// Its name in snake case, with the unit last where it has one: `free_bytes`, `within_s`.
    pub name: &'static str,
    /// Its value.
    pub value: Value,
}

/// The value of a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number: a count, bytes, thousandths, as the name says.
    Number(u64),
    /// A negative number or a signal.
    Signed(i32),
    /// A time; in seconds where it is written as a number.
    Time(Duration),
    /// A job.
    Job(JobId),
    /// A code of its own: a class, a level, a cause.
    Code(&'static str),
    /// What a user or another program named or said; `None`: nothing.
    Text(Option<String>),
    /// PUs, by the kernel's numbers.
    Cpus(CpuSet),
    /// NUMA nodes, by the kernel's numbers.
    Nodes(Vec<u32>),
}

impl serde::Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => to.serialize_u64(*number),
            Self::Signed(number) => to.serialize_i32(*number),
            Self::Time(time) => to.serialize_f64(time.as_secs_f64()),
            Self::Job(job) => to.serialize_u64(job.0),
            Self::Code(code) => to.serialize_str(code),
            Self::Text(text) => text.serialize(to),
            Self::Cpus(cpus) => to.collect_str(cpus),
            Self::Nodes(nodes) => nodes.serialize(to),
        }
    }
}

/// Makes a list of figures: `figures!["free_bytes": Number(free), ...]`.
macro_rules! figures {
    ($($name:literal: $kind:ident($value:expr)),* $(,)?) => {
        vec![$( $crate::api::code::Figure { name: $name, value: $crate::api::code::Value::$kind($value) } ),*]
    };
}

pub(crate) use figures;

fn count(count: usize) -> u64 {
    count as u64
}

impl Class {
    /// The class's code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Backfill => "backfill",
            Self::Exclusive => "exclusive",
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

impl Action {
    /// The action's code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Start { .. } => "start",
            Self::Bind { .. } => "bind",
            Self::Weigh { .. } => "weigh",
            Self::Freeze => "freeze",
            Self::Thaw => "thaw",
            Self::PageOut { .. } => "page_out",
            Self::Slow { allowance: Some(_) } => "throttle",
            Self::Slow { allowance: None } => "unthrottle",
            Self::Protect { .. } => "protect",
            Self::Near { .. } => "bind_memory",
            Self::Signal { .. } => "signal",
            Self::Requeue => "requeue",
            Self::Checkpoint => "checkpoint",
            Self::Drop { .. } => "drop",
        }
    }

    /// Its figures.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        match self {
            Self::Start { class, cpus, priority } => {
                figures!["class": Code(class.code()), "cpus": Cpus(cpus.clone()), "priority": Number((*priority).into())]
            }
            Self::Bind { cpus } => figures!["cpus": Cpus(cpus.clone())],
            Self::Weigh { class, priority, even } => figures![
                "class": Code(class.code()), "priority": Number((*priority).into()), "even": Number((*even).into()),
            ],
            Self::PageOut { bytes } | Self::Protect { bytes } => figures!["bytes": Number(*bytes)],
            Self::Slow { allowance: Some(bytes) } => figures!["allowance_bytes": Number(*bytes)],
            Self::Near { nodes } => figures!["nodes": Nodes(nodes.clone())],
            Self::Signal { signal } => figures!["signal": Signed(*signal)],
            Self::Drop { refused } => figures!["refused": Number((*refused).into())],
            Self::Freeze | Self::Thaw | Self::Slow { allowance: None } | Self::Requeue | Self::Checkpoint => {
                Vec::new()
            }
        }
    }
}

impl Reason {
    /// The reason's code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.parts().0
    }

    /// Its figures.
    #[must_use]
    pub fn figures(&self) -> Vec<Figure> {
        self.parts().1
    }

    #[expect(
        clippy::too_many_lines,
        reason = "a table with a line for each reason, which the compiler keeps whole"
    )]
    fn parts(&self) -> (&'static str, Vec<Figure>) {
        let slots = |used: usize, slots: usize| figures!["slots_used": Number(count(used)), "slots": Number(count(slots))];
        match self {
            Self::HomeCoreFree { used, slots: all } => ("home_core_free", slots(*used, *all)),
            Self::BackfillSlotFree { used, slots: all } => ("backfill_slot_free", slots(*used, *all)),
            Self::BackfillAsked { used, slots: all } => ("backfill_asked", slots(*used, *all)),
            Self::LastOfList => ("last_of_list", Vec::new()),
            Self::NotLastOfList => ("not_last_of_list", Vec::new()),
            Self::SetFree { set } => ("reservation_free", figures!["reservation": Text(Some(set.clone()))]),
            Self::SetAside { set } => {
                ("reserved_for_others", figures!["reservation": Text(Some(set.clone()))])
            }
            Self::Unscheduled => ("unscheduled", Vec::new()),
            Self::Promoted { after } => ("promoted", figures!["after": Job(*after)]),
            Self::PromotedToFreeCore => ("promoted_to_free_core", Vec::new()),
            Self::Preempted { by, priority } => {
                ("preempted", figures!["by": Job(*by), "priority": Number((*priority).into())])
            }
            Self::IdlerCore { gap_milli } => {
                ("idler_core", figures!["gap_milli": Number((*gap_milli).into())])
            }
            Self::MadeRoom { by, level: domain, memory_bytes } => (
                "made_room",
                figures!["by": Job(*by), "domain": Code(level(*domain)), "memory_bytes": Number(*memory_bytes)],
            ),
            Self::Share(ShareReason::Guaranteed { project, used, cores }) => (
                "guaranteed",
                figures![
                    "project": Text(project.clone()),
                    "cores_used": Number(count(*used)),
                    "cores": Number(count(*cores)),
                ],
            ),
            Self::Share(ShareReason::Reclaimed { project, by }) => {
                ("reclaimed", figures!["project": Text(project.clone()), "by": Job(*by)])
            }
            Self::Share(ShareReason::MemoryReclaimed { project, by, lacking }) => (
                "memory_reclaimed",
                figures!["project": Text(project.clone()), "by": Job(*by), "lacking_bytes": Number(*lacking)],
            ),
            Self::CpusGone => ("cpus_gone", Vec::new()),
            Self::CpusChanged => ("cpus_changed", Vec::new()),
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
            Self::Memory(MemoryReason::Short { free, growth, token }) => {
                ("memory_short", growing(*free, *growth, *token))
            }
            Self::Memory(MemoryReason::GrowsTooFast { free, growth, token }) => {
                ("grows_too_fast", growing(*free, *growth, *token))
            }
            Self::Memory(MemoryReason::MayGrow { why }) => ("may_grow", figures!["cause": Code(why.code())]),
            Self::Memory(MemoryReason::Binding { why }) => {
                ("memory_binding", figures!["cause": Code(why.code())])
            }
            Self::Memory(MemoryReason::GoesFirst) => ("token", Vec::new()),
            Self::Memory(MemoryReason::GoesFirstNoMore) => ("token_passed_on", Vec::new()),
            Self::Memory(MemoryReason::NoOtherWay { lacking, times, most }) => (
                "no_other_way",
                figures![
                    "lacking_bytes": Number(*lacking),
                    "times": Number((*times).into()),
                    "most": Number((*most).into()),
                ],
            ),
            Self::Memory(MemoryReason::NoRoomSoon { lacking, within }) => {
                ("no_room_soon", figures!["lacking_bytes": Number(*lacking), "within_s": Time(*within)])
            }
            Self::Memory(MemoryReason::Checkpointed) => ("checkpointed", Vec::new()),
            Self::Memory(MemoryReason::NotCheckpointed { error }) => {
                ("not_checkpointed", figures!["error": Text(Some(error.clone()))])
            }
            Self::Memory(MemoryReason::Needed { needed, free }) => {
                ("memory_needed", figures!["needed_bytes": Number(*needed), "free_bytes": Number(*free)])
            }
            Self::Memory(MemoryReason::Overcommitted { wanted, lacking }) => (
                "overcommitted",
                figures!["wanted_bytes": Number(*wanted), "lacking_bytes": Number(*lacking)],
            ),
            Self::Memory(MemoryReason::NextLacks { lacking }) => {
                ("next_lacks_memory", figures!["lacking_bytes": Number(*lacking)])
            }
            Self::Memory(MemoryReason::Probed { within }) => {
                ("reclaim_probe", figures!["within_s": Time(*within)])
            }
            Self::Memory(MemoryReason::Suffices { free, swapped }) => {
                ("memory_suffices", figures!["free_bytes": Number(*free), "swapped_bytes": Number(*swapped)])
            }
            Self::SlotFree => ("slot_free", Vec::new()),
            Self::Asked => ("asked", Vec::new()),
            Self::PriorityChanged { priority } => {
                ("priority_changed", figures!["priority": Number((*priority).into())])
            }
            Self::QueueFull { depth } => ("queue_full", figures!["depth": Number(count(*depth))]),
            Self::Expired { ttl } => ("expired", figures!["ttl_s": Time(*ttl)]),
            Self::TooLarge { asked, cores } => {
                ("too_large", figures!["asked": Number((*asked).into()), "cores": Number(count(*cores))])
            }
            Self::Withdrawn => ("withdrawn", Vec::new()),
            Self::Adopted => ("adopted", Vec::new()),
            Self::Restored => ("restored", Vec::new()),
            // Programs know it by this code from before.
            Self::BeginsAnew { why: error } | Self::Retry { error } => {
                ("retry", figures!["error": Text(Some(error.clone()))])
            }
        }
    }
}

fn growing(free: u64, growth: u64, token: JobId) -> Vec<Figure> {
    figures!["free_bytes": Number(free), "growth_bytes_per_s": Number(growth), "token": Job(token)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Unthrottled;

    #[test]
    fn figures_carry_their_unit() {
        let reason = Reason::Memory(MemoryReason::Short { free: 5, growth: 7, token: JobId(3) });
        assert_eq!(reason.code(), "memory_short");
        let names: Vec<_> = reason.figures().into_iter().map(|figure| (figure.name, figure.value)).collect();
        let want = [
            ("free_bytes", Value::Number(5)),
            ("growth_bytes_per_s", Value::Number(7)),
            ("token", Value::Job(JobId(3))),
        ];
        assert_eq!(names, want);
        let lifted = Action::Slow { allowance: None };
        assert_eq!((lifted.code(), lifted.figures().len()), ("unthrottle", 0));
        let why = Reason::Memory(MemoryReason::MayGrow { why: Unthrottled::Token });
        assert_eq!(why.figures(), figures!["cause": Code("token")]);
        assert_eq!(why.to_string(), "it goes first for memory now");
    }
}
