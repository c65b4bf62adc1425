//! Spread: memory-bound tasks apart from each other, by the bandwidth that is left.

use super::compact::level_of;
use super::tree::{Domain, Tree};
use super::{Demand, Placement, Room};

/// One core after the other, each from the domain with the fewest cores of this job, then the most bandwidth
/// left; domains whose bandwidth is used up come last. So no domain has two while another with bandwidth has
/// none.
pub(super) fn place(room: &Room<'_>, demand: &Demand) -> Option<Placement> {
    let tree = Tree::new(room, demand.cores);
    if tree.cores.len() < demand.cores {
        return None;
    }
    // The lowest level with domains at all; the L3 caches, where the machine has them.
    let domains: &[Domain] = &tree.levels.first()?.1;
    let budget = |domain: usize| {
        let id = room.bandwidth_id(&tree.cores[domains[domain].cores[0]]);
        id.and_then(|id| room.bandwidth_left.get(id as usize).copied()).unwrap_or(u64::MAX)
    };
    let mut left: Vec<u64> = (0..domains.len()).map(budget).collect();
    let mut used = vec![0usize; domains.len()];
    let mut taken = Vec::new();
    for _ in 0..demand.cores {
        let open = (0..domains.len()).filter(|&domain| used[domain] < domains[domain].cores.len());
        let next = open.min_by_key(|&domain| {
            let spent = left[domain] < demand.bandwidth_per_core.max(1);
            (spent, used[domain], std::cmp::Reverse(left[domain]), domain)
        })?;
        taken.push(domains[next].cores[used[next]]);
        used[next] += 1;
        left[next] = left[next].saturating_sub(demand.bandwidth_per_core);
    }
    taken.sort_unstable();
    let level = level_of(&tree, &taken);
    let placement = Placement::new(room, level, taken.iter().map(|&core| tree.cores[core].clone()).collect());
    let nodes = placement.numa.iter().copied().collect();
    (Tree::memory_bytes(room, &nodes) >= demand.memory_bytes).then_some(placement)
}
