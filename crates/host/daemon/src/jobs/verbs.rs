//! What a word to a job comes to, before it is said: that it does nothing, or not what it says, is told.
//!
//! Read only. Absent: who may say it (`clients/rights`), and what the scheduler makes of it.

use pinfold_policy::{FrozenBy, JobInfo, State};
use pinfold_proto::JobClass;
use pinfold_proto::row::JobRow;
use pinfold_proto::wire::{ErrorCode, Verb};

use crate::core::Refusal;

/// What is told of a word: nothing, where it does what it says; a note, where the job is so already or is held in place of
/// being suspended.
///
/// # Errors
///
/// Refused is what cannot be as the job stands; with the way out.
pub(crate) fn note(info: &JobInfo, verb: &Verb) -> Result<Option<String>, Refusal> {
    let job = info.job;
    let refused = |text: String| Err((ErrorCode::Refused, text));
    let noted = |text: String| Ok(Some(text));
    let by_user = info.suspended;
    match (verb, info.state) {
        (Verb::Hold, State::Waiting { held: true }) => {
            noted(format!("job {job} is held already; `pinfold release {job}` lets it start"))
        }
        (Verb::Suspend, State::Waiting { held }) => {
            let is = if held { "is held already" } else { "is held now" };
            noted(format!("job {job} has not started: it {is}; `pinfold release {job}` lets it start"))
        }
        (Verb::Release | Verb::Resume, State::Waiting { held: false }) => {
            noted(format!("job {job} is not held: it waits in the queue; `pinfold why {job}` tells for what"))
        }
        (Verb::Hold, State::Starting | State::Running | State::Frozen { .. }) => refused(format!(
            "job {job} has started, and a hold keeps one that waits from starting; `pinfold suspend {job}` stops it \
             where it is"
        )),
        (Verb::Suspend, _) if by_user => {
            noted(format!("job {job} is suspended already; `pinfold resume {job}` lets it go on"))
        }
        (Verb::Release, State::Starting | State::Running | State::Frozen { .. }) if by_user => {
            refused(format!(
                "job {job} has started, and is suspended, not held; `pinfold resume {job}` lets it go on"
            ))
        }
        (Verb::Release | Verb::Resume, State::Frozen { by: FrozenBy::Policy }) => refused(format!(
            "nobody suspended job {job}: the scheduler froze it, and lets it go on by itself; `pinfold why {job}` tells \
             when"
        )),
        (Verb::Requeue, State::Waiting { .. }) => {
            refused(format!("job {job} waits: it has not started, or is requeued already"))
        }
        (Verb::Requeue, State::Starting) => {
            refused(format!("job {job} is being started; it can be requeued once it runs"))
        }
        (Verb::Release, State::Starting | State::Running) => noted(format!("job {job} has started already")),
        (Verb::Resume, State::Starting | State::Running) if !by_user => {
            noted(format!("job {job} is not suspended: it runs already"))
        }
        _ => Ok(None),
    }
}

/// Checks whether a job may ask for another class.
///
/// # Errors
///
/// Refused for a job whose cores are no primaries' or backfillers'; with the way out.
pub(crate) fn may_have_class(row: &JobRow, class: Option<JobClass>) -> Result<(), Refusal> {
    let job = row.job;
    if class == Some(JobClass::Exclusive) {
        let text = format!("job {job} cannot become exclusive; submit it again with --exclusive");
        return Err((ErrorCode::Usage, text));
    }
    let of_its_own = row.spec.layout.as_ref().is_some_and(|layout| layout.isolated || layout.set.is_some());
    let kept = match row.spec.class {
        Some(JobClass::Exclusive) => "it is exclusive",
        _ if of_its_own => "its cores are reserved (--in, --isolated)",
        _ => return Ok(()),
    };
    Err((ErrorCode::Refused, format!("job {job} keeps its class, as {kept}; submit it again without that")))
}

#[cfg(test)]
mod tests {
    use pinfold_policy::{Event, Instant, JobId, Machine, Policy, Request};
    use pinfold_topo::{CpuSet, PuOs};

    use super::*;

    fn info(state: State, suspended: bool) -> JobInfo {
        let mut policy = Policy::default();
        policy.step(Instant(0), Event::Machine(Machine::flat(vec![CpuSet::single(PuOs(0))])));
        policy.step(Instant(0), Event::Submit(Request::plain(JobId(7))));
        JobInfo { state, suspended, ..policy.job(JobId(7)).expect("just submitted") }
    }

    #[track_caller]
    fn check(state: State, suspended: bool, verb: Verb, want: Result<Option<&str>, &str>) {
        match (note(&info(state, suspended), &verb), want) {
            (Ok(None), Ok(None)) => {}
            (Ok(Some(text)), Ok(Some(part))) | (Err((ErrorCode::Refused, text)), Err(part)) => {
                assert!(text.contains(part) && text.contains("job 7"), "{text}");
            }
            (got, want) => panic!("{state:?} {suspended} {verb:?}: {got:?}, not {want:?}"),
        }
    }

    #[test]
    fn what_does_nothing_is_told() {
        let (queued, held) = (State::Waiting { held: false }, State::Waiting { held: true });
        let (user, policy) = (State::Frozen { by: FrozenBy::User }, State::Frozen { by: FrozenBy::Policy });
        for (state, suspended, verb, want) in [
            (queued, false, Verb::Hold, Ok(None)),
            (queued, false, Verb::Suspend, Ok(Some("is held now"))),
            (queued, false, Verb::Resume, Ok(Some("waits in the queue"))),
            (queued, false, Verb::Release, Ok(Some("waits in the queue"))),
            (held, false, Verb::Hold, Ok(Some("held already"))),
            (held, false, Verb::Suspend, Ok(Some("held already"))),
            (held, false, Verb::Release, Ok(None)),
            (held, false, Verb::Resume, Ok(None)),
            (State::Running, false, Verb::Suspend, Ok(None)),
            (State::Running, false, Verb::Resume, Ok(Some("runs already"))),
            (State::Running, false, Verb::Release, Ok(Some("has started already"))),
            (State::Running, false, Verb::Hold, Err("pinfold suspend 7")),
            (State::Starting, true, Verb::Suspend, Ok(Some("suspended already"))),
            (State::Starting, true, Verb::Resume, Ok(None)),
            (user, true, Verb::Suspend, Ok(Some("suspended already"))),
            (user, true, Verb::Resume, Ok(None)),
            (user, true, Verb::Hold, Err("pinfold suspend 7")),
            (user, true, Verb::Release, Err("pinfold resume 7")),
            (policy, false, Verb::Suspend, Ok(None)),
            (policy, false, Verb::Resume, Err("by itself")),
            (policy, false, Verb::Release, Err("by itself")),
            (policy, false, Verb::Cancel { signal: 15 }, Ok(None)),
            (held, false, Verb::Priority(3), Ok(None)),
            (held, false, Verb::Requeue, Err("waits")),
            (State::Starting, false, Verb::Requeue, Err("being started")),
            (policy, false, Verb::Requeue, Ok(None)),
        ] {
            check(state, suspended, verb, want);
        }
    }
}
