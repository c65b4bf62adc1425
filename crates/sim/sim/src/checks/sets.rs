//! Sets of cores: a job that asks for the set is in it, on cores of its own, and no other job is.

use pinfold_topo::CpuSet;

use super::{Scene, Seen, Violation};

impl Scene<'_> {
    /// Checks the jobs in the set, and returns all others.
    pub(super) fn beside_sets<'b>(&self, seen: Vec<Seen<'b>>) -> Result<Vec<Seen<'b>>, Violation> {
        if self.set.is_empty() {
            return Ok(seen);
        }
        let asks = |one: &Seen<'_>| one.entry.request.aside.is_some() && !one.entry.is_isolated();
        // The others are jobs of the host.
        let (inside, beside): (Vec<Seen<'b>>, Vec<Seen<'b>>) = seen.into_iter().partition(asks);
        let set: CpuSet = self.set.iter().flat_map(CpuSet::iter).collect();
        let mut taken = CpuSet::new();
        for one in inside.iter().filter(|one| one.holds_slot() && !one.entry.failed.contains_key("bind")) {
            let cpus = &one.info.cpus;
            let wrong = |rule| Err(Violation::new(rule, format!("{:?} beside {set}", one.info)));
            if cpus.is_empty() || !cpus.is_subset(&set) {
                return wrong("whoever asked for a set is on its cores");
            }
            // A job without cores of its own after the set shrank is on all of the set's.
            if *cpus == set || !self.settings.affinity {
                continue;
            }
            if !cpus.is_disjoint(&taken) {
                return wrong("no two jobs in a set share a core");
            }
            taken = taken.union(cpus);
        }
        Ok(beside)
    }
}
