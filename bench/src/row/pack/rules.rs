//! The rules that are compared: each says which free cores a job of so many cores gets.
//!
//! All see the same machine: domains of equal size (caches), several of which make a socket. The three other rules are
//! written down here from what is known of them; none knows of the future.

use pinfold_place::pack::{Shape, Site};

/// A machine of equal sockets of equal caches.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    pub(super) sockets: usize,
    pub(super) caches: usize,
    pub(super) cores: usize,
}

impl Grid {
    pub(super) fn all(self) -> usize {
        self.sockets * self.socket()
    }

    pub(super) fn socket(self) -> usize {
        self.caches * self.cores
    }

    /// The size of the smallest domain that could hold `count` cores if all were free.
    pub(super) fn domain(self, count: usize) -> usize {
        [self.cores, self.socket(), self.all()].into_iter().find(|&size| count <= size).unwrap_or(self.all())
    }
}

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// pinfold's own, as its policy calls it.
    Compact,
    /// The lowest numbers.
    FirstFit,
    /// The smallest range of numbers that holds all; if there is none the largest, and again for the rest.
    Ranges,
    /// As few caches as possible, of one that holds all the fullest; Slurm's, told that a cache is its socket.
    FewestTightest,
}

pub(super) const RULES: [(Rule, &str); 4] = [
    (Rule::Compact, "pinfold"),
    (Rule::FewestTightest, "fewest domains, tightest fit"),
    (Rule::Ranges, "smallest range, else largest and again"),
    (Rule::FirstFit, "first fit"),
];

impl Rule {
    /// `count` of the cores that are `free`, ascending; `None`: there are not so many.
    pub(super) fn place(self, grid: Grid, site: &Site, free: &[bool], count: usize) -> Option<Vec<usize>> {
        let mut taken = match self {
            Self::Compact => return site.place(free, count, Shape::Compact),
            Self::FirstFit => (0..free.len()).filter(|&core| free[core]).take(count).collect(),
            Self::Ranges => ranges(free, count),
            Self::FewestTightest => fewest_tightest(grid, free, count),
        };
        taken.sort_unstable();
        (taken.len() == count).then_some(taken)
    }

    /// The same within one domain of `size` cores, where the rule may choose which; `None`: none has so many.
    pub(super) fn place_within(
        self,
        grid: Grid,
        site: &Site,
        free: &[bool],
        count: usize,
        size: usize,
    ) -> Option<Vec<usize>> {
        let domains = (0..grid.all()).step_by(size).map(|first| first..first + size);
        let fits = domains.filter(|domain| domain.clone().filter(|&core| free[core]).count() >= count);
        let only = |domain: std::ops::Range<usize>| -> Vec<bool> {
            (0..free.len()).map(|core| free[core] && domain.contains(&core)).collect()
        };
        let found: Vec<Vec<usize>> =
            fits.filter_map(|domain| self.place(grid, site, &only(domain), count)).collect();
        let left = |taken: &Vec<usize>| {
            let first = taken[0] / size * size;
            (first..first + size).filter(|&core| free[core]).count()
        };
        match self {
            // It chooses the domain by itself.
            Self::Compact => site
                .place(free, count, Shape::Compact)
                .filter(|taken| !found.is_empty() && taken[0] / size == taken[count - 1] / size),
            Self::FirstFit => found.into_iter().next(),
            Self::Ranges => found.into_iter().min_by_key(|taken| (pieces(taken), longest_free(free, taken))),
            Self::FewestTightest => found.into_iter().min_by_key(left),
        }
    }
}

/// Free ranges as (first, length).
fn free_ranges(free: &[bool]) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for core in (0..free.len()).filter(|&core| free[core]) {
        match ranges.last_mut() {
            Some((first, length)) if *first + *length == core => *length += 1,
            _ => ranges.push((core, 1)),
        }
    }
    ranges
}

fn ranges(free: &[bool], count: usize) -> Vec<usize> {
    let mut left = free_ranges(free);
    let mut taken = Vec::new();
    while taken.len() < count {
        let missing = count - taken.len();
        let smallest =
            left.iter().enumerate().filter(|(_, range)| range.1 >= missing).min_by_key(|(_, r)| r.1);
        let largest = left.iter().enumerate().max_by_key(|(at, range)| (range.1, std::cmp::Reverse(*at)));
        let Some((at, &(first, length))) = smallest.or(largest) else { break };
        taken.extend(first..first + length.min(missing));
        left.remove(at);
    }
    taken
}

fn fewest_tightest(grid: Grid, free: &[bool], count: usize) -> Vec<usize> {
    let caches: Vec<Vec<usize>> = (0..grid.all())
        .step_by(grid.cores)
        .map(|first| (first..first + grid.cores).filter(|&core| free[core]).collect())
        .collect();
    let tightest = caches.iter().filter(|cores| cores.len() >= count).min_by_key(|cores| cores.len());
    if let Some(cores) = tightest {
        return cores[..count].to_vec();
    }
    let mut order: Vec<&Vec<usize>> = caches.iter().collect();
    order.sort_by_key(|cores| std::cmp::Reverse(cores.len()));
    order.into_iter().flatten().copied().take(count).collect()
}

/// In how many pieces cores lie.
fn pieces(taken: &[usize]) -> usize {
    1 + taken.windows(2).filter(|pair| pair[1] != pair[0] + 1).count()
}

/// How long the free range is that the first of the cores lies in.
fn longest_free(free: &[bool], taken: &[usize]) -> usize {
    let range =
        free_ranges(free).into_iter().find(|(first, length)| (*first..first + length).contains(&taken[0]));
    range.map_or(0, |(_, length)| length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID: Grid = Grid { sockets: 2, caches: 2, cores: 4 };

    /// `.` is free, `x` is held; `#` in the answer is taken.
    fn check(rule: Rule, cores: &str, count: usize, want: &str) {
        let site = super::super::site(GRID);
        let free: Vec<bool> = cores.bytes().map(|core| core == b'.').collect();
        let taken = rule.place(GRID, &site, &free, count).unwrap_or_default();
        let mut shown = cores.as_bytes().to_vec();
        taken.iter().for_each(|&core| shown[core] = b'#');
        assert_eq!(String::from_utf8(shown).unwrap(), want, "{rule:?} {count} of {cores}");
    }

    #[test]
    fn rules_do_what_they_are_named_after() {
        check(Rule::FirstFit, "x.x.....x.......", 3, "x#x##...x.......");
        check(Rule::Ranges, "x.x.....x..xxx..", 2, "x.x.....x##xxx..");
        check(Rule::Ranges, "x.x..x.xx..xxx.x", 3, "x#x##x.xx..xxx.x");
        check(Rule::FewestTightest, "x.......xx..xxx.", 2, "x.......xx##xxx.");
        check(Rule::FewestTightest, "x.....x.xx..xxx.", 5, "x#####x.xx..xxx.");
        check(Rule::Compact, "x.......xx..xxx.", 2, "x.......xx##xxx.");
        check(Rule::Compact, "x.......xx..xxx.", 5, "x#..####xx..xxx.");
    }
}
