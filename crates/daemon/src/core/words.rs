//! Actions in words, as they are recorded and read again.

use pinfold_policy::{Action, Reason};
use pinfold_proto::row::JobRow;

/// A job is ended to be requeued, as that is recorded,
pub(crate) const REQUEUE: &str = "end it and requeue it";
/// and as daemons of earlier versions recorded it.
pub(crate) const REQUEUE_BEFORE: &str = "end it, to requeue it";

const SUSPENDED_BEFORE: &str = "its user or an operator suspended it before the daemon was restarted";

/// The reason of an action as it is recorded. The scheduler does not tell which of a job's ways were put right after a
/// restart: for a job that was suspended it is that.
pub(crate) fn why_in_words(action: &Action, reason: &Reason, row: &JobRow) -> String {
    let again = row.suspended && matches!((action, reason), (Action::Freeze, Reason::Restored));
    if again { SUSPENDED_BEFORE.to_owned() } else { reason.to_string() }
}

/// An action as it is recorded: `start as backfill on 1`.
pub(crate) fn in_words(action: &Action) -> String {
    let on = |cpus: &pinfold_topo::CpuSet| {
        if cpus.is_empty() { String::from("anywhere") } else { format!("on {cpus}") }
    };
    let class = |class: &pinfold_policy::Class| match class {
        pinfold_policy::Class::Primary => "primary",
        pinfold_policy::Class::Backfill => "backfill",
        pinfold_policy::Class::Exclusive => "exclusive",
    };
    match action {
        Action::Start { class: kind, cpus, .. } => format!("start as {} {}", class(kind), on(cpus)),
        Action::Bind { cpus } => format!("bind {}", on(cpus)),
        Action::Weigh { class: kind, priority, even } => {
            let share = if *even { ", with a primary's share of its core" } else { "" };
            format!("make it {} of priority {priority}{share}", class(kind))
        }
        Action::Freeze => "freeze".to_owned(),
        Action::Thaw => "thaw".to_owned(),
        Action::PageOut { bytes } => format!("page out {} MiB", bytes >> 20),
        Action::Signal { signal } => {
            format!("send {}", pinfold_sys::signals::name(*signal).map_or(signal.to_string(), str::to_owned))
        }
        Action::Slow { allowance: Some(bytes) } => {
            format!("throttle its growth after {} MiB more", bytes >> 20)
        }
        Action::Slow { allowance: None } => "let it grow again".to_owned(),
        Action::Protect { bytes: 0 } => "take its memory as that of others".to_owned(),
        Action::Protect { bytes } => format!("take {} MiB of its memory last", bytes >> 20),
        Action::Near { nodes } if nodes.is_empty() => "let its memory lie on all NUMA nodes".to_owned(),
        Action::Near { nodes } => {
            let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
            format!("bind its memory to NUMA nodes {}", nodes.join(","))
        }
        Action::Checkpoint => "write a checkpoint".to_owned(),
        Action::Requeue => REQUEUE.to_owned(),
        Action::Drop { refused: true } => "refuse".to_owned(),
        Action::Drop { refused: false } => "strike off".to_owned(),
    }
}
