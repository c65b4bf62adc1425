//! Compact: a job's cores as close together as they are free, with the least damage to what stays free.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::tree::{Domain, Level, Tree};
use super::{Demand, Placement, Room};

/// Up to so many children every combination is tried; beyond, the largest are taken first.
const EXACT_MAX: usize = 16;

/// How a number of cores is taken from the children of a domain.
struct Pick {
    /// The children, by place.
    children: Vec<usize>,
    /// How many children that were wholly free are left free in part.
    split: usize,
}

pub(super) fn place(room: &Room<'_>, demand: &Demand) -> Option<Placement> {
    let tree = Tree::new(room, demand.cores);
    let mut best = None;
    for (at, (level, domains)) in tree.levels.iter().enumerate() {
        let fits = |domain: &&Domain| {
            domain.cores.len() >= demand.cores
                && Tree::memory_bytes(room, &domain.nodes) >= demand.memory_bytes
        };
        let key = |domain: &&Domain| {
            let children = tree.children(at, domain);
            let pick = choose(room, &children, demand.cores, demand.memory_bytes);
            (domain.cores.len() - demand.cores, pick.map_or(0, |pick| pick.split), domain.cores[0])
        };
        if let Some(domain) = domains.iter().filter(fits).min_by_key(key) {
            best = Some((at, *level, domain));
            break;
        }
    }
    let (at, level, domain) = best?;
    let mut taken = Vec::new();
    take(room, &tree, at, domain, demand.cores, demand.memory_bytes, &mut taken);
    taken.sort_unstable();
    Some(Placement::new(room, level, taken.iter().map(|&core| tree.cores[core].clone()).collect()))
}

/// Takes `n` cores of `domain`, which has them, on as few of its children as possible.
fn take(
    room: &Room<'_>,
    tree: &Tree,
    at: usize,
    domain: &Domain,
    n: usize,
    memory_bytes: u64,
    taken: &mut Vec<usize>,
) {
    let children = tree.children(at, domain);
    // Fewer cores than nodes that the memory needs: it cannot all be near, so it has no say.
    let pick = choose(room, &children, n, memory_bytes).or_else(|| choose(room, &children, n, 0));
    let Some(pick) = pick else {
        taken.extend(domain.cores.iter().take(n));
        return;
    };
    // Children that are in use already give way: what is left over stays in them, or else in one child.
    let mut order: Vec<&Domain> = pick.children.iter().map(|&child| &children[child]).collect();
    order.sort_by_key(|child| (Reverse(child.whole), Reverse(child.cores.len()), child.cores[0]));
    let mut left = n;
    // Each child that was picked gives at least one core, or fewer would have done.
    for (i, child) in order.iter().enumerate() {
        let count = child.cores.len().min(left - (order.len() - i - 1));
        take(room, tree, at - 1, child, count, 0, taken);
        left -= count;
    }
}

/// The children that `n` cores are taken from: as few as possible, then the fewest newly split, then the
/// least left over, then the first ones. `None` when there is nothing to choose.
fn choose(room: &Room<'_>, children: &[Domain], n: usize, memory_bytes: u64) -> Option<Pick> {
    if children.len() < 2 {
        return None;
    }
    let enough = |subset: &[usize]| {
        let cores: usize = subset.iter().map(|&child| children[child].cores.len()).sum();
        let nodes: BTreeSet<u32> = subset.iter().flat_map(|&child| children[child].nodes.clone()).collect();
        // Each child that is picked must give at least one core.
        cores >= n && subset.len() <= n && Tree::memory_bytes(room, &nodes) >= memory_bytes
    };
    let judged = |subset: Vec<usize>| {
        let cores: usize = subset.iter().map(|&child| children[child].cores.len()).sum();
        let spare: usize = subset
            .iter()
            .filter(|&&child| !children[child].whole)
            .map(|&child| children[child].cores.len() - 1)
            .sum();
        let split = usize::from(cores - n > spare);
        ((subset.len(), split, cores - n, subset.clone()), Pick { children: subset, split })
    };
    if children.len() <= EXACT_MAX {
        let of_size = |size: u32| {
            let masks = (1u32..1 << children.len()).filter(move |mask| mask.count_ones() == size);
            let members = |mask: u32| (0..children.len()).filter(move |child| mask >> child & 1 == 1);
            let subsets = masks.map(|mask| members(mask).collect::<Vec<usize>>());
            let judged = subsets.filter(|subset| enough(subset)).map(judged);
            judged.min_by(|(one, _), (other, _)| one.cmp(other)).map(|(_, pick)| pick)
        };
        return (1..=u32::try_from(children.len()).ok()?).find_map(of_size);
    }
    let mut order: Vec<usize> = (0..children.len()).collect();
    order.sort_by_key(|&child| (Reverse(children[child].cores.len()), child));
    let subset = (1..=order.len()).map(|count| order[..count].to_vec()).find(|subset| enough(subset))?;
    Some(judged(subset).1)
}

/// The level of the smallest domain that holds all of `cores`, for those who want to know how close they are.
pub(super) fn level_of(tree: &Tree, cores: &[usize]) -> Level {
    let holds = |domain: &Domain| cores.iter().all(|core| domain.cores.contains(core));
    let found = tree.levels.iter().find(|(_, domains)| domains.iter().any(holds));
    found.map_or(Level::Machine, |(level, _)| *level)
}
