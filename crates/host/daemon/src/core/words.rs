//! Actions in words, as they are recorded and read again.

use pinfold_policy::code::Figure;
use pinfold_policy::{Action, AgainReason, Number, Reason};
use pinfold_proto::row::{Codes, DecisionRow, Figures, JobRow};
use pinfold_proto::view::NumberView;

/// A job is ended to be requeued, as that is recorded,
pub(crate) const REQUEUE: &str = "end it and requeue it";
/// and as daemons of earlier versions recorded it.
pub(crate) const REQUEUE_BEFORE: &str = "end it, to requeue it";

const SUSPENDED_BEFORE: &str = "its user or an operator suspended it before the daemon was restarted";

/// The reason of an action as it is recorded. The scheduler does not tell which of a job's ways were put right after a
/// restart: for a job that was suspended it is that, which has a code of its own.
pub(crate) fn why_in_words(action: &Action, reason: &Reason, row: &JobRow) -> (String, Option<&'static str>) {
    let again =
        row.suspended && matches!((action, reason), (Action::Freeze, Reason::Again(AgainReason::Restored)));
    if again { (SUSPENDED_BEFORE.to_owned(), Some("suspended_before")) } else { (reason.to_string(), None) }
}

/// An action and its reason as programs read them. `because`: the code of a reason of the daemon's own, which stands in
/// place of the scheduler's.
pub(crate) fn in_codes(action: &Action, reason: &Reason, because: Option<&str>) -> Codes {
    let (of_action, of_reason) = (action.figures(), reason.figures());
    let of_reason = of_reason.iter().filter(|_| because.is_none());
    let figures = by_name(of_action.iter().chain(of_reason));
    let reason = because.unwrap_or_else(|| reason.code());
    Codes { action: action.code().to_owned(), reason: reason.to_owned(), figures }
}

/// Figures by name; of two with one name the last.
pub(crate) fn by_name<'a>(figures: impl IntoIterator<Item = &'a Figure>) -> Figures {
    let value = |figure: &Figure| serde_json::to_value(&figure.value).unwrap_or_default();
    figures.into_iter().map(|figure| (figure.name.to_owned(), value(figure))).collect()
}

/// A number of `why`, with its value as a number where it is one.
pub(crate) fn number_view(number: Number) -> NumberView {
    let Number { name, text, figures } = number;
    let value =
        |figure: &Figure| serde_json::to_value(&figure.value).ok().filter(serde_json::Value::is_number);
    let Some((first, value)) = figures.first().and_then(|first| Some((first, value(first)?))) else {
        return NumberView::words(name, text);
    };
    let unit = ["bytes", "milli", "s"].into_iter().find(|unit| first.name.ends_with(&format!("_{unit}")));
    NumberView { name: name.to_owned(), text, value, unit: unit.map(str::to_owned) }
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

/// The decision that takes a start back, as it is recorded.
pub(crate) const PUT_BACK: &str = "put back";

/// When the last of these decisions about a job, as they are recorded with their times, has it start, if it does: the job
/// may have started then, though that was not written any more.
pub(crate) fn leads_to_a_start<'a>(
    decisions: impl DoubleEndedIterator<Item = (&'a str, u64)>,
) -> Option<u64> {
    let mut last = decisions.rev().filter_map(|(action, at_us)| match action {
        PUT_BACK | REQUEUE | REQUEUE_BEFORE => Some(None),
        _ => action.starts_with("start as ").then_some(Some(at_us)),
    });
    last.next().flatten()
}

/// Whether the last of these decisions about a job that has it requeued was asked for by a user or operator.
pub(crate) fn is_requeued_as_asked(decisions: &[DecisionRow]) -> bool {
    let last = decisions.iter().rfind(|row| [REQUEUE, REQUEUE_BEFORE].contains(&row.action.as_str()));
    let codes = last.and_then(|row| row.codes.as_ref());
    codes.is_some_and(|codes| codes.reason == Reason::ASKED.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(decisions: &[(&str, &str)], want: bool) {
        let row = |&(action, reason): &(&str, &str)| DecisionRow {
            job: 1,
            time_us: 0,
            action: action.to_owned(),
            reason: String::new(),
            codes: Some(Codes::plain("", reason)),
        };
        let rows: Vec<DecisionRow> = decisions.iter().map(row).collect();
        assert_eq!(is_requeued_as_asked(&rows), want, "{decisions:?}");
    }

    #[test]
    fn who_asked_for_the_last_requeue() {
        let asked = Reason::ASKED.code();
        check(&[], false);
        check(&[(REQUEUE, asked)], true);
        check(&[(REQUEUE, asked), ("freeze", "memory_short")], true);
        check(&[(REQUEUE, asked), (REQUEUE, "memory_last_resort")], false);
        check(&[(REQUEUE, "memory_last_resort"), ("freeze", asked)], false);
    }
}
