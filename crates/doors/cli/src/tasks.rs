//! The result of a job's layout options: how many cores the job asks for, which cores where it names them, and how its
//! tasks lie on its cores.
//!
//! Three kinds of request. A request without options gets a single process on the job's cores. Counts and hints get the
//! layout that Slurm would make of them on the job's cores, and each task bound to its part. Named PUs
//! (`--cpu-bind map_cpu:...`, `mask_cpu:...`) get a job on exactly these PUs. Absent here: starting anything.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

use pinfold_place::layout::{Host, LayoutError, LayoutRequest, Manual, Select, lay_out};
use pinfold_proto::{ExitCode, JobLayout};
use pinfold_sys::discover;
use pinfold_sys::lead::{TaskPlan, TaskStart};
use pinfold_topo::{CpuSet, PuOs, Topology};

use crate::job::{JobOptions, PlaceArg};
use crate::print::say;
use pinfold_client::Failure;

pub(crate) mod options;

/// The layout options of a job, read and not yet checked against a host.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    request: LayoutRequest,
    /// The options as they would be typed, for messages and for the daemon.
    given: Vec<(String, String)>,
    cores: Option<u32>,
}

/// A layout on a host, as far as it stands before the job has its cores.
#[derive(Debug)]
pub(crate) struct Laid {
    asked: Asked,
    /// The whole machine: jobs may be allowed other PUs later.
    topology: Topology,
    /// The cores that the job asks for.
    pub cores: u32,
    /// The PUs that the options name, if any.
    named: CpuSet,
    masks: Vec<CpuSet>,
    ntasks: usize,
    /// Part of a job already: the existing cores belong to the job.
    inside: bool,
    sets_threads: bool,
    /// The lack of a layout on the job's PUs is reported once.
    said: Cell<bool>,
}

impl Asked {
    /// Reads the options; `None`: there are none. A job's own `PINFOLD_NTASKS` is no option of a job below it.
    pub(crate) fn of(options: &JobOptions) -> Result<Option<Self>, Failure> {
        let mut tasks = options.tasks.clone();
        if tasks.ntasks.is_none() && std::env::var_os("PINFOLD_JOB_ID").is_none() {
            tasks.ntasks = std::env::var("PINFOLD_NTASKS").ok();
        }
        let mut request = LayoutRequest::default();
        let mut given = Vec::new();
        for (name, value) in tasks.given() {
            let set = request.set(name, Some(&value));
            set.map_err(|error| Failure::new(ExitCode::Usage, error))?;
            given.push((name.to_owned(), value));
        }
        tasks.read_hosts(&mut request)?;
        request.exclusive = options.exclusive;
        if let Some(place) = options.place.filter(|place| *place != PlaceArg::Auto)
            && let Some(other) = says_where(&request)
        {
            let place = if place == PlaceArg::Spread { "spread" } else { "compact" };
            let text =
                format!("--place {place} and {other} both say where its cores lie: leave one of them out");
            return Err(Failure::new(ExitCode::Usage, text));
        }
        if given.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self { request, given, cores: options.cores }))
    }

    /// Checks the options against this host, on which jobs may use `cpus` (empty: the PUs of this process).
    pub(crate) fn on(self, cpus: &CpuSet) -> Result<Laid, Failure> {
        let failed = |error| Failure::doing("failed to read the topology", &error);
        let topology = discover::host_within(&all_pus()).map_err(failed)?;
        let cpus = if cpus.is_empty() { &discover::allowed().map_err(failed)? } else { cpus };
        self.on_topology(topology, cpus)
    }

    /// As [`Self::on`] this host, inside a job: the tasks lie on the PUs of this process.
    pub(crate) fn inside(self) -> Result<Laid, Failure> {
        let mut laid = self.on(&CpuSet::new())?;
        laid.inside = true;
        Ok(laid)
    }

    fn on_topology(self, topology: Topology, cpus: &CpuSet) -> Result<Laid, Failure> {
        let idle = topology.clone().restricted(cpus);
        let masks = self.masks(&idle)?;
        let mut plain = self.request.clone();
        if !masks.is_empty() {
            plain.cpu_bind = Default::default();
        }
        let layout =
            lay_out(&[Host::idle(idle)], &plain, Select::Core).map_err(|error| self.impossible(&error))?;
        let ntasks = layout.tasks.len();
        if !masks.is_empty() && masks.len() < ntasks {
            let text = format!("--cpu-bind names {} PUs or masks for {ntasks} tasks", masks.len());
            return Err(Failure::new(ExitCode::Usage, text));
        }
        let masks: Vec<CpuSet> = masks.into_iter().take(ntasks).collect();
        let named = masks.iter().fold(CpuSet::new(), |all, mask| all.union(mask));
        let allocated = layout.hosts.iter().fold(CpuSet::new(), |all, share| all.union(&share.allocated));
        let needed = cores_of(&topology, &allocated).max(cores_of(&topology, &named));
        let needed = u32::try_from(needed).expect("no more than a machine has");
        if let Some(cores) = self.cores.filter(|&cores| cores < needed) {
            let text = format!("--cores {cores} is less than the {needed} that {} needs", self.words());
            return Err(Failure::new(ExitCode::Usage, text));
        }
        Ok(Laid {
            cores: self.cores.unwrap_or(needed),
            asked: self,
            topology,
            named,
            masks,
            ntasks,
            inside: false,
            sets_threads: std::env::var_os("OMP_NUM_THREADS").is_none(),
            said: Cell::new(false),
        })
    }

    /// The PUs that each task is to have, where the user named them.
    fn masks(&self, topology: &Topology) -> Result<Vec<CpuSet>, Failure> {
        let masks: Vec<CpuSet> = match &self.request.cpu_bind.manual {
            Some(Manual::MapCpu(list)) => list.iter().map(|&pu| CpuSet::single(PuOs(pu))).collect(),
            Some(Manual::MaskCpu(masks)) => masks.clone(),
            _ => return Ok(Vec::new()),
        };
        let usable = topology.usable();
        for mask in &masks {
            let strange = mask.difference(&usable);
            if !strange.is_empty() {
                let text = format!("--cpu-bind: jobs have no PU {strange} here; they have {usable}");
                return Err(Failure::new(ExitCode::Usage, text));
            }
            if mask.is_empty() {
                return Err(Failure::new(ExitCode::Usage, "--cpu-bind: a mask without any PU"));
            }
        }
        Ok(masks)
    }

    fn words(&self) -> String {
        let words = self.given.iter().map(|(name, value)| format!("{name} {value}").trim_end().to_owned());
        words.collect::<Vec<String>>().join(" ")
    }

    fn impossible(&self, error: &LayoutError) -> Failure {
        let code = match error {
            LayoutError::NodeCount { .. }
            | LayoutError::TooManyCpus { .. }
            | LayoutError::Geometry
            | LayoutError::NotAvailable
            | LayoutError::Busy => ExitCode::Refused,
            _ => ExitCode::Usage,
        };
        Failure::new(code, format!("{}: {error}", self.words()))
    }
}

impl Laid {
    /// The layout as the daemon takes it.
    pub(crate) fn as_asked(&self) -> JobLayout {
        let cpus = (!self.named.is_empty()).then(|| self.named.to_string());
        JobLayout { options: self.asked.given.clone(), cpus, ..JobLayout::default() }
    }

    /// Where each task goes once the job has its cores.
    pub(crate) fn plan(self: &Rc<Self>) -> TaskPlan {
        let laid = self.clone();
        TaskPlan::new(move |held| laid.starts(held))
    }

    fn starts(&self, held: &CpuSet) -> Result<Vec<TaskStart>, String> {
        let bindings = self.bindings(held)?;
        let start = |(task, cpus): (usize, Option<CpuSet>)| TaskStart {
            variables: self.variables(task, cpus.as_ref().unwrap_or(held), held),
            cpus,
        };
        Ok(bindings.into_iter().enumerate().map(start).collect())
    }

    fn bindings(&self, held: &CpuSet) -> Result<Vec<Option<CpuSet>>, String> {
        if !self.masks.is_empty() {
            if !self.named.is_subset(held) {
                return Err(format!("--cpu-bind names PUs outside of the job's, which are {held}"));
            }
            return Ok(self.masks.iter().cloned().map(Some).collect());
        }
        let more_than_asked = cores_of(&self.topology, held) > self.cores as usize;
        if more_than_asked && !self.asked.request.exclusive && !self.inside {
            // The host pins no job, so the first cores are not this job's either.
            return Ok(vec![None; self.ntasks]);
        }
        let host = Host { topology: self.around(held), free: held.clone() };
        match lay_out(&[host], &self.asked.request, Select::Core) {
            Ok(layout) => Ok(layout.tasks.into_iter().map(|place| place.cpus).collect()),
            Err(error) => {
                if !self.said.replace(true) {
                    let words = self.asked.words();
                    say(&format!("warning: {words} on the PUs {held}: {error}; the tasks share them"));
                }
                Ok(vec![None; self.ntasks])
            }
        }
    }

    /// The machine as the job sees it: of shared cores, only the job's part. An exclusive job has the host, including
    /// PUs left out.
    fn around(&self, held: &CpuSet) -> Topology {
        if self.asked.request.exclusive {
            return self.topology.clone().restricted(held);
        }
        let pus = self.topology.pus();
        let ours: BTreeSet<u32> = pus.iter().filter(|pu| held.contains(pu.os)).map(|pu| pu.core).collect();
        let seen = pus.iter().filter(|pu| held.contains(pu.os) || !ours.contains(&pu.core)).map(|pu| pu.os);
        self.topology.clone().restricted(&seen.collect())
    }

    fn variables(&self, task: usize, cpus: &CpuSet, held: &CpuSet) -> Vec<(String, String)> {
        let mut variables = vec![
            ("PINFOLD_TASK_ID".to_owned(), task.to_string()),
            ("PINFOLD_NTASKS".to_owned(), self.ntasks.to_string()),
            ("PINFOLD_TASK_CPUS".to_owned(), cpus.to_string()),
        ];
        if self.sets_threads {
            // Tasks that share PUs share them fairly.
            let fair = (held.len() / self.ntasks).max(1);
            let threads = self.asked.request.cpus_per_task.unwrap_or(fair).min(cpus.len().max(1));
            variables.push(("OMP_NUM_THREADS".to_owned(), threads.to_string()));
        }
        variables
    }
}

/// The option that names the cores or sockets of a job, if given.
fn says_where(request: &LayoutRequest) -> Option<&'static str> {
    let options = [
        (request.cpu_bind.manual.is_some(), "a --cpu-bind that names PUs"),
        (request.distribution.is_some(), "--distribution"),
        (request.sockets_per_node.is_some(), "--sockets-per-node"),
        (request.cores_per_socket.is_some(), "--cores-per-socket"),
        (request.ntasks_per_socket.is_some(), "--ntasks-per-socket"),
    ];
    options.into_iter().find_map(|(given, name)| given.then_some(name))
}

fn all_pus() -> CpuSet {
    (0..=pinfold_topo::cpuset::PU_OS_MAX).map(PuOs).collect()
}

fn cores_of(topology: &Topology, cpus: &CpuSet) -> usize {
    let cores: BTreeSet<u32> =
        topology.pus().iter().filter(|pu| cpus.contains(pu.os)).map(|pu| pu.core).collect();
    cores.len()
}

/// Tell launchers how to bind, for Open MPI 4 and 5.
const LAUNCHERS_BIND: [&str; 2] =
    ["OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy"];

/// Where a job's PUs are no more than the affinity of its processes, a launcher that binds by itself ignores and leaves
/// them: there its ranks stay as they are, on the job's PUs, unless its user says otherwise.
pub(crate) fn keep_launchers_in(variables: &mut Vec<(String, String)>) {
    if !variables.contains(&("PINFOLD_MODE".to_owned(), "rootless".to_owned())) {
        return;
    }
    let unset = LAUNCHERS_BIND.into_iter().filter(|name| std::env::var_os(name).is_none());
    variables.extend(unset.map(|name| (name.to_owned(), "none".to_owned())));
}

#[cfg(test)]
mod tests;
