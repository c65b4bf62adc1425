//! How a job's cores lie: behind how many caches, and behind how many they could.
//!
//! The smallest domains that a machine has for each of its cores count: its L3 caches, else its NUMA nodes, its sockets.

use super::site::{Free, Level, Site};
use super::spread;

impl Site {
    /// What the smallest domains are.
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

    /// In how few and in how many of the smallest domains so many cores can lie on an idle machine; the same twice where
    /// there is nothing to choose.
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

    /// `count` of the cores that are `free`, as far apart as possible, ascending; and away from the cores of other jobs
    /// that lie `apart`. How much of a domain's bandwidth a core takes is known of nobody, so each counts as one unit: two
    /// such jobs meet in a domain only where no domain with a free core is without one. `None`: there are fewer cores.
    ///
    /// # Panics
    /// If `free` does not speak of each core.
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
        // More than all can take: a budget that is used up would hide which job has taken the least.
        let all = self.cores.len() as u64;
        let budgets = self.cores.iter().map(|core| core.bandwidth as usize + 1).max().unwrap_or(0);
        let mut left = vec![2 * all; budgets];
        for core in self.cores.iter().enumerate().filter(|&(core, _)| apart(core)).map(|(_, core)| core) {
            left[core.bandwidth as usize] -= 1;
        }
        spread::place(&Free::new(self, free, free, &[]), count, 1, &left)
    }
}
