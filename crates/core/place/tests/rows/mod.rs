//! Rows of the fixtures, and their comparison with the layout.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use bzip2::read::BzDecoder;
use pinfold_place::layout::{Host, Layout, LayoutRequest, Select, lay_out};
use pinfold_topo::facts::Facts;
use pinfold_topo::{CpuSet, NumaNode, PuOs, Topology};
use serde::Deserialize;

/// A file of rows.
pub(crate) struct RowFile {
    pub(crate) name: String,
    path: PathBuf,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fixtures/slurm-layouts")
}

fn lines(path: &Path) -> Vec<String> {
    BufReader::new(BzDecoder::new(File::open(path).unwrap())).lines().map(Result::unwrap).collect()
}

/// All files of rows, by name.
pub(crate) fn files() -> Vec<RowFile> {
    let in_dir = |dir: PathBuf, kind: &'static str| {
        std::fs::read_dir(dir).unwrap().filter_map(move |entry| {
            let path = entry.unwrap().path();
            let name = path.file_name()?.to_str()?.strip_suffix(".jsonl.bz2")?.to_owned();
            (name != "nodes").then_some(RowFile { name: format!("{kind}{name}"), path })
        })
    };
    let real = fixtures().with_file_name("slurm-layouts-real");
    let mut files: Vec<RowFile> = in_dir(fixtures(), "").chain(in_dir(real, "real-")).collect();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

/// What Slurm answered to one request.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) opts: Vec<String>,
    pub(crate) nodes: Vec<String>,
    hosts: Vec<Host>,
    select: Select,
    /// `None`: refused.
    layout: Option<Wanted>,
    /// The bindings are what the kernel enforced: within the allocation, and all of it where unbound.
    effective: bool,
    status: String,
}

#[derive(Debug, PartialEq)]
struct Wanted {
    allocated: BTreeMap<usize, String>,
    tasks: Vec<(usize, usize, Option<String>)>,
}

impl From<&Layout> for Wanted {
    fn from(layout: &Layout) -> Self {
        Self {
            allocated: layout.hosts.iter().map(|share| (share.host, share.allocated.to_string())).collect(),
            tasks: layout
                .tasks
                .iter()
                .map(|place| (place.task, place.host, place.cpus.as_ref().map(ToString::to_string)))
                .collect(),
        }
    }
}

#[derive(Deserialize)]
struct RawNode {
    node: String,
    sockets: usize,
    cores_per_socket: usize,
    threads_per_core: usize,
    abstract_to_os: Vec<u32>,
    numa_os: Vec<String>,
}

#[derive(Deserialize)]
struct RawAlloc {
    nodes: String,
    cpu_ids: String,
}

#[derive(Deserialize)]
struct RawHeld {
    cpu_ids: String,
}

#[derive(Deserialize)]
struct RawJob {
    alloc: Vec<RawAlloc>,
}

#[derive(Deserialize)]
struct RawTask {
    task: usize,
    node: String,
    os_mask: Option<String>,
}

#[derive(Deserialize)]
struct RawRow {
    select_params: String,
    nodes: Vec<String>,
    held: Vec<RawHeld>,
    opts: Vec<String>,
    status: String,
    job: Option<RawJob>,
    tasks: Option<Vec<RawTask>>,
}

#[derive(Deserialize)]
struct RealCpu {
    cpu: u32,
    core: usize,
    socket: usize,
    node: u32,
}

#[derive(Deserialize)]
struct RealTopology {
    name: String,
    sockets: usize,
    cores_per_socket: usize,
    threads_per_core: usize,
    os_cpus: Vec<RealCpu>,
}

#[derive(Deserialize)]
struct RealTask {
    procid: usize,
    cpus: String,
}

#[derive(Deserialize)]
struct RealRow {
    topology: RealTopology,
    select_params: String,
    occupied_cpu_ids: Option<String>,
    options: String,
    rc: i32,
    cpu_ids: Option<String>,
    tasks: Vec<RealTask>,
}

struct Node {
    topology: Topology,
    to_os: Vec<u32>,
}

fn nodes() -> BTreeMap<String, Node> {
    lines(&fixtures().join("nodes.jsonl.bz2"))
        .iter()
        .map(|line| {
            let raw: RawNode = serde_json::from_str(line).unwrap();
            (raw.node.clone(), Node::new(raw))
        })
        .collect()
}

impl Node {
    fn new(raw: RawNode) -> Self {
        let os = |cpu: usize| PuOs(raw.abstract_to_os[cpu]);
        let group = |size: usize| -> Vec<CpuSet> {
            (0..raw.abstract_to_os.len() / size)
                .map(|i| (i * size..(i + 1) * size).map(os).collect())
                .collect()
        };
        let numa = (0u32..)
            .zip(&raw.numa_os)
            .map(|(os, pus)| NumaNode { os, memory_bytes: None, pus: pus.parse().unwrap() })
            .collect();
        let facts = Facts {
            pus: raw.abstract_to_os.iter().map(|&os| PuOs(os)).collect(),
            sockets: group(raw.cores_per_socket * raw.threads_per_core),
            cores: group(raw.threads_per_core),
            numa,
            ..Facts::default()
        };
        assert_eq!(raw.abstract_to_os.len(), raw.sockets * raw.cores_per_socket * raw.threads_per_core);
        Self { topology: facts.assemble().unwrap(), to_os: raw.abstract_to_os }
    }

    /// Slurm numbers CPUs socket by socket, core by core.
    fn real(real: &RealTopology) -> Self {
        let mut cpus: Vec<&RealCpu> = real.os_cpus.iter().collect();
        cpus.sort_by_key(|cpu| (cpu.socket, cpu.core, cpu.cpu));
        let nodes: std::collections::BTreeSet<u32> = cpus.iter().map(|cpu| cpu.node).collect();
        let of_node = |node: u32| {
            let pus = cpus.iter().filter(|cpu| cpu.node == node);
            pus.map(|cpu| PuOs(cpu.cpu)).collect::<CpuSet>().to_string()
        };
        Self::new(RawNode {
            node: real.name.clone(),
            sockets: real.sockets,
            cores_per_socket: real.cores_per_socket,
            threads_per_core: real.threads_per_core,
            abstract_to_os: cpus.iter().map(|cpu| cpu.cpu).collect(),
            numa_os: nodes.into_iter().map(of_node).collect(),
        })
    }
}

/// `p221n[1-3],q1` as names.
fn expand(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find([',', '[']).unwrap_or(rest.len());
        if rest[end..].starts_with('[') {
            let close = rest.find(']').unwrap();
            let set: CpuSet = rest[end + 1..close].parse().unwrap();
            names.extend(set.iter().map(|pu| format!("{}{pu}", &rest[..end])));
            rest = rest[close + 1..].trim_start_matches(',');
        } else {
            names.push(rest[..end].to_owned());
            rest = rest[end..].trim_start_matches(',');
        }
    }
    names
}

impl Node {
    fn os_of(&self, abstract_ids: &str) -> CpuSet {
        let ids: CpuSet = abstract_ids.parse().unwrap();
        ids.iter().map(|id| PuOs(self.to_os[id.0 as usize])).collect()
    }
}

impl RowFile {
    pub(crate) fn rows(&self) -> Vec<Row> {
        if self.name.starts_with("real-") {
            return lines(&self.path).iter().map(|line| real(serde_json::from_str(line).unwrap())).collect();
        }
        let nodes = nodes();
        lines(&self.path).iter().map(|line| row(&nodes, serde_json::from_str(line).unwrap())).collect()
    }
}

fn row(nodes: &BTreeMap<String, Node>, raw: RawRow) -> Row {
    let hosts = raw
        .nodes
        .iter()
        .map(|name| {
            let node = &nodes[name];
            let mut host = Host::idle(node.topology.clone());
            for held in &raw.held {
                host.free = host.free.difference(&node.os_of(&held.cpu_ids));
            }
            host
        })
        .collect();
    let place = |name: &str| raw.nodes.iter().position(|node| node == name).unwrap();
    let layout = (raw.status == "ok").then(|| {
        let mut allocated = BTreeMap::new();
        for alloc in &raw.job.as_ref().unwrap().alloc {
            for name in expand(&alloc.nodes) {
                allocated.insert(place(&name), nodes[&name].os_of(&alloc.cpu_ids).to_string());
            }
        }
        let mut tasks: Vec<(usize, usize, Option<String>)> = raw
            .tasks
            .iter()
            .flatten()
            .map(|task| {
                let mask = task.os_mask.as_ref().map(|mask| CpuSet::from_mask(mask).unwrap().to_string());
                (task.task, place(&task.node), mask)
            })
            .collect();
        tasks.sort();
        Wanted { allocated, tasks }
    });
    let select = if raw.select_params.contains("CR_CPU") { Select::Cpu } else { Select::Core };
    Row { opts: raw.opts, nodes: raw.nodes, hosts, select, layout, effective: false, status: raw.status }
}

fn real(raw: RealRow) -> Row {
    let node = Node::real(&raw.topology);
    let mut host = Host::idle(node.topology.clone());
    if let Some(held) = &raw.occupied_cpu_ids {
        host.free = host.free.difference(&node.os_of(held));
    }
    let layout = (raw.rc == 0).then(|| {
        let allocated = node.os_of(raw.cpu_ids.as_deref().unwrap()).to_string();
        let mut tasks: Vec<(usize, usize, Option<String>)> =
            raw.tasks.iter().map(|task| (task.procid, 0, Some(task.cpus.clone()))).collect();
        tasks.sort();
        Wanted { allocated: BTreeMap::from([(0, allocated)]), tasks }
    });
    let select = if raw.select_params.contains("CR_CPU") { Select::Cpu } else { Select::Core };
    Row {
        opts: raw.options.split_whitespace().map(str::to_owned).collect(),
        nodes: vec![raw.topology.name],
        hosts: vec![host],
        select,
        layout,
        effective: true,
        status: format!("rc {}", raw.rc),
    }
}

/// What the kernel makes of a layout when each job is confined to its allocation.
fn enforced(layout: &Layout) -> Layout {
    let mut layout = layout.clone();
    for place in &mut layout.tasks {
        let share = layout.hosts.iter().find(|share| share.host == place.host).unwrap();
        let within = place
            .cpus
            .as_ref()
            .map_or_else(|| share.allocated.clone(), |cpus| cpus.intersection(&share.allocated));
        place.cpus = Some(within);
    }
    layout
}

/// Whether the layout of a row is Slurm's; otherwise what differs.
pub(crate) fn compare(row: &Row) -> Result<(), String> {
    let got = LayoutRequest::from_args(&row.opts)
        .map_err(|error| error.to_string())
        .and_then(|request| lay_out(&row.hosts, &request, row.select).map_err(|error| error.to_string()));
    let got = if row.effective { got.as_ref().map(enforced).map_err(Clone::clone) } else { got };
    let found = got.as_ref().ok().map(Wanted::from);
    if found == row.layout {
        return Ok(());
    }
    let free: Vec<String> = row.hosts.iter().map(|host| host.free.to_string()).collect();
    Err(format!(
        "{} [{}] {} free {}\n  want {}\n  got  {}",
        row.nodes.join("+"),
        row.opts.join(" "),
        row.status,
        free.join(" | "),
        row.layout.as_ref().map_or_else(|| "refused".to_owned(), written),
        match &got {
            Ok(layout) => written(&Wanted::from(layout)),
            Err(error) => error.clone(),
        }
    ))
}

fn written(layout: &Wanted) -> String {
    let hosts: Vec<String> = layout.allocated.iter().map(|(host, pus)| format!("{host}:{pus}")).collect();
    let tasks: Vec<String> = layout
        .tasks
        .iter()
        .map(|(task, host, pus)| format!("{task}@{host}:{}", pus.as_deref().unwrap_or("*")))
        .collect();
    format!("{}\n       {}", hosts.join(" "), tasks.join(" "))
}
