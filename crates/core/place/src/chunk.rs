//! Chunks: how many NUMA nodes share their memory, for jobs that would leave much of each node unused.
//!
//! A job of a little more than half a node fits once into each node, which wastes nearly half of all memory.
//! Three such jobs fit into two nodes together, seven into four. Pure; the caller assigns jobs to chunks.

/// Most nodes of a chunk, unless a single job needs more.
pub const NODES_MAX: usize = 4;

/// Percentage of a chunk's memory that whole jobs must fill for the chunk to be good enough.
const GOOD_PERCENT: u128 = 95;

/// How many nodes of `node_bytes` make a chunk for jobs of `job_bytes` each: the fewest nodes that jobs fill
/// to 95 %, else the count with the most jobs per node. At least as many as a job needs.
#[must_use]
pub fn nodes_for(job_bytes: u64, node_bytes: u64) -> usize {
    if job_bytes == 0 || node_bytes == 0 {
        return 1;
    }
    let (job, node) = (u128::from(job_bytes), u128::from(node_bytes));
    let least = usize::try_from(job.div_ceil(node)).unwrap_or(usize::MAX);
    let held = |nodes: usize| nodes as u128 * node / job;
    let sizes = least..=NODES_MAX.max(least);
    let good = |&nodes: &usize| held(nodes) * job * 100 >= GOOD_PERCENT * nodes as u128 * node;
    let denser = |&one: &usize, other: &usize| {
        // By jobs per node, then fewer nodes.
        (held(one) * *other as u128).cmp(&(held(*other) * one as u128)).then(other.cmp(&one))
    };
    sizes.clone().find(good).or_else(|| sizes.max_by(denser)).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_little_more_than_half_packs_better_in_several_nodes() {
        let check = |percent: u64, want: usize| assert_eq!(nodes_for(percent, 100), want, "{percent} %");
        check(5, 1);
        check(25, 1);
        check(50, 1);
        // Once in one, three times in two, five in three, seven in four.
        check(51, 4);
        check(30, 3);
        check(40, 2);
        check(66, 2);
        check(100, 1);
        check(150, 3);
        check(250, 3);
        assert_eq!((nodes_for(0, 100), nodes_for(7, 0)), (1, 1));
        assert_eq!(nodes_for(u64::MAX, u64::MAX), 1);
    }

    proptest! {
        #[test]
        fn no_other_size_is_better(job in 1u64..400, node in 1u64..200) {
            let chosen = nodes_for(job, node);
            let held = |nodes: usize| (nodes as u64 * node) / job;
            prop_assert!(held(chosen) >= 1, "one job fits at least");
            let is_good = |nodes: usize| held(nodes) * job * 100 >= 95 * nodes as u64 * node;
            for other in 1..=NODES_MAX.max(chosen) {
                if other < chosen {
                    prop_assert!(!is_good(other) || held(other) == 0);
                }
                if !is_good(chosen) && held(other) > 0 {
                    prop_assert!(held(chosen) * other as u64 >= held(other) * chosen as u64);
                }
            }
        }
    }
}
