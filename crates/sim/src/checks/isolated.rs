//! Jobs that have cores to themselves: nobody else of ours is on those, nor on what shares a core with them; nobody as high
//! made way for them; they have them as soon as they may, and others have them again when they are over.

use std::time::Duration;

use pinfold_policy::{Class, JobId};
use pinfold_topo::CpuSet;

use super::{Scene, Seen, Violation};
use crate::daemon::Host;
use crate::ledger::{Entry, Phase};
use crate::meddling::Setting;

/// After so long any cores will do.
const ANY_CORES_AFTER: Duration = Duration::from_secs(600);

impl Entry {
    /// Whether it is to have cores to itself.
    pub(crate) fn is_isolated(&self) -> bool {
        self.request.aside.as_ref().is_some_and(|set| set.starts_with("isolated-"))
    }
}

impl Scene<'_> {
    /// Checks those that have cores to themselves, and gives all others.
    pub(super) fn isolated<'b>(&self, seen: Vec<Seen<'b>>) -> Result<Vec<Seen<'b>>, Violation> {
        for one in seen.iter().filter(|one| one.entry.is_isolated()) {
            self.is_on_its_cores(one)?;
        }
        // Whose cores are all off line goes on beside the others.
        let has_cores = |one: &Seen<'_>| !self.alone.cores_of(one.id).is_empty();
        let (alone, others): (Vec<Seen<'b>>, Vec<Seen<'b>>) =
            seen.into_iter().partition(|one| one.entry.is_isolated() && has_cores(one));
        for one in &alone {
            // Where no other core is on line, the others have nowhere else to go.
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

    /// Whether a job's processes are where they may be on one of these PUs, and nothing excuses that.
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

impl Host {
    /// These cores are about to be made one job's alone.
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
            // One that is starting is told what is wanted of it once it has.
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
        // Where jobs are not bound, or are not scheduled, nobody has a home.
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

    /// The daemon has looked: nobody waits while there are idle cores enough, and one beside them for others.
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
        // What is wanted of one that is starting, it is told when it has.
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
