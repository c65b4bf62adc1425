//! Which cores a job gets.
//!
//! A job that wishes nothing gets cores close together, where that leaves the least damage to what stays free (see
//! `pinfold_place::pack`). One with a layout gets cores on which that layout is possible: close together too, unless
//! its options speak of sockets or of the distribution over them; then those that Slurm would allocate. One that names
//! PUs gets their cores or none. One that is to lie apart gets cores behind as many caches as there are, and where the
//! fewest of its class are. Absent: when, in which class, and which jobs lie apart (`shape`).

use std::cmp::Reverse;

use pinfold_place::layout::{Host, LayoutRequest, Select, lay_out};
use pinfold_place::pack::Shape;
use pinfold_topo::CpuSet;

use crate::api::Wish;
use crate::cores::grid::{Core, Grid};

impl Grid {
    /// `count` free home cores; those of `own` (where the job is already), if they are that. Of the others those with
    /// the fewest backfillers. `None`: there are not so many, or not such as it wishes.
    pub(crate) fn choose_homes(
        &self,
        count: usize,
        own: &[usize],
        wish: Option<&Wish>,
        shape: Shape,
    ) -> Option<Vec<usize>> {
        if self.free_homes() < count {
            return None;
        }
        let is_free = |core: usize| self.get(core).home_of.is_none();
        let allowed = |core: usize| wish.is_none_or(|wish| wish.allows(self.get(core)));
        let named = || wish.map(|wish| self.touched_by(&wish.named)).unwrap_or_default();
        let stays = own.len() == count && own.iter().all(|&core| is_free(core) && allowed(core));
        if stays && named().iter().all(|core| own.contains(core)) {
            return Some(own.to_vec());
        }
        if let Some(wish) = wish {
            let free: Vec<bool> =
                (0..self.len()).map(|core| is_free(core) && wish.allows(self.get(core))).collect();
            // Where its layout is not possible apart it may be close together.
            let close = || self.wished(count, &free, wish, Shape::Compact, true);
            return self.wished(count, &free, wish, shape, true).or_else(close);
        }
        if shape == Shape::Spread {
            let free: Vec<bool> = (0..self.len()).map(is_free).collect();
            return self.laid(count, &free, shape);
        }
        if count == 1 {
            // The usual case, without a list: the least shared cores, and of those the one that packs best.
            let key = |core: usize| (!own.contains(&core), self.get(core).backfillers);
            let least = (0..self.len()).filter(|&core| is_free(core)).map(key).min()?;
            return self.site.place_one(|core| is_free(core) && key(core) == least).map(|core| vec![core]);
        }
        let key = |core: &Core| core.home_of.is_none().then_some(core.backfillers);
        self.least(count, |core| key(self.get(core)))
    }

    /// As [`Self::choose_homes`] for a job that wishes nothing and is nowhere yet, of the cores that are `allowed` only.
    pub(crate) fn choose_among(&self, count: usize, allowed: &[bool]) -> Option<Vec<usize>> {
        let key = |core: usize| {
            let free = allowed.get(core) == Some(&true) && self.get(core).home_of.is_none();
            free.then(|| self.get(core).backfillers)
        };
        if count == 1 {
            let least = (0..self.len()).filter_map(key).min()?;
            return self.site.place_one(|core| key(core) == Some(least)).map(|core| vec![core]);
        }
        self.least(count, key)
    }

    /// As [`Self::choose_homes`] for a job that wishes nothing, of the cores that are not `kept` only.
    pub(crate) fn choose_beside(
        &self,
        count: usize,
        own: &[usize],
        shape: Shape,
        kept: &[usize],
    ) -> Option<Vec<usize>> {
        let free: Vec<bool> =
            (0..self.len()).map(|core| self.get(core).home_of.is_none() && !kept.contains(&core)).collect();
        if own.len() == count && own.iter().all(|&core| free[core]) {
            return Some(own.to_vec());
        }
        match shape {
            Shape::Compact => self.choose_among(count, &free),
            Shape::Spread => self.laid(count, &free, shape),
        }
    }

    /// The cores that alone can be among the homes of a job of `count` cores; `None`: it names none, so that any can.
    pub(crate) fn only_homes(&self, count: usize, wish: &Wish) -> Option<Vec<usize>> {
        let named = self.touched_by(&wish.named);
        if !named.is_empty() && named.len() >= count {
            return Some(named);
        }
        let inside = || (0..self.len()).filter(|&core| wish.allows(self.get(core))).collect();
        (!wish.within.is_empty()).then(inside)
    }

    /// `count` cores for a backfiller (all if there are fewer): the fewest backfillers first, then those without a
    /// primary; for one core then where the fewest are around it, and the most idle; for several those that are close
    /// together.
    pub(crate) fn choose_pinning(&self, count: usize, wish: Option<&Wish>, shape: Shape) -> Vec<usize> {
        let count = count.min(self.len());
        let any = Wish::default();
        if let Some(wish) = wish.or((shape == Shape::Spread).then_some(&any)) {
            let all: Vec<bool> = self.iter().map(|core| wish.allows(core)).collect();
            let wished = || {
                self.least_shared(count, wish, shape).or_else(|| self.wished(count, &all, wish, shape, false))
            };
            if let Some(cores) = wished() {
                return cores;
            }
        }
        let idle = |index: usize| {
            let core = self.get(index);
            let crowd = self.crowd_milli(index);
            (core.backfillers, core.home_of.is_some(), crowd, Reverse(core.idle_milli), index)
        };
        if count == 1 {
            return (0..self.len()).min_by_key(|&index| idle(index)).into_iter().collect();
        }
        let load = |core: &Core| (core.backfillers, core.home_of.is_some());
        self.least(count, |core| Some(load(self.get(core)))).unwrap_or_default()
    }

    /// Cores as wished among the least shared ones.
    fn least_shared(&self, count: usize, wish: &Wish, shape: Shape) -> Option<Vec<usize>> {
        let load = |core: &Core| (core.backfillers, core.home_of.is_some());
        let mut loads: Vec<(usize, bool)> = self.iter().filter(|core| wish.allows(core)).map(load).collect();
        loads.sort_unstable();
        let mut enough = loads.split_off(count.saturating_sub(1).min(loads.len()));
        enough.dedup();
        enough.into_iter().find_map(|most| {
            let free: Vec<bool> = self.iter().map(|core| load(core) <= most && wish.allows(core)).collect();
            self.wished(count, &free, wish, shape, true)
        })
    }

    /// `count` cores with the least keys; of those that are alike, ones that are close together. A core without a key
    /// does not count. `None`: there are not so many.
    fn least<K: Ord + Copy>(&self, count: usize, key: impl Fn(usize) -> Option<K>) -> Option<Vec<usize>> {
        let mut keys: Vec<K> = (0..self.len()).filter_map(&key).collect();
        keys.sort_unstable();
        let most = *keys.get(count.checked_sub(1)?)?;
        let below = (0..self.len()).filter(|&core| key(core).is_some_and(|key| key < most));
        let alike: Vec<bool> = (0..self.len()).map(|core| key(core) == Some(most)).collect();
        self.filled(count, &alike, below.collect())
    }

    /// Cores as wished, of those that are `free`. `strict`: `None` when there are no such; otherwise the wish is
    /// followed as far as it can be.
    fn wished(
        &self,
        count: usize,
        free: &[bool],
        wish: &Wish,
        shape: Shape,
        strict: bool,
    ) -> Option<Vec<usize>> {
        let mut taken = self.touched_by(&wish.named);
        if !taken.is_empty() {
            let all_there = taken.iter().all(|&core| free[core]);
            let fit = taken.len() <= count;
            if strict && !(all_there && fit) {
                return None;
            }
            taken.truncate(count);
            return self.filled(count, free, taken);
        }
        let layout = &wish.layout;
        if !speaks_of_sockets(layout) {
            let close = self.laid(count, free, shape)?;
            if self.allocated(&close, layout).is_some() {
                return Some(close);
            }
        }
        let all: Vec<usize> = (0..free.len()).filter(|&core| free[core]).collect();
        match self.allocated(&all, layout) {
            Some(cores) if cores.len() <= count => self.filled(count, free, cores),
            // On the whole machine it is no better: then any cores do.
            _ if !strict || !self.is_possible(wish) => self.laid(count, free, shape),
            _ => None,
        }
    }

    /// `count` of the free cores that lie so; apart means also apart from others that do.
    fn laid(&self, count: usize, free: &[bool], shape: Shape) -> Option<Vec<usize>> {
        match shape {
            Shape::Compact => self.site.place(free, count, shape),
            Shape::Spread => self.site.place_apart(free, count, |core| self.get(core).apart),
        }
    }

    /// The cores taken, and as many more as are missing, of the free ones.
    fn filled(&self, count: usize, free: &[bool], mut taken: Vec<usize>) -> Option<Vec<usize>> {
        let missing = count.saturating_sub(taken.len());
        if missing > 0 {
            let rest: Vec<bool> = (0..free.len()).map(|core| free[core] && !taken.contains(&core)).collect();
            taken.extend(self.site.place(&rest, missing, Shape::Compact)?);
        }
        taken.sort_unstable();
        Some(taken)
    }

    /// The cores that a layout takes of `cores`; `None` if it is not possible there, or nobody knows.
    fn allocated(&self, cores: &[usize], layout: &LayoutRequest) -> Option<Vec<usize>> {
        let topology = self.topology.as_deref()?;
        let host = Host { topology: topology.clone(), free: self.cpus(cores) };
        let layout = lay_out(&[host], layout, Select::Core).ok()?;
        let pus = layout.hosts.iter().fold(CpuSet::new(), |all, share| all.union(&share.allocated));
        Some(self.touched_by(&pus))
    }

    /// Whether its layout is possible on the cores that it may be on.
    fn is_possible(&self, wish: &Wish) -> bool {
        let all: Vec<usize> = (0..self.len()).filter(|&core| wish.allows(self.get(core))).collect();
        self.allocated(&all, &wish.layout).is_some()
    }
}

impl Wish {
    /// Whether it may go to a core.
    pub(crate) fn allows(&self, core: &Core) -> bool {
        self.within.is_empty() || !core.cpus.is_disjoint(&self.within)
    }
}

/// Whether options ask for more than a number of cores.
fn speaks_of_sockets(layout: &LayoutRequest) -> bool {
    let counts = [layout.sockets_per_node, layout.cores_per_socket, layout.ntasks_per_socket];
    layout.distribution.is_some() || counts.iter().any(Option::is_some)
}

#[cfg(test)]
mod tests;
