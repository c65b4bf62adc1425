//! How a job stood at an earlier time, told from its row and the decisions that were kept.
//!
//! Pure. What the numbers behind a decision were stands in its reason.

use pinfold_profile::report::{date_utc, decision_view};
use pinfold_proto::JobState;
use pinfold_proto::row::{DecisionRow, Figures, JobRow, SampleRow};
use pinfold_proto::view::{JobView, LeftOutView, VERSION, WhyView, seconds};

use crate::core::words::{PUT_BACK, REQUEUE, REQUEUE_BEFORE};

/// Between which times decisions are left out, if some are, in microseconds.
type Gap = Option<(u64, u64)>;

/// The state of a job at `at_us` and the decision that had led to it; the error is for people.
pub(crate) fn why(row: &JobRow, decisions: &[DecisionRow], gap: Gap, at_us: u64) -> Result<WhyView, String> {
    if at_us < row.submitted_us {
        return Err(format!(
            "--at: job {} was asked for only {:.1} s later",
            row.job,
            seconds(row.submitted_us - at_us)
        ));
    }
    let before: Vec<&DecisionRow> = decisions.iter().filter(|decision| decision.time_us <= at_us).collect();
    let next = decisions.iter().find(|decision| decision.time_us > at_us);
    let over = row.ended_us.is_some_and(|ended| ended <= at_us);
    let gap = gap.filter(|&(after_us, _)| after_us <= at_us);
    let first = if row.spec.held { JobState::Held } else { JobState::Queued };
    let (mut state, mut cause) = (first, "it waited for its start".to_owned());
    for decision in &before {
        if let Some(led_to) = led_to(&decision.action) {
            state = led_to;
            cause = decision.reason.clone();
        }
    }
    let is_known_again = |before_us: u64| {
        let mut later = before.iter().filter(|decision| decision.time_us >= before_us);
        later.any(|decision| led_to(&decision.action).is_some())
    };
    let left_out = gap.map(|(after_us, before_us)| LeftOutView {
        after_s: seconds(after_us),
        before_s: seconds(before_us),
        hides_state: !over && after_us < at_us && !is_known_again(before_us),
    });
    if let Some(LeftOutView { after_s, before_s, hides_state: true }) = left_out {
        let (from, to) = (date_utc(after_s), date_utc(before_s));
        cause = format!(
            "decisions between {from} and {to} were not kept; before them it was {}: {cause}",
            state.word()
        );
    }
    let change = match (over, next, row.ended_us) {
        (true, ..) => {
            state = JobState::Exited;
            cause = row.reason.clone().unwrap_or_else(|| "it was over".to_owned());
            "nothing: it was over".to_owned()
        }
        (false, Some(next), _) => {
            let later = seconds(next.time_us - at_us);
            let what = format!("{later:.1} s later: {}, because {}", next.action, next.reason);
            match gap {
                Some((_, before_us)) if at_us < before_us => {
                    format!("the next decisions were not kept; the first that was, {what}")
                }
                _ => what,
            }
        }
        (false, None, Some(ended)) => format!("it ended {:.1} s later", seconds(ended - at_us)),
        (false, None, None) => "nothing has been decided since".to_owned(),
    };
    let decisions = before.into_iter().map(decision_view).collect();
    Ok(WhyView {
        version: VERSION,
        job: row.job,
        state,
        cause,
        numbers: Vec::new(),
        figures: Figures::new(),
        change,
        decisions,
        left_out,
        expected_start_s: None,
    })
}

/// A job as it stood at `at_us`, of its row and the last two samples up to then, oldest first.
pub(crate) fn job_then(row: &JobRow, samples: &[SampleRow], at_us: u64) -> JobView {
    let started = row.started_us.is_some_and(|started| started <= at_us);
    let sample = samples.last().filter(|_| started);
    let mut view = pinfold_profile::report::job_view(
        row,
        sample.map(|sample| sample.memory_bytes),
        sample.map(|sample| sample.swap_bytes),
        Vec::new(),
    );
    let waits = if row.spec.held { JobState::Held } else { JobState::Queued };
    view.state = match sample {
        Some(sample) => sample.state,
        None if started => JobState::Running,
        None => waits,
    };
    let cpu_us = |sample: &SampleRow| sample.cpu_user_us.saturating_add(sample.cpu_system_us);
    view.cpu_s = sample.map(|sample| seconds(cpu_us(sample)));
    view.seen_s = sample.map(|sample| seconds(sample.time_us));
    view.cpu_cores = match samples {
        [before, last] if started && last.time_us > before.time_us => {
            let used_us = cpu_us(last).saturating_sub(cpu_us(before));
            Some(seconds(used_us) / seconds(last.time_us - before.time_us))
        }
        _ => None,
    };
    // What came later is not known yet.
    view.started_s = view.started_s.filter(|_| started);
    view.cpus = view.cpus.filter(|_| started);
    (view.ended_s, view.exit_code, view.signal, view.reason) = (None, None, None, None);
    view.end = None;
    view
}

/// The state that an action leads to, by its words in the record; `None`: it changes none.
fn led_to(action: &str) -> Option<JobState> {
    if let PUT_BACK | REQUEUE | REQUEUE_BEFORE = action {
        return Some(JobState::Queued);
    }
    match action.split(' ').next()? {
        "start" | "thaw" => Some(JobState::Running),
        "freeze" => Some(JobState::Frozen),
        "page" => Some(JobState::Parked),
        "refuse" | "strike" => Some(JobState::Exited),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pinfold_policy::{Action, Class};
    use pinfold_profile::report::shown_decisions;
    use pinfold_topo::CpuSet;

    use super::*;
    use crate::core::words::in_words;

    fn decision(time_us: u64, action: &Action, reason: &str) -> DecisionRow {
        DecisionRow { job: 3, time_us, action: in_words(action), reason: reason.to_owned(), codes: None }
    }

    fn row() -> JobRow {
        JobRow {
            job: 3,
            uid: 0,
            user: "root".to_owned(),
            spec: pinfold_proto::JobSpec::default(),
            priority: 10,
            class: pinfold_proto::JobClass::Primary,
            state: JobState::Exited,
            submitted_us: 1_000_000,
            waits_since_us: None,
            started_us: Some(2_000_000),
            ended_us: Some(9_000_000),
            suspended_us: 0,
            frozen_since_us: None,
            end: None,
            suspended: false,
            requeues: 0,
            checkpoints: 0,
            requeuing: false,
            cpus: None,
            keeper: None,
            main: None,
            ending: None,
            reason: Some("done".to_owned()),
            lay: None,
            needed_bytes: None,
            usage: pinfold_proto::row::Usage::default(),
        }
    }

    #[test]
    fn a_job_then_knows_nothing_of_later() {
        let sample = |time_us, cpu_user_us, memory_bytes| SampleRow {
            job: 3,
            time_us,
            state: JobState::Frozen,
            cpu_user_us,
            cpu_system_us: 0,
            memory_bytes,
            cache_bytes: None,
            swap_bytes: 7,
            virtual_bytes: 0,
            io_read_bytes: 0,
            io_write_bytes: 0,
            processes: 1,
            threads: 1,
            stalls: None,
        };
        let waiting = job_then(&row(), &[], 1_500_000);
        assert_eq!((waiting.state, waiting.started_s, waiting.memory_bytes), (JobState::Queued, None, None));
        let new = job_then(&row(), &[], 2_000_000);
        assert_eq!((new.state, new.started_s, new.cpu_cores), (JobState::Running, Some(2.0), None));
        let samples = [sample(3_000_000, 500_000, 10), sample(5_000_000, 3_500_000, 20)];
        let then = job_then(&row(), &samples, 6_000_000);
        assert_eq!((then.state, then.memory_bytes, then.swap_bytes), (JobState::Frozen, Some(20), Some(7)));
        assert_eq!((then.cpu_s, then.cpu_cores, then.seen_s), (Some(3.5), Some(1.5), Some(5.0)));
        assert_eq!((then.ended_s, then.exit_code, then.reason), (None, None, None));
    }

    #[test]
    fn each_time_has_its_state_and_what_came_next() {
        let start = Action::Start { class: Class::Primary, cpus: CpuSet::new(), priority: 10 };
        let decisions = [
            decision(2_000_000, &start, "a home core was free"),
            decision(4_000_000, &Action::Freeze, "memory runs short"),
            decision(5_000_000, &Action::PageOut { bytes: 1 << 30 }, "room is needed"),
            decision(7_000_000, &Action::Thaw, "memory suffices again"),
        ];
        let at = |at_us| {
            let view = why(&row(), &decisions, None, at_us).expect("it was there");
            (view.state, view.cause, view.change, view.decisions.len())
        };
        let is =
            |state, cause: &str, change: &str, count| (state, cause.to_owned(), change.to_owned(), count);
        assert_eq!(
            at(1_500_000),
            is(
                JobState::Queued,
                "it waited for its start",
                "0.5 s later: start as primary anywhere, because a home core was free",
                0
            )
        );
        assert_eq!(
            at(2_000_000),
            is(
                JobState::Running,
                "a home core was free",
                "2.0 s later: freeze, because memory runs short",
                1
            )
        );
        assert_eq!(at(4_500_000).0, JobState::Frozen);
        assert_eq!(at(6_000_000).0, JobState::Parked);
        assert_eq!(at(8_000_000), is(JobState::Running, "memory suffices again", "it ended 1.0 s later", 4));
        assert_eq!(at(9_500_000), is(JobState::Exited, "done", "nothing: it was over", 4));
        assert!(why(&row(), &decisions, None, 0).unwrap_err().contains("1.0 s later"));
    }

    /// It waits again, until the next start.
    #[test]
    fn one_that_was_requeued_waits() {
        let start = Action::Start { class: Class::Primary, cpus: CpuSet::new(), priority: 10 };
        let action = |time_us, action: &str| DecisionRow {
            action: action.to_owned(),
            ..decision(time_us, &Action::Thaw, "an older job needs the room")
        };
        for ended in [&in_words(&Action::Requeue), REQUEUE_BEFORE, PUT_BACK] {
            let decisions = [
                decision(2_000_000, &start, "a home core was free"),
                action(4_000_000, ended),
                decision(6_000_000, &start, "a home core was free"),
            ];
            let at = |at_us| why(&row(), &decisions, None, at_us).expect("it was there");
            let states = [3_000_000, 5_000_000, 7_000_000].map(|at_us| at(at_us).state);
            assert_eq!(states, [JobState::Running, JobState::Queued, JobState::Running], "{ended}");
            assert_eq!(at(5_000_000).cause, "an older job needs the room");
        }
    }

    #[test]
    fn what_decisions_that_were_left_out_changed_is_not_known() {
        const S: u64 = 1_000_000;
        let start = Action::Start { class: Class::Primary, cpus: CpuSet::new(), priority: 10 };
        // The first hundred until 101 s, then one decision that changes no state, and freezes and thaws from 901 s on.
        let mut decisions = vec![decision(2 * S, &start, "a home core was free")];
        let turn = |s: u64| match s % 2 {
            0 => decision(s * S, &Action::Thaw, "a user asked for it"),
            _ => decision(s * S, &Action::Freeze, "a user asked for it"),
        };
        decisions.extend((3..=101).map(turn));
        decisions.push(decision(899 * S, &Action::Freeze, "this one tells that others were dropped"));
        decisions.push(decision(900 * S, &Action::Slow { allowance: None }, "memory suffices"));
        decisions.extend((901..1800).map(turn));
        let (decisions, gap) = shown_decisions(decisions);
        assert_eq!(decisions.len(), 1000);
        let row = JobRow { ended_us: Some(2000 * S), ..row() };
        let at = |at_us: u64| why(&row, &decisions, gap, at_us).expect("it was there");
        let hides = |at_us: u64| at(at_us).left_out.map(|left_out| left_out.hides_state);
        assert_eq!((hides(100 * S), at(100 * S).state), (None, JobState::Running));
        // The last that is known: what it led to, and not what came next.
        let last = at(101 * S);
        assert_eq!(
            (hides(101 * S), last.state, &*last.cause),
            (Some(false), JobState::Frozen, "a user asked for it")
        );
        let next = "the next decisions were not kept; the first that was, 799.0 s later: let it grow \
                    again, because memory suffices";
        assert_eq!(last.change, next);
        let among = at(500 * S);
        let left_out = LeftOutView { after_s: 101.0, before_s: 900.0, hides_state: true };
        assert_eq!((among.left_out, among.decisions.len()), (Some(left_out), 100));
        let cause = "decisions between 1970-01-01 00:01:41 UTC and 1970-01-01 00:15:00 UTC were not kept; before them it was \
                     frozen: a user asked for it";
        assert_eq!(among.cause, cause);
        assert!(among.change.starts_with("the next decisions were not kept"), "{}", among.change);
        // That one says nothing of the state; the next does.
        let after = at(900 * S);
        assert_eq!(
            (hides(900 * S), &*after.change),
            (Some(true), "1.0 s later: freeze, because a user asked for it")
        );
        assert_eq!((hides(901 * S), at(901 * S).state), (Some(false), JobState::Frozen));
        assert_eq!((hides(2000 * S), at(2000 * S).state), (Some(false), JobState::Exited));
        assert_eq!(why(&row, &decisions, None, 500 * S).expect("it was there").left_out, None);
    }
}
