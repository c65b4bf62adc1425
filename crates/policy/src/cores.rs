//! Who is where: each core's primary, its backfillers, and how idle it was in the last sample.
//!
//! Absent: the judgement who comes to a core; only the choice which core it is.

use std::cmp::Reverse;

use pinfold_topo::CpuSet;

use crate::{JobId, Machine};

#[derive(Debug, Clone, Default)]
pub(crate) struct Core {
    /// Its usable PUs.
    pub(crate) cpus: CpuSet,
    /// The primary whose home it is.
    pub(crate) home_of: Option<JobId>,
    /// Backfillers pinned to it.
    pub(crate) backfillers: usize,
    /// The part of the time it was idle, in thousandths.
    pub(crate) idle_milli: u16,
}

/// The cores that jobs may use, by their place in [`Machine::cores`].
#[derive(Debug, Default)]
pub(crate) struct Cores {
    cores: Vec<Core>,
    free_homes: usize,
}

impl Cores {
    pub(crate) fn new(machine: &Machine) -> Self {
        let cores: Vec<Core> =
            machine.cores.iter().map(|cpus| Core { cpus: cpus.clone(), ..Core::default() }).collect();
        Self { free_homes: cores.len(), cores }
    }

    pub(crate) fn len(&self) -> usize {
        self.cores.len()
    }

    pub(crate) fn free_homes(&self) -> usize {
        self.free_homes
    }

    pub(crate) fn get(&self, core: usize) -> &Core {
        &self.cores[core]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Core> {
        self.cores.iter()
    }

    /// The PUs of these cores.
    pub(crate) fn cpus(&self, cores: &[usize]) -> CpuSet {
        match cores {
            [] => CpuSet::new(),
            [core] => self.cores[*core].cpus.clone(),
            _ => cores.iter().flat_map(|&core| self.cores[core].cpus.iter()).collect(),
        }
    }

    /// The cores that share a PU with `cpus`.
    pub(crate) fn touched_by(&self, cpus: &CpuSet) -> Vec<usize> {
        (0..self.cores.len()).filter(|&core| !self.cores[core].cpus.is_disjoint(cpus)).collect()
    }

    /// `count` free home cores: those of `own` first (where the job is already), then those with the fewest
    /// backfillers, then the lowest. `None` if there are not so many.
    pub(crate) fn choose_homes(&self, count: usize, own: &[usize]) -> Option<Vec<usize>> {
        if self.free_homes < count {
            return None;
        }
        let free = (0..self.cores.len()).filter(|&core| self.cores[core].home_of.is_none());
        Some(least(free, count, |core| (!own.contains(&core), self.cores[core].backfillers, core)))
    }

    /// `count` cores for a backfiller (all if there are fewer): the fewest backfillers first, then those
    /// without a primary, then the most idle, then the lowest.
    pub(crate) fn choose_pinning(&self, count: usize) -> Vec<usize> {
        least(0..self.cores.len(), count, |index| {
            let core = &self.cores[index];
            (core.backfillers, core.home_of.is_some(), Reverse(core.idle_milli), index)
        })
    }

    pub(crate) fn take_homes(&mut self, job: JobId, cores: &[usize]) {
        for &core in cores {
            let home_of = &mut self.cores[core].home_of;
            debug_assert!(home_of.is_none(), "a core is home to one primary at most");
            self.free_homes -= usize::from(home_of.is_none());
            *home_of = Some(job);
        }
    }

    pub(crate) fn leave_homes(&mut self, job: JobId, cores: &[usize]) {
        for &core in cores {
            if self.cores[core].home_of == Some(job) {
                self.cores[core].home_of = None;
                self.free_homes += 1;
            }
        }
    }

    pub(crate) fn pin(&mut self, cores: &[usize]) {
        for &core in cores {
            self.cores[core].backfillers += 1;
        }
    }

    pub(crate) fn unpin(&mut self, cores: &[usize]) {
        for &core in cores {
            self.cores[core].backfillers -= 1;
        }
    }

    /// Says of two cores that each is as idle as the other was.
    pub(crate) fn swap_idle(&mut self, a: usize, b: usize) {
        let idle_milli = self.cores[a].idle_milli;
        self.cores[a].idle_milli = std::mem::replace(&mut self.cores[b].idle_milli, idle_milli);
    }

    /// Takes in a sample; a core it does not speak of counts as busy.
    pub(crate) fn sample(&mut self, idle_milli: &[u16]) {
        for (index, core) in self.cores.iter_mut().enumerate() {
            core.idle_milli = idle_milli.get(index).copied().unwrap_or(0);
        }
    }
}

/// The `count` items with the least keys, in ascending order of the items.
fn least<K: Ord>(items: impl Iterator<Item = usize>, count: usize, key: impl Fn(usize) -> K) -> Vec<usize> {
    if count == 1 {
        return items.min_by_key(|&item| key(item)).into_iter().collect();
    }
    let mut all: Vec<usize> = items.collect();
    all.sort_by_key(|&item| key(item));
    all.truncate(count);
    all.sort_unstable();
    all
}
