//! Choices on a machine of two sockets, each of two L3 caches of two cores of two threads.

use pinfold_topo::facts::Facts;
use pinfold_topo::{PuOs, Topology};

use super::*;
use crate::{JobId, Machine};

/// Core n has the PUs 2n and 2n + 1.
fn topology() -> Topology {
    let pus = |from: u32, to: u32| (from..to).map(PuOs).collect::<CpuSet>();
    let mut facts = Facts { pus: pus(0, 16), ..Facts::default() };
    facts.cores = (0..8).map(|core| pus(2 * core, 2 * core + 2)).collect();
    facts.l3 = (0..4).map(|cache| pus(4 * cache, 4 * cache + 4)).collect();
    facts.sockets = vec![pus(0, 8), pus(8, 16)];
    facts.assemble().unwrap()
}

/// The machine, with homes taken on these cores.
fn cores(taken: &[usize]) -> Grid {
    let topology = topology();
    let mut cores = Grid::new(&Machine::of(&topology, &topology.usable()));
    cores.take_homes(JobId(99), taken);
    cores
}

fn wish(options: &str, named: &str) -> Wish {
    let words: Vec<&str> = options.split_whitespace().collect();
    Wish {
        layout: LayoutRequest::from_args(&words).unwrap(),
        named: named.parse().unwrap(),
        ..Wish::default()
    }
}

#[test]
fn plain_jobs_lie_close_together() {
    let check = |taken: &[usize], count: usize, want: Option<&[usize]>| {
        assert_eq!(
            cores(taken).choose_homes(count, &[], None, Shape::Compact).as_deref(),
            want,
            "{count} beside {taken:?}"
        );
    };
    check(&[], 1, Some(&[0]));
    // A cache that is in use already, rather than one that is whole.
    check(&[0, 1, 4], 1, Some(&[5]));
    check(&[0], 2, Some(&[2, 3]));
    check(&[0, 2], 3, Some(&[4, 5, 6]));
    check(&[0, 2, 4, 6], 4, Some(&[1, 3, 5, 7]));
    check(&[0, 2, 4, 6, 7], 4, None);
    let idle = cores(&[]);
    assert_eq!(
        idle.choose_homes(2, &[3, 6], None, Shape::Compact),
        Some(vec![3, 6]),
        "a job stays where it is"
    );
    assert_eq!(cores(&[3]).choose_homes(2, &[3, 6], None, Shape::Compact), Some(vec![0, 1]), "if it can");
    assert_eq!(idle.choose_homes(1, &[5], None, Shape::Compact), Some(vec![5]));
}

#[test]
fn memory_bound_jobs_lie_apart() {
    let spread = wish("-n 4 --hint memory_bound", "");
    for wish in [Some(&spread), None] {
        let check = |taken: &[usize], count: usize, want: &[usize]| {
            let found = cores(taken).choose_homes(count, &[], wish, Shape::Spread);
            assert_eq!(found.as_deref(), Some(want), "{count} beside {taken:?}, {wish:?}");
        };
        check(&[], 4, &[0, 2, 4, 6]);
        check(&[0, 2], 4, &[1, 3, 4, 6]);
    }
    // Beside others that lie apart: behind the caches that these have left alone.
    let mut beside = cores(&[]);
    for want in [[0, 2], [4, 6], [1, 3]] {
        let found = beside.choose_homes(2, &[], None, Shape::Spread).unwrap();
        assert_eq!(found, want);
        beside.take_homes(JobId(7), &found);
        beside.lie(&found, Shape::Spread);
    }
    assert_eq!(beside.choose_homes(1, &[], None, Shape::Spread), Some(vec![5]));
    beside.leave_homes(JobId(7), &[1, 3]);
    assert_eq!(beside.choose_homes(2, &[], None, Shape::Spread), Some(vec![1, 3]));
    assert_eq!(cores(&[]).choose_pinning(4, None, Shape::Spread), vec![0, 2, 4, 6], "backfillers too");
}

#[test]
fn layouts_are_possible_where_a_job_goes() {
    let check = |options: &str, taken: &[usize], count: usize, want: Option<&[usize]>| {
        let found = cores(taken).choose_homes(count, &[], Some(&wish(options, "")), Shape::Compact);
        assert_eq!(found.as_deref(), want, "{options} beside {taken:?}");
    };
    // Counts alone are met close together, sockets by the sockets.
    check("-n 4", &[0], 2, Some(&[2, 3]));
    check("-n 2 --ntasks-per-socket 1 -c 2", &[], 2, Some(&[0, 4]));
    check("-n 2 --ntasks-per-socket 1 -c 2", &[4, 5, 6, 7], 2, None);
    check("-n 4 -m block:block", &[0, 1, 2], 2, Some(&[4, 5]));
    check("-n 4 -m block:cyclic", &[0, 1, 2], 2, Some(&[3, 4]));
    check("-n 2 --hint nomultithread", &[], 5, Some(&[0, 1, 2, 3, 4]));
}

#[test]
fn named_cores_are_had_or_waited_for() {
    let named = wish("-n 2", "6,12");
    assert_eq!(cores(&[]).choose_homes(2, &[], Some(&named), Shape::Compact), Some(vec![3, 6]));
    assert_eq!(cores(&[6]).choose_homes(2, &[], Some(&named), Shape::Compact), None);
    assert_eq!(
        cores(&[]).choose_homes(3, &[], Some(&named), Shape::Compact),
        Some(vec![2, 3, 6]),
        "and one close by"
    );
    // A backfiller shares them.
    assert_eq!(cores(&[6]).choose_pinning(2, Some(&named), Shape::Compact), vec![3, 6]);
}

#[test]
fn backfillers_go_where_the_fewest_are() {
    let mut busy = cores(&[0, 1]);
    busy.pin(&[2, 3, 4]);
    // Behind a cache where there is none, rather than beside one on core 4.
    assert_eq!(busy.choose_pinning(1, None, Shape::Compact), vec![6]);
    assert_eq!(busy.choose_pinning(2, None, Shape::Compact), vec![6, 7]);
    assert_eq!(busy.choose_pinning(5, None, Shape::Compact).len(), 5);
    assert_eq!(busy.choose_pinning(99, None, Shape::Compact).len(), 8);
    let apart = wish("-n 2 --ntasks-per-socket 1 -c 2", "");
    assert_eq!(busy.choose_pinning(2, Some(&apart), Shape::Compact), vec![0, 5]);
}
