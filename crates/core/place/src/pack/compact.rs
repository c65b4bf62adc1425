//! Compact placement: a job's cores as close together as possible, with the least fragmentation of free
//! cores.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::site::{Count, Free, Level};

/// Up to so many children every combination is tried; beyond, the largest are taken first.
const EXACT_MAX: usize = 16;

/// The chosen domains of a level for `n` cores.
struct Pick {
    domains: Vec<usize>,
    /// How many wholly free domains are left partly free.
    split: usize,
}

/// The chosen `n` cores, ascending, and the level of their domain.
pub(super) fn place(free: &Free<'_>, n: usize, memory_bytes: u64) -> Option<(Level, Vec<usize>)> {
    for (at, (level, domains)) in free.site.levels.iter().enumerate() {
        let fits = |&domain: &usize| {
            let near = || free.memory_bytes(&free.nodes(at, domain)) >= memory_bytes;
            free.count(at, domain).cores >= n && (memory_bytes == 0 || near())
        };
        let left = |domain: usize| free.count(at, domain).cores - n;
        let Some(least) = (0..domains.len()).filter(fits).map(left).min() else { continue };
        let key = |&domain: &usize| {
            let split = choose(free, at, domain, n, memory_bytes).map_or(0, |pick| pick.split);
            // Ties go to the domain with the fullest surroundings, so that other domains stay whole.
            (split, free.around(at, domain), free.count(at, domain).first)
        };
        let best = (0..domains.len()).filter(fits).filter(|&domain| left(domain) == least).min_by_key(key)?;
        let mut taken = Vec::with_capacity(n);
        take(free, at, best, n, memory_bytes, &mut taken);
        taken.sort_unstable();
        return Some((*level, taken));
    }
    None
}

/// Takes `n` cores of a domain, which has at least `n`, from as few of its children as possible.
fn take(free: &Free<'_>, at: usize, domain: usize, n: usize, memory_bytes: u64, taken: &mut Vec<usize>) {
    // With fewer cores than nodes that the memory needs, memory cannot all be local and is ignored.
    let pick = choose(free, at, domain, n, memory_bytes).or_else(|| choose(free, at, domain, n, 0));
    let Some(mut pick) = pick else {
        taken.extend(free.cores(at, domain).take(n));
        return;
    };
    // Wholly free children come first, so that the rest stays in a child that is in use, or else in a single
    // child.
    let count = |child: &usize| free.count(at - 1, *child);
    pick.domains.sort_by_key(|child| {
        let count = count(child);
        (Reverse(count.whole), Reverse(count.cores), count.first)
    });
    let mut left = n;
    // Each picked child gives at least one core; otherwise fewer children would have sufficed.
    for (i, child) in pick.domains.iter().enumerate() {
        let given = count(child).cores.min(left - (pick.domains.len() - i - 1));
        take(free, at - 1, *child, given, 0, taken);
        left -= given;
    }
}

/// Chooses the children of a domain for `n` cores: as few as possible, then the fewest newly split, then the
/// fewest cores left over, then the first. `None` without alternatives.
fn choose(free: &Free<'_>, at: usize, domain: usize, n: usize, memory_bytes: u64) -> Option<Pick> {
    let children = free.children(at, domain);
    if children.len() < 2 {
        return None;
    }
    let counts: Vec<Count> = children.iter().map(|&child| free.count(at - 1, child)).collect();
    let mut sizes: Vec<(usize, usize)> = counts.iter().map(|count| count.cores).zip(0..).collect();
    sizes.sort_by_key(|&(cores, child)| (Reverse(cores), child));
    // The largest children together give the lower bound of the number of children.
    let mut sum = 0;
    let fewest = 1 + sizes.iter().position(|&(cores, _)| {
        sum += cores;
        sum >= n
    })?;
    let near = |members: &mut dyn Iterator<Item = usize>| {
        let nodes: BTreeSet<u32> = members.flat_map(|child| free.nodes(at - 1, children[child])).collect();
        free.memory_bytes(&nodes) >= memory_bytes
    };
    let made = |members: Vec<usize>, split| {
        Some(Pick { domains: members.into_iter().map(|child| children[child]).collect(), split })
    };
    // Each picked child must give at least a core.
    for size in fewest..=children.len().min(n) {
        if children.len() > EXACT_MAX {
            let members: Vec<usize> = sizes[..size].iter().map(|&(_, child)| child).collect();
            if memory_bytes == 0 || near(&mut members.iter().copied()) {
                let split = judge(&counts, members.iter().copied(), n)?.0;
                return made(members, split);
            }
            continue;
        }
        let mut best: Option<((usize, usize), u32)> = None;
        for mask in masks(children.len(), size) {
            let Some(key) = judge(&counts, bits(mask), n) else { continue };
            let better =
                best.is_none_or(|(known, before)| key < known || key == known && earlier(mask, before));
            if better && (memory_bytes == 0 || near(&mut bits(mask))) {
                best = Some((key, mask));
            }
        }
        if let Some(((split, _), mask)) = best {
            return made(bits(mask).collect(), split);
        }
    }
    None
}

/// How many children `n` cores newly split, and how many cores are left over; `None` when the children have
/// fewer cores.
fn judge(counts: &[Count], members: impl Iterator<Item = usize>, n: usize) -> Option<(usize, usize)> {
    let (mut cores, mut spare) = (0, 0);
    for child in members {
        cores += counts[child].cores;
        spare += if counts[child].whole { 0 } else { counts[child].cores - 1 };
    }
    let left = cores.checked_sub(n)?;
    Some((usize::from(left > spare), left))
}

/// All sets of `size` of the first `count` (at most 16) numbers, as bits.
fn masks(count: usize, size: usize) -> impl Iterator<Item = u32> {
    let end = 1u32 << count;
    let next = |mask: &u32| {
        // The next larger number with as many bits.
        let low = mask & mask.wrapping_neg();
        let ripple = mask + low;
        Some(ripple | (((mask ^ ripple) >> 2) / low))
    };
    std::iter::successors(Some((1u32 << size) - 1), next).take_while(move |mask| *mask < end)
}

fn bits(mask: u32) -> impl Iterator<Item = usize> {
    (0..EXACT_MAX).filter(move |child| mask >> child & 1 == 1)
}

/// Whether the set `a` precedes `b` of the same size: `a` has the smallest number that the sets do not share.
fn earlier(a: u32, b: u32) -> bool {
    a != b && a >> (a ^ b).trailing_zeros() & 1 == 1
}
