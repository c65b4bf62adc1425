//! Readings of the host: written and read, put together, thinned and bounded.

use pinfold_proto::host::HostRow;

use super::*;

const S: u64 = 1_000_000;
const DAY: u64 = 86_400 * S;

fn row(time_us: u64) -> HostRow {
    HostRow {
        time_us,
        cpu_busy_us: time_us / 2,
        memory_used_bytes: time_us % 7 + 1,
        cpu_stalled_us: Some(time_us / 10),
        frequency_khz: Some(2_000_000),
        ..HostRow::default()
    }
}

fn filled(dir: &Path, from_us: u64, count: u64) -> Store {
    let mut store = open(dir);
    store.begin().unwrap();
    (0..count).for_each(|at| store.add_host(&row(from_us + at * 10 * S)).unwrap());
    store.commit().unwrap();
    store
}

#[test]
fn readings_come_back_and_many_are_put_together() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path(), DAY, 1_000);
    let all = store.host_between(0, u64::MAX, 10_000).unwrap();
    assert_eq!((all.len(), all[0], all[999]), (1_000, row(DAY), row(DAY + 9_990 * S)));
    assert_eq!(store.host_between(DAY + 9_980 * S, u64::MAX, 100).unwrap().len(), 2);
    let few = store.host_between(DAY, u64::MAX, 10).unwrap();
    assert!((9..=11).contains(&few.len()), "{}", few.len());
    assert_eq!(few.last().map(|row| row.cpu_busy_us), all.last().map(|row| row.cpu_busy_us));
    assert_eq!(few[3].memory_used_bytes, 7, "the most of them");
    assert_eq!(store.host_between(2 * DAY, u64::MAX, 10).unwrap(), []);
}

#[test]
fn a_part_of_the_readings() {
    let dir = tempfile::tempdir().unwrap();
    let store = filled(dir.path(), DAY, 100);
    let at = |number: u64| DAY + number * 10 * S;
    let times = |rows: Vec<HostRow>| rows.iter().map(|row| row.time_us).collect::<Vec<_>>();
    assert_eq!(times(store.host_between(at(3), at(5), 100).unwrap()), [at(3), at(4), at(5)]);
    assert_eq!(store.host_between(at(5), at(3), 100).unwrap(), []);
    assert_eq!(times(store.host_each(at(3) + 1, u64::MAX, 2).unwrap()), [at(4), at(5)]);
    assert_eq!(times(store.host_each(at(98), u64::MAX, 5).unwrap()), [at(98), at(99)]);
    assert_eq!(times(store.host_until(at(7) + 1).unwrap()), [at(6), at(7)]);
    assert_eq!(
        (times(store.host_until(at(0)).unwrap()), store.host_until(DAY - 1).unwrap()),
        (vec![at(0)], vec![])
    );
}

#[test]
fn old_readings_are_thinned_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = filled(dir.path(), DAY, 60);
    let now_us = 10 * DAY;
    (0..60).for_each(|at| store.add_host(&row(now_us - at * 10 * S)).unwrap());
    store.prune_host(0, now_us, None).unwrap();
    let left = store.host_between(0, u64::MAX, u64::MAX / S).unwrap();
    assert_eq!(left.len(), 10 + 60, "one a minute of what is a week old");
    assert_eq!(left[0].time_us, DAY + 50 * S, "the last of its minute");
    store.prune_host(0, now_us, None).unwrap();
    assert_eq!(store.host_between(0, u64::MAX, u64::MAX / S).unwrap(), left, "thinned once");
    store.prune_host(DAY + 60 * S, now_us, None).unwrap();
    assert_eq!(store.host_between(0, u64::MAX, u64::MAX / S).unwrap().len(), 9 + 60);
    store.prune_host(0, now_us, Some(8 * 100 * 20)).unwrap();
    assert_eq!(
        store.host_between(0, u64::MAX, u64::MAX / S).unwrap().len(),
        20,
        "the last, as many as there is room for"
    );
}
