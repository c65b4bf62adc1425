//! Which GPUs jobs have, by their addresses: one pool, whatever the numbers of the GPUs and the names of the resources.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_policy::JobId;
use pinfold_proto::Resource;
use pinfold_sys::gpus::Address;

/// What one job has by one name.
#[derive(Debug)]
struct Part {
    name: String,
    count: u64,
    addresses: Vec<Address>,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Held(BTreeMap<JobId, Vec<Part>>);

impl Held {
    /// A job has what stands in this list.
    pub(super) fn keep(&mut self, job: JobId, list: &[Resource]) {
        let part = |one: &Resource| Part {
            name: one.name.clone(),
            count: one.count,
            addresses: one.addresses.iter().filter_map(|text| Address::parse(text)).collect(),
        };
        let parts: Vec<Part> = list.iter().map(part).filter(|part| !part.addresses.is_empty()).collect();
        if parts.is_empty() {
            self.0.remove(&job)
        } else {
            self.0.insert(job, parts)
        };
    }

    /// Forgets a job.
    pub(super) fn forget(&mut self, job: JobId) {
        self.0.remove(&job);
    }

    /// Forgets all other jobs than these.
    pub(super) fn retain(&mut self, keeps: impl Fn(JobId) -> bool) {
        self.0.retain(|&job, _| keeps(job));
    }

    /// The jobs that have any.
    pub(super) fn jobs(&self) -> impl Iterator<Item = JobId> {
        self.0.keys().copied()
    }

    /// What a job has, each with the name by which it has it.
    pub(super) fn of(&self, job: JobId) -> impl Iterator<Item = (&str, Address)> {
        let parts = self.0.get(&job).map_or(&[][..], Vec::as_slice);
        parts.iter().flat_map(|part| part.addresses.iter().map(|address| (part.name.as_str(), *address)))
    }

    /// All that these jobs have.
    pub(super) fn addresses(&self, counts: impl Fn(JobId) -> bool) -> BTreeSet<Address> {
        let parts = self.0.iter().filter(|(job, _)| counts(**job)).flat_map(|(_, parts)| parts);
        parts.flat_map(|part| part.addresses.iter().copied()).collect()
    }

    /// How many these jobs have by a name, as the scheduler counts them.
    pub(super) fn count(&self, name: &str, counts: impl Fn(JobId) -> bool) -> u64 {
        let parts = self.0.iter().filter(|(job, _)| counts(**job)).flat_map(|(_, parts)| parts);
        parts.filter(|part| part.name == name).fold(0, |sum, part| sum.saturating_add(part.count))
    }
}
