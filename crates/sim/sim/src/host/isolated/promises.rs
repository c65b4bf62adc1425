//! Checks where cores are isolated and returned.

use std::time::Duration;

use pinfold_policy::{Class, JobId};
use pinfold_topo::CpuSet;

use super::Host;
use crate::ledger::{Entry, Phase};
use crate::violation::Violation;

/// After so long any cores will do.
const ANY_CORES_AFTER: Duration = Duration::from_secs(600);

impl Host {
    /// Checks the choice of cores about to be isolated.
    pub(crate) fn fairly_isolated(&self, job: JobId, cpus: &CpuSet) -> Result<(), Violation> {
        let Some(entry) = self.ledger.jobs.get(&job) else {
            return Err(Violation::new("cores are for jobs that are there", format!("job {job}")));
        };
        let wrong = |rule| Err(Violation::new(rule, format!("job {job} on {cpus}: {entry:?}")));
        let (taken, left): (Vec<&CpuSet>, Vec<&CpuSet>) =
            self.cores.iter().partition(|core| !core.is_disjoint(cpus));
        if taken.len() != entry.request.cores.max(1) as usize {
            return wrong("who is to be alone gets as many cores as it asked for");
        }
        if left.is_empty() {
            return wrong("a core is left for others");
        }
        let in_sets = self.alone.sets.values().chain(&self.set);
        if in_sets.into_iter().any(|set| !self.whole_cores(set).is_disjoint(cpus)) {
            return wrong("no core is in two sets");
        }
        let aged = |entry: &Entry| self.clock.since(entry.submitted) >= ANY_CORES_AFTER;
        if entry.held || self.ledger.has_full_array(entry) || entry.phase != Phase::Waiting {
            return wrong("who cannot start takes no cores");
        }
        let priority = entry.request.priority;
        let keeps = |(id, other): (&JobId, &Entry)| {
            // A starting job is bound after its start.
            let info = self.policy.as_ref().and_then(|policy| policy.job(*id));
            let (class, on) = match info.filter(|_| other.phase == Phase::Starting) {
                Some(info) => (info.class, info.cpus),
                None => (Some(other.class), other.cpus.clone()),
            };
            let high = other.request.priority >= priority && !aged(entry);
            let home = class == Some(Class::Exclusive) || class == Some(Class::Primary) && high;
            let told = !other.failed.contains_key("bind") && !other.failed.contains_key("weigh");
            told && other.holds_slot() && home && other.request.aside.is_none() && !on.is_disjoint(cpus)
        };
        // Without binding or scheduling no job has a home.
        let bound = self.settings.schedule && self.settings.affinity;
        if bound && self.ledger.jobs.iter().any(keeps) {
            return wrong("nobody as high makes way for who is to be alone");
        }
        let goes_before = |(&id, other): (&JobId, &Entry)| {
            let waits = id != job && other.is_isolated() && other.phase == Phase::Waiting && !other.held;
            let higher = other.request.priority > priority && other.request.cores <= entry.request.cores;
            let kept = self.ledger.has_full_array(other) || self.alone.sets.contains_key(&id);
            waits && higher && !kept && !aged(entry)
        };
        if self.ledger.jobs.iter().any(goes_before) {
            return wrong("the higher priority is alone first");
        }
        Ok(())
    }

    /// Sets are of jobs that are there.
    pub(crate) fn all_given_back(&self) -> Result<(), Violation> {
        if !self.is_up() {
            return Ok(());
        }
        match self.alone.sets.keys().find(|job| !self.ledger.jobs.contains_key(job)) {
            Some(job) => {
                let found = format!("job {job} is over and has {}", self.alone.sets[job]);
                Err(Violation::new("the cores of who was alone are for all again", found))
            }
            None => Ok(()),
        }
    }

    /// Checks that no job waits for isolation while enough cores are idle, plus one for others.
    pub(crate) fn all_isolated(&self) -> Result<(), Violation> {
        match self.ledger.jobs.iter().find(|(id, entry)| self.could_be_alone(**id, entry)) {
            Some((job, entry)) => {
                let found = format!("job {job}, {:?}: {entry:?}", self.cores);
                Err(Violation::new("who is to be alone has idle cores as soon as there are", found))
            }
            None => Ok(()),
        }
    }

    fn could_be_alone(&self, job: JobId, entry: &Entry) -> bool {
        let waits = entry.is_isolated() && entry.phase == Phase::Waiting && !entry.held;
        let Some(policy) = self.policy.as_ref().filter(|_| waits) else { return false };
        if self.alone.sets.contains_key(&job)
            || self.ledger.has_full_array(entry)
            || !self.settings.schedule
            || !self.settings.affinity
        {
            return false;
        }
        let holders = || self.ledger.jobs.iter().filter(|(_, other)| other.holds_slot());
        if holders().any(|(_, other)| other.class == Class::Exclusive) {
            return false;
        }
        let sets = self.alone.sets.values().chain(&self.set);
        let sets = sets.fold(CpuSet::new(), |all, set| all.union(&self.whole_cores(set)));
        // A starting job is bound after its start.
        let wanted = |id: JobId| policy.job(id).map(|info| info.cpus).unwrap_or_default();
        let beside = |cpus: &CpuSet, core: &CpuSet| !cpus.is_empty() && cpus.is_disjoint(core);
        let idle = |core: &&CpuSet| {
            core.is_disjoint(&sets)
                && holders().all(|(&id, other)| beside(&other.cpus, core) && beside(&wanted(id), core))
        };
        let wanted = entry.request.cores.max(1) as usize;
        self.cores.iter().filter(idle).count() >= wanted && self.cores.len() > wanted
    }
}
