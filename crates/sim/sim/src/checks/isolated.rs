//! Isolated jobs: no other job of ours uses their PUs, nor the PUs of their cores; no job of the same rank made way for
//! them; they get cores as soon as permitted, and others get the cores after their end.

use pinfold_policy::JobId;
use pinfold_topo::CpuSet;

use super::{Scene, Seen, Violation};
use crate::ledger::{Entry, Phase};
use crate::setting::Setting;

impl Entry {
    /// Whether it is to have cores to itself.
    pub(crate) fn is_isolated(&self) -> bool {
        self.request.aside.as_ref().is_some_and(|set| set.starts_with("isolated-"))
    }
}

impl Scene<'_> {
    /// Checks isolated jobs, and returns all others.
    pub(super) fn isolated<'b>(&self, seen: Vec<Seen<'b>>) -> Result<Vec<Seen<'b>>, Violation> {
        for one in seen.iter().filter(|one| one.entry.is_isolated()) {
            self.is_on_its_cores(one)?;
        }
        // An isolated job with all cores off line runs beside the others.
        let has_cores = |one: &Seen<'_>| !self.alone.cores_of(one.id).is_empty();
        let (alone, others): (Vec<Seen<'b>>, Vec<Seen<'b>>) =
            seen.into_iter().partition(|one| one.entry.is_isolated() && has_cores(one));
        for one in &alone {
            // If no other core is on line, the others must share.
            if !one.holds_slot() || one.entry.phase != Phase::Running || self.cores.is_empty() {
                continue;
            }
            let whole = self.whole_cores_of(one.id);
            let beside = others.iter().chain(alone.iter().filter(|other| other.id != one.id));
            if let Some(other) = beside.into_iter().find(|other| self.is_surely_on(other, &whole)) {
                let found = format!("{:?} beside {:?}, which has {whole}", other.info, one.info);
                return Err(Violation::new("nobody else is on the cores of an isolated job", found));
            }
        }
        Ok(others)
    }

    fn whole_cores_of(&self, job: JobId) -> CpuSet {
        let cores = self.alone.cores_of(job);
        let cores = cores.iter().fold(CpuSet::new(), |all, core| all.union(core));
        let touched = self.world.cores().iter().filter(|core| !core.is_disjoint(&cores));
        touched.fold(CpuSet::new(), |all, core| all.union(core))
    }

    fn is_on_its_cores(&self, one: &Seen<'_>) -> Result<(), Violation> {
        let wrong = |rule| Err(Violation::new(rule, format!("{:?} {:?}", one.info, self.alone.sets)));
        if one.entry.phase != Phase::Waiting && !self.alone.sets.contains_key(&one.id) {
            return wrong("who has cores to itself has them until it is over");
        }
        let cores = self.alone.cores_of(one.id);
        if cores.is_empty() {
            return Ok(());
        }
        let set = cores.iter().fold(CpuSet::new(), |all, core| all.union(core));
        if one.holds_slot()
            && !one.entry.failed.contains_key("bind")
            && (one.info.cpus.is_empty() || !one.info.cpus.is_subset(&set))
        {
            return wrong("who has cores to itself is on them");
        }
        let kept = one.entry.held || self.ledger.has_full_array(one.entry);
        let may = one.entry.phase == Phase::Waiting && !kept && !one.entry.failed.contains_key("start");
        if may && self.settings.schedule && cores.len() >= one.cores() {
            return wrong("who has cores to itself starts on them");
        }
        Ok(())
    }

    /// Whether a job's processes may be on one of these PUs, without an excuse.
    fn is_surely_on(&self, one: &Seen<'_>, cpus: &CpuSet) -> bool {
        let Some(container) = self.world.containers.get(&one.id) else { return false };
        let told = self.unreported.get(&one.id).is_none_or(|&count| count == 0);
        let excused = one.entry.phase != Phase::Running
            || one.entry.slotless
            || one.entry.failed.contains_key("bind")
            || self.watch.is_pending(one.id, Setting::Cpus)
            || self.watch.is_pending(one.id, Setting::Frozen);
        let there = container.cpus.is_empty() || !container.cpus.is_disjoint(cpus);
        told && !excused && !container.frozen && !one.entry.frozen && there
    }
}
