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
    let all = store.host_since(0, 10_000).unwrap();
    assert_eq!((all.len(), all[0], all[999]), (1_000, row(DAY), row(DAY + 9_990 * S)));
    assert_eq!(store.host_since(DAY + 9_980 * S, 100).unwrap().len(), 2);
    let few = store.host_since(DAY, 10).unwrap();
    assert!((9..=11).contains(&few.len()), "{}", few.len());
    assert_eq!(few.last().map(|row| row.cpu_busy_us), all.last().map(|row| row.cpu_busy_us));
    assert_eq!(few[3].memory_used_bytes, 7, "the most of them");
    assert_eq!(store.host_since(2 * DAY, 10).unwrap(), []);
}

#[test]
fn old_readings_are_thinned_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = filled(dir.path(), DAY, 60);
    let now_us = 10 * DAY;
    (0..60).for_each(|at| store.add_host(&row(now_us - at * 10 * S)).unwrap());
    store.prune_host(0, now_us, None).unwrap();
    let left = store.host_since(0, u64::MAX / S).unwrap();
    assert_eq!(left.len(), 10 + 60, "one a minute of what is a week old");
    assert_eq!(left[0].time_us, DAY + 50 * S, "the last of its minute");
    store.prune_host(0, now_us, None).unwrap();
    assert_eq!(store.host_since(0, u64::MAX / S).unwrap(), left, "thinned once");
    store.prune_host(DAY + 60 * S, now_us, None).unwrap();
    assert_eq!(store.host_since(0, u64::MAX / S).unwrap().len(), 9 + 60);
    store.prune_host(0, now_us, Some(8 * 100 * 20)).unwrap();
    assert_eq!(
        store.host_since(0, u64::MAX / S).unwrap().len(),
        20,
        "the last, as many as there is room for"
    );
}
