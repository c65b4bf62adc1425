//! Decisions as codes and figures: what programs read, and what does not change when words do.
//!
//! A code is a name that stays: logs, stored decisions and JSON carry it. A figure has a name with its unit last. Absent:
//! sentences for people ([`crate::Reason`] has them).

use std::time::Duration;

use pinfold_topo::CpuSet;

use crate::api::ids::JobId;

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

pub(super) fn count(count: usize) -> u64 {
    count as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Action, MemoryReason, Reason, Unthrottled};

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
