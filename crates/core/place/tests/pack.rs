//! Placement on small machines, against all possible choices.
#![expect(clippy::unwrap_used, reason = "a test stops where its own input is not as it should be")]

use std::collections::BTreeSet;

use pinfold_place::pack::{Demand, Level, Placement, Room, Shape, Site, pack};
use pinfold_topo::facts::Facts;
use pinfold_topo::{CpuSet, NumaNode, Pu, PuOs, Topology};
use proptest::prelude::*;

/// A machine: per socket, per NUMA node, per L3, how many cores of `threads` threads.
fn machine(shape: &[Vec<Vec<usize>>], threads: u32) -> Topology {
    let mut facts = Facts::default();
    let mut next = 0;
    for socket in shape {
        let first = next;
        for node in socket {
            let node_first = next;
            for &cores in node {
                let cache_first = next;
                for _ in 0..cores {
                    facts.cores.push((next..next + threads).map(PuOs).collect());
                    next += threads;
                }
                facts.l3.push((cache_first..next).map(PuOs).collect());
            }
            let os = u32::try_from(facts.numa.len()).unwrap();
            let pus = (node_first..next).map(PuOs).collect();
            facts.numa.push(NumaNode { os, memory_bytes: None, pus });
        }
        facts.sockets.push((first..next).map(PuOs).collect());
    }
    facts.pus = (0..next).map(PuOs).collect();
    facts.assemble().unwrap()
}

fn shapes() -> impl Strategy<Value = Vec<Vec<Vec<usize>>>> {
    let node = proptest::collection::vec(1usize..4, 1..3);
    proptest::collection::vec(proptest::collection::vec(node, 1..3), 1..3)
}

/// The cores of a machine that are wholly free, as (core, L3, NUMA node, socket).
fn free_cores(topology: &Topology, free: &CpuSet) -> Vec<[u32; 4]> {
    let held: BTreeSet<u32> =
        topology.pus().iter().filter(|pu| !free.contains(pu.os)).map(|pu| pu.core).collect();
    let all: BTreeSet<[u32; 4]> = topology.pus().iter().map(place).collect();
    all.into_iter().filter(|core| !held.contains(&core[0])).collect()
}

fn place(pu: &Pu) -> [u32; 4] {
    [pu.core, pu.l3.unwrap(), pu.numa, pu.socket]
}

fn cores_of(topology: &Topology, placement: &Placement) -> Vec<[u32; 4]> {
    let find = |os: PuOs| topology.pus().iter().find(|pu| pu.os == os).map(place).unwrap();
    placement.cores.iter().map(|core| find(core.first().unwrap())).collect()
}

/// The domain of a core at a level: 1 L3, 2 NUMA node, 3 socket, 4 machine.
fn domain(core: &[u32; 4], level: usize) -> u32 {
    core.get(level).copied().unwrap_or(0)
}

fn memory_of(cores: &[[u32; 4]], memory: &[u64]) -> u64 {
    let nodes: BTreeSet<u32> = cores.iter().map(|core| core[2]).collect();
    nodes.into_iter().map(|node| memory[node as usize]).sum()
}

/// All ways to take `n` of `cores`.
fn combinations(cores: &[[u32; 4]], n: usize) -> Vec<Vec<[u32; 4]>> {
    match (n, cores) {
        (0, _) => vec![Vec::new()],
        (_, []) => Vec::new(),
        (n, [first, rest @ ..]) => {
            let mut with = combinations(rest, n - 1);
            with.iter_mut().for_each(|taken| taken.insert(0, *first));
            with.extend(combinations(rest, n));
            with
        }
    }
}

/// Which level of domains is the lowest that holds the demand, and the least left over there.
fn best_level(free: &[[u32; 4]], n: usize, memory: &[u64], need: u64) -> Option<(usize, usize)> {
    (1..=4).find_map(|level| {
        let ids: BTreeSet<u32> = free.iter().map(|core| domain(core, level)).collect();
        ids.into_iter()
            .filter_map(|id| {
                let inside: Vec<[u32; 4]> =
                    free.iter().filter(|core| domain(core, level) == id).copied().collect();
                let fits = inside.len() >= n && memory_of(&inside, memory) >= need;
                fits.then(|| inside.len() - n)
            })
            .min()
            .map(|left| (level, left))
    })
}

/// Holds a compact placement against all ways to take `n` cores.
fn check_compact(
    topology: &Topology,
    free: &CpuSet,
    n: usize,
    memory: &[u64],
    need: u64,
) -> Result<(), TestCaseError> {
    let room = Room { topology, free, memory_free_bytes: memory, bandwidth_left: &[] };
    let demand = Demand { cores: n, memory_bytes: need, ..Demand::default() };
    let candidates = free_cores(topology, free);
    let placement = pack(&room, &demand);
    prop_assert_eq!(&placement, &pack(&room, &demand));
    let Some((level, left)) = best_level(&candidates, n, memory, need) else {
        prop_assert_eq!(placement, None);
        return Ok(());
    };
    let placement = placement.unwrap();
    let taken = cores_of(topology, &placement);
    prop_assert_eq!(taken.len(), n);
    prop_assert!(taken.iter().all(|core| candidates.contains(core)), "{:?}", taken);
    prop_assert!(placement.pus().is_subset(free));

    let id = domain(&taken[0], level);
    prop_assert!(taken.iter().all(|core| domain(core, level) == id), "{:?} at level {}", taken, level);
    let inside: Vec<[u32; 4]> = candidates.iter().filter(|core| domain(core, level) == id).copied().collect();
    prop_assert_eq!(inside.len() - n, left, "leftover at level {}", level);
    // The level below that tells anything: where domains differ.
    let differs =
        |level: &usize| inside.iter().any(|core| domain(core, *level) != domain(&inside[0], *level));
    let Some(below) = (1..level).rev().find(differs) else { return Ok(()) };
    let used = |cores: &[[u32; 4]]| cores.iter().map(|core| domain(core, below)).collect::<BTreeSet<u32>>();
    let enough = |cores: &[[u32; 4]]| {
        let children = used(cores);
        let all: Vec<[u32; 4]> =
            inside.iter().filter(|core| children.contains(&domain(core, below))).copied().collect();
        memory_of(&all, memory) >= need
    };
    let all = combinations(&inside, n);
    let near = all.iter().filter(|cores| enough(cores)).map(|cores| used(cores).len()).min();
    let fewest = near.or_else(|| all.iter().map(|cores| used(cores).len()).min());
    prop_assert_eq!(Some(used(&taken).len()), fewest, "{:?} of {:?}", taken, inside);
    Ok(())
}

/// Every set of free cores on every machine of this list, and every size of job: more than 100,000 cases.
#[test]
fn compact_is_the_best_of_all_choices_on_every_small_machine() {
    let shapes: [&[Vec<Vec<usize>>]; 12] = [
        &[vec![vec![2, 2]], vec![vec![2, 2]]],
        &[vec![vec![1, 3]], vec![vec![2, 2]]],
        &[vec![vec![4]], vec![vec![4]]],
        &[vec![vec![2], vec![2]], vec![vec![2], vec![2]]],
        &[vec![vec![3, 3, 3]]],
        &[vec![vec![3, 3]], vec![vec![3]]],
        &[vec![vec![1, 2], vec![3, 3]]],
        &[vec![vec![2, 2, 1]], vec![vec![4]]],
        &[vec![vec![2, 2, 2, 2, 2]]],
        &[vec![vec![3, 2]], vec![vec![3, 2]]],
        &[vec![vec![1, 1], vec![2, 1]], vec![vec![3], vec![2]]],
        &[vec![vec![5, 5]]],
    ];
    let mut cases = 0;
    for shape in shapes {
        let topology = machine(shape, 1);
        let cores = topology.cores();
        for mask in 0u32..1 << cores {
            let free: CpuSet = (0..cores).filter(|core| mask >> core & 1 == 1).map(PuOs).collect();
            for n in 1..=cores as usize {
                // Nearness of memory that nobody asks for must not matter, that of all must.
                let need = if mask % 7 == 0 { 60 } else { 0 };
                if let Err(error) = check_compact(&topology, &free, n, &[50, 50, 50, 50], need) {
                    panic!("{n} of {free} on {shape:?}: {error}");
                }
                cases += 1;
            }
        }
    }
    // One more sweep of the machine with the most to choose from, siblings held in part.
    let topology = machine(&[vec![vec![2, 2]], vec![vec![2, 2]]], 2);
    for mask in 0u32..1 << 16 {
        let free: CpuSet = (0..16).filter(|pu| mask >> pu & 1 == 1).map(PuOs).collect();
        let whole = free_cores(&topology, &free).len();
        for n in [1, 2, 3].into_iter().filter(|n| *n <= whole) {
            check_compact(&topology, &free, n, &[0; 4], 0).unwrap();
            cases += 1;
        }
    }
    assert!(cases >= 100_000, "{cases}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn compact_is_the_best_of_all_choices(
        shape in shapes(),
        threads in 1u32..3,
        held in proptest::collection::vec(prop::bool::weighted(0.3), 64),
        n in 1usize..6,
        memory in proptest::collection::vec(0u64..100, 4),
        need in 0u64..150,
    ) {
        let topology = machine(&shape, threads);
        let free: CpuSet = topology.pus().iter().filter(|pu| !held[pu.core as usize]).map(|pu| pu.os).collect();
        check_compact(&topology, &free, n, &memory, need)?;
    }

    #[test]
    fn spread_leaves_no_cache_with_bandwidth_empty(
        shape in shapes(),
        held in proptest::collection::vec(prop::bool::weighted(0.3), 64),
        n in 1usize..8,
        bandwidth in proptest::collection::vec(0u64..4, 8),
    ) {
        let topology = machine(&shape, 1);
        let free: CpuSet = topology.pus().iter().filter(|pu| !held[pu.core as usize]).map(|pu| pu.os).collect();
        let room = Room { topology: &topology, free: &free, memory_free_bytes: &[], bandwidth_left: &bandwidth };
        let demand = Demand { cores: n, bandwidth_per_core: 1, shape: Shape::Spread, ..Demand::default() };
        let candidates = free_cores(&topology, &free);
        let placement = pack(&room, &demand);
        prop_assert_eq!(placement.is_some(), candidates.len() >= n);
        let Some(placement) = placement else { return Ok(()) };
        let taken = cores_of(&topology, &placement);
        let count = |cache: u32| taken.iter().filter(|core| core[1] == cache).count();
        let caches: BTreeSet<u32> = candidates.iter().map(|core| core[1]).collect();
        let open = caches.iter().any(|&cache| count(cache) == 0 && bandwidth[cache as usize] > 0);
        prop_assert!(!open || caches.iter().all(|&cache| count(cache) <= 1), "{:?}", taken);
    }

    #[test]
    fn two_that_lie_apart_meet_only_where_no_cache_is_left(
        shape in shapes(),
        held in proptest::collection::vec(prop::bool::weighted(0.2), 64),
        jobs in proptest::collection::vec((1usize..4, any::<bool>()), 1..8),
    ) {
        let topology = machine(&shape, 1);
        let site = Site::new(&topology);
        let cache: Vec<u32> = topology.pus().iter().map(|pu| pu.l3.unwrap()).collect();
        let mut free: Vec<bool> = (0..site.len()).map(|core| !held[core]).collect();
        let mut apart = vec![false; site.len()];
        for (count, lies_apart) in jobs {
            let enough = free.iter().filter(|free| **free).count() >= count;
            let taken = if lies_apart {
                site.place_apart(&free, count, |core| apart[core])
            } else {
                site.place(&free, count, Shape::Compact)
            };
            prop_assert_eq!(taken.is_some(), enough);
            let Some(taken) = taken else { continue };
            prop_assert!(taken.len() == count && taken.iter().all(|&core| free[core]));
            prop_assert!(taken.windows(2).all(|pair| pair[0] < pair[1]));
            let theirs = apart.clone();
            for &core in &taken {
                (free[core], apart[core]) = (false, lies_apart);
            }
            let met = |&core: &usize| (0..site.len()).any(|other| theirs[other] && cache[other] == cache[core]);
            if lies_apart && taken.iter().any(met) {
                // Every cache that still has a free core has one of those that lie apart.
                let alone = |core: &usize| {
                    free[*core] && !(0..site.len()).any(|other| apart[other] && cache[other] == cache[*core])
                };
                prop_assert_eq!((0..site.len()).find(alone), None);
            }
        }
    }

    #[test]
    fn so_few_and_so_many_caches(shape in shapes(), count in 1usize..12) {
        let topology = machine(&shape, 1);
        let site = Site::new(&topology);
        if count > site.len() {
            return Ok(());
        }
        let idle = vec![true; site.len()];
        let (fewest, most) = site.domains_for(count);
        let close = site.place(&idle, count, Shape::Compact).unwrap();
        let apart = site.place_apart(&idle, count, |_| false).unwrap();
        // Compact takes the lowest level that holds the job, and there as few children as it can.
        prop_assert!(fewest <= site.domains_of(&close) && fewest <= most);
        prop_assert_eq!(site.domains_of(&apart), most);
        let cores_behind = |cache: u32| topology.pus().iter().filter(|pu| pu.l3 == Some(cache)).count();
        let largest = topology.pus().iter().filter_map(|pu| pu.l3).map(cores_behind).max().unwrap();
        prop_assert_eq!(fewest == 1, count <= largest);
    }

    #[test]
    fn exclusive_placements_never_overlap(
        shape in shapes(),
        demands in proptest::collection::vec((1usize..5, any::<bool>()), 1..8),
    ) {
        let topology = machine(&shape, 2);
        let mut free = topology.usable();
        for (cores, spread) in demands {
            let shape = if spread { Shape::Spread } else { Shape::Compact };
            let room =
                Room { topology: &topology, free: &free, memory_free_bytes: &[], bandwidth_left: &[] };
            let whole = free_cores(&topology, &free).len();
            let placement = pack(&room, &Demand { cores, shape, ..Demand::default() });
            prop_assert_eq!(placement.is_some(), whole >= cores);
            if let Some(placement) = placement {
                prop_assert!(placement.pus().is_subset(&free));
                free = free.difference(&placement.pus());
            }
        }
    }
}

#[test]
fn a_few_by_hand() {
    let topology = machine(&[vec![vec![2, 2]], vec![vec![4, 4]]], 2);
    let check = |held: &str, cores: usize, want: Option<(&str, Level)>| {
        let free = topology.usable().difference(&held.parse().unwrap());
        let room = Room { topology: &topology, free: &free, memory_free_bytes: &[], bandwidth_left: &[] };
        let found = pack(&room, &Demand { cores, ..Demand::default() });
        let found = found.map(|placement| (placement.pus().to_string(), placement.level));
        assert_eq!(found, want.map(|(pus, level)| (pus.to_owned(), level)), "{cores} beside {held:?}");
    };
    check("", 2, Some(("0-3", Level::L3)));
    check("", 3, Some(("8-13", Level::L3)));
    check("0-1", 1, Some(("2-3", Level::L3)));
    check("", 5, Some(("8-17", Level::Numa)));
    check("8-9", 5, Some(("10-11,16-23", Level::Numa)));
    check("", 13, None);
    // A core of which a thread is held is taken only when whole cores do not do.
    check("0,2,4,6,8-23", 2, Some(("1,3", Level::L3)));
    check("0,4-23", 1, Some(("2-3", Level::L3)));
}

/// On a machine of which nothing is taken all domains are alike: each core is asked for a few times, not once for each
/// domain.
#[test]
fn a_core_of_a_large_machine_is_found_by_few_looks() {
    let site = Site::new(
        &pinfold_topo::synthetic::facts_of("pack:512 l3:1 core:4 pu:1").unwrap().assemble().unwrap(),
    );
    let looks = std::cell::Cell::new(0);
    let found = site.place_one(|_| {
        looks.set(looks.get() + 1);
        true
    });
    assert_eq!(found, Some(0));
    assert!(looks.get() <= 4 * site.len(), "{} looks at {} cores", looks.get(), site.len());
}
