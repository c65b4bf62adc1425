//! The machine as nested boxes (sockets, NUMA nodes, L3 caches, cores), and the jobs' sets of PUs.

use std::collections::BTreeMap;

use pinfold_proto::JobClass;
use pinfold_proto::view::{ChunkView, MapView, ResourceView, SetAsideView, SetView};
use pinfold_topo::{CpuSet, Pu, PuOs, Topology};

/// Most sets kept per core: thousands of cores may have thousands of sets each, but a picture shows a few sets per
/// core, and some dozens in the name of a box.
const CORE_SETS_MAX: usize = 64;

/// The content of a map.
#[derive(Debug)]
pub struct Map {
    pub(super) host: String,
    /// The boxes of the highest level.
    pub(super) sockets: Vec<Group>,
    pub(super) sets: Vec<Set>,
    /// Sets of reserved cores.
    pub(super) asides: Vec<SetAsideView>,
    /// NUMA nodes with bound jobs.
    pub(super) chunks: Vec<ChunkView>,
    /// Countable resources and their jobs.
    pub(super) resources: Vec<ResourceView>,
    cores: Vec<Core>,
}

/// A box with its name and content.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) inside: Inside,
}

/// The content of a box.
#[derive(Debug)]
pub(super) enum Inside {
    Groups(Vec<Group>),
    /// By their place in the map.
    Cores(Vec<usize>),
}

/// A core.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) pus: CpuSet,
    pub(super) usable: bool,
    /// The sets on it, by index in [`Map::sets`]; home sets first, at most [`CORE_SETS_MAX`].
    pub(super) sets: Vec<usize>,
    /// Whether the core is reserved.
    pub(super) aside: bool,
}

/// A job's set of PUs.
#[derive(Debug)]
pub(super) struct Set {
    pub(super) view: SetView,
    pub(super) cpus: CpuSet,
}

impl Map {
    /// The machine with the jobs reported by its daemon.
    #[must_use]
    pub fn new(topology: &Topology, view: &MapView) -> Self {
        let set = |view: &SetView| Set { view: view.clone(), cpus: view.cpus.parse().unwrap_or_default() };
        let sets: Vec<Set> = view.sets.iter().map(set).collect();
        let mut pus: BTreeMap<u32, Vec<&Pu>> = BTreeMap::new();
        for pu in topology.pus() {
            pus.entry(pu.core).or_default().push(pu);
        }
        let firsts: Vec<&Pu> = pus.values().map(|pus| pus[0]).collect();
        let set_aside: CpuSet = view
            .set_asides
            .iter()
            .filter_map(|set| set.cpus.parse::<CpuSet>().ok())
            .fold(CpuSet::new(), |all, cpus| all.union(&cpus));
        let mut on_core = sets_on_cores(&pus, &sets);
        let core = |(number, pus): (u32, Vec<&Pu>)| {
            let usable = pus.iter().any(|pu| pu.usable);
            let pus: CpuSet = pus.iter().map(|pu| pu.os).collect();
            let on = on_core.remove(&number).unwrap_or_default();
            let aside = !set_aside.is_disjoint(&pus);
            Core { pus, usable, sets: on, aside }
        };
        let cores: Vec<Core> = pus.into_iter().map(core).collect();
        let (asides, chunks) = (view.set_asides.clone(), view.chunks.clone());
        let (host, resources) = (view.host.clone(), view.resources.clone());
        Self { host, sockets: sockets(topology, &firsts), sets, asides, chunks, resources, cores }
    }

    pub(super) fn core(&self, core: usize) -> &Core {
        &self.cores[core]
    }

    /// How many cores the machine has.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// How many cores jobs may use.
    pub(super) fn usable(&self) -> usize {
        self.cores.iter().filter(|core| core.usable).count()
    }

    /// How many usable cores have a job.
    pub(super) fn used(&self) -> usize {
        self.cores.iter().filter(|core| core.usable && !core.sets.is_empty()).count()
    }

    pub(super) fn sets_on_pu(&self, pu: PuOs) -> impl Iterator<Item = &Set> {
        self.sets.iter().filter(move |set| set.cpus.contains(pu))
    }

    /// A line of counts: cores, used, free.
    #[must_use]
    pub fn summary(&self) -> String {
        let (usable, used) = (self.usable(), self.used());
        let barred = match self.cores.len() - usable {
            0 => String::new(),
            barred => format!(", {barred} not for jobs"),
        };
        format!("{}: {} cores, {used} used, {} free{barred}", self.host, self.cores.len(), usable - used)
    }
}

impl Set {
    /// Title for users: job, name, owner.
    pub(super) fn title(&self) -> String {
        let view = &self.view;
        match (view.job, &view.name, &view.user) {
            (Some(job), Some(name), Some(user)) => format!("job {job} {name} ({user})"),
            (Some(job), Some(name), None) => format!("job {job} {name}"),
            (Some(job), ..) => format!("job {job}"),
            (None, ..) => "another user's job".to_owned(),
        }
    }
}

/// The sets on each core, without duplicates, in display order.
fn sets_on_cores(cores: &BTreeMap<u32, Vec<&Pu>>, sets: &[Set]) -> BTreeMap<u32, Vec<usize>> {
    let pus = cores.iter().flat_map(|(&core, pus)| pus.iter().map(move |pu| (pu.os, core)));
    let core_of: BTreeMap<PuOs, u32> = pus.collect();
    // PUs of cores with room for more sets, which bounds the work for sets that span all cores.
    let mut free: CpuSet = core_of.keys().copied().collect();
    let mut on: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_by_key(|&set| sets[set].view.class == JobClass::Backfill);
    for number in order {
        for pu in sets[number].cpus.intersection(&free).iter() {
            let on = on.entry(core_of[&pu]).or_default();
            if on.len() == CORE_SETS_MAX {
                free.remove(pu);
            } else if on.last() != Some(&number) {
                on.push(number);
            }
        }
    }
    on
}

/// The sockets, each with the informative levels below it.
fn sockets(topology: &Topology, cores: &[&Pu]) -> Vec<Group> {
    let all: Vec<usize> = (0..cores.len()).collect();
    let nodes = topology.numa_nodes() > topology.sockets();
    let caches = topology.l3() > topology.sockets().max(if nodes { topology.numa_nodes() } else { 0 });
    grouped(
        &all,
        |core| Some(cores[core].socket),
        "socket",
        |inside| {
            let by_cache = |inside: Vec<usize>| match caches {
                true => Inside::Groups(grouped(&inside, |core| cores[core].l3, "L3", Inside::Cores)),
                false => Inside::Cores(inside),
            };
            match nodes {
                true => Inside::Groups(grouped(&inside, |core| Some(cores[core].numa), "NUMA", by_cache)),
                false => by_cache(inside),
            }
        },
    )
}

fn grouped(
    cores: &[usize],
    of: impl Fn(usize) -> Option<u32>,
    what: &str,
    inside: impl Fn(Vec<usize>) -> Inside,
) -> Vec<Group> {
    let mut groups: BTreeMap<Option<u32>, Vec<usize>> = BTreeMap::new();
    for &core in cores {
        groups.entry(of(core)).or_default().push(core);
    }
    let name = |number: Option<u32>| match number {
        Some(number) => format!("{what} {number}"),
        None => format!("no {what}"),
    };
    groups.into_iter().map(|(number, cores)| Group { name: name(number), inside: inside(cores) }).collect()
}
