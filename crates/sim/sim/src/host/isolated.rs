//! Isolated jobs, on the daemon's side: each waits for cores of its own, which are reserved for it as a set from then until
//! its end, across restarts.
//!
//! Owns the sets, as on the disk. Absent: the choice of job and cores, which the policy makes; the kernel's partitions, and
//! other load.

mod promises;

use pinfold_policy::isolation::is_too_wide;
use pinfold_policy::{Aside, Event, JobId, Machine};
use pinfold_topo::CpuSet;

use super::{Happening, Host};
use crate::alone::set_name;
use crate::mutant::Mutant;
use crate::violation::Violation;

/// The period of the daemon's search for cores for waiting jobs.
const KEEP_HOUSE_US: u64 = 5_000_000;
/// The time that this continues without disturbances: until lack of cores is the only reason for waiting.
const KEEPS_HOUSE_US: u64 = 700_000_000;

impl Host {
    /// The set that a job is to have for itself.
    pub(crate) fn own_set(&self, job: JobId) -> Option<String> {
        self.options.isolated.contains(&job.0).then(|| set_name(job))
    }

    /// These PUs and all that share a core with them.
    pub(crate) fn whole_cores(&self, cpus: &CpuSet) -> CpuSet {
        let touched = self.world.cores().iter().filter(|core| !core.is_disjoint(cpus));
        touched.fold(cpus.clone(), |all, core| all.union(core))
    }

    /// Sets the cores on line, of which only isolated jobs' are set aside.
    pub(crate) fn come_on_line(&mut self, cores: Vec<CpuSet>) {
        self.alone.online = cores;
        self.set.clear();
        self.share_out();
    }

    /// Cores that are in no set are for all.
    fn share_out(&mut self) {
        let taken = self.set.iter().fold(self.alone.all(), |all, core| all.union(core));
        self.cores = self.alone.online.iter().filter(|core| core.is_disjoint(&taken)).cloned().collect();
    }

    /// Adds the sets of isolated jobs to the machine reported to the policy.
    pub(crate) fn isolated_in(&self, machine: &mut Machine) {
        for &job in self.alone.sets.keys() {
            let cores = self.alone.cores_of(job);
            if cores.is_empty() {
                continue;
            }
            if self.mutant == Some(Mutant::ShareIsolated) {
                machine.cores.extend(cores.iter().cloned());
            }
            machine.asides.push(Aside { name: set_name(job), cores, passes: true, ..Aside::default() });
        }
    }

    /// Whether a job that asks for isolation is refused, at once and for ever.
    pub(crate) fn is_refused(&mut self, job: JobId, wanted: u32) -> Result<bool, Violation> {
        if self.own_set(job).is_none() {
            return Ok(false);
        }
        let there = self.alone.online.len() - self.set.len();
        let asked = if self.mutant == Some(Mutant::NeverRefuseIsolated) { 0 } else { wanted };
        let refused = is_too_wide(asked, there) || !self.settings.schedule;
        let never = wanted as usize + 1 > there || !self.settings.schedule;
        if refused != never {
            let found = format!("job {job}: {wanted} of {there}, refused: {refused}");
            return Err(Violation::new("who could never be alone is refused, and nobody else", found));
        }
        self.alone.refused += u64::from(refused);
        if !refused {
            self.alone.waiting.insert(job);
        }
        Ok(refused)
    }

    /// Makes sets for the jobs that wait, as far as cores are found.
    pub(crate) fn isolate_waiting(&mut self) -> Result<(), Violation> {
        if self.adopting || self.alone.is_idle() {
            return Ok(());
        }
        self.give_up_cores()?;
        loop {
            let taken = self.set.iter().fold(self.alone.all(), |all, core| all.union(core));
            let taken = self.whole_cores(&taken);
            let Some(policy) = &self.policy else { return Ok(()) };
            let next = match self.mutant {
                Some(Mutant::NeverIsolate) => None,
                Some(Mutant::IsolateAnywhere) => self.any_cores(),
                _ => policy.next_to_isolate(self.clock, &self.alone.waiting, &taken),
            };
            let Some((job, cpus)) = next else { break };
            let set = self.whole_cores(&cpus);
            self.fairly_isolated(job, &set)?;
            self.tell(|| format!("{cpus} are made the cores of job {job} alone"));
            self.alone.waiting.remove(&job);
            self.alone.sets.insert(job, set);
            self.share_out();
            self.step(Event::Machine(self.machine()))?;
        }
        self.all_isolated()
    }

    /// The mistake of a daemon that takes cores without a look at the jobs on them.
    fn any_cores(&self) -> Option<(JobId, CpuSet)> {
        let job = *self.alone.waiting.first()?;
        let wanted = self.ledger.jobs.get(&job).map_or(1, |entry| entry.request.cores) as usize;
        let cores = self.cores.get(..wanted).filter(|_| wanted < self.cores.len())?;
        Some((job, cores.iter().fold(CpuSet::new(), |all, core| all.union(core))))
    }

    /// A job that cannot start on its cores after all returns them to others.
    fn give_up_cores(&mut self) -> Result<(), Violation> {
        let Some(policy) = &self.policy else { return Ok(()) };
        let idle: Vec<JobId> =
            self.alone.sets.keys().copied().filter(|&job| !policy.needs_its_cores(job)).collect();
        if idle.is_empty() {
            return Ok(());
        }
        for job in idle {
            self.alone.sets.remove(&job);
            self.alone.waiting.insert(job);
        }
        self.share_out();
        self.step(Event::Machine(self.machine()))
    }

    /// Jobs that are over lose their sets, and others may have the cores.
    pub(crate) fn end_isolation(&mut self) -> Result<(), Violation> {
        if self.adopting || self.alone.is_idle() || !self.is_up() {
            return Ok(());
        }
        let over: Vec<JobId> = self.alone.sets.keys().copied().filter(|&job| !self.has(job)).collect();
        let waiting: Vec<JobId> = self.alone.waiting.iter().copied().filter(|&job| !self.has(job)).collect();
        self.alone.waiting.retain(|job| !waiting.contains(job));
        if self.mutant == Some(Mutant::KeepIsolated) {
            return self.all_given_back();
        }
        if !over.is_empty() {
            over.iter().for_each(|job| drop(self.alone.sets.remove(job)));
            self.share_out();
            self.step(Event::Machine(self.machine()))?;
            self.all_given_back()?;
            return self.isolate_waiting();
        }
        self.all_given_back()
    }

    /// After a restart, drops sets of jobs that are over, and queues jobs without a set.
    pub(crate) fn restore_isolation(&mut self) -> Result<(), Violation> {
        if self.options.isolated.is_empty() {
            return Ok(());
        }
        if self.mutant == Some(Mutant::ForgetIsolated) {
            self.alone.sets.clear();
            self.share_out();
            self.step(Event::Machine(self.machine()))?;
        }
        let isolated: Vec<JobId> = self.options.isolated.iter().map(|&job| JobId(job)).collect();
        self.alone.waiting = isolated
            .into_iter()
            .filter(|&job| self.has(job) && !self.alone.sets.contains_key(&job))
            .collect();
        self.end_isolation()?;
        // Only an event of another kind lets adopted jobs take their places.
        self.step(Event::Tick)?;
        self.isolate_waiting()
    }

    /// The daemon looks by itself, now and then.
    pub(crate) fn keep_house(&mut self) -> Result<(), Violation> {
        let now_us = self.world.now_us();
        if self.chaos {
            self.alone.until_us = now_us + KEEPS_HOUSE_US;
        }
        if self.chaos || now_us < self.alone.until_us && !self.alone.is_idle() {
            self.plan(KEEP_HOUSE_US, Happening::KeepHouse);
        }
        self.isolate_waiting()
    }
}
