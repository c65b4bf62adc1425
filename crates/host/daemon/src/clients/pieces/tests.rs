use super::*;

fn answer(store: &Store, uid: u32, begun_us: u64) -> Answer {
    Answer {
        uid,
        wanted: Wanted::default(),
        snapshot: store.snapshot().unwrap(),
        listing: None,
        jobs: VecDeque::new(),
        live: BTreeMap::new(),
        series: None,
        begun_us,
        moved_us: begun_us,
    }
}

fn asked() -> Asked {
    Asked { select: pinfold_proto::wire::Select::Last(1), all: false, wanted: Wanted::default() }
}

#[test]
fn who_does_not_read_is_given_up_and_so_is_who_reads_for_too_long() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap().store;
    let mut pieces = Pieces::default();
    let (idle, slow) = (ConnectionId(1), ConnectionId(2));
    pieces.under_way.insert(idle, answer(&store, 1, 0));
    pieces.under_way.insert(slow, answer(&store, 1, 0));
    assert_eq!(pieces.late_us(), Some(STALLED_US));
    assert!(pieces.take_late(STALLED_US - 1).is_empty());
    pieces.under_way.get_mut(&slow).unwrap().moved_us = STALLED_US - 1;
    pieces.room(idle, 0);
    pieces.keep_room();
    assert!(!pieces.take_room(), "the log is kept");
    let late = pieces.take_late(STALLED_US);
    assert!(late.len() == 1 && late[0].0 == idle && late[0].1.contains("not read"), "{late:?}");
    assert!(!pieces.has_due(), "nothing of it is left");
    pieces.under_way.get_mut(&slow).unwrap().moved_us = LONGEST_US - 1;
    assert_eq!(pieces.late_us(), Some(LONGEST_US));
    let late = pieces.take_late(LONGEST_US);
    assert!(late.len() == 1 && late[0].1.contains("ten minutes"), "{late:?}");
    assert!(pieces.late_us().is_none() && pieces.take_room() && !pieces.take_room());
}

#[test]
fn one_user_leaves_room_for_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap().store;
    let mut pieces = Pieces::default();
    for id in 0..OF_A_USER_MAX as u64 {
        assert!(pieces.may_begin(1));
        pieces.under_way.insert(ConnectionId(id), answer(&store, 1, 0));
    }
    assert!(!pieces.may_begin(1) && pieces.may_begin(2));
    for (id, uid) in [(10, 1), (11, 1), (12, 2)] {
        pieces.waiting.push_back((ConnectionId(id), Peer { pid: 1, uid }, asked()));
    }
    assert_eq!(pieces.take_waiting().map(|(id, ..)| id), Some(ConnectionId(12)), "the other user's");
    assert!(pieces.take_waiting().is_none());
    pieces.forget(ConnectionId(0));
    pieces.forget(ConnectionId(10));
    assert_eq!(pieces.take_waiting().map(|(id, ..)| id), Some(ConnectionId(11)), "10 has gone");
    assert!(pieces.has(ConnectionId(1)) && !pieces.has(ConnectionId(11)));
}

/// One begins as soon as there is room, though nothing else happens, and none of a user whose questions are many comes
/// before the first of another.
#[test]
fn one_that_waits_begins_once_others_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap().store;
    let mut pieces = Pieces::default();
    for id in 0..UNDER_WAY_MAX as u64 {
        let uid = if id < OF_A_USER_MAX as u64 { 11 } else { 12 };
        pieces.under_way.insert(ConnectionId(id), answer(&store, uid, 0));
    }
    for (id, uid) in [(20, 11), (21, 12), (22, 11), (23, 13)] {
        pieces.wait(ConnectionId(id), Peer { pid: 1, uid }, asked()).unwrap();
    }
    assert!(!pieces.has_due() && pieces.take_waiting().is_none());
    assert_eq!(pieces.due_us(), Some(STALLED_US));
    pieces.forget(ConnectionId(0));
    assert!(pieces.has_due());
    assert_eq!(pieces.take_waiting().map(|(id, ..)| id), Some(ConnectionId(23)));
    (0..UNDER_WAY_MAX as u64).for_each(|id| pieces.forget(ConnectionId(id)));
    assert_eq!(pieces.due_us(), Some(0));
    let rest: Vec<u64> = std::iter::from_fn(|| pieces.take_waiting()).map(|(id, ..)| id.0).collect();
    assert_eq!((rest, pieces.due_us()), (vec![20, 21, 22], None));
}

#[test]
fn so_many_of_a_user_wait() {
    let mut pieces = Pieces::default();
    let mut wait = |id: u64, uid: u32| pieces.wait(ConnectionId(id), Peer { pid: 1, uid }, asked());
    assert!((0..WAITING_OF_A_USER_MAX as u64).all(|id| wait(id, 5).is_ok()));
    let (code, text) = wait(200, 5).unwrap_err();
    assert!(
        code == ErrorCode::Refused && text.contains("100 answers") && text.contains("ask again"),
        "{text}"
    );
    assert!(wait(201, 6).is_ok());
}

/// However many answers others have under way.
#[test]
fn some_are_for_root() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap().store;
    let mut pieces = Pieces::default();
    for id in 0..UNDER_WAY_MAX as u64 {
        pieces.under_way.insert(ConnectionId(id), answer(&store, 100 + u32::try_from(id).unwrap(), 0));
    }
    for id in 0..RESERVED as u64 {
        assert!(pieces.may_begin(0) && !pieces.may_begin(9));
        pieces.under_way.insert(ConnectionId(50 + id), answer(&store, 0, 0));
    }
    assert!(!pieces.may_begin(0));
}

/// No more than some thousands in a turn: those asked for since then are told as they are listed, the last ones once all
/// are.
#[test]
fn jobs_are_listed_some_in_a_turn() {
    const JOBS: u64 = 10_000;
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap().store;
    store.begin().unwrap();
    for job in 1..=JOBS {
        let spec = pinfold_proto::JobSpec::default();
        store.insert_job(&JobRow::asked_for(job, 1, "a".to_owned(), spec, job)).unwrap();
    }
    store.commit().unwrap();
    let check = |select: &Select, want: &[(bool, usize)], first: u64| {
        let mut answer = answer(&store, 1, 0);
        answer.listing = Listing::of(select, Whose::Everybody, &answer.snapshot).unwrap();
        let (mut turns, mut told) = (Vec::new(), Vec::new());
        loop {
            let may = answer.list().unwrap();
            turns.push((may, answer.jobs.len()));
            if may {
                told.extend(answer.jobs.drain(..));
            }
            if answer.listing.is_none() {
                break;
            }
        }
        assert_eq!(turns, want, "{select:?}");
        assert_eq!(told, (first..first + told.len() as u64).collect::<Vec<_>>(), "{select:?}");
        assert!(answer.list().unwrap() && answer.jobs.is_empty());
    };
    check(&Select::Since(0), &[(true, 4_096), (true, 4_096), (true, 1_808)], 1);
    check(&Select::Since(9_000), &[(true, 1_001)], 9_000);
    check(&Select::Since(20_000), &[(true, 0)], 1);
    check(&Select::Last(9_000), &[(false, 4_096), (false, 8_192), (true, 9_000)], 1_001);
    check(&Select::Last(20_000), &[(false, 4_096), (false, 8_192), (true, 10_000)], 1);
    check(&Select::Last(7), &[(true, 7)], 9_994);
    check(&Select::Last(0), &[(true, 0)], 1);
}

/// On a full disk, of jobs that were asked for and those that are over meanwhile.
#[test]
fn jobs_that_are_not_stored_are_listed_among_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap().store;
    let row = |job| JobRow::asked_for(job, 1, "a".to_owned(), pinfold_proto::JobSpec::default(), job);
    for job in [1, 2, 5] {
        store.insert_job(&row(job)).unwrap();
    }
    let check = |select: &Select, want: &[u64]| {
        let mut answer = answer(&store, 1, 0);
        answer.live = [2, 3, 6].map(|job| (job, Known::Waits(Box::new(row(job))))).into();
        answer.listing = Listing::of(select, Whose::Everybody, &answer.snapshot).unwrap();
        assert!(answer.list().unwrap());
        assert_eq!(answer.jobs, want, "{select:?}");
    };
    check(&Select::Since(0), &[1, 2, 3, 5, 6]);
    check(&Select::Last(10), &[1, 2, 3, 5, 6]);
    check(&Select::Last(3), &[3, 5, 6]);
}

/// Also where others are told before all are listed.
#[test]
fn jobs_that_are_not_stored_are_told_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path()).unwrap().store;
    let row = |job| JobRow::asked_for(job, 1, "a".to_owned(), pinfold_proto::JobSpec::default(), job);
    store.begin().unwrap();
    for job in (2..=9_000).filter(|job| *job != 70) {
        store.insert_job(&row(job)).unwrap();
    }
    store.commit().unwrap();
    let mut answer = answer(&store, 1, 0);
    answer.live = [1, 70, 71, 9_001].map(|job| (job, Known::Waits(Box::new(row(job))))).into();
    answer.listing = Listing::of(&Select::Since(0), Whose::Everybody, &answer.snapshot).unwrap();
    let mut told = Vec::new();
    while answer.listing.is_some() {
        assert!(answer.list().unwrap());
        for job in answer.jobs.drain(..) {
            answer.live.remove(&job);
            told.push(job);
        }
    }
    assert_eq!(told, (1..=9_001).collect::<Vec<_>>());
}

#[test]
fn the_next_piece_waits_for_room() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap().store;
    let mut pieces = Pieces::default();
    pieces.under_way.insert(ConnectionId(1), answer(&store, 1, 0));
    pieces.room(ConnectionId(2), 0);
    pieces.room(ConnectionId(1), UNSENT_MAX_BYTES);
    assert!(!pieces.has_due());
    pieces.room(ConnectionId(1), UNSENT_MAX_BYTES - 1);
    pieces.room(ConnectionId(1), 0);
    assert_eq!(pieces.due, [ConnectionId(1)], "once");
}
