//! Countable resources: how many there are, who may ask for how many, and which GPUs a job gets.
//!
//! The scheduler counts; which of several alike a job has is decided here when it starts, and stands in its row from then
//! on. Owns what was found of GPUs, and which of them jobs have. A GPU is taken as long as the scheduler has its job among
//! those that have started. Which GPU a job has is known by its address on the PCI bus ([`held`]): its number and the name
//! of the resource may be others when a driver was loaded, or the daemon started again. What processes use that ran before
//! is read by a thread aside; a job of which that is late starts later.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pinfold_policy::{Amount, JobId, Policy};
use pinfold_proto::config::Config;
use pinfold_proto::row::JobRow;
use pinfold_proto::view::{DeviceView, FindingView, ResourceView};
use pinfold_proto::wire::ErrorCode;
use pinfold_proto::{JobSpec, Resource};
use pinfold_sys::aside::{self, Purpose};
use pinfold_sys::gpus::{self, Address, Gpu, Vendor};
use pinfold_sys::procfs::Proc;
use pinfold_topo::CpuSet;

use crate::core::Refusal;

/// GPUs are looked for no more often than this, in microseconds: drivers are loaded once.
const LOOK_EVERY_US: u64 = 10_000_000;

/// What all GPUs are called where they are of one vendor.
const GPU: &str = "gpu";

mod held;

use held::Held;

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    gpus: Vec<Gpu>,
    looked_us: Option<u64>,
    held: Held,
    /// Jobs that were to start when it could not be read in time which GPUs their processes use.
    unread: BTreeSet<JobId>,
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
    fn handed_out(&self, config: &Config, name: &str) -> Vec<Gpu> {
        let most = config.resources.get(name);
        if let (Some(&most), Some(vendor)) =
            (most, self.vendors(name).first().filter(|_| self.gpus.is_empty()))
        {
            return gpus::counted(*vendor, most);
        }
        let mut gpus: Vec<Gpu> = self.devices().remove(name).into_iter().flatten().cloned().collect();
        gpus.truncate(most.map_or(usize::MAX, |&most| usize::try_from(most).unwrap_or(usize::MAX)));
        gpus
    }

    /// The vendors whose variables name the GPUs of a resource. Where no driver tells of GPUs, its name says which.
    fn vendors(&self, name: &str) -> Vec<Vendor> {
        let all = [Vendor::Nvidia, Vendor::Amd];
        let is_called = |vendor: &Vendor| name == GPU || name.strip_prefix("gpu.") == Some(vendor.as_str());
        match self.devices().get(name) {
            Some(gpus) => gpus.iter().take(1).map(|gpu| gpu.vendor).collect(),
            None if self.gpus.is_empty() => all.into_iter().filter(is_called).collect(),
            None => Vec::new(),
        }
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

    /// How many of each the scheduler is to count with: so many that just the GPUs that no job has are left when it subtracts
    /// what jobs have by that name. That is what there is, unless jobs have GPUs by another name, or such as are gone.
    pub(crate) fn for_scheduler(&self, policy: &Policy, config: &Config) -> Vec<Amount> {
        let devices = self.devices();
        let mut totals = self.totals(config);
        let taken = self.held.addresses(|job| has_started(policy, job));
        for one in totals.iter_mut().filter(|one| devices.contains_key(&one.name)) {
            let mut free = self.handed_out(config, &one.name);
            free.retain(|gpu| !taken.contains(&gpu.address));
            let has = self.held.count(&one.name, |job| has_started(policy, job));
            one.count = has.saturating_add(free.len() as u64);
        }
        totals
    }

    /// Whether jobs have GPUs that are not among those of the name by which they have them.
    pub(crate) fn has_odd(&self, config: &Config) -> bool {
        self.held.jobs().any(|job| self.is_odd(config, job))
    }

    fn is_odd(&self, config: &Config, job: JobId) -> bool {
        self.held
            .of(job)
            .any(|(name, address)| !self.handed_out(config, name).iter().any(|gpu| gpu.address == address))
    }

    /// Forgets a job; says whether the scheduler has to count with other numbers for that.
    pub(crate) fn job_over(&mut self, config: &Config, job: JobId) -> bool {
        let was_odd = self.is_odd(config, job);
        self.held.forget(job);
        self.unread.remove(&job);
        was_odd
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

    /// A job starts on these PUs (none: on any): which GPUs it gets is written into its list, rather those that it uses
    /// already, then those beside its PUs.
    pub(crate) fn give(&mut self, policy: &Policy, config: &Config, job: JobId, start: Start<'_>) {
        let Start { list, cpus, uses } = start;
        if list.is_empty() {
            return;
        }
        self.held.retain(|other| other != job && has_started(policy, other));
        let mut taken = self.held.addresses(|_| true);
        for one in list.iter_mut() {
            let mut free = self.handed_out(config, &one.name);
            free.retain(|gpu| !taken.contains(&gpu.address));
            let is_far = |gpu: &Gpu| cpus.is_empty() || gpu.cpus.is_disjoint(cpus);
            free.sort_by_key(|gpu| (!uses.contains(&gpu.address), is_far(gpu), gpu.number));
            free.truncate(usize::try_from(one.count).unwrap_or(usize::MAX));
            free.sort_by_key(|gpu| gpu.number);
            one.numbers = free.iter().map(|gpu| gpu.number).collect();
            one.addresses = free.iter().map(|gpu| gpu.address.to_string()).collect();
            taken.extend(free.iter().map(|gpu| gpu.address));
            if self.devices().contains_key(&one.name) && (one.numbers.len() as u64) < one.count {
                tracing::error!(job = job.0, resource = %one, "fewer GPUs are free than the scheduler counted");
            }
        }
        self.held.keep(job, list);
    }

    /// The GPUs that the first of a job's processes uses which ran before the job starts; `first` is `None` where there was no
    /// such process. `None`: that could not be read in time, and the job is not to start now ([`Self::put_off`]): it would
    /// be given GPUs that others use, and others those that it uses.
    pub(crate) fn used_by(
        &mut self,
        proc: &Proc,
        (job, user): (JobId, u32),
        list: &[Resource],
        first: Option<u32>,
    ) -> Option<BTreeSet<Address>> {
        self.unread.remove(&job);
        let devices = self.devices();
        let has_gpus = list.iter().any(|one| devices.contains_key(&one.name));
        let Some(pid) = first.filter(|_| has_gpus) else { return Some(BTreeSet::new()) };
        let proc = proc.clone();
        let read = aside::read_soon((Purpose::Beginnings, user), move || proc.environ(pid).ok().flatten());
        match read.filter(|_| !is_late_in_tests()) {
            Some(environ) => Some(self.seen_by(&environ.unwrap_or_default())),
            None => {
                self.unread.insert(job);
                None
            }
        }
    }

    /// Why the start of a job is to be tried again later; `None`: it is not.
    pub(crate) fn put_off(&self, job: JobId) -> Option<String> {
        let words =
            "which GPUs its processes use cannot be read at present: they hold that up, or the host is busy";
        self.unread.contains(&job).then(|| words.to_owned())
    }

    /// A job runs with what stands in its list. A daemon that knew no addresses wrote numbers alone.
    pub(crate) fn keep(&mut self, job: JobId, list: &mut [Resource]) {
        let devices = self.devices();
        for one in list.iter_mut().filter(|one| one.addresses.is_empty()) {
            let gpus = devices.get(&one.name).map_or(&[][..], Vec::as_slice);
            let named = one.numbers.iter().filter_map(|number| gpus.iter().find(|gpu| gpu.number == *number));
            one.addresses = named.map(|gpu| gpu.address.to_string()).collect();
        }
        self.held.keep(job, list);
    }

    /// The GPUs that a process with this environment sees, where that names any.
    pub(crate) fn seen_by(&self, environ: &[u8]) -> BTreeSet<Address> {
        let named = |vendor: Vendor| {
            let variable = format!("{}=", vendor.variable());
            let list = environ.split(|byte| *byte == 0).find_map(|one| one.strip_prefix(variable.as_bytes()));
            let list = list.and_then(|list| std::str::from_utf8(list).ok());
            let seen = list.map(|list| gpus::visible(self.gpus.clone(), vendor, list)).unwrap_or_default();
            seen.into_iter().filter(move |gpu| gpu.vendor == vendor).map(|gpu| gpu.address)
        };
        [Vendor::Nvidia, Vendor::Amd].into_iter().flat_map(named).collect()
    }

    /// What a job finds in its environment. One that asked for GPUs and got none sees none, rather than all.
    pub(crate) fn variables(&self, list: &[Resource]) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        let vendors =
            list.iter().flat_map(|one| self.vendors(&one.name).into_iter().map(move |vendor| (one, vendor)));
        for (one, vendor) in vendors {
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
            devices: self
                .handed_out(config, &one.name)
                .iter()
                .filter(|gpu| self.gpus.contains(gpu))
                .map(device)
                .collect(),
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
                let has = |device: &DeviceView| one.addresses.contains(&device.address);
                for device in view.devices.iter_mut().filter(|device| has(device)) {
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

/// What a job that starts asks for, and what is known of it.
#[derive(Debug)]
pub(crate) struct Start<'a> {
    /// Its list, into which is written what it gets.
    pub list: &'a mut [Resource],
    /// The PUs that it starts on; none: any.
    pub cpus: &'a CpuSet,
    /// GPUs that its processes use already.
    pub uses: &'a BTreeSet<Address>,
}

fn has_started(policy: &Policy, job: JobId) -> bool {
    policy.job(job).is_some_and(|info| info.started.is_some())
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

/// Whether what is read counts as late: as long as the tests' directory has such a file.
fn is_late_in_tests() -> bool {
    cfg!(debug_assertions) && root().join("late").exists()
}

#[cfg(test)]
mod tests;
