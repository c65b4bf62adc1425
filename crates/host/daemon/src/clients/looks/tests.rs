use pinfold_profile::report::job_view;
use pinfold_proto::JobSpec;
use pinfold_proto::row::JobRow;

use super::*;

fn look(id: u64, uid: u32, what: What) -> Look {
    Look { id: ConnectionId(id), user: Peer { pid: 1, uid }, what }
}

fn moment(at_us: u64) -> What {
    What::Moment(Moment { at_us, before: 1, found: Vec::new() })
}

fn named(jobs: u64) -> What {
    let open = (0..jobs).map(|job| (job, 1)).collect();
    What::Check(Check { open, bytes: 0, samples: 0, then: Checked::Wait(Vec::new()) })
}

#[test]
fn each_user_has_its_turn_and_some_moments() {
    let mut looks = Looks::default();
    assert!(!looks.has_due(|_| true) && looks.next(|_| true).is_none());
    for id in 0..MOMENTS_OF_A_USER_MAX as u64 {
        assert!(looks.may_begin(1, &moment(0)).is_ok());
        looks.begin(look(id, 1, moment(0)));
    }
    let (_, text) = looks.may_begin(1, &moment(0)).unwrap_err();
    assert!(text.contains("4 questions") && text.contains("ask again"), "{text}");
    assert!(looks.may_begin(1, &named(5)).is_ok(), "it names its jobs");
    assert!(looks.may_begin(2, &moment(0)).is_ok(), "another user");
    looks.begin(look(9, 2, moment(0)));
    looks.forget(ConnectionId(0));
    let mut turns = |goes_on: bool, may: fn(u32) -> bool| {
        let look = looks.next(may).unwrap();
        let id = look.id.0;
        if goes_on {
            looks.goes_on(look);
        }
        id
    };
    assert_eq!([turns(true, |_| true), turns(true, |_| true), turns(true, |_| true)], [1, 9, 1]);
    // To the second user no more may be told.
    assert_eq!([turns(false, |uid| uid != 2), turns(false, |uid| uid != 2)], [1, 2]);
    assert!(looks.may_begin(1, &moment(0)).is_ok() && looks.has_due(|uid| uid == 2));
    looks.forget(ConnectionId(3));
    assert!(!looks.has_due(|uid| uid != 2));
}

#[test]
fn questions_of_a_connection_are_answered_in_their_order() {
    let mut looks = Looks::default();
    for (id, at_us) in [(1, 10), (2, 20), (1, 11), (1, 12)] {
        looks.begin(look(id, u32::try_from(id).unwrap(), moment(at_us)));
    }
    let mut at = |goes_on: bool| {
        let look = looks.next(|_| true).unwrap();
        let What::Moment(Moment { at_us, .. }) = &look.what else { panic!("a moment") };
        let at_us = *at_us;
        if goes_on {
            looks.goes_on(look);
        }
        at_us
    };
    assert_eq!([at(true), at(true), at(true)], [10, 20, 10]);
    assert_eq!([at(false), at(false), at(false), at(false)], [20, 10, 11, 12]);
    assert!(!looks.has(1, ConnectionId(1)) && !looks.has_due(|_| true));
}

#[test]
fn one_answer_to_a_user_is_under_way() {
    let tell = |id: u64, told: u64| {
        let mut frame = ReportsFrame::default();
        (0..told).for_each(|job| frame.push(job, &job).unwrap());
        look(id, 1, What::Tell(Tell { open: VecDeque::from([9]), wanted: Wanted::default(), frame }))
    };
    let mut looks = Looks::default();
    looks.begin(look(1, 1, moment(0)));
    looks.begin(tell(2, 0));
    assert!(!looks.is_telling(1), "it is not begun");
    looks.begin(tell(3, 1));
    assert!(looks.is_telling(1) && !looks.is_telling(2) && looks.has(1, ConnectionId(2)));
    let order: Vec<u64> = std::iter::from_fn(|| looks.next(|_| true)).map(|look| look.id.0).collect();
    assert_eq!(order, [3, 1, 2]);
}

/// However many others ask.
#[test]
fn every_second_part_is_for_root() {
    let mut looks = Looks::default();
    for uid in 1..=20 {
        looks.begin(look(u64::from(uid), uid, named(1)));
    }
    looks.begin(look(100, 0, named(1)));
    looks.begin(look(101, 0, named(1)));
    let mut turn = || {
        let look = looks.next(|_| true).unwrap();
        let id = look.id.0;
        looks.goes_on(look);
        id
    };
    assert_eq!([turn(), turn(), turn(), turn(), turn()], [100, 1, 100, 2, 100]);
    looks.forget(ConnectionId(100));
    looks.forget(ConnectionId(101));
    assert_eq!(std::iter::from_fn(|| looks.next(|_| true)).count(), 20);
}

/// Nor are views of jobs held for two questions of a user.
#[test]
fn what_tells_waits_for_what_is_told() {
    let told = |jobs: u64| {
        let rows = (0..jobs).map(|job| JobRow::asked_for(job, 1, "a".to_owned(), JobSpec::default(), 0));
        let mut told = Views::default();
        rows.for_each(|row| {
            told.push(job_view(&row, None, None, Vec::new()));
        });
        told
    };
    let now = |jobs: u64| {
        What::Now(Now {
            all: false,
            open: (100..200).collect(),
            untold: (100..200).collect(),
            told: told(jobs),
        })
    };
    let then = |jobs: u64| What::Then(Then { told: told(jobs), ..Then::default() });
    let mut looks = Looks::default();
    assert!(!looks.waits(1, &now(0)));
    looks.begin(look(1, 1, moment(0)));
    assert!(!looks.waits(1, &now(0)), "nothing is told yet");
    looks.begin(look(2, 1, now(3)));
    assert!(looks.waits(1, &now(0)) && looks.waits(1, &then(0)) && !looks.waits(2, &then(0)));
    assert!(!looks.waits(1, &moment(0)) && !looks.waits(1, &named(1)) && !looks.waits(1, &then(1)));
    // Of a few jobs all is told at once, and nothing held.
    let few = VecDeque::from([9]);
    let status =
        What::Now(Now { all: false, open: few.clone(), untold: BTreeSet::from([9]), told: Views::default() });
    let report = |series| {
        let wanted = Wanted { series, ..Wanted::default() };
        What::Tell(Tell { open: few.clone(), wanted, frame: ReportsFrame::default() })
    };
    assert!(!looks.waits(1, &status) && !looks.waits(1, &report(false)) && looks.waits(1, &report(true)));
    assert_eq!(looks.next(|_| true).map(|look| look.id.0), Some(2));
    looks.begin(look(3, 1, then(1)));
    assert!(looks.waits(1, &now(0)));
}

#[test]
fn so_many_jobs_are_told_at_once_in_a_turn() {
    let mut looks = Looks::default();
    assert!(looks.may_tell_at_once(0) && !looks.may_tell_at_once(1));
    looks.begin_turn(10);
    assert!(looks.may_tell_at_once(4) && !looks.may_tell_at_once(7) && looks.may_tell_at_once(6));
    assert!(!looks.may_tell_at_once(1));
    looks.begin_turn(10);
    assert!(looks.may_tell_at_once(10));
}

#[test]
fn a_user_names_so_many_jobs_at_a_time() {
    let mut looks = Looks::default();
    looks.begin(look(1, 1, named(600_000)));
    assert!(looks.may_begin(1, &named(400_000)).is_ok() && looks.may_begin(2, &named(400_001)).is_ok());
    let (_, text) = looks.may_begin(1, &named(400_001)).unwrap_err();
    assert!(text.contains("1000001 jobs, 1000000 are the most; ask again"), "{text}");
    looks.forget(ConnectionId(1));
    assert!(looks.may_begin(1, &named(400_001)).is_ok());
}

#[test]
fn those_that_name_nothing_are_not_kept_without_end() {
    let mut looks = Looks::default();
    let kept = (0..).take_while(|_| {
        let may = looks.may_begin(1, &named(0)).is_ok();
        looks.begin(look(1, 1, named(0)));
        may
    });
    assert_eq!(kept.count(), NAMED_BY_A_USER_MAX / NAMED_LEAST);
}
