//! Compact: a job's cores as close together as they are free, with the least damage to what stays free.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::site::{Count, Free, Level};

/// Up to so many children every combination is tried; beyond, the largest are taken first.
const EXACT_MAX: usize = 16;

/// The domains of one level that `n` cores are taken from.
struct Pick {
    domains: Vec<usize>,
    /// How many of them that were wholly free are left free in part.
    split: usize,
}

/// The cores for `n`, ascending, and the level of the domain that holds them.
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
            // Of those that are alike the one in the fullest surroundings, so that others stay whole.
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

/// Takes `n` cores of a domain, which has them, on as few of its children as possible.
fn take(free: &Free<'_>, at: usize, domain: usize, n: usize, memory_bytes: u64, taken: &mut Vec<usize>) {
    // Fewer cores than nodes that the memory needs: it cannot all be near, so it has no say.
    let pick = choose(free, at, domain, n, memory_bytes).or_else(|| choose(free, at, domain, n, 0));
    let Some(mut pick) = pick else {
        taken.extend(free.cores(at, domain).take(n));
        return;
    };
    // Children that are in use already give way: what is left over stays in them, or else in one child.
    let count = |child: &usize| free.count(at - 1, *child);
    pick.domains.sort_by_key(|child| {
        let count = count(child);
        (Reverse(count.whole), Reverse(count.cores), count.first)
    });
    let mut left = n;
    // Each child that was picked gives at least one core, or fewer would have done.
    for (i, child) in pick.domains.iter().enumerate() {
        let given = count(child).cores.min(left - (pick.domains.len() - i - 1));
        take(free, at - 1, *child, given, 0, taken);
        left -= given;
    }
}

/// The children of a domain that `n` cores are taken from: as few as possible, then the fewest newly split, then the
/// least left over, then the first ones. `None` when there is nothing to choose.
fn choose(free: &Free<'_>, at: usize, domain: usize, n: usize, memory_bytes: u64) -> Option<Pick> {
    let children = free.children(at, domain);
    if children.len() < 2 {
        return None;
    }
    let counts: Vec<Count> = children.iter().map(|&child| free.count(at - 1, child)).collect();
    let mut sizes: Vec<(usize, usize)> = counts.iter().map(|count| count.cores).zip(0..).collect();
    sizes.sort_by_key(|&(cores, child)| (Reverse(cores), child));
    // The largest together show how many children it takes at least.
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
    // Each child that is picked must give at least one core.
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

/// How many children are newly split when `n` cores are taken from these, and how many cores are left over; `None`
/// when they have fewer.
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

/// Whether the set `a` comes before `b`, which has as many members: by its first member that the other lacks.
fn earlier(a: u32, b: u32) -> bool {
    a != b && a >> (a ^ b).trailing_zeros() & 1 == 1
}
