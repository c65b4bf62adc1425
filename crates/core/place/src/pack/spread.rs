//! Spread placement: memory-bound tasks apart from each other, by remaining bandwidth.

use std::cmp::Reverse;

use super::site::Free;

/// Takes core by core, each from the domain with the fewest cores of this job, then the most bandwidth left;
/// domains without bandwidth come last. So no domain has two cores while another domain with bandwidth has
/// none.
pub(super) fn place(
    free: &Free<'_>,
    n: usize,
    bandwidth_per_core: u64,
    bandwidth_left: &[u64],
) -> Option<Vec<usize>> {
    // The lowest level with several domains: the L3 caches, where the machine has L3 caches.
    let count = free.site.levels.first()?.1.len();
    let mut open: Vec<Vec<usize>> = (0..count).map(|domain| free.cores(0, domain).collect()).collect();
    open.retain(|cores| !cores.is_empty());
    if open.iter().map(Vec::len).sum::<usize>() < n {
        return None;
    }
    let budget = |cores: &Vec<usize>| {
        let id = free.site.cores[cores[0]].bandwidth;
        bandwidth_left.get(id as usize).copied().unwrap_or(u64::MAX)
    };
    let mut left: Vec<u64> = open.iter().map(budget).collect();
    let mut used = vec![0usize; open.len()];
    let mut taken = Vec::with_capacity(n);
    for _ in 0..n {
        let next =
            (0..open.len()).filter(|&domain| used[domain] < open[domain].len()).min_by_key(|&domain| {
                let spent = left[domain] < bandwidth_per_core.max(1);
                (spent, used[domain], Reverse(left[domain]), domain)
            })?;
        taken.push(open[next][used[next]]);
        used[next] += 1;
        left[next] = left[next].saturating_sub(bandwidth_per_core);
    }
    taken.sort_unstable();
    Some(taken)
}
