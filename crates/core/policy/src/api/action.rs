//! What the scheduler can ask for.

use pinfold_topo::CpuSet;

use crate::api::code::{Figure, figures};
use crate::api::ids::{Class, JobId};
use crate::api::reason::Reason;

/// Something to be done to one job. A failure comes back as [`crate::Event::Failed`].
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Action {
    /// Let it run: in this class, on these PUs (empty: anywhere), with the weight of this priority.
    Start {
        /// The class.
        class: Class,
        /// The PUs; empty: unbound.
        cpus: CpuSet,
        /// 1 to 16.
        priority: u8,
    },
    /// Bind a running job to these PUs (empty: anywhere).
    Bind {
        /// The PUs.
        cpus: CpuSet,
    },
    /// Put a running job into this class, with the weight of this priority.
    Weigh {
        /// The class.
        class: Class,
        /// 1 to 16.
        priority: u8,
        /// Whether a backfiller shares cores with primaries as one of them does.
        even: bool,
    },
    /// Stop all its processes where they are.
    Freeze,
    /// Let them go on.
    Thaw,
    /// Move so many bytes of a job to swap, at most: of one that is frozen, or cold-tolerant.
    PageOut {
        /// How many bytes.
        bytes: u64,
    },
    /// Let it grow by so many bytes, and from there only as fast as its own pages can be moved out; `None`: as it likes.
    Slow {
        /// How many bytes.
        allowance: Option<u64>,
    },
    /// Take so many bytes of its memory only when nothing else is left to take; 0: as that of any other.
    Protect {
        /// How many bytes.
        bytes: u64,
    },
    /// Let its memory lie on these NUMA nodes only, by the kernel's numbers, ascending; empty: on all.
    Near {
        /// The nodes.
        nodes: Vec<u32>,
    },
    /// Send this signal to all its processes (thawed before).
    Signal {
        /// The signal, by its number.
        signal: i32,
    },
    /// End all its processes at once. When none is left ([`crate::Event::Requeued`]) it waits again, to run from its
    /// beginning.
    Requeue,
    /// Let it write down what it has done; it goes on meanwhile, without a slot if it was suspended. Answered by
    /// [`crate::Event::Checkpointed`].
    Checkpoint,
    /// Strike a waiting job off; it never ran.
    Drop {
        /// Refused and expired jobs leave with exit code 5; withdrawn and cancelled ones were asked to go.
        refused: bool,
    },
}

/// An action with the job it concerns and its reason.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Decision {
    /// The job.
    pub job: JobId,
    /// What to do.
    pub action: Action,
    /// Why.
    pub reason: Reason,
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
