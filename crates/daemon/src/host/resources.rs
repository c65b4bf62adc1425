//! Countable resources: how many there are, who may ask for how many, and which GPUs a job gets.
//!
//! The scheduler counts; which of several alike a job has is decided here when it starts, and stands in its row from then
//! on. Owns what was found of GPUs, and which of them jobs have. A GPU is taken as long as the scheduler has its job among
//! those that have started, so that nothing has to be given back.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pinfold_policy::{Amount, JobId, Policy};
use pinfold_proto::config::Config;
use pinfold_proto::row::JobRow;
use pinfold_proto::view::{DeviceView, FindingView, ResourceView};
use pinfold_proto::wire::ErrorCode;
use pinfold_proto::{JobSpec, Resource};
use pinfold_sys::gpus::{self, Gpu, Vendor};
use pinfold_topo::CpuSet;

use crate::core::Refusal;

/// GPUs are looked for no more often than this, in microseconds: drivers are loaded once.
const LOOK_EVERY_US: u64 = 10_000_000;

/// What all GPUs are called where they are of one vendor.
const GPU: &str = "gpu";

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    gpus: Vec<Gpu>,
    looked_us: Option<u64>,
    given: BTreeMap<JobId, Vec<Resource>>,
}

impl Resources {
    /// Looks for GPUs, unless that was done a moment ago; says whether there are others than before.
    pub(crate) fn look(&mut self, now_us: u64) -> bool {
        if self.looked_us.is_some_and(|at| now_us.saturating_sub(at) < LOOK_EVERY_US) {
            return false;
        }
        self.looked_us = Some(now_us);
        let mut found = gpus::find_below(&root());
        // The process that started this daemon may have been given only some of them.
        for vendor in [Vendor::Nvidia, Vendor::Amd] {
            if let Ok(list) = std::env::var(vendor.variable()) {
                found = gpus::visible(found, vendor, &list);
            }
        }
        let changed = found != self.gpus;
        if changed {
            tracing::info!(gpus = found.len(), "GPUs were found");
        }
        self.gpus = found;
        changed
    }

    /// The GPUs by the name of the resource: of one vendor `gpu`, of several `gpu.nvidia` and `gpu.amd`.
    fn devices(&self) -> BTreeMap<String, Vec<&Gpu>> {
        let mut by_vendor: BTreeMap<Vendor, Vec<&Gpu>> = BTreeMap::new();
        for gpu in &self.gpus {
            by_vendor.entry(gpu.vendor).or_default().push(gpu);
        }
        let several = by_vendor.len() > 1;
        let name =
            |vendor: Vendor| if several { format!("{GPU}.{}", vendor.as_str()) } else { GPU.to_owned() };
        by_vendor.into_iter().map(|(vendor, gpus)| (name(vendor), gpus)).collect()
    }

    /// Those of a resource that are handed out: as many of them as the configuration says.
    fn handed_out(&self, config: &Config, name: &str) -> Vec<&Gpu> {
        let mut gpus = self.devices().remove(name).unwrap_or_default();
        if let Some(&most) = config.resources.get(name) {
            gpus.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        }
        gpus
    }

    /// How many there are of each resource.
    pub(crate) fn totals(&self, config: &Config) -> Vec<Amount> {
        let devices = self.devices();
        let mut totals = config.resources.clone();
        for name in devices.keys() {
            totals.insert(name.clone(), self.handed_out(config, name).len() as u64);
        }
        totals.into_iter().map(|(name, count)| Amount { name, count }).collect()
    }

    /// Refuses a job that asks for more than there is.
    pub(crate) fn admit(&self, config: &Config, spec: &JobSpec) -> Result<(), Refusal> {
        let totals = self.totals(config);
        for one in &spec.terms.resources {
            let refuse = |text: String| Err((ErrorCode::Refused, format!("--resource {one}: {text}")));
            match totals.iter().find(|has| has.name == one.name) {
                Some(has) if has.count >= one.count => {}
                Some(has) => return refuse(format!("this host has {} of it", has.count)),
                None if totals.is_empty() => {
                    return refuse(format!(
                        "this host has no countable resources; `pinfold config set resources.{}=N` makes it one, and \
                         `pinfold doctor` tells which GPUs were found",
                        one.name
                    ));
                }
                None => {
                    let names: Vec<&str> = totals.iter().map(|has| has.name.as_str()).collect();
                    return refuse(format!(
                        "this host has no such resource; it has {}. `pinfold config set resources.{}=N` adds one",
                        names.join(", "),
                        one.name
                    ));
                }
            }
        }
        Ok(())
    }

    /// A job starts on these PUs (none: on any): which GPUs it gets is written into its list, rather those beside its PUs.
    pub(crate) fn give(
        &mut self,
        policy: &Policy,
        config: &Config,
        job: JobId,
        list: &mut [Resource],
        cpus: &CpuSet,
    ) {
        if list.is_empty() {
            return;
        }
        let has_started = |job: JobId| policy.job(job).is_some_and(|info| info.started.is_some());
        self.given.retain(|&other, _| other != job && has_started(other));
        for one in list.iter_mut() {
            let mut free = self.handed_out(config, &one.name);
            let taken: BTreeSet<u32> = self.taken(&one.name).map(|(number, _)| number).collect();
            free.retain(|gpu| !taken.contains(&gpu.number));
            let is_far = |gpu: &Gpu| cpus.is_empty() || gpu.cpus.is_disjoint(cpus);
            free.sort_by_key(|gpu| (is_far(gpu), gpu.number));
            let count = usize::try_from(one.count).unwrap_or(usize::MAX);
            one.numbers = free.into_iter().take(count).map(|gpu| gpu.number).collect();
            one.numbers.sort_unstable();
        }
        self.keep(job, list);
    }

    /// A job runs with what stands in its list.
    pub(crate) fn keep(&mut self, job: JobId, list: &[Resource]) {
        if list.iter().any(|one| !one.numbers.is_empty()) {
            self.given.insert(job, list.to_vec());
        }
    }

    /// The numbers that jobs have of a resource, each with its job.
    fn taken(&self, name: &str) -> impl Iterator<Item = (u32, JobId)> {
        let of = move |(&job, list): (&JobId, &'_ Vec<Resource>)| {
            let mine = list.iter().filter(|one| one.name == name).flat_map(|one| one.numbers.clone());
            mine.map(move |number| (number, job)).collect::<Vec<_>>()
        };
        self.given.iter().flat_map(of)
    }

    /// What a job finds in its environment.
    pub(crate) fn variables(&self, list: &[Resource]) -> Vec<(String, String)> {
        let devices = self.devices();
        let mut variables = Vec::new();
        for one in list.iter().filter(|one| !one.numbers.is_empty()) {
            let Some(vendor) = devices.get(&one.name).and_then(|gpus| Some(gpus.first()?.vendor)) else {
                continue;
            };
            let numbers: Vec<String> = one.numbers.iter().map(ToString::to_string).collect();
            variables.push((vendor.variable().to_owned(), numbers.join(",")));
            if vendor == Vendor::Nvidia {
                // Else CUDA numbers the fastest first.
                variables.push(("CUDA_DEVICE_ORDER".to_owned(), "PCI_BUS_ID".to_owned()));
            }
        }
        variables
    }

    /// Each resource; `holders`: the jobs that have started with their lists, and whether the asker may see them.
    pub(crate) fn views<'a>(
        &self,
        config: &Config,
        holders: impl Iterator<Item = (JobId, &'a [Resource], bool)>,
    ) -> Vec<ResourceView> {
        let view = |one: Amount| ResourceView {
            devices: self.handed_out(config, &one.name).into_iter().map(device).collect(),
            resource: one.name,
            total: one.count,
            ..ResourceView::default()
        };
        let mut views: Vec<ResourceView> = self.totals(config).into_iter().map(view).collect();
        for (job, list, is_visible) in holders {
            for one in list {
                let Some(view) = views.iter_mut().find(|view| view.resource == one.name) else { continue };
                view.used = view.used.saturating_add(one.count);
                view.jobs.extend(is_visible.then_some(job.0));
                for device in view.devices.iter_mut().filter(|device| one.numbers.contains(&device.number)) {
                    device.used = true;
                    device.job = is_visible.then_some(job.0);
                }
            }
        }
        views
    }

    /// What doctor says of GPUs.
    pub(crate) fn finding(&self, config: &Config) -> FindingView {
        let subject = "gpus".to_owned();
        let devices = self.devices();
        let words = |(name, gpus): (&String, &Vec<&Gpu>)| {
            let models: BTreeSet<&str> = gpus.iter().filter_map(|gpu| gpu.model.as_deref()).collect();
            let models = match models.len() {
                0 => String::new(),
                _ => format!(" ({})", models.into_iter().collect::<Vec<_>>().join(", ")),
            };
            let handed_out = self.handed_out(config, name).len();
            let part = match handed_out < gpus.len() {
                true => format!(", of which jobs get {handed_out} (`resources.{name}`)"),
                false => String::new(),
            };
            format!("{} of {}{models} as the resource {name}{part}", gpus.len(), gpus[0].vendor.as_str())
        };
        let found: Vec<String> = devices.iter().map(words).collect();
        let found = match found.as_slice() {
            [] => "none was found that CUDA or ROCm could use".to_owned(),
            found => found.join("; "),
        };
        FindingView { subject, ok: true, found, change: None }
    }
}

/// What a job that has started has, in words; `None`: nothing.
pub(crate) fn words(row: &JobRow) -> Option<String> {
    let has: Vec<String> = row.spec.terms.resources.iter().map(ToString::to_string).collect();
    (row.started_us.is_some() && !has.is_empty()).then(|| has.join(", "))
}

fn device(gpu: &Gpu) -> DeviceView {
    DeviceView {
        number: gpu.number,
        vendor: gpu.vendor.as_str().to_owned(),
        model: gpu.model.clone(),
        address: gpu.address.to_string(),
        numa: gpu.numa,
        cpus: (!gpu.cpus.is_empty()).then(|| gpu.cpus.to_string()),
        used: false,
        job: None,
    }
}

/// Where `/proc` and `/sys` are looked for. For the tests `PINFOLD_GPUS_BELOW` names another directory, where debug
/// assertions are on.
fn root() -> PathBuf {
    let named = cfg!(debug_assertions).then(|| std::env::var_os("PINFOLD_GPUS_BELOW")).flatten();
    named.map_or_else(|| PathBuf::from("/"), PathBuf::from)
}

#[cfg(test)]
mod tests;
