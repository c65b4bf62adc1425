//! What is guaranteed to projects: home cores, and memory to start with.
//!
//! Each project with a guarantee has a pool of its own; all other jobs share the pool of what no project is guaranteed. A
//! pool that has more than is its own has borrowed. A pool that wants what is its own and does not have it reclaims it in
//! the step in which that turns out: a borrower's primary becomes a backfiller, and where no slot is left the last of the
//! borrowers is suspended. Between pools this goes before priorities and before the queue; within a pool both hold. A pool
//! that has not borrowed pays nothing.
//!
//! Memory can be reclaimed only as fast as swap takes it, and not at all without. So it is lent only as far as swap could
//! take it. Absent: jobs in reservations, which have what is in theirs; and which users may run in which project.

use std::collections::BTreeMap;

use crate::api::Project;
use crate::jobs::PoolIds;

/// What is whose.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Pools {
    pub(super) of: BTreeMap<String, PoolIds>,
    /// Whose pool it is, and what is guaranteed.
    pub(super) cores: Vec<(Option<String>, u64)>,
    pub(super) memory: Vec<(Option<String>, u64)>,
    /// The home cores of each pool on the host as it is.
    pub(super) shares: Vec<usize>,
}

impl Pools {
    /// The pools of these projects; [`Self::divide_cores`] says how many home cores each has.
    pub(crate) fn new(projects: &[Project]) -> Self {
        let mut projects: Vec<&Project> = projects.iter().collect();
        projects.sort_by(|a, b| a.name.cmp(&b.name));
        let (cores, memory) = (vec![(None, 0)], vec![(None, 0)]);
        let mut pools = Self { cores, memory, ..Self::default() };
        for project in projects {
            let place = |pools: &mut Vec<(Option<String>, u64)>, amount: Option<u64>| {
                let Some(amount) = amount else { return 0 };
                pools.push((Some(project.name.clone()), amount));
                u16::try_from(pools.len() - 1).unwrap_or(0)
            };
            let ids = PoolIds {
                cores: place(&mut pools.cores, project.cores.map(u64::from)),
                memory: place(&mut pools.memory, project.memory_bytes),
            };
            pools.of.insert(project.name.clone(), ids);
        }
        pools
    }

    /// There are so many home cores to be divided.
    pub(crate) fn divide_cores(&mut self, all: usize) {
        let shares = divide(all as u64, &self.cores);
        self.shares = shares.into_iter().map(|share| usize::try_from(share).unwrap_or(0)).collect();
    }

    /// The pools of a job of this project.
    pub(crate) fn of(&self, project: Option<&str>) -> PoolIds {
        project.and_then(|name| self.of.get(name)).copied().unwrap_or_default()
    }

    /// Whether any project is guaranteed cores.
    pub(crate) fn split_cores(&self) -> bool {
        self.cores.len() > 1
    }

    /// Whether any project is guaranteed memory.
    pub(crate) fn split_memory(&self) -> bool {
        self.memory.len() > 1
    }

    pub(super) fn name(&self, pool: u16) -> Option<String> {
        self.cores.get(usize::from(pool)).and_then(|(name, _)| name.clone())
    }

    pub(super) fn share(&self, pool: u16) -> usize {
        self.shares.get(usize::from(pool)).copied().unwrap_or(0)
    }
}

/// `all` as it is divided: so much for each, or in proportion where that is more than there is, and the rest for the
/// first.
pub(crate) fn divide(all: u64, guaranteed: &[(Option<String>, u64)]) -> Vec<u64> {
    let sum: u128 = guaranteed.iter().map(|&(_, amount)| u128::from(amount)).sum();
    let part = |amount: u64| match sum {
        sum if sum > u128::from(all) => {
            u64::try_from(u128::from(amount) * u128::from(all) / sum).expect("at most all")
        }
        _ => amount,
    };
    let mut shares: Vec<u64> = guaranteed.iter().map(|&(_, amount)| part(amount)).collect();
    if let Some((rest, others)) = shares.split_first_mut() {
        *rest = all.saturating_sub(others.iter().sum());
    }
    shares
}

/// What each pool has.
#[derive(Debug)]
pub(crate) struct Uses {
    pub(super) homes: Vec<usize>,
    pub(super) slots: Vec<usize>,
}

/// What is counted of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) enum Count {
    /// Home cores.
    Homes,
    /// Slots.
    Slots,
}

impl Uses {
    pub(super) fn of(&self, count: Count, pool: u16) -> usize {
        let list = if count == Count::Homes { &self.homes } else { &self.slots };
        list.get(usize::from(pool)).copied().unwrap_or(0)
    }

    pub(super) fn take(&mut self, count: Count, pool: u16, amount: usize) {
        let list = if count == Count::Homes { &mut self.homes } else { &mut self.slots };
        if let Some(used) = list.get_mut(usize::from(pool)) {
            *used = used.saturating_sub(amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(all: u64, guaranteed: &[u64], want: &[u64]) {
        let first = (None, 0);
        let others = guaranteed.iter().map(|&amount| (Some(amount.to_string()), amount));
        assert_eq!(divide(all, &std::iter::once(first).chain(others).collect::<Vec<_>>()), want);
    }

    #[test]
    fn what_is_not_guaranteed_is_for_the_others() {
        check(4, &[], &[4]);
        check(4, &[1, 2], &[1, 1, 2]);
        check(4, &[4], &[0, 4]);
        check(2, &[3, 1], &[1, 1, 0]);
        check(0, &[3], &[0, 0]);
        check(u64::MAX, &[u64::MAX, u64::MAX], &[1, u64::MAX / 2, u64::MAX / 2]);
    }
}
