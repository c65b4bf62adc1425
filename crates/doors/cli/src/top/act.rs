//! Keys that act on a job: the question put first, the request to the daemon, and the message afterwards.

use pinfold_profile::report::plain;
use pinfold_proto::JobState;
use pinfold_proto::array::called;
use pinfold_proto::view::JobView;
use pinfold_proto::wire::Verb;

/// The action on a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Act {
    pub(super) job: u64,
    pub(super) verb: Verb,
    /// The action as a question.
    pub(super) question: String,
    /// The message that the action was asked for.
    pub(super) done: String,
}

impl Act {
    /// The action of a key on this job, or why the key cannot act.
    pub(super) fn of(sign: char, job: &JobView) -> Result<Self, String> {
        // A question has a single line of the screen.
        let short: String = plain(&job.name).chars().take(32).collect();
        let name = format!("job {} ({short})", called(job.job, job.array_id, job.array_index));
        if job.state == JobState::Exited {
            return Err(format!("{name} is over"));
        }
        let act = |verb, question: String, done: String| Ok(Self { job: job.job, verb, question, done });
        let plainly =
            |verb, word: &str, done: &str| act(verb, format!("{word} {name}"), format!("{name} {done}"));
        let priority = |to: u8| {
            let done = format!("{name} has priority {to}");
            act(Verb::Priority(to), format!("priority of {name}: {} -> {to}", job.priority), done)
        };
        match (sign, job.state) {
            ('s', JobState::Running) => plainly(Verb::Suspend, "suspend", "is suspended"),
            ('s', JobState::Frozen | JobState::Parked) => plainly(Verb::Resume, "resume", "may go on"),
            ('s', JobState::Queued) => plainly(Verb::Hold, "hold", "is held"),
            ('s', _) => plainly(Verb::Release, "release", "is released"),
            ('x', _) => plainly(Verb::Cancel { signal: 0 }, "end", "is told to end"),
            ('+', _) if job.priority < 16 => priority(job.priority + 1),
            ('+', _) => Err(format!("{name} has the highest priority already")),
            ('-', _) if job.priority > 1 => priority(job.priority - 1),
            _ => Err(format!("{name} has the lowest priority already")),
        }
    }
}

#[cfg(test)]
mod tests {
    use pinfold_proto::JobClass;

    use super::*;

    fn job(state: JobState, priority: u8) -> JobView {
        let view = serde_json::json!({
            "job": 7, "name": "align", "user": "ann", "project": null, "state": state, "class": JobClass::Primary,
            "priority": priority, "cpus": null, "memory_bytes": null, "swap_bytes": null, "pids": [],
            "submitted_s": 1.0, "started_s": null, "ended_s": null, "exit_code": null, "signal": null, "reason": null,
        });
        serde_json::from_value(view).expect("a job's view")
    }

    #[test]
    fn a_key_does_what_fits_the_state() {
        let check = |sign, state, verb: Verb, question: &str| {
            let act = Act::of(sign, &job(state, 10)).expect("something can be done");
            assert_eq!((act.job, &act.verb, act.question.as_str()), (7, &verb, question));
            assert!(act.done.starts_with("job 7 (align) "), "{}", act.done);
        };
        check('s', JobState::Running, Verb::Suspend, "suspend job 7 (align)");
        check('s', JobState::Frozen, Verb::Resume, "resume job 7 (align)");
        check('s', JobState::Queued, Verb::Hold, "hold job 7 (align)");
        check('s', JobState::Held, Verb::Release, "release job 7 (align)");
        check('x', JobState::Parked, Verb::Cancel { signal: 0 }, "end job 7 (align)");
        check('+', JobState::Queued, Verb::Priority(11), "priority of job 7 (align): 10 -> 11");
        check('-', JobState::Running, Verb::Priority(9), "priority of job 7 (align): 10 -> 9");
    }

    #[test]
    fn what_cannot_be_says_why() {
        let check = |sign, state, priority, words: &str| {
            let why = Act::of(sign, &job(state, priority)).expect_err("nothing can be done");
            assert!(why.contains(words), "{why}");
        };
        check('s', JobState::Exited, 10, "is over");
        check('+', JobState::Running, 16, "highest");
        check('-', JobState::Running, 1, "lowest");
    }
}
