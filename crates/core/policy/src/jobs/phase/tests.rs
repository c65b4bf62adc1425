//! Which change of a job each phase allows, and where it leads: all others leave the job as it is.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::api::{Class, Request};
use crate::jobs::job::{Job, Live, Waiting};
use crate::jobs::places::{Key, PoolIds};
use crate::jobs::{Grace, JobTable, Slots};

const ID: JobId = JobId(7);
const NOW: Instant = Instant(50);
/// Before [`NOW`], and after.
const PAST: Instant = Instant(40);
const LATER: Instant = Instant(60);
/// Until when a signal may be used, or a checkpoint be written, that begins in a test.
const UNTIL: Instant = Instant(90);
/// From now until then.
const GRACE: Grace = Grace { lasts: Duration::from_micros(40), calm: Duration::from_micros(100) };

const STARTING: Phase = Phase::Starting { suspend: false };
const TO_SUSPEND: Phase = Phase::Starting { suspend: true };
const RUNS: Phase = Phase::Running { grace: None };
const SIGNALLED: Phase = Phase::Running { grace: Some(LATER) };
const USED_SIGNAL: Phase = Phase::Running { grace: Some(PAST) };
const DYING: Phase = Phase::Dying { until: LATER };
const SURVIVES: Phase = Phase::Dying { until: PAST };
const SHORT: SuspendReason = SuspendReason::Memory { token: JobId(1) };
const FROZEN: Phase = Phase::Suspended { why: SHORT, by_user: false };
const BY_USER: Phase = Phase::Suspended { why: SuspendReason::Suspended, by_user: true };
const RESUMED: Phase = Phase::Suspended { why: SuspendReason::Suspended, by_user: false };
const RESTS: Phase = held_back(Some(LATER));
const RESTED: Phase = held_back(Some(PAST));
const WRITES: Phase = leaving(Leave::Writing { until: UNTIL }, Footing::Running { grace: None }, false);
const WRITES_FROZEN: Phase =
    leaving(Leave::Writing { until: UNTIL }, Footing::Suspended { why: SHORT }, false);
const WRITES_HELD: Phase = leaving(Leave::Writing { until: UNTIL }, Footing::Running { grace: None }, true);
const ENDS: Phase = leaving(Leave::Ending { asked: false }, Footing::Running { grace: None }, false);
const ENDS_AS_ASKED: Phase = leaving(Leave::Ending { asked: true }, Footing::Running { grace: None }, false);
const ENDS_FROZEN: Phase = leaving(Leave::Ending { asked: false }, Footing::Suspended { why: SHORT }, false);
const ENDS_DYING: Phase = leaving(Leave::Ending { asked: true }, Footing::Dying { until: LATER }, false);
const ENDS_SURVIVING: Phase = leaving(Leave::Ending { asked: true }, Footing::Dying { until: PAST }, false);
const ENDS_HELD: Phase = leaving(Leave::Ending { asked: false }, Footing::Suspended { why: SHORT }, true);

const ALL: [Phase; 22] = [
    STARTING,
    TO_SUSPEND,
    RUNS,
    SIGNALLED,
    USED_SIGNAL,
    DYING,
    SURVIVES,
    FROZEN,
    BY_USER,
    RESUMED,
    RESTS,
    RESTED,
    WRITES,
    WRITES_FROZEN,
    WRITES_HELD,
    ENDS,
    ENDS_AS_ASKED,
    ENDS_FROZEN,
    ENDS_DYING,
    ENDS_SURVIVING,
    ENDS_HELD,
    leaving(Leave::Ending { asked: true }, Footing::Suspended { why: SHORT }, true),
];

const fn leaving(how: Leave, from: Footing, hold: bool) -> Phase {
    Phase::Leaving { how, from, hold }
}

const fn held_back(until: Option<Instant>) -> Phase {
    Phase::Suspended { why: SuspendReason::Interferes { with: JobId(1), until }, by_user: false }
}

/// The same way out, from another footing.
fn on(phase: Phase, footing: Footing) -> Phase {
    match phase {
        Phase::Leaving { how, hold, .. } => leaving(how, footing, hold),
        other => other,
    }
}

fn waiting() -> JobTable {
    let mut table = JobTable::default();
    table.insert(Job::waiting(Request::plain(ID), Instant(0), BTreeSet::new(), PoolIds::default()));
    table
}

/// Tries a change in each phase: those of `allowed` lead from the first to the second, all others are refused.
fn check(name: &str, change: fn(&mut JobTable), allowed: &[(Phase, Phase)]) {
    for phase in ALL {
        let mut table = waiting();
        table.start(ID, Live::new(phase, Instant(1), Class::Primary));
        change(&mut table);
        let to = allowed.iter().find(|(from, _)| *from == phase).map_or(phase, |&(_, to)| to);
        assert_eq!(table.live(ID).map(|live| live.phase), Some(to), "{name} of {phase:?}");
    }
    assert!(allowed.iter().all(|(from, to)| ALL.contains(from) && from != to), "{name} says nothing twice");
    let mut table = waiting();
    change(&mut table);
    assert!(table.live(ID).is_none(), "{name} of one that waits");
}

fn slots() -> Slots {
    let key = Key { priority: 10, started: Instant(1), job: ID, class: Class::Primary, promotable: None };
    Slots { key, cores: vec![0], count: 1, aside: None }
}

#[test]
fn who_starts_answers_once() {
    check("started", |table| _ = table.started(ID), &[(STARTING, RUNS), (TO_SUSPEND, RUNS)]);
}

#[test]
fn slots_end_a_suspension() {
    let runs = Footing::Running { grace: None };
    let signalled = |until| Footing::Running { grace: Some(until) };
    let frozen = ALL.into_iter().filter(|phase| matches!(phase, Phase::Suspended { .. }));
    let mut allowed: Vec<(Phase, Phase)> = frozen.map(|phase| (phase, RUNS)).collect();
    allowed.extend([
        (DYING, SIGNALLED),
        (SURVIVES, USED_SIGNAL),
        (WRITES_FROZEN, on(WRITES_FROZEN, runs)),
        (ENDS_FROZEN, on(ENDS_FROZEN, runs)),
        (ENDS_HELD, on(ENDS_HELD, runs)),
        (ALL[21], on(ALL[21], runs)),
        (ENDS_DYING, on(ENDS_DYING, signalled(LATER))),
        (ENDS_SURVIVING, on(ENDS_SURVIVING, signalled(PAST))),
    ]);
    check("occupy", |table| table.occupy(ID, slots()), &allowed);
}

#[test]
fn nobody_is_frozen_on_the_way_in_or_out() {
    let open = || ALL.into_iter().filter(|phase| phase.is_open());
    let to = Phase::Suspended { why: SuspendReason::SlotsShrank, by_user: false };
    let allowed: Vec<(Phase, Phase)> = open().map(|phase| (phase, to)).collect();
    check("freeze", |table| table.freeze(ID, SuspendReason::SlotsShrank, NOW), &allowed);
    let allowed: Vec<(Phase, Phase)> =
        open().filter(|phase| *phase != BY_USER).map(|phase| (phase, BY_USER)).collect();
    check("freeze for a user", |table| table.freeze(ID, SuspendReason::Suspended, NOW), &allowed);
}

#[test]
fn what_stays_frozen_may_have_another_reason() {
    let why = SuspendReason::Survived;
    let other = |phase: Phase| match phase {
        Phase::Suspended { by_user, .. } => Some((phase, Phase::Suspended { why, by_user })),
        Phase::Leaving { from: Footing::Suspended { .. }, .. } => {
            Some((phase, on(phase, Footing::Suspended { why })))
        }
        _ => None,
    };
    let allowed: Vec<(Phase, Phase)> = ALL.into_iter().filter_map(other).collect();
    check("set_suspend_reason", |table| table.set_suspend_reason(ID, SuspendReason::Survived), &allowed);
}

#[test]
fn a_user_suspends_and_resumes() {
    // One that runs is frozen by the change that takes its slot.
    let later = [
        (STARTING, TO_SUSPEND),
        (WRITES, WRITES_HELD),
        (WRITES_FROZEN, leaving(Leave::Writing { until: UNTIL }, Footing::Suspended { why: SHORT }, true)),
        (ENDS, leaving(Leave::Ending { asked: false }, Footing::Running { grace: None }, true)),
        (ENDS_AS_ASKED, leaving(Leave::Ending { asked: true }, Footing::Running { grace: None }, true)),
        (ENDS_FROZEN, ENDS_HELD),
        (ENDS_DYING, leaving(Leave::Ending { asked: true }, Footing::Dying { until: LATER }, true)),
        (ENDS_SURVIVING, leaving(Leave::Ending { asked: true }, Footing::Dying { until: PAST }, true)),
    ];
    check("suspend", |table| _ = table.suspend(ID), &later);
    let resumed = [
        (TO_SUSPEND, STARTING),
        (BY_USER, RESUMED),
        (WRITES_HELD, WRITES),
        (ENDS_HELD, ENDS_FROZEN),
        (ALL[21], leaving(Leave::Ending { asked: true }, Footing::Suspended { why: SHORT }, false)),
    ];
    check("resume", |table| _ = table.resume(ID, NOW), &resumed);
}

#[test]
fn a_signal_thaws_what_is_frozen_and_ends_a_checkpoint() {
    let (runs, dies) = (Phase::Running { grace: Some(UNTIL) }, Phase::Dying { until: UNTIL });
    let to = |phase: Phase| match phase {
        Phase::Starting { .. } => STARTING,
        Phase::Running { .. }
        | Phase::Leaving { how: Leave::Writing { .. }, from: Footing::Running { .. }, .. } => runs,
        Phase::Suspended { .. }
        | Phase::Leaving { how: Leave::Writing { .. }, from: Footing::Suspended { .. }, .. } => dies,
        // Its time is not prolonged.
        Phase::Dying { .. } => phase,
        Phase::Leaving { how, from, .. } => leaving(how, from, false),
    };
    let allowed: Vec<(Phase, Phase)> =
        ALL.into_iter().map(|phase| (phase, to(phase))).filter(|(from, to)| from != to).collect();
    check("cancel", |table| _ = table.cancel(ID, 15, NOW, GRACE), &allowed);
}

#[test]
fn a_second_signal_gives_no_time_before_it_is_calm() {
    for phase in [RUNS, FROZEN] {
        let mut table = waiting();
        table.start(ID, Live::new(phase, Instant(1), Class::Primary));
        let now = |table: &JobTable| table.live(ID).map(|live| live.phase).expect("it lives");
        assert!(table.cancel(ID, 28, NOW, GRACE).is_some());
        assert_ne!(now(&table), phase);
        table.fire(ID, Instant(95), false);
        let over = now(&table);
        assert_eq!(table.cancel(ID, 28, Instant(149), GRACE), Some(false), "it gets the signal as it is");
        assert_eq!(now(&table), over);
        // Of this one it dies.
        assert_eq!(table.cancel(ID, 9, Instant(149), GRACE), Some(phase == FROZEN));
        assert_ne!(now(&table), over);
        table.fire(ID, Instant(250), false);
        assert!(table.cancel(ID, 28, Instant(250), GRACE).is_some());
        assert_ne!(now(&table), over, "there is one again");
    }
}

#[test]
fn one_leaves_once_and_may_stay() {
    let leaves = |how: Leave| {
        move |phase: Phase| match phase {
            Phase::Running { grace } => Some((phase, leaving(how, Footing::Running { grace }, false))),
            Phase::Dying { until } => Some((phase, leaving(how, Footing::Dying { until }, false))),
            Phase::Suspended { why, by_user } => {
                Some((phase, leaving(how, Footing::Suspended { why }, by_user)))
            }
            Phase::Leaving { how: Leave::Writing { .. }, from, hold }
                if matches!(how, Leave::Ending { .. }) =>
            {
                Some((phase, leaving(how, from, hold)))
            }
            Phase::Starting { .. } | Phase::Leaving { .. } => None,
        }
    };
    let from_all = |how: Leave| ALL.into_iter().filter_map(leaves(how)).collect::<Vec<_>>();
    check(
        "write_checkpoint",
        |table| table.write_checkpoint(ID, UNTIL),
        &from_all(Leave::Writing { until: UNTIL }),
    );
    check("requeue", |table| _ = table.requeue(ID), &from_all(Leave::Ending { asked: false }));
    check(
        "requeue_as_asked",
        |table| _ = table.requeue_as_asked(ID),
        &from_all(Leave::Ending { asked: true }),
    );
    let written = [
        (WRITES, ENDS),
        (WRITES_FROZEN, ENDS_FROZEN),
        (WRITES_HELD, leaving(Leave::Ending { asked: false }, Footing::Running { grace: None }, true)),
    ];
    check("checkpoint_written", |table| table.checkpoint_written(ID), &written);
    let given_up = [(WRITES, RUNS), (WRITES_FROZEN, FROZEN), (WRITES_HELD, RUNS)];
    check("stop_checkpoint", |table| _ = table.stop_checkpoint(ID), &given_up);
    let held = Phase::Suspended { why: SHORT, by_user: true };
    let mut stays = given_up.to_vec();
    stays.extend([(ENDS, RUNS), (ENDS_AS_ASKED, RUNS), (ENDS_FROZEN, FROZEN), (ENDS_DYING, DYING)]);
    stays.extend([(ENDS_SURVIVING, SURVIVES), (ENDS_HELD, held), (ALL[21], held)]);
    check("cancel_requeue", |table| _ = table.cancel_requeue(ID), &stays);
}

#[test]
fn time_ends_a_rest_a_grace_and_a_death_that_did_not_come() {
    let survived = SuspendReason::Survived;
    let due = [
        (USED_SIGNAL, RUNS),
        (SURVIVES, Phase::Suspended { why: survived, by_user: false }),
        (ENDS_SURVIVING, on(ENDS_SURVIVING, Footing::Suspended { why: survived })),
        (RESTED, held_back(None)),
    ];
    check("fire", |table| _ = table.fire(ID, NOW, false), &due);
    check("end_rest", |table| table.end_rest(ID), &[(RESTS, held_back(None)), (RESTED, held_back(None))]);
}

#[test]
fn what_views_show_follows_from_the_phase() {
    let states = |shown: State| ALL.into_iter().filter(|phase| phase.state() == shown).collect::<Vec<_>>();
    assert_eq!(states(State::Starting), [STARTING, TO_SUSPEND]);
    let by_user = [BY_USER, ENDS_HELD, ALL[21]];
    assert_eq!(states(State::Frozen { by: FrozenBy::User }), by_user);
    let by_policy = [FROZEN, RESUMED, RESTS, RESTED, ENDS_FROZEN];
    assert_eq!(states(State::Frozen { by: FrozenBy::Policy }), by_policy);
    assert_eq!(states(State::Running).len(), ALL.len() - 10);
    assert_eq!(waiting().get(&ID).map(Job::state), Some(State::Waiting { held: false }));
    let held = Waiting { held: true, ..Waiting::default() };
    let mut table = waiting();
    table.wait_again(ID, held);
    assert_eq!(table.get(&ID).map(Job::state), Some(State::Waiting { held: true }));
}
