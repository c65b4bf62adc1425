//! Counts the smallest domains that a job's cores occupy, and could occupy.
//!
//! The smallest domains are the L3 caches; on machines without L3 caches, NUMA nodes or sockets.

use super::site::{Free, Level, Site};
use super::spread;

impl Site {
    /// The kind of the smallest domains.
    #[must_use]
    pub fn smallest(&self) -> Level {
        self.levels.first().map_or(Level::Machine, |(level, _)| *level)
    }

    /// How many of the smallest domains these cores lie in.
    #[must_use]
    pub fn domains_of(&self, cores: &[usize]) -> usize {
        let Some((_, domains)) = self.levels.first() else { return 0 };
        domains
            .iter()
            .filter(|domain| cores.iter().any(|core| domain.cores.binary_search(core).is_ok()))
            .count()
    }

    /// The fewest and the most of the smallest domains that `count` cores can occupy on an idle machine.
    #[must_use]
    pub fn domains_for(&self, count: usize) -> (usize, usize) {
        let Some((_, domains)) = self.levels.first() else { return (0, 0) };
        let mut sizes: Vec<usize> = domains.iter().map(|domain| domain.cores.len()).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let (mut fewest, mut held) = (0, 0);
        while held < count && fewest < sizes.len() {
            held += sizes[fewest];
            fewest += 1;
        }
        (fewest, count.min(sizes.len()))
    }

    /// `count` of the `free` cores, ascending, as far apart as possible from each other and from other spread
    /// jobs' cores (`apart`). The bandwidth per core is unknown, so each core counts as a single unit: two
    /// spread jobs share a domain only when no domain with a free core is without a spread job. `None` when
    /// fewer cores are free.
    ///
    /// # Panics
    /// If `free` is shorter than the number of cores.
    #[must_use]
    pub fn place_apart(
        &self,
        free: &[bool],
        count: usize,
        apart: impl Fn(usize) -> bool,
    ) -> Option<Vec<usize>> {
        if count == 0 {
            return None;
        }
        // A budget larger than all cores can use: an exhausted budget would hide the least used domain.
        let all = self.cores.len() as u64;
        let budgets = self.cores.iter().map(|core| core.bandwidth as usize + 1).max().unwrap_or(0);
        let mut left = vec![2 * all; budgets];
        for core in self.cores.iter().enumerate().filter(|&(core, _)| apart(core)).map(|(_, core)| core) {
            left[core.bandwidth as usize] -= 1;
        }
        spread::place(&Free::new(self, free, free, &[]), count, 1, &left)
    }
}
